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

/* The part of @region that lies in [addr, end). */
static struct region part_of(const struct region *region, char *addr, char *end)
{
	struct region part = *region;

	if (addr > part.addr) {
		part.offset += (uint64_t)(addr - part.addr);
		part.addr = addr;
	}
	if (end > region->addr + region->length)
		end = region->addr + region->length;
	part.length = (size_t)(end - part.addr);
	return part;
}

void region_cut(char *addr, size_t length, void (*cut)(const struct region *part, void *data),
		void *data)
{
	struct region **link = &regions, *region, part, tail;
	char *end = addr + length;

	while ((region = *link)) {
		if (end <= region->addr || addr >= region->addr + region->length) {
			link = &region->next;
			continue;
		}
		part = part_of(region, addr, end);
		tail = part_of(region, end, region->addr + region->length);
		*link = region->next;
		if (addr > region->addr) { /* the front stays */
			region->length = (size_t)(addr - region->addr);
			*link = region;
			link = &region->next;
			region = NULL;
		}
		if (end < part.addr + part.length + 1 && tail.addr == end && tail.length > 0) {
			/* So does the end. Both only happens for the one region around it all. */
			if (!region) {
				region = spare;
				spare = NULL;
			}
			tail.next = *link;
			*region = tail;
			*link = region;
			link = &region->next;
			region = NULL;
		}
		free(region);
		cut(&part, data);
	}
}
