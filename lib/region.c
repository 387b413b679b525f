/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Regions: an array of them in the order of their addresses; no two overlap. A spare and room
 * are kept, so that cutting cannot fail. All is in pages of its own: malloc(3) may be what is
 * mapping.
 */
#include "region.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "system.h"

#define SLAB_BYTES  4096
#define TABLE_BYTES 4096 /* at first */

static struct region **regions;
static size_t nr_regions, room;
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

/* Where the first region is that ends behind @addr, or would be. */
static size_t position_of(const char *addr)
{
	size_t from = 0, to = nr_regions, middle;

	while (from < to) {
		middle = from + (to - from) / 2;
		if (regions[middle]->addr + regions[middle]->length > addr)
			to = middle;
		else
			from = middle + 1;
	}
	return from;
}

struct region *region_behind(const char *addr)
{
	size_t position = position_of(addr);

	return position < nr_regions ? regions[position] : NULL;
}

struct region *region_first_in(const char *addr, size_t length)
{
	struct region *region = region_behind(addr);

	return region && region->addr < addr + length ? region : NULL;
}

struct region *region_find(const void *addr)
{
	struct region *region = region_behind(addr);

	return region && region->addr <= (const char *)addr ? region : NULL;
}

/* Room for one more: 0, -ENOMEM. */
static int make_room(void)
{
	size_t bytes = room * sizeof(*regions);
	void *grown;

	if (nr_regions < room)
		return 0;
	grown = regions ? system_mremap(regions, bytes, 2 * bytes, MREMAP_MAYMOVE, NULL)
			: system_mmap(NULL, TABLE_BYTES, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (grown == MAP_FAILED)
		return -ENOMEM;
	room = regions ? 2 * room : TABLE_BYTES / sizeof(*regions);
	regions = grown;
	return 0;
}

static void insert_at(size_t position, struct region *region)
{
	memmove(regions + position + 1, regions + position,
		(nr_regions - position) * sizeof(*regions));
	regions[position] = region;
	nr_regions++;
}

static void remove_at(size_t position)
{
	nr_regions--;
	memmove(regions + position, regions + position + 1,
		(nr_regions - position) * sizeof(*regions));
}

int region_add(const struct region *region)
{
	struct region *copy;

	if (make_room() < 0)
		return -ENOMEM;
	copy = new_node();
	if (!copy)
		return -ENOMEM;
	*copy = *region;
	insert_at(position_of(copy->addr), copy);
	widen_bounds(copy);
	return 0;
}

int region_prepare_cut(void)
{
	if (make_room() < 0)
		return -ENOMEM;
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

/* The spare is used up once at most: only a region around all of the range leaves two parts. */
static void insert_spare(size_t position, const struct region *value)
{
	*spare = *value;
	insert_at(position, spare);
	spare = NULL;
}

void region_cut(char *addr, size_t length, void (*cut)(const struct region *part, void *data),
		void *data)
{
	size_t position = position_of(addr);
	struct region *region, part, front, tail;
	char *from, *to, *end;

	while (position < nr_regions && regions[position]->addr < addr + length) {
		region = regions[position];
		end = region->addr + region->length;
		from = addr > region->addr ? addr : region->addr;
		to = addr + length < end ? addr + length : end;
		part = part_of(region, from, to);
		front = part_of(region, region->addr, from);
		tail = part_of(region, to, end);
		if (front.length > 0 && tail.length > 0)
			insert_spare(position + 1, &tail);
		if (front.length > 0) {
			*region = front;
			position++;
		} else if (tail.length > 0) {
			*region = tail;
		} else {
			remove_at(position);
			free_node(region);
		}
		cut(&part, data);
		if (tail.length > 0)
			break;
	}
}
