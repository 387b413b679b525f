/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Content of regular files that are reserved as far as they are long (backing=thp). What grows
 * a file reserves its pages, -ENOSPC where that cannot be, and instantiates them: a process
 * that maps it needs nothing from the daemon and never gets SIGBUS inside the file. A punched
 * page is a reserved one again, and whoever touches it gets it from the kernel.
 *
 * The functions are those of fs/file.h, which calls them.
 */
#pragma once

#include <sys/types.h>

#include "fs/inode.h"

int file_sized_resize(struct mount *mount, struct inode *inode, off_t size);
int file_sized_grow(struct mount *mount, struct inode *inode, off_t size);
ssize_t file_sized_read(struct mount *mount, struct inode *inode, void *buf, size_t len,
			off_t offset);
ssize_t file_sized_write(struct mount *mount, struct inode *inode, const void *buf, size_t len,
			 off_t offset, bool append);
int file_sized_fallocate(struct mount *mount, struct inode *inode, int mode, off_t offset,
			 off_t len);
off_t file_sized_seek(struct mount *mount, struct inode *inode, off_t offset, int whence);
int64_t file_sized_reserve(struct mount *mount, struct inode *inode, off_t offset, off_t len);

/*
 * Free what the pages of [offset, end) have, in a file of @size bytes, and zero what they cover
 * in part. Under the file's lock, for writing. 0 or -errno.
 */
int file_sized_punch(struct page_space *pages, off_t offset, off_t end, off_t size);

/* The same for fallocate(2) with @mode: holes that are part of a huge page may be noted. */
int file_sized_punch_locked(struct mount *mount, struct inode *inode, struct page_space *pages,
			    int mode, off_t offset, off_t end, off_t size);

/* Nobody writes to it any more: give back what was allocated behind its end for that. */
void file_sized_trim(struct mount *mount, struct inode *inode);

/* Make the counters say what the kernel has done without a word: faults in punched pages,
 * madvise(MADV_REMOVE) through a mapping. */
void file_sized_reconcile(struct page_space *pages);
/*
 * Let the backing's reserve hold what no file has reserved, after every change of that. -ENOMEM
 * where the memory is not to be had; the other only logs that, once.
 */
int file_sized_set_aside(struct mount *mount);
void file_sized_balance(struct mount *mount);
