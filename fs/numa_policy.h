/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * NUMA: which nodes there are, where a thread's next page comes from, and where a page is. On a
 * machine with one node, or without NUMA support, node 0 is all there is and nothing is asked.
 */
#pragma once

#include <stdint.h>

/* The highest memory node + 1, at least 1, at most POOL_MAX_NODES. */
int numa_policy_nr_nodes(void);
/* A bit for each node that has memory; node 0's without NUMA support. */
uint64_t numa_policy_memory_nodes(void);
/* The calling thread's next page comes from @node if it has one. Nothing to do with one node.
 */
void numa_policy_prefer(int node);
/* The node of the page that @addr is mapped to; -errno. */
int numa_policy_node_of(const void *addr);
