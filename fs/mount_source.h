/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * source=: a directory that is there already, on hugetlbfs or tmpfs, from which the pages come
 * instead of from filesystems that the mount makes for itself. That takes no privileges, so it
 * is how ordinary users mount.
 *
 * The mount has a directory of its own in it, ".hugefuse-<random>", with mode 0700 and locked
 * while the daemon lives. On hugetlbfs it has the files with the pages; on tmpfs there is the
 * namespace in it, names/. It is removed with all that is in it at the end. What daemons that
 * were killed have left is removed by the next mount in the same directory, or of the same
 * mount point, once nothing leads to it any more.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "fs/options.h"

struct mount;
struct mount_pages;
struct pool_counts;

struct mount_source {
	int dir_fd; /* set at init; source=; -1: without */
	int fd;     /* set at init; the own directory in it */
	char name[32];
};

/*
 * Check source= and, for who is not root, all options; and set those that follow: backing and
 * page size from the filesystem, nosuid and nodev for users. -EINVAL with one line in @error.
 */
int mount_source_adapt(struct mount_options *options, char *error, size_t error_size);

/* Make the own directory. The state directory is there. 0, or -errno with one line in @error.
 */
int mount_source_make(struct mount *mount, char *error, size_t error_size);
/*
 * hugetlb: how many pages the mount has, which the kernel is asked for: it could reserve all of
 * them at this moment. None are set aside. -errno with one line in @error.
 */
int mount_source_resolve(struct mount *mount, const struct pool_counts *kernel,
			 struct mount_pages *ret_pages, int64_t *ret_node_pages, char *error,
			 size_t error_size);
/* thp: names/ in the own directory: a descriptor, or -errno with one line in @error. */
int mount_source_names(struct mount *mount, char *error, size_t error_size);
/* Remove the own directory, if there is one. */
void mount_source_deinit(struct mount *mount);

/* Remove the directory that state/ of a dead daemon tells of. */
void mount_source_clean_up(int state_fd);
/* Remove what a dead daemon has left of a mount on @mountpoint, if it is not mounted any more.
 */
void mount_source_forget(const char *mountpoint);
