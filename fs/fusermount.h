/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Mounting FUSE without being root, which fusermount3(1) does: what it needs, unmounting by it,
 * and what it says when it refuses. No locks.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* What this user lacks for mounting: 0, or -errno with one line in @error. */
int fusermount_check(bool allow_other, char *error, size_t error_size);
/*
 * Unmount @mountpoint, @lazy while it is in use. 0, -EBUSY, or -EPERM with what fusermount3
 * says in @error.
 */
int fusermount_unmount(const char *mountpoint, bool lazy, char *error, size_t error_size);
/* Whether a hugefuse is mounted on @mountpoint, and by whom. */
bool fusermount_find(const char *mountpoint, uid_t *ret_uid, gid_t *ret_gid);

/* What is written to standard error in between, by whichever process. */
struct stderr_catch {
	int saved, file; /* -1: nothing is caught */
};
void stderr_catch_begin(struct stderr_catch *catch);
/* The last line of it, or of fusermount3's; empty where there is none. */
void stderr_catch_end(struct stderr_catch *catch, char *ret_line, size_t size);
