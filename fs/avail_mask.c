/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Availability mask. */
#include "fs/avail_mask.h"

void avail_mask_init(struct avail_mask *mask, bool enabled)
{
	*mask = (struct avail_mask){.enabled = enabled, .nodes = UINT64_MAX};
}

void avail_mask_clear_counts(struct avail_mask *mask)
{
	mask->nr_failed = mask->nr_spared = mask->nr_refills = mask->nr_refill_failed = 0;
}

void avail_mask_failed(struct avail_mask *mask, int node, bool was_free)
{
	_Atomic uint64_t *word = was_free ? &mask->stolen : &mask->nodes;
	uint64_t bit = NODE_BIT(node), before;

	atomic_fetch_add(&mask->nr_failed, 1);
	if (!mask->enabled)
		return;
	before = was_free ? ~atomic_fetch_or(word, bit) : atomic_fetch_and(word, ~bit);
	/* Only who changes it has somebody to wake. */
	if (before & bit)
		waitqueue_wake_all(&mask->failed);
}

void avail_mask_found(struct avail_mask *mask, int node)
{
	/* Mostly it is not set: then nobody's cache line is taken. */
	if (avail_mask_stolen(mask) & NODE_BIT(node))
		atomic_fetch_and(&mask->stolen, ~NODE_BIT(node));
}

void avail_mask_set(struct avail_mask *mask, int node)
{
	avail_mask_found(mask, node);
	if (!(avail_mask_nodes(mask) & NODE_BIT(node)))
		atomic_fetch_or(&mask->nodes, NODE_BIT(node));
}
