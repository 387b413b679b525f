/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where a page is to be taken. The rule names a node; others follow as far as it allows. Nodes
 * where nothing is expected (fs/avail_mask.h) are left out, but for a reservation that would
 * find no page otherwise: its page is there, wherever that is.
 */
#include "fs/page_place.h"

#include <assert.h>
#include <errno.h>

void page_space_set_rule(struct page_space *space, const struct numa_rule *rule)
{
	rwsem_write_lock(space->lock);
	space->rule = *rule;
	rwsem_write_unlock(space->lock);
}

struct numa_rule page_space_rule(struct page_space *space)
{
	struct numa_rule rule;

	rwsem_read_lock(space->lock);
	rule = numa_rule_inside(&space->rule, &space->core->numa);
	rwsem_read_unlock(space->lock);
	return rule;
}

/* The space's, the mount's, the thread's: who says something first. */
static struct numa_rule rule_locked(const struct page_space *space,
				    const struct page_hint *hint)
{
	struct numa_rule rule = numa_rule_inside(&space->rule, &space->core->numa);

	return hint && hint->rule ? numa_rule_inside(&rule, hint->rule) : rule;
}

/* A node of @nodes where the space has bound pages, @first if it can be; or -1. */
static int bound_node_locked(const struct page_space *space, uint64_t nodes, int first)
{
	if (first >= 0 && nodes & NODE_BIT(first) && space->bound[first] > 0)
		return first;
	for (int node = 0; node < space->nr_nodes; node++) {
		if (nodes & NODE_BIT(node) && space->bound[node] > 0)
			return node;
	}
	return -1;
}

/* A reserved page of a space some of whose reservations are bound. */
static void place_bound_locked(struct page_space *space, const struct numa_rule *rule,
			       uint64_t nodes, struct pool_place *place)
{
	uint64_t on = numa_rule_reserved_on(rule) & nodes;
	int node = on ? bound_node_locked(space, on, place->first) : -1;

	if (node < 0) {
		/* Of another rule, that it had before. */
		page_unbind_locked(space, 1);
		return;
	}
	place->first = node;
	place->bound = true;
}

void page_place_locked(struct page_space *space, int64_t idx, struct page_attempt *attempt,
		       struct pool_place *ret_place)
{
	struct page_core *core = space->core;
	uint64_t avail = avail_mask_nodes(&core->avail), nodes, there;
	struct numa_place wanted;
	struct numa_rule rule;

	attempt->first = POOL_ANY_NODE;
	*ret_place = (struct pool_place){attempt->hint->node, POOL_ALL_NODES, avail, false};
	if (space->nr_nodes == 1)
		return;
	rule = rule_locked(space, attempt->hint);
	wanted = numa_rule_place(&rule, core->memory_nodes, attempt->hint->node, idx);
	attempt->strict = numa_rule_is_strict(&rule);
	attempt->first = wanted.first;
	attempt->reserved = region_map_contains_locked(&space->resv, idx);
	/* What was reserved without a word of the thread's policy cannot fail for it. */
	if (attempt->reserved && rule_locked(space, NULL).kind == NUMA_NONE)
		attempt->strict = false;
	nodes = wanted.nodes & ~attempt->tried;
	there = ~avail_mask_stolen(&core->avail);
	if (attempt->anywhere)
		nodes = avail = there = POOL_ALL_NODES;
	*ret_place = (struct pool_place){wanted.first, nodes & there, nodes & avail, false};
	/* It is another one's turn only once for a page. */
	if (wanted.first == POOL_ANY_NODE && attempt->tried)
		ret_place->first = attempt->last_tried;
	if (attempt->reserved && (ret_place->nodes == 0 || !attempt->strict))
		ret_place->nodes = nodes;
	if (attempt->reserved && space->nr_bound > 0)
		place_bound_locked(space, &rule, nodes, ret_place);
}

bool page_try_again(struct page_space *space, struct page_attempt *attempt)
{
	struct avail_mask *avail = &space->core->avail;
	int node = attempt->failed_on;

	if (node < 0 && !(avail_mask_nodes(avail) & space->core->memory_nodes))
		avail->nr_spared++;
	if (node >= 0 && !attempt->anywhere)
		avail_mask_failed(avail, node, attempt->was_free);
	if (space->nr_nodes == 1 || attempt->anywhere)
		return false;
	if (node >= 0) {
		attempt->tried |= NODE_BIT(node);
		attempt->last_tried = node;
		return true;
	}
	/* It is somewhere: where a thread's policy does not want it; or somebody else has taken
	 * what the counters had, and left another. */
	attempt->anywhere = attempt->reserved && !attempt->strict;
	return attempt->anywhere;
}

static void note_unbound(struct page_core *core, int nr_nodes, uint64_t nodes)
{
	core->nr_unbound++;
	for (int node = 0; node < nr_nodes; node++)
		core->nr_unbound_of[node] += (nodes & NODE_BIT(node)) != 0;
}

int page_bind_locked(struct page_space *space, int64_t nr)
{
	struct numa_rule rule = rule_locked(space, NULL);
	uint64_t nodes = space->nr_nodes > 1 ? numa_rule_reserved_on(&rule) : 0;
	int64_t bound[POOL_MAX_NODES];
	int r;

	if (!nodes || nr == 0)
		return 0;
	r = pool_bind(&space->core->pool, nodes, nr, bound);
	if (r < 0) {
		note_unbound(space->core, space->nr_nodes, nodes);
		return r;
	}
	for (int node = 0; node < space->nr_nodes; node++)
		space->bound[node] += bound[node];
	space->nr_bound += nr;
	return 0;
}

void page_unbind_locked(struct page_space *space, int64_t nr)
{
	int64_t here;

	for (int node = 0; node < space->nr_nodes && nr > 0 && space->nr_bound > 0; node++) {
		here = nr < space->bound[node] ? nr : space->bound[node];
		if (here == 0)
			continue;
		pool_unbind(&space->core->pool, node, here);
		space->bound[node] -= here;
		space->nr_bound -= here;
		nr -= here;
	}
}

void page_unbind_excess_locked(struct page_space *space)
{
	int64_t left;

	if (space->nr_bound == 0)
		return;
	left = region_map_count_locked(&space->resv, 0, REGION_END);
	for (int node = 0; node < space->nr_nodes; node++)
		left -= region_map_count_locked(&space->inst[node], 0, REGION_END);
	if (space->nr_bound > left)
		page_unbind_locked(space, space->nr_bound - left);
}

void page_rebind_locked(struct page_space *space, int node)
{
	struct numa_rule rule = rule_locked(space, NULL);
	int64_t bound[POOL_MAX_NODES];

	if (space->nr_nodes == 1 || !(numa_rule_reserved_on(&rule) & NODE_BIT(node)))
		return;
	if (pool_bind(&space->core->pool, NODE_BIT(node), 1, bound) < 0)
		return;
	space->bound[node]++;
	space->nr_bound++;
}

void page_unbound_locked(struct page_space *space, int node)
{
	assert(space->bound[node] > 0);
	space->bound[node]--;
	space->nr_bound--;
}
