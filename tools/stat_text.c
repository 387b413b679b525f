/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hugefuse stat for people: the pool and its nodes, tenants, what is reserved but was never
 * touched, and faults.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/escape.h"
#include "tools/output.h"
#include "tools/stat_output.h"

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

static int finish_table(struct table *table)
{
	int r = table_print(table, output_width());

	table_deinit(table);
	return r;
}

static int print_pools(const struct mount_snapshot *mount)
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

	table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
	for (int i = 0; i < mount->nr_pools; i++)
		add_pool(&table, &mount->pools[i]);
	return finish_table(&table);
}

static void add_escaped(struct table *table, char *text)
{
	table_add(table, text ? text : "?");
	free(text);
}

static int print_tenants(const struct mount_snapshot *mount)
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

	if (mount->tenants.count < 2)
		return 0;
	putchar('\n');
	table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 1; i < mount->tenants.count; i++) {
		const struct snapshot_tenant *tenant = &mount->tenants.tenants[i];

		table_add(&table, tenant->size_kb == SNAPSHOT_UNKNOWN
					  ? "none"
					  : quantity_bytes(tenant->size_kb * 1024).text);
		table_add(&table, quantity_bytes(tenant->min_size_kb * 1024).text);
		table_add(&table, quantity_bytes(tenant->used_kb * 1024).text);
		table_add(&table, quantity_bytes(tenant->reserved_kb * 1024).text);
		table_add(&table, quantity_count(tenant->files).text);
		table_add(&table, quantity_count(tenant->refused).text);
		add_escaped(&table, escape_for_terminal(tenant->path));
	}
	return finish_table(&table);
}

/* ---- queues of huge pages to be split ---- */

static int print_splits(const struct mount_snapshot *mount)
{
	static const struct table_column columns[] = {
		{.title = "HOLES IN"},
		{.title = "COULD FREE"},
		{.title = "DEFERRED", .optional = true},
		{.title = "SPLIT", .optional = true},
		{.title = "FREED", .optional = true},
		{.title = "NODE", .optional = true},
		{.title = "TENANT", .left = true},
	};
	struct table table;

	if (mount->splits.count == 0)
		return 0;
	putchar('\n');
	table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < mount->splits.count; i++) {
		const struct snapshot_split *split = &mount->splits.splits[i];

		table_add(&table, quantity_count(split->queued).text);
		table_add(&table, quantity_bytes(split->could_free_kb * 1024).text);
		table_add(&table, quantity_count(split->deferred).text);
		table_add(&table, quantity_count(split->split).text);
		table_add(&table, quantity_bytes(split->freed_kb * 1024).text);
		table_add(&table, split->node == SNAPSHOT_UNKNOWN
					  ? "all"
					  : quantity_count(split->node).text);
		add_escaped(&table, escape_for_terminal(split->tenant));
	}
	return finish_table(&table);
}

/* ---- reserved, but not touched ---- */

static void add_stranded(struct table *table, const struct mount_snapshot *mount,
			 const struct holder *holder)
{
	table_add(table, quantity_bytes(holder->reserved).text);
	table_add(table, holder->reserved_seconds == SNAPSHOT_UNKNOWN
				 ? "-"
				 : quantity_seconds((double)holder->reserved_seconds).text);
	if (holder->kind == HOLDER_MOUNT)
		table_add(table, "free for its users");
	else if (holder->kind == HOLDER_PRIVATE)
		table_add(table, "its process");
	else
		add_escaped(table, holder_mappers(mount, holder));
	add_escaped(table, holder_name(holder));
}

static int print_stranded(const struct mount_snapshot *mount)
{
	static const struct table_column columns[] = {
		{.title = "RESERVED"},
		{.title = "SINCE"},
		{.title = "MAPPED BY", .left = true, .optional = true},
		{.title = "NOT TOUCHED YET", .left = true},
	};
	struct holders holders;
	struct table table;
	size_t i, rest = 0;
	int r;

	if (holders_find_reserved(mount, &holders) < 0)
		return -ENOMEM;
	table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
	for (i = 0; i < holders.count; i++) {
		if (i < STAT_MAX_STRANDED)
			add_stranded(&table, mount, &holders.list[i]);
		else
			rest++;
	}
	r = 0;
	if (i != 0) {
		putchar('\n');
		r = table_print(&table, output_width());
	}
	if (rest != 0)
		printf("and %zu more; 'hugefuse ls --sort reserved' lists files\n", rest);
	table_deinit(&table);
	holders_free(&holders);
	return r;
}

/* ---- faults ---- */

static int print_faults(const struct mount_snapshot *mount)
{
	static const struct table_column columns[] = {
		{.title = "FAULTS", .left = true},
		{.title = ""},
	};
	struct table table;

	if (mount->faults.count == 0)
		return 0;
	putchar('\n');
	table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < mount->faults.count; i++) {
		const struct snapshot_value *value = &mount->faults.values[i];
		enum fault_value_kind kind = fault_value_kind(value->name);
		char name[64];

		if (kind == FAULT_BUCKET || kind == FAULT_OF_NODE ||
		    strcmp(value->name, "latency_ns_sum") == 0)
			continue;
		if (strcmp(value->name, "period_ms") == 0) {
			table_add(&table, "counted for");
			table_add(&table,
				  quantity_seconds(strtod(value->value, NULL) / 1000).text);
		} else if (kind == FAULT_LATENCY) {
			/* without the unit, which the quantity has */
			snprintf(name, sizeof(name), "latency%s", value->name + 10);
			table_add(&table, name);
			table_add(
				&table,
				quantity_microseconds(strtod(value->value, NULL) / 1000).text);
		} else {
			table_add(&table, value->name);
			table_add(&table, value->value);
		}
	}
	return finish_table(&table);
}

int stat_print_text(const struct mount_snapshot *mount)
{
	char *path = escape_for_terminal(mount->mountpoint);
	char *options = escape_for_terminal(mount->options);
	int r = -ENOMEM;

	if (path && options) {
		printf("%s\n%s\n\n", path, options);
		r = print_pools(mount);
	}
	if (r == 0)
		r = print_tenants(mount);
	if (r == 0)
		r = print_splits(mount);
	if (r == 0 && holders_reserved_are_known(mount))
		r = print_stranded(mount);
	if (r == 0)
		r = print_faults(mount);
	free(path);
	free(options);
	return r;
}
