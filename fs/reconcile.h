/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reconcile: where the kernel has given or taken pages without asking (clients without
 * userfaultfd, copies on write, madvise(2)), make the counters say what is.
 */
#pragma once

#include "fs/mapping.h"
#include "fs/mount.h"

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
/* One that was just adopted: what it has is found now. */
void reconcile_mapping(struct mapping *mapping);
/* All files and mappings. Blocks for as long as that takes. */
void reconcile_mount(struct mount *mount);
