/* SPDX-License-Identifier: GPL-2.0-or-later */
/* hugefuse maps: which processes have mapped what directly. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/cmd.h"
#include "tools/escape.h"
#include "tools/output.h"
#include "tools/snapshot.h"

/* What is counted in base pages has its own column: @kb, or SNAPSHOT_UNKNOWN. */
static uint64_t bytes_of(uint64_t kb, uint64_t nr_pages, uint64_t page_size)
{
	return kb == SNAPSHOT_UNKNOWN ? nr_pages * page_size : kb * 1024;
}

static int print_table(const struct snapshot_rows *rows, uint64_t page_size)
{
	static const struct table_column columns[] = {
		{.title = "PID"},
		{.title = "COMMAND", .left = true},
		{.title = "UID", .optional = true},
		{.title = "ADDRESS"},
		{.title = "SIZE"},
		{.title = "RESIDENT"},
		{.title = "RESERVED"},
		{.title = "KIND", .left = true},
		{.title = "WAY", .left = true, .optional = true},
		{.title = "OFFSET", .optional = true},
		{.title = "PATH", .left = true},
	};
	struct table table;
	char address[24];
	int r;

	table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < rows->count; i++) {
		const struct snapshot_mapping *mapping = &rows->mappings[i];
		char *path = escape_for_terminal(mapping->path);
		char *comm = escape_for_terminal(mapping->comm);

		snprintf(address, sizeof(address), "%lx", (unsigned long)mapping->start);
		table_add(&table, quantity_count(mapping->pid).text);
		table_add(&table, comm ? comm : "?");
		table_add(&table, quantity_count(mapping->uid).text);
		table_add(&table, address);
		table_add(&table, quantity_bytes(mapping->end - mapping->start).text);
		table_add(&table, quantity_bytes(bytes_of(mapping->instantiated_kb,
							  mapping->instantiated, page_size))
					  .text);
		table_add(&table, quantity_bytes(bytes_of(mapping->reserved_kb,
							  mapping->reserved, page_size))
					  .text);
		table_add(&table, mapping->kind);
		table_add(&table, mapping->way);
		table_add(&table, quantity_bytes(mapping->offset).text);
		table_add(&table, path ? path : "?");
		free(comm);
		free(path);
	}
	r = table_print(&table, output_width());
	table_deinit(&table);
	return r;
}

static json_object *json_mapping(const struct snapshot_mapping *mapping, uint64_t page_size)
{
	json_object *object = json_object_new_object();

	json_object_object_add(object, "mapping", json_object_new_uint64(mapping->mapping));
	json_object_object_add(object, "pid", json_object_new_uint64(mapping->pid));
	json_object_object_add(object, "command", output_json_string(mapping->comm));
	json_object_object_add(object, "uid", json_object_new_uint64(mapping->uid));
	json_object_object_add(object, "start", json_object_new_uint64(mapping->start));
	json_object_object_add(object, "end", json_object_new_uint64(mapping->end));
	json_object_object_add(object, "offset", json_object_new_uint64(mapping->offset));
	json_object_object_add(object, "inode", json_object_new_uint64(mapping->inode));
	json_object_object_add(object, "kind", output_json_string(mapping->kind));
	json_object_object_add(object, "way", output_json_string(mapping->way));
	json_object_object_add(
		object, "instantiated_bytes",
		json_object_new_uint64(
			bytes_of(mapping->instantiated_kb, mapping->instantiated, page_size)));
	json_object_object_add(object, "reserved_bytes",
			       json_object_new_uint64(bytes_of(mapping->reserved_kb,
							       mapping->reserved, page_size)));
	json_object_object_add(object, "path", output_json_string(mapping->path));
	return object;
}

static void print_json(const char *mountpoint, const struct snapshot_rows *rows,
		       uint64_t page_size)
{
	json_object *root = output_json_new(), *mappings = json_object_new_array();

	for (size_t i = 0; i < rows->count; i++)
		json_object_array_add(mappings, json_mapping(&rows->mappings[i], page_size));
	json_object_object_add(root, "mountpoint", output_json_string(mountpoint));
	json_object_object_add(root, "page_size", json_object_new_uint64(page_size));
	json_object_object_add(root, "mappings", mappings);
	output_json_print(root);
}

/* By process, then by address. */
static int compare_mappings(const void *a, const void *b)
{
	const struct snapshot_mapping *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return (x->start > y->start) - (x->start < y->start);
}

/* Leave those of process @pid; 0: all. */
static void select_process(struct snapshot_rows *rows, uint64_t pid)
{
	size_t nr = 0;

	for (size_t i = 0; i < rows->count; i++) {
		if (pid == 0 || rows->mappings[i].pid == pid)
			rows->mappings[nr++] = rows->mappings[i];
	}
	rows->count = nr;
	if (nr > 1)
		qsort(rows->mappings, nr, sizeof(*rows->mappings), compare_mappings);
}

static int list_mappings(const struct verb *verb, const char *mountpoint, bool json,
			 uint64_t pid)
{
	struct snapshot_pool *pools = NULL;
	struct snapshot_rows rows = {0};
	struct snapshot_error error;
	int dir_fd, r;

	dir_fd = snapshot_open(mountpoint, &error);
	r = dir_fd;
	if (r >= 0)
		r = snapshot_read_pools(dir_fd, &pools, &error);
	if (r >= 0)
		r = snapshot_read_maps(dir_fd, &rows, &error);
	if (r >= 0) {
		select_process(&rows, pid);
		if (json)
			print_json(mountpoint, &rows, pools[0].page_size);
		else if (print_table(&rows, pools[0].page_size) < 0)
			r = snapshot_fail(&error, -ENOMEM, "out of memory");
	}
	if (r < 0)
		cmd_fail_at(verb, mountpoint, error.text);
	snapshot_rows_free(&rows);
	free(pools);
	if (dir_fd >= 0)
		close(dir_fd);
	return r < 0 ? EXIT_FAILED : EXIT_OK;
}

/* A process id, or 0. */
static uint64_t parse_pid(const char *text)
{
	unsigned long pid;
	char *end;

	errno = 0;
	pid = strtoul(text, &end, 10);
	if (errno || *end || *text < '1' || *text > '9' || pid > INT32_MAX)
		return 0;
	return pid;
}

int cmd_maps(const struct verb *verb, int argc, char **argv)
{
	static const struct option long_options[] = {
		{"json", no_argument, NULL, CMD_OPT_JSON},
		{"pid", required_argument, NULL, 'p'},
		CMD_COMMON_OPTIONS,
	};
	uint64_t pid = 0;
	bool json = false;
	int c, exit_code;

	while ((c = cmd_getopt(verb, argc, argv, ":hp:", long_options, &exit_code)) != -1) {
		if (c == CMD_EXIT)
			return exit_code;
		if (c == CMD_OPT_JSON) {
			json = true;
			continue;
		}
		pid = parse_pid(optarg);
		if (!pid)
			return cmd_fail(verb, EXIT_USAGE,
					"'--pid %.100s' is no process id; accepted is a "
					"number from 1",
					optarg);
	}
	if (argc - optind != 1)
		return cmd_fail(verb, EXIT_USAGE, "one MOUNTPOINT is to be given, not %d",
				argc - optind);
	return list_mappings(verb, argv[optind], json, pid);
}
