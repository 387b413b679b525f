/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reconcile: where the kernel has given or taken pages without asking (clients without
 * userfaultfd, copies on write, madvise(2)), make the counters say what is.
 */
#pragma once

#include "fs/mapping.h"
#include "fs/mount.h"

/* What reconcile_mount() does but for files, for those who look at each of them anyway. */
void reconcile_private_mappings(struct mount *mount);
/* One file's pages, whose inode in names/ is as @st tells just now. */
void reconcile_look(struct mount *mount, struct inode *inode, const struct stat *st);
/* One file's pages; nothing is looked at in detail while the number of pages agrees. */
void reconcile_inode(struct mount *mount, struct inode *inode);
/*
 * An operation has failed with @error: if that was for want of a page, reconcile everything and
 * return true, as it may succeed now.
 */
bool reconcile_may_help(struct mount *mount, int64_t error);
/*
 * The same, and wait, at most a tenth of a second, for pages that are about to be freed: of
 * processes that have exited, and of files without a name that were closed, of which the kernel
 * tells in its own time. Not for faults, which must not wait for others.
 */
bool reconcile_or_wait(struct mount *mount, int64_t error);
/* All files and mappings. Blocks for as long as that takes. */
void reconcile_mount(struct mount *mount);
/*
 * The same for those who want to know the counters of the whole mount only: where one look
 * tells that they are right, no file is looked at.
 */
void reconcile_counters(struct mount *mount);
