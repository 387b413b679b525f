/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Numbers for FUSE passthrough: one for each inode that is open, given back with the last. */
#include "fs/passthrough.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "fs/backing_thp.h"
#include "fs/mount.h"
#include "fs/split.h"

/* include/uapi/linux/fuse.h, which is older here and there. */
struct backing_map {
	int32_t fd;
	uint32_t flags;
	uint64_t padding;
};
#define BACKING_OPEN  _IOW(229, 1, struct backing_map)
#define BACKING_CLOSE _IOW(229, 2, uint32_t)

bool passthrough_may_be(const struct mount *mount)
{
	return mount->is_thp && mount->options->plain == PLAIN_AUTO && geteuid() == 0;
}

void passthrough_enable(struct mount *mount, int device_fd)
{
	mount->passthrough_fd = device_fd;
	mount->has_passthrough = true;
}

static int open_locked(struct mount *mount, struct inode *inode)
{
	struct page_space *pages;
	struct backing_map map = {0};
	int r;

	r = inode_pages(mount, inode, &pages);
	if (r < 0)
		return r;
	map.fd = backing_thp_fd(pages->file);
	r = ioctl(mount->passthrough_fd, BACKING_OPEN, &map);
	if (r < 0)
		return -errno;
	inode->passthrough_id = r;
	return 0;
}

int32_t passthrough_get(struct mount *mount, struct inode *inode, int access_mode)
{
	struct page_space *pages;
	bool first;
	int32_t id;
	int r = 0;

	if (!mount->has_passthrough)
		return 0;
	rwsem_write_lock(&inode->lock);
	first = inode->nr_opens++ == 0;
	if (first)
		r = open_locked(mount, inode);
	pages = inode->pages;
	if (r == 0 && pages)
		split_open_locked(mount, inode, pages, access_mode, first);
	id = r < 0 ? r : inode->passthrough_id;
	rwsem_write_unlock(&inode->lock);
	return id;
}

void passthrough_put(struct mount *mount, struct inode *inode)
{
	uint32_t id;

	if (!mount->has_passthrough)
		return;
	rwsem_write_lock(&inode->lock);
	if (--inode->nr_opens == 0 && inode->passthrough_id > 0) {
		id = (uint32_t)inode->passthrough_id;
		ioctl(mount->passthrough_fd, BACKING_CLOSE, &id);
		inode->passthrough_id = 0;
	}
	rwsem_write_unlock(&inode->lock);
}
