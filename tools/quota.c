/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Tenants for people and for programs. The first row of .hugefuse/tenants is the mount itself.
 */
#include "tools/quota.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/escape.h"
#include "tools/output.h"

int quota_parse(char *text, struct quota *ret_quota)
{
	struct quota quota = {0};
	const struct {
		const char *name;
		uint64_t *value;
	} members[] = {
		{"size", &quota.size},   {"min_size", &quota.min_size},
		{"used", &quota.used},   {"reserved", &quota.reserved},
		{"files", &quota.files}, {"refused", &quota.refused},
	};
	size_t i, nr_found = 0;
	char *item, *save = NULL, *value, *end;

	for (item = strtok_r(text, ",", &save); item; item = strtok_r(NULL, ",", &save)) {
		value = strchr(item, '=');
		if (!value)
			return -EBADMSG;
		*value++ = '\0';
		for (i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
			if (strcmp(members[i].name, item) != 0)
				continue;
			nr_found++;
			if (i == 0 && strcmp(value, "none") == 0)
				continue;
			quota.has_size = quota.has_size || i == 0;
			*members[i].value = strtoull(value, &end, 10);
			if (end == value || *end)
				return -EBADMSG;
		}
	}
	if (nr_found != sizeof(members) / sizeof(members[0]))
		return -EBADMSG;
	*ret_quota = quota;
	return 0;
}

void quota_add_json(json_object *object, const struct quota *quota)
{
	json_object_object_add(object, "size",
			       quota->has_size ? json_object_new_uint64(quota->size) : NULL);
	json_object_object_add(object, "min_size", json_object_new_uint64(quota->min_size));
	json_object_object_add(object, "used", json_object_new_uint64(quota->used));
	json_object_object_add(object, "reserved", json_object_new_uint64(quota->reserved));
	json_object_object_add(object, "files", json_object_new_uint64(quota->files));
	json_object_object_add(object, "refused", json_object_new_uint64(quota->refused));
}

static struct quota quota_of(const struct snapshot_tenant *tenant)
{
	return (struct quota){
		.has_size = strcmp(tenant->size_kb, "-") != 0,
		.size = strtoull(tenant->size_kb, NULL, 10) * 1024,
		.min_size = tenant->min_size_kb * 1024,
		.used = tenant->used_kb * 1024,
		.reserved = tenant->reserved_kb * 1024,
		.files = tenant->files,
		.refused = tenant->refused,
	};
}

int quota_print_tenants(const struct snapshot_rows *tenants)
{
	static const struct table_column columns[] = {
		{.title = "SIZE"},
		{.title = "MIN_SIZE"},
		{.title = "USED"},
		{.title = "RESERVED"},
		{.title = "FILES", .optional = true},
		{.title = "REFUSED", .optional = true},
		{.title = "TENANT", .left = true},
	};
	struct table table;
	int r;

	if (tenants->count < 2)
		return 0;
	putchar('\n');
	table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 1; i < tenants->count; i++) {
		struct quota quota = quota_of(&tenants->tenants[i]);
		char *path = escape_for_terminal(tenants->tenants[i].path);

		table_add(&table, quota.has_size ? quantity_bytes(quota.size).text : "none");
		table_add(&table, quantity_bytes(quota.min_size).text);
		table_add(&table, quantity_bytes(quota.used).text);
		table_add(&table, quantity_bytes(quota.reserved).text);
		table_add(&table, quantity_count(quota.files).text);
		table_add(&table, quantity_count(quota.refused).text);
		table_add(&table, path ? path : "?");
		free(path);
	}
	r = table_print(&table, output_width());
	table_deinit(&table);
	return r;
}

json_object *quota_json_tenants(const struct snapshot_rows *tenants)
{
	json_object *array = json_object_new_array(), *object;
	struct quota quota;

	for (size_t i = 1; i < tenants->count; i++) {
		object = json_object_new_object();
		quota = quota_of(&tenants->tenants[i]);
		json_object_object_add(object, "path",
				       output_json_string(tenants->tenants[i].path));
		quota_add_json(object, &quota);
		json_object_array_add(array, object);
	}
	return array;
}
