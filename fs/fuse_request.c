// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the handlers of FUSE requests have in common. No state, no locks.
 */
#include "fs/fuse_request.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "fs/owner.h"
#include "fs/stats.h"

static const char stats_name[] = ".hugefuse";

struct inode *request_inode(fuse_req_t req, fuse_ino_t node_id)
{
	struct inode *inode;

	if (stats_is_node(node_id)) {
		fuse_reply_err(req, EPERM);
		return NULL;
	}
	inode = inode_lookup(request_mount(req), node_id);
	if (!inode)
		fuse_reply_err(req, ESTALE);
	return inode;
}

struct open_file *request_file(fuse_req_t req, fuse_ino_t node_id, struct fuse_file_info *fi)
{
	struct open_file *file = NULL;

	/* The handles of directories and of .hugefuse are something else. */
	if (!stats_is_node(node_id) && fi && fi->fh) {
		struct inode *inode = inode_lookup(request_mount(req), node_id);

		if (inode && S_ISREG(inode->type))
			file = (struct open_file *)fi->fh;
	}
	if (!file)
		fuse_reply_err(req, EBADF);
	return file;
}

double attr_timeout(const struct mount *mount, const struct stat *st)
{
	bool stands = !S_ISREG(st->st_mode) ||
		      (mount->backing->reserves_size && st->st_size == 0 && st->st_blocks == 0);

	return stands ? FUSE_TIMEOUT_FOREVER : FUSE_TIMEOUT_NONE;
}

void fill_entry(const struct mount *mount, const struct stat *st,
		struct fuse_entry_param *ret_entry)
{
	*ret_entry = (struct fuse_entry_param){
		.ino = st->st_ino,
		.attr = *st,
		.attr_timeout = attr_timeout(mount, st),
		.entry_timeout = FUSE_TIMEOUT_FOREVER,
	};
}

void fill_stats_entry(const struct stat *st, struct fuse_entry_param *ret_entry)
{
	*ret_entry = (struct fuse_entry_param){
		.ino = st->st_ino,
		.attr = *st,
		.attr_timeout = FUSE_TIMEOUT_NONE,
		.entry_timeout = FUSE_TIMEOUT_NONE,
	};
}

void reply_entry(fuse_req_t req, struct inode *inode, const struct stat *st)
{
	struct mount *mount = request_mount(req);
	struct fuse_entry_param entry;

	fill_entry(mount, st, &entry);
	/* Before the reply: the kernel may forget it at once. */
	inode_add_lookup(inode);
	if (fuse_reply_entry(req, &entry))
		inode_forget(mount, inode, 1); /* interrupted: the kernel does not know of it */
}

bool is_stats_name(const struct mount *mount, const struct inode *parent, const char *name)
{
	return parent->ino == mount->inodes.root_ino && !strcmp(name, stats_name);
}

int check_name(const char *name)
{
	if (!*name || !strcmp(name, ".") || !strcmp(name, "..") || strchr(name, '/'))
		return -EINVAL;
	return 0;
}

void drop_privileges_of(struct inode *inode, const struct fuse_ctx *writer)
{
	char path[INODE_FD_PATH_SIZE];
	struct stat st;

	inode_fd_path(inode, path);
	removexattr(path, "security.capability");
	/* The kernel asks for CAP_FSETID, which we cannot see: who is not root has none. */
	if (writer->uid == 0 || fstat(inode->fd, &st) < 0)
		return;
	if (!(st.st_mode & S_ISUID) &&
	    (st.st_mode & (S_ISGID | S_IXGRP)) != (S_ISGID | S_IXGRP))
		return;
	st.st_mode &= ~S_ISUID;
	if (st.st_mode & S_IXGRP)
		st.st_mode &= ~S_ISGID;
	owner_chmod(inode->fd, st.st_mode & ALLPERMS);
}

void touch_modified(struct inode *inode)
{
	static const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
						 {.tv_nsec = UTIME_NOW}};

	utimensat(inode->fd, "", times, AT_EMPTY_PATH);
}
