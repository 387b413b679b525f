/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Node shares: dividing pages among memory nodes. Pure arithmetic: no locks, no system calls.
 */
#pragma once

#include <stdint.h>

#define NODE_BIT(node) (UINT64_C(1) << (node))

/*
 * Divide @nr_pages among the nodes of @nodes (a bit each) in shares that differ by one at most,
 * the larger ones first. Other nodes, and all of them where @nodes is empty, get none.
 */
void node_share(int64_t nr_pages, int nr_nodes, uint64_t nodes, int64_t *ret_shares);

/*
 * From which nodes @nr_pages are taken: each node's share as far as it has that many free, and
 * what is missing then from whoever has more.
 */
void node_share_take(int64_t nr_pages, int nr_nodes, const int64_t *shares, const int64_t *free,
		     int64_t *ret_taken);
