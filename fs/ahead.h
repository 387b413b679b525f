/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Populating ahead: which pages to instantiate before they are touched. As in the kernel's
 * readahead, a mapping is touched by a few sequential streams, and the window ahead of each
 * doubles whenever the stream faults again. Only reserved pages are populated: no page is
 * taken that somebody else could have had.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "fs/lock.h"
#include "fs/page.h"

#define AHEAD_STREAMS    8
#define AHEAD_FIRST_SIZE 4 /* pages of a stream's first window */

struct ahead_stream {
	_Atomic int64_t next, end; /* the window: pages still to populate */
	int64_t last;              /* ahead->lock; where the stream faulted last */
	int64_t window;            /* ahead->lock; pages */
	uint64_t done_ns;          /* ahead->lock; when its last window was there */
	uint64_t used;             /* ahead->lock; for replacing the oldest */
};

struct ahead {
	struct mutex lock; /* LOCK_RANK_LEAF */
	uint64_t clock;    /* lock */
	struct ahead_stream stream[AHEAD_STREAMS];
};

void ahead_init(struct ahead *ahead);
void ahead_deinit(struct ahead *ahead);
/*
 * Page @idx has been faulted on; windows reach at most @max pages ahead and not behind @to.
 * Returns how many pages there are to populate in its stream.
 */
int64_t ahead_fault(struct ahead *ahead, int64_t idx, int64_t max, int64_t to);
/* The stream that faulted on @idx last has got its page, or its whole window, at @now. */
void ahead_done(struct ahead *ahead, int64_t idx, uint64_t now);
/* How long before @now the stream that @idx carries on had got it; UINT64_MAX if there is none.
 */
uint64_t ahead_since_done(struct ahead *ahead, int64_t idx, uint64_t now);
/* The number of the stream that faulted on @idx last, or -1. */
int ahead_stream_at(struct ahead *ahead, int64_t idx);
/* Claim the next page of stream @number; else as ahead_claim(). */
int64_t ahead_claim_from(struct ahead *ahead, int number, struct page_space *space);
/* Claim the next page of any stream that is reserved in @space and not there, or -1. Lock-free.
 */
int64_t ahead_claim(struct ahead *ahead, struct page_space *space);
