/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Holders: who has pages of a mount, and what is promised to whom but was never touched. What
 * is shared belongs to its file, also when nobody has it mapped any more; what is private
 * belongs to the mapping.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/escape.h"
#include "tools/mount_snapshot.h"

bool mapping_is_private(const struct snapshot_mapping *mapping)
{
	return strncmp(mapping->kind, "private", 7) == 0;
}

uint64_t mapping_resident(const struct mount_snapshot *mount,
			  const struct snapshot_mapping *mapping)
{
	if (mapping->instantiated_kb != SNAPSHOT_UNKNOWN)
		return mapping->instantiated_kb * 1024;
	return mapping->instantiated * mount->page_size;
}

uint64_t mapping_reserved(const struct mount_snapshot *mount,
			  const struct snapshot_mapping *mapping)
{
	if (mapping->reserved_kb != SNAPSHOT_UNKNOWN)
		return mapping->reserved_kb * 1024;
	return mapping->reserved * mount->page_size;
}

static uint64_t holder_total(const struct holder *holder)
{
	return holder->resident + holder->reserved;
}

/* So that the order of equals is always the same. */
static int compare_numbers(uint64_t left, uint64_t right, const struct holder *a,
			   const struct holder *b)
{
	if (left != right)
		return left > right ? -1 : 1;
	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	return (a->number > b->number) - (a->number < b->number);
}

static int compare_total(const void *a, const void *b)
{
	return compare_numbers(holder_total(a), holder_total(b), a, b);
}

static int compare_reserved(const void *a, const void *b)
{
	const struct holder *left = a, *right = b;

	return compare_numbers(left->reserved, right->reserved, a, b);
}

uint64_t mount_snapshot_age(const struct mount_snapshot *mount, uint64_t ms)
{
	if (ms == SNAPSHOT_UNKNOWN || ms == 0)
		return SNAPSHOT_UNKNOWN;
	return ms < mount->epoch_ms ? (mount->epoch_ms - ms) / 1000 : 0;
}

static const char *process_list(const char *text)
{
	return strcmp(text, "-") == 0 ? "" : text;
}

static void add_file(const struct mount_snapshot *mount, const struct snapshot_file *file,
		     struct holders *holders)
{
	holders->list[holders->count++] = (struct holder){
		.kind = HOLDER_FILE,
		.number = file->inode,
		.pid = SNAPSHOT_UNKNOWN,
		.comm = "",
		.path = file->path,
		.unlinked = file->links == 0,
		.mapped = process_list(file->holders),
		.resident = file->instantiated_kb * 1024,
		.reserved = file->reserved_kb * 1024,
		.reserved_seconds = mount_snapshot_age(mount, file->changed_ms),
	};
}

/* The ranges of one mapping follow each other. */
static void add_range(const struct mount_snapshot *mount,
		      const struct snapshot_mapping *mapping, struct holders *holders)
{
	struct holder *last = holders->count ? &holders->list[holders->count - 1] : NULL;

	if (!last || last->kind != HOLDER_PRIVATE || last->number != mapping->mapping) {
		last = &holders->list[holders->count++];
		*last = (struct holder){
			.kind = HOLDER_PRIVATE,
			.number = mapping->mapping,
			.pid = mapping->pid,
			.comm = mapping->comm,
			.path = mapping->path,
			.mapped = "",
			.reserved_seconds = mount_snapshot_age(mount, mapping->made_ms),
		};
	}
	last->resident += mapping_resident(mount, mapping);
	last->reserved += mapping_reserved(mount, mapping);
}

static void add_reserved(const struct mount_snapshot *mount,
			 const struct snapshot_reserved *reserved, struct holders *holders)
{
	bool private = strcmp(reserved->kind, "mapping") == 0;
	const char *processes = process_list(reserved->holders);

	holders->list[holders->count++] = (struct holder){
		.kind = private ? HOLDER_PRIVATE : HOLDER_FILE,
		.number = reserved->number,
		.pid = private && *processes ? strtoull(processes, NULL, 10) : SNAPSHOT_UNKNOWN,
		.comm = "",
		.path = reserved->path,
		.mapped = private ? "" : processes,
		.resident = reserved->instantiated_kb * 1024,
		.reserved = reserved->reserved_kb * 1024,
		.reserved_seconds = mount_snapshot_age(mount, reserved->changed_ms),
	};
}

/* What the pool has reserved and nobody above has been promised. */
static void add_mount(const struct mount_snapshot *mount, struct holders *holders)
{
	const struct snapshot_pool *pool = mount_snapshot_pool(mount);
	uint64_t reserved = pool->resv * pool->page_size, promised = 0;

	for (size_t i = 0; i < holders->count; i++)
		promised += holders->list[i].reserved;
	if (reserved <= promised)
		return;
	holders->list[holders->count++] = (struct holder){
		.kind = HOLDER_MOUNT,
		.pid = SNAPSHOT_UNKNOWN,
		.comm = "",
		.path = "",
		.mapped = "",
		.reserved = reserved - promised,
		.reserved_seconds = SNAPSHOT_UNKNOWN,
	};
}

bool holders_are_known(const struct mount_snapshot *mount)
{
	return (mount->parts & PART_FILES) && (mount->parts & PART_MAPS);
}

bool holders_reserved_are_known(const struct mount_snapshot *mount)
{
	return (mount->parts & PART_RESERVED) || holders_are_known(mount);
}

/* Room for all that @mount may have. */
static int holders_init(const struct mount_snapshot *mount, struct holders *holders)
{
	*holders = (struct holders){0};
	holders->list =
		calloc(mount->files.count + mount->maps.count + mount->reserved.count + 1,
		       sizeof(*holders->list));
	return holders->list ? 0 : -ENOMEM;
}

static void add_all(const struct mount_snapshot *mount, struct holders *holders)
{
	size_t i;

	for (i = 0; i < mount->files.count; i++) {
		const struct snapshot_file *file = &mount->files.files[i];

		if (file->instantiated_kb || file->reserved_kb)
			add_file(mount, file, holders);
	}
	for (i = 0; i < mount->maps.count; i++) {
		if (mapping_is_private(&mount->maps.mappings[i]))
			add_range(mount, &mount->maps.mappings[i], holders);
	}
	add_mount(mount, holders);
}

int holders_find(const struct mount_snapshot *mount, struct holders *ret_holders)
{
	struct holders holders;

	if (holders_init(mount, &holders) < 0)
		return -ENOMEM;
	add_all(mount, &holders);
	qsort(holders.list, holders.count, sizeof(*holders.list), compare_total);
	*ret_holders = holders;
	return 0;
}

int holders_find_reserved(const struct mount_snapshot *mount, struct holders *ret_holders)
{
	struct holders holders;

	if (holders_init(mount, &holders) < 0)
		return -ENOMEM;
	if (mount->parts & PART_RESERVED) {
		for (size_t i = 0; i < mount->reserved.count; i++)
			add_reserved(mount, &mount->reserved.reserved[i], &holders);
		add_mount(mount, &holders);
	} else {
		add_all(mount, &holders);
	}
	qsort(holders.list, holders.count, sizeof(*holders.list), compare_reserved);
	while (holders.count > 0 && holders.list[holders.count - 1].reserved == 0)
		holders.count--;
	*ret_holders = holders;
	return 0;
}

void holders_free(struct holders *holders)
{
	if (!holders)
		return;
	free(holders->list);
	*holders = (struct holders){0};
}

char *holder_name(const struct holder *holder)
{
	char *text = NULL, *escaped;
	int r;

	if (holder->kind == HOLDER_MOUNT)
		return strdup("set aside for the mount");
	if (holder->kind == HOLDER_FILE)
		return escape_for_terminal(holder->path);
	if (holder->comm[0])
		r = asprintf(&text, "%s (%" PRIu64 "), private copy of %s", holder->comm,
			     holder->pid, holder->path);
	else
		r = asprintf(&text, "process %" PRIu64 ", private copy of %s", holder->pid,
			     holder->path);
	if (r < 0)
		return NULL;
	escaped = escape_for_terminal(text);
	free(text);
	return escaped;
}

/* Of the list that the daemon makes. */
static char *mappers_of_list(const char *list)
{
	size_t others = 0;
	char *text;
	int r;

	for (const char *comma = strchr(list, ','); comma; comma = strchr(comma + 1, ','))
		others++;
	if (others)
		r = asprintf(&text, "process %.*s and %zu more", (int)strcspn(list, ","), list,
			     others);
	else
		r = asprintf(&text, "process %s", list);
	return r < 0 ? NULL : text;
}

static char *mappers_of_maps(const struct mount_snapshot *mount, uint64_t inode)
{
	const struct snapshot_mapping *first = NULL, *mapping;
	uint64_t others = 0, last = 0;
	char *text = NULL, *escaped;
	int r;

	for (size_t i = 0; i < mount->maps.count; i++) {
		mapping = &mount->maps.mappings[i];
		if (mapping->inode != inode || mapping_is_private(mapping) ||
		    mapping->pid == last)
			continue;
		last = mapping->pid;
		if (!first)
			first = mapping;
		else
			others += mapping->pid != first->pid;
	}
	if (!first)
		return strdup("");
	if (others)
		r = asprintf(&text, "%s (%" PRIu64 ") and %" PRIu64 " more", first->comm,
			     first->pid, others);
	else
		r = asprintf(&text, "%s (%" PRIu64 ")", first->comm, first->pid);
	escaped = r < 0 ? NULL : escape_for_terminal(text);
	free(r < 0 ? NULL : text);
	return escaped;
}

char *holder_mappers(const struct mount_snapshot *mount, const struct holder *holder)
{
	if (holder->kind != HOLDER_FILE)
		return strdup("");
	if (!(mount->parts & PART_MAPS) && holder->mapped[0])
		return mappers_of_list(holder->mapped);
	return mappers_of_maps(mount, holder->number);
}
