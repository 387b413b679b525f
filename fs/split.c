/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Deferred split, as far as one file is concerned. */
#include "fs/split.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "fs/backing_thp.h"
#include "fs/file_sized.h"
#include "fs/mount.h"
#include "fs/mount_thp.h"
#include "fs/numa_policy.h"

#define PAGE_BYTES ((off_t)THP_PAGE_SIZE)
#define HUGE_BYTES (SPLIT_CHUNK * PAGE_BYTES)
#define ZERO_BYTES ((off_t)64 << 10)

void split_init(struct split *split, const struct mount_options *options, bool is_thp)
{
	/* The pool of such a mount knows no nodes, but its pages are on some. */
	split_queues_init(&split->queues, is_thp ? options->split_queue : SPLIT_OFF,
			  numa_policy_nr_nodes());
	split->low_percent = options->split_low;
	split->high_percent = options->split_high;
}

void split_deinit(struct split *split)
{
	split_queues_deinit(&split->queues);
}

static struct split_queues *queues_of(struct mount *mount)
{
	return &mount->split.queues;
}

static bool is_on(const struct mount *mount)
{
	return mount->split.queues.mode != SPLIT_OFF;
}

void split_open_locked(struct mount *mount, struct inode *inode, struct page_space *pages,
		       int access_mode, bool first)
{
	if (!is_on(mount))
		return;
	rwsem_assert_write_held(&inode->lock);
	if (first && !inode->all_stores_seen)
		inode->all_stores_seen = backing_thp_is_alone(pages->file);
	if (access_mode == O_RDONLY || access_mode == O_WRONLY)
		return;
	inode->all_stores_seen = false;
	if (split_notes_split_all(&inode->split, queues_of(mount), pages, SPLIT_END_SETTLED) >
	    0)
		file_sized_balance(mount);
}

bool split_may_note_locked(struct mount *mount, struct inode *inode, struct page_space *pages)
{
	if (!is_on(mount))
		return false;
	rwsem_assert_write_held(&inode->lock);
	/* Only who got a descriptor from us can map it, and may have given it up. */
	if (!mount->has_passthrough && !inode->all_stores_seen)
		inode->all_stores_seen = backing_thp_is_alone(pages->file);
	return inode->all_stores_seen;
}

/* ---- punching ---- */

static int zero(struct page_space *pages, off_t from, off_t to)
{
	static const char zeroes[ZERO_BYTES];
	ssize_t n;

	for (; from < to; from += n) {
		n = to - from < ZERO_BYTES ? to - from : ZERO_BYTES;
		n = pages->file->backing->ops->write(pages->file, zeroes, (size_t)n, from);
		if (n < 0)
			return (int)n;
	}
	return 0;
}

/* Whether the huge page @chunk is one, and the file has all of it. */
static bool is_whole(struct inode *inode, struct page_space *pages, int64_t chunk, off_t size)
{
	const struct backing_ops *ops = pages->file->backing->ops;
	int64_t first = chunk * SPLIT_CHUNK, resv, instantiated;
	enum split_knowledge knowledge;
	int node;

	knowledge = split_notes_know(&inode->split, chunk);
	if (knowledge != SPLIT_UNKNOWN)
		return knowledge == SPLIT_WHOLE;
	if ((chunk + 1) * HUGE_BYTES > size)
		return false;
	page_space_count(pages, first, first + SPLIT_CHUNK, &resv, &instantiated);
	if (instantiated < SPLIT_CHUNK)
		return false;
	node = ops->huge_node ? ops->huge_node(pages->file, first) : page_node(pages, first);
	split_notes_learn(&inode->split, chunk, node);
	return node >= 0;
}

static int punch_chunk(struct mount *mount, struct inode *inode, struct page_space *pages,
		       int64_t chunk, off_t size)
{
	split_notes_drop(&inode->split, queues_of(mount), chunk * SPLIT_CHUNK,
			 (chunk + 1) * SPLIT_CHUNK, SPLIT_END_EMPTIED);
	return file_sized_punch(pages, chunk * HUGE_BYTES, (chunk + 1) * HUGE_BYTES, size);
}

/* Part of a huge page that is whole. */
static int note_part(struct mount *mount, struct inode *inode, struct page_space *pages,
		     off_t from, off_t to, off_t size)
{
	int64_t first = (from + PAGE_BYTES - 1) / PAGE_BYTES, last = to / PAGE_BYTES;
	int r = zero(pages, from, to);

	if (r < 0)
		return r;
	if (first >= last)
		return 0;
	r = split_notes_add(&inode->split, queues_of(mount), pages, first, last);
	if (r == -ENOMEM)
		return file_sized_punch(pages, from, to, size);
	return r == 1 ? punch_chunk(mount, inode, pages, from / HUGE_BYTES, size) : r;
}

/* As many huge pages as [from, end) begins with, or the part of the one that it begins in. */
static off_t end_of_piece(off_t from, off_t end)
{
	off_t next = (from / HUGE_BYTES + 1) * HUGE_BYTES;

	if (from % HUGE_BYTES == 0 && next <= end)
		return end / HUGE_BYTES * HUGE_BYTES;
	return next < end ? next : end;
}

int split_punch_locked(struct mount *mount, struct inode *inode, struct page_space *pages,
		       off_t offset, off_t end, off_t size)
{
	bool is_part, was_empty = !split_queues_hold(queues_of(mount));
	off_t to;
	int r = 0;

	rwsem_assert_write_held(&inode->lock);
	for (off_t from = offset; r == 0 && from < end; from = to) {
		to = end_of_piece(from, end);
		is_part = from % HUGE_BYTES || to % HUGE_BYTES;
		if (is_part && is_whole(inode, pages, from / HUGE_BYTES, size)) {
			r = note_part(mount, inode, pages, from, to, size);
			continue;
		}
		/* Parts of what is not whole have no notes. */
		if (!is_part)
			split_emptied_locked(mount, inode, pages, from / PAGE_BYTES,
					     to / PAGE_BYTES);
		r = file_sized_punch(pages, from, to, size);
	}
	/* The shrinker looks at the machine's memory as long as there is something. */
	if (was_empty && split_queues_hold(queues_of(mount)))
		waitqueue_wake_all(&mount->split.pressure);
	split_check_pressure(mount);
	return r;
}

void split_written_locked(struct mount *mount, struct inode *inode, int64_t from, int64_t to)
{
	if (inode->split.nr > 0)
		split_notes_drop(&inode->split, queues_of(mount), from, to, SPLIT_END_REFILLED);
}

void split_emptied_locked(struct mount *mount, struct inode *inode, struct page_space *pages,
			  int64_t from, int64_t to)
{
	int64_t ends[] = {from / SPLIT_CHUNK, (to - 1) / SPLIT_CHUNK};

	if (inode->split.nr == 0)
		return;
	split_notes_drop(&inode->split, queues_of(mount), from, to, SPLIT_END_EMPTIED);
	/* Those of which a part goes are whole no more. */
	for (int i = 0; i < 2; i++)
		split_notes_split(&inode->split, queues_of(mount), pages, ends[i],
				  SPLIT_END_SETTLED);
}

void split_cut_locked(struct mount *mount, struct inode *inode, struct page_space *pages,
		      int64_t nr_pages)
{
	if (inode->split.nr == 0)
		return;
	split_notes_drop(&inode->split, queues_of(mount), nr_pages, REGION_END, SPLIT_END_CUT);
	/* What the end is in now has been split by the kernel. */
	if (nr_pages % SPLIT_CHUNK)
		split_notes_split(&inode->split, queues_of(mount), pages,
				  nr_pages / SPLIT_CHUNK, SPLIT_END_CUT);
}

void split_forget(struct mount *mount, struct inode *inode)
{
	split_notes_deinit(&inode->split, queues_of(mount));
}

/* ---- lseek ---- */

static off_t seek_data(struct inode *inode, int fd, off_t offset)
{
	struct region run;
	int64_t idx;

	for (;;) {
		offset = lseek(fd, offset, SEEK_DATA);
		if (offset < 0)
			return -errno;
		idx = offset / PAGE_BYTES;
		if (!split_notes_next(&inode->split, idx, idx + SPLIT_CHUNK, &run) ||
		    run.from > idx)
			return offset;
		offset = run.to * PAGE_BYTES;
	}
}

static off_t seek_hole(struct inode *inode, int fd, off_t offset)
{
	off_t end = lseek(fd, offset, SEEK_HOLE), from;
	struct region run;

	if (end < 0)
		return -errno;
	if (!split_notes_next(&inode->split, offset / PAGE_BYTES,
			      (end + PAGE_BYTES - 1) / PAGE_BYTES, &run))
		return end;
	from = run.from * PAGE_BYTES;
	return from > offset ? from : offset;
}

off_t split_seek(struct inode *inode, struct page_space *pages, off_t offset, int whence)
{
	int fd = backing_thp_fd(pages->file);
	off_t at;

	rwsem_read_lock(&inode->lock);
	at = whence == SEEK_DATA ? seek_data(inode, fd, offset) : seek_hole(inode, fd, offset);
	rwsem_read_unlock(&inode->lock);
	return at;
}
