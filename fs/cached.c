/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Cached files: who has a file open with the page cache. */
#include "fs/cached.h"

#include <errno.h>

#include "fs/file.h"
#include "fs/mount.h"

bool cached_is_used(const struct mount *mount)
{
	if (mount->has_passthrough)
		return false;
	if (mount->options->plain == PLAIN_AUTO)
		return mount->is_thp;
	return mount->options->plain == PLAIN_CACHED;
}

int cached_reserve(struct mount *mount, struct inode *inode, off_t size)
{
	int64_t r = 0;

	if (inode->nr_cached > 0 && !mount->is_thp && size > 0)
		r = file_reserve(mount, inode, 0, size);
	return r == -ENOMEM ? -ENOSPC : (int)(r < 0 ? r : 0);
}

int cached_open(struct mount *mount, struct inode *inode, bool writable, bool *ret_cached)
{
	bool cached;
	int r = 0;

	*ret_cached = false;
	if (!cached_is_used(mount))
		return 0;
	rwsem_write_lock(&inode->lock);
	cached = inode->nr_mappings == 0;
	inode->nr_cached += cached;
	rwsem_write_unlock(&inode->lock);
	if (cached && writable)
		r = cached_reserve(mount, inode, file_size(inode));
	if (r < 0)
		cached_close(inode);
	*ret_cached = cached && r == 0;
	return r;
}

void cached_close(struct inode *inode)
{
	rwsem_write_lock(&inode->lock);
	inode->nr_cached--;
	rwsem_write_unlock(&inode->lock);
}

bool cached_is_busy(struct inode *inode, bool own)
{
	bool busy;

	/* With the lock: an open that has not seen the mapping is counted by now. */
	rwsem_read_lock(&inode->lock);
	busy = inode->nr_cached > (own ? 1U : 0U);
	rwsem_read_unlock(&inode->lock);
	return busy;
}
