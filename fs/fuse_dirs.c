// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Handlers of the FUSE requests on open directories. Offsets are those of a directory stream of
 * the private tmpfs, one for each open directory, so that nothing is lost or shown twice when
 * entries come and go. An entry that did not fit into a reply is kept for the next one: on
 * kernels before 6.6 a tmpfs' offsets count entries, and only a stream that is not moved stays
 * right.
 *
 * The kernel does not send two requests on one open directory at a time (f_pos_lock).
 * Directories of .hugefuse have no handle; their offsets are indexes.
 */
#include "fs/fuse_dirs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/fuse_request.h"
#include "fs/stats.h"

/* No entry of a readdirplus reply is shorter: struct fuse_entry_out. */
#define DIRENTPLUS_SIZE_MIN 128

struct dir_handle {
	struct inode *inode; /* with a reference */
	DIR *stream;
	off_t offset;           /* behind the last entry that was replied */
	struct dirent *pending; /* read, not replied yet; in the stream's buffer */
};

/* A reply that is being filled. */
struct dir_reply {
	fuse_req_t req;
	bool plus;
	char *buf;
	size_t size, len;
	struct inode **inodes; /* plus: looked up, their references will be FUSE's */
	size_t nr_inodes;
};

static int init_reply(struct dir_reply *reply, fuse_req_t req, size_t size, bool plus)
{
	if (size > FUSE_TRANSFER_MAX)
		size = FUSE_TRANSFER_MAX;
	*reply = (struct dir_reply){.req = req, .plus = plus, .size = size};
	reply->buf = malloc(size ? size : 1);
	if (plus)
		reply->inodes = calloc(size / DIRENTPLUS_SIZE_MIN + 1, sizeof(*reply->inodes));
	if (reply->buf && (!plus || reply->inodes))
		return 0;
	free(reply->buf);
	free(reply->inodes);
	return -ENOMEM;
}

/* Send what there is; an error only where there is nothing. */
static void send_reply(struct dir_reply *reply, int err)
{
	struct mount *mount = request_mount(reply->req);
	size_t i;

	if (err && !reply->len) {
		reply_result(reply->req, err);
	} else if (fuse_reply_buf(reply->req, reply->buf, reply->len)) {
		/* Interrupted: the kernel does not know of the lookups. */
		for (i = 0; i < reply->nr_inodes; i++)
			inode_forget(mount, reply->inodes[i], 1);
	}
	free(reply->buf);
	free(reply->inodes);
}

/* Add an entry. False where it does not fit any more. */
static bool add_entry(struct dir_reply *reply, const char *name,
		      const struct fuse_entry_param *entry, off_t next_offset)
{
	size_t room = reply->size - reply->len, len;
	char *end = reply->buf + reply->len;

	if (reply->plus)
		len = fuse_add_direntry_plus(reply->req, end, room, name, entry, next_offset);
	else
		len = fuse_add_direntry(reply->req, end, room, name, &entry->attr, next_offset);
	if (len > room)
		return false;
	reply->len += len;
	return true;
}

static bool is_dot_or_dotdot(const char *name)
{
	return !strcmp(name, ".") || !strcmp(name, "..");
}

/*
 * Add what @dirent stands for; with readdirplus as a lookup. 1: added, 0: does not fit,
 * -ENOENT: it is not there any more.
 */
static int add_dirent(struct dir_reply *reply, struct dir_handle *dir,
		      const struct dirent *dirent)
{
	struct mount *mount = request_mount(reply->req);
	struct fuse_entry_param entry = {};
	struct inode *inode = NULL;
	struct stat st;
	int err = 0;

	/* Node id 0: what the kernel has to look up for itself. */
	entry.attr.st_ino = dirent->d_ino;
	entry.attr.st_mode = DTTOIF(dirent->d_type);
	if (is_dot_or_dotdot(dirent->d_name)) {
		/* The parent of the root is outside, and nobody's business. */
		if (dir->inode->ino == mount->inodes.root_ino ||
		    dirent->d_ino == mount->inodes.root_ino)
			entry.attr.st_ino = FUSE_ROOT_ID;
	} else if (reply->plus) {
		err = inode_get_child(mount, dir->inode, dirent->d_name, &inode, &st);
		if (err == -ENOENT)
			return err;
		if (!err)
			fill_entry(mount, &st, &entry);
	}
	if (!add_entry(reply, dirent->d_name, &entry, dirent->d_off)) {
		inode_put(mount, inode, 1);
		return 0;
	}
	if (inode) {
		inode_add_lookup(inode);
		reply->inodes[reply->nr_inodes++] = inode;
	}
	return 1;
}

static int next_dirent(struct dir_handle *dir, struct dirent **ret_dirent)
{
	if (!dir->pending) {
		errno = 0;
		dir->pending = readdir(dir->stream);
		if (!dir->pending && errno)
			return -errno;
	}
	*ret_dirent = dir->pending;
	return 0;
}

static int read_entries(struct dir_reply *reply, struct dir_handle *dir, off_t offset)
{
	struct dirent *dirent = NULL;
	int ret;

	if (offset != dir->offset) {
		seekdir(dir->stream, offset);
		dir->pending = NULL;
		dir->offset = offset;
	}
	for (;;) {
		ret = next_dirent(dir, &dirent);
		if (ret || !dirent)
			return ret;
		ret = add_dirent(reply, dir, dirent);
		if (!ret)
			return 0;
		dir->offset = dirent->d_off;
		dir->pending = NULL;
	}
}

/* The @index-th entry of a directory of .hugefuse, with "." and ".." first. */
static int stats_dirent(struct mount *mount, uint64_t node_id, off_t index, char *ret_name,
			size_t name_size, struct fuse_entry_param *ret_entry)
{
	struct stat st;
	int err;

	if (index < 2) {
		strcpy(ret_name, index ? ".." : ".");
		*ret_entry = (struct fuse_entry_param){
			.attr = {.st_ino = node_id, .st_mode = S_IFDIR},
		};
		return 0;
	}
	err = stats_entry(mount, node_id, index - 2, ret_name, name_size, &st);
	if (!err)
		fill_stats_entry(&st, ret_entry);
	return err;
}

static int read_stats_entries(struct dir_reply *reply, uint64_t node_id, off_t offset)
{
	struct mount *mount = request_mount(reply->req);
	struct fuse_entry_param entry;
	char name[NAME_MAX + 1];
	int err;

	for (;; offset++) {
		err = stats_dirent(mount, node_id, offset, name, sizeof(name), &entry);
		if (err)
			return err == -ENOENT ? 0 : err;
		if (!add_entry(reply, name, &entry, offset + 1))
			return 0;
	}
}

static void read_dir(fuse_req_t req, fuse_ino_t node_id, size_t size, off_t offset,
		     struct fuse_file_info *fi, bool plus)
{
	struct dir_handle *dir = (struct dir_handle *)fi->fh;
	struct dir_reply reply;
	int err;

	if (offset < 0 || (!stats_is_node(node_id) && !dir)) {
		fuse_reply_err(req, offset < 0 ? EINVAL : EBADF);
		return;
	}
	err = init_reply(&reply, req, size, plus);
	if (err) {
		reply_result(req, err);
		return;
	}
	if (stats_is_node(node_id))
		err = read_stats_entries(&reply, node_id, offset);
	else
		err = read_entries(&reply, dir, offset);
	send_reply(&reply, err);
}

void dirs_readdir(fuse_req_t req, fuse_ino_t node_id, size_t size, off_t offset,
		  struct fuse_file_info *fi)
{
	read_dir(req, node_id, size, offset, fi, false);
}

void dirs_readdirplus(fuse_req_t req, fuse_ino_t node_id, size_t size, off_t offset,
		      struct fuse_file_info *fi)
{
	read_dir(req, node_id, size, offset, fi, true);
}

static void free_dir(struct mount *mount, struct dir_handle *dir)
{
	closedir(dir->stream);
	inode_put(mount, dir->inode, 1);
	free(dir);
}

static int open_stream(struct inode *inode, DIR **ret_stream)
{
	int fd = openat(inode->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int err;

	if (fd < 0)
		return -errno;
	*ret_stream = fdopendir(fd);
	if (*ret_stream)
		return 0;
	err = -errno;
	close(fd);
	return err;
}

void dirs_opendir(fuse_req_t req, fuse_ino_t node_id, struct fuse_file_info *fi)
{
	struct mount *mount = request_mount(req);
	struct dir_handle *dir;
	struct inode *inode;
	int err;

	if (stats_is_node(node_id)) {
		fuse_reply_open(req, fi);
		return;
	}
	inode = request_inode(req, node_id);
	if (!inode)
		return;
	dir = calloc(1, sizeof(*dir));
	err = dir ? open_stream(inode, &dir->stream) : -ENOMEM;
	if (err) {
		free(dir);
		reply_result(req, err);
		return;
	}
	dir->inode = inode_ref(inode);
	fi->fh = (uintptr_t)dir;
	if (fuse_reply_open(req, fi))
		free_dir(mount, dir);
}

void dirs_releasedir(fuse_req_t req, fuse_ino_t node_id, struct fuse_file_info *fi)
{
	if (!stats_is_node(node_id) && fi->fh)
		free_dir(request_mount(req), (struct dir_handle *)fi->fh);
	fuse_reply_err(req, 0);
}
