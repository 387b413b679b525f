/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Region map: a set of page indexes kept as disjoint, maximal ranges ("regions", the kernel's
 * struct file_region in a resv_map), in a balanced tree whose nodes hold some tens of regions
 * each and know how many pages their subtree holds. Everything under the lock is O(log n) in
 * the number of regions, also a change that swallows many of them: those are cut off as a whole
 * and freed after the lock is dropped. A map of at most one region, as most files have, needs
 * no node.
 *
 * Changes are made in two steps, as with region_chg/region_add/region_abort in the kernel's
 * mm/hugetlb.c: prepare may fail and allocates all that commit can need (adding a range leaves
 * at most one region more, and a full node splits into two without touching another, so that
 * one node is enough however the map changes in between); commit and abort cannot fail.
 *
 * A map does not own its lock: all maps of one file, or of the whole mount with
 * region_lock=global, share an rwsem of rank LOCK_RANK_REGION_MAP. Functions called *_locked
 * want it held (for writing where they change the map); the others take it. Nothing is
 * allocated or freed while it is held.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fs/lock.h"

#define REGION_END INT64_MAX /* the first index past every page */

/* Pages [from, to). */
struct region {
	int64_t from, to;
};

struct region_node;

struct region_map {
	struct rwsem *lock;       /* set at init */
	struct region_node *root; /* lock; NULL with fewer than two regions */
	size_t nr_regions;        /* lock */
	struct region only;       /* lock; the region where there is one and no root */
};

/* What prepare got for a commit or abort that must follow. Not shared between threads. */
struct region_change {
	int64_t from, to;
	struct region_node *spare; /* the node that the change may need */
	struct region_node *dead;  /* what it cut off, to be freed without the lock */
};

void region_map_init(struct region_map *map, struct rwsem *lock);
/* Free all regions. The caller is the last user. */
void region_map_deinit(struct region_map *map);

/*
 * Prepare to add [from, to). Returns the number of pages that are not yet in the map (>= 0),
 * and in @ret_change what commit or abort needs; -EINVAL unless 0 <= from < to; -ENOMEM.
 * Follows region_chg().
 */
int64_t region_map_prepare(struct region_map *map, int64_t from, int64_t to,
			   struct region_change *ret_change);
/*
 * Add the prepared range. Returns the number of pages added, which may differ from what prepare
 * said if the map was changed meanwhile. Cannot fail. Follows region_add().
 */
int64_t region_map_commit(struct region_map *map, struct region_change *change);
/* The same with the lock held for writing; free what is left with region_change_free(). */
int64_t region_map_commit_locked(struct region_map *map, struct region_change *change);
/* Give back what prepare allocated. The map is as if prepare had never been called. */
void region_map_abort(struct region_map *map, struct region_change *change);
/* Allocate a change for [from, to) without looking at the map: 0, -EINVAL, -ENOMEM. */
int region_change_init(struct region_change *change, int64_t from, int64_t to);
/* Free what a commit or delete did not use, or left over. Call it without locks. NULL-safe. */
void region_change_free(struct region_change *change);

/*
 * Remove [from, to). Returns the number of pages removed; -EINVAL unless 0 <= from < to; or
 * -ENOMEM with nothing changed, which can happen only if [from, to) is a hole inside one region
 * (one region more, that may need a node). Follows region_del().
 */
int64_t region_map_delete(struct region_map *map, int64_t from, int64_t to);
/* The same, with @change from region_change_init() for the same range. Cannot fail. */
int64_t region_map_delete_locked(struct region_map *map, struct region_change *change);
/* Remove everything from @from on. Returns the number of pages removed; cannot fail. */
int64_t region_map_truncate(struct region_map *map, int64_t from);

/* The number of pages of [from, to) in the map; 0 if from >= to. Follows region_count(). */
int64_t region_map_count(struct region_map *map, int64_t from, int64_t to);
int64_t region_map_count_locked(const struct region_map *map, int64_t from, int64_t to);
/* Whether page @idx is in the map. */
bool region_map_contains_locked(const struct region_map *map, int64_t idx);

/*
 * The first region that ends after @from (it may begin before). Returns false where there is
 * none. To visit all: start at 0 and go on from ret_region->to.
 */
bool region_map_next_locked(const struct region_map *map, int64_t from,
			    struct region *ret_region);

/*
 * Bytes of memory that one region takes at most in a map of many regions, the allocator's share
 * included. (The first region is inside the map, the second costs a whole node of 512 bytes.)
 */
size_t region_map_bytes_per_region(void);

/* For tests: whether order, maximality, balance, fill and sums of the tree are all right. */
bool region_map_check_locked(const struct region_map *map);
/* For tests, which may define it: true makes the allocation of a node fail. */
bool region_map_fail_alloc(void) __attribute__((weak));
