// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The table of FUSE operations, and what is agreed with the kernel at the start.
 *
 * Not there, and why: access (default_permissions), flush and fsync (nothing is kept back;
 * ENOSYS tells the kernel not to ask again), getlk/setlk/flock (the kernel's own locks are the
 * right ones for a filesystem of one machine), copy_file_range (the kernel copies by read and
 * write).
 */
#include "fs/fuse_ops.h"

#include <sys/stat.h>

#include "fs/fuse_attrs.h"
#include "fs/fuse_device.h"
#include "fs/fuse_dirs.h"
#include "fs/fuse_files.h"
#include "fs/fuse_ioctl.h"
#include "fs/fuse_names.h"
#include "fs/fuse_request.h"

static void want(struct fuse_conn_info *conn, unsigned int capabilities)
{
	conn->want |= conn->capable & capabilities;
}

static void ops_init(void *userdata, struct fuse_conn_info *conn)
{
	/* The kernel applies the caller's umask. */
	umask(0);
	want(conn, FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_PARALLEL_DIROPS |
			   FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_ASYNC_DIO |
			   FUSE_CAP_CACHE_SYMLINKS | FUSE_CAP_IOCTL_DIR);
	/*
	 * HANDLE_KILLPRIV would leave to us what the kernel does with the caller's capabilities
	 * at hand: take set-user-id bits away at chown and truncate. The rest is in
	 * drop_privileges_of().
	 */
	conn->want &= ~(FUSE_CAP_WRITEBACK_CACHE | FUSE_CAP_HANDLE_KILLPRIV |
			FUSE_CAP_DONT_MASK | FUSE_CAP_POSIX_ACL | FUSE_CAP_EXPORT_SUPPORT);
	conn->max_write = FUSE_TRANSFER_MAX;
	fuse_device_want(conn, userdata);
}

const struct fuse_lowlevel_ops fuse_ops = {
	.init = ops_init,

	.lookup = names_lookup,
	.forget = names_forget,
	.forget_multi = names_forget_multi,
	.mknod = names_mknod,
	.mkdir = names_mkdir,
	.symlink = names_symlink,
	.readlink = names_readlink,
	.link = names_link,
	.unlink = names_unlink,
	.rmdir = names_rmdir,
	.rename = names_rename,

	.getattr = attrs_getattr,
	.setattr = attrs_setattr,
	.statfs = attrs_statfs,
	.setxattr = attrs_setxattr,
	.getxattr = attrs_getxattr,
	.listxattr = attrs_listxattr,
	.removexattr = attrs_removexattr,

	.opendir = dirs_opendir,
	.readdir = dirs_readdir,
	.readdirplus = dirs_readdirplus,
	.releasedir = dirs_releasedir,

	.create = files_create,
	.open = files_open,
	.release = files_release,
	.read = files_read,
	.write = files_write,
	.fallocate = files_fallocate,
	.lseek = files_lseek,
	.ioctl = ioctl_handle,
};
