/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Punching holes into files that are reserved as far as they are long: at once, or noted. */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>

#include "fs/backing_thp.h"
#include "fs/file_sized.h"
#include "fs/mount.h"

static int64_t unit_floor(const struct page_space *pages, off_t offset)
{
	return offset / (off_t)pages->file->backing->page_size;
}

static int64_t unit_ceil(const struct page_space *pages, off_t offset)
{
	off_t page_size = (off_t)pages->file->backing->page_size;

	return offset / page_size + (offset % page_size != 0);
}

int file_sized_punch(struct page_space *pages, off_t offset, off_t end, off_t size)
{
	int64_t from = unit_ceil(pages, offset), to = unit_floor(pages, end);
	int64_t behind = unit_ceil(pages, size);
	int r;

	do
		r = fallocate(backing_thp_fd(pages->file),
			      FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, end - offset);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	/* Inside the file they are reserved again; behind its end they are nothing any more. */
	r = page_run_absent(pages, from, to < behind ? to : behind);
	if (r == 0 && to > behind)
		r = page_forget(pages, from > behind ? from : behind, to);
	return r;
}

int file_sized_punch_locked(struct mount *mount, struct inode *inode, struct page_space *pages,
			    int mode, off_t offset, off_t end, off_t size)
{
	int r;

	if (mode & FALLOC_FL_PUNCH_HOLE && split_may_note_locked(mount, inode, pages)) {
		r = split_punch_locked(mount, inode, pages, offset, end, size);
	} else {
		split_emptied_locked(mount, inode, pages, unit_floor(pages, offset),
				     unit_ceil(pages, end));
		r = file_sized_punch(pages, offset, end, size);
	}
	file_sized_balance(mount);
	return r;
}
