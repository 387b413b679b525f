/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What page.c and page_reserve.c share: changes of maps, and pages that are being populated. */
#pragma once

#include <stdatomic.h>

#include "fs/clock.h"
#include "fs/page.h"

/* Changes for a number of ranges that is known under the lock only: NULL without memory. */
struct region_change *page_changes_new(size_t nr);
/* NULL-safe. */
void page_changes_free(struct region_change *changes, size_t nr);
void page_change_set(struct region_change *change, int64_t from, int64_t to);

/* Uncharge [from, to), whose pages are gone. @changes: one for resv and one for each node. */
void page_forget_locked(struct page_space *space, int64_t from, int64_t to,
			struct region_change *changes);
/* After a change of resv: whether it is a file that holds pages, for the subpool's count. */
void page_count_file_locked(struct page_space *space);
/* Pages were reserved, or have come. */
static inline void page_note_change(struct page_space *space)
{
	atomic_store_explicit(&space->changed_ms, clock_time_ms(), memory_order_relaxed);
}

/* A page that is entered and being populated. */
struct page_entry {
	int64_t idx;
	int node;
	struct subpool_taken taken;
	bool reserved; /* space->lock; a reservation stays if it cannot be populated */
	struct page_entry *next; /* space->lock */
};
