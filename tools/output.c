/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Units, tables and JSON. Widths count characters, not bytes: text is escaped before it comes
 * here (tools/escape.h), and what remains is taken to be one column wide each.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tools/escape.h"
#include "tools/output.h"

#define COLUMN_GAP 2
#define MIN_LAST   12 /* the last column is not cut below this */

/* ---- quantities ---- */

struct quantity quantity_bytes(uint64_t bytes)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	struct quantity quantity;
	unsigned int unit = 0;

	while (unit < 6 && bytes >> (10 * (unit + 1)) != 0)
		unit++;
	if (bytes == 0)
		snprintf(quantity.text, sizeof(quantity.text), "0");
	else if (bytes % (UINT64_C(1) << (10 * unit)) == 0)
		snprintf(quantity.text, sizeof(quantity.text), "%" PRIu64 " %s",
			 bytes >> (10 * unit), units[unit]);
	else
		snprintf(quantity.text, sizeof(quantity.text), "%.1f %s",
			 (double)bytes / (double)(UINT64_C(1) << (10 * unit)), units[unit]);
	return quantity;
}

struct quantity quantity_microseconds(double microseconds)
{
	struct quantity quantity;

	if (microseconds == 0)
		snprintf(quantity.text, sizeof(quantity.text), "0");
	else if (microseconds < 1)
		snprintf(quantity.text, sizeof(quantity.text), "%.0f ns", microseconds * 1000);
	else if (microseconds < 1000)
		snprintf(quantity.text, sizeof(quantity.text), "%.3g us", microseconds);
	else if (microseconds < 1000000)
		snprintf(quantity.text, sizeof(quantity.text), "%.3g ms", microseconds / 1000);
	else
		snprintf(quantity.text, sizeof(quantity.text), "%.2f s",
			 microseconds / 1000000);
	return quantity;
}

struct quantity quantity_seconds(double seconds)
{
	uint64_t whole = (uint64_t)seconds;
	struct quantity quantity;

	if (seconds < 60)
		return quantity_microseconds(seconds * 1e6);
	if (whole < 3600)
		snprintf(quantity.text, sizeof(quantity.text), "%" PRIu64 " min", whole / 60);
	else if (whole < 2 * UINT64_C(86400))
		snprintf(quantity.text, sizeof(quantity.text), "%" PRIu64 ":%02" PRIu64 " h",
			 whole / 3600, whole / 60 % 60);
	else
		snprintf(quantity.text, sizeof(quantity.text), "%" PRIu64 " days",
			 whole / 86400);
	return quantity;
}

struct quantity quantity_count(uint64_t count)
{
	struct quantity quantity;

	snprintf(quantity.text, sizeof(quantity.text), "%" PRIu64, count);
	return quantity;
}

/* ---- tables ---- */

void table_init(struct table *table, const struct table_column *columns, int nr_columns)
{
	*table = (struct table){.columns = columns, .nr_columns = nr_columns};
}

void table_deinit(struct table *table)
{
	size_t i;

	if (!table)
		return;
	for (i = 0; i < table->nr_cells; i++)
		free(table->cells[i]);
	free(table->cells);
	*table = (struct table){0};
}

void table_add(struct table *table, const char *text)
{
	char **bigger;

	if (table->failed)
		return;
	if (table->nr_cells == table->size) {
		size_t size = table->size ? 2 * table->size : 64;

		bigger = reallocarray(table->cells, size, sizeof(*bigger));
		if (!bigger) {
			table->failed = true;
			return;
		}
		table->cells = bigger;
		table->size = size;
	}
	table->cells[table->nr_cells] = strdup(text);
	if (table->cells[table->nr_cells])
		table->nr_cells++;
	else
		table->failed = true;
}

static size_t nr_characters(const char *text)
{
	size_t count = 0;

	for (; *text != '\0'; text++)
		count += ((unsigned char)*text & 0xc0) != 0x80;
	return count;
}

/* Cut to @max characters, with a mark that something is missing. */
static void add_cut(FILE *out, const char *text, size_t max)
{
	size_t count = 0, length = 0;

	if (nr_characters(text) <= max || max <= 3) {
		fputs(text, out);
		return;
	}
	for (; text[length] != '\0'; length++) {
		if (((unsigned char)text[length] & 0xc0) != 0x80 && count++ == max - 3)
			break;
	}
	fprintf(out, "%.*s...", (int)length, text);
}

static void measure(const struct table *table, size_t widths[TABLE_MAX_COLUMNS])
{
	size_t i;
	int column;

	for (column = 0; column < table->nr_columns; column++)
		widths[column] = nr_characters(table->columns[column].title);
	for (i = 0; i < table->nr_cells; i++) {
		size_t width = nr_characters(table->cells[i]);

		column = (int)(i % (size_t)table->nr_columns);
		if (width > widths[column])
			widths[column] = width;
	}
}

static size_t total_width(const struct table *table, const size_t *widths, const bool *hidden)
{
	size_t total = 0;
	int column;

	for (column = 0; column < table->nr_columns; column++) {
		if (!hidden[column])
			total += widths[column] + (total ? COLUMN_GAP : 0);
	}
	return total;
}

static void fit(const struct table *table, size_t *widths, bool *hidden, size_t limit)
{
	size_t *last = &widths[table->nr_columns - 1];
	size_t total = total_width(table, widths, hidden), kept = *last, excess;
	int column;

	/* the last column may give way, to MIN_LAST, before a column is left out */
	if (table->columns[table->nr_columns - 1].left && kept > MIN_LAST)
		kept = MIN_LAST;
	for (column = table->nr_columns - 1; column >= 0; column--) {
		if (total - *last + kept <= limit)
			break;
		if (table->columns[column].optional) {
			hidden[column] = true;
			total = total_width(table, widths, hidden);
		}
	}
	if (total <= limit)
		return;
	excess = total - limit;
	*last = *last > kept + excess ? *last - excess : kept;
}

static void add_row(const struct table *table, const size_t *widths, const bool *hidden,
		    char *const *cells, FILE *out)
{
	size_t owed = 0; /* spaces that come before the next text, if any comes */
	bool first = true;

	for (int column = 0; column < table->nr_columns; column++) {
		const char *text = cells ? cells[column] : table->columns[column].title;
		size_t width = nr_characters(text);
		size_t pad = width < widths[column] ? widths[column] - width : 0;

		if (hidden[column])
			continue;
		owed += first ? 0 : COLUMN_GAP;
		if (!table->columns[column].left)
			owed += pad;
		if (*text != '\0') {
			fprintf(out, "%*s", (int)owed, "");
			owed = 0;
			add_cut(out, text, widths[column]);
		}
		if (table->columns[column].left)
			owed += pad;
		first = false;
	}
}

static int give_row(const struct table *table, const size_t *widths, const bool *hidden,
		    char *const *cells, const struct table_sink *sink)
{
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	if (!out)
		return -ENOMEM;
	add_row(table, widths, hidden, cells, out);
	if (fclose(out) != 0) {
		free(text);
		return -ENOMEM;
	}
	sink->row(sink->data, cells == NULL, text);
	free(text);
	return 0;
}

int table_give(const struct table *table, unsigned int width, const struct table_sink *sink)
{
	size_t widths[TABLE_MAX_COLUMNS] = {0}, i;
	bool hidden[TABLE_MAX_COLUMNS] = {false};
	int r;

	if (table->failed)
		return -ENOMEM;
	measure(table, widths);
	if (width != 0)
		fit(table, widths, hidden, width);
	r = give_row(table, widths, hidden, NULL, sink);
	for (i = 0; r == 0 && i + (size_t)table->nr_columns <= table->nr_cells;
	     i += (size_t)table->nr_columns)
		r = give_row(table, widths, hidden, table->cells + i, sink);
	return r;
}

static void print_row(void *data, bool heading, const char *text)
{
	puts(text);
}

int table_print(const struct table *table, unsigned int width)
{
	return table_give(table, width, &(struct table_sink){print_row, NULL});
}

unsigned int output_width(void)
{
	const char *columns = getenv("COLUMNS");
	struct winsize size;
	char *end;
	long width;

	if (!isatty(STDOUT_FILENO))
		return 0;
	if (columns) {
		width = strtol(columns, &end, 10);
		if (end != columns && *end == '\0' && width > 0 && width <= 65535)
			return (unsigned int)width;
	}
	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 ? 0 : size.ws_col;
}

/* ---- JSON ---- */

json_object *output_json_string(const char *text)
{
	char *valid = malloc(3 * strlen(text) + 1), *to = valid;
	json_object *string;

	if (!valid)
		return NULL;
	while (*text != '\0') {
		int length = utf8_sequence(text);

		memcpy(to, length ? text : "\xef\xbf\xbd", length ? (size_t)length : 3);
		to += length ? length : 3;
		text += length ? length : 1;
	}
	string = json_object_new_string_len(valid, (int)(to - valid));
	free(valid);
	return string;
}

json_object *output_json_new(void)
{
	json_object *object = json_object_new_object();

	json_object_object_add(object, "schema", json_object_new_int(1));
	return object;
}

void output_json_print(json_object *object)
{
	puts(json_object_to_json_string_ext(object, JSON_C_TO_STRING_PRETTY |
							    JSON_C_TO_STRING_SPACED |
							    JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(object);
}
