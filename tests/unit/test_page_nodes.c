/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The page transaction on two nodes, and on two spaces that share a pool. One thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "page_util.h"

/* Adjacent pages on different nodes are one range to who asks, and two regions inside. */
static void test_questions_across_nodes(void **state)
{
	static const struct page_config config = {.nr_nodes = 2, .nr_pages = {4, 4}, .max = 8};
	struct page_space_counts counts;
	struct page_space *space;
	struct page_test test;

	page_test_init(&test, &config);
	space = &test.space[0];
	assert_int_equal(page_reserve(space, 0, 8, NULL), 8);
	for (int64_t idx = 1; idx < 6; idx++)
		assert_int_equal(page_instantiate(space, idx, (int)(idx % 2)),
				 PAGE_FROM_RESERVATION);
	assert_space(&test, 0, 3, 5);
	page_space_read(space, &counts);
	assert_int_equal(counts.node[0], 2);
	assert_int_equal(counts.node[1], 3);
	assert_int_equal(page_next_hole(space, 1), 6);
	assert_int_equal(page_next_reserved(space, 1, 64), 6);
	assert_int_equal(page_next_instantiated(space, 2, 64), 2);
	/* A cut through both nodes' maps. */
	assert_int_equal(page_truncate(space, 3), 0);
	assert_space(&test, 0, 1, 2);
	page_test_deinit(&test, &config);
}

/* Where the node asked for has none, another gives the page; where none has, it is surplus. */
static void test_nodes_help_each_other(void **state)
{
	static const struct page_config config = {.nr_nodes = 2, .nr_pages = {1, 2}, .max = 4};
	struct pool_counts pool;
	struct page_test test;

	page_test_init(&test, &config);
	assert_int_equal(page_instantiate(&test.space[0], 0, 0), PAGE_FROM_FREE);
	assert_int_equal(page_instantiate(&test.space[0], 1, 0), PAGE_FROM_FREE);
	assert_int_equal(page_instantiate(&test.space[0], 2, 0), PAGE_FROM_FREE);
	check(&test);
	assert_int_equal(page_instantiate(&test.space[0], 3, 0), PAGE_FROM_SURPLUS);
	check(&test);
	pool_read(&test.core.pool, &pool);
	assert_int_equal(pool.node[0].nr, 2);
	assert_int_equal(pool.node[0].surplus, 1);
	assert_int_equal(pool.node[1].nr, 2);
	assert_int_equal(page_instantiate(&test.space[0], 4, 1), -ENOSPC);
	/* Which of the two pages of node 0 is the surplus one does not matter. */
	assert_int_equal(page_punch(&test.space[0], 0, 1), 1);
	assert_pool(&test, 3, 0, 0, 0);
	page_test_deinit(&test, &config);
}

/* The backing decides in the end: the page is counted where it is. */
static void test_populate_answers_another_node(void **state)
{
	static const struct page_config config = {.nr_nodes = 2, .nr_pages = {3, 1}, .max = 4};
	struct page_space_counts counts;
	struct page_test test;

	page_test_init(&test, &config);
	test.answer_node = 1;
	assert_int_equal(page_reserve(&test.space[0], 0, 3, NULL), 3);
	/* A page of node 1 in place of the one of node 0. */
	assert_int_equal(page_instantiate(&test.space[0], 0, 0), PAGE_FROM_RESERVATION);
	check(&test);
	assert_pool(&test, 4, 3, 2, 0);
	/* Node 1 had none: it was made there. */
	assert_int_equal(page_instantiate(&test.space[0], 1, 0), PAGE_FROM_RESERVATION);
	assert_int_equal(page_instantiate(&test.space[1], 1, 0), PAGE_FROM_FREE);
	check(&test);
	page_space_read(&test.space[0], &counts);
	assert_int_equal(counts.node[0], 0);
	assert_int_equal(counts.node[1], 2);
	/* It goes back to where it is. */
	assert_int_equal(page_punch(&test.space[0], 0, 2), 2);
	assert_space(&test, 0, 1, 0);
	page_test_deinit(&test, &config);
}

/* One space's pages and limits are the other's problem, never its state. */
static void check_two_spaces(bool region_lock_global)
{
	const struct page_config config = {
		.nr_pages = {6}, .max = 6, .region_lock_global = region_lock_global};
	struct page_test test;

	page_test_init(&test, &config);
	assert_ptr_equal(test.space[0].lock,
			 region_lock_global ? &test.core.region_lock : &test.space[0].own_lock);
	assert_int_equal(test.space[0].lock == test.space[1].lock, region_lock_global);
	assert_int_equal(page_reserve(&test.space[0], 0, 3, NULL), 3);
	assert_int_equal(page_reserve(&test.space[1], 0, 3, NULL), 3);
	assert_int_equal(page_reserve(&test.space[1], 3, 4, NULL), -ENOMEM);
	assert_int_equal(page_instantiate(&test.space[0], 1, 0), PAGE_FROM_RESERVATION);
	assert_space(&test, 0, 2, 1);
	assert_space(&test, 1, 3, 0);
	assert_int_equal(page_instantiate(&test.space[1], 1, 0), PAGE_FROM_RESERVATION);
	assert_int_equal(page_truncate(&test.space[0], 0), 0);
	assert_space(&test, 0, 0, 0);
	assert_space(&test, 1, 2, 1);
	assert_int_equal(page_reserve(&test.space[1], 3, 6, NULL), 3);
	/* The private-like space has no end. */
	assert_int_equal(page_reserve(&test.space[1], REGION_END - 1, REGION_END, NULL),
			 -ENOMEM);
	assert_int_equal(page_punch(&test.space[1], 0, REGION_END), 1);
	assert_int_equal(page_reserve(&test.space[1], REGION_END - 1, REGION_END, NULL), 1);
	assert_space(&test, 1, 6, 0);
	page_test_deinit(&test, &config);
}

static void test_two_spaces(void **state)
{
	check_two_spaces(false);
	check_two_spaces(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_questions_across_nodes),
		cmocka_unit_test(test_nodes_help_each_other),
		cmocka_unit_test(test_populate_answers_another_node),
		cmocka_unit_test(test_two_spaces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
