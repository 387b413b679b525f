/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The page transaction, one thread: what each operation answers and leaves, by fs/page.h and
 * the kernel's hugetlbfs. test_page_nodes.c has several nodes and spaces, test_page_failures.c
 * what fails, test_page_random.c any order of operations, test_page_threads.c the races. After
 * every operation check() looks at all invariants.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "page_util.h"

static const struct page_config plain = {.nr_pages = {10}, .max = 10};

static void test_core_init(void **state)
{
	static const struct {
		int64_t nr_pages, max, min;
		uint32_t nr_mutexes;
		int expected;
	} cases[] = {
		{0, 0, 0, 1, 0},
		{10, NONE, 10, 1, 0},
		{10, 12, 12, 1, 0},           /* two of them surplus */
		{10, 10, 11, 1, -EINVAL},     /* min > max */
		{10, 9, 0, 1, -EINVAL},       /* more set aside than may be used */
		{10, 10, -1, 1, -EINVAL},     /* no such min */
		{10, NONE, 11, 1, -ENOMEM},   /* no limit, and so no surplus */
		{1, 1, 1, 1 << 21, -EINVAL},  /* too many mutexes */
		{1, INT64_MAX, 1, 1 << 4, 0}, /* as much surplus as there may be */
	};
	struct page_core core;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		print_message("case %zu\n", i);
		assert_int_equal(page_core_init(&core, 1, &cases[i].nr_pages, cases[i].max,
						cases[i].min, cases[i].nr_mutexes, false),
				 cases[i].expected);
		if (cases[i].expected == 0)
			page_core_deinit(&core);
	}
}

static void test_reserve(void **state)
{
	static const struct page_config config = {.nr_pages = {10}, .max = 12};
	struct page_test test;

	page_test_init(&test, &config);
	assert_int_equal(page_reserve(&test.space[0], 2, 6, NULL), 4);
	assert_space(&test, 0, 4, 0);
	assert_pool(&test, 10, 10, 4, 0);
	/* Only what is new counts. */
	assert_int_equal(page_reserve(&test.space[0], 2, 6, NULL), 0);
	assert_int_equal(page_reserve(&test.space[0], 0, 8, NULL), 4);
	assert_space(&test, 0, 8, 0);
	/* An instantiated page is not reserved again. */
	assert_int_equal(page_instantiate(&test.space[0], 3, 0), PAGE_FROM_RESERVATION);
	assert_int_equal(page_reserve(&test.space[0], 3, 4, NULL), 0);
	assert_space(&test, 0, 7, 1);
	/* Surplus pages are made for what the pool has not, up to max, and not one beyond. */
	assert_int_equal(page_reserve(&test.space[0], 8, 13, NULL), -ENOMEM);
	assert_space(&test, 0, 7, 1);
	assert_int_equal(page_reserve(&test.space[0], 8, 12, NULL), 4);
	assert_pool(&test, 12, 11, 11, 2);
	assert_int_equal(page_reserve(&test.space[1], 0, 1, NULL), -ENOMEM);
	assert_space(&test, 1, 0, 0);
	page_test_deinit(&test, &config);
}

static void test_reserve_refuses_what_is_no_range(void **state)
{
	static const struct region cases[] = {
		{0, 0}, {1, 0}, {-1, 1}, {REGION_END, REGION_END}, {0, -1},
	};
	struct page_test test;
	struct region_map added;

	page_test_init(&test, &plain);
	region_map_init(&added, test.space[0].lock);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(page_reserve(&test.space[0], cases[i].from, cases[i].to, NULL),
				 -EINVAL);
		assert_int_equal(
			page_reserve(&test.space[0], cases[i].from, cases[i].to, &added),
			-EINVAL);
		assert_space(&test, 0, 0, 0);
	}
	/* More pages than anybody has is a range. */
	assert_int_equal(page_reserve(&test.space[0], 0, REGION_END, NULL), -ENOMEM);
	assert_space(&test, 0, 0, 0);
	assert_int_equal(region_map_count(&added, 0, REGION_END), 0);
	page_test_deinit(&test, &plain);
}

/* Where a page comes from: the reservation, then free ones, then surplus, then nowhere. */
static void test_instantiate_outcomes(void **state)
{
	static const struct page_config config = {.nr_pages = {3}, .max = 4};
	struct page_test test;

	page_test_init(&test, &config);
	assert_int_equal(page_reserve(&test.space[0], 0, 1, NULL), 1);
	assert_int_equal(page_instantiate(&test.space[0], 5, 0), PAGE_FROM_FREE);
	assert_space(&test, 0, 1, 1);
	assert_pool(&test, 3, 2, 1, 0);
	assert_int_equal(page_instantiate(&test.space[0], 5, 0), PAGE_PRESENT);
	assert_int_equal(page_instantiate(&test.space[0], 0, 0), PAGE_FROM_RESERVATION);
	assert_space(&test, 0, 0, 2);
	assert_pool(&test, 3, 1, 0, 0);
	assert_int_equal(page_instantiate(&test.space[1], 0, 0), PAGE_FROM_FREE);
	assert_int_equal(page_instantiate(&test.space[1], 1, 0), PAGE_FROM_SURPLUS);
	assert_pool(&test, 4, 0, 0, 1);
	assert_int_equal(page_instantiate(&test.space[1], 2, 0), -ENOSPC);
	assert_int_equal(page_instantiate(&test.space[0], 6, 0), -ENOSPC);
	assert_int_equal(page_instantiate(&test.space[0], 5, 0), PAGE_PRESENT);
	assert_space(&test, 1, 0, 2);
	page_test_deinit(&test, &config);
}

/* The last free page is somebody's reservation: whoever has none does not get it. */
static void test_instantiate_respects_reservations(void **state)
{
	static const struct page_config config = {.nr_pages = {4}, .max = 4};
	struct page_test test;

	page_test_init(&test, &config);
	assert_int_equal(page_reserve(&test.space[0], 0, 4, NULL), 4);
	assert_int_equal(page_instantiate(&test.space[1], 0, 0), -ENOSPC);
	assert_int_equal(page_instantiate(&test.space[0], 4, 0), -ENOSPC);
	for (int64_t idx = 0; idx < 4; idx++)
		assert_int_equal(page_instantiate(&test.space[0], idx, 0),
				 PAGE_FROM_RESERVATION);
	assert_space(&test, 0, 0, 4);
	page_test_deinit(&test, &config);
}

/* min_size= is the mount's reservation: its pages are used first, and refilled first. */
static void test_instantiate_from_min_size(void **state)
{
	static const struct page_config config = {.nr_pages = {4}, .max = 4, .min = 2};
	struct page_test test;

	page_test_init(&test, &config);
	assert_pool(&test, 4, 4, 2, 0);
	assert_int_equal(page_instantiate(&test.space[0], 0, 0), PAGE_FROM_RESERVATION);
	assert_int_equal(page_instantiate(&test.space[0], 1, 0), PAGE_FROM_RESERVATION);
	assert_int_equal(page_instantiate(&test.space[0], 2, 0), PAGE_FROM_FREE);
	assert_pool(&test, 4, 1, 0, 0);
	assert_int_equal(page_punch(&test.space[0], 0, 1), 1);
	assert_pool(&test, 4, 2, 0, 0);
	assert_int_equal(page_punch(&test.space[0], 1, 3), 2);
	assert_pool(&test, 4, 4, 2, 0);
	page_test_deinit(&test, &config);
}

static void test_instantiate_behind_the_end(void **state)
{
	struct page_test test;

	page_test_init(&test, &plain);
	assert_int_equal(page_instantiate(&test.space[0], SPACE_PAGES - 1, 0), PAGE_FROM_FREE);
	assert_int_equal(page_instantiate(&test.space[0], SPACE_PAGES, 0), -ERANGE);
	assert_int_equal(page_instantiate(&test.space[0], INT64_MAX - 1, 0), -ERANGE);
	/* Also with a reservation, which stays: KEEP_SIZE. */
	assert_int_equal(page_reserve(&test.space[0], SPACE_PAGES, SPACE_PAGES + 1, NULL), 1);
	assert_int_equal(page_instantiate(&test.space[0], SPACE_PAGES, 0), -ERANGE);
	assert_space(&test, 0, 1, 1);
	assert_int_equal(page_truncate(&test.space[0], SPACE_PAGES + 1), 0);
	assert_int_equal(page_instantiate(&test.space[0], SPACE_PAGES, 0),
			 PAGE_FROM_RESERVATION);
	assert_space(&test, 0, 0, 2);
	page_test_deinit(&test, &plain);
}

static void test_punch(void **state)
{
	struct page_test test;

	page_test_init(&test, &plain);
	assert_int_equal(page_punch(&test.space[0], 0, SPACE_PAGES), 0);
	assert_int_equal(page_reserve(&test.space[0], 0, 6, NULL), 6);
	for (int64_t idx = 1; idx < 5; idx++)
		assert_int_equal(page_instantiate(&test.space[0], idx, 0),
				 PAGE_FROM_RESERVATION);
	assert_space(&test, 0, 2, 4);
	/* The edges of the range are exact. */
	assert_int_equal(page_punch(&test.space[0], 0, 1), 0);
	assert_int_equal(page_punch(&test.space[0], 2, 4), 2);
	assert_space(&test, 0, 2, 2);
	assert_true(page_is_instantiated(&test.space[0], 1));
	assert_false(page_is_instantiated(&test.space[0], 2));
	assert_false(page_is_instantiated(&test.space[0], 3));
	assert_true(page_is_instantiated(&test.space[0], 4));
	/* A punched page is not reserved any more, those that were not used are. */
	assert_pool(&test, 10, 8, 2, 0);
	assert_int_equal(page_punch(&test.space[0], 0, REGION_END), 2);
	assert_space(&test, 0, 2, 0);
	assert_int_equal(page_instantiate(&test.space[0], 1, 0), PAGE_FROM_FREE);
	assert_int_equal(page_instantiate(&test.space[0], 0, 0), PAGE_FROM_RESERVATION);
	page_test_deinit(&test, &plain);
}

static void test_truncate(void **state)
{
	struct page_test test;

	page_test_init(&test, &plain);
	assert_int_equal(page_reserve(&test.space[0], 0, 8, NULL), 8);
	for (int64_t idx = 2; idx < 6; idx++)
		assert_int_equal(page_instantiate(&test.space[0], idx, 0),
				 PAGE_FROM_RESERVATION);
	assert_int_equal(page_truncate(&test.space[0], 4), 0);
	assert_space(&test, 0, 2, 2);
	assert_int_equal(page_instantiate(&test.space[0], 4, 0), -ERANGE);
	assert_int_equal(page_instantiate(&test.space[0], 3, 0), PAGE_PRESENT);
	/* Growing brings back neither pages nor reservations. */
	assert_int_equal(page_truncate(&test.space[0], 8), 0);
	assert_space(&test, 0, 2, 2);
	assert_int_equal(page_instantiate(&test.space[0], 4, 0), PAGE_FROM_FREE);
	assert_int_equal(page_truncate(&test.space[0], 8), 0);
	assert_space(&test, 0, 2, 3);
	assert_int_equal(page_truncate(&test.space[0], 0), 0);
	assert_space(&test, 0, 0, 0);
	assert_pool(&test, 10, 10, 0, 0);
	page_test_deinit(&test, &plain);
}

static void test_truncate_frees_what_is_reserved_behind(void **state)
{
	struct page_test test;

	page_test_init(&test, &plain);
	assert_int_equal(page_truncate(&test.space[0], 4), 0);
	assert_int_equal(page_reserve(&test.space[0], 2, 9, NULL), 7);
	assert_int_equal(page_truncate(&test.space[0], 3), 0);
	assert_space(&test, 0, 1, 0);
	page_test_deinit(&test, &plain);
}

/* munmap of a private mapping: the kernel has freed the pages, the counters follow. */
static void test_forget(void **state)
{
	struct page_space *space;
	struct page_test test;

	page_test_init(&test, &plain);
	space = &test.space[1];
	assert_int_equal(page_reserve(space, 0, 8, NULL), 8);
	for (int64_t idx = 2; idx < 6; idx++)
		assert_int_equal(page_instantiate(space, idx, 0), PAGE_FROM_RESERVATION);
	assert_int_equal(test.mem_ops->punch(test.file[1], 3, 5), 0);
	assert_int_equal(page_forget(space, 3, 5), 0);
	assert_space(&test, 1, 4, 2);
	assert_pool(&test, 10, 8, 4, 0);
	/* It can be used again, without a reservation. */
	assert_int_equal(page_instantiate(space, 3, 0), PAGE_FROM_FREE);
	assert_int_equal(test.mem_ops->punch(test.file[1], 0, SPACE_PAGES), 0);
	assert_int_equal(page_forget(space, 0, REGION_END), 0);
	assert_space(&test, 1, 0, 0);
	assert_int_equal(page_forget(space, 0, REGION_END), 0);
	assert_pool(&test, 10, 10, 0, 0);
	page_test_deinit(&test, &plain);
}

static void test_unreserve_map(void **state)
{
	struct page_space *space;
	struct region_map added;
	struct page_test test;

	page_test_init(&test, &plain);
	space = &test.space[0];
	region_map_init(&added, space->lock);
	assert_int_equal(page_reserve(space, 2, 4, NULL), 2);
	assert_int_equal(page_instantiate(space, 6, 0), PAGE_FROM_FREE);
	assert_int_equal(page_reserve(space, 0, 9, &added), 6);
	assert_int_equal(region_map_count(&added, 0, REGION_END), 6);
	assert_int_equal(region_map_count(&added, 2, 4), 0);
	assert_int_equal(region_map_count(&added, 6, 7), 0);
	/* Used meanwhile, or used and punched: not given back. */
	assert_int_equal(page_instantiate(space, 1, 0), PAGE_FROM_RESERVATION);
	assert_int_equal(page_instantiate(space, 8, 0), PAGE_FROM_RESERVATION);
	assert_int_equal(page_punch(space, 8, 9), 1);
	assert_space(&test, 0, 6, 2);
	page_unreserve_map(space, &added);
	assert_space(&test, 0, 2, 2);
	assert_int_equal(region_map_count(&added, 0, REGION_END), 0);
	/* What somebody had reserved before is there still. */
	assert_int_equal(page_next_reserved(space, 0, 64), 2);
	page_unreserve_map(space, &added);
	assert_space(&test, 0, 2, 2);
	page_test_deinit(&test, &plain);
}

static void test_discard(void **state)
{
	struct page_space *space;
	struct page_test test;

	page_test_init(&test, &plain);
	space = &test.space[1];
	assert_int_equal(page_instantiate(space, 0, 0), PAGE_FROM_FREE);
	assert_int_equal(page_instantiate(space, 1, 0), PAGE_FROM_FREE);
	assert_int_equal(test.mem_ops->punch(test.file[1], 0, 2), 0);
	page_discard(space, 0, true);
	page_discard(space, 1, false);
	assert_space(&test, 1, 1, 0);
	assert_int_equal(page_next_reserved(space, 0, 64), 0);
	page_discard(space, 0, false);
	page_discard(space, 7, true);
	assert_space(&test, 1, 1, 0);
	assert_int_equal(page_instantiate(space, 0, 0), PAGE_FROM_RESERVATION);
	page_test_deinit(&test, &plain);
}

/* The kernel gave or took pages without asking. */
static void test_reconcile(void **state)
{
	struct page_space *space;
	struct page_test test;

	page_test_init(&test, &plain);
	space = &test.space[1];
	assert_int_equal(page_reconcile(space, 0, true), 0);
	assert_int_equal(page_instantiate(space, 0, 0), PAGE_FROM_FREE);
	assert_int_equal(page_instantiate(space, 1, 0), PAGE_FROM_FREE);
	assert_int_equal(page_reconcile(space, 0, true), 0);

	assert_int_equal(test.mem_ops->punch(test.file[1], 0, 2), 0);
	assert_int_equal(page_reconcile(space, 0, true), 1);
	assert_int_equal(page_reconcile(space, 1, false), 1);
	assert_space(&test, 1, 1, 0);

	assert_int_equal(test.mem_ops->populate(test.file[1], 0, 0), 0);
	assert_int_equal(test.mem_ops->populate(test.file[1], 1, 0), 0);
	assert_int_equal(page_reconcile(space, 0, false), 1);
	assert_int_equal(page_reconcile(space, 1, false), 1);
	assert_space(&test, 1, 0, 2);
	assert_int_equal(page_instantiate(space, 1, 0), PAGE_PRESENT);
	page_test_deinit(&test, &plain);
}

static void test_questions(void **state)
{
	struct page_space *space;
	struct page_test test;
	int64_t resv, inst;

	page_test_init(&test, &plain);
	space = &test.space[0];
	assert_int_equal(page_next_reserved(space, 0, 64), -1);
	assert_int_equal(page_next_instantiated(space, 0, 64), -1);
	assert_int_equal(page_next_hole(space, 5), 5);
	/* reserved: 3 4 9, instantiated: 5 6 10 */
	assert_int_equal(page_reserve(space, 3, 7, NULL), 4);
	assert_int_equal(page_reserve(space, 9, 11, NULL), 2);
	assert_int_equal(page_instantiate(space, 5, 0), PAGE_FROM_RESERVATION);
	assert_int_equal(page_instantiate(space, 6, 0), PAGE_FROM_RESERVATION);
	assert_int_equal(page_instantiate(space, 10, 0), PAGE_FROM_RESERVATION);
	check(&test);
	assert_int_equal(page_next_reserved(space, 0, 64), 3);
	assert_int_equal(page_next_reserved(space, 0, 3), -1);
	assert_int_equal(page_next_reserved(space, 4, 64), 4);
	assert_int_equal(page_next_reserved(space, 5, 64), 9);
	assert_int_equal(page_next_reserved(space, 5, 9), -1);
	assert_int_equal(page_next_reserved(space, 10, 64), -1);
	/* The range ends with an instantiated page, and a reserved one follows. */
	assert_int_equal(page_reserve(space, 7, 8, NULL), 1);
	assert_int_equal(page_next_reserved(space, 5, 7), -1);
	assert_int_equal(page_next_reserved(space, 7, 7), -1);
	assert_int_equal(page_next_reserved(space, 5, 8), 7);
	assert_int_equal(page_next_instantiated(space, 0, 64), 5);
	assert_int_equal(page_next_instantiated(space, 0, 5), -1);
	assert_int_equal(page_next_instantiated(space, 6, 64), 6);
	assert_int_equal(page_next_instantiated(space, 7, 64), 10);
	assert_int_equal(page_next_instantiated(space, 11, 64), -1);
	assert_int_equal(page_next_hole(space, 4), 4);
	assert_int_equal(page_next_hole(space, 5), 7);
	assert_int_equal(page_next_hole(space, 10), 11);
	page_space_count(space, 4, 10, &resv, &inst); /* 4 7 9 and 5 6 */
	assert_int_equal(resv, 3);
	assert_int_equal(inst, 2);
	page_space_count(space, 7, 7, &resv, &inst);
	assert_int_equal(resv, 0);
	assert_int_equal(inst, 0);
	page_test_deinit(&test, &plain);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_core_init),
		cmocka_unit_test(test_reserve),
		cmocka_unit_test(test_reserve_refuses_what_is_no_range),
		cmocka_unit_test(test_instantiate_outcomes),
		cmocka_unit_test(test_instantiate_respects_reservations),
		cmocka_unit_test(test_instantiate_from_min_size),
		cmocka_unit_test(test_instantiate_behind_the_end),
		cmocka_unit_test(test_punch),
		cmocka_unit_test(test_truncate),
		cmocka_unit_test(test_truncate_frees_what_is_reserved_behind),
		cmocka_unit_test(test_forget),
		cmocka_unit_test(test_unreserve_map),
		cmocka_unit_test(test_discard),
		cmocka_unit_test(test_reconcile),
		cmocka_unit_test(test_questions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
