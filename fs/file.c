/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Content of regular files. The exact size is that of the sparse file in names/; the page space
 * and the backing end at the page that the size reaches into. What is behind the end of the
 * file in its last page is zeroed whenever the size changes, since a mapping may have been
 * written to there.
 */
#include "fs/file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/file_sized.h"
#include "fs/mount.h"
#include "fs/owner.h"

#define ZERO_CHUNK     (64 << 10)
#define SIZE_MAX_BYTES ((off_t)1 << 60)

static const char zero_chunk[ZERO_CHUNK];

off_t file_size(struct inode *inode)
{
	struct stat st;

	if (fstat(inode->fd, &st) < 0)
		return -errno;
	return st.st_size;
}

static int set_names_size(struct inode *inode, off_t size)
{
	return owner_truncate(inode->fd, size);
}

/* Zero [from, to) as far as pages are there; both in one page. */
static int zero_in_page(struct page_space *pages, off_t from, off_t to)
{
	const struct backing_ops *ops = pages->file->backing->ops;
	int64_t idx = from / (off_t)pages->file->backing->page_size;
	ssize_t n;

	if (from >= to)
		return 0;
	/* The kernel may have put a page there without a word: a client without userfaultfd. */
	if (!page_is_instantiated(pages, idx) && page_reconcile(pages, idx, false) <= 0)
		return 0;
	for (; from < to; from += n) {
		n = to - from < ZERO_CHUNK ? to - from : ZERO_CHUNK;
		n = ops->write(pages->file, zero_chunk, n, from);
		if (n < 0)
			return (int)n;
	}
	return 0;
}

static off_t page_end(const struct page_space *pages, off_t offset)
{
	off_t page_size = (off_t)pages->file->backing->page_size;

	return (offset + page_size - 1) / page_size * page_size;
}

static int resize_locked(struct mount *mount, struct inode *inode, off_t old, off_t size)
{
	struct page_space *pages;
	int64_t nr_pages = mount_bytes_to_pages(mount, size);
	off_t end = old < size ? old : size;
	int r;

	r = inode_pages(mount, inode, &pages);
	if (r < 0)
		return r;
	r = page_truncate(pages, nr_pages);
	if (r == 0 && nr_pages < mount_bytes_to_pages(mount, old))
		state_unreserve(&mount->state, inode->ino, nr_pages, REGION_END);
	if (r == 0)
		r = zero_in_page(pages, end, page_end(pages, end));
	if (r == 0)
		r = set_names_size(inode, size);
	return r;
}

int file_resize(struct mount *mount, struct inode *inode, off_t size)
{
	off_t old;
	int r;

	if (size < 0)
		return -EINVAL;
	if (size > SIZE_MAX_BYTES)
		return -EFBIG;
	if (mount->backing->reserves_size)
		return file_sized_resize(mount, inode, size);
	rwsem_write_lock(&inode->lock);
	old = file_size(inode);
	r = old < 0 ? (int)old : resize_locked(mount, inode, old, size);
	rwsem_write_unlock(&inode->lock);
	return r;
}

int file_grow(struct mount *mount, struct inode *inode, off_t size)
{
	off_t old;
	int r = 0;

	if (size > SIZE_MAX_BYTES)
		return -EFBIG;
	if (mount->backing->reserves_size)
		return file_sized_grow(mount, inode, size);
	rwsem_write_lock(&inode->lock);
	old = file_size(inode);
	if (old < 0)
		r = (int)old;
	else if (size > old)
		r = resize_locked(mount, inode, old, size);
	rwsem_write_unlock(&inode->lock);
	return r;
}

ssize_t file_read(struct mount *mount, struct inode *inode, void *buf, size_t len, off_t offset)
{
	struct page_space *pages;
	off_t size;
	ssize_t r;

	if (offset < 0)
		return -EINVAL;
	if (mount->backing->reserves_size)
		return file_sized_read(mount, inode, buf, len, offset);
	rwsem_read_lock(&inode->lock);
	size = file_size(inode);
	r = size < 0 ? size : inode_pages(mount, inode, &pages);
	if (r == 0 && offset < size)
		r = pages->file->backing->ops->read(
			pages->file, buf,
			len < (size_t)(size - offset) ? len : (size_t)(size - offset), offset);
	rwsem_read_unlock(&inode->lock);
	return r;
}

/* Write page by page; what was written before an error counts. */
static ssize_t write_pages(struct page_space *pages, const char *buf, size_t len, off_t offset)
{
	off_t page_size = (off_t)pages->file->backing->page_size;
	size_t done = 0, part;
	ssize_t r = 0;

	while (done < len) {
		off_t at = offset + (off_t)done;

		part = (size_t)(page_size - at % page_size);
		if (part > len - done)
			part = len - done;
		r = page_instantiate(pages, at / page_size, POOL_ANY_NODE);
		if (r >= 0)
			r = pages->file->backing->ops->write(pages->file, buf + done, part, at);
		if (r < 0)
			break;
		done += part;
	}
	return done > 0 ? (ssize_t)done : r;
}

/*
 * Reserve the pages that a write of @len bytes needs, as many from the first on as are to be
 * had. Returns the number of bytes that they hold, or -ENOSPC for none.
 */
static ssize_t reserve_write(struct mount *mount, struct page_space *pages, size_t len,
			     off_t offset, struct region_map *added)
{
	off_t page_size = (off_t)pages->file->backing->page_size;
	int64_t from = offset / page_size,
		to = mount_bytes_to_pages(mount, offset + (off_t)len);
	int64_t idx = from, r = 0;
	off_t room;

	while (idx < to && r >= 0) {
		r = page_reserve(pages, idx, idx + 1, added);
		idx += r >= 0;
	}
	if (idx == from)
		return r == -ENOMEM ? -ENOSPC : (ssize_t)r;
	room = idx * page_size - offset;
	return (off_t)len < room ? (ssize_t)len : (ssize_t)room;
}

/* Make the file longer and write; all pages are reserved. */
static ssize_t extend_reserved(struct mount *mount, struct inode *inode,
			       struct page_space *pages, const void *buf, size_t len,
			       off_t offset, off_t size)
{
	off_t end = offset + (off_t)len;
	ssize_t n;
	int r;

	r = page_truncate(pages, mount_bytes_to_pages(mount, end));
	if (r == 0)
		r = zero_in_page(pages, size, page_end(pages, size));
	if (r < 0)
		return r;
	n = write_pages(pages, buf, len, offset);
	end = n > 0 ? offset + n : size;
	if (end > size)
		r = set_names_size(inode, end);
	if (n < (ssize_t)len)
		page_truncate(pages, mount_bytes_to_pages(mount, end > size ? end : size));
	return r < 0 ? r : n;
}

/*
 * A write that makes the file longer; the inode's lock is held for writing. What it needs is
 * reserved before the end is moved: moving it back would take the reservations behind it away
 * from mappings that reach further.
 */
static ssize_t extend_locked(struct mount *mount, struct inode *inode, struct page_space *pages,
			     const void *buf, size_t len, off_t offset, off_t size)
{
	struct region_map added;
	ssize_t n;

	region_map_init(&added, pages->lock);
	n = reserve_write(mount, pages, len, offset, &added);
	if (n > 0)
		n = extend_reserved(mount, inode, pages, buf, (size_t)n, offset, size);
	if (n < 0)
		page_unreserve_map(pages, &added);
	region_map_deinit(&added);
	return n;
}

ssize_t file_write(struct mount *mount, struct inode *inode, const void *buf, size_t len,
		   off_t offset, bool append)
{
	struct page_space *pages;
	off_t size;
	ssize_t n;

	if (offset < 0)
		return -EINVAL;
	if (offset > SIZE_MAX_BYTES || len > SIZE_MAX_BYTES - (size_t)offset)
		return -EFBIG;
	if (mount->backing->reserves_size)
		return file_sized_write(mount, inode, buf, len, offset, append);
	rwsem_write_lock(&inode->lock);
	size = file_size(inode);
	n = size < 0 ? size : inode_pages(mount, inode, &pages);
	if (n < 0 || len == 0) {
		rwsem_write_unlock(&inode->lock);
		return n;
	}
	if (append || offset + (off_t)len > size) {
		n = extend_locked(mount, inode, pages, buf, len, append ? size : offset, size);
	} else {
		/* The size cannot change while the lock is held for reading. */
		rwsem_downgrade(&inode->lock);
		n = write_pages(pages, buf, len, offset);
		rwsem_read_unlock(&inode->lock);
		return n;
	}
	rwsem_write_unlock(&inode->lock);
	return n;
}

/* Call @whole for the run of whole pages in [from, to), and zero what is left of it in others.
 */
static int punch_range(struct page_space *pages, off_t from, off_t to)
{
	off_t page_size = (off_t)pages->file->backing->page_size;
	off_t first = page_end(pages, from), last = to / page_size * page_size;
	int64_t r;

	if (first > last)
		return zero_in_page(pages, from, to);
	r = zero_in_page(pages, from, first);
	if (r == 0)
		r = zero_in_page(pages, last, to);
	if (r == 0 && first < last)
		r = page_punch(pages, first / page_size, last / page_size);
	return (int)(r < 0 ? r : 0);
}

/* Zero the pages of [from, to) that are there, which are few, however long the range is. */
static int zero_range(struct page_space *pages, off_t from, off_t to)
{
	off_t page_size = (off_t)pages->file->backing->page_size, start, end;
	int64_t idx = from / page_size, last = (to - 1) / page_size;
	int r = 0;

	if (from >= to)
		return 0;
	for (; r == 0 && (idx = page_next_instantiated(pages, idx, last + 1)) >= 0; idx++) {
		start = idx * page_size;
		end = start + page_size;
		r = zero_in_page(pages, start > from ? start : from, end < to ? end : to);
	}
	return r;
}

static int instantiate_range(struct page_space *pages, int64_t from, int64_t to)
{
	int r = 0;

	for (int64_t idx = from; idx < to && r >= 0; idx++)
		r = page_instantiate(pages, idx, POOL_ANY_NODE);
	return r < 0 ? r : 0;
}

/*
 * Instantiate [offset, end), and let the file grow to @new_size. All is reserved before
 * anything is taken or the end is moved, so that it fails as a whole.
 */
static int allocate_range(struct mount *mount, struct inode *inode, struct page_space *pages,
			  off_t offset, off_t end, off_t size, off_t new_size)
{
	int64_t from = offset / (off_t)mount->backing->page_size;
	int64_t to = mount_bytes_to_pages(mount, end);
	struct region_map added;
	int64_t r;

	region_map_init(&added, pages->lock);
	r = page_reserve(pages, from, to, &added);
	if (r < 0)
		return r == -ENOMEM ? -ENOSPC : (int)r;
	/* What the kernel has not set aside it may not have. */
	r = mount_has_source(mount) ? pages->file->backing->ops->reserve(pages->file, from, to)
				    : 0;
	if (r == 0 && new_size > size)
		r = resize_locked(mount, inode, size, new_size);
	if (r == 0) {
		r = instantiate_range(pages, from, to);
		if (r < 0 && new_size > size)
			resize_locked(mount, inode, new_size, size);
	}
	if (r < 0)
		page_unreserve_map(pages, &added);
	region_map_deinit(&added);
	return r == -ENOMEM ? -ENOSPC : (int)r;
}

static int fallocate_locked(struct mount *mount, struct inode *inode, int mode, off_t offset,
			    off_t end)
{
	struct page_space *pages;
	off_t size = file_size(inode), new_size = size, last;
	int r;

	if (size < 0)
		return (int)size;
	r = inode_pages(mount, inode, &pages);
	if (r < 0)
		return r;
	last = page_end(pages, size);
	if (mode & FALLOC_FL_PUNCH_HOLE)
		return offset < last ? punch_range(pages, offset, end < last ? end : last) : 0;
	if (end > size && !(mode & FALLOC_FL_KEEP_SIZE))
		new_size = end;
	else if (end > last)
		end = last; /* there are no pages behind the end to instantiate */
	if (mode & FALLOC_FL_ZERO_RANGE)
		r = zero_range(pages, offset, end < last ? end : last);
	if (r == 0 && offset < end)
		r = allocate_range(mount, inode, pages, offset, end, size, new_size);
	return r;
}

int file_fallocate(struct mount *mount, struct inode *inode, int mode, off_t offset, off_t len)
{
	const int known = FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE;
	int r;

	if (offset < 0 || len <= 0)
		return -EINVAL;
	if (mode & ~known || (mode & FALLOC_FL_PUNCH_HOLE && mode & FALLOC_FL_ZERO_RANGE) ||
	    (mode & FALLOC_FL_PUNCH_HOLE && !(mode & FALLOC_FL_KEEP_SIZE)))
		return -EOPNOTSUPP;
	if (offset > SIZE_MAX_BYTES || len > SIZE_MAX_BYTES - offset)
		return -EFBIG;
	if (mount->backing->reserves_size)
		return file_sized_fallocate(mount, inode, mode, offset, len);
	rwsem_write_lock(&inode->lock);
	r = fallocate_locked(mount, inode, mode, offset, offset + len);
	rwsem_write_unlock(&inode->lock);
	return r;
}

off_t file_seek(struct mount *mount, struct inode *inode, off_t offset, int whence)
{
	off_t page_size = (off_t)mount->backing->page_size, size, at;
	struct page_space *pages;
	int64_t idx;
	int r;

	if (whence != SEEK_DATA && whence != SEEK_HOLE)
		return -EINVAL;
	if (mount->backing->reserves_size)
		return file_sized_seek(mount, inode, offset, whence);
	rwsem_read_lock(&inode->lock);
	size = file_size(inode);
	r = inode_pages(mount, inode, &pages);
	rwsem_read_unlock(&inode->lock);
	if (r < 0)
		return r;
	if (offset < 0 || offset >= size)
		return -ENXIO;
	if (whence == SEEK_DATA)
		idx = page_next_instantiated(pages, offset / page_size,
					     mount_bytes_to_pages(mount, size));
	else
		idx = page_next_hole(pages, offset / page_size);
	if (idx < 0)
		return -ENXIO;
	at = idx * page_size;
	if (at < offset)
		at = offset;
	return whence == SEEK_HOLE && at > size ? size : at;
}

int64_t file_reserve(struct mount *mount, struct inode *inode, off_t offset, off_t len)
{
	off_t page_size = (off_t)mount->backing->page_size;
	struct page_space *pages;
	struct region_map added;
	int64_t from, to, nr;
	int r;

	if (offset < 0 || len <= 0 || offset > SIZE_MAX_BYTES || len > SIZE_MAX_BYTES - offset)
		return -EINVAL;
	if (mount->backing->reserves_size)
		return file_sized_reserve(mount, inode, offset, len);
	from = offset / page_size;
	to = mount_bytes_to_pages(mount, offset + len);
	rwsem_write_lock(&inode->lock);
	r = inode_pages(mount, inode, &pages);
	if (r < 0) {
		rwsem_write_unlock(&inode->lock);
		return r;
	}
	region_map_init(&added, pages->lock);
	nr = backing_can_reserve(mount->backing,
				 to - from - region_map_count(&pages->resv, from, to));
	if (nr >= 0)
		nr = page_reserve(pages, from, to, &added);
	if (nr >= 0) {
		r = state_reserve(&mount->state, inode->ino, from, to);
		if (r == 0)
			r = pages->file->backing->ops->reserve(pages->file, from, to);
		if (r < 0) {
			page_unreserve_map(pages, &added);
			nr = r;
		}
	}
	if (nr >= 0)
		inode->reserved = true;
	rwsem_write_unlock(&inode->lock);
	region_map_deinit(&added);
	return nr;
}
