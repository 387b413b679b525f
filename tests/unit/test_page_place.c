/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where pages are taken: rules of spaces, reservations that are bound to nodes, and nodes where
 * nothing is expected. One thread; the nodes are the in-memory backing's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "page_util.h"

static const struct page_config two_nodes = {.nr_nodes = 2, .nr_pages = {4, 4}, .max = 8};
/* Nothing set aside: every page is a surplus one. */
static const struct page_config surplus = {.nr_nodes = 2, .max = 8};
static const struct page_config one_node = {.max = 8};

static void set_rule(struct page_space *space, const char *text)
{
	struct numa_rule rule;

	assert_int_equal(numa_rule_parse(text, &rule), 0);
	page_space_set_rule(space, &rule);
}

/* Instantiate @idx for a thread on node 0; the node that it is on, or -errno. */
static int node_of(struct page_space *space, int64_t idx)
{
	int node = -1, r = page_instantiate_on(space, idx, 0, &node);

	return r < 0 ? r : node;
}

static int64_t bound_on(struct page_test *test, int node)
{
	struct pool_counts pool;

	pool_read(&test->core.pool, &pool);
	return pool.node[node].bound;
}

static void test_rules(void **state)
{
	struct page_space *space;
	struct page_test test;

	page_test_init(&test, &two_nodes);
	space = &test.space[0];
	assert_int_equal(node_of(space, 0), 0);
	set_rule(space, "preferred:1");
	assert_int_equal(node_of(space, 1), 1);
	set_rule(space, "interleave");
	assert_int_equal(node_of(space, 3), 1);
	assert_int_equal(node_of(space, 4), 0);
	set_rule(space, "bind:1");
	assert_int_equal(node_of(space, 5), 1);
	assert_int_equal(node_of(space, 6), 1);
	assert_int_equal(node_of(space, 7), -ENOSPC);
	set_rule(space, "preferred:1");
	assert_int_equal(node_of(space, 7), 0);
	assert_int_equal(test.core.nr_remote, 1);
	page_test_deinit(&test, &two_nodes);
}

/* What is reserved on a node is left alone by all others, and given back with what has it. */
static void test_bound_reservations(void **state)
{
	struct page_space *bound, *other;
	struct page_counters before;
	struct region_map added;
	struct page_test test;

	page_test_init(&test, &two_nodes);
	bound = &test.space[0];
	other = &test.space[1];
	set_rule(bound, "bind:1");
	before = counters(&test);
	assert_int_equal(page_reserve(bound, 0, 5, NULL), -ENOMEM);
	assert_unchanged(&test, &before);
	assert_int_equal(test.core.nr_unbound, 1);
	region_map_init(&added, bound->lock);
	assert_int_equal(page_reserve(bound, 0, 3, &added), 3);
	assert_int_equal(bound_on(&test, 1), 3);
	/* Five are left, one of them on node 1. */
	assert_int_equal(page_reserve(other, 0, 5, NULL), 5);
	set_rule(other, "preferred:1");
	assert_int_equal(node_of(other, 0), 1);
	for (int64_t idx = 1; idx < 5; idx++)
		assert_int_equal(node_of(other, idx), 0);
	assert_int_equal(node_of(bound, 0), 1);
	assert_int_equal(bound_on(&test, 1), 2);
	check(&test);
	page_unreserve_map(bound, &added);
	assert_int_equal(bound_on(&test, 1), 0);
	assert_space(&test, 0, 0, 1);
	region_map_deinit(&added);
	page_test_deinit(&test, &two_nodes);
}

/* All ways that a bound reservation ends: taken, cut off, forgotten; and comes back. */
static void test_bound_ends(void **state)
{
	struct page_space *space;
	struct page_test test;

	page_test_init(&test, &two_nodes);
	space = &test.space[0];
	set_rule(space, "bind:0-1");
	assert_int_equal(page_reserve(space, 0, 8, NULL), 8);
	assert_int_equal(bound_on(&test, 0) + bound_on(&test, 1), 8);
	assert_int_equal(node_of(space, 0), 0);
	test.populate_error = -EIO;
	assert_int_equal(node_of(space, 1), -EIO);
	test.populate_error = 0;
	assert_int_equal(bound_on(&test, 0) + bound_on(&test, 1), 7);
	/* It has gone without us, and is reserved again. */
	assert_int_equal(test.mem_ops->punch(test.file[0], 0, 1), 0);
	page_discard(space, 0, true);
	assert_int_equal(bound_on(&test, 0) + bound_on(&test, 1), 8);
	assert_int_equal(page_truncate(space, 6), 0);
	assert_int_equal(bound_on(&test, 0) + bound_on(&test, 1), 6);
	assert_int_equal(page_forget(space, 4, 6), 0);
	assert_int_equal(bound_on(&test, 0) + bound_on(&test, 1), 4);
	/* With another rule it is as if they had not been bound. */
	set_rule(space, "local");
	for (int64_t idx = 0; idx < 4; idx++)
		assert_in_range(node_of(space, idx), 0, 1);
	assert_int_equal(bound_on(&test, 0) + bound_on(&test, 1), 0);
	page_test_deinit(&test, &two_nodes);
}

/* The backing has none where the counters have some: the others are tried, and a reservation
 * gets one wherever there is any. */
static void test_somebody_else_took_them(void **state)
{
	struct page_space *space;
	struct page_test test;

	page_test_init(&test, &two_nodes);
	space = &test.space[0];
	avail_mask_init(&test.core.avail, true);
	test.mem.node_room[0] = 0;
	assert_int_equal(node_of(space, 0), 1);
	assert_int_equal(test.mem.nr_failed, 1);
	assert_int_equal(avail_mask_stolen(&test.core.avail), 1);
	test.mem.node_room[1] = 3;
	for (int64_t idx = 1; idx < 4; idx++)
		assert_int_equal(node_of(space, idx), 1);
	assert_int_equal(test.mem.nr_failed, 1);
	assert_int_equal(page_reserve(space, 4, 6, NULL), 2);
	test.mem.node_room[1] = 1;
	assert_int_equal(node_of(space, 4), 1);
	assert_int_equal(node_of(space, 5), -ENOSPC);
	check(&test);
	set_rule(space, "bind:0");
	test.mem.node_room[1] = 1;
	assert_int_equal(node_of(space, 6), -ENOSPC);
	set_rule(space, "local");
	assert_int_equal(node_of(space, 5), 1);
	page_test_deinit(&test, &two_nodes);
}

/* A failure clears the node's bit: from then on it is not tried, until something is freed there
 * or the refiller says so. Without the mask every page tries. */
static void test_mask(void **state)
{
	struct page_space *space;
	struct page_test test;

	for (int enabled = 0; enabled < 2; enabled++) {
		page_test_init(&test, &surplus);
		avail_mask_init(&test.core.avail, enabled);
		space = &test.space[0];
		assert_int_equal(node_of(space, 0), 0);
		test.mem.node_room[0] = 0;
		for (int64_t idx = 1; idx < 4; idx++)
			assert_int_equal(node_of(space, idx), 1);
		assert_int_equal(test.mem.nr_failed, enabled ? 1 : 3);
		assert_int_equal(test.core.avail.nr_failed, enabled ? 1 : 3);
		test.mem.node_room[1] = 0;
		assert_int_equal(node_of(space, 4), -ENOSPC);
		assert_int_equal(node_of(space, 4), -ENOSPC);
		assert_int_equal(test.mem.nr_failed, enabled ? 2 : 7);
		assert_int_equal(test.core.avail.nr_spared, enabled ? 2 : 0);
		assert_int_equal(page_punch(space, 0, 1), 1);
		assert_int_equal(node_of(space, 4), 0);
		test.mem.node_room[1] = 1;
		avail_mask_set(&test.core.avail, 1);
		assert_int_equal(node_of(space, 5), 1);
		page_test_deinit(&test, &surplus);
	}
}

/* On one node: the first failure is an attempt, and others none. A reservation always tries. */
static void test_mask_of_one_node(void **state)
{
	struct page_space *space;
	struct page_test test;

	page_test_init(&test, &one_node);
	avail_mask_init(&test.core.avail, true);
	space = &test.space[0];
	test.mem.node_room[0] = 0;
	for (int i = 0; i < 5; i++)
		assert_int_equal(node_of(space, 0), -ENOSPC);
	assert_int_equal(test.mem.nr_failed, 1);
	assert_int_equal(page_reserve(space, 1, 2, NULL), 1);
	test.mem.node_room[0] = 1;
	assert_int_equal(node_of(space, 1), 0);
	assert_int_equal(node_of(space, 0), -ENOSPC);
	assert_int_equal(page_punch(space, 1, 2), 1);
	assert_int_equal(node_of(space, 0), 0);
	page_test_deinit(&test, &one_node);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rules),
		cmocka_unit_test(test_bound_reservations),
		cmocka_unit_test(test_bound_ends),
		cmocka_unit_test(test_somebody_else_took_them),
		cmocka_unit_test(test_mask),
		cmocka_unit_test(test_mask_of_one_node),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
