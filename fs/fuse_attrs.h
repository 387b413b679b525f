/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Handlers of the FUSE requests on attributes, extended attributes and the whole mount.
 */
#pragma once

#include "fs/fuse_ops.h"

void attrs_getattr(fuse_req_t req, fuse_ino_t node_id, struct fuse_file_info *fi);
void attrs_setattr(fuse_req_t req, fuse_ino_t node_id, struct stat *attr, int to_set,
		   struct fuse_file_info *fi);
void attrs_statfs(fuse_req_t req, fuse_ino_t node_id);
void attrs_setxattr(fuse_req_t req, fuse_ino_t node_id, const char *name, const char *value,
		    size_t size, int flags);
void attrs_getxattr(fuse_req_t req, fuse_ino_t node_id, const char *name, size_t size);
void attrs_listxattr(fuse_req_t req, fuse_ino_t node_id, size_t size);
void attrs_removexattr(fuse_req_t req, fuse_ino_t node_id, const char *name);
