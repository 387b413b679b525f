/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Handlers of the FUSE requests on the directory tree.
 */
#pragma once

#include "fs/fuse_ops.h"

void names_lookup(fuse_req_t req, fuse_ino_t parent_id, const char *name);
void names_forget(fuse_req_t req, fuse_ino_t node_id, uint64_t nr);
void names_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets);
void names_mknod(fuse_req_t req, fuse_ino_t parent_id, const char *name, mode_t mode,
		 dev_t dev);
void names_mkdir(fuse_req_t req, fuse_ino_t parent_id, const char *name, mode_t mode);
void names_symlink(fuse_req_t req, const char *target, fuse_ino_t parent_id, const char *name);
void names_readlink(fuse_req_t req, fuse_ino_t node_id);
void names_link(fuse_req_t req, fuse_ino_t node_id, fuse_ino_t parent_id, const char *name);
void names_unlink(fuse_req_t req, fuse_ino_t parent_id, const char *name);
void names_rmdir(fuse_req_t req, fuse_ino_t parent_id, const char *name);
void names_rename(fuse_req_t req, fuse_ino_t parent_id, const char *name,
		  fuse_ino_t new_parent_id, const char *new_name, unsigned int flags);

/*
 * Make a file, directory, device, ... that belongs to the caller of @req (for a symbolic link
 * @mode is S_IFLNK, and @target what it says). The inode with a reference, and its attributes;
 * or -errno.
 */
int names_make(fuse_req_t req, struct inode *parent, const char *name, mode_t mode, dev_t dev,
	       const char *target, struct inode **ret_inode, struct stat *ret_stat);
