/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hugefuse stat --json, as in docs/json.md.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/output.h"
#include "tools/stat_output.h"

static void add_number(json_object *object, const char *key, uint64_t value)
{
	json_object_object_add(
		object, key, value == SNAPSHOT_UNKNOWN ? NULL : json_object_new_uint64(value));
}

static json_object *json_value(const char *text)
{
	char *end;
	double value;

	if (text[strspn(text, "0123456789")] == '\0' && strlen(text) < 20)
		return json_object_new_uint64(strtoull(text, NULL, 10));
	value = strtod(text, &end);
	if (text[strspn(text, "0123456789.")] == '\0' && *end == '\0')
		return json_object_new_double_s(value, text);
	return output_json_string(text);
}

static json_object *json_pool(const struct snapshot_pool *pool)
{
	json_object *object = json_object_new_object();

	add_number(object, "page_size", pool->page_size);
	if (pool->node >= 0)
		json_object_object_add(object, "node", json_object_new_int(pool->node));
	add_number(object, "nr_hugepages", pool->nr);
	add_number(object, "free_hugepages", pool->free);
	add_number(object, "surplus_hugepages", pool->surplus);
	add_number(object, "total_bytes", pool->nr * pool->page_size);
	add_number(object, "free_bytes", pool->free * pool->page_size);
	add_number(object, "surplus_bytes", pool->surplus * pool->page_size);
	if (pool->node >= 0)
		return object;
	add_number(object, "resv_hugepages", pool->resv);
	add_number(object, "nr_overcommit_hugepages", pool->overcommit);
	add_number(object, "reserved_bytes", pool->resv * pool->page_size);
	add_number(object, "overcommit_bytes", pool->overcommit * pool->page_size);
	return object;
}

static json_object *json_tenants(const struct mount_snapshot *mount)
{
	json_object *array = json_object_new_array(), *object;

	for (size_t i = 1; i < mount->tenants.count; i++) {
		const struct snapshot_tenant *tenant = &mount->tenants.tenants[i];

		object = json_object_new_object();
		json_object_object_add(object, "path", output_json_string(tenant->path));
		add_number(object, "size",
			   tenant->size_kb == SNAPSHOT_UNKNOWN ? SNAPSHOT_UNKNOWN
							       : tenant->size_kb * 1024);
		add_number(object, "min_size", tenant->min_size_kb * 1024);
		add_number(object, "used", tenant->used_kb * 1024);
		add_number(object, "reserved", tenant->reserved_kb * 1024);
		add_number(object, "files", tenant->files);
		add_number(object, "refused", tenant->refused);
		json_object_array_add(array, object);
	}
	return array;
}

static json_object *json_splits(const struct mount_snapshot *mount)
{
	json_object *array = json_object_new_array(), *object;

	for (size_t i = 0; i < mount->splits.count; i++) {
		const struct snapshot_split *split = &mount->splits.splits[i];

		object = json_object_new_object();
		add_number(object, "node", split->node);
		json_object_object_add(
			object, "tenant",
			split->tenant[0] == '/' ? output_json_string(split->tenant) : NULL);
		add_number(object, "queued", split->queued);
		add_number(object, "could_free_bytes", split->could_free_kb * 1024);
		add_number(object, "deferred", split->deferred);
		add_number(object, "split", split->split);
		add_number(object, "emptied", split->emptied);
		add_number(object, "refilled", split->refilled);
		add_number(object, "settled", split->settled);
		add_number(object, "cut", split->cut);
		add_number(object, "elsewhere", split->elsewhere);
		add_number(object, "freed_bytes", split->freed_kb * 1024);
		json_object_array_add(array, object);
	}
	return array;
}

static json_object *json_holder(const struct holder *holder)
{
	static const char *const kinds[] = {
		[HOLDER_FILE] = "file", [HOLDER_PRIVATE] = "private", [HOLDER_MOUNT] = "mount"};
	json_object *object = json_object_new_object(), *path = NULL, *pid = NULL;

	if (holder->kind != HOLDER_MOUNT)
		path = output_json_string(holder->path);
	if (holder->pid != SNAPSHOT_UNKNOWN)
		pid = json_object_new_uint64(holder->pid);
	json_object_object_add(object, "kind", json_object_new_string(kinds[holder->kind]));
	json_object_object_add(object, "path", path);
	json_object_object_add(object, "pid", pid);
	add_number(object, "reserved_bytes", holder->reserved);
	add_number(object, "seconds", holder->reserved_seconds);
	return object;
}

static json_object *json_stranded(const struct mount_snapshot *mount)
{
	json_object *array;
	struct holders holders;

	if (!holders_reserved_are_known(mount) || holders_find_reserved(mount, &holders) < 0)
		return NULL;
	array = json_object_new_array();
	for (size_t i = 0; i < holders.count; i++)
		json_object_array_add(array, json_holder(&holders.list[i]));
	holders_free(&holders);
	return array;
}

json_object *stat_json(const struct mount_snapshot *mount)
{
	json_object *object = json_object_new_object(), *pools = json_object_new_array();
	json_object *nodes = json_object_new_array(), *faults = json_object_new_object();

	for (int i = 0; i < mount->nr_pools; i++)
		json_object_array_add(mount->pools[i].node < 0 ? pools : nodes,
				      json_pool(&mount->pools[i]));
	for (size_t i = 0; i < mount->faults.count; i++)
		json_object_object_add(faults, mount->faults.values[i].name,
				       json_value(mount->faults.values[i].value));
	json_object_object_add(object, "mountpoint", output_json_string(mount->mountpoint));
	json_object_object_add(object, "error", NULL);
	json_object_object_add(object, "options", output_json_string(mount->options));
	json_object_object_add(object, "pools", pools);
	json_object_object_add(object, "nodes", nodes);
	json_object_object_add(object, "tenants", json_tenants(mount));
	json_object_object_add(object, "splits", json_splits(mount));
	json_object_object_add(object, "stranded", json_stranded(mount));
	json_object_object_add(object, "fault_stat", faults);
	return object;
}
