/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Quotas of directories as extended attributes: user.hugefuse.size and user.hugefuse.min_size,
 * a size as in the mount options ("4G", "50%": of what the directory is in) or "none"; and
 * user.hugefuse.quota, a list ("size=4G,min_size=1G") that is set at once, and says what there
 * is to know in bytes: "size=4294967296,min_size=0,used=0,reserved=0,files=0,refused=0".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "fs/fuse_ops.h"
#include "fs/inode.h"

/* Whether it is one of ours, or looks like one. */
bool quota_is_xattr(const char *name);
/* setxattr(2) by the caller of @req. 0 or -errno. */
int quota_set(fuse_req_t req, struct inode *inode, const char *name, const char *value,
	      size_t size, int flags);
int quota_remove(fuse_req_t req, struct inode *inode, const char *name);
#define QUOTA_VALUE_MAX 256
/* The value, without a NUL at the end. Its length or -ENODATA. */
ssize_t quota_get(struct mount *mount, struct inode *inode, const char *name,
		  char value[QUOTA_VALUE_MAX]);
/* Add the names that @inode has to a list of @len bytes with room for @size. The new length. */
size_t quota_list(struct mount *mount, struct inode *inode, char *list, size_t len,
		  size_t size);
