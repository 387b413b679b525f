/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The rule of a file or directory, user.hugefuse.numa: an extended attribute of its inode in
 * names/, so that it stays with it. What is made in a directory gets the directory's.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "fs/inode.h"
#include "fs/numa_rule.h"

#define INODE_NUMA_XATTR "user.hugefuse.numa"

/*
 * setxattr(2), with its @flags, by somebody who may: 0; -EINVAL for what is no rule, or names a
 * node without memory; -EOPNOTSUPP for what the mount's backing cannot do.
 */
int inode_numa_set(struct mount *mount, struct inode *inode, const char *value, size_t size,
		   int flags);
int inode_numa_remove(struct mount *mount, struct inode *inode);
/* @inode was made in the directory @parent. 0 or -errno. */
int inode_numa_inherit(struct mount *mount, struct inode *parent, struct inode *inode);
/* The pages of @inode were just made. 0 or -errno. */
int inode_numa_use(struct mount *mount, struct inode *inode, struct page_space *pages);
/* The rule that @inode has, or none. */
struct numa_rule inode_numa_read(struct mount *mount, struct inode *inode);
