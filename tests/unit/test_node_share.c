/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shares of nodes: against what they are to be, for all small numbers. */
#include "fs/node_share.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define NR_NODES 4

static void test_shares_are_even(void **state)
{
	int64_t shares[NR_NODES];

	for (uint64_t nodes = 1; nodes < NODE_BIT(NR_NODES); nodes++) {
		for (int64_t pages = 0; pages < 12; pages++) {
			int64_t sum = 0, least = INT64_MAX, most = 0;

			node_share(pages, NR_NODES, nodes, shares);
			for (int node = 0; node < NR_NODES; node++) {
				sum += shares[node];
				if (!(nodes & NODE_BIT(node))) {
					assert_int_equal(shares[node], 0);
					continue;
				}
				least = shares[node] < least ? shares[node] : least;
				most = shares[node] > most ? shares[node] : most;
			}
			assert_int_equal(sum, pages);
			assert_in_range(most - least, 0, 1);
		}
	}
}

static void test_no_node(void **state)
{
	int64_t shares[NR_NODES] = {1, 1, 1, 1};

	node_share(5, NR_NODES, 0, shares);
	for (int node = 0; node < NR_NODES; node++)
		assert_int_equal(shares[node], 0);
}

/* A share where it is to be had, and the rest where there is more. */
static void test_take(void **state)
{
	const int64_t shares[NR_NODES] = {3, 3, 3, 3}, free[NR_NODES] = {5, 1, 0, 9};
	int64_t taken[NR_NODES];

	node_share_take(12, NR_NODES, shares, free, taken);
	assert_int_equal(taken[0], 5);
	assert_int_equal(taken[1], 1);
	assert_int_equal(taken[2], 0);
	assert_int_equal(taken[3], 6);
	node_share_take(2, NR_NODES, shares, free, taken);
	assert_int_equal(taken[0], 2);
	assert_int_equal(taken[1] + taken[2] + taken[3], 0);
	node_share_take(20, NR_NODES, shares, free, taken);
	for (int node = 0; node < NR_NODES; node++)
		assert_int_equal(taken[node], free[node]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shares_are_even),
		cmocka_unit_test(test_no_node),
		cmocka_unit_test(test_take),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
