/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Expect: what must hold after each failure. */
#pragma once

#include "fixture.h"

struct mount_counts {
	long nr, free, resv, surplus, nr_fds; /* pages, and the daemon's descriptors */
};

struct expectation {
	struct mount_counts counts;
	struct kernel_counts kernel;
};

struct expectation expectation_now(const struct fixture *fixture);
/*
 * Fail the test unless the mount's counters, the kernel's, and the daemon's descriptors are as
 * @before, and nothing is mapped, in two seconds. @name is of what has been done.
 */
void expect_as_before(const struct fixture *fixture, struct expectation *before,
		      const char *name);
/* Wait for @child, and fail the test where it hangs, has died of a signal, or says EFAULT: a
 * SIGBUS where pages are reserved. Returns its exit status, 0 or errno. */
int expect_end(pid_t child, const char *name);
/* Remove all files of the mount. */
void remove_files(const struct fixture *fixture);
