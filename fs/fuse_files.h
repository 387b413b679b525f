/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Handlers of the FUSE requests on open files: content and ioctls.
 */
#pragma once

#include "fs/fuse_ops.h"

void files_create(fuse_req_t req, fuse_ino_t parent_id, const char *name, mode_t mode,
		  struct fuse_file_info *fi);
void files_open(fuse_req_t req, fuse_ino_t node_id, struct fuse_file_info *fi);
void files_release(fuse_req_t req, fuse_ino_t node_id, struct fuse_file_info *fi);
void files_read(fuse_req_t req, fuse_ino_t node_id, size_t size, off_t offset,
		struct fuse_file_info *fi);
void files_write(fuse_req_t req, fuse_ino_t node_id, const char *buf, size_t size, off_t offset,
		 struct fuse_file_info *fi);
void files_fallocate(fuse_req_t req, fuse_ino_t node_id, int mode, off_t offset, off_t length,
		     struct fuse_file_info *fi);
void files_lseek(fuse_req_t req, fuse_ino_t node_id, off_t offset, int whence,
		 struct fuse_file_info *fi);
