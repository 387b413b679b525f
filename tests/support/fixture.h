/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fixture: a hugefuse mount of one's own in a directory of one's own, whose teardown asserts
 * that the daemon ended well, said nothing suspicious, and left the machine as it was.
 *
 * $TEST_FILTER ("punch*") chooses tests, $TEST_BACKING the backing= of the mounts. The program
 * under test is $HUGEFUSE, or build/tools/hugefuse as meson knows it. Everything fails the
 * running cmocka test with a message that says what was expected.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#define SKIP_EXIT 77 /* what meson takes for "skipped" */
#define MB        (1024UL * 1024)
#define PAGE_2M   (2 * MB)

/* The kernel's /sys/kernel/mm/hugepages counters of one page size. */
struct kernel_counts {
	long nr, free, resv, surplus, overcommit;
};

struct fixture {
	char dir[64]; /* the mount point */
	char log[80]; /* what the daemon printed */
	pid_t daemon; /* 0: not running */
	unsigned long page_size;
	struct kernel_counts before;
	const char *expected; /* what the daemon is to say once, else it says nothing bad */
	bool excused;         /* it may say that something failed */
};

/* Exit with SKIP_EXIT, saying why, unless this is root and has /dev/fuse. Call it first in
 * main(). */
void require_root(void);
/* Exit with SKIP_EXIT unless the kernel can make @nr pages of @page_size bytes; leaves things
 * as they are. */
void require_pages(unsigned long page_size, long nr);
bool pages_are_to_be_had(unsigned long page_size, long nr);

struct kernel_counts kernel_counts_read(unsigned long page_size);
/* Set nr_hugepages, and fail where it is not obeyed. */
void kernel_pool_set(unsigned long page_size, long nr);
void kernel_overcommit_set(unsigned long page_size, long nr);

/* $TEST_SCALE, or 1: how many times as much a test that repeats something is to do. */
long test_scale(void);

/* $TEST_BACKING, or hugetlb. */
const char *fixture_backing(void);
/* Mount with @options ("size=64M,..."), waiting for it at most ten seconds. */
void fixture_mount(struct fixture *fixture, const char *options);
/* Unmount with hugefuse umount, and assert that all is as before. */
void fixture_umount(struct fixture *fixture);
/* kill -9 the daemon and wait until it is gone. fixture_umount() then gives back what it left.
 */
void fixture_kill(struct fixture *fixture);
/* Mount again where a daemon was killed. fixture_start() returns before it answers. */
void fixture_restart(struct fixture *fixture, const char *options);
void fixture_start(struct fixture *fixture, const char *options);
/* Wait for the daemon that was started to end, at most ten seconds; its exit code. */
int fixture_wait_end(struct fixture *fixture);
/* Run the program with arguments (NULL-terminated); returns its exit code. */
int run_hugefuse(const char *argument, ...);

/* A number from .hugefuse/hugepages-XkB/NAME of the mount. */
long fixture_counter(const struct fixture *fixture, const char *name);
/* All of .hugefuse/NAME, malloc()ed. */
char *fixture_text(const struct fixture *fixture, const char *name);
/* A value from .hugefuse/fault_stat, and a path on the mount ("dir/name", in a static buffer).
 */
long fixture_fault_stat(const struct fixture *fixture, const char *name);
const char *fixture_path(const struct fixture *fixture, const char *name);
/* How many lines of .hugefuse/maps are of ranges that clients of the library have mapped. */
long fixture_nr_mapped(const struct fixture *fixture);
/* Descriptors of the daemon, but for its copies of /dev/fuse, of which each thread has one; and
 * the processor time that it has used, in milliseconds. */
long fixture_nr_fds(const struct fixture *fixture);
long fixture_cpu_ms(const struct fixture *fixture);
/* A file on the mount, open and @size bytes long. */
int fixture_file(const struct fixture *fixture, const char *name, int flags, off_t size);

/*
 * Wait until @condition(@data) is true, at most @timeout_ms; returns whether it is. For what
 * becomes true by another process's doing and has no event of its own.
 */
bool wait_until(bool (*condition)(void *data), void *data, int timeout_ms);
/* Wait until a counter of the mount has @value, and fail after two seconds. */
void fixture_expect_counter(const struct fixture *fixture, const char *name, long value);

/*
 * Run @function(@data) in a forked child, as user @uid (0: root), and return its exit status,
 * or 1000 + the signal that ended it. Fails the test after @timeout_ms.
 */
int run_child(int (*function)(void *data), void *data, uid_t uid, int timeout_ms);
pid_t start_child(int (*function)(void *data), void *data, uid_t uid);
int wait_child(pid_t child, int timeout_ms);
/* Whether it has ended; it is still to be waited for. */
bool child_has_ended(pid_t child);
/* The same, but it is CHILD_TIMED_OUT where the child had to be killed. */
int reap_child(pid_t child, int timeout_ms);
#define CHILD_TIMED_OUT 2000

/* Whether touching the byte at @addr raises SIGBUS. Thread-safe. */
bool raises_sigbus(volatile char *addr, bool write);
