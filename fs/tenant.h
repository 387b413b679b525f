/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tenants: directories with a quota of their own, size= and min_size= as a mount has them. A
 * tenant has a subpool inside that of the tenant whose directory it is in, or the mount's, and
 * what is created in the directory, or below, is charged to it.
 *
 * Where an inode belongs is known from the directory that it was found in, when it is made
 * (inode->tenant), and stays: a directory becomes a tenant only while it is empty, and nothing
 * is renamed or linked from one tenant to another (-EXDEV, as with the kernel's project
 * quotas). So whatever name an inode is found by, its tenant is the same. A tenant whose quota
 * was removed lets everything through to the one around it, until the last file that was
 * charged to it has gone.
 *
 * References are those of the subpool: each inode's, each page space's. The tenant holds one to
 * its directory's inode while it has a quota.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fs/lock.h"
#include "fs/subpool.h"

struct inode;
struct mount;
struct tenant;

struct tenants {
	struct mutex lock;   /* LOCK_RANK_NAMESPACE; the tenant of each directory */
	struct tenant *list; /* lock; those with a quota */
	_Atomic uint32_t nr; /* lock, but for a look; how many are in the list */
};

void tenants_init(struct tenants *tenants);
/* End all quotas. Nothing is running any more; the inodes are still there. */
void tenants_deinit(struct mount *mount);

/* The tenant of what is found in the directory @parent, with a reference; NULL: the mount. */
struct tenant *tenant_of_child(struct mount *mount, struct inode *parent);
/* NULL-safe. */
void tenant_unref(struct tenant *tenant);

/* What the pages of a regular file are charged to. Valid as long as the caller has the inode.
 */
struct subpool *tenant_subpool_of_file(struct mount *mount, const struct inode *inode);
/* What @inode, of any type, is charged to, with a reference. */
struct subpool *tenant_subpool(struct mount *mount, const struct inode *inode);
/* Whether what is in two directories belongs to the same tenant, or a file and a directory. */
bool tenant_is_same(struct mount *mount, const struct inode *a, const struct inode *b);

#define TENANT_KEEP (-2) /* the limit stays as it is */
/*
 * Let the directory @dir have a quota of @max (SUBPOOL_NO_LIMIT: none) and @min pages; with
 * neither it has none any more. The caller keeps @dir from changing, as the kernel does during
 * a request on its attributes. 0; -ENOTEMPTY where it has no quota and is not empty, -EINVAL
 * for @min > @max, -ENOSPC where @min cannot be set aside, -ENOTDIR, -EOPNOTSUPP for the
 * mount's root, -ENOENT for a directory that was removed, -ENOMEM.
 */
int tenant_set(struct mount *mount, struct inode *dir, int64_t max, int64_t min);
/* @dir may have been removed: then its quota ends. */
void tenant_dir_removed(struct mount *mount, struct inode *dir);

/* What there is to know of one, at one instant. */
struct tenant_info {
	struct inode *dir;
	struct subpool_reading reading;
};

/* The numbers of the directory @dir; those of the mount for its root. -ENODATA: no quota. */
int tenant_read(struct mount *mount, struct inode *dir, struct tenant_info *ret_info);
/* How many pages there are for what @dir is in. */
int64_t tenant_size_around(struct mount *mount, const struct inode *dir);
/*
 * The mount, and all tenants, at one instant, malloc()ed, with references to the directories.
 * Returns their number or -ENOMEM.
 */
int64_t tenants_read(struct mount *mount, struct tenant_info **ret_infos);
void tenants_free(struct mount *mount, struct tenant_info *infos, int64_t nr);

/* Count a request that was refused to @inode if @error is for want of pages. Returns @error. */
int64_t tenant_note(struct mount *mount, const struct inode *inode, int64_t error);
