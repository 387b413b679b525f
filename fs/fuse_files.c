// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Handlers of the FUSE requests on open files. Reads and writes go around the page cache
 * (FOPEN_DIRECT_IO), so that they are coherent with direct mappings. An open file holds a
 * reference to its inode: it works on after rename(2) and unlink(2).
 *
 * A file of .hugefuse has its text made at open, and anew whenever it is read from the start
 * again, as the kernel's own files; it is read in pieces of that.
 */
#include "fs/fuse_files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/cached.h"
#include "fs/file.h"
#include "fs/file_sized.h"
#include "fs/fuse_device.h"
#include "fs/fuse_names.h"
#include "fs/fuse_request.h"
#include "fs/passthrough.h"
#include "fs/reconcile.h"
#include "fs/stats.h"
#include "fs/tenant.h"

struct stats_handle {
	struct mutex lock;
	char *text; /* lock; NULL where it was opened for writing only */
	size_t len; /* lock */
	bool fresh; /* lock; nothing has been read of it yet */
};

static void free_stats_handle(struct stats_handle *handle)
{
	if (!handle)
		return;
	mutex_deinit(&handle->lock);
	free(handle->text);
	free(handle);
}

/* An open file, with a reference to @inode; -ESTALE where that is gone. */
static int new_open_file(struct mount *mount, struct inode *inode, int flags,
			 struct open_file **ret_file)
{
	struct open_file *file = malloc(sizeof(*file));
	int err;

	if (!file)
		return -ENOMEM;
	if (!inode_get(mount, inode)) {
		free(file);
		return -ESTALE;
	}
	*file = (struct open_file){.inode = inode, .flags = flags};
	file->passthrough_id = passthrough_get(mount, inode, flags & O_ACCMODE);
	if (file->passthrough_id < 0) {
		err = file->passthrough_id;
		passthrough_put(mount, inode);
		inode_put(mount, inode, 1);
		free(file);
		return err;
	}
	err = cached_open(mount, inode, (flags & O_ACCMODE) != O_RDONLY, &file->cached);
	if (err) {
		passthrough_put(mount, inode);
		inode_put(mount, inode, 1);
		free(file);
		return err;
	}
	*ret_file = file;
	return 0;
}

static void free_open_file(struct mount *mount, struct open_file *file)
{
	if ((file->flags & O_ACCMODE) != O_RDONLY)
		file_sized_trim(mount, file->inode);
	passthrough_put(mount, file->inode);
	if (file->cached)
		cached_close(file->inode);
	inode_put(mount, file->inode, 1);
	free(file);
}

/*
 * Reads and writes come to us, and go around the page cache. Where the file is only read, and
 * the kernel has the backing at hand, it can do that by itself.
 */
static void set_handle(struct fuse_file_info *fi, struct open_file *file)
{
	fi->fh = (uintptr_t)file;
	fi->direct_io = !file->cached &&
			(file->passthrough_id == 0 || (file->flags & O_ACCMODE) != O_RDONLY);
}

static void open_stats(fuse_req_t req, fuse_ino_t node_id, struct fuse_file_info *fi)
{
	struct stats_handle *handle = calloc(1, sizeof(*handle));
	int err = 0;

	if (!handle) {
		reply_result(req, -ENOMEM);
		return;
	}
	mutex_init(&handle->lock, LOCK_RANK_LEAF);
	handle->fresh = true;
	if ((fi->flags & O_ACCMODE) != O_WRONLY)
		err = stats_read(request_mount(req), node_id, &handle->text, &handle->len);
	if (err) {
		free_stats_handle(handle);
		reply_result(req, err);
		return;
	}
	fi->fh = (uintptr_t)handle;
	fi->direct_io = 1;
	if (fuse_reply_open(req, fi))
		free_stats_handle(handle);
}

static int truncate_opened(fuse_req_t req, struct open_file *file)
{
	int err;

	drop_privileges_of(file->inode, fuse_req_ctx(req));
	err = file_resize(request_mount(req), file->inode, 0);
	if (!err)
		touch_modified(file->inode);
	return err;
}

void files_open(fuse_req_t req, fuse_ino_t node_id, struct fuse_file_info *fi)
{
	struct mount *mount = request_mount(req);
	struct open_file *file = NULL;
	struct inode *inode;
	int err;

	if (stats_is_node(node_id)) {
		open_stats(req, node_id, fi);
		return;
	}
	inode = request_inode(req, node_id);
	if (!inode)
		return;
	if (!S_ISREG(inode->type)) {
		fuse_reply_err(req, S_ISDIR(inode->type) ? EISDIR : ENXIO);
		return;
	}
	err = new_open_file(mount, inode, fi->flags, &file);
	if (!err && (fi->flags & O_TRUNC)) {
		err = truncate_opened(req, file);
		if (err)
			free_open_file(mount, file);
	}
	if (err) {
		reply_result(req, err);
		return;
	}
	set_handle(fi, file);
	if (fuse_device_reply_open(req, NULL, fi, file->passthrough_id))
		free_open_file(mount, file); /* interrupted: there will be no release */
}

/* Make the file, or find it where somebody else was quicker and that is allowed. */
static int make_or_get(fuse_req_t req, struct inode *parent, const char *name, mode_t mode,
		       int flags, struct inode **ret_inode, struct stat *ret_stat)
{
	struct mount *mount = request_mount(req);
	int err;

	err = names_make(req, parent, name, (mode & ALLPERMS) | S_IFREG, 0, NULL, ret_inode,
			 ret_stat);
	if (err != -EEXIST || (flags & O_EXCL) || is_stats_name(mount, parent, name))
		return err;
	err = inode_get_child(mount, parent, name, ret_inode, ret_stat);
	if (!err && !S_ISREG((*ret_inode)->type)) {
		inode_put(mount, *ret_inode, 1);
		err = -EEXIST;
	}
	return err;
}

void files_create(fuse_req_t req, fuse_ino_t parent_id, const char *name, mode_t mode,
		  struct fuse_file_info *fi)
{
	struct mount *mount = request_mount(req);
	struct inode *parent = request_inode(req, parent_id), *inode;
	struct fuse_entry_param entry;
	struct open_file *file;
	struct stat st;
	int err;

	if (!parent)
		return;
	err = make_or_get(req, parent, name, mode, fi->flags, &inode, &st);
	if (err) {
		reply_result(req, err);
		return;
	}
	err = new_open_file(mount, inode, fi->flags, &file);
	if (err) {
		inode_put(mount, inode, 1);
		reply_result(req, err);
		return;
	}
	fill_entry(mount, &st, &entry);
	set_handle(fi, file);
	inode_add_lookup(inode);
	if (fuse_device_reply_open(req, &entry, fi, file->passthrough_id)) {
		free_open_file(mount, file);
		inode_forget(mount, inode, 1);
	}
}

void files_release(fuse_req_t req, fuse_ino_t node_id, struct fuse_file_info *fi)
{
	if (stats_is_node(node_id)) {
		free_stats_handle((struct stats_handle *)fi->fh);
	} else {
		free_open_file(request_mount(req), (struct open_file *)fi->fh);
	}
	fuse_reply_err(req, 0);
}

static bool is_to_be_renewed(struct stats_handle *handle, off_t offset)
{
	bool renew;

	mutex_lock(&handle->lock);
	renew = offset == 0 && !handle->fresh;
	handle->fresh = false;
	mutex_unlock(&handle->lock);
	return renew;
}

static int renew_stats(struct mount *mount, fuse_ino_t node_id, struct stats_handle *handle)
{
	char *text, *old;
	size_t len;
	int err = stats_read(mount, node_id, &text, &len);

	if (err)
		return err;
	mutex_lock(&handle->lock);
	old = handle->text;
	handle->text = text;
	handle->len = len;
	mutex_unlock(&handle->lock);
	free(old);
	return 0;
}

/* Copy what there is from @offset on: the number of bytes. */
static size_t copy_stats(struct stats_handle *handle, char *buf, size_t size, off_t offset)
{
	size_t len = 0;

	mutex_lock(&handle->lock);
	if (offset >= 0 && (size_t)offset < handle->len) {
		len = handle->len - (size_t)offset;
		len = len < size ? len : size;
		memcpy(buf, handle->text + offset, len);
	}
	mutex_unlock(&handle->lock);
	return len;
}

/* From a copy: once the kernel has the reply, another thread may release the handle. */
static void read_stats(fuse_req_t req, fuse_ino_t node_id, struct stats_handle *handle,
		       size_t size, off_t offset)
{
	char *copy;
	int err = 0;

	if (is_to_be_renewed(handle, offset))
		err = renew_stats(request_mount(req), node_id, handle);
	copy = err ? NULL : malloc(size ? size : 1);
	if (copy)
		fuse_reply_buf(req, copy, copy_stats(handle, copy, size, offset));
	else
		reply_result(req, err ? err : -ENOMEM);
	free(copy);
}

void files_read(fuse_req_t req, fuse_ino_t node_id, size_t size, off_t offset,
		struct fuse_file_info *fi)
{
	struct open_file *file;
	ssize_t len;
	char *buf;

	if (stats_is_node(node_id)) {
		read_stats(req, node_id, (struct stats_handle *)fi->fh, size, offset);
		return;
	}
	file = request_file(req, node_id, fi);
	if (!file)
		return;
	if (size > FUSE_TRANSFER_MAX)
		size = FUSE_TRANSFER_MAX;
	if (offset < 0 || offset > INT64_MAX - (off_t)size) {
		fuse_reply_err(req, EINVAL);
		return;
	}
	buf = malloc(size ? size : 1);
	if (!buf) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	len = file_read(request_mount(req), file->inode, buf, size, offset);
	if (len < 0)
		reply_result(req, len);
	else
		fuse_reply_buf(req, buf, len);
	free(buf);
}

static void reply_written(fuse_req_t req, ssize_t len)
{
	if (len < 0)
		reply_result(req, len);
	else
		fuse_reply_write(req, len);
}

void files_write(fuse_req_t req, fuse_ino_t node_id, const char *buf, size_t size, off_t offset,
		 struct fuse_file_info *fi)
{
	struct mount *mount = request_mount(req);
	struct open_file *file;
	ssize_t len;

	if (stats_is_node(node_id)) {
		reply_written(req, stats_write(mount, node_id, buf, size));
		return;
	}
	file = request_file(req, node_id, fi);
	if (!file)
		return;
	if ((file->flags & O_ACCMODE) == O_RDONLY) {
		fuse_reply_err(req, EBADF);
		return;
	}
	if (offset < 0 || size > INT64_MAX - (uint64_t)offset) {
		fuse_reply_err(req, offset < 0 ? EINVAL : EFBIG);
		return;
	}
	if (!size) {
		fuse_reply_write(req, 0);
		return;
	}
	drop_privileges_of(file->inode, fuse_req_ctx(req));
	/* O_APPEND may have been set or cleared since open: the request has what holds now. */
	len = file_write(mount, file->inode, buf, size, offset, fi->flags & O_APPEND);
	if (reconcile_or_wait(mount, len))
		len = file_write(mount, file->inode, buf, size, offset, fi->flags & O_APPEND);
	if (len > 0) {
		touch_modified(file->inode);
		inode_note_user(file->inode, fuse_req_ctx(req)->pid, fuse_req_ctx(req)->uid);
	}
	reply_written(req, tenant_note(mount, file->inode, len));
}

void files_fallocate(fuse_req_t req, fuse_ino_t node_id, int mode, off_t offset, off_t length,
		     struct fuse_file_info *fi)
{
	struct mount *mount = request_mount(req);
	struct open_file *file = request_file(req, node_id, fi); /* frees req where it fails */
	int err = 0;

	if (!file)
		return;
	if ((file->flags & O_ACCMODE) == O_RDONLY)
		err = -EBADF;
	else if (offset < 0 || length <= 0)
		err = -EINVAL;
	else if (length > INT64_MAX - offset)
		err = -EFBIG;
	if (!err) {
		/* What the kernel has put there without a word is to be punched, too. */
		reconcile_inode(mount, file->inode);
		err = file_fallocate(mount, file->inode, mode, offset, length);
	}
	if (reconcile_or_wait(mount, err))
		err = file_fallocate(mount, file->inode, mode, offset, length);
	if (!err) {
		touch_modified(file->inode);
		inode_note_user(file->inode, fuse_req_ctx(req)->pid, fuse_req_ctx(req)->uid);
	}
	reply_result(req, (int)tenant_note(mount, file->inode, err));
}

void files_lseek(fuse_req_t req, fuse_ino_t node_id, off_t offset, int whence,
		 struct fuse_file_info *fi)
{
	struct open_file *file = request_file(req, node_id, fi);
	off_t found;

	if (!file)
		return;
	if (whence != SEEK_DATA && whence != SEEK_HOLE)
		found = -EINVAL;
	else if (offset < 0)
		found = -ENXIO;
	else {
		reconcile_inode(request_mount(req), file->inode);
		found = file_seek(request_mount(req), file->inode, offset, whence);
	}
	if (found < 0)
		reply_result(req, found);
	else
		fuse_reply_lseek(req, found);
}
