/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Cached files: plain shared mappings of files that cannot be mapped through FUSE. The kernel
 * keeps copies of their pages in its page cache, and a file is never both copied and mapped
 * directly, as neither would see what the other writes:
 *
 * - while a file has direct mappings, it is opened without the page cache: read(2) and write(2)
 *   work, a plain shared mapping gets ENODEV;
 * - while others have a file open with the page cache, a direct mapping gets EBUSY;
 * - whoever maps directly what it has opened with the page cache loses the copies of it.
 */
#pragma once

#include "fs/inode.h"

/* Whether files that are opened without the library may be mapped as copies. */
bool cached_is_used(const struct mount *mount);
/*
 * Open @inode, and say in @ret_cached whether with the page cache; cached_close() follows where
 * it is. What may be written to copies is reserved as far as the file is long: they are written
 * back when nobody can be told any more that there is no page. 0, or -ENOSPC.
 */
int cached_open(struct mount *mount, struct inode *inode, bool writable, bool *ret_cached);
void cached_close(struct inode *inode);
/* The same for a file that is about to get @size bytes. 0, or -ENOSPC. */
int cached_reserve(struct mount *mount, struct inode *inode, off_t size);
/*
 * Whether a direct mapping, which is counted already, must not be, as somebody else has the
 * file open with the page cache; @own: the caller's own descriptor is such a one.
 */
bool cached_is_busy(struct inode *inode, bool own);
