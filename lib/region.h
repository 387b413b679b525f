/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Regions: what this process has mapped through hugefuse_mmap(). Unmapping a part splits one.
 * The library's lock is held by whoever looks at them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "connection.h"

struct region {
	char *addr;
	size_t length;
	size_t page_size;
	uint64_t offset;       /* of addr, in the file */
	uint64_t first_offset; /* of the whole mapping */
	size_t shard_length;   /* bytes that a userfaultfd covers; 0: there is none */
	uint64_t
		mapping; /* the daemon's number; 0: the daemon does not know of it (any more) */
	uint64_t key[2];
	struct connection *connection;
	struct region *next; /* of those that are not in use */
};

/*
 * The first region, by address, that ends behind @addr, or NULL: from one's end on the next
 * one, and from NULL on all of them.
 */
struct region *region_behind(const char *addr);
/* The region that has @addr, or NULL. */
struct region *region_find(const void *addr);
/* A region that has something of [addr, addr + length), or NULL. */
struct region *region_first_in(const char *addr, size_t length);
/* Whether there may be one, without the lock: never false where there is one. */
bool region_may_overlap(const void *addr, size_t length);
/* Add a copy of @region. 0 or -ENOMEM. */
int region_add(const struct region *region);
/* Make sure that the next region_cut() has what it needs: 0, -ENOMEM. */
int region_prepare_cut(void);
/*
 * Take [addr, addr + length) out of the regions, and call @cut for each part, which is
 * described by a region of its own.
 */
void region_cut(char *addr, size_t length, void (*cut)(const struct region *part, void *data),
		void *data);
