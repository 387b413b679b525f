/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The hidden directory .hugefuse in the root of a mount, in the shape of the kernel's own
 * files. It is found by lookup but not listed in the root. Its node ids have the top bit set. A
 * file's text is made when it is opened, so that all numbers in it are of one instant.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

#include "fs/mount.h"

#define STATS_NODE_FLAG (1ULL << 63)
#define STATS_NODE_ROOT (STATS_NODE_FLAG | 1) /* .hugefuse itself */

static inline bool stats_is_node(uint64_t node_id)
{
	return node_id & STATS_NODE_FLAG;
}

/* Attributes of a node (st_ino is the node id): 0, -ENOENT. */
int stats_stat(struct mount *mount, uint64_t node_id, struct stat *ret_stat);
/* The node called @name in the directory @parent: 0, -ENOENT, -ENOTDIR. */
int stats_lookup(struct mount *mount, uint64_t parent, const char *name, struct stat *ret_stat);
/* The @index-th entry of a directory: its name and attributes; -ENOENT behind the last. */
int stats_entry(struct mount *mount, uint64_t parent, size_t index, char *ret_name,
		size_t name_size, struct stat *ret_stat);
/* The text of a file, malloc()ed: 0, -EISDIR, -ENOMEM. */
int stats_read(struct mount *mount, uint64_t node_id, char **ret_text, size_t *ret_len);
/* write(2) to a file: @len, -EACCES (not writable), -EINVAL (not a value that it takes). */
ssize_t stats_write(struct mount *mount, uint64_t node_id, const char *text, size_t len);

/*
 * What other files say or do for it. The texts return 0 or -errno, and write no line or whole
 * lines.
 */
int stats_text_maps(struct mount *mount, FILE *out);
int stats_text_fault_stat(struct mount *mount, FILE *out);
int stats_clear_fault_stat(struct mount *mount);
/*
 * Reconcile what is counted with what the kernel did by itself, after the faults and the ends
 * of files that had been sent: of the whole mount; of each file and mapping; of mappings, where
 * the caller looks at each file.
 */
void stats_settle(struct mount *mount);
void stats_settle_each(struct mount *mount);
void stats_settle_mappings(struct mount *mount);
/* The same, as far as faults are concerned that clients had sent: they are over. */
void stats_settle_faults(struct mount *mount);
