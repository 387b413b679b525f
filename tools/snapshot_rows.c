/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The tables of .hugefuse and their columns, and files of names and values.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/snapshot_table.h"

#define FIELD(type, member, field_kind)                                   \
	{                                                                 \
#member, field_kind, offsetof(struct type, member), false \
	}
#define OPTIONAL(type, member, field_kind)                               \
	{                                                                \
#member, field_kind, offsetof(struct type, member), true \
	}
#define LAYOUT(name, type, fields)                                                      \
	{                                                                               \
		name, fields, sizeof(fields) / sizeof((fields)[0]), sizeof(struct type) \
	}

struct pool_row {
	const char *node; /* "all" or a number */
	uint64_t page_kb, total_kb, free_kb, surplus_kb, resv_kb, overcommit_kb;
};

static uint64_t pages_of(const struct pool_row *row, uint64_t kb)
{
	return row->page_kb == 0 || kb == SNAPSHOT_UNKNOWN ? 0 : kb / row->page_kb;
}

static struct snapshot_pool pool_of(const struct pool_row *row)
{
	bool all = strcmp(row->node, "all") == 0;

	return (struct snapshot_pool){
		.page_size = row->page_kb * 1024,
		.node = all ? -1 : (int)strtol(row->node, NULL, 10),
		.nr = pages_of(row, row->total_kb),
		.free = pages_of(row, row->free_kb),
		.surplus = pages_of(row, row->surplus_kb),
		.resv = pages_of(row, row->resv_kb),
		.overcommit = pages_of(row, row->overcommit_kb),
	};
}

int snapshot_read_pool_table(int dir_fd, struct snapshot_pool **ret_pools,
			     struct snapshot_error *error)
{
	static const struct field fields[] = {
		FIELD(pool_row, node, FIELD_TEXT),
		FIELD(pool_row, page_kb, FIELD_DECIMAL),
		FIELD(pool_row, total_kb, FIELD_DECIMAL),
		FIELD(pool_row, free_kb, FIELD_DECIMAL),
		FIELD(pool_row, surplus_kb, FIELD_DECIMAL),
		OPTIONAL(pool_row, resv_kb, FIELD_DECIMAL),
		OPTIONAL(pool_row, overcommit_kb, FIELD_DECIMAL),
	};
	static const struct table_layout layout = LAYOUT("pool", pool_row, fields);
	struct snapshot_pool *pools;
	struct snapshot_rows rows;
	int r, count;

	r = snapshot_read_table(dir_fd, &layout, &rows, error);
	if (r < 0)
		return r;
	count = (int)rows.count;
	pools = calloc(rows.count + 1, sizeof(*pools));
	for (size_t i = 0; pools && i < rows.count; i++)
		pools[i] = pool_of((const struct pool_row *)rows.rows + i);
	snapshot_rows_free(&rows);
	if (!pools)
		return snapshot_fail(error, -ENOMEM, "out of memory");
	*ret_pools = pools;
	return count;
}

int snapshot_read_files(int dir_fd, struct snapshot_rows *ret_rows,
			struct snapshot_error *error)
{
	static const struct field fields[] = {
		FIELD(snapshot_file, inode, FIELD_DECIMAL),
		FIELD(snapshot_file, size, FIELD_DECIMAL),
		FIELD(snapshot_file, reserved_kb, FIELD_DECIMAL),
		FIELD(snapshot_file, instantiated_kb, FIELD_DECIMAL),
		FIELD(snapshot_file, mappings, FIELD_DECIMAL),
		FIELD(snapshot_file, way, FIELD_TEXT),
		FIELD(snapshot_file, links, FIELD_DECIMAL),
		FIELD(snapshot_file, uid, FIELD_DECIMAL),
		FIELD(snapshot_file, path, FIELD_TEXT),
		OPTIONAL(snapshot_file, made_ms, FIELD_DECIMAL),
		OPTIONAL(snapshot_file, changed_ms, FIELD_DECIMAL),
		OPTIONAL(snapshot_file, holders, FIELD_TEXT),
		OPTIONAL(snapshot_file, user_pid, FIELD_DECIMAL),
	};
	static const struct table_layout layout = LAYOUT("files", snapshot_file, fields);

	return snapshot_read_table(dir_fd, &layout, ret_rows, error);
}

int snapshot_read_maps(int dir_fd, struct snapshot_rows *ret_rows, struct snapshot_error *error)
{
	static const struct field fields[] = {
		FIELD(snapshot_mapping, mapping, FIELD_DECIMAL),
		FIELD(snapshot_mapping, pid, FIELD_DECIMAL),
		FIELD(snapshot_mapping, comm, FIELD_TEXT),
		FIELD(snapshot_mapping, uid, FIELD_DECIMAL),
		FIELD(snapshot_mapping, start, FIELD_HEX),
		FIELD(snapshot_mapping, end, FIELD_HEX),
		FIELD(snapshot_mapping, offset, FIELD_HEX),
		FIELD(snapshot_mapping, inode, FIELD_DECIMAL),
		FIELD(snapshot_mapping, kind, FIELD_TEXT),
		FIELD(snapshot_mapping, way, FIELD_TEXT),
		FIELD(snapshot_mapping, reserved, FIELD_DECIMAL),
		FIELD(snapshot_mapping, instantiated, FIELD_DECIMAL),
		FIELD(snapshot_mapping, path, FIELD_TEXT),
		OPTIONAL(snapshot_mapping, reserved_kb, FIELD_DECIMAL),
		OPTIONAL(snapshot_mapping, instantiated_kb, FIELD_DECIMAL),
		OPTIONAL(snapshot_mapping, touched_kb, FIELD_DECIMAL),
		OPTIONAL(snapshot_mapping, ns_pid, FIELD_DECIMAL),
		OPTIONAL(snapshot_mapping, namespaces, FIELD_TEXT),
		OPTIONAL(snapshot_mapping, state, FIELD_TEXT),
		OPTIONAL(snapshot_mapping, made_ms, FIELD_DECIMAL),
	};
	static const struct table_layout layout = LAYOUT("maps", snapshot_mapping, fields);

	return snapshot_read_table(dir_fd, &layout, ret_rows, error);
}

int snapshot_read_reserved(int dir_fd, struct snapshot_rows *ret_rows,
			   struct snapshot_error *error)
{
	static const struct field fields[] = {
		FIELD(snapshot_reserved, kind, FIELD_TEXT),
		FIELD(snapshot_reserved, number, FIELD_DECIMAL),
		FIELD(snapshot_reserved, reserved_kb, FIELD_DECIMAL),
		FIELD(snapshot_reserved, instantiated_kb, FIELD_DECIMAL),
		FIELD(snapshot_reserved, changed_ms, FIELD_DECIMAL),
		FIELD(snapshot_reserved, holders, FIELD_TEXT),
		FIELD(snapshot_reserved, path, FIELD_TEXT),
	};
	static const struct table_layout layout = LAYOUT("reserved", snapshot_reserved, fields);

	return snapshot_read_table(dir_fd, &layout, ret_rows, error);
}

int snapshot_read_tenants(int dir_fd, struct snapshot_rows *ret_rows,
			  struct snapshot_error *error)
{
	static const struct field fields[] = {
		OPTIONAL(snapshot_tenant, size_kb, FIELD_DECIMAL),
		FIELD(snapshot_tenant, min_size_kb, FIELD_DECIMAL),
		FIELD(snapshot_tenant, used_kb, FIELD_DECIMAL),
		FIELD(snapshot_tenant, reserved_kb, FIELD_DECIMAL),
		FIELD(snapshot_tenant, files, FIELD_DECIMAL),
		FIELD(snapshot_tenant, refused, FIELD_DECIMAL),
		FIELD(snapshot_tenant, path, FIELD_TEXT),
	};
	static const struct table_layout layout = LAYOUT("tenants", snapshot_tenant, fields);

	return snapshot_read_table(dir_fd, &layout, ret_rows, error);
}

int snapshot_read_splits(int dir_fd, struct snapshot_rows *ret_rows,
			 struct snapshot_error *error)
{
	static const struct field fields[] = {
		OPTIONAL(snapshot_split, node, FIELD_DECIMAL),
		FIELD(snapshot_split, queued, FIELD_DECIMAL),
		FIELD(snapshot_split, could_free_kb, FIELD_DECIMAL),
		FIELD(snapshot_split, deferred, FIELD_DECIMAL),
		FIELD(snapshot_split, split, FIELD_DECIMAL),
		FIELD(snapshot_split, emptied, FIELD_DECIMAL),
		FIELD(snapshot_split, refilled, FIELD_DECIMAL),
		FIELD(snapshot_split, settled, FIELD_DECIMAL),
		FIELD(snapshot_split, cut, FIELD_DECIMAL),
		FIELD(snapshot_split, elsewhere, FIELD_DECIMAL),
		FIELD(snapshot_split, freed_kb, FIELD_DECIMAL),
		FIELD(snapshot_split, tenant, FIELD_TEXT),
	};
	static const struct table_layout layout = LAYOUT("split", snapshot_split, fields);

	return snapshot_read_table(dir_fd, &layout, ret_rows, error);
}

int snapshot_read_values(int dir_fd, const char *name, struct snapshot_rows *ret_rows,
			 struct snapshot_error *error)
{
	struct snapshot_rows rows = {0};
	char *cursor, *line, *words[SNAPSHOT_MAX_COLUMNS];
	long length;
	int nr_words, r = 0;

	length = snapshot_read_text(dir_fd, name, &rows.text, error);
	if (length < 0)
		return (int)length;
	/* a row takes at least four bytes: "a 1\n" */
	rows.values = calloc((size_t)length / 4 + 1, sizeof(*rows.values));
	if (!rows.values)
		r = snapshot_fail(error, -ENOMEM, "out of memory");
	for (cursor = rows.text;
	     rows.values && r == 0 && (line = snapshot_next_line(&cursor)) != NULL;) {
		nr_words = snapshot_split_words(line, words);
		if (nr_words == 2 && rows.count == 0 && strcmp(words[0], "name") == 0)
			continue; /* a heading */
		if (nr_words == 2)
			rows.values[rows.count++] = (struct snapshot_value){words[0], words[1]};
		else if (nr_words != 0)
			r = snapshot_fail(error, -EBADMSG,
					  ".hugefuse/%s: '%.40s' has no one value", name,
					  words[0]);
	}
	if (r < 0) {
		snapshot_rows_free(&rows);
		return r;
	}
	*ret_rows = rows;
	return 0;
}

void snapshot_rows_free(struct snapshot_rows *rows)
{
	if (!rows)
		return;
	free(rows->rows);
	free(rows->text);
	*rows = (struct snapshot_rows){0};
}
