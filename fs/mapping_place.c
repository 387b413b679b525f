/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where pages of a mapping are to be, as far as that depends on who wants them. */
#include "fs/client.h"
#include "fs/mapping.h"
#include "fs/mount.h"
#include "fs/numa_policy.h"

struct page_hint mapping_hint(struct mapping *mapping, pid_t tid)
{
	struct page_hint hint = {POOL_ANY_NODE, NULL};
	int node;

	if (mapping->mount->nr_nodes == 1)
		return hint;
	hint.rule = &mapping->thread_rule;
	hint.node = mapping->local_node;
	if (tid == 0 && hint.node == POOL_ANY_NODE)
		tid = mapping->client->pid;
	if (tid == 0)
		return hint;
	node = numa_policy_node_of_thread(mapping->client->pid, tid);
	if (node >= 0 && node < mapping->mount->nr_nodes)
		mapping->local_node = hint.node = node;
	return hint;
}

int mapping_instantiate(struct mapping *mapping, int64_t idx)
{
	struct page_hint hint = mapping_hint(mapping, 0);
	int node;

	return page_instantiate_for(mapping->space, idx, &hint, &node);
}
