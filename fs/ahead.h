/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Populating ahead: which pages to instantiate before they are touched. As in the kernel's
 * readahead, a mapping is touched by a few sequential streams, and the window ahead of each
 * doubles whenever the stream faults again. Only reserved pages are populated: no page is
 * taken that somebody else could have had.
 *
 * A window begins behind a page that is left out, the mark: the stream faults there, before it
 * gets to pages that are just being cleared, on which it would wait in the kernel. It is kept
 * waiting until the rest of the window is there (the waiter); the next window is opened as soon
 * as all pages of this one are claimed, so that nobody who populates has to stop. Where all who
 * could are busy with faults, no window is open when the stream faults again: then one begins
 * right behind that fault, which waits for it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "fs/lock.h"
#include "fs/page.h"

#define AHEAD_STREAMS    8
#define AHEAD_FIRST_SIZE 4 /* pages of a stream's first window */

struct ahead_stream {
	int64_t next, end; /* pages that are not claimed yet; @end is the window's, too */
	int64_t last;      /* where the stream faulted last */
	int64_t window;    /* pages of the next window */
	int64_t max, to;   /* of the last fault */
	bool opened;       /* the window is the one behind the last fault's */
	void *waiter;      /* who faulted on page @last, until its window is there */
	int64_t wait_end;  /* the waiter's window ends here */
	bool is_claimed;   /* the waiter's own page */
	uint64_t used;     /* for replacing the oldest */
};

/* A page that somebody populates. */
struct ahead_claim {
	int64_t idx;
	void *waiter; /* whose own page it is, or NULL */
	struct ahead_stream *stream;
	struct ahead_claim *next; /* lock */
};

struct ahead {
	struct mutex lock;          /* LOCK_RANK_LEAF; all of this */
	uint64_t clock;             /* how often there was a fault */
	struct ahead_claim *claims; /* not done yet */
	struct ahead_stream stream[AHEAD_STREAMS];
};

void ahead_init(struct ahead *ahead);
void ahead_deinit(struct ahead *ahead);
/*
 * Page @idx has been faulted on; windows are of at most @max pages and do not reach beyond @to.
 * true: it carries on a stream, and @waiter is kept until ahead_take_ready() gives it back.
 * false: it does not, or the stream has a waiter already; the page is the caller's to populate.
 */
bool ahead_fault(struct ahead *ahead, int64_t idx, int64_t max, int64_t to, void *waiter);
/*
 * Claim a page: a waiter's own, or the next of a window that is reserved in @space and not
 * there; windows with a waiter come first. false: there is none.
 */
bool ahead_claim(struct ahead *ahead, struct page_space *space, struct ahead_claim *ret_claim);
/* The page of @claim is there or, with @failed, cannot be had: then its window ends with it. */
void ahead_done(struct ahead *ahead, struct ahead_claim *claim, bool failed);
/*
 * A waiter whose window, which ends at *ret_end, is there; with @any one whose window is not,
 * but for those whose own page is claimed and not done: who is at it comes for them. NULL:
 * there is none.
 */
void *ahead_take_ready(struct ahead *ahead, bool any, int64_t *ret_end);
