/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Parsing the tables of .hugefuse.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/escape.h"
#include "tools/snapshot_table.h"

#define DIRECTORY ".hugefuse"

int snapshot_split_words(char *line, char *words[SNAPSHOT_MAX_COLUMNS])
{
	char *save = NULL, *word;
	int count = 0;

	for (word = strtok_r(line, " ", &save); word && count < SNAPSHOT_MAX_COLUMNS;
	     word = strtok_r(NULL, " ", &save))
		words[count++] = word;
	return count;
}

char *snapshot_next_line(char **cursor)
{
	char *line = *cursor, *end;

	if (*line == '\0')
		return NULL;
	end = strchr(line, '\n');
	*cursor = end ? end + 1 : line + strlen(line);
	if (end)
		*end = '\0';
	return line;
}

/* Find which column each field is in. */
static int read_heading(const struct table_layout *layout, char *line, int *columns,
			int *ret_nr_columns, struct snapshot_error *error)
{
	char *words[SNAPSHOT_MAX_COLUMNS];
	int i, j, count = line ? snapshot_split_words(line, words) : 0;

	for (i = 0; i < layout->nr_fields; i++) {
		for (j = 0; j < count && strcmp(words[j], layout->fields[i].name) != 0;)
			j++;
		if (j == count && layout->fields[i].optional)
			j = -1;
		else if (j == count)
			return snapshot_fail(error, -EBADMSG,
					     DIRECTORY
					     "/%s: line 1 names no column '%s'; are the "
					     "daemon and this program of one version?",
					     layout->file, layout->fields[i].name);
		columns[i] = j;
	}
	*ret_nr_columns = count;
	return 0;
}

static int read_row(const struct table_layout *layout, char **words, const int *columns,
		    char *row)
{
	int i, r = 0;

	for (i = 0; i < layout->nr_fields && r == 0; i++) {
		const struct field *field = &layout->fields[i];
		char *word = columns[i] < 0 ? NULL : words[columns[i]];

		if (field->kind == FIELD_TEXT) {
			if (word)
				unescape(word);
			*(const char **)(row + field->offset) = word ? word : "";
		} else if (!word || (field->optional && strcmp(word, "-") == 0)) {
			*(uint64_t *)(row + field->offset) = SNAPSHOT_UNKNOWN;
		} else {
			r = snapshot_parse_u64(word, field->kind == FIELD_HEX ? 16 : 10,
					       (uint64_t *)(row + field->offset));
		}
		if (r < 0)
			return -(i + 1);
	}
	return 0;
}

static int parse_table(const struct table_layout *layout, struct snapshot_rows *table,
		       struct snapshot_error *error)
{
	int columns[SNAPSHOT_MAX_COLUMNS] = {0}, nr_columns = 0, line_number = 1, nr_words, r;
	char *cursor = table->text, *line, *words[SNAPSHOT_MAX_COLUMNS];
	size_t size = 0;

	line = snapshot_next_line(&cursor);
	r = read_heading(layout, line, columns, &nr_columns, error);
	if (r < 0)
		return r;
	while ((line = snapshot_next_line(&cursor)) != NULL) {
		line_number++;
		nr_words = snapshot_split_words(line, words);
		if (nr_words == 0)
			continue;
		if (nr_words == nr_columns - 1) /* an empty path is the last field */
			words[nr_words++] = line + strlen(line);
		if (nr_words != nr_columns)
			return snapshot_fail(error, -EBADMSG,
					     DIRECTORY
					     "/%s: line %d has %d fields instead of %d",
					     layout->file, line_number, nr_words, nr_columns);
		if (table->count == size) {
			void *bigger;

			size = size ? 2 * size : 64;
			bigger = reallocarray(table->rows, size, layout->row_size);
			if (!bigger)
				return snapshot_fail(error, -ENOMEM, "out of memory");
			table->rows = bigger;
		}
		r = read_row(layout, words, columns,
			     (char *)table->rows + table->count * layout->row_size);
		if (r < 0)
			return snapshot_fail(error, -EBADMSG,
					     DIRECTORY "/%s: line %d: '%.40s' is no %s",
					     layout->file, line_number, words[columns[-r - 1]],
					     layout->fields[-r - 1].name);
		table->count++;
	}
	return 0;
}

int snapshot_read_table(int dir_fd, const struct table_layout *layout,
			struct snapshot_rows *ret_rows, struct snapshot_error *error)
{
	struct snapshot_rows table = {0};
	long length;
	int r;

	length = snapshot_read_text(dir_fd, layout->file, &table.text, error);
	if (length < 0)
		return (int)length;
	if (strlen(table.text) != (size_t)length)
		r = snapshot_fail(error, -EBADMSG, DIRECTORY "/%s: a NUL byte is in it",
				  layout->file);
	else
		r = parse_table(layout, &table, error);
	if (r < 0) {
		snapshot_rows_free(&table);
		return r;
	}
	*ret_rows = table;
	return 0;
}
