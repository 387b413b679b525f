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
static int compare_identity(const struct holder *a, const struct holder *b)
{
	uint64_t left, right;

	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	if (a->kind == HOLDER_MOUNT)
		return 0;
	left = a->kind == HOLDER_FILE ? a->file->inode : a->mapping->mapping;
	right = b->kind == HOLDER_FILE ? b->file->inode : b->mapping->mapping;
	return (left > right) - (left < right);
}

static int compare_numbers(uint64_t left, uint64_t right, const void *a, const void *b)
{
	if (left != right)
		return left > right ? -1 : 1;
	return compare_identity(a, b);
}

int holder_compare_total(const void *a, const void *b)
{
	return compare_numbers(holder_total(a), holder_total(b), a, b);
}

int holder_compare_resident(const void *a, const void *b)
{
	const struct holder *left = a, *right = b;

	return compare_numbers(left->resident, right->resident, a, b);
}

int holder_compare_reserved(const void *a, const void *b)
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

static void add_file(const struct mount_snapshot *mount, const struct snapshot_file *file,
		     struct holders *holders)
{
	holders->list[holders->count++] = (struct holder){
		.kind = HOLDER_FILE,
		.file = file,
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

	if (!last || last->kind != HOLDER_PRIVATE ||
	    last->mapping->mapping != mapping->mapping) {
		last = &holders->list[holders->count++];
		*last = (struct holder){.kind = HOLDER_PRIVATE,
					.mapping = mapping,
					.reserved_seconds =
						mount_snapshot_age(mount, mapping->made_ms)};
	}
	last->resident += mapping_resident(mount, mapping);
	last->reserved += mapping_reserved(mount, mapping);
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
	holders->list[holders->count++] = (struct holder){.kind = HOLDER_MOUNT,
							  .reserved = reserved - promised,
							  .reserved_seconds = SNAPSHOT_UNKNOWN};
}

int holders_find(const struct mount_snapshot *mount, struct holders *ret_holders)
{
	struct holders holders = {0};
	size_t i;

	holders.list =
		calloc(mount->files.count + mount->maps.count + 1, sizeof(*holders.list));
	if (!holders.list)
		return -ENOMEM;
	for (i = 0; i < mount->files.count; i++) {
		const struct snapshot_file *file = &mount->files.files[i];

		if (file->instantiated_kb || file->reserved_kb)
			add_file(mount, file, &holders);
	}
	for (i = 0; i < mount->maps.count; i++) {
		if (mapping_is_private(&mount->maps.mappings[i]))
			add_range(mount, &mount->maps.mappings[i], &holders);
	}
	add_mount(mount, &holders);
	qsort(holders.list, holders.count, sizeof(*holders.list), holder_compare_total);
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

	if (holder->kind == HOLDER_MOUNT)
		return strdup("set aside for the mount");
	if (holder->kind == HOLDER_FILE)
		return escape_for_terminal(holder->file->path);
	if (asprintf(&text, "%s (%" PRIu64 "), private copy of %s", holder->mapping->comm,
		     holder->mapping->pid, holder->mapping->path) < 0)
		return NULL;
	escaped = escape_for_terminal(text);
	free(text);
	return escaped;
}

char *holder_mappers(const struct mount_snapshot *mount, const struct holder *holder)
{
	const struct snapshot_mapping *first = NULL, *mapping;
	uint64_t others = 0, last = 0;
	char *text = NULL, *escaped;
	int r;

	for (size_t i = 0; holder->kind == HOLDER_FILE && i < mount->maps.count; i++) {
		mapping = &mount->maps.mappings[i];
		if (mapping->inode != holder->file->inode || mapping_is_private(mapping) ||
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
