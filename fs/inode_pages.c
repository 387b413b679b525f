// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The content of an inode as far as fs/inode is concerned: its pages are made on first use, and
 * counted in its attributes. Two threads that make them at a time both do, and one throws its
 * own away: there is no lock for it, since callers hold the inode's lock already.
 *
 * Whoever wants to see all files with pages goes through the table here, under RCU.
 */
#include "fs/inode.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "fs/inode_numa.h"
#include "fs/mount.h"
#include "fs/rcu.h"
#include "fs/tenant.h"

#define STAT_BLOCK_SIZE 512 /* of st_blocks, whatever st_blksize */

/* What is noted is a hole to whoever asks, though its pages are there still. */
static void subtract_noted(const struct mount *mount, const struct inode *inode,
			   struct stat *st)
{
	blkcnt_t noted =
		inode->split.nr_noted * (blkcnt_t)(mount->backing->page_size / STAT_BLOCK_SIZE);

	/* It may have been punched since @st was made. */
	st->st_blocks -= noted < st->st_blocks ? noted : st->st_blocks;
}

void inode_adjust_stat(struct mount *mount, struct inode *inode, struct stat *st)
{
	struct page_space_counts counts = {};
	struct page_space *pages;

	st->st_ino = inode_node_id(mount, inode);
	if (S_ISREG(inode->type) && !mount->backing->reserves_size) {
		/* FUSE's lookups do not keep the pages: inode_drop_unlinked(). */
		rcu_reader_lock();
		pages = atomic_load(&inode->pages);
		if (pages)
			page_space_read(pages, &counts);
		rcu_reader_unlock();
		st->st_blksize = mount->backing->page_size;
		st->st_blocks =
			counts.instantiated * (mount->backing->page_size / STAT_BLOCK_SIZE);
	}
	subtract_noted(mount, inode, st);
	/* Whoever maps it may write to it at any time: what the page cache has is not valid. */
	if (inode->nr_cached > 0 && inode->nr_mappings > 0)
		clock_gettime(CLOCK_REALTIME, &st->st_mtim);
}

int inode_stat(struct mount *mount, struct inode *inode, struct stat *ret_stat)
{
	const struct stat *last = atomic_load(&inode->last_stat);
	struct stat st;

	if (last)
		st = *last;
	else if (fstat(inode->fd, &st) < 0)
		return -errno;
	inode_adjust_stat(mount, inode, &st);
	*ret_stat = st;
	return 0;
}

/*
 * The file of the backing, opened by whoever comes first. It has @nr_pages pages already,
 * unless it was removed while it was empty.
 */
static int get_backing_file(struct mount *mount, struct inode *inode, int64_t nr_pages,
			    struct backing_file **ret_file)
{
	struct backing_file *file = atomic_load(&inode->backing_file), *fresh;
	const struct backing_ops *ops = mount->backing->ops;
	int err;

	if (!file) {
		err = ops->file_open(mount->backing, inode->ino, inode->fd, &fresh);
		if (err)
			return err;
		err = ops->resize(fresh, nr_pages);
		if (!err && atomic_compare_exchange_strong(&inode->backing_file, &file, fresh))
			file = fresh;
		else
			ops->file_close(fresh, false);
		if (err)
			return err;
	}
	*ret_file = file;
	return 0;
}

int inode_pages(struct mount *mount, struct inode *inode, struct page_space **ret_pages)
{
	struct page_space *pages = atomic_load(&inode->pages), *fresh;
	struct backing_file *file;
	int64_t nr_pages;
	struct stat st;
	int err;

	if (pages)
		goto out_found;
	if (!S_ISREG(inode->type))
		return S_ISDIR(inode->type) ? -EISDIR : -EINVAL;
	if (inode->gone)
		return -ESTALE;
	if (fstat(inode->fd, &st) < 0)
		return -errno;
	nr_pages = mount_bytes_to_pages(mount, st.st_size);
	err = get_backing_file(mount, inode, nr_pages, &file);
	if (err)
		return err;
	fresh = aligned_alloc(_Alignof(struct page_space), sizeof(*fresh));
	if (!fresh)
		return -ENOMEM;
	err = page_space_init(fresh, &mount->core, file, inode->ino, 0, nr_pages);
	if (err) {
		free(fresh);
		return err;
	}
	page_space_set_subpool(fresh, tenant_subpool_of_file(mount, inode), true);
	err = inode_numa_use(mount, inode, fresh);
	if (err) {
		page_space_deinit(fresh);
		free(fresh);
		return err;
	}
	if (atomic_compare_exchange_strong(&inode->pages, &pages, fresh)) {
		pages = fresh;
	} else {
		page_space_deinit(fresh);
		free(fresh);
	}
out_found:
	*ret_pages = pages;
	return 0;
}

int inode_for_each(struct mount *mount, int (*visit)(struct mount *, struct inode *, void *),
		   void *data)
{
	struct cds_lfht_node *node;
	struct cds_lfht_iter iter;
	struct inode *inode;
	int ret = 0;

	mount->inodes.nr_visiting++;
	rcu_reader_lock();
	cds_lfht_for_each(mount->inodes.inodes, &iter, node)
	{
		rcu_order_after();
		inode = caa_container_of(node, struct inode, node);
		if (!atomic_load(&inode->pages))
			continue;
		ret = visit(mount, inode, data);
		if (ret)
			break;
	}
	rcu_reader_unlock();
	if (--mount->inodes.nr_visiting == 0)
		waitqueue_wake_all(&mount->inodes.visited);
	return ret;
}
