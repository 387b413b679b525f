/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hugefuse stat: pools, faults and options of the mounts given, or of all that there are.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/cmd.h"
#include "tools/escape.h"
#include "tools/mountpoint.h"
#include "tools/output.h"
#include "tools/quota.h"
#include "tools/snapshot.h"

struct mount_stat {
	struct snapshot_pool *pools;
	int nr_pools;
	struct snapshot_rows faults;
	struct snapshot_rows tenants; /* root's to see */
	char *options;
};

static void mount_stat_deinit(struct mount_stat *stat)
{
	free(stat->pools);
	free(stat->options);
	snapshot_rows_free(&stat->faults);
	snapshot_rows_free(&stat->tenants);
}

static int mount_stat_read(const char *mountpoint, struct mount_stat *stat,
			   struct snapshot_error *error)
{
	int dir_fd = snapshot_open(mountpoint, error), r = dir_fd;

	if (dir_fd < 0)
		return dir_fd;
	r = snapshot_read_pools(dir_fd, &stat->pools, error);
	if (r >= 0) {
		stat->nr_pools = r;
		r = snapshot_read_values(dir_fd, "fault_stat", &stat->faults, error);
	}
	if (r >= 0) {
		r = snapshot_read_tenants(dir_fd, &stat->tenants, error);
		if (r == -EACCES || r == -ENOENT)
			r = 0;
	}
	if (r >= 0)
		r = (int)snapshot_read_text(dir_fd, "options", &stat->options, error);
	if (r >= 0)
		stat->options[strcspn(stat->options, "\n")] = '\0';
	close(dir_fd);
	return r < 0 ? r : 0;
}

/* ---- for people ---- */

static uint64_t pool_used(const struct snapshot_pool *pool)
{
	return pool->nr > pool->free ? pool->nr - pool->free : 0;
}

static void add_pool(struct table *table, const struct snapshot_pool *pool)
{
	uint64_t page_size = pool->page_size;
	char title[64];

	if (pool->node < 0)
		snprintf(title, sizeof(title), "%s pages", quantity_bytes(page_size).text);
	else
		snprintf(title, sizeof(title), "  node%d", pool->node);
	table_add(table, title);
	table_add(table, quantity_count(pool->nr).text);
	table_add(table, quantity_bytes(pool->nr * page_size).text);
	table_add(table, quantity_bytes(pool_used(pool) * page_size).text);
	table_add(table, quantity_bytes(pool->free * page_size).text);
	table_add(table, pool->node < 0 ? quantity_bytes(pool->resv * page_size).text : "");
	table_add(table, quantity_bytes(pool->surplus * page_size).text);
	table_add(table,
		  pool->node < 0 ? quantity_bytes(pool->overcommit * page_size).text : "");
}

static int print_pools(const struct mount_stat *stat)
{
	static const struct table_column columns[] = {
		{.title = "POOL", .left = true},
		{.title = "PAGES", .optional = true},
		{.title = "TOTAL"},
		{.title = "USED"},
		{.title = "FREE"},
		{.title = "RESERVED"},
		{.title = "SURPLUS", .optional = true},
		{.title = "OVERCOMMIT", .optional = true},
	};
	struct table table;
	int i, r;

	table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
	for (i = 0; i < stat->nr_pools; i++)
		add_pool(&table, &stat->pools[i]);
	r = table_print(&table, output_width());
	table_deinit(&table);
	return r;
}

static int print_faults(const struct snapshot_rows *faults)
{
	static const struct table_column columns[] = {
		{.title = "FAULTS", .left = true},
		{.title = ""},
	};
	struct table table;
	size_t i;
	int r;

	if (faults->count == 0)
		return 0;
	putchar('\n');
	table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
	for (i = 0; i < faults->count; i++) {
		table_add(&table, faults->values[i].name);
		table_add(&table, faults->values[i].value);
	}
	r = table_print(&table, output_width());
	table_deinit(&table);
	return r;
}

static int print_human(const char *mountpoint, const struct mount_stat *stat)
{
	char *path = escape_for_terminal(mountpoint);
	char *options = escape_for_terminal(stat->options);
	int r = -ENOMEM;

	if (path && options) {
		printf("%s\n%s\n\n", path, options);
		r = print_pools(stat);
		if (r == 0)
			r = quota_print_tenants(&stat->tenants);
		if (r == 0)
			r = print_faults(&stat->faults);
	}
	free(path);
	free(options);
	return r;
}

/* ---- for programs ---- */

static json_object *json_value(const char *text)
{
	char *end;

	if (text[strspn(text, "0123456789")] == '\0' && strlen(text) < 20)
		return json_object_new_uint64(strtoull(text, NULL, 10));
	if (text[strspn(text, "0123456789.")] == '\0') {
		double value = strtod(text, &end);

		if (*end == '\0')
			return json_object_new_double_s(value, text);
	}
	return output_json_string(text);
}

static json_object *json_pool(const struct snapshot_pool *pool)
{
	json_object *object = json_object_new_object();

	json_object_object_add(object, "page_size", json_object_new_uint64(pool->page_size));
	if (pool->node >= 0)
		json_object_object_add(object, "node", json_object_new_int(pool->node));
	json_object_object_add(object, "nr_hugepages", json_object_new_uint64(pool->nr));
	json_object_object_add(object, "free_hugepages", json_object_new_uint64(pool->free));
	json_object_object_add(object, "surplus_hugepages",
			       json_object_new_uint64(pool->surplus));
	if (pool->node < 0) {
		json_object_object_add(object, "resv_hugepages",
				       json_object_new_uint64(pool->resv));
		json_object_object_add(object, "nr_overcommit_hugepages",
				       json_object_new_uint64(pool->overcommit));
	}
	return object;
}

static json_object *json_mount(const char *mountpoint, const struct mount_stat *stat)
{
	json_object *object = json_object_new_object(), *pools = json_object_new_array();
	json_object *nodes = json_object_new_array(), *faults = json_object_new_object();
	size_t i;
	int j;

	for (j = 0; j < stat->nr_pools; j++)
		json_object_array_add(stat->pools[j].node < 0 ? pools : nodes,
				      json_pool(&stat->pools[j]));
	for (i = 0; i < stat->faults.count; i++)
		json_object_object_add(faults, stat->faults.values[i].name,
				       json_value(stat->faults.values[i].value));
	json_object_object_add(object, "mountpoint", output_json_string(mountpoint));
	json_object_object_add(object, "options", output_json_string(stat->options));
	json_object_object_add(object, "pools", pools);
	json_object_object_add(object, "nodes", nodes);
	json_object_object_add(object, "tenants", quota_json_tenants(&stat->tenants));
	json_object_object_add(object, "fault_stat", faults);
	return object;
}

static json_object *json_failed_mount(const char *mountpoint, const char *error)
{
	json_object *object = json_object_new_object();

	json_object_object_add(object, "mountpoint", output_json_string(mountpoint));
	json_object_object_add(object, "error", output_json_string(error));
	return object;
}

/* ---- the verb ---- */

static int stat_one(const struct verb *verb, const char *mountpoint, bool first,
		    json_object *mounts)
{
	struct mount_stat stat = {0};
	struct snapshot_error error;
	int r;

	r = mount_stat_read(mountpoint, &stat, &error);
	if (r == 0 && mounts) {
		json_object_array_add(mounts, json_mount(mountpoint, &stat));
	} else if (r == 0) {
		if (!first)
			putchar('\n');
		r = print_human(mountpoint, &stat);
		if (r < 0)
			snapshot_fail(&error, r, "out of memory");
	} else if (mounts) {
		json_object_array_add(mounts, json_failed_mount(mountpoint, error.text));
	}
	if (r < 0)
		cmd_fail_at(verb, mountpoint, error.text);
	mount_stat_deinit(&stat);
	return r < 0 ? EXIT_FAILED : EXIT_OK;
}

static int stat_all(const struct verb *verb, json_object *mounts)
{
	struct mountpoint *list;
	int i, count, exit_code = EXIT_OK;

	count = mountpoint_list("/proc/self/mountinfo", &list);
	if (count < 0)
		return cmd_fail(verb, EXIT_FAILED, "/proc/self/mountinfo: %s",
				strerror(-count));
	for (i = 0; i < count; i++) {
		if (stat_one(verb, list[i].path, i == 0, mounts) != EXIT_OK)
			exit_code = EXIT_FAILED;
	}
	mountpoint_list_free(list, count);
	if (count == 0 && !mounts)
		printf("no hugefuse filesystem is mounted; 'hugefuse mount MOUNTPOINT' mounts one\n");
	return exit_code;
}

int cmd_stat(const struct verb *verb, int argc, char **argv)
{
	static const struct option long_options[] = {
		{"json", no_argument, NULL, CMD_OPT_JSON},
		CMD_COMMON_OPTIONS,
	};
	json_object *root = NULL, *mounts = NULL;
	int c, i, exit_code = EXIT_OK;
	bool json = false;

	while ((c = cmd_getopt(verb, argc, argv, ":h", long_options, &exit_code)) != -1) {
		if (c == CMD_EXIT)
			return exit_code;
		json = true;
	}
	if (json) {
		root = output_json_new();
		mounts = json_object_new_array();
		json_object_object_add(root, "mounts", mounts);
	}
	if (optind == argc)
		exit_code = stat_all(verb, mounts);
	for (i = optind; i < argc; i++) {
		if (stat_one(verb, argv[i], i == optind, mounts) != EXIT_OK)
			exit_code = EXIT_FAILED;
	}
	if (json)
		output_json_print(root);
	return exit_code;
}
