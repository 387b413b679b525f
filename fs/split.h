/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Deferred split: a hole that covers part of a huge page is zeroed and noted, and the page
 * stays whole, until memory is short. Then the shrinker splits it: what is noted is punched.
 *
 * Between the look at a page and its punching nobody may store into it, and the daemon sees no
 * store through a shared mapping. So a hole is noted only in files of which it sees all stores
 * (inode->all_stores_seen): nobody has one open for reading and writing through FUSE
 * passthrough, or its descriptor from the daemon, nor a mapping left from that. An open for
 * writing alone cannot be mapped, and its writes come to the daemon. Whether that was so before
 * is proved by a lease (backing_thp_is_alone()); from then on each open is seen. Before
 * somebody gets a way to store unseen, all that is noted is punched: the note is true as long
 * as it is there.
 *
 * For what is promised nothing changes: with backing=thp a punched page stays reserved for its
 * file, so that a noted one keeps nobody from a page that he could have had.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "fs/inode.h"
#include "fs/options.h"
#include "fs/split_queue.h"

/* Of a mount. */
struct split {
	struct split_queues queues;
	unsigned int low_percent, high_percent; /* set at init; free pages of a node */
	struct waitqueue pressure; /* woken when there is something to shrink for */
};

/* Nothing is deferred unless @is_thp. */
void split_init(struct split *split, const struct mount_options *options, bool is_thp);
void split_deinit(struct split *split);

/* ---- of a file, whose lock is held for writing ---- */

/*
 * The file is about to be opened through passthrough, or its descriptor is handed out, with
 * @access_mode; @first: it is not open otherwise.
 */
void split_open_locked(struct mount *mount, struct inode *inode, struct page_space *pages,
		       int access_mode, bool first);
/* Whether holes may be noted in it. */
bool split_may_note_locked(struct mount *mount, struct inode *inode, struct page_space *pages);
/*
 * Punch the bytes [offset, end) of a file of @size bytes, or note it where it covers part of a
 * huge page. 0 or -errno.
 */
int split_punch_locked(struct mount *mount, struct inode *inode, struct page_space *pages,
		       off_t offset, off_t end, off_t size);
/* The pages [from, to) are not all zero any more, or are to stay. */
void split_written_locked(struct mount *mount, struct inode *inode, int64_t from, int64_t to);
/* [from, to) is about to be punched at once. */
void split_emptied_locked(struct mount *mount, struct inode *inode, struct page_space *pages,
			  int64_t from, int64_t to);
/* The file has been cut to @nr_pages. */
void split_cut_locked(struct mount *mount, struct inode *inode, struct page_space *pages,
		      int64_t nr_pages);

/* Nobody can reach it any more. */
void split_forget(struct mount *mount, struct inode *inode);
/* lseek(2) with SEEK_DATA and SEEK_HOLE: what is noted is a hole. Takes the lock. */
off_t split_seek(struct inode *inode, struct page_space *pages, off_t offset, int whence);

/* ---- the shrinker (fs/split_shrink.c); without locks, but where it is said ---- */

/*
 * Split until @nr_pages were freed, or nothing is queued: of @node, or of the files of one
 * tenant's @subpool, which are in @set. How far others are spared depends on split_queue=.
 * Returns how many pages were freed.
 */
int64_t split_shrink_node(struct mount *mount, int node, int64_t nr_pages);
int64_t split_shrink_tenant(struct mount *mount, struct split_set *set,
			    const struct subpool *subpool, int64_t nr_pages);
/*
 * Bring the pool, and every node's memory, to the high mark where it is below the low one, and
 * relieve every tenant that was refused pages. Returns how many pages were freed.
 */
int64_t split_relieve(struct mount *mount);
/* The backing had no memory for what was reserved: free as much. Whether anything was. */
bool split_relieve_shortage(struct mount *mount);

/* Have the shrinker called if a node is below its low mark. Under any lock up to a file's. */
void split_check_pressure(struct mount *mount);
/* A file of @subpool was refused pages. */
void split_note_refused(struct mount *mount, const struct subpool *subpool);
