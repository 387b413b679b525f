/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Regions: a list, newest first. One spare is kept, so that cutting cannot fail. */
#include "region.h"

#include <errno.h>
#include <stdlib.h>

struct region *regions;
static struct region *spare;

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
	struct region *copy = malloc(sizeof(*copy));

	if (!copy)
		return -ENOMEM;
	*copy = *region;
	copy->next = regions;
	regions = copy;
	return 0;
}

int region_prepare_cut(void)
{
	if (!spare)
		spare = malloc(sizeof(*spare));
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
		free(region);
		cut(&part, data);
	}
}
