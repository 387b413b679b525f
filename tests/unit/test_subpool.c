/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Subpool: hugetlbfs' rules for size= and min_size= by table, failures that have to leave every
 * counter as it was, random operations beside a model, and threads.
 *
 * TEST_SEED in the environment repeats a random run.
 */
#include "fs/subpool.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "subpool_model.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

static void test_init_reserves_min_size(void **state)
{
	struct subpool subpool, other;
	struct subpool_counts counts;
	struct pool pool;

	init_pool(&pool, 10, 2);
	assert_int_equal(subpool_init(&subpool, &pool, 20, 8), 0);
	subpool_read(&subpool, &counts);
	assert_int_equal(counts.max, 20);
	assert_int_equal(counts.min, 8);
	assert_used(&subpool, 0, 8);
	assert_pool(&pool, 10, 10, 8, 0);

	assert_int_equal(subpool_init(&other, &pool, NONE, 4), 0);
	assert_pool(&pool, 12, 12, 12, 2);
	subpool_deinit(&other);
	assert_pool(&pool, 10, 10, 8, 0);
	subpool_deinit(&subpool);
	assert_pool(&pool, 10, 10, 0, 0);
	subpool_deinit(NULL);

	assert_int_equal(subpool_init(&subpool, &pool, 0, 0), 0);
	assert_int_equal(subpool_reserve(&subpool, 0), 0);
	assert_int_equal(subpool_reserve(&subpool, 1), -ENOMEM);
	subpool_deinit(&subpool);
	pool_deinit(&pool);
}

/* What is used stays; what was set aside and is not used is anybody's. */
static void test_drop_limits(void **state)
{
	struct subpool_counts counts;
	struct subpool subpool;
	struct pool pool;

	pool_init(&pool, 1, 0);
	assert_int_equal(pool_resize(&pool, 0, 10), 0);
	assert_int_equal(subpool_init(&subpool, &pool, 4, 4), 0);
	assert_int_equal(subpool_reserve(&subpool, 3), 0);
	assert_int_equal(subpool_reserve(&subpool, 2), -ENOMEM);
	subpool_drop_limits(&subpool);
	assert_pool(&pool, 10, 10, 3, 0);
	subpool_read(&subpool, &counts);
	assert_int_equal(counts.max, SUBPOOL_NO_LIMIT);
	assert_int_equal(subpool_reserve(&subpool, 7), 0);
	assert_int_equal(subpool_reserve(&subpool, 1), -ENOMEM);
	subpool_unreserve(&subpool, 10);
	assert_pool(&pool, 10, 10, 0, 0);
	subpool_deinit(&subpool);
	pool_deinit(&pool);
}

static void test_init_fails_without_a_trace(void **state)
{
	static const struct {
		int64_t max, min;
		int expected;
	} cases[] = {
		{4, 5, -EINVAL},
		{0, 1, -EINVAL},
		{-2, 0, -EINVAL},
		{INT64_MIN, INT64_MIN, -EINVAL},
		{4, -1, -EINVAL},
		{NONE, -1, -EINVAL},
		{INT64_MAX - 1, INT64_MAX, -EINVAL},
		{NONE, 13, -ENOMEM},
		{13, 13, -ENOMEM},
		{INT64_MAX, INT64_MAX, -ENOMEM},
		{NONE, INT64_MAX, -ENOMEM},
	};
	struct subpool subpool, untouched;
	struct pool pool;

	init_pool(&pool, 10, 2);
	memset(&subpool, 0x5a, sizeof(subpool));
	memcpy(&untouched, &subpool, sizeof(subpool));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(subpool_init(&subpool, &pool, cases[i].max, cases[i].min),
				 cases[i].expected);
		assert_memory_equal(&subpool, &untouched, sizeof(subpool));
		assert_pool(&pool, 10, 10, 0, 0);
	}
	pool_deinit(&pool);
}

/* One step of hugepage_subpool_get_pages() or, with nr < 0, hugepage_subpool_put_pages(). */
struct step {
	int64_t max, min, used, resv; /* before */
	int64_t nr;
	int64_t result, used_after, resv_after;
};

static const struct step steps[] = {
	/* No rules. */
	{NONE, 0, 0, 0, 5, 5, 5, 0},
	{NONE, 0, 5, 0, -5, 5, 0, 0},
	{NONE, 0, 5, 0, -2, 2, 3, 0},
	{NONE, 0, INT64_MAX - 1, 0, 1, 1, INT64_MAX, 0},
	{NONE, 0, INT64_MAX - 1, 0, 2, -ENOMEM, INT64_MAX - 1, 0},
	/* size= */
	{10, 0, 0, 0, 10, 10, 10, 0},
	{10, 0, 0, 0, 11, -ENOMEM, 0, 0},
	{10, 0, 10, 0, 0, 0, 10, 0},
	{10, 0, 10, 0, 1, -ENOMEM, 10, 0},
	{10, 0, 3, 0, INT64_MAX, -ENOMEM, 3, 0},
	{INT64_MAX, 0, 3, 0, INT64_MAX, -ENOMEM, 3, 0},
	{10, 0, 10, 0, -10, 10, 0, 0},
	/* size= and min_size=: what min_size covers has been reserved before. */
	{20, 10, 0, 10, 4, 0, 4, 6},
	{20, 10, 0, 10, 10, 0, 10, 0},
	{20, 10, 0, 10, 11, 1, 11, 0},
	{20, 10, 8, 2, 12, 10, 20, 0},
	{20, 10, 8, 2, 13, -ENOMEM, 8, 2},
	{20, 10, 10, 0, 1, 1, 11, 0},
	/* Freeing above min_size refills nothing, */
	{20, 10, 15, 0, -5, 5, 10, 0},
	/* below it everything, and across it more than is missing. */
	{20, 10, 10, 0, -1, 0, 9, 1},
	{20, 10, 4, 6, -4, 0, 0, 10},
	{20, 10, 15, 0, -7, 0, 8, 7},
	{20, 10, 15, 0, -15, 5, 0, 10},
	{20, 10, 8, 7, -5, 2, 3, 10},
	/* min_size= alone: refilled always, since hugetlbfs does not count the use then. */
	{NONE, 10, 0, 10, 4, 0, 4, 6},
	{NONE, 10, 0, 10, 14, 4, 14, 0},
	{NONE, 10, 15, 0, -1, 0, 14, 1},
	{NONE, 10, 14, 1, -14, 5, 0, 10},
	{NONE, 10, 30, 0, -12, 2, 18, 10},
	{NONE, 10, 18, 10, -3, 3, 15, 10},
	{NONE, INT64_MAX, INT64_MAX, 0, -INT64_MAX, 0, 0, INT64_MAX},
	{INT64_MAX, INT64_MAX, 0, INT64_MAX, INT64_MAX, 0, INT64_MAX, 0},
};

static void test_rules_of_the_kernel(void **state)
{
	struct pool pool;

	init_pool(&pool, 0, 0);
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		const struct step *step = &steps[i];
		struct subpool subpool;
		int64_t r;

		print_message("step %zu\n", i);
		assert_int_equal(subpool_init(&subpool, &pool, step->max, 0), 0);
		subpool.counts = (struct subpool_counts){
			.max = step->max,
			.min = step->min,
			.used = step->used,
			.resv = step->resv,
		};
		r = step->nr < 0 ? subpool_put_pages(&subpool, -step->nr)
				 : subpool_get_pages(&subpool, step->nr);
		assert_int_equal(r, step->result);
		assert_used(&subpool, step->used_after, step->resv_after);

		subpool.counts = (struct subpool_counts){.max = step->max};
		subpool_deinit(&subpool);
	}
	pool_deinit(&pool);
}

static void test_reserve_moves_both(void **state)
{
	struct subpool subpool;
	struct pool pool;

	init_pool(&pool, 12, 3);
	assert_int_equal(subpool_init(&subpool, &pool, 20, 5), 0);

	assert_int_equal(subpool_reserve(&subpool, 3), 0);
	assert_used(&subpool, 3, 2);
	assert_pool(&pool, 12, 12, 5, 0);
	assert_int_equal(subpool_reserve(&subpool, 10), 0);
	assert_used(&subpool, 13, 0);
	assert_pool(&pool, 13, 13, 13, 1);
	subpool_unreserve(&subpool, 6);
	assert_used(&subpool, 7, 0);
	assert_pool(&pool, 12, 12, 7, 0);
	subpool_unreserve(&subpool, 4);
	assert_used(&subpool, 3, 4);
	assert_pool(&pool, 12, 12, 7, 0);
	subpool_unreserve(&subpool, 3);
	assert_used(&subpool, 0, 5);
	assert_pool(&pool, 12, 12, 5, 0);

	subpool_deinit(&subpool);
	assert_pool(&pool, 12, 12, 0, 0);
	pool_deinit(&pool);
}

/*
 * The kernel's bug: a reservation that failed in the pool gave all its pages back by the rule
 * for freed ones, which put pages into min_size that had never come from there, and lost
 * others.
 */
static void check_failures_leave_no_trace(int64_t max, int64_t nr_before, int64_t nr_asked)
{
	enum {
		NR_PAGES = 20,
		MIN = 10,
		NR_FAILURES = 1000
	};
	struct subpool_counts before, after;
	struct subpool subpool, other;
	struct subpool_taken taken;
	struct pool pool;

	init_pool(&pool, NR_PAGES, 0);
	assert_int_equal(subpool_init(&subpool, &pool, max, MIN), 0);
	assert_int_equal(subpool_init(&other, &pool, NONE, 0), 0);
	assert_int_equal(subpool_reserve(&subpool, nr_before), 0);
	/* Somebody else has what is left, so that the pool is what fails. */
	assert_int_equal(
		subpool_reserve(&other, NR_PAGES - (nr_before > MIN ? nr_before : MIN)), 0);
	subpool_read(&subpool, &before);

	for (int i = 0; i < NR_FAILURES; i++) {
		assert_int_equal(subpool_reserve(&subpool, nr_asked), -ENOMEM);
		if (before.resv == 0) {
			assert_int_equal(subpool_take_page(&subpool, POOL_ANY_NODE, &taken),
					 -ENOMEM);
		}
		subpool_read(&subpool, &after);
		assert_memory_equal(&before, &after, sizeof(before));
		assert_pool(&pool, NR_PAGES, NR_PAGES, NR_PAGES, 0);
	}

	subpool_unreserve(&other, NR_PAGES - (nr_before > MIN ? nr_before : MIN));
	subpool_deinit(&other);
	/* The whole size is still to be had, page by page. */
	for (int64_t i = nr_before; i < NR_PAGES; i++)
		assert_int_equal(subpool_reserve(&subpool, 1), 0);
	assert_int_equal(subpool_reserve(&subpool, 1), -ENOMEM);
	assert_used(&subpool, NR_PAGES, 0);
	subpool_unreserve(&subpool, NR_PAGES);
	assert_used(&subpool, 0, MIN);
	assert_pool(&pool, NR_PAGES, NR_PAGES, MIN, 0);
	subpool_deinit(&subpool);
	assert_pool(&pool, NR_PAGES, NR_PAGES, 0, 0);
	pool_deinit(&pool);
}

static void test_a_thousand_failures_leave_no_trace(void **state)
{
	static const int64_t limits[] = {20, NONE};

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		/* min_size would cover all, some, one and nothing of it. */
		check_failures_leave_no_trace(limits[i], 0, 11);
		check_failures_leave_no_trace(limits[i], 0, 20);
		check_failures_leave_no_trace(limits[i], 4, 16);
		check_failures_leave_no_trace(limits[i], 9, 2);
		check_failures_leave_no_trace(limits[i], 10, 1);
		check_failures_leave_no_trace(limits[i], 15, 5);
		/* The limit fails, or arithmetic would. */
		check_failures_leave_no_trace(limits[i], 3, 18);
		check_failures_leave_no_trace(limits[i], 3, INT64_MAX);
	}
}

static void test_take_page(void **state)
{
	struct subpool subpool;
	struct subpool_taken taken;
	struct pool pool;

	init_pool(&pool, 2, 1);
	assert_int_equal(subpool_init(&subpool, &pool, 3, 1), 0);

	assert_int_equal(subpool_take_page(&subpool, 0, &taken), 0);
	assert_int_equal(taken.source, POOL_FROM_RESERVATION);
	assert_used(&subpool, 1, 0);
	assert_pool(&pool, 2, 1, 0, 0);
	assert_int_equal(subpool_take_page(&subpool, 0, &taken), 0);
	assert_int_equal(taken.source, POOL_FROM_FREE);
	assert_int_equal(subpool_take_page(&subpool, 0, &taken), 0);
	assert_int_equal(taken.source, POOL_FROM_SURPLUS);
	assert_pool(&pool, 3, 0, 0, 1);

	/* At the limit; the source is not touched. */
	taken.source = (enum pool_source)77;
	assert_int_equal(subpool_take_page(&subpool, 0, &taken), -ENOMEM);
	assert_int_equal(taken.source, 77);
	assert_used(&subpool, 3, 0);

	/* The surplus page leaves, the next one is above min_size, the last one is min_size. */
	subpool_put_page(&subpool, 0);
	assert_pool(&pool, 2, 0, 0, 0);
	subpool_put_page(&subpool, 0);
	assert_pool(&pool, 2, 1, 0, 0);
	assert_used(&subpool, 1, 0);
	subpool_put_page(&subpool, 0);
	assert_pool(&pool, 2, 2, 1, 0);
	assert_used(&subpool, 0, 1);

	subpool_deinit(&subpool);
	pool_deinit(&pool);
}

/* A page that was taken and could not be populated; without a limit above all. */
static void test_untake_page_is_the_opposite(void **state)
{
	static const int64_t limits[] = {4, NONE};

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		struct subpool_counts before, after;
		struct subpool subpool;
		struct subpool_taken taken;
		struct pool pool;

		init_pool(&pool, 3, 1);
		assert_int_equal(subpool_init(&subpool, &pool, limits[i], 2), 0);
		for (int nr_used = 0; nr_used < 4; nr_used++) {
			struct pool_counts pool_before, pool_after;

			subpool_read(&subpool, &before);
			pool_read(&pool, &pool_before);
			for (int j = 0; j < 1000; j++) {
				assert_int_equal(subpool_take_page(&subpool, 0, &taken), 0);
				subpool_untake_page(&subpool, 0, &taken);
			}
			subpool_read(&subpool, &after);
			pool_read(&pool, &pool_after);
			assert_memory_equal(&before, &after, sizeof(before));
			assert_memory_equal(&pool_before, &pool_after, sizeof(pool_before));
			assert_int_equal(subpool_take_page(&subpool, 0, &taken), 0);
		}
		assert_int_equal(taken.source, POOL_FROM_SURPLUS);
		for (int j = 0; j < 4; j++)
			subpool_put_page(&subpool, 0);
		assert_used(&subpool, 0, 2);
		subpool_deinit(&subpool);
		assert_int_equal(pool_reserve(&pool, 3), 0);
		pool_unreserve(&pool, 3);
		pool_deinit(&pool);
	}
}

/* Others came and went while the page was out: min_size ends up full, never over-full. */
static void test_untake_page_after_others(void **state)
{
	struct subpool subpool;
	struct subpool_taken taken, first;
	struct pool pool;

	init_pool(&pool, 5, 0);
	assert_int_equal(subpool_init(&subpool, &pool, 5, 2), 0);

	/* The page came from min_size, which has since been refilled across its edge. */
	assert_int_equal(subpool_take_page(&subpool, 0, &first), 0);
	assert_int_equal(first.source, POOL_FROM_RESERVATION);
	assert_int_equal(subpool_reserve(&subpool, 4), 0);
	subpool_unreserve(&subpool, 4);
	assert_used(&subpool, 1, 2);
	assert_pool(&pool, 5, 4, 2, 0);
	subpool_untake_page(&subpool, 0, &first);
	assert_used(&subpool, 0, 2);
	assert_pool(&pool, 5, 5, 2, 0);

	/* The page did not come from min_size, and those that did have gone above it. */
	assert_int_equal(subpool_reserve(&subpool, 2), 0);
	assert_int_equal(subpool_take_page(&subpool, 0, &taken), 0);
	assert_int_equal(taken.source, POOL_FROM_FREE);
	subpool_unreserve(&subpool, 1);
	assert_used(&subpool, 2, 0);
	subpool_untake_page(&subpool, 0, &taken);
	assert_used(&subpool, 1, 1);
	assert_pool(&pool, 5, 5, 2, 0);
	subpool_unreserve(&subpool, 1);
	assert_used(&subpool, 0, 2);

	subpool_deinit(&subpool);
	pool_deinit(&pool);
}

static uint64_t start_seed(void)
{
	const char *text = getenv("TEST_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 0) : (uint64_t)time(NULL);

	print_message("TEST_SEED=%llu\n", (unsigned long long)seed);
	return seed;
}

static void random_operation(struct model *model, uint64_t *seed)
{
	struct tenant *tenant = &model->tenant[random_below(seed, NR_TENANTS)];
	int nr = (int)random_below(seed, 9);
	struct subpool_taken taken;

	switch (random_below(seed, 6)) {
	case 0:
		model_reserve(model, tenant, nr);
		break;
	case 1:
		model_unreserve(model, tenant,
				nr < tenant->nr_reserved ? nr : tenant->nr_reserved);
		break;
	case 2:
		model_take_page(model, tenant, nr < 3);
		break;
	case 3:
		if (tenant->nr_reserved == 0)
			break;
		/* A reservation of a file becomes a page: no business of the subpool. */
		assert_int_equal(pool_take_page(&model->pool, 0, true, &taken.source), 0);
		tenant->nr_reserved--;
		tenant->nr_pages++;
		model->resv--;
		model->free--;
		break;
	default:
		if (tenant->nr_pages == 0)
			break;
		subpool_put_page(&tenant->subpool, 0);
		tenant->nr_pages--;
		model_put_page(model, model_put(tenant, 1) == 0);
		break;
	}
	model_compare(model);
}

static void test_random_operations_beside_a_model(void **state)
{
	enum {
		NR_MODELS = 100,
		NR_OPERATIONS = 3000
	};
	uint64_t seed = start_seed();

	for (int i = 0; i < NR_MODELS; i++) {
		struct model model;

		init_model(&model, &seed);
		for (int j = 0; j < NR_OPERATIONS; j++)
			random_operation(&model, &seed);
		deinit_model(&model);
	}
}

enum {
	NR_ROUNDS = 30000
};

struct race {
	struct subpool *subpool;
	uint64_t seed;
	atomic_bool done;
};

static void *failing_thread(void *data)
{
	struct race *race = data;
	struct subpool_taken taken;

	while (!atomic_load(&race->done)) {
		assert(subpool_reserve(race->subpool, 11) == -ENOMEM);
		assert(subpool_reserve(race->subpool, INT64_MAX) == -ENOMEM);
		if (subpool_take_page(race->subpool, 0, &taken) == 0)
			subpool_untake_page(race->subpool, 0, &taken);
	}
	return NULL;
}

/*
 *	A reserves 11 of which min_size covers 10	B
 *	takes the 10 from min_size
 *							reserves 5 that min_size covers: none
 *left, and the pool has none: fails for nothing fails in the pool, gives 10 back
 *
 * and likewise B gives pages back while A holds them, which A then gives back once more.
 */
static void check_failures_beside_others(int64_t max)
{
	struct race race = {0};
	struct subpool subpool;
	pthread_t thread;
	struct pool pool;

	init_pool(&pool, 10, 0);
	assert_int_equal(subpool_init(&subpool, &pool, max, 10), 0);
	race.subpool = &subpool;
	assert_int_equal(pthread_create(&thread, NULL, failing_thread, &race), 0);
	for (int i = 0; i < NR_ROUNDS; i++) {
		/* One page may be out with the other thread's fault, and no more than that. */
		assert_int_equal(subpool_reserve(&subpool, 5), 0);
		assert_int_equal(subpool_reserve(&subpool, 4), 0);
		subpool_unreserve(&subpool, 9);
	}
	atomic_store(&race.done, true);
	assert_int_equal(pthread_join(thread, NULL), 0);

	assert_used(&subpool, 0, 10);
	assert_pool(&pool, 10, 10, 10, 0);
	subpool_deinit(&subpool);
	pool_deinit(&pool);
}

static void test_failures_beside_others(void **state)
{
	check_failures_beside_others(40);
	check_failures_beside_others(NONE);
}

static void *tenant_thread(void *data)
{
	struct race *race = data;
	int64_t nr_reserved = 0, nr_pages = 0;
	struct subpool_taken taken;

	for (int i = 0; i < NR_ROUNDS; i++) {
		int64_t nr = random_below(&race->seed, 6);

		switch (random_below(&race->seed, 5)) {
		case 0:
			if (subpool_reserve(race->subpool, nr) == 0)
				nr_reserved += nr;
			break;
		case 1:
			nr = nr < nr_reserved ? nr : nr_reserved;
			subpool_unreserve(race->subpool, nr);
			nr_reserved -= nr;
			break;
		case 2:
			if (subpool_take_page(race->subpool, 0, &taken) < 0)
				break;
			if (nr < 2)
				subpool_untake_page(race->subpool, 0, &taken);
			else
				nr_pages++;
			break;
		case 3:
			if (nr_reserved == 0)
				break;
			assert(pool_take_page(race->subpool->pool, 0, true, &taken.source) ==
			       0);
			nr_reserved--;
			nr_pages++;
			break;
		default:
			if (nr_pages > 0) {
				subpool_put_page(race->subpool, 0);
				nr_pages--;
			}
			break;
		}
	}
	subpool_unreserve(race->subpool, nr_reserved);
	for (; nr_pages > 0; nr_pages--)
		subpool_put_page(race->subpool, 0);
	return NULL;
}

static void test_threads(void **state)
{
	struct subpool subpools[2];
	struct race races[4];
	pthread_t threads[4];
	uint64_t seed = start_seed();
	struct pool pool;

	init_pool(&pool, 24, 4);
	assert_int_equal(subpool_init(&subpools[0], &pool, 16, 8), 0);
	assert_int_equal(subpool_init(&subpools[1], &pool, NONE, 6), 0);
	for (size_t i = 0; i < ARRAY_SIZE(races); i++) {
		races[i] = (struct race){.subpool = &subpools[i % 2], .seed = seed + i};
		assert_int_equal(pthread_create(&threads[i], NULL, tenant_thread, &races[i]),
				 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(races); i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);

	assert_used(&subpools[0], 0, 8);
	assert_used(&subpools[1], 0, 6);
	subpool_deinit(&subpools[0]);
	subpool_deinit(&subpools[1]);
	/* Reserving all lets go of a surplus page that may be left, as in the kernel. */
	assert_int_equal(pool_reserve(&pool, 28), 0);
	pool_unreserve(&pool, 28);
	assert_pool(&pool, 24, 24, 0, 0);
	pool_deinit(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_init_reserves_min_size),
		cmocka_unit_test(test_init_fails_without_a_trace),
		cmocka_unit_test(test_drop_limits),
		cmocka_unit_test(test_rules_of_the_kernel),
		cmocka_unit_test(test_reserve_moves_both),
		cmocka_unit_test(test_a_thousand_failures_leave_no_trace),
		cmocka_unit_test(test_take_page),
		cmocka_unit_test(test_untake_page_is_the_opposite),
		cmocka_unit_test(test_untake_page_after_others),
		cmocka_unit_test(test_random_operations_beside_a_model),
		cmocka_unit_test(test_failures_beside_others),
		cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
