/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Mount: all that one mount has: the private filesystems below /run/hugefuse/<name>/, the pages
 * taken from the kernel, the counters, the inodes. Setting it up changes the machine step by
 * step, and each step is undone in the opposite order, also when a later one fails.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "fs/backing.h"
#include "fs/inode.h"
#include "fs/options.h"
#include "fs/page.h"

struct control;
struct fault_service;

struct mount {
	const struct mount_options *options; /* set at init */
	const char *mountpoint;              /* set at init; absolute */
	char run_dir[PATH_MAX];              /* set at init; /run/hugefuse/<name> */
	int names_fd;                        /* set at init; O_PATH of names/ */
	int nr_nodes;                        /* set at init; memory nodes of the machine */
	struct backing *backing;             /* set at init */
	struct page_core core;
	struct inode_table inodes;
	struct control *control;             /* set at init, by the daemon */
	struct fault_service *fault_service; /* set at init, by the daemon */
};

static inline int64_t mount_bytes_to_pages(const struct mount *mount, uint64_t bytes)
{
	return (int64_t)(bytes / mount->backing->page_size +
			 (bytes % mount->backing->page_size != 0));
}
