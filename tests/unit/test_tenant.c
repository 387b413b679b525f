/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tenants: subpools inside subpools. What a charge does at each level, failures at every level
 * that have to leave all counters as they were, limits that change, and random operations on a
 * tree of six beside a model.
 *
 * TEST_SEED in the environment repeats a random run.
 */
#include "fs/subpool.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "tenant_model.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

static void expect(struct tree *tree, int at, int used, int resv)
{
	struct subpool_counts counts;

	subpool_read(&tree->subpool[at], &counts);
	assert_int_equal(counts.used, used);
	assert_int_equal(counts.resv, resv);
}

static void test_charged_at_each_level(void **state)
{
	struct tree tree;

	tree_init(&tree, 20, 0, 20, 20);
	tree_set_limits(&tree, 1, 10, 4, false);
	expect(&tree, 0, 4, 16); /* what min_size keeps is used, to who is above it */
	tree_reserve(&tree, 1, 3);
	expect(&tree, 1, 3, 1);
	expect(&tree, 0, 4, 16);
	tree_reserve(&tree, 1, 3);
	expect(&tree, 1, 6, 0);
	expect(&tree, 0, 6, 14);
	tree_set_limits(&tree, 4, 6, 2, false); /* inside 1, out of what 1 may use */
	expect(&tree, 1, 8, 0);
	tree_reserve(&tree, 5, 4);
	expect(&tree, 5, 4, 0);
	expect(&tree, 4, 4, 0);
	expect(&tree, 1, 10, 0);
	expect(&tree, 0, 10, 10);
	tree_unreserve(&tree, 5, 4);
	expect(&tree, 4, 0, 2);
	expect(&tree, 1, 8, 0);
	tree_compare(&tree);
	tree_deinit(&tree);
}

/* Who is at the limit is refused, and nobody else. */
static void test_others_are_untouched(void **state)
{
	struct tree tree;

	tree_init(&tree, 20, 0, 20, 20);
	tree_set_limits(&tree, 1, 5, 0, false);
	tree_set_limits(&tree, 2, 8, 6, false);
	tree_reserve(&tree, 1, 5);
	assert_true(subpool_is_full(&tree.subpool[1]));
	assert_true(subpool_is_full(&tree.subpool[5])); /* as it is inside */
	assert_false(subpool_is_full(&tree.subpool[2]));
	assert_int_equal(subpool_reserve(&tree.subpool[1], 1), -ENOMEM);
	assert_int_equal(subpool_reserve(&tree.subpool[5], 1), -ENOMEM);
	/* The mount takes all that is left, but for what is kept for 2. */
	tree_reserve(&tree, 0, 9);
	assert_int_equal(subpool_reserve(&tree.subpool[0], 1), -ENOMEM);
	assert_int_equal(subpool_reserve(&tree.subpool[3], 1), -ENOMEM);
	assert_false(subpool_is_full(&tree.subpool[3]));
	tree_reserve(&tree, 2, 6);
	assert_int_equal(subpool_reserve(&tree.subpool[2], 1), -ENOMEM);
	tree_compare(&tree);
	tree_deinit(&tree);
}

/* What fails at any level changes none: 5 is in 4, in 1, in the mount, on the pool. */
static void test_failures_leave_no_trace(void **state)
{
	static const struct {
		int max, min; /* of what is made to be the narrowest */
		int at;
	} cases[] = {{3, 1, 5}, {3, 2, 4}, {4, 2, 1}, {NONE, 0, 0}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct subpool_taken taken;
		struct tree tree;

		tree_init(&tree, 8, 0, cases[i].at == 0 ? NONE : 8, 2);
		if (cases[i].at > 0)
			tree_set_limits(&tree, cases[i].at, cases[i].max, cases[i].min, false);
		else
			tree_set_limits(&tree, 4, 8, 1, false);
		tree_reserve(&tree, 5, 2);
		tree_compare(&tree);
		for (int failure = 0; failure < 1000; failure++) {
			assert_int_equal(subpool_reserve(&tree.subpool[5], 7), -ENOMEM);
			assert_int_equal(subpool_get_pages(&tree.subpool[5], INT64_MAX),
					 -ENOMEM);
			assert_int_equal(subpool_set_limits(&tree.subpool[5], NONE, 9, false),
					 -ENOMEM);
		}
		tree_compare(&tree);
		while (tree.model.level[5].nr_reserved < 8) {
			int before = tree.model.level[5].nr_reserved;

			tree_reserve(&tree, 5, 1);
			if (tree.model.level[5].nr_reserved == before)
				break;
		}
		assert_int_equal(subpool_take_page(&tree.subpool[5], 0, &taken), -ENOMEM);
		tree_compare(&tree);
		tree_deinit(&tree);
	}
}

/* A page that could not be populated goes back to the level whose min_size had given it. */
static void test_untaken_to_its_level(void **state)
{
	static const int givers[] = {5, 4, 1, 0};

	for (size_t i = 0; i < ARRAY_SIZE(givers); i++) {
		struct subpool_taken taken;
		struct tree tree;

		tree_init(&tree, 8, 0, 8, givers[i] == 0 ? 3 : 0);
		if (givers[i] > 0)
			tree_set_limits(&tree, givers[i], 8, 3, false);
		assert_int_equal(subpool_take_page(&tree.subpool[5], 0, &taken), 0);
		assert_int_equal(taken.source, POOL_FROM_RESERVATION);
		assert_ptr_equal(taken.covered_by, &tree.subpool[givers[i]]);
		expect(&tree, givers[i], 1, 2);
		subpool_untake_page(&tree.subpool[5], 0, &taken);
		tree_compare(&tree);
		tree_deinit(&tree);
	}
}

/* The kernel's own limits on growth: what is there stays, and nothing comes until it is less.
 */
static void test_size_below_use(void **state)
{
	struct tree tree;

	tree_init(&tree, 10, 0, 10, 10);
	tree_set_limits(&tree, 1, 8, 2, false);
	tree_reserve(&tree, 1, 6);
	tree_set_limits(&tree, 1, 3, 2, false);
	tree_compare(&tree);
	assert_int_equal(subpool_reserve(&tree.subpool[1], 0), 0);
	assert_int_equal(subpool_reserve(&tree.subpool[1], 1), -ENOMEM);
	tree_unreserve(&tree, 1, 3);
	assert_int_equal(subpool_reserve(&tree.subpool[1], 1), -ENOMEM);
	tree_unreserve(&tree, 1, 2);
	expect(&tree, 1, 1, 2); /* refilled with all that came back below min_size */
	tree_reserve(&tree, 1, 2);
	tree_compare(&tree);
	tree_set_limits(&tree, 1, NONE, 0, false);
	tree_reserve(&tree, 1, 7);
	tree_compare(&tree);
	tree_deinit(&tree);
}

/* What the kernel has given by itself is counted beyond the size, and keeps others out. */
static void test_given_beyond_the_size(void **state)
{
	struct subpool_taken taken;
	struct tree tree;

	tree_init(&tree, 4, 0, 4, 4);
	tree_set_limits(&tree, 1, 1, 1, false);
	tree_take_page(&tree, 1, false);
	assert_int_equal(subpool_take_page(&tree.subpool[1], 0, &taken), -ENOMEM);
	assert_int_equal(subpool_take_given(&tree.subpool[1], 0, &taken), 0);
	assert_ptr_equal(taken.covered_by, &tree.subpool[0]);
	expect(&tree, 1, 2, 0);
	expect(&tree, 0, 2, 2);
	assert_int_equal(subpool_take_page(&tree.subpool[1], 0, &taken), -ENOMEM);
	subpool_put_page(&tree.subpool[1], 0);
	tree_compare(&tree);
	tree_deinit(&tree);
}

static void test_limits_that_are_none(void **state)
{
	struct tree tree;

	tree_init(&tree, 10, 5, 15, 6);
	assert_int_equal(subpool_set_limits(&tree.subpool[1], 3, 4, true), -EINVAL);
	assert_int_equal(subpool_set_limits(&tree.subpool[1], -2, 0, true), -EINVAL);
	assert_int_equal(subpool_set_limits(&tree.subpool[1], 3, -1, true), -EINVAL);
	/* More than is there, without surplus pages; and more than the mount's size. */
	assert_int_equal(subpool_set_limits(&tree.subpool[1], NONE, 11, false), -ENOMEM);
	assert_int_equal(subpool_set_limits(&tree.subpool[1], NONE, 16, true), -ENOMEM);
	tree_compare(&tree);
	tree_set_limits(&tree, 1, NONE, 11, true);
	tree_compare(&tree);
	subpool_drop_limits(&tree.subpool[1]);
	tree_set_limits(&tree, 1, NONE, 0, true);
	tree_deinit(&tree);
}

/* A file outlives its directory's quota, and a tenant those that are in it. */
static void test_references(void **state)
{
	struct tree tree;

	tree_init(&tree, 10, 0, 10, 10);
	subpool_ref(&tree.subpool[5]);
	subpool_unref(&tree.subpool[4]);
	subpool_unref(&tree.subpool[1]);
	subpool_unref(&tree.subpool[5]);
	assert_int_equal(tree.nr_released, 0);
	assert_int_equal(subpool_reserve(&tree.subpool[5], 2), 0);
	subpool_unreserve(&tree.subpool[5], 2);
	subpool_unref(&tree.subpool[5]);
	assert_int_equal(tree.nr_released, 3);
	assert_ptr_equal(subpool_ref(&tree.subpool[0]), &tree.subpool[0]);
	subpool_unref(&tree.subpool[2]);
	subpool_unref(&tree.subpool[3]);
	assert_int_equal(tree.nr_released, NR_LEVELS - 1);
	subpool_deinit(&tree.subpool[0]);
	pool_deinit(&tree.pool);
}

static void test_space(void **state)
{
	int64_t size, nr_free;
	struct tree tree;

	tree_init(&tree, 20, 0, NONE, 5);
	tree_set_limits(&tree, 1, 10, 0, false);
	tree_set_limits(&tree, 4, NONE, 3, false);
	tree_reserve(&tree, 5, 4);
	subpool_read_space(&tree.subpool[0], &size, &nr_free);
	assert_int_equal(size, 20);
	assert_int_equal(nr_free, 16);
	subpool_read_space(&tree.subpool[1], &size, &nr_free);
	assert_int_equal(size, 10);
	assert_int_equal(nr_free, 6);
	tree_unreserve(&tree, 5, 4);
	/* Without a size, what is above it has, and what is kept for it. */
	subpool_read_space(&tree.subpool[5], &size, &nr_free);
	assert_int_equal(size, 10);
	assert_int_equal(nr_free, 10);
	subpool_read_space(&tree.subpool[1], &size, &nr_free);
	assert_int_equal(nr_free, 7);
	tree_set_limits(&tree, 4, NONE, 10, false);
	tree_set_limits(&tree, 1, 2, 0, false);
	subpool_read_space(&tree.subpool[1], &size, &nr_free);
	assert_int_equal(nr_free, 0);
	tree_deinit(&tree);
}

/* ---- random operations ---- */

static uint64_t test_seed(void)
{
	const char *text = getenv("TEST_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 0) : (uint64_t)time(NULL);

	print_message("TEST_SEED=%llu\n", (unsigned long long)seed);
	return seed;
}

static void random_limits(struct tree *tree, int at, uint64_t *seed)
{
	int max = random_below(seed, 4) ? (int)random_below(seed, 14) : NONE;

	tree_set_limits(tree, at, max, random_below(seed, 3) ? 0 : (int)random_below(seed, 8),
			random_below(seed, 2));
}

static void random_step(struct tree *tree, uint64_t *seed)
{
	int at = (int)random_below(seed, NR_LEVELS);
	struct level *level = &tree->model.level[at];

	switch (random_below(seed, 8)) {
	case 0:
	case 1:
		tree_reserve(tree, at, (int)random_below(seed, 7));
		break;
	case 2:
	case 3:
		tree_unreserve(tree, at,
			       (int)random_below(seed, (uint32_t)level->nr_reserved + 1));
		break;
	case 4:
		tree_take_page(tree, at, false);
		break;
	case 5:
		tree_take_page(tree, at, true);
		break;
	case 6:
		if (level->nr_pages > 0)
			tree_put_page(tree, at);
		break;
	case 7:
		if (at > 0)
			random_limits(tree, at, seed);
		break;
	}
	tree_compare(tree);
}

static void test_random_against_model(void **state)
{
	uint64_t seed = test_seed();

	for (int run = 0; run < 400; run++) {
		int nr = 10 + (int)random_below(&seed, 20);
		int min = (int)random_below(&seed, (uint32_t)nr + 1);
		int max = random_below(&seed, 3) ? nr + (int)random_below(&seed, 5) : NONE;
		struct tree tree;

		tree_init(&tree, nr, (int)random_below(&seed, 6), max, min);
		for (int step = 0; step < 500; step++)
			random_step(&tree, &seed);
		tree_deinit(&tree);
	}
}

/* ---- threads ---- */

struct worker {
	pthread_t thread;
	struct tree *tree;
	uint64_t seed;
};

static void *work(void *data)
{
	struct worker *worker = data;

	for (int i = 0; i < 20000; i++) {
		int at = (int)random_below(&worker->seed, NR_LEVELS);
		struct subpool *subpool = subpool_ref(&worker->tree->subpool[at]);
		int64_t nr = random_below(&worker->seed, 5);
		struct subpool_taken taken;

		if (random_below(&worker->seed, 16) == 0 && at > 0)
			subpool_set_limits(subpool, random_below(&worker->seed, 8) + 4,
					   random_below(&worker->seed, 4), false);
		if (subpool_reserve(subpool, nr) == 0)
			subpool_unreserve(subpool, nr);
		if (subpool_take_page(subpool, 0, &taken) == 0) {
			if (nr > 2)
				subpool_untake_page(subpool, 0, &taken);
			else
				subpool_put_page(subpool, 0);
		}
		subpool_unref(subpool);
	}
	return NULL;
}

/* Threads that charge, fail and undo at all levels while limits change: nothing is left. */
static void test_threads_leave_nothing(void **state)
{
	struct worker workers[4];
	struct tree tree;

	tree_init(&tree, 16, 0, 16, 4);
	for (size_t i = 0; i < ARRAY_SIZE(workers); i++) {
		workers[i] = (struct worker){.tree = &tree, .seed = i};
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]),
				 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(workers); i++)
		pthread_join(workers[i].thread, NULL);
	for (int at = NR_LEVELS - 1; at > 0; at--) {
		assert_int_equal(subpool_set_limits(&tree.subpool[at], NONE, 0, false), 0);
	}
	/* Refilled min_size may be more than was missing, but not more than there is. */
	expect(&tree, 0, 0, 4);
	tree_compare(&tree);
	tree_deinit(&tree);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_charged_at_each_level),
		cmocka_unit_test(test_others_are_untouched),
		cmocka_unit_test(test_failures_leave_no_trace),
		cmocka_unit_test(test_untaken_to_its_level),
		cmocka_unit_test(test_size_below_use),
		cmocka_unit_test(test_given_beyond_the_size),
		cmocka_unit_test(test_limits_that_are_none),
		cmocka_unit_test(test_references),
		cmocka_unit_test(test_space),
		cmocka_unit_test(test_random_against_model),
		cmocka_unit_test(test_threads_leave_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
