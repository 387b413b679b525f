/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Region maps: directed cases, a long random run against a bitmap, and threads.
 *
 * HUGEFUSE_TEST_SEED repeats the random run that printed it.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "region_map_model.h"
#include "region_map_threads.h"
#include "region_map_util.h"

#define MANY 5000 /* regions, so that they take many nodes */

static atomic_bool fail_alloc;

bool region_map_fail_alloc(void)
{
	return atomic_load(&fail_alloc);
}

struct fixture {
	struct rwsem lock;
	struct region_map map;
};

static int setup(void **state)
{
	struct fixture *fixture = aligned_alloc(_Alignof(struct fixture), sizeof(*fixture));

	if (!fixture)
		return -1;
	rwsem_init(&fixture->lock, LOCK_RANK_REGION_MAP);
	region_map_init(&fixture->map, &fixture->lock);
	atomic_store(&fail_alloc, false);
	*state = fixture;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;

	atomic_store(&fail_alloc, false);
	region_map_deinit(&fixture->map);
	rwsem_deinit(&fixture->lock);
	free(fixture);
	return 0;
}

static struct region_map *get_map(void **state)
{
	return &((struct fixture *)*state)->map;
}

/* The map has exactly the @nr regions @want. */
static void assert_regions(struct region_map *map, const struct region *want, size_t nr)
{
	struct region region = {0, 0};
	int64_t pages = 0;

	for (size_t i = 0; i < nr; i++) {
		assert_true(next_region(map, region.to, &region));
		assert_int_equal(region.from, want[i].from);
		assert_int_equal(region.to, want[i].to);
		pages += region.to - region.from;
	}
	assert_false(next_region(map, region.to, &region));
	assert_int_equal(region_map_count(map, 0, REGION_END), pages);
	assert_int_equal(map->nr_regions, nr);
	assert_true(check(map));
}

#define ASSERT_REGIONS(map, ...)                                           \
	do {                                                               \
		static const struct region want[] = {__VA_ARGS__};         \
		assert_regions(map, want, sizeof(want) / sizeof(want[0])); \
	} while (0)

/* Pages 0, 2, 4 ... */
static void add_many(struct region_map *map, int64_t nr)
{
	for (int64_t i = 0; i < nr; i++)
		assert_int_equal(add(map, 2 * i, 2 * i + 1), 1);
	assert_int_equal(map->nr_regions, nr);
}

static void test_empty(void **state)
{
	struct region_map *map = get_map(state);
	struct region region = {7, 8};

	assert_regions(map, NULL, 0);
	assert_false(next_region(map, 0, &region));
	assert_int_equal(region.from, 7);
	assert_int_equal(region_map_count(map, 0, REGION_END), 0);
	assert_false(contains(map, 0));
	assert_false(contains(map, REGION_END - 1));
	assert_int_equal(region_map_delete(map, 0, REGION_END), 0);
	assert_int_equal(region_map_truncate(map, 0), 0);
	region_map_deinit(NULL);
	region_change_free(NULL);
}

static void test_invalid(void **state)
{
	struct region_map *map = get_map(state);
	struct region_change change = {.from = 42};

	assert_int_equal(region_map_prepare(map, 5, 5, &change), -EINVAL);
	assert_int_equal(region_map_prepare(map, 6, 5, &change), -EINVAL);
	assert_int_equal(region_map_prepare(map, -1, 5, &change), -EINVAL);
	assert_int_equal(region_map_prepare(map, INT64_MIN, INT64_MAX, &change), -EINVAL);
	assert_int_equal(region_change_init(&change, REGION_END, REGION_END), -EINVAL);
	assert_int_equal(change.from, 42);
	assert_int_equal(add(map, 3, 9), 6);
	assert_int_equal(region_map_delete(map, 5, 5), -EINVAL);
	assert_int_equal(region_map_delete(map, -1, 5), -EINVAL);
	assert_int_equal(region_map_count(map, 5, 5), 0);
	assert_int_equal(region_map_count(map, 9, 3), 0);
	assert_int_equal(region_map_count(map, INT64_MIN, INT64_MAX), 6);
	ASSERT_REGIONS(map, {3, 9});
	assert_int_equal(region_map_truncate(map, -5), 6);
}

static void test_adjacent(void **state)
{
	struct region_map *map = get_map(state);

	assert_int_equal(add(map, 10, 20), 10);
	assert_int_equal(add(map, 20, 30), 10);
	assert_int_equal(add(map, 5, 10), 5);
	ASSERT_REGIONS(map, {5, 30});
	assert_int_equal(add(map, 31, 40), 9);
	ASSERT_REGIONS(map, {5, 30}, {31, 40});
	assert_int_equal(add(map, 30, 31), 1);
	ASSERT_REGIONS(map, {5, 40});
}

static void test_overlap(void **state)
{
	struct region_map *map = get_map(state);

	assert_int_equal(add(map, 10, 20), 10);
	assert_int_equal(add(map, 30, 40), 10);
	assert_int_equal(add(map, 50, 60), 10);
	assert_int_equal(add(map, 12, 18), 0);
	assert_int_equal(add(map, 15, 35), 10);
	ASSERT_REGIONS(map, {10, 40}, {50, 60});
	assert_int_equal(add(map, 0, 100), 60);
	ASSERT_REGIONS(map, {0, 100});
	assert_true(contains(map, 0));
	assert_true(contains(map, 99));
	assert_false(contains(map, 100));
}

static void test_delete(void **state)
{
	struct region_map *map = get_map(state);

	assert_int_equal(add(map, 10, 20), 10);
	assert_int_equal(region_map_delete(map, 0, 10), 0);
	assert_int_equal(region_map_delete(map, 20, 30), 0);
	assert_int_equal(region_map_delete(map, 14, 16), 2);
	ASSERT_REGIONS(map, {10, 14}, {16, 20});
	assert_int_equal(region_map_delete(map, 14, 16), 0);
	assert_int_equal(region_map_delete(map, 12, 17), 3);
	ASSERT_REGIONS(map, {10, 12}, {17, 20});
	assert_int_equal(region_map_delete(map, 0, 11), 1);
	assert_int_equal(region_map_delete(map, 19, 100), 1);
	ASSERT_REGIONS(map, {11, 12}, {17, 19});
	assert_int_equal(region_map_delete(map, 0, REGION_END), 3);
	assert_regions(map, NULL, 0);
}

static void test_truncate(void **state)
{
	struct region_map *map = get_map(state);

	add_many(map, MANY);
	assert_int_equal(region_map_truncate(map, 2 * MANY), 0);
	assert_int_equal(region_map_truncate(map, 1001), MANY - 501);
	assert_int_equal(map->nr_regions, 501);
	assert_true(check(map));
	assert_int_equal(add(map, 1000, 2000), 999);
	assert_int_equal(region_map_truncate(map, 1500), 500);
	assert_int_equal(region_map_count(map, 0, REGION_END), 500 + 500);
	assert_int_equal(region_map_truncate(map, 1), 999);
	ASSERT_REGIONS(map, {0, 1});
	assert_int_equal(region_map_truncate(map, 0), 1);
	assert_regions(map, NULL, 0);
}

static void test_limits(void **state)
{
	struct region_map *map = get_map(state);

	assert_int_equal(add(map, REGION_END - 1, REGION_END), 1);
	assert_int_equal(add(map, 0, 1), 1);
	ASSERT_REGIONS(map, {0, 1}, {REGION_END - 1, REGION_END});
	assert_int_equal(region_map_count(map, 1, REGION_END), 1);
	assert_true(contains(map, REGION_END - 1));
	assert_false(contains(map, REGION_END));
	assert_false(contains(map, -1));
	assert_int_equal(add(map, 0, REGION_END), REGION_END - 2);
	ASSERT_REGIONS(map, {0, REGION_END});
	assert_int_equal(region_map_count(map, INT64_MIN, REGION_END), REGION_END);
	assert_int_equal(region_map_delete(map, 1, REGION_END - 1), REGION_END - 2);
	ASSERT_REGIONS(map, {0, 1}, {REGION_END - 1, REGION_END});
	assert_int_equal(region_map_truncate(map, REGION_END - 1), 1);
	ASSERT_REGIONS(map, {0, 1});
}

static void test_swallow_many(void **state)
{
	struct region_map *map = get_map(state);

	add_many(map, MANY);
	/* All but ten in front and nine behind; the tenth there touches the range. */
	assert_int_equal(add(map, 20, 2 * MANY - 20), MANY - 20);
	assert_int_equal(map->nr_regions, 20);
	assert_true(check(map));
	assert_int_equal(region_map_count(map, 0, REGION_END), 2 * MANY - 40 + 20);
	assert_int_equal(add(map, 0, REGION_END), REGION_END - (2 * MANY - 20));
	ASSERT_REGIONS(map, {0, REGION_END});
}

static void test_delete_many(void **state)
{
	struct region_map *map = get_map(state);

	add_many(map, MANY);
	assert_int_equal(region_map_delete(map, 1, 2 * MANY - 2), MANY - 2);
	ASSERT_REGIONS(map, {0, 1}, {2 * MANY - 2, 2 * MANY - 1});
}

/* One delete that removes nodes in the middle and leaves parts of the first and last region. */
static void test_delete_wide(void **state)
{
	struct region_map *map = get_map(state);

	for (int64_t i = 0; i < MANY; i++)
		assert_int_equal(add(map, 4 * i, 4 * i + 3), 3);
	assert_int_equal(region_map_delete(map, 401, 4 * MANY - 399), 3 * (MANY - 200));
	assert_true(check(map));
	assert_true(contains(map, 400));
	assert_false(contains(map, 401));
	assert_true(contains(map, 4 * MANY - 399));
	assert_false(contains(map, 4 * MANY - 400));
	assert_int_equal(map->nr_regions, 201);
}

/* Every second region away, one by one, in both directions: nodes run empty and merge. */
static void test_drain(void **state)
{
	struct region_map *map = get_map(state);

	add_many(map, MANY);
	for (int64_t i = 0; i < MANY; i += 2) {
		assert_int_equal(region_map_delete(map, 2 * i, 2 * i + 1), 1);
		assert_true(i % 500 || check(map));
	}
	for (int64_t i = MANY - 1; i > 0; i -= 2) {
		assert_int_equal(region_map_delete(map, 2 * i, 2 * i + 1), 1);
		assert_true(i % 500 != 1 || check(map));
	}
	assert_regions(map, NULL, 0);
}

/* Without memory: prepare and a hole fail and change nothing, everything else works. */
static void test_no_memory(void **state)
{
	struct region_map *map = get_map(state);
	struct region_change change = {.from = 42};

	assert_int_equal(add(map, 10, 20), 10);
	atomic_store(&fail_alloc, true);
	assert_int_equal(region_map_prepare(map, 30, 40, &change), -ENOMEM);
	assert_int_equal(region_change_init(&change, 30, 40), -ENOMEM);
	assert_int_equal(change.from, 42);
	assert_int_equal(region_map_delete(map, 14, 16), -ENOMEM);
	ASSERT_REGIONS(map, {10, 20});
	assert_int_equal(region_map_delete(map, 18, 30), 2);
	assert_int_equal(region_map_truncate(map, 15), 3);
	ASSERT_REGIONS(map, {10, 15});
	assert_int_equal(region_map_delete(map, 0, 12), 2);
	assert_int_equal(region_map_delete(map, 0, REGION_END), 3);
	assert_regions(map, NULL, 0);
}

/* The same with full nodes, and with the nodes of a large map. */
static void test_no_memory_many(void **state)
{
	struct region_map *map = get_map(state);
	int64_t nr_failed = 0, pages = 3 * MANY;
	size_t nr_regions;

	for (int64_t i = 0; i < MANY; i++)
		assert_int_equal(add(map, 4 * i, 4 * i + 3), 3);
	nr_regions = map->nr_regions;
	atomic_store(&fail_alloc, true);
	for (int64_t i = 0; i < MANY; i++) {
		int64_t removed = region_map_delete(map, 4 * i + 1, 4 * i + 2);

		assert_true(removed == 1 || removed == -ENOMEM);
		nr_failed += removed < 0;
		nr_regions += removed == 1;
		pages -= removed == 1;
		assert_int_equal(map->nr_regions, nr_regions);
		assert_int_equal(region_map_count(map, 0, REGION_END), pages);
	}
	assert_true(nr_failed > 0);
	assert_true(check(map));
	assert_int_equal(region_map_truncate(map, 1), pages - 1);
}

static void test_abort(void **state)
{
	struct region_map *map = get_map(state);
	struct region_change change;

	assert_int_equal(add(map, 10, 20), 10);
	assert_int_equal(region_map_prepare(map, 0, 30, &change), 20);
	region_map_abort(map, &change);
	ASSERT_REGIONS(map, {10, 20});
	/* A second one finds nothing more to free. */
	region_map_abort(map, &change);
}

/* Between prepare and commit others add, and remove, parts of the range. */
static void test_changed_between(void **state)
{
	struct region_map *map = get_map(state);
	struct region_change change, other;

	assert_int_equal(region_map_prepare(map, 10, 20, &change), 10);
	assert_int_equal(region_map_prepare(map, 15, 25, &other), 10);
	assert_int_equal(region_map_commit(map, &other), 10);
	assert_int_equal(region_map_commit(map, &change), 5);
	ASSERT_REGIONS(map, {10, 25});

	assert_int_equal(region_map_prepare(map, 12, 30, &change), 5);
	assert_int_equal(region_map_delete(map, 14, 16), 2);
	assert_int_equal(region_map_commit(map, &change), 7);
	ASSERT_REGIONS(map, {10, 30});
}

/* Prepared with an empty map, committed into full nodes and all in one place. */
static void test_many_pending(void **state)
{
	struct region_map *map = get_map(state);
	struct region_change *changes = calloc(MANY, sizeof(*changes));

	assert_non_null(changes);
	for (int64_t i = 0; i < MANY; i++)
		assert_int_equal(region_map_prepare(map, 4 * i, 4 * i + 1, &changes[i]), 1);
	atomic_store(&fail_alloc, true);
	for (int64_t i = 0; i < MANY; i += 2)
		assert_int_equal(region_map_commit(map, &changes[i]), 1);
	for (int64_t i = MANY - 1; i > 0; i -= 2)
		assert_int_equal(region_map_commit(map, &changes[i]), 1);
	assert_true(check(map));
	assert_int_equal(map->nr_regions, MANY);
	free(changes);
}

static void test_locked_calls(void **state)
{
	struct region_map *map = get_map(state);
	struct region_change adding, removing;
	int64_t added, removed;

	assert_int_equal(region_change_init(&adding, 10, 20), 0);
	assert_int_equal(region_change_init(&removing, 14, 16), 0);
	rwsem_write_lock(map->lock);
	added = region_map_commit_locked(map, &adding);
	removed = region_map_delete_locked(map, &removing);
	rwsem_write_unlock(map->lock);
	region_change_free(&adding);
	region_change_free(&removing);
	assert_int_equal(added, 10);
	assert_int_equal(removed, 2);
	ASSERT_REGIONS(map, {10, 14}, {16, 20});
}

/* A map of one region has no node, and many regions take what the header says at most. */
static void test_memory(void **state)
{
	struct region_map *map = get_map(state);

	assert_true(region_map_bytes_per_region() <= 64);
	assert_int_equal(add(map, 0, 512), 512);
	assert_null(map->root);
	assert_int_equal(add(map, 600, 700), 100);
	assert_non_null(map->root);
	assert_int_equal(add(map, 512, 600), 88);
	assert_null(map->root);
}

static void test_random(void **state)
{
	run_model(get_map(state), 0);
}

static void test_random_at_end(void **state)
{
	run_model(get_map(state), REGION_END - NR_MODEL_PAGES);
}

static void test_threads_own_pages(void **state)
{
	struct region_map *map = get_map(state);
	struct worker *workers = run_workers(map, false);
	int64_t pages = 0;

	for (int64_t i = 0; i < NR_THREAD_PAIRS * NR_THREADS; i++) {
		bool has = workers[i % NR_THREADS].has[i / NR_THREADS];

		assert_int_equal(contains(map, 2 * i), has);
		assert_int_equal(contains(map, 2 * i + 1), has);
		pages += 2 * has;
	}
	assert_int_equal(region_map_count(map, 0, REGION_END), pages);
	assert_true(check(map));
	free(workers);
}

/* What the calls returned adds up to what is there. */
static void test_threads_same_pages(void **state)
{
	struct region_map *map = get_map(state);
	struct worker *workers = run_workers(map, true);
	int64_t pages = 0;

	for (int64_t i = 0; i < NR_THREADS; i++)
		pages += workers[i].balance;
	assert_int_equal(region_map_count(map, 0, REGION_END), pages);
	assert_true(check(map));
	free(workers);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_empty),
		TEST(test_invalid),
		TEST(test_adjacent),
		TEST(test_overlap),
		TEST(test_delete),
		TEST(test_truncate),
		TEST(test_limits),
		TEST(test_swallow_many),
		TEST(test_delete_many),
		TEST(test_delete_wide),
		TEST(test_drain),
		TEST(test_no_memory),
		TEST(test_no_memory_many),
		TEST(test_abort),
		TEST(test_changed_between),
		TEST(test_many_pending),
		TEST(test_locked_calls),
		TEST(test_memory),
		TEST(test_random),
		TEST(test_random_at_end),
		TEST(test_threads_own_pages),
		TEST(test_threads_same_pages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
