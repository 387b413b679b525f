// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Handlers of the FUSE requests on attributes, extended attributes and the whole mount. Owner,
 * mode, times and extended attributes are those of the inode in the private tmpfs, reached
 * through its O_PATH descriptor; sizes are a matter of fs/file.
 *
 * That chown(2) and truncate(2) take the set-user-id bits away is done by the kernel, which
 * sends the mode along (FUSE_CAP_HANDLE_KILLPRIV is not asked for).
 */
#include "fs/fuse_attrs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "fs/cached.h"
#include "fs/file.h"
#include "fs/fuse_quota.h"
#include "fs/fuse_request.h"
#include "fs/inode_numa.h"
#include "fs/owner.h"
#include "fs/reconcile.h"
#include "fs/stats.h"
#include "fs/tenant.h"

void attrs_getattr(fuse_req_t req, fuse_ino_t node_id, struct fuse_file_info *fi)
{
	struct mount *mount = request_mount(req);
	struct inode *inode;
	struct stat st;
	int err;

	if (stats_is_node(node_id)) {
		err = stats_stat(mount, node_id, &st);
	} else {
		inode = request_inode(req, node_id);
		if (!inode)
			return;
		/* st_blocks counts what the kernel has put there without a word, too. */
		rcu_read_lock();
		reconcile_inode(mount, inode);
		rcu_read_unlock();
		err = inode_stat(mount, inode, &st);
	}
	if (err)
		reply_result(req, err);
	else
		fuse_reply_attr(req, &st,
				stats_is_node(node_id) ? FUSE_TIMEOUT_NONE
						       : attr_timeout(mount, &st));
}

static int resize(struct mount *mount, struct inode *inode, off_t size)
{
	int err = cached_reserve(mount, inode, size);

	return err ? err : file_resize(mount, inode, size);
}

static int set_size(struct mount *mount, struct inode *inode, off_t size)
{
	int err;

	if (!S_ISREG(inode->type))
		return S_ISDIR(inode->type) ? -EISDIR : -EINVAL;
	if (size < 0)
		return -EINVAL;
	if (!inode_get(mount, inode))
		return -ESTALE;
	err = resize(mount, inode, size);
	if (reconcile_or_wait(mount, err))
		err = resize(mount, inode, size);
	if (!err)
		touch_modified(inode);
	tenant_note(mount, inode, err);
	inode_put(mount, inode, 1);
	return err;
}

static struct timespec time_to_set(int to_set, int set, int set_now, struct timespec time)
{
	if (!(to_set & set))
		return (struct timespec){.tv_nsec = UTIME_OMIT};
	if (to_set & set_now)
		return (struct timespec){.tv_nsec = UTIME_NOW};
	return time;
}

static int set_times(struct inode *inode, const struct stat *attr, int to_set)
{
	struct timespec times[2] = {
		time_to_set(to_set, FUSE_SET_ATTR_ATIME, FUSE_SET_ATTR_ATIME_NOW,
			    attr->st_atim),
		time_to_set(to_set, FUSE_SET_ATTR_MTIME, FUSE_SET_ATTR_MTIME_NOW,
			    attr->st_mtim),
	};

	return utimensat(inode->fd, "", times, AT_EMPTY_PATH) < 0 ? -errno : 0;
}

/*
 * Size first, which may fail for want of pages; the mode behind the owner, as changing that
 * takes bits of the mode away.
 */
static int set_attributes(struct mount *mount, struct inode *inode, const struct stat *attr,
			  int to_set)
{
	const int known = FUSE_SET_ATTR_SIZE | FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_ATIME |
			  FUSE_SET_ATTR_MTIME;
	int err;

	if (to_set & FUSE_SET_ATTR_SIZE) {
		err = set_size(mount, inode, attr->st_size);
		if (err)
			return err;
	}
	/* Nothing at all is a chown(2) of nothing, which changes the ctime. */
	if (to_set & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID) || !(to_set & known)) {
		uid_t uid = to_set & FUSE_SET_ATTR_UID ? attr->st_uid : (uid_t)-1;
		gid_t gid = to_set & FUSE_SET_ATTR_GID ? attr->st_gid : (gid_t)-1;

		if (fchownat(inode->fd, "", uid, gid, AT_EMPTY_PATH) < 0)
			return -errno;
	}
	if (to_set & FUSE_SET_ATTR_MODE) {
		err = owner_chmod(inode->fd, attr->st_mode & ALLPERMS);
		if (err)
			return err;
	}
	if (to_set & (FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME))
		return set_times(inode, attr, to_set);
	return 0;
}

/* Of the files of .hugefuse only the size can be set, which open(2) with O_TRUNC does. */
static void setattr_stats(fuse_req_t req, fuse_ino_t node_id, int to_set)
{
	struct stat st;
	int err = stats_stat(request_mount(req), node_id, &st);

	if (!err && to_set != FUSE_SET_ATTR_SIZE)
		err = -EPERM;
	if (err)
		reply_result(req, err);
	else
		fuse_reply_attr(req, &st, FUSE_TIMEOUT_NONE);
}

void attrs_setattr(fuse_req_t req, fuse_ino_t node_id, struct stat *attr, int to_set,
		   struct fuse_file_info *fi)
{
	struct mount *mount = request_mount(req);
	struct inode *inode;
	struct stat st;
	int err;

	if (stats_is_node(node_id)) {
		setattr_stats(req, node_id, to_set);
		return;
	}
	inode = request_inode(req, node_id);
	if (!inode)
		return;
	err = set_attributes(mount, inode, attr, to_set);
	if (!err && to_set & FUSE_SET_ATTR_SIZE)
		inode_note_user(inode, fuse_req_ctx(req)->pid, fuse_req_ctx(req)->uid);
	if (!err)
		err = inode_stat(mount, inode, &st);
	if (err)
		reply_result(req, err);
	else
		fuse_reply_attr(req, &st, attr_timeout(mount, &st));
}

/*
 * Blocks are pages; how many there are, for the tenant that it is in, follows
 * hugetlbfs_statfs(), and the pool without size=.
 */
void attrs_statfs(fuse_req_t req, fuse_ino_t node_id)
{
	struct mount *mount = request_mount(req);
	struct subpool *subpool = &mount->core.subpool;
	struct inode *inode = NULL;
	struct statvfs buf;
	int64_t size, nr_free;

	if (fstatvfs(mount->names_fd, &buf) < 0) {
		fuse_reply_err(req, errno);
		return;
	}
	if (buf.f_files)
		buf.f_files -= mount_hidden_inodes(mount);
	if (!stats_is_node(node_id))
		inode = inode_lookup(mount, node_id);
	if (inode)
		subpool = tenant_subpool(mount, inode);
	subpool_read_space(subpool, &size, &nr_free);
	subpool_unref(subpool);
	buf.f_blocks = size;
	buf.f_bfree = buf.f_bavail = nr_free;
	buf.f_bsize = buf.f_frsize = mount->backing->page_size;
	fuse_reply_statfs(req, &buf);
}

/*
 * The inode of a request on extended attributes, and a path to it; NULL after a reply. Access
 * control lists would be kept by the tmpfs, but the kernel would not obey them.
 */
static struct inode *xattr_inode(fuse_req_t req, fuse_ino_t node_id, const char *name,
				 char path[INODE_FD_PATH_SIZE])
{
	static const char acl[] = "system.posix_acl_";
	struct inode *inode;

	if (stats_is_node(node_id) || (name && !strncmp(name, acl, strlen(acl)))) {
		fuse_reply_err(req, EOPNOTSUPP);
		return NULL;
	}
	inode = request_inode(req, node_id);
	if (inode)
		inode_fd_path(inode, path);
	return inode;
}

static bool is_numa(const char *name)
{
	return strcmp(name, INODE_NUMA_XATTR) == 0;
}

void attrs_setxattr(fuse_req_t req, fuse_ino_t node_id, const char *name, const char *value,
		    size_t size, int flags)
{
	char path[INODE_FD_PATH_SIZE];
	struct inode *inode = xattr_inode(req, node_id, name, path);

	if (!inode)
		return;
	if (is_numa(name))
		reply_result(req,
			     inode_numa_set(request_mount(req), inode, value, size, flags));
	else if (quota_is_xattr(name))
		reply_result(req, quota_set(req, inode, name, value, size, flags));
	else
		reply_result(req, setxattr(path, name, value, size, flags) < 0 ? -errno : 0);
}

void attrs_removexattr(fuse_req_t req, fuse_ino_t node_id, const char *name)
{
	char path[INODE_FD_PATH_SIZE];
	struct inode *inode = xattr_inode(req, node_id, name, path);

	if (!inode)
		return;
	if (is_numa(name))
		reply_result(req, inode_numa_remove(request_mount(req), inode));
	else if (quota_is_xattr(name))
		reply_result(req, quota_remove(req, inode, name));
	else
		reply_result(req, removexattr(path, name) < 0 ? -errno : 0);
}

static void reply_xattr(fuse_req_t req, const char *buf, ssize_t len, size_t size)
{
	if (len < 0)
		reply_result(req, len);
	else if (!size) /* only the length is asked */
		fuse_reply_xattr(req, len);
	else if ((size_t)len > size)
		fuse_reply_err(req, ERANGE);
	else
		fuse_reply_buf(req, buf, len);
}

void attrs_getxattr(fuse_req_t req, fuse_ino_t node_id, const char *name, size_t size)
{
	char path[INODE_FD_PATH_SIZE], quota[QUOTA_VALUE_MAX];
	struct inode *inode = xattr_inode(req, node_id, name, path);
	char *buf = NULL;
	ssize_t len;

	if (!inode)
		return;
	if (quota_is_xattr(name) && !is_numa(name)) {
		len = quota_get(request_mount(req), inode, name, quota);
		reply_xattr(req, quota, len, size);
		return;
	}
	if (size > XATTR_SIZE_MAX)
		size = XATTR_SIZE_MAX;
	if (size) {
		buf = malloc(size);
		if (!buf) {
			fuse_reply_err(req, ENOMEM);
			return;
		}
	}
	len = getxattr(path, name, buf, size);
	reply_xattr(req, buf, len < 0 ? -errno : len, size);
	free(buf);
}

/* Remove the names that only the administrator is told of. Returns the new length. */
static size_t hide_trusted(char *list, size_t len)
{
	static const char trusted[] = "trusted.";
	size_t kept = 0, at, name_len;

	for (at = 0; at < len; at += name_len) {
		name_len = strnlen(list + at, len - at - 1) + 1;
		if (!strncmp(list + at, trusted, strlen(trusted)))
			continue;
		memmove(list + kept, list + at, name_len);
		kept += name_len;
	}
	return kept;
}

void attrs_listxattr(fuse_req_t req, fuse_ino_t node_id, size_t size)
{
	char path[INODE_FD_PATH_SIZE];
	struct inode *inode = xattr_inode(req, node_id, NULL, path);
	ssize_t len;
	char *list;

	if (!inode)
		return;
	list = malloc(XATTR_LIST_MAX);
	if (!list) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	len = listxattr(path, list, XATTR_LIST_MAX);
	if (len < 0)
		len = -errno;
	/* As simple_xattr_list(), which sees our capabilities instead of the caller's. */
	else if (fuse_req_ctx(req)->uid != 0)
		len = hide_trusted(list, len);
	if (len >= 0)
		len = quota_list(request_mount(req), inode, list, len, XATTR_LIST_MAX);
	reply_xattr(req, list, len, size);
	free(list);
}
