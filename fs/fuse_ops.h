/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * FUSE low-level operations: the namespace and file content, between libfuse and fs/inode,
 * fs/file and fs/stats. Requests run on libfuse's threads, and no lock is held when a reply is
 * sent.
 */
#pragma once

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

#include "fs/mount.h"

/* The operations, for fuse_session_new() with a struct mount as user data. */
extern const struct fuse_lowlevel_ops fuse_ops;

/* The open file of a request on a regular file: what fi->fh points to. */
struct open_file {
	struct inode *inode;
	int flags;              /* of open(2) */
	int32_t passthrough_id; /* 0: none */
	bool cached;            /* opened with the page cache */
};
