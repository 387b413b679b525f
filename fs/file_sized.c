/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Content of files that are reserved as far as they are long. The tmpfs does what it does for
 * any file; here is what comes before (reserving, taking room from the reserve) and after
 * (counting, giving room back). A file's own lock is held for writing by what changes its size
 * or frees pages, so that the counters follow in the same order.
 */
#include "fs/file_sized.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <string.h>
#include <unistd.h>

#include "fs/backing_thp.h"
#include "fs/file.h"
#include "fs/log.h"
#include "fs/mount.h"

/* What is free, but for what files have reserved: that has to have room in the tmpfs. */
static int64_t set_aside(void *data)
{
	struct mount *mount = data;
	int64_t resv = subpool_read_tree_resv(&mount->core.subpool);
	struct pool_counts pool;

	pool_read(&mount->core.pool, &pool);
	return pool.free - (pool.resv - resv);
}

int file_sized_set_aside(struct mount *mount)
{
	return backing_thp_set_reserve(mount->backing, set_aside, mount);
}

void file_sized_balance(struct mount *mount)
{
	static bool logged;
	int r = file_sized_set_aside(mount);

	if (r < 0)
		log_warning_once(&logged,
				 "the memory of freed pages was taken by somebody else: %s",
				 strerror(-r));
	split_check_pressure(mount);
}

static int64_t unit_floor(const struct page_space *pages, off_t offset)
{
	return offset / (off_t)pages->file->backing->page_size;
}

static int64_t unit_ceil(const struct page_space *pages, off_t offset)
{
	off_t page_size = (off_t)pages->file->backing->page_size;

	return offset / page_size + (offset % page_size != 0);
}

/* Reserve the pages of [from, to) as a whole; -ENOSPC. What is new goes to @added. */
static int reserve(struct mount *mount, struct page_space *pages, int64_t from, int64_t to,
		   struct region_map *added)
{
	int64_t r = from < to ? page_reserve(pages, from, to, added) : 0;

	if (r > 0)
		file_sized_balance(mount);
	if (r == -ENOMEM)
		split_note_refused(mount, pages->subpool);
	return r == -ENOMEM ? -ENOSPC : (int)(r < 0 ? r : 0);
}

static void unreserve(struct mount *mount, struct page_space *pages, struct region_map *added)
{
	page_unreserve_map(pages, added);
	file_sized_balance(mount);
}

static void set_end(struct page_space *pages, int64_t nr_pages)
{
	rwsem_write_lock(pages->lock);
	pages->nr_pages = nr_pages;
	rwsem_write_unlock(pages->lock);
}

/*
 * Huge pages that were filled up by and by are made of base pages: put those together that have
 * become whole between @old and @now.
 */
static void collapse_filled(struct page_space *pages, int64_t old, int64_t now)
{
	int64_t chunk = pages->chunk, first = old / chunk * chunk;

	/* Only the first one can have been there in part. */
	if (old != first && now >= first + chunk)
		backing_thp_collapse(pages->file, first);
}

static int set_size(struct page_space *pages, off_t size)
{
	return ftruncate(backing_thp_fd(pages->file), size) < 0 ? -errno : 0;
}

static int shrink_locked(struct mount *mount, struct inode *inode, struct page_space *pages,
			 off_t size)
{
	int64_t nr_pages = unit_ceil(pages, size);
	int r;

	r = set_size(pages, size);
	if (r == 0)
		r = page_forget(pages, nr_pages, REGION_END);
	set_end(pages, nr_pages);
	split_cut_locked(mount, inode, pages, nr_pages);
	file_sized_balance(mount);
	return r;
}

static int extend_reserved(struct page_space *pages, off_t old, off_t size)
{
	int64_t from = unit_floor(pages, old), to = unit_ceil(pages, size);
	int r;

	/* The size first: a huge page is only made inside the file. */
	r = set_size(pages, size);
	if (r < 0)
		return r;
	r = page_run_populate(pages, from, to);
	if (r < 0) {
		set_size(pages, old);
		page_run_absent(pages, unit_ceil(pages, old), to);
		return r == -ENOMEM ? -ENOSPC : r;
	}
	set_end(pages, to);
	collapse_filled(pages, unit_ceil(pages, old), to);
	return 0;
}

static int extend_locked(struct mount *mount, struct page_space *pages, off_t old, off_t size)
{
	struct region_map added;
	int r;

	region_map_init(&added, pages->lock);
	r = reserve(mount, pages, unit_floor(pages, old), unit_ceil(pages, size), &added);
	if (r == 0) {
		r = extend_reserved(pages, old, size);
		if (r < 0)
			unreserve(mount, pages, &added);
	}
	region_map_deinit(&added);
	return r;
}

/* What no size= could hold is not for want of room. */
static bool is_too_long(off_t size)
{
	return size / sysconf(_SC_PAGESIZE) > sysconf(_SC_PHYS_PAGES);
}

static int resize(struct mount *mount, struct inode *inode, off_t size, bool only_grow)
{
	struct page_space *pages;
	off_t old;
	int r;

	if (is_too_long(size))
		return -EFBIG;
	rwsem_write_lock(&inode->lock);
	r = inode_pages(mount, inode, &pages);
	old = r < 0 ? r : file_size(inode);
	if (old < 0)
		r = (int)old;
	else if (size > old)
		r = extend_locked(mount, pages, old, size);
	else if (!only_grow)
		r = shrink_locked(mount, inode, pages,
				  size); /* the same size frees what is behind */
	split_check_pressure(mount);
	rwsem_write_unlock(&inode->lock);
	return r;
}

int file_sized_resize(struct mount *mount, struct inode *inode, off_t size)
{
	return resize(mount, inode, size, false);
}

int file_sized_grow(struct mount *mount, struct inode *inode, off_t size)
{
	return resize(mount, inode, size, true);
}

ssize_t file_sized_read(struct mount *mount, struct inode *inode, void *buf, size_t len,
			off_t offset)
{
	struct page_space *pages;
	int r = inode_pages(mount, inode, &pages);

	return r < 0 ? r : pages->file->backing->ops->read(pages->file, buf, len, offset);
}

/*
 * Reserve what a write of @len bytes needs, as many pages from the first on as are to be had.
 * Returns the number of bytes that they hold, or -ENOSPC for none.
 */
static ssize_t reserve_write(struct mount *mount, struct page_space *pages, size_t len,
			     off_t offset, struct region_map *added)
{
	int64_t from = unit_floor(pages, offset), to = unit_ceil(pages, offset + (off_t)len);
	int64_t idx = from, step = to - from;
	off_t room;
	int r = 0;

	while (idx < to && step > 0) {
		if (step > to - idx)
			step = to - idx;
		r = reserve(mount, pages, idx, idx + step, added);
		if (r == 0)
			idx += step;
		else if (r == -ENOSPC)
			step /= 2;
		else
			break;
	}
	if (idx == from)
		return r;
	room = idx * (off_t)pages->file->backing->page_size - offset;
	return (off_t)len < room ? (ssize_t)len : (ssize_t)room;
}

/*
 * A file that is written to its end bit by bit gets a huge page as soon as it comes to one, not
 * base pages: what is behind the end is given back when nobody writes any more. @end is behind
 * what is about to be written. Not an error where there is not so much.
 */
static void allocate_ahead(struct mount *mount, struct inode *inode, struct page_space *pages,
			   off_t size, off_t end)
{
	int64_t from = unit_ceil(pages, size), to = unit_ceil(pages, end);
	int64_t first = to / pages->chunk * pages->chunk, last = first + pages->chunk;
	struct region_map added;

	/* It must begin in here, and not be the only one of what may stay a small file. */
	if (first < from || first == to || (first == 0 && to < pages->chunk / 4))
		return;
	region_map_init(&added, pages->lock);
	if (reserve(mount, pages, first, last, &added) == 0) {
		if (page_run_populate(pages, first, last) == 0)
			inode->ahead_end = last;
		else
			unreserve(mount, pages, &added);
	}
	region_map_deinit(&added);
}

static ssize_t write_locked(struct mount *mount, struct inode *inode, struct page_space *pages,
			    const void *buf, size_t len, off_t offset, off_t size)
{
	struct region_map added;
	ssize_t n;
	off_t end;
	int r;

	if (offset + (off_t)len > size)
		allocate_ahead(mount, inode, pages, size, offset + (off_t)len);

	region_map_init(&added, pages->lock);
	n = reserve_write(mount, pages, len, offset, &added);
	if (n > 0)
		n = pages->file->backing->ops->write(pages->file, buf, (size_t)n, offset);
	end = n > 0 ? offset + n : size;
	if (n == -ENOSPC || n == -ENOMEM)
		mount->core.nr_short += unit_ceil(pages, (off_t)len) + 1;
	if (n > 0) {
		split_written_locked(mount, inode, unit_floor(pages, offset),
				     unit_ceil(pages, end));
		r = page_run_present(pages, unit_floor(pages, offset), unit_ceil(pages, end));
		if (r < 0)
			n = r;
	}
	if (n < 0) {
		unreserve(mount, pages, &added);
	} else if (end > size) {
		set_end(pages, unit_ceil(pages, end));
		collapse_filled(pages, unit_ceil(pages, size), unit_ceil(pages, end));
	}
	region_map_deinit(&added);
	return n;
}

/* A write behind the end: what is between is part of the file, and reserved like it. */
static int fill_gap_locked(struct mount *mount, struct page_space *pages, off_t *size,
			   off_t offset)
{
	int r = 0;

	if (offset > *size) {
		r = extend_locked(mount, pages, *size, offset);
		if (r == 0)
			*size = offset;
	}
	return r;
}

ssize_t file_sized_write(struct mount *mount, struct inode *inode, const void *buf, size_t len,
			 off_t offset, bool append)
{
	struct page_space *pages;
	off_t size, before;
	ssize_t n;

	rwsem_write_lock(&inode->lock);
	size = file_size(inode);
	n = size < 0 ? size : inode_pages(mount, inode, &pages);
	if (n < 0 || len == 0)
		goto out_unlock;
	before = size;
	if (append)
		offset = size;
	n = fill_gap_locked(mount, pages, &size, offset);
	if (n == 0)
		n = write_locked(mount, inode, pages, buf, len, offset, size);
	if (n < 0 && size > before)
		shrink_locked(mount, inode, pages, before);
	split_check_pressure(mount);
out_unlock:
	rwsem_write_unlock(&inode->lock);
	return n;
}

void file_sized_trim(struct mount *mount, struct inode *inode)
{
	struct page_space *pages;
	int64_t end;
	off_t size;

	if (!inode->ahead_end)
		return;
	rwsem_write_lock(&inode->lock);
	size = file_size(inode);
	if (inode->ahead_end && size >= 0 && inode_pages(mount, inode, &pages) == 0) {
		end = unit_ceil(pages, size);
		if (end < inode->ahead_end &&
		    pages->file->backing->ops->punch(pages->file, end, inode->ahead_end) == 0)
			page_forget(pages, end, inode->ahead_end);
	}
	inode->ahead_end = 0;
	rwsem_write_unlock(&inode->lock);
	file_sized_balance(mount);
}

static int allocate_locked(struct mount *mount, struct inode *inode, struct page_space *pages,
			   off_t offset, off_t end, off_t size, bool keep_size)
{
	int64_t from = unit_floor(pages, offset), to = unit_ceil(pages, end);
	struct region_map added;
	int r;

	if (!keep_size && end > size && offset > size)
		from = unit_floor(pages, size);
	region_map_init(&added, pages->lock);
	r = reserve(mount, pages, from, to, &added);
	if (r == 0) {
		r = !keep_size && end > size ? extend_reserved(pages, size, end)
					     : page_run_populate(pages, from, to);
		if (r == 0 && !keep_size && end > size)
			r = page_run_populate(pages, from, to);
		if (r < 0)
			unreserve(mount, pages, &added);
		else
			split_written_locked(mount, inode, from, to); /* they are to stay */
	}
	region_map_deinit(&added);
	return r;
}

int file_sized_fallocate(struct mount *mount, struct inode *inode, int mode, off_t offset,
			 off_t len)
{
	bool keep_size = mode & FALLOC_FL_KEEP_SIZE;
	struct page_space *pages;
	off_t size, end = offset + len;
	int r;

	rwsem_write_lock(&inode->lock);
	size = file_size(inode);
	r = size < 0 ? (int)size : inode_pages(mount, inode, &pages);
	inode->ahead_end =
		0; /* whatever is behind the end is what was asked for, from now on */
	if (r == 0 && mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE))
		r = file_sized_punch_locked(mount, inode, pages, mode, offset, end, size);
	if (r == 0 && !(mode & FALLOC_FL_PUNCH_HOLE))
		r = allocate_locked(mount, inode, pages, offset, end, size, keep_size);
	split_check_pressure(mount);
	rwsem_write_unlock(&inode->lock);
	return r;
}

off_t file_sized_seek(struct mount *mount, struct inode *inode, off_t offset, int whence)
{
	struct page_space *pages;
	off_t at;
	int r = inode_pages(mount, inode, &pages);

	if (r < 0)
		return r;
	if (inode->split.nr_noted > 0)
		return split_seek(inode, pages, offset, whence);
	at = lseek(backing_thp_fd(pages->file), offset, whence);
	return at < 0 ? -errno : at;
}

int64_t file_sized_reserve(struct mount *mount, struct inode *inode, off_t offset, off_t len)
{
	struct page_space_counts before = {0}, after = {0};
	struct page_space *pages;
	off_t size;
	int r;

	rwsem_write_lock(&inode->lock);
	size = file_size(inode);
	r = size < 0 ? (int)size : inode_pages(mount, inode, &pages);
	if (r == 0) {
		page_space_read(pages, &before);
		r = allocate_locked(mount, inode, pages, offset, offset + len, size, true);
		page_space_read(pages, &after);
	}
	rwsem_write_unlock(&inode->lock);
	if (r < 0)
		return r == -ENOSPC ? -ENOMEM : r;
	return after.resv + after.instantiated - before.resv - before.instantiated;
}

/* Count the pages of [from, to) one by one. */
static void reconcile_run(struct page_space *pages, int64_t from, int64_t to)
{
	const struct backing_ops *ops = pages->file->backing->ops;
	int present;

	for (int64_t idx = from; idx < to; idx++) {
		present = ops->present(pages->file, idx);
		if (present > 0)
			page_run_present(pages, idx, idx + 1);
		else if (present == 0)
			page_run_absent(pages, idx, idx + 1);
	}
}

void file_sized_reconcile(struct page_space *pages)
{
	struct page_space_counts counts;
	struct region region = {0, 0};
	int64_t nr = pages->file->backing->ops->count(pages->file);
	bool more;

	page_space_read(pages, &counts);
	if (nr < 0 || nr == counts.instantiated)
		return;
	for (;;) {
		int64_t resv, instantiated, end;

		rwsem_read_lock(pages->lock);
		more = region_map_next_locked(&pages->resv, region.to, &region);
		rwsem_read_unlock(pages->lock);
		if (!more)
			break;
		for (int64_t from = region.from; from < region.to; from = end) {
			end = (from / pages->chunk + 1) * pages->chunk;
			if (end > region.to)
				end = region.to;
			page_space_count(pages, from, end, &resv, &instantiated);
			nr = backing_thp_count(pages->file, from, end);
			if (nr == end - from)
				page_run_present(pages, from, end);
			else if (nr == 0)
				page_run_absent(pages, from, end);
			else if (nr > 0 && nr != instantiated)
				reconcile_run(pages, from, end);
		}
	}
}
