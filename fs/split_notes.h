/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Split notes: the holes of one file that were zeroed and noted rather than punched, as a
 * bitmap for each huge page that has some. A noted page is there, is counted as instantiated,
 * and is all zero; to whoever asks for the file's holes it is one.
 *
 * Only for files into which nobody can store without the daemon (fs/split.h): so a note is
 * always right, and a noted page can be punched at any time without a look at it.
 *
 * Locks: the caller excludes every other change of the file, as the inode's lock does held for
 * writing; for questions, held for reading.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "fs/page.h"
#include "fs/split_queue.h"

#define SPLIT_CHUNK 512 /* pages of a huge page */

struct split_note;

struct split_notes {
	struct split_set *set;    /* of the tenant; NULL while there was no note */
	struct split_note **list; /* by chunk */
	size_t nr, room;
	_Atomic int64_t nr_noted; /* pages; may be read without a lock */
};

/* A file has no notes where all is zero. Forget all that there are: the file goes. */
void split_notes_deinit(struct split_notes *notes, struct split_queues *queues);

/* Whether the huge page @chunk has notes. */
bool split_notes_have(const struct split_notes *notes, int64_t chunk);

/* What the file remembers of its huge pages, as asking costs more than noting a hole. */
enum split_knowledge {
	SPLIT_UNKNOWN,
	SPLIT_WHOLE, /* it is huge, and all of it is there */
	SPLIT_BASE,  /* it is made of base pages; to be asked again from time to time */
};
enum split_knowledge split_notes_know(const struct split_notes *notes, int64_t chunk);
/*
 * It is whole, on @node, or (@node < 0) made of base pages: the next split_notes_know() says
 * so. Not remembered without memory.
 */
void split_notes_learn(struct split_notes *notes, int64_t chunk, int node);
/*
 * [from, to), in one huge page that is there as a whole, is all zero: note it. 0; 1 where all
 * of the huge page is noted by now; -ENOMEM.
 */
int split_notes_add(struct split_notes *notes, struct split_queues *queues,
		    struct page_space *space, int64_t from, int64_t to);
/*
 * [from, to) has gone, or, if @why is SPLIT_END_REFILLED, is not zero any more. A huge page
 * without notes leaves its queue. Of what goes in part the rest is to be split by the caller.
 */
void split_notes_drop(struct split_notes *notes, struct split_queues *queues, int64_t from,
		      int64_t to, enum split_end why);
/* The first run of noted pages in [from, to), as far as it is in one huge page. */
bool split_notes_next(const struct split_notes *notes, int64_t from, int64_t to,
		      struct region *ret_run);
/*
 * Punch what is noted of the huge page @chunk, which leaves its queue; the pages are reserved
 * ones again. Returns how many were freed (0: it has no notes), or -errno, and then the notes
 * are gone all the same: what could not be punched stays as zeroes.
 */
int64_t split_notes_split(struct split_notes *notes, struct split_queues *queues,
			  struct page_space *space, int64_t chunk, enum split_end why);
/* The same for all of the file. */
int64_t split_notes_split_all(struct split_notes *notes, struct split_queues *queues,
			      struct page_space *space, enum split_end why);
