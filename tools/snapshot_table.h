/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Snapshot table: a file of .hugefuse whose first line names the columns. A column that is not
 * known here is skipped; one that is missing is an error unless it is optional. So the tables
 * of a newer daemon can be read, and those of one that does not have a column yet.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "tools/snapshot.h"

enum field_kind {
	FIELD_DECIMAL,
	FIELD_HEX,
	FIELD_TEXT,
};

struct field {
	const char *name;
	enum field_kind kind;
	size_t offset; /* in a row */
	bool optional; /* SNAPSHOT_UNKNOWN, or "", where there is no such column */
};

struct table_layout {
	const char *file;
	const struct field *fields;
	int nr_fields;
	size_t row_size;
};

#define SNAPSHOT_MAX_COLUMNS 64

/* Read a table. Returns 0 or -errno, as everything of snapshot.h. */
int snapshot_read_table(int dir_fd, const struct table_layout *layout,
			struct snapshot_rows *ret_rows, struct snapshot_error *error);

/*
 * The pools of the table that has all of one instant, in its order. Returns their number, or
 * -ENOENT where the daemon has no such table.
 */
int snapshot_read_pool_table(int dir_fd, struct snapshot_pool **ret_pools,
			     struct snapshot_error *error);

/* Cut a line into its words, in place. Returns their number, at most SNAPSHOT_MAX_COLUMNS. */
int snapshot_split_words(char *line, char *words[SNAPSHOT_MAX_COLUMNS]);
/* Cut off the line at *@cursor. NULL at the end of the text. */
char *snapshot_next_line(char **cursor);
/* A number and nothing else. Returns 0 or -EBADMSG. */
int snapshot_parse_u64(const char *text, int base, uint64_t *ret_value);
