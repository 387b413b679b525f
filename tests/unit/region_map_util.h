/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Calls on a region map as its unit tests want them: each with its lock, and random numbers.
 */
#pragma once

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "fs/region_map.h"

/* Prepare and commit. Returns the number of pages added. */
static inline int64_t add(struct region_map *map, int64_t from, int64_t to)
{
	struct region_change change;
	int64_t said = region_map_prepare(map, from, to, &change);

	if (said < 0)
		return said;
	assert_int_equal(said, region_map_commit(map, &change));
	return said;
}

static inline bool next_region(struct region_map *map, int64_t from, struct region *ret_region)
{
	bool found;

	rwsem_read_lock(map->lock);
	found = region_map_next_locked(map, from, ret_region);
	rwsem_read_unlock(map->lock);
	return found;
}

static inline bool contains(struct region_map *map, int64_t idx)
{
	bool found;

	rwsem_read_lock(map->lock);
	found = region_map_contains_locked(map, idx);
	rwsem_read_unlock(map->lock);
	return found;
}

static inline bool check(struct region_map *map)
{
	bool ok;

	rwsem_read_lock(map->lock);
	ok = region_map_check_locked(map);
	rwsem_read_unlock(map->lock);
	return ok;
}

static inline uint64_t random_next(uint64_t *random)
{
	*random ^= *random << 13;
	*random ^= *random >> 7;
	*random ^= *random << 17;
	return *random;
}

/* HUGEFUSE_TEST_SEED, or another one every time. */
static inline uint64_t get_seed(void)
{
	const char *text = getenv("HUGEFUSE_TEST_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 0) : (uint64_t)time(NULL) * 2654435761U;

	print_message("HUGEFUSE_TEST_SEED=%" PRIu64 "\n", seed);
	return seed ? seed : 1;
}
