/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Adopt: take over what a daemon that was killed has left below /run/hugefuse: names/, data/
 * and state/. What is there is counted as it is; what was promised is read from the journal.
 *
 * Until the mount answers, whatever fails leaves everything as it was found, to be tried again.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "fs/mount.h"
#include "fs/process_maps.h"

/* What was found that belongs to no name, by which process. */
struct nameless {
	uint64_t old_ino;
	struct inode *inode; /* a reference */
};

struct adopted {
	struct vma_list vmas; /* of all processes, in files of data/ */
	struct nameless *nameless;
	size_t nr_nameless;
	int64_t nr_files, nr_garbage;
	bool lost_reservations;
};

/*
 * Look for what a dead daemon has left of @mount->mountpoint: 1, with the lock, the journal
 * read, and the options merged into @mount->options; 0 where there is nothing, or what was left
 * of setting up or taking down, which is given back. -EBUSY, -EUCLEAN, -EINVAL and others, with
 * one line in @error.
 */
int adopt_find(struct mount *mount, char *error, size_t error_size);
/* Set @mount up from it, as mount_init() does from nothing. */
int adopt_set_up(struct mount *mount, char *error, size_t error_size);
/* The files, once the counters are there. 0 or -errno. */
int adopt_files(struct mount *mount, struct adopted *adopted);
/* Count again what files without a name still hold, for their processes. backing=thp. */
void adopt_settle_strays(struct mount *mount);
/* A file without a name, whose reference is taken over on success. 0 or -ENOMEM. */
int adopted_add_nameless(struct adopted *adopted, uint64_t old_ino, struct inode *inode);
void adopted_free(struct mount *mount, struct adopted *adopted);

/* The pages that are lent to a dead mount by the kernel's pool. */
int64_t adopt_loan_pages(int state_fd);
/* Detach the mounts at @mountpoint whose daemon is dead. */
void adopt_detach_dead(const char *mountpoint);
/*
 * Give back what a dead daemon has left at @run_dir, whose state/ is open and locked as
 * @state_fd, which is closed.
 */
void adopt_clean_up(const char *run_dir, int state_fd);
