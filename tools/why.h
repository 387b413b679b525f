/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Why: in words, why pages are held and what would free them. Pure: from a mount's snapshot and
 * what processes do with its files.
 */
#pragma once

#include "tools/mount_snapshot.h"
#include "tools/proc_use.h"

struct why_lines {
	char **lines;
	size_t count;
};

/* Text is escaped for terminals. */
struct why_report {
	char *subject;
	uint64_t resident, reserved; /* bytes */
	struct why_lines reasons, remedies;
	bool failed; /* no memory; everything after it is a no-op */
};

/* A file of the mount; @uses are those of its inode. 0 or -ENOMEM, as all three. */
int why_file(const struct mount_snapshot *mount, const struct snapshot_file *file,
	     const struct proc_uses *uses, struct why_report *ret_report);
/*
 * What is below directory @path, from the mount's root and without a slash at its end: "" is
 * the mount itself.
 */
int why_directory(const struct mount_snapshot *mount, const char *path,
		  struct why_report *ret_report);
/* A process; @uses are its own. */
int why_process(const struct mount_snapshot *mount, uint64_t pid, const struct proc_uses *uses,
		struct why_report *ret_report);
void why_report_deinit(struct why_report *report);
