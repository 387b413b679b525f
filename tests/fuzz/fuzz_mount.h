/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A mount without FUSE, root or huge pages: names in a directory of its own, pages in memory,
 * the fault service and the control thread as in a daemon.
 */
#pragma once

#include "fs/backing_mem.h"
#include "fs/mount.h"

#define FUZZ_PAGES     32
#define FUZZ_PAGE_SIZE (2ULL << 20)

struct fuzz_mount {
	struct mount mount;
	struct mount_options options;
	struct backing_mem mem;
	struct backing_ops ops;
	char dir[64];
	int content_fd; /* what clients get to map */
};

/* Set up, with regular files called "0" to "3", or abort. It goes with the process. */
struct fuzz_mount *fuzz_mount_new(void);
/* File @number, with a reference. */
struct inode *fuzz_mount_file(struct fuzz_mount *fuzz, int number);
/* End the services, which drops all clients, and start new ones. */
void fuzz_mount_restart(struct fuzz_mount *fuzz);
/* What the fuzzer has left is given back, and all counters are as in the beginning, or abort.
 */
void fuzz_mount_check(struct fuzz_mount *fuzz);

/* Say what has gone wrong, and abort. */
_Noreturn void fuzz_fail(const char *what);
