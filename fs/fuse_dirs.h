/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Handlers of the FUSE requests on open directories.
 */
#pragma once

#include "fs/fuse_ops.h"

void dirs_opendir(fuse_req_t req, fuse_ino_t node_id, struct fuse_file_info *fi);
void dirs_readdir(fuse_req_t req, fuse_ino_t node_id, size_t size, off_t offset,
		  struct fuse_file_info *fi);
void dirs_readdirplus(fuse_req_t req, fuse_ino_t node_id, size_t size, off_t offset,
		      struct fuse_file_info *fi);
void dirs_releasedir(fuse_req_t req, fuse_ino_t node_id, struct fuse_file_info *fi);
