/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What page.c asks the maps of a page space, with its lock held. page.h has the questions for
 * others. */
#pragma once

#include "fs/page.h"

/* The node that page @idx is instantiated on, or -1. */
int page_inst_node_locked(const struct page_space *space, int64_t idx);
/* The first instantiated page in [from, to), or -1. */
int64_t page_next_inst_locked(const struct page_space *space, int64_t from, int64_t to);
/* The first range in [from, to) that is reserved and not instantiated. */
bool page_next_reserved_locked(const struct page_space *space, int64_t from, int64_t to,
			       struct region *ret_region);
/* The range that begins at @from, or the first one behind it. */
bool page_next_range_locked(const struct page_space *space, int64_t from,
			    struct page_range *ret_range);
/* The first range in [from, to) that is not in the resv map, and the number of such ranges. */
bool page_next_gap_locked(const struct page_space *space, int64_t from, int64_t to,
			  struct region *ret_gap);
size_t page_count_gaps_locked(const struct page_space *space, int64_t from, int64_t to);

/* What selects the fault mutex of page @idx: one for each huge page. */
static inline struct fault_key page_key(const struct page_space *space, int64_t idx)
{
	return (struct fault_key){space->object,
				  (uint64_t)((idx + space->key_offset) / space->chunk)};
}
