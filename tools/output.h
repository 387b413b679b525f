/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Output of the tools: quantities with units, tables that fit the terminal, and JSON.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <json-c/json.h>

struct quantity {
	char text[32];
};

/* "0", "512 B", "2 MiB", "1.5 GiB". */
struct quantity quantity_bytes(uint64_t bytes);
/* "0", "850 ns", "12.3 us", "4.56 ms", "7.89 s". */
struct quantity quantity_microseconds(double microseconds);
/* "12.3 s", "5 min", "3:07 h", "12 days". */
struct quantity quantity_seconds(double seconds);
struct quantity quantity_count(uint64_t count);

#define TABLE_MAX_COLUMNS 12

struct table_column {
	const char *title;
	bool left;     /* else right aligned */
	bool optional; /* left out, the last one first, where the terminal is too narrow */
};

/* Cells row by row; the text is copied. After a failed allocation everything is a no-op. */
struct table {
	const struct table_column *columns;
	int nr_columns;
	char **cells;
	size_t nr_cells, size;
	bool failed;
};

void table_init(struct table *table, const struct table_column *columns, int nr_columns);
void table_deinit(struct table *table);
void table_add(struct table *table, const char *text);
/* Gets rows, the heading first. */
struct table_sink {
	void (*row)(void *data, bool heading, const char *text);
	void *data;
};

/* As table_print(), to a sink. */
int table_give(const struct table *table, unsigned int width, const struct table_sink *sink);
/*
 * Print to stdout. With @width columns of terminal, optional columns and then the end of the
 * last column give way; 0: there is no limit. Returns 0 or -ENOMEM.
 */
int table_print(const struct table *table, unsigned int width);

/* The width of the terminal that stdout is, of $COLUMNS columns where that is set, or 0. */
unsigned int output_width(void);

/* A string for JSON: bytes that are no UTF-8 become U+FFFD. */
json_object *output_json_string(const char *text);
/* { "schema": 1 } */
json_object *output_json_new(void);
/* Print and free. */
void output_json_print(json_object *object);
