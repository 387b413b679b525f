/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * User: mounts of a user who is not root, in a directory and a mount namespace of the test's
 * own. In the directory are
 *
 *	mnt	where it mounts		plain	a tmpfs to compare with
 *	run	$XDG_RUNTIME_DIR	huge	a hugetlbfs of the user's
 *	bin	copies of the program
 *
 * and /dev/shm is a tmpfs of the test's. Everything fails the running cmocka test.
 */
#pragma once

#include "fixture.h"
#include "raw_client.h"

#define USER_ID     65534 /* nobody: fusermount3 wants to know the name */
#define OTHER_ID    12345
#define OTHER_GROUP 23456 /* the user is in it as well */
#define USER_PAGES  16
#define SHM_BYTES   ((off_t)256 * 1024 * 1024)

extern const char *user_runtime_dir;      /* NULL: it has none; as before after each test */
extern void (*user_before_exec)(void);    /* in the child, until the next test; or NULL */
extern const char *const user_fusermount; /* the program's path */

/*
 * For cmocka, before and after all tests: that, and USER_PAGES more pages in the kernel's pool.
 * Fails where fusermount3 is not installed.
 */
int user_begin(void **state);
int user_end(void **state);
/* After each test, be it that it has failed: no mount, and things as they were at first. */
int user_end_test(void **state);

/* A path in the directory, in one of a few static buffers. */
const char *user_path(const char *name);
/* Mount something over @target: a device node of that mode, or @source. user_unset() uncovers.
 */
void user_set_device(const char *target, mode_t mode);
void user_cover(const char *source, const char *target);
void user_unset(const char *target);
void user_write(const char *name, const char *text);
/* The path of the entry of @dir whose name begins with @prefix. */
void user_find(const char *dir, const char *prefix, char *ret_path, size_t size);

/* Mount with @options, in which %s is the directory. */
void user_mount(const char *options);
/* hugefuse umount by the user, and user_expect_nothing_left(). */
void user_umount(void);
/* Send the daemon a signal, and wait until it has ended. */
void user_signal(int signal);
/* No daemon, no mount, and nothing in any directory. */
void user_expect_nothing_left(void);
/* Mounting fails with one line that has @text in it, and leaves nothing. NULL: no options. */
void user_refused(const char *text, const char *options);

/* Run the program, or another one, as the user; the exit code. What it said: user_output(). */
int user_hugefuse(const char *argument, ...);
int user_exec(const char *program, ...);
const char *user_output(void);
/* As run_child() and start_child(), with the groups that the user has. */
int user_run(int (*function)(void *data), void *data, int timeout_ms);
pid_t user_start(int (*function)(void *data), void *data);
/* Make a file in the directory as the user, with a byte in it. */
void user_touch(const char *name);

/* A counter of the mount, which the user may read; and an option in force, "backing=". */
long user_counter(const char *name);
const char *user_option(const char *name);
/* Whether a line of the file, as the user reads it, has @text in it. */
bool user_has_line(const char *name, const char *text);
/* KernelPageSize of the mapping at @addr, in bytes. */
unsigned long user_kernel_page_size(const void *addr);
