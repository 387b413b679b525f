/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Page spaces over an in-memory backing, as the tests of the page transaction want them: hooks
 * into the backing, and a check of every invariant of fs/page.h. To be included after cmocka.h.
 */
#pragma once

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fs/backing_mem.h"
#include "fs/page.h"
#include "fs/page_maps.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define NONE              SUBPOOL_NO_LIMIT

enum {
	NR_SPACES = 2,
	TEST_PAGE_SIZE = 2 << 20,
	SPACE_PAGES = 64, /* the pages of the backing files that the check looks at */
	TEST_MUTEXES = 1024,
};

struct page_test {
	struct backing_mem mem; /* first: what the hooks get is a pointer to it */
	const struct backing_ops *mem_ops;
	struct backing_ops ops; /* mem_ops with the hooks */
	struct page_core core;
	struct page_space space[NR_SPACES];
	struct backing_file *file[NR_SPACES];

	/* Hooks; NULL and 0: none. Those of pages are called under the page's fault mutex. */
	void (*before_populate)(struct page_test *test, int64_t idx);
	void (*before_punch)(struct page_test *test, int64_t idx);
	void (*after_present)(struct page_test *test, int64_t idx);
	void (*before_resize)(struct page_test *test);                /* under no lock */
	int populate_error, punch_error, resize_error, present_error; /* -errno or 0 */
	int answer_node; /* populate on this node instead, if >= 0 */
	void *data;      /* the hooks' own */
};

/* How to set up a struct page_test; what is 0 gets the default. */
struct page_config {
	int nr_nodes;                     /* 1 */
	int64_t nr_pages[POOL_MAX_NODES]; /* set aside */
	int64_t max, min;
	uint32_t nr_mutexes; /* TEST_MUTEXES */
	bool region_lock_global;
	uint64_t populate_ns;
};

static inline struct page_test *test_of(struct backing_file *file)
{
	return (struct page_test *)file->backing;
}

static inline int hook_populate(struct backing_file *file, int64_t idx, int node)
{
	struct page_test *test = test_of(file);

	if (test->before_populate)
		test->before_populate(test, idx);
	if (test->populate_error)
		return test->populate_error;
	return test->mem_ops->populate(file, idx,
				       test->answer_node >= 0 ? test->answer_node : node);
}

static inline int hook_punch(struct backing_file *file, int64_t from, int64_t to)
{
	struct page_test *test = test_of(file);

	if (test->before_punch)
		test->before_punch(test, from);
	return test->punch_error ? test->punch_error : test->mem_ops->punch(file, from, to);
}

static inline int hook_resize(struct backing_file *file, int64_t nr_pages)
{
	struct page_test *test = test_of(file);

	if (test->before_resize)
		test->before_resize(test);
	return test->resize_error ? test->resize_error : test->mem_ops->resize(file, nr_pages);
}

static inline int hook_present(struct backing_file *file, int64_t idx)
{
	struct page_test *test = test_of(file);
	int r = test->present_error ? test->present_error : test->mem_ops->present(file, idx);

	if (test->after_present)
		test->after_present(test, idx);
	return r;
}

/* Space 0 is a file's, of SPACE_PAGES pages; space 1 is a private mapping's, which has no end.
 */
static inline void page_test_init(struct page_test *test, const struct page_config *config)
{
	int nr_nodes = config->nr_nodes ? config->nr_nodes : 1;

	memset(test, 0x5a, sizeof(*test)); /* nobody promised zeroes */
	backing_mem_init(&test->mem, TEST_PAGE_SIZE, nr_nodes);
	test->mem.populate_ns = config->populate_ns;
	test->mem_ops = test->mem.backing.ops;
	test->ops = *test->mem_ops;
	test->ops.populate = hook_populate;
	test->ops.punch = hook_punch;
	test->ops.resize = hook_resize;
	test->ops.present = hook_present;
	test->mem.backing.ops = &test->ops;
	test->before_populate = test->before_punch = NULL;
	test->after_present = NULL;
	test->before_resize = NULL;
	test->populate_error = test->punch_error = 0;
	test->resize_error = test->present_error = 0;
	test->answer_node = -1;
	assert_int_equal(page_core_init(&test->core, nr_nodes, config->nr_pages, config->max,
					config->min,
					config->nr_mutexes ? config->nr_mutexes : TEST_MUTEXES,
					config->region_lock_global),
			 0);
	for (int i = 0; i < NR_SPACES; i++) {
		assert_int_equal(test->ops.file_open(&test->mem.backing, (uint64_t)i + 1, -1,
						     &test->file[i]),
				 0);
		assert_int_equal(test->ops.resize(test->file[i], SPACE_PAGES), 0);
		assert_int_equal(page_space_init(&test->space[i], &test->core, test->file[i],
						 i == 0 ? 1 : 1ULL << 63 | 1, i == 0 ? 0 : 1000,
						 i == 0 ? SPACE_PAGES : REGION_END),
				 0);
	}
}

static inline void assert_region_in(struct region_map *map, int64_t from, int64_t to)
{
	assert_int_equal(region_map_count_locked(map, from, to), to - from);
}

/* inst is a part of resv, no page is on two nodes, and the backing has just what inst says. */
static inline void check_space(struct page_test *test, int i, int64_t *ret_resv,
			       int64_t *nr_inst_of_node)
{
	struct page_space *space = &test->space[i];
	struct region region;
	int64_t nr_inst = 0;

	rwsem_read_lock(space->lock);
	assert_true(region_map_check_locked(&space->resv));
	assert_int_equal(space->nr_populating, 0);
	for (int node = 0; node < space->nr_nodes; node++) {
		struct region_map *inst = &space->inst[node];

		assert_true(region_map_check_locked(inst));
		for (region.to = 0; region_map_next_locked(inst, region.to, &region);) {
			assert_region_in(&space->resv, region.from, region.to);
			nr_inst_of_node[node] += region.to - region.from;
			nr_inst += region.to - region.from;
			for (int64_t idx = region.from; idx < region.to; idx++) {
				assert_int_equal(test->mem_ops->present(test->file[i], idx), 1);
				assert_int_equal(page_inst_node_locked(space, idx), node);
			}
		}
	}
	*ret_resv = region_map_count_locked(&space->resv, 0, REGION_END);
	rwsem_read_unlock(space->lock);
	assert_int_equal(test->mem_ops->count(test->file[i]), nr_inst);
}

/* The invariants of fs/page.h and fs/pool.h while nothing is in flight. */
static inline void check(struct page_test *test)
{
	int64_t nr_inst_of_node[POOL_MAX_NODES] = {0}, nr_resv = 0, nr_inst = 0, nr;
	struct subpool_counts subpool;
	struct pool_counts pool;

	for (int i = 0; i < NR_SPACES; i++) {
		check_space(test, i, &nr, nr_inst_of_node);
		nr_resv += nr;
	}
	subpool_read(&test->core.subpool, &subpool);
	pool_read(&test->core.pool, &pool);
	for (int node = 0; node < pool.nr_nodes; node++) {
		assert_int_equal(pool.node[node].nr - pool.node[node].free,
				 nr_inst_of_node[node]);
		nr_inst += nr_inst_of_node[node];
	}
	assert_int_equal(subpool.used, nr_resv);
	assert_int_equal(pool.nr - pool.free, nr_inst);
	assert_int_equal(pool.resv, subpool.resv + nr_resv - nr_inst);
	assert_int_equal(test->mem.nr_pages, nr_inst);
}

/* All counters, to see that nothing has changed. */
struct page_counters {
	struct pool_counts pool;
	struct subpool_counts subpool;
	struct page_space_counts space[NR_SPACES];
};

static inline struct page_counters counters(struct page_test *test)
{
	struct page_counters now;

	memset(&now, 0, sizeof(now)); /* padding is compared */
	pool_read(&test->core.pool, &now.pool);
	subpool_read(&test->core.subpool, &now.subpool);
	for (int i = 0; i < NR_SPACES; i++)
		page_space_read(&test->space[i], &now.space[i]);
	return now;
}

static inline void assert_unchanged(struct page_test *test, const struct page_counters *before)
{
	struct page_counters now = counters(test);

	check(test);
	assert_memory_equal(&now, before, sizeof(now));
}

/* Free everything; all that was set aside must be free again, and nothing else. */
static inline void page_test_deinit(struct page_test *test, const struct page_config *config)
{
	struct pool_counts pool;
	int64_t set_aside = 0;

	check(test);
	for (int i = 0; i < NR_SPACES; i++) {
		test->ops.file_close(test->file[i], true);
		page_space_deinit(&test->space[i]);
	}
	pool_read(&test->core.pool, &pool);
	for (int node = 0; node < pool.nr_nodes; node++)
		set_aside += config->nr_pages[node];
	assert_int_equal(pool.free, pool.nr);
	assert_int_equal(pool.nr - pool.surplus, set_aside);
	assert_int_equal(pool.resv, config->min);
	assert_int_equal(test->mem.nr_pages, 0);
	page_core_deinit(&test->core);
}

static inline void assert_space(struct page_test *test, int i, int64_t resv,
				int64_t instantiated)
{
	struct page_space_counts counts;

	check(test);
	page_space_read(&test->space[i], &counts);
	assert_int_equal(counts.resv, resv);
	assert_int_equal(counts.instantiated, instantiated);
	assert_int_equal(counts.populating, 0);
}

static inline void assert_pool(struct page_test *test, int64_t nr, int64_t nr_free,
			       int64_t resv, int64_t surplus)
{
	struct pool_counts pool;

	pool_read(&test->core.pool, &pool);
	assert_int_equal(pool.nr, nr);
	assert_int_equal(pool.free, nr_free);
	assert_int_equal(pool.resv, resv);
	assert_int_equal(pool.surplus, surplus);
}

static inline uint64_t start_seed(void)
{
	const char *text = getenv("TEST_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 0) : (uint64_t)time(NULL);

	print_message("TEST_SEED=%" PRIu64 "\n", seed);
	return seed;
}

static inline uint32_t random_below(uint64_t *seed, uint32_t limit)
{
	*seed = *seed * 6364136223846793005U + 1442695040888963407U;
	return (uint32_t)(((*seed >> 32) * limit) >> 32);
}
