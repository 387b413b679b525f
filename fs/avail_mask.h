/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Availability mask: a bit for each node, set where allocating a huge page is expected to
 * succeed. What wants a page tries nodes with a set bit only; a failure clears the bit and
 * wakes the refiller (fs/refill.c), which alone makes attempts that may cost much. What it gets
 * is free pages of the pool, which are taken whatever the bit says; it sets the bit again when
 * it gets many, as does whoever frees a page of that node.
 *
 * A second word has a bit for each node whose pages the counters call free, but which were not
 * there: somebody else has taken them.
 *
 * It is a hint: a bit that is wrong costs an attempt, or a while. No lock; on a machine with
 * one node, too, a fault only reads it.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "fs/lock.h"
#include "fs/node_share.h"

struct avail_mask {
	bool enabled;            /* set at init; else every bit is always set */
	_Atomic uint64_t nodes;  /* a bit each */
	_Atomic uint64_t stolen; /* a bit each */
	struct waitqueue failed; /* the refiller's */
	/* Counted for .hugefuse/fault_stat: */
	_Atomic uint64_t nr_failed;        /* attempts by faults that got nothing */
	_Atomic uint64_t nr_spared;        /* pages not to be had without an attempt */
	_Atomic uint64_t nr_refills;       /* attempts by the refiller */
	_Atomic uint64_t nr_refill_failed; /* of these, that got nothing */
};

void avail_mask_init(struct avail_mask *mask, bool enabled);
/* Count from now on. */
void avail_mask_clear_counts(struct avail_mask *mask);
/* Nodes where an attempt is worth it. */
static inline uint64_t avail_mask_nodes(struct avail_mask *mask)
{
	return atomic_load_explicit(&mask->nodes, memory_order_relaxed);
}
/* Nodes whose free pages are not there. */
static inline uint64_t avail_mask_stolen(struct avail_mask *mask)
{
	return atomic_load_explicit(&mask->stolen, memory_order_relaxed);
}
/* An attempt on @node got nothing: at a page that was counted as free there, or at a new one.
 */
void avail_mask_failed(struct avail_mask *mask, int node, bool was_free);
/* Free pages of @node are there. */
void avail_mask_found(struct avail_mask *mask, int node);
/* There is a page on @node now, and memory for more. */
void avail_mask_set(struct avail_mask *mask, int node);
