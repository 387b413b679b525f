/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * NUMA, by libnuma. The thread's own policy is remembered per thread, so that asking for the
 * same node again costs no system call.
 */
#include "fs/numa_policy.h"

#include <errno.h>
#include <numa.h>
#include <numaif.h>
#include <stddef.h>

#include "fs/node_share.h"
#include "fs/pool.h"

int numa_policy_nr_nodes(void)
{
	int nr;

	if (numa_available() < 0)
		return 1;
	nr = numa_max_node() + 1;
	return nr > POOL_MAX_NODES ? POOL_MAX_NODES : nr;
}

uint64_t numa_policy_memory_nodes(void)
{
	int nr = numa_policy_nr_nodes();
	uint64_t nodes = 0;

	for (int node = 0; nr > 1 && node < nr; node++) {
		if (numa_node_size64(node, NULL) > 0)
			nodes |= NODE_BIT(node);
	}
	return nodes ? nodes : NODE_BIT(0);
}

void numa_policy_prefer(int node)
{
	static _Thread_local int current = -1;

	if (node == current || numa_available() < 0)
		return;
	numa_set_preferred(node);
	current = node;
}

int numa_policy_node_of(const void *addr)
{
	int node;

	if (get_mempolicy(&node, NULL, 0, (void *)addr, MPOL_F_NODE | MPOL_F_ADDR) < 0)
		return -errno;
	return node;
}
