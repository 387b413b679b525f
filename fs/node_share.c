/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Node shares. */
#include "fs/node_share.h"

static int64_t min_pages(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

void node_share(int64_t nr_pages, int nr_nodes, uint64_t nodes, int64_t *ret_shares)
{
	int nr_left = 0;

	for (int node = 0; node < nr_nodes; node++)
		nr_left += (nodes & NODE_BIT(node)) != 0;
	for (int node = 0; node < nr_nodes; node++) {
		ret_shares[node] = 0;
		if (!(nodes & NODE_BIT(node)))
			continue;
		ret_shares[node] = (nr_pages + nr_left - 1) / nr_left;
		nr_pages -= ret_shares[node];
		nr_left--;
	}
}

void node_share_take(int64_t nr_pages, int nr_nodes, const int64_t *shares, const int64_t *free,
		     int64_t *ret_taken)
{
	int64_t more;

	for (int node = 0; node < nr_nodes; node++) {
		ret_taken[node] = min_pages(nr_pages, min_pages(shares[node], free[node]));
		nr_pages -= ret_taken[node];
	}
	for (int node = 0; node < nr_nodes; node++) {
		more = min_pages(nr_pages, free[node] - ret_taken[node]);
		ret_taken[node] += more;
		nr_pages -= more;
	}
}
