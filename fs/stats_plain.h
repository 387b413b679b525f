/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Plain mappings: made by mmap(2) without the library, so that nobody told us. The kernel shows
 * them in /proc/PID/maps, in whatever namespace the process is, with the device of the mount or
 * of names/, and the inode number that both have in common.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "fs/mount.h"

struct plain_mapping {
	pid_t pid;
	uint64_t start, end, offset; /* bytes */
	uint64_t ino;
	bool is_private;
};

/*
 * Call @visit for each, of mounts whose files can be mapped so, one process after the other,
 * until it returns non-zero, which is returned. Looking takes 50 ms of processor time at most:
 * where that is not enough for all processes, the next call begins where this one ended. 0 or
 * -errno.
 */
int plain_for_each(struct mount *mount,
		   int (*visit)(const struct plain_mapping *plain, void *data), void *data);
