/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Proc use: which processes have files of a mount mapped or open, as /proc tells. Mappings by
 * the kernel (FUSE passthrough, or copies) and open descriptors are nowhere else to be seen;
 * direct mappings are in .hugefuse/maps, and not here.
 *
 * Processes of other users are skipped where the caller may not look at them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct proc_use {
	pid_t pid;
	uid_t uid;
	uint64_t inode;
	uint64_t shared, private; /* bytes that are mapped so */
	bool open;
	char comm[32];
};

struct proc_uses {
	struct proc_use *list;
	size_t count;
};

/*
 * What processes do with files of device @dev: with file @inode or with any (0), process @pid
 * or any (0). One entry for each process and file. @proc is "/proc", or made by a test. 0 or
 * -errno.
 */
int proc_uses_find(const char *proc, dev_t dev, uint64_t inode, pid_t pid,
		   struct proc_uses *ret_uses);
void proc_uses_free(struct proc_uses *uses);

/*
 * Read a line of /proc/PID/maps. Returns whether it is a mapping of a file of @dev, with its
 * length, inode and kind.
 */
bool proc_use_parse_maps_line(const char *line, dev_t dev, uint64_t *ret_inode,
			      uint64_t *ret_length, bool *ret_shared);
