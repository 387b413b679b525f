// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Handler of the ioctls of include/hugefuse_protocol.h. The kernel copies as many bytes in and
 * out as the command's number says. The structures are the same for 32 and 64 bits; but an
 * address space of 32 bits is nothing to map huge pages into, and nobody tests that.
 */
#include "fs/fuse_ioctl.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "fs/control.h"
#include "fs/file.h"
#include "fs/fuse_request.h"
#include "fs/reconcile.h"
#include "fs/stats.h"
#include "fs/tenant.h"
#include "hugefuse_protocol.h"

/* What was written to copies of the file's pages comes to the pages, and the copies go. */
static int ioctl_map(struct mount *mount, struct open_file *file, fuse_ino_t node_id,
		     const struct fuse_ctx *caller, struct hugefuse_ioc_map *map)
{
	int r = control_request_map(mount->control, file->inode, file->flags, file->cached,
				    caller->pid, caller->uid, map);

	if (r == 0 && file->cached)
		fuse_lowlevel_notify_inval_inode(mount->session, node_id, 0, 0);
	return (int)tenant_note(mount, file->inode, r);
}

static int ioctl_reserve(struct mount *mount, struct open_file *file,
			 const struct fuse_ctx *caller, struct hugefuse_ioc_reserve *reserve)
{
	int64_t nr_reserved;

	if ((file->flags & O_ACCMODE) == O_RDONLY)
		return -EBADF;
	if (!reserve->length || reserve->offset > INT64_MAX ||
	    reserve->length > INT64_MAX - reserve->offset)
		return -EINVAL;
	nr_reserved = file_reserve(mount, file->inode, reserve->offset, reserve->length);
	if (reconcile_or_wait(mount, nr_reserved))
		nr_reserved =
			file_reserve(mount, file->inode, reserve->offset, reserve->length);
	if (nr_reserved < 0)
		return (int)tenant_note(mount, file->inode, nr_reserved);
	inode_note_user(file->inode, caller->pid, caller->uid);
	reserve->nr_reserved = nr_reserved / backing_chunk(mount->backing);
	return 0;
}

static void ioctl_query(struct mount *mount, struct open_file *file,
			struct hugefuse_ioc_query *ret_query)
{
	struct page_space *pages = atomic_load(&file->inode->pages);
	struct page_space_counts counts = {};
	int64_t chunk = backing_chunk(mount->backing);
	struct pool_counts pool;

	stats_settle_each(mount);
	if (pages)
		page_space_read(pages, &counts);
	pool_read(&mount->core.pool, &pool);
	*ret_query = (struct hugefuse_ioc_query){
		.page_size = mount->backing->huge_page_size,
		.size = file_size(file->inode),
		.file_reserved = counts.resv / chunk,
		.file_instantiated = counts.instantiated / chunk,
		.pool_total = pool.nr / chunk,
		.pool_free = pool.free / chunk,
		.pool_reserved = pool.resv / chunk,
		.pool_surplus = pool.surplus / chunk,
		.mappings = atomic_load(&file->inode->nr_mappings),
	};
}

/* What needs no open file: the same for files and directories. */
static void ioctl_mount(fuse_req_t req, size_t out_size)
{
	struct mount *mount = request_mount(req);
	struct hugefuse_ioc_mount reply = {
		.page_size = mount->backing->page_size,
		.backing = mount->is_thp ? HUGEFUSE_BACKING_THP : HUGEFUSE_BACKING_HUGETLB,
	};

	if (out_size < sizeof(reply))
		fuse_reply_err(req, EINVAL);
	else
		fuse_reply_ioctl(req, 0, &reply, sizeof(reply));
}

static bool is_ours(unsigned int cmd)
{
	return cmd == HUGEFUSE_IOC_MAP || cmd == HUGEFUSE_IOC_RESERVE ||
	       cmd == HUGEFUSE_IOC_QUERY || cmd == HUGEFUSE_IOC_CANCEL;
}

void ioctl_handle(fuse_req_t req, fuse_ino_t node_id, unsigned int cmd, void *arg,
		  struct fuse_file_info *fi, unsigned int flags, const void *in_buf,
		  size_t in_size, size_t out_size)
{
	union {
		struct hugefuse_ioc_map map;
		struct hugefuse_ioc_reserve reserve;
		struct hugefuse_ioc_query query;
		struct hugefuse_ioc_cancel cancel;
	} data = {};
	const struct fuse_ctx *caller = fuse_req_ctx(req);
	struct mount *mount = request_mount(req);
	struct open_file *file;
	int err = 0;

	if (cmd == HUGEFUSE_IOC_MOUNT && !stats_is_node(node_id) &&
	    !(flags & (FUSE_IOCTL_COMPAT | FUSE_IOCTL_UNRESTRICTED))) {
		ioctl_mount(req, out_size);
		return;
	}
	if (!is_ours(cmd) || stats_is_node(node_id) ||
	    (flags & (FUSE_IOCTL_DIR | FUSE_IOCTL_COMPAT | FUSE_IOCTL_UNRESTRICTED))) {
		fuse_reply_err(req, ENOTTY);
		return;
	}
	if (((_IOC_DIR(cmd) & _IOC_READ) && out_size < _IOC_SIZE(cmd)) ||
	    ((_IOC_DIR(cmd) & _IOC_WRITE) && in_size != _IOC_SIZE(cmd))) {
		fuse_reply_err(req, EINVAL);
		return;
	}
	file = request_file(req, node_id, fi);
	if (!file)
		return;
	if (_IOC_DIR(cmd) & _IOC_WRITE)
		memcpy(&data, in_buf, in_size);
	if (cmd == HUGEFUSE_IOC_MAP)
		err = ioctl_map(mount, file, node_id, caller, &data.map);
	else if (cmd == HUGEFUSE_IOC_RESERVE)
		err = ioctl_reserve(mount, file, caller, &data.reserve);
	else if (cmd == HUGEFUSE_IOC_CANCEL)
		err = control_cancel(mount->control, caller->pid, data.cancel.token);
	else
		ioctl_query(mount, file, &data.query);
	if (err)
		reply_result(req, err);
	else
		fuse_reply_ioctl(req, 0, &data, _IOC_DIR(cmd) & _IOC_READ ? _IOC_SIZE(cmd) : 0);
}
