/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hugefuse ls: the files of a mount with the pages that they hold and reserve.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/cmd.h"
#include "tools/escape.h"
#include "tools/output.h"
#include "tools/snapshot.h"

typedef int (*compare_files)(const void *a, const void *b);

static int compare_path(const void *a, const void *b)
{
	const struct snapshot_file *left = a, *right = b;

	return strcmp(left->path, right->path);
}

/* The largest first. */
static int compare_numbers(uint64_t left, uint64_t right, const void *a, const void *b)
{
	if (left != right)
		return left > right ? -1 : 1;
	return compare_path(a, b);
}

static int compare_size(const void *a, const void *b)
{
	const struct snapshot_file *left = a, *right = b;

	return compare_numbers(left->size, right->size, a, b);
}

static int compare_resident(const void *a, const void *b)
{
	const struct snapshot_file *left = a, *right = b;

	return compare_numbers(left->instantiated_kb, right->instantiated_kb, a, b);
}

static int compare_reserved(const void *a, const void *b)
{
	const struct snapshot_file *left = a, *right = b;

	return compare_numbers(left->reserved_kb, right->reserved_kb, a, b);
}

static int compare_mappings(const void *a, const void *b)
{
	const struct snapshot_file *left = a, *right = b;

	return compare_numbers(left->mappings, right->mappings, a, b);
}

static compare_files find_sort_key(const char *name)
{
	static const struct {
		const char *name;
		compare_files compare;
	} keys[] = {
		{"size", compare_size},         {"resident", compare_resident},
		{"reserved", compare_reserved}, {"mappings", compare_mappings},
		{"path", compare_path},
	};
	size_t i;

	for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (strcmp(keys[i].name, name) == 0)
			return keys[i].compare;
	}
	return NULL;
}

static void sort_files(struct snapshot_rows *rows, compare_files compare, bool reverse)
{
	struct snapshot_file file, *files = rows->files;
	size_t i;

	if (rows->count > 1)
		qsort(files, rows->count, sizeof(*files), compare);
	for (i = 0; reverse && i < rows->count / 2; i++) {
		file = files[i];
		files[i] = files[rows->count - 1 - i];
		files[rows->count - 1 - i] = file;
	}
}

static int print_table(const struct snapshot_rows *rows)
{
	static const struct table_column columns[] = {
		{.title = "SIZE"},
		{.title = "RESIDENT"},
		{.title = "RESERVED"},
		{.title = "MAPPINGS"},
		{.title = "WAY", .left = true, .optional = true},
		{.title = "LINKS", .optional = true},
		{.title = "UID", .optional = true},
		{.title = "PATH", .left = true},
	};
	struct table table;
	size_t i;
	int r;

	table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
	for (i = 0; i < rows->count; i++) {
		const struct snapshot_file *file = &rows->files[i];
		char *path = escape_for_terminal(file->path);

		table_add(&table, quantity_bytes(file->size).text);
		table_add(&table, quantity_bytes(file->instantiated_kb * 1024).text);
		table_add(&table, quantity_bytes(file->reserved_kb * 1024).text);
		table_add(&table, quantity_count(file->mappings).text);
		table_add(&table, file->way);
		table_add(&table, quantity_count(file->links).text);
		table_add(&table, quantity_count(file->uid).text);
		table_add(&table, path ? path : "?");
		free(path);
	}
	r = table_print(&table, output_width());
	table_deinit(&table);
	return r;
}

static json_object *json_file(const struct snapshot_file *file)
{
	json_object *object = json_object_new_object();

	json_object_object_add(object, "inode", json_object_new_uint64(file->inode));
	json_object_object_add(object, "path", output_json_string(file->path));
	json_object_object_add(object, "size", json_object_new_uint64(file->size));
	json_object_object_add(object, "instantiated_bytes",
			       json_object_new_uint64(file->instantiated_kb * 1024));
	json_object_object_add(object, "reserved_bytes",
			       json_object_new_uint64(file->reserved_kb * 1024));
	json_object_object_add(object, "mappings", json_object_new_uint64(file->mappings));
	json_object_object_add(object, "way", output_json_string(file->way));
	json_object_object_add(object, "links", json_object_new_uint64(file->links));
	json_object_object_add(object, "uid", json_object_new_uint64(file->uid));
	return object;
}

static void print_json(const char *mountpoint, const struct snapshot_rows *rows,
		       uint64_t page_size)
{
	json_object *root = output_json_new(), *files = json_object_new_array();
	size_t i;

	for (i = 0; i < rows->count; i++)
		json_object_array_add(files, json_file(&rows->files[i]));
	json_object_object_add(root, "mountpoint", output_json_string(mountpoint));
	json_object_object_add(root, "page_size", json_object_new_uint64(page_size));
	json_object_object_add(root, "files", files);
	output_json_print(root);
}

struct ls_request {
	const struct verb *verb;
	compare_files compare;
	bool json, reverse;
};

static int list_files(const struct ls_request *request, const char *mountpoint)
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
		r = snapshot_read_files(dir_fd, &rows, &error);
	if (r >= 0) {
		sort_files(&rows, request->compare, request->reverse);
		if (request->json)
			print_json(mountpoint, &rows, pools[0].page_size);
		else if (print_table(&rows) < 0)
			r = snapshot_fail(&error, -ENOMEM, "out of memory");
	}
	if (r < 0)
		cmd_fail_at(request->verb, mountpoint, error.text);
	snapshot_rows_free(&rows);
	free(pools);
	if (dir_fd >= 0)
		close(dir_fd);
	return r < 0 ? EXIT_FAILED : EXIT_OK;
}

#define OPT_SORT 0x200

int cmd_ls(const struct verb *verb, int argc, char **argv)
{
	static const struct option long_options[] = {
		{"json", no_argument, NULL, CMD_OPT_JSON},
		{"reverse", no_argument, NULL, 'r'},
		{"sort", required_argument, NULL, OPT_SORT},
		CMD_COMMON_OPTIONS,
	};
	struct ls_request request = {.verb = verb, .compare = compare_path};
	int c, exit_code;

	while ((c = cmd_getopt(verb, argc, argv, ":hr", long_options, &exit_code)) != -1) {
		if (c == CMD_EXIT)
			return exit_code;
		if (c == CMD_OPT_JSON)
			request.json = true;
		else if (c == 'r')
			request.reverse = true;
		else
			request.compare = find_sort_key(optarg);
		if (!request.compare)
			return cmd_fail(verb, EXIT_USAGE,
					"unknown key '--sort %.100s'; accepted are size, "
					"resident, reserved, mappings and path",
					optarg);
	}
	if (argc - optind != 1)
		return cmd_fail(verb, EXIT_USAGE, "one MOUNTPOINT is to be given, not %d",
				argc - optind);
	return list_files(&request, argv[optind]);
}
