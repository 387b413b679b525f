/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Beside: the same operations on a hugefuse mount and on a tmpfs, whose results, and whose
 * files after it, have to be the same. To be used in children of the test: what differs is
 * printed and ends the process with status 1.
 */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "fixture.h"

extern struct fixture beside_fixture;
extern int beside_root[2];  /* the roots of hugefuse and of the tmpfs, once they are open */
extern char beside_op[512]; /* what was done before a difference was found */
extern const char *const beside_name[2];

/* Mount both; @options are hugefuse's. In the test itself. */
void beside_mount(const char *options);
void beside_mount_with(const char *options, const char *tmpfs_options);
void beside_umount(void);
/* Run @function(@data) in a child as user @uid, and fail unless it returns 0. */
void beside_run(int (*function)(void *data), void *data, uid_t uid);
/* Remove all files of both, in the test itself. */
void beside_empty(void);

/* In the child, at first. */
void beside_open(void);

__attribute__((format(printf, 1, 2), noreturn)) void differ(const char *format, ...);

void compare_number(const char *path, const char *what, long long a, long long b);
void compare_stat(const char *path, const struct stat *a, const struct stat *b);
void compare_content(const char *path, off_t size);
/* What a name stands for. Returns the type, 0 for nothing. */
mode_t compare_name(const char *path);
void compare_tree(const char *path, bool content);

/* Pass @fd on and close it. */
int close_after(int fd);
int make_file(int at, const char *path);
long truncate_at(int at, const char *path, off_t size);

/* Do the same on both sides ('at' is the root directory, 'side' its number), and compare. */
#define both(expression)                                                                      \
	({                                                                                    \
		int error_[2];                                                                \
		long value_[2];                                                               \
		snprintf(beside_op, sizeof(beside_op), "line %d: %s", __LINE__, #expression); \
		for (int side = 0; side < 2; side++) {                                        \
			int at = beside_root[side];                                           \
			(void)at;                                                             \
			errno = 0;                                                            \
			value_[side] = (long)(expression);                                    \
			error_[side] = value_[side] < 0 ? errno : 0;                          \
		}                                                                             \
		if (error_[0] != error_[1])                                                   \
			differ("hugefuse: %s, tmpfs: %s", strerror(error_[0]),                \
			       strerror(error_[1]));                                          \
		error_[0];                                                                    \
	})
/* The same, and the result has to be this errno (0: success) on both. */
#define both_give(expected, expression)                                                       \
	do {                                                                                  \
		int got_ = both(expression);                                                  \
		if (got_ != (expected))                                                       \
			differ("both: %s, expected: %s", strerror(got_), strerror(expected)); \
	} while (0)
/* The same, and the values are the same, too. */
#define both_equal(expression)                                                     \
	do {                                                                       \
		long equal_[2];                                                    \
		both((equal_[side] = (long)(expression)));                         \
		if (equal_[0] != equal_[1])                                        \
			differ("hugefuse: %ld, tmpfs: %ld", equal_[0], equal_[1]); \
	} while (0)
