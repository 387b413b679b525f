/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Handler of the ioctls of include/hugefuse_protocol.h.
 */
#pragma once

#include "fs/fuse_ops.h"

void ioctl_handle(fuse_req_t req, fuse_ino_t node_id, unsigned int cmd, void *arg,
		  struct fuse_file_info *fi, unsigned int flags, const void *in_buf,
		  size_t in_size, size_t out_size);
