// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Handlers of the FUSE requests on the directory tree. Each is the same system call on the
 * private tmpfs; what permissions allow has been checked by the kernel. The kernel holds its
 * own locks on the directories of a request until the reply, so that no two requests change one
 * directory at a time, and no lock is needed here.
 *
 * .hugefuse is in no directory of the tmpfs: nobody can make, remove or rename it.
 */
#include "fs/fuse_names.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/caller.h"
#include "fs/fuse_request.h"
#include "fs/inode_numa.h"
#include "fs/stats.h"
#include "fs/tenant.h"

static void lookup_stats(fuse_req_t req, uint64_t parent_id, const char *name)
{
	struct mount *mount = request_mount(req);
	struct fuse_entry_param entry;
	struct stat st;
	int err;

	if (stats_is_node(parent_id))
		err = stats_lookup(mount, parent_id, name, &st);
	else
		err = stats_stat(mount, STATS_NODE_ROOT, &st);
	if (err) {
		reply_result(req, err);
		return;
	}
	fill_stats_entry(&st, &entry);
	fuse_reply_entry(req, &entry);
}

/* Tell the kernel that there is no such name, and that it may remember that. */
static void reply_no_entry(fuse_req_t req, const char *name)
{
	struct fuse_entry_param entry = {
		.entry_timeout = FUSE_TIMEOUT_FOREVER,
	};

	if (!strncmp(name, ".hugefuse", strlen(".hugefuse")))
		entry.entry_timeout = FUSE_TIMEOUT_NONE;
	fuse_reply_entry(req, &entry);
}

void names_lookup(fuse_req_t req, fuse_ino_t parent_id, const char *name)
{
	struct mount *mount = request_mount(req);
	struct inode *parent, *inode;
	struct stat st;
	int err;

	if (stats_is_node(parent_id)) {
		lookup_stats(req, parent_id, name);
		return;
	}
	parent = request_inode(req, parent_id);
	if (!parent)
		return;
	if (is_stats_name(mount, parent, name)) {
		lookup_stats(req, parent_id, name);
		return;
	}
	err = check_name(name);
	if (!err)
		err = inode_get_child(mount, parent, name, &inode, &st);
	if (err == -ENOENT)
		reply_no_entry(req, name);
	else if (err)
		reply_result(req, err);
	else
		reply_entry(req, inode, &st);
}

static void forget(struct mount *mount, fuse_ino_t node_id, uint64_t nr)
{
	if (!stats_is_node(node_id))
		inode_forget(mount, inode_lookup(mount, node_id), nr);
}

void names_forget(fuse_req_t req, fuse_ino_t node_id, uint64_t nr)
{
	forget(request_mount(req), node_id, nr);
	fuse_reply_none(req);
}

void names_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
	size_t i;

	for (i = 0; i < count; i++)
		forget(request_mount(req), forgets[i].ino, forgets[i].nlookup);
	fuse_reply_none(req);
}

static int make_name(int parent_fd, const char *name, mode_t mode, dev_t dev,
		     const char *target)
{
	int ret;

	if (S_ISDIR(mode))
		ret = mkdirat(parent_fd, name, mode & ALLPERMS);
	else if (S_ISLNK(mode) && target)
		ret = symlinkat(target, parent_fd, name);
	else
		ret = mknodat(parent_fd, name, mode, dev);
	return ret < 0 ? -errno : 0;
}

int names_make(fuse_req_t req, struct inode *parent, const char *name, mode_t mode, dev_t dev,
	       const char *target, struct inode **ret_inode, struct stat *ret_stat)
{
	const struct fuse_ctx *caller = fuse_req_ctx(req);
	struct mount *mount = request_mount(req);
	int err;

	if (is_stats_name(mount, parent, name))
		return -EEXIST;
	err = check_name(name);
	if (err)
		return err;
	err = caller_assume(caller->uid, caller->gid);
	if (err)
		return err;
	err = make_name(parent->fd, name, mode, dev, target);
	caller_restore();
	if (err)
		return err;
	err = caller_give(parent->fd, name, caller->gid);
	if (!err)
		err = inode_get_child(mount, parent, name, ret_inode, ret_stat);
	if (!err) {
		err = inode_numa_inherit(mount, parent, *ret_inode);
		if (err)
			inode_put(mount, *ret_inode, 1);
	}
	if (err)
		unlinkat(parent->fd, name, S_ISDIR(mode) ? AT_REMOVEDIR : 0);
	return err;
}

static void make(fuse_req_t req, fuse_ino_t parent_id, const char *name, mode_t mode, dev_t dev,
		 const char *target)
{
	struct inode *parent = request_inode(req, parent_id), *inode;
	struct stat st;
	int err;

	if (!parent)
		return;
	err = names_make(req, parent, name, mode, dev, target, &inode, &st);
	if (err)
		reply_result(req, err);
	else
		reply_entry(req, inode, &st);
}

void names_mknod(fuse_req_t req, fuse_ino_t parent_id, const char *name, mode_t mode, dev_t dev)
{
	/* As mknod(2): no type is a regular file. */
	if (!(mode & S_IFMT))
		mode |= S_IFREG;
	if (S_ISDIR(mode) || S_ISLNK(mode)) {
		fuse_reply_err(req, EINVAL);
		return;
	}
	make(req, parent_id, name, mode, dev, NULL);
}

void names_mkdir(fuse_req_t req, fuse_ino_t parent_id, const char *name, mode_t mode)
{
	make(req, parent_id, name, (mode & ALLPERMS) | S_IFDIR, 0, NULL);
}

void names_symlink(fuse_req_t req, const char *target, fuse_ino_t parent_id, const char *name)
{
	make(req, parent_id, name, S_IFLNK | ACCESSPERMS, 0, target);
}

void names_readlink(fuse_req_t req, fuse_ino_t node_id)
{
	struct inode *inode = request_inode(req, node_id);
	char target[PATH_MAX + 1];
	ssize_t len;

	if (!inode)
		return;
	len = readlinkat(inode->fd, "", target, sizeof(target));
	if (len < 0) {
		fuse_reply_err(req, errno);
	} else if ((size_t)len >= sizeof(target)) {
		fuse_reply_err(req, ENAMETOOLONG);
	} else {
		target[len] = '\0';
		fuse_reply_readlink(req, target);
	}
}

/* Without CAP_DAC_READ_SEARCH a descriptor can be linked by its path only. */
static int link_inode(const struct inode *inode, int dir_fd, const char *name)
{
	char path[INODE_FD_PATH_SIZE];

	if (linkat(inode->fd, "", dir_fd, name, AT_EMPTY_PATH) == 0)
		return 0;
	if (errno != ENOENT || geteuid() == 0)
		return -errno;
	inode_fd_path(inode, path);
	return linkat(AT_FDCWD, path, dir_fd, name, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

void names_link(fuse_req_t req, fuse_ino_t node_id, fuse_ino_t parent_id, const char *name)
{
	struct mount *mount = request_mount(req);
	struct inode *inode, *parent, *linked;
	struct stat st;
	int err;

	inode = request_inode(req, node_id);
	if (!inode)
		return;
	parent = request_inode(req, parent_id);
	if (!parent)
		return;
	err = is_stats_name(mount, parent, name) ? -EEXIST : check_name(name);
	if (!err && !tenant_is_same(mount, inode, parent))
		err = -EXDEV;
	if (!err)
		err = link_inode(inode, parent->fd, name);
	if (err) {
		reply_result(req, err);
		return;
	}
	err = inode_get_child(mount, parent, name, &linked, &st);
	if (err) {
		/* The kernel goes on to believe that there is no such name: make it true. */
		unlinkat(parent->fd, name, 0);
		reply_result(req, err);
	} else {
		reply_entry(req, linked, &st);
	}
}

/* @victim has lost a name, unless the removal failed: free its pages before the reply. */
static void put_victim(struct mount *mount, struct inode *victim, bool removed)
{
	if (victim && removed) {
		inode_drop_unlinked(mount, victim);
		tenant_dir_removed(mount, victim);
	}
	inode_put(mount, victim, 1);
}

static void remove_name(fuse_req_t req, fuse_ino_t parent_id, const char *name, int flags)
{
	struct mount *mount = request_mount(req);
	struct inode *parent = request_inode(req, parent_id), *victim = NULL;
	int err;

	if (!parent)
		return;
	err = is_stats_name(mount, parent, name) ? -EPERM : check_name(name);
	if (!err) {
		if (!(flags & AT_REMOVEDIR) || mount->tenants.nr > 0)
			victim = inode_find_child(mount, parent, name);
		if (unlinkat(parent->fd, name, flags) < 0)
			err = -errno;
		put_victim(mount, victim, !err);
	}
	reply_result(req, err);
}

void names_unlink(fuse_req_t req, fuse_ino_t parent_id, const char *name)
{
	remove_name(req, parent_id, name, 0);
}

void names_rmdir(fuse_req_t req, fuse_ino_t parent_id, const char *name)
{
	remove_name(req, parent_id, name, AT_REMOVEDIR);
}

/* renameat2(2); with RENAME_WHITEOUT it makes something, which is the caller's. */
static int rename_as_caller(fuse_req_t req, struct inode *parent, const char *name,
			    struct inode *new_parent, const char *new_name, unsigned int flags)
{
	const struct fuse_ctx *caller = fuse_req_ctx(req);
	int err = 0;

	if (flags & RENAME_WHITEOUT)
		err = caller_assume(caller->uid, caller->gid);
	if (err)
		return err;
	if (renameat2(parent->fd, name, new_parent->fd, new_name, flags) < 0)
		err = -errno;
	if (flags & RENAME_WHITEOUT)
		caller_restore();
	return err;
}

void names_rename(fuse_req_t req, fuse_ino_t parent_id, const char *name,
		  fuse_ino_t new_parent_id, const char *new_name, unsigned int flags)
{
	struct inode *parent, *new_parent, *victim = NULL;
	struct mount *mount = request_mount(req);
	int err;

	parent = request_inode(req, parent_id);
	if (!parent)
		return;
	new_parent = request_inode(req, new_parent_id);
	if (!new_parent)
		return;
	err = check_name(name);
	if (!err)
		err = check_name(new_name);
	if (!err &&
	    (is_stats_name(mount, parent, name) || is_stats_name(mount, new_parent, new_name)))
		err = -EPERM;
	if (!err && !tenant_is_same(mount, parent, new_parent))
		err = -EXDEV;
	if (!err) {
		if (!(flags & (RENAME_NOREPLACE | RENAME_EXCHANGE)))
			victim = inode_find_child(mount, new_parent, new_name);
		err = rename_as_caller(req, parent, name, new_parent, new_name, flags);
		put_victim(mount, victim, !err);
	}
	reply_result(req, err);
}
