/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Target: what a script is executed on, hugefuse or the kernel's hugetlbfs. Both are a mount of
 * @max pages of which @min are set aside, at @dir.
 */
#pragma once

#include <stdbool.h>

#include "ballast.h"
#include "fixture.h"
#include "model.h"

struct target {
	bool is_kernel;
	bool mounted;
	long max, min;
	struct fixture fixture; /* hugefuse; its dir and before are used for the kernel, too */
	const char *dir;
	int probe_fd;       /* hugefuse: a file to ask through */
	int data_fd;        /* where statfs(2) tells the subpool's use */
	int counter_fds[4]; /* the kernel's */
	struct ballast ballast;
};

void target_mount(struct target *target, bool is_kernel, long max, long min,
		  const char *more_options);
/* Give everything back; fails the test if the machine is not as before. */
void target_umount(struct target *target);
/* What the kernel's counters say less what they said before, and statfs(2). */
struct counts target_kernel_counts(const struct target *target);
/* What hugefuse says of itself. */
struct counts target_hugefuse_counts(const struct target *target);
/* The same from the texts in .hugefuse; used is the sum over its files and maps. */
struct counts target_text_counts(const struct target *target);
