/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Pool: changing its size and its overcommit while it is in use, by the kernel's rules. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "fs/pool.h"

static void assert_counts(struct pool *pool, int64_t nr, int64_t free_pages, int64_t resv,
			  int64_t surplus)
{
	struct pool_counts counts;

	pool_read(pool, &counts);
	assert_int_equal(counts.nr, nr);
	assert_int_equal(counts.free, free_pages);
	assert_int_equal(counts.resv, resv);
	assert_int_equal(counts.surplus, surplus);
}

/* As set_max_huge_pages(): surplus pages first, then the caller's; what is in use stays,
 * surplus. */
static void test_set_nr(void **state)
{
	int64_t left[POOL_MAX_NODES];
	enum pool_source source;
	struct pool pool;

	pool_init(&pool, 2, 4);
	assert_int_equal(pool_set_nr(&pool, POOL_ANY_NODE, 6, left), 6);
	assert_int_equal(pool_resize(&pool, 0, 3), 0);
	assert_int_equal(pool_resize(&pool, 1, 3), 0);
	assert_int_equal(pool_set_nr(&pool, POOL_ANY_NODE, 6, left), 0);
	assert_int_equal(pool_reserve(&pool, 2), 0);
	assert_true(pool_take_page(&pool, 0, false, &source) == 0);
	/* one is in use and two are reserved: three leave, and one is too many */
	assert_int_equal(pool_set_nr(&pool, POOL_ANY_NODE, 2, left), 0);
	assert_int_equal(left[0] + left[1], 3);
	assert_counts(&pool, 3, 2, 2, 1);
	assert_int_equal(pool_set_nr(&pool, POOL_ANY_NODE, 0, left), 0);
	assert_int_equal(left[0] + left[1], 0);
	assert_counts(&pool, 3, 2, 2, 3);
	/* surplus pages become others before new ones are asked for */
	assert_int_equal(pool_set_nr(&pool, POOL_ANY_NODE, 5, left), 2);
	assert_counts(&pool, 3, 2, 2, 0);
	assert_int_equal(pool_set_nr(&pool, POOL_ANY_NODE, 0, left), 0);
	pool_put_page(&pool, 0, false);
	assert_counts(&pool, 2, 2, 2, 2);
	pool_unreserve(&pool, 2);
	assert_counts(&pool, 0, 0, 0, 0);
	pool_deinit(&pool);
}

/* The same of one node: the other one keeps what it has, also where its pages are free. */
static void test_set_nr_of_node(void **state)
{
	int64_t left[POOL_MAX_NODES];
	enum pool_source source;
	struct pool_counts counts;
	struct pool pool;

	pool_init(&pool, 2, 4);
	assert_int_equal(pool_resize(&pool, 0, 3), 0);
	assert_int_equal(pool_resize(&pool, 1, 4), 0);
	assert_true(pool_take_page(&pool, 1, false, &source) == 1);
	assert_int_equal(pool_set_nr(&pool, 1, 6, left), 2);
	assert_counts(&pool, 7, 6, 0, 0);
	assert_int_equal(pool_set_nr(&pool, 1, 0, left), 0);
	assert_int_equal(left[0], 0);
	assert_int_equal(left[1], 3);
	assert_counts(&pool, 4, 3, 0, 1);
	pool_read(&pool, &counts);
	assert_int_equal(counts.node[0].nr, 3);
	assert_int_equal(counts.node[1].nr, 1);
	assert_int_equal(counts.node[1].surplus, 1);
	/* what is reserved may be on any node: so many stay in all */
	assert_int_equal(pool_reserve(&pool, 2), 0);
	assert_int_equal(pool_set_nr(&pool, 0, 0, left), 0);
	assert_int_equal(left[0], 1);
	assert_counts(&pool, 3, 2, 2, 3);
	assert_int_equal(pool_set_nr(&pool, 0, 2, left), 0);
	assert_counts(&pool, 3, 2, 2, 1);
	pool_unreserve(&pool, 2);
	pool_put_page(&pool, 1, false);
	pool_deinit(&pool);
}

static void test_set_overcommit(void **state)
{
	struct pool pool;

	pool_init(&pool, 1, 0);
	assert_int_equal(pool_reserve(&pool, 1), -ENOMEM);
	pool_set_overcommit(&pool, 2);
	assert_int_equal(pool_reserve(&pool, 2), 0);
	pool_set_overcommit(&pool, 0);
	assert_counts(&pool, 2, 2, 2, 2);
	assert_int_equal(pool_reserve(&pool, 1), -ENOMEM);
	pool_unreserve(&pool, 2);
	assert_counts(&pool, 0, 0, 0, 0);
	pool_deinit(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_set_nr),
		cmocka_unit_test(test_set_nr_of_node),
		cmocka_unit_test(test_set_overcommit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
