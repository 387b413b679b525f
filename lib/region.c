/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Regions: a list, newest first. One spare is kept, so that cutting cannot fail. The nodes are
 * cut from pages of their own: malloc(3) may be what is mapping.
 */
#include "region.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "system.h"

#define SLAB_BYTES 4096

struct region *regions;
static struct region *spare, *unused;

/* Around all regions that there have ever been; only grows. Written under the lock. */
static _Atomic(uintptr_t) lowest = UINTPTR_MAX, highest;

static struct region *new_node(void)
{
	struct region *node = unused;
	char *slab;

	if (!node) {
		slab = system_mmap(NULL, SLAB_BYTES, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (slab == MAP_FAILED)
			return NULL;
		for (size_t i = 0; i < SLAB_BYTES / sizeof(*node); i++) {
			node = (struct region *)slab + i;
			node->next = unused;
			unused = node;
		}
	}
	unused = node->next;
	return node;
}

static void free_node(struct region *node)
{
	if (!node)
		return;
	node->next = unused;
	unused = node;
}

static void widen_bounds(const struct region *region)
{
	uintptr_t from = (uintptr_t)region->addr, to = from + region->length;

	if (from < atomic_load(&lowest))
		atomic_store(&lowest, from);
	if (to > atomic_load(&highest))
		atomic_store(&highest, to);
}

bool region_may_overlap(const void *addr, size_t length)
{
	uintptr_t from = (uintptr_t)addr;

	return from < atomic_load(&highest) && from + length > atomic_load(&lowest);
}

struct region *region_first_in(const char *addr, size_t length)
{
	for (struct region *region = regions; region; region = region->next) {
		if (addr < region->addr + region->length && region->addr < addr + length)
			return region;
	}
	return NULL;
}

struct region *region_find(const void *addr)
{
	const char *at = addr;

	for (struct region *region = regions; region; region = region->next) {
		if (at >= region->addr && at < region->addr + region->length)
			return region;
	}
	return NULL;
}

int region_add(const struct region *region)
{
	struct region *copy = new_node();

	if (!copy)
		return -ENOMEM;
	*copy = *region;
	copy->next = regions;
	regions = copy;
	widen_bounds(copy);
	return 0;
}

int region_prepare_cut(void)
{
	if (!spare)
		spare = new_node();
	return spare ? 0 : -ENOMEM;
}

/* The part [from, to) of @region. */
static struct region part_of(const struct region *region, char *from, char *to)
{
	struct region part = *region;

	part.addr = from;
	part.length = (size_t)(to - from);
	part.offset += (uint64_t)(from - region->addr);
	return part;
}

/* Put @value into @node and that into the list, and return where the list goes on. */
static struct region **insert(struct region **link, struct region *node,
			      const struct region *value)
{
	*node = *value;
	node->next = *link;
	*link = node;
	return &node->next;
}

/* The spare is used up once at most: only a region around all of the range leaves two parts. */
static struct region *take_spare(void)
{
	struct region *node = spare;

	spare = NULL;
	return node;
}

void region_cut(char *addr, size_t length, void (*cut)(const struct region *part, void *data),
		void *data)
{
	struct region **link = &regions, *region, part, front, tail;
	char *from, *to, *end;

	while ((region = *link)) {
		end = region->addr + region->length;
		from = addr > region->addr ? addr : region->addr;
		to = addr + length < end ? addr + length : end;
		if (from >= to) {
			link = &region->next;
			continue;
		}
		part = part_of(region, from, to);
		front = part_of(region, region->addr, from);
		tail = part_of(region, to, end);
		*link = region->next;
		if (front.length > 0) {
			link = insert(link, region, &front);
			region = NULL;
		}
		if (tail.length > 0) {
			link = insert(link, region ? region : take_spare(), &tail);
			region = NULL;
		}
		free_node(region);
		cut(&part, data);
	}
}
