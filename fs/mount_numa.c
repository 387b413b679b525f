/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a mount has to do with nodes: that those which its options name exist, how many pages
 * are to be on which, and the rule of a file.
 */
#include "fs/mount_numa.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fs/node_share.h"
#include "fs/numa_policy.h"

static int no_such_node(const char *option, uint64_t nodes, uint64_t memory, char *error,
			size_t error_size)
{
	char known[NUMA_RULE_TEXT_MAX];

	numa_nodes_print(memory, known, sizeof(known));
	snprintf(error, error_size,
		 "option '%s': node %d has no memory, or there is none; accepted are %s",
		 option, __builtin_ctzll(nodes & ~memory), known);
	return -EINVAL;
}

const char *mount_numa_lacks(const struct numa_rule *rule, bool is_thp)
{
	if (!is_thp && rule->fallback == NUMA_SMALL)
		return "option 'fallback=small': with backing=hugetlb, which was taken, there are "
		       "no base pages; accepted are remote, wait and fail";
	if (is_thp && rule->kind == NUMA_BIND)
		return "option 'numa=bind': with backing=thp, which was taken, nothing can be "
		       "reserved on a node; accepted are local, preferred and interleave";
	if (is_thp && rule->fallback != NUMA_FALLBACK_NONE && rule->fallback != NUMA_SMALL)
		return "option 'fallback=': with backing=thp, which was taken, the kernel takes "
		       "base pages; accepted is small";
	return NULL;
}

int mount_numa_check(const struct mount_options *options, bool is_thp, char *error,
		     size_t error_size)
{
	uint64_t memory = numa_policy_memory_nodes();
	const char *lacks;

	if (options->numa.nodes & ~memory)
		return no_such_node("numa=", options->numa.nodes, memory, error, error_size);
	if (options->node_sizes.nodes & ~memory)
		return no_such_node("size=", options->node_sizes.nodes, memory, error,
				    error_size);
	lacks = mount_numa_lacks(&options->numa, is_thp);
	if (lacks) {
		snprintf(error, error_size, "%s", lacks);
		return -EINVAL;
	}
	return 0;
}

const int64_t *mount_numa_node_pages(const struct mount_options *options,
				     int64_t ret_pages[POOL_MAX_NODES])
{
	const struct option_node_sizes *sizes = &options->node_sizes;

	for (int node = 0; node < POOL_MAX_NODES; node++)
		ret_pages[node] = (int64_t)(sizes->bytes[node] / options->pagesize);
	return sizes->nodes ? ret_pages : NULL;
}

void mount_numa_set_up(struct mount *mount)
{
	struct page_core *core = &mount->core;

	core->numa = mount->options->numa;
	if (mount->nr_nodes > 1)
		core->memory_nodes = numa_policy_memory_nodes();
	avail_mask_init(&core->avail, mount->options->avail_mask && !mount->is_thp);
}
