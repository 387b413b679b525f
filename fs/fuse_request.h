/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the handlers of FUSE requests have in common: from a request to the mount and inode that
 * it is about, and replies with an entry. Everything that comes with a request is checked.
 */
#pragma once

#include "fs/fuse_ops.h"
#include "fs/inode.h"

/*
 * For how long, in seconds, the kernel may answer by itself. Names, and what does not change
 * but through this mount, for ever. Sizes and blocks of regular files change by mappings:
 * always ask. Only a file that is empty has nothing to map, and a mapping of it cannot make it
 * longer where its size is what is reserved: opening it, just made, spares a question.
 */
#define FUSE_TIMEOUT_FOREVER (10 * 365 * 86400.0)
#define FUSE_TIMEOUT_NONE    0.0

/* The most that one read, write or directory listing transfers, in bytes. */
#define FUSE_TRANSFER_MAX (1U << 20)

/* A request is freed by the reply: ask for this before. */
static inline struct mount *request_mount(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

/* Reply with an error given as a negative errno, or success for 0. */
static inline void reply_result(fuse_req_t req, int err)
{
	fuse_reply_err(req, -err);
}

/*
 * The inode of @node_id, without a reference. For a node of .hugefuse replies -EPERM, for one
 * that does not exist -ESTALE, and returns NULL.
 */
struct inode *request_inode(fuse_req_t req, fuse_ino_t node_id);
/* The open regular file of a request on @node_id, or NULL after a reply of -EBADF. */
struct open_file *request_file(fuse_req_t req, fuse_ino_t node_id, struct fuse_file_info *fi);

double attr_timeout(const struct mount *mount, const struct stat *st);
/* The entry for an inode, or for a node of .hugefuse. */
void fill_entry(const struct mount *mount, const struct stat *st,
		struct fuse_entry_param *ret_entry);
void fill_stats_entry(const struct stat *st, struct fuse_entry_param *ret_entry);
/* Reply with an entry; the caller's reference becomes FUSE's. */
void reply_entry(fuse_req_t req, struct inode *inode, const struct stat *st);

/* Whether @name in the directory @parent is that of .hugefuse. */
bool is_stats_name(const struct mount *mount, const struct inode *parent, const char *name);
/* 0, or -EINVAL for what is not the name of a directory entry ("", ".", "..", "a/b"). */
int check_name(const char *name);
/* Take away what lets a file run with other rights, as write(2) does to a file of a tmpfs. */
void drop_privileges_of(struct inode *inode, const struct fuse_ctx *writer);
/* Set the time of the last change to now: pages change without the names tmpfs. */
void touch_modified(struct inode *inode);
