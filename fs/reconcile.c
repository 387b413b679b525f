/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reconcile. Pages that have gone are looked for before pages that have come, which may need
 * the reservation or the free page that the others give.
 */
#include "fs/reconcile.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/vfs.h>

#include "fs/backing_thp.h"
#include "fs/client.h"
#include "fs/clock.h"
#include "fs/control.h"
#include "fs/file_sized.h"
#include "fs/pagemap.h"

/*
 * What is counted and what is reserved is no more than the pool, and is looked at one by one.
 * Holes are looked at in turns, this many at a time: a file is as long as its user likes.
 */
#define PROBES_MAX       8192
#define ADOPT_PROBES_MAX (1 << 20)

#define STAT_BLOCK_SIZE 512 /* of st_blocks */

#define FREEING_NS 100000000ULL
#define LET_GO_NS  20000000ULL

/* Pages that are counted, and have gone. */
static void find_gone(struct page_space *space, int64_t from, int64_t to, bool keep_reserved)
{
	int64_t idx;

	for (; (idx = page_next_instantiated(space, from, to)) >= 0; from = idx + 1)
		page_reconcile(space, idx, keep_reserved);
}

/* Pages that have come to where they were reserved, @nr at most. Returns how many. */
static int64_t find_reserved(struct page_space *space, int64_t from, int64_t to, int64_t nr,
			     bool keep_reserved)
{
	int64_t idx, found = 0;

	for (; found < nr && (idx = page_next_reserved(space, from, to)) >= 0; from = idx + 1)
		found += page_reconcile(space, idx, keep_reserved) > 0;
	return found;
}

/*
 * Pages that have come into holes, @nr at most. Looks at *@probes holes at most, and goes on
 * from *@cursor, where the last look ended.
 */
static void find_in_holes(struct page_space *space, int64_t from, int64_t to, int64_t nr,
			  _Atomic int64_t *cursor, int64_t *probes, bool keep_reserved)
{
	int64_t start = *cursor, idx, end = to;

	if (start < from || start >= to)
		start = from;
	for (idx = start; nr > 0 && *probes > 0;) {
		int64_t hole = page_next_hole(space, idx);

		if (hole >= end) {
			if (end == start || start == from)
				break;
			idx = from; /* round to where it began */
			end = start;
			continue;
		}
		nr -= page_reconcile(space, hole, keep_reserved) > 0;
		--*probes;
		idx = hole + 1;
	}
	*cursor = idx;
}

static void reconcile_file(struct inode *inode, int64_t *probes)
{
	struct page_space *pages = inode->pages;
	struct page_space_counts counts;
	int64_t nr, nr_pages;

	if (!pages)
		return;
	if (pages->file->backing->reserves_size) {
		file_sized_reconcile(pages);
		return;
	}
	if (!inode->was_mapped)
		return; /* all that happened to it was by us */
	nr = pages->file->backing->ops->count(pages->file);
	page_space_read(pages, &counts);
	/* What is being populated at this moment is counted already, and may or may not be
	 * there. */
	if (nr < 0 ||
	    (nr <= counts.instantiated && nr >= counts.instantiated - counts.populating))
		return;
	rwsem_read_lock(pages->lock);
	nr_pages = pages->nr_pages;
	rwsem_read_unlock(pages->lock);
	find_gone(pages, 0, nr_pages, false);
	page_space_read(pages, &counts);
	nr -= counts.instantiated;
	nr -= find_reserved(pages, 0, nr_pages, nr, false);
	find_in_holes(pages, 0, nr_pages, nr, &inode->reconcile_at, probes, false);
}

void reconcile_inode(struct mount *mount, struct inode *inode)
{
	int64_t probes = PROBES_MAX;

	reconcile_file(inode, &probes);
}

void reconcile_look(struct mount *mount, struct inode *inode, const struct stat *st)
{
	struct page_space_counts counts;
	int64_t probes = PROBES_MAX;

	if (mount->is_thp) { /* where the pages are in names/ */
		page_space_read(inode->pages, &counts);
		if (st->st_blocks == counts.instantiated * (int64_t)(mount->backing->page_size /
								     STAT_BLOCK_SIZE))
			return;
	}
	reconcile_file(inode, &probes);
}

/*
 * Whether a private mapping's memory has just the pages in @segment that are counted, by one
 * system call. What is not sure is false.
 */
static bool is_as_counted(struct mapping *mapping, const struct segment *segment)
{
	uint64_t page_size = mapping->mount->backing->page_size;
	int64_t to = segment->idx + (int64_t)((segment->end - segment->start) / page_size);
	int64_t idx = segment->idx, first, last;
	struct pagemap_range ranges[32];
	int fd = client_pagemap(mapping->client), nr = -1;

	/* Of a forked child's pages not all are its own. */
	if (fd >= 0 && !mapping->forked)
		nr = pagemap_anonymous(fd, segment->start, segment->end, ranges, 32);
	for (int i = 0; i < nr; i++, idx = last) {
		first = segment->idx +
			(int64_t)((ranges[i].start - segment->start) / page_size);
		last = segment->idx + (int64_t)((ranges[i].end - segment->start) / page_size);
		if (page_next_instantiated(mapping->space, idx, to) != first ||
		    page_next_hole(mapping->space, first) < last)
			return false;
	}
	return nr >= 0 && page_next_instantiated(mapping->space, idx, to) < 0;
}

static void reconcile_private(struct mapping *mapping, int64_t *probes)
{
	uint64_t page_size = mapping->mount->backing->page_size;
	bool keep = mapping_keeps_reservation(mapping);
	struct page_space *space = mapping->space;
	struct segment *segments;
	int nr;

	if (!mapping_has_own_pages(mapping) || !mapping->client)
		return;
	nr = mapping_segments(mapping, &segments);
	for (int i = 0; i < nr; i++) {
		if (is_as_counted(mapping, &segments[i]))
			segments[i--] = segments[--nr];
	}
	for (int pass = 0; pass < 2; pass++) {
		for (int i = 0; i < nr; i++) {
			int64_t from = segments[i].idx;
			int64_t to = from + (int64_t)((segments[i].end - segments[i].start) /
						      page_size);

			if (pass == 0) {
				find_gone(space, from, to, keep);
			} else {
				find_reserved(space, from, to, INT64_MAX, keep);
				find_in_holes(space, from, to, INT64_MAX,
					      &mapping->reconcile_at, probes, keep);
			}
		}
	}
	if (nr >= 0)
		free(segments);
}

void reconcile_mapping(struct mapping *mapping)
{
	int64_t probes = ADOPT_PROBES_MAX;

	reconcile_private(mapping, &probes);
}

static int visit_inode(struct mount *mount, struct inode *inode, void *data)
{
	reconcile_file(inode, data);
	return 0;
}

static int visit_mapping(struct mapping *mapping, void *data)
{
	reconcile_private(mapping, data);
	return 0;
}

void reconcile_private_mappings(struct mount *mount)
{
	int64_t probes = PROBES_MAX;

	control_for_each_mapping(mount->control, visit_mapping, &probes);
}

void reconcile_mount(struct mount *mount)
{
	int64_t probes = PROBES_MAX;

	inode_for_each(mount, visit_inode, &probes);
	reconcile_private_mappings(mount);
}

static int64_t nr_instantiated(struct mount *mount)
{
	struct pool_counts pool;

	pool_read(&mount->core.pool, &pool);
	return pool.nr - pool.free;
}

/*
 * Blocks of the tmpfs that are neither counted pages nor the reserve: those of long symbolic
 * links, and pages that have come or gone without us. -EAGAIN where pages are moving.
 */
static int64_t nr_uncounted(struct mount *mount)
{
	int64_t instantiated = nr_instantiated(mount);
	int64_t reserve = backing_thp_reserved(mount->backing);
	struct statfs st;

	if (fstatfs(mount->names_fd, &st) < 0)
		return -errno;
	if (nr_instantiated(mount) != instantiated ||
	    backing_thp_reserved(mount->backing) != reserve)
		return -EAGAIN;
	return (int64_t)(st.f_blocks - st.f_bfree) - instantiated - reserve;
}

void reconcile_counters(struct mount *mount)
{
	int64_t nr = mount->is_thp ? nr_uncounted(mount) : -EAGAIN;

	/* If as many are not counted as after the last look at all files, they are the same. */
	if (nr >= 0 && nr == mount->uncounted)
		return;
	reconcile_mount(mount);
	if (mount->is_thp)
		mount->uncounted = nr_uncounted(mount);
}

/* A file without a name, held by nothing but descriptors that may be closed already. */
static int visit_closed(struct mount *mount, struct inode *inode, void *data)
{
	struct page_space_counts counts;
	struct page_space *pages = inode->pages;
	struct stat st;

	if (!pages || inode->nr_mappings > 0 || fstat(inode->fd, &st) < 0 || st.st_nlink > 0)
		return 0;
	page_space_read(pages, &counts);
	return counts.resv > 0 || counts.instantiated > 0;
}

static bool is_freeing(struct mount *mount)
{
	/* In this order: what leaves the lists is counted before. */
	return control_has_exited_client(mount->control) ||
	       inode_for_each(mount, visit_closed, NULL) > 0 || mount->inodes.nr_freeing > 0 ||
	       (mount->has_orphans && orphans_are_new(&mount->orphans, LET_GO_NS));
}

bool reconcile_or_wait(struct mount *mount, int64_t error)
{
	uint64_t now = clock_now_ns(), until = now + FREEING_NS;
	uint32_t count = waitqueue_read(&mount->core.pool.freed);

	if (!reconcile_may_help(mount, error))
		return false;
	for (; now < until && is_freeing(mount); now = clock_now_ns()) {
		waitqueue_wait(&mount->core.pool.freed, count, until - now);
		count = waitqueue_read(&mount->core.pool.freed);
	}
	return true;
}

bool reconcile_may_help(struct mount *mount, int64_t error)
{
	if (error != -ENOSPC && error != -ENOMEM)
		return false;
	control_expire_tokens(mount->control);
	mount_pages_freed(mount);
	reconcile_mount(mount);
	split_relieve_shortage(mount);
	return true;
}
