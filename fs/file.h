/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Content of regular files: sizes exact to the byte in names/, whole pages in the backing.
 * Every function takes the inode's lock itself, and may block. Sizes, offsets and lengths in
 * bytes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "fs/inode.h"

/* ftruncate(2): pages behind the new end are freed, the rest of the last page is zeroed. */
int file_resize(struct mount *mount, struct inode *inode, off_t size);
/* Make the file at least @size bytes long (a writable mapping beyond its end does that). */
int file_grow(struct mount *mount, struct inode *inode, off_t size);
off_t file_size(struct inode *inode);

/* Up to @len bytes; fewer at the end of the file. Holes read as zeroes and are not
 * instantiated. */
ssize_t file_read(struct mount *mount, struct inode *inode, void *buf, size_t len,
		  off_t offset);
/*
 * All of @len bytes or as many as there were pages for, -ENOSPC if none. With @append at the
 * end of the file, whatever @offset. Instantiates what it writes to.
 */
ssize_t file_write(struct mount *mount, struct inode *inode, const void *buf, size_t len,
		   off_t offset, bool append);
/*
 * fallocate(2): 0 and FALLOC_FL_KEEP_SIZE instantiate, FALLOC_FL_PUNCH_HOLE frees whole pages
 * and zeroes parts of pages, FALLOC_FL_ZERO_RANGE zeroes. -EOPNOTSUPP for other modes, -ENOSPC.
 */
int file_fallocate(struct mount *mount, struct inode *inode, int mode, off_t offset, off_t len);
/* lseek(2) with SEEK_DATA or SEEK_HOLE, by instantiated pages. -ENXIO. */
off_t file_seek(struct mount *mount, struct inode *inode, off_t offset, int whence);
/* Reserve the pages of a range as a shared mapping does. Pages newly reserved, or -ENOMEM,
 * -EINVAL. */
int64_t file_reserve(struct mount *mount, struct inode *inode, off_t offset, off_t len);
