/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * NUMA: which nodes there are, where a thread's next page comes from, and where a page is. On a
 * machine with one node, or without NUMA support, node 0 is all there is and nothing is asked.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* The highest memory node + 1, at least 1, at most POOL_MAX_NODES. */
int numa_policy_nr_nodes(void);
/* A bit for each node that has memory and that this process may use, by its cpuset; node 0's
 * without NUMA support. */
uint64_t numa_policy_memory_nodes(void);
/*
 * From here on the calling thread's pages come from @node and nowhere else; and wherever they
 * come from else. 0, or -errno for a node that this process may not use.
 */
int numa_policy_bind(int node);
void numa_policy_unbind(void);
/*
 * The node that thread @tid of process @pid runs on; -errno where it is gone. Less than a
 * microsecond where all its processors are of one node; else what /proc says, which takes ten,
 * and is believed for as many milliseconds.
 */
int numa_policy_node_of_thread(pid_t pid, pid_t tid);
/* The node of the page at @addr of process @pid; -errno. */
int numa_policy_node_in(pid_t pid, uint64_t addr);
/* The node of the page that @addr is mapped to; -errno. */
int numa_policy_node_of(const void *addr);
