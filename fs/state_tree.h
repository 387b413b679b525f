/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the state has in trees: files with reservations, and mappings. The state's lock is held.
 */
#pragma once

#include "fs/region_map.h"
#include "fs/state.h"

struct state_file {
	uint64_t ino; /* first: the key */
	struct rwsem lock;
	struct region_map reserved;
};

struct state_mapping_node {
	uint64_t id; /* first */
	struct state_mapping mapping;
};

/* The file or mapping with the number @key, or NULL. */
void *state_tree_find(void *tree, uint64_t key);
/* The file with inode number @ino, which is made where there is none; NULL: no memory. */
struct state_file *state_tree_get_file(struct state *state, uint64_t ino);
void state_tree_drop_file(struct state *state, uint64_t ino);
/* 0 or -ENOMEM. */
int state_tree_add_mapping(struct state *state, const struct state_mapping *mapping);
void state_tree_drop_mapping(struct state *state, uint64_t id);
/* The quota of the directory @ino, or NULL; set it. 0 or -ENOMEM. */
struct state_quota *state_tree_find_quota(const struct state *state, uint64_t ino);
int state_tree_set_quota(struct state *state, const struct state_quota *quota);
void state_tree_free(struct state *state);

/* Copies of all, malloc()ed; their number or -ENOMEM. */
int64_t state_tree_ranges(struct state *state, struct state_range **ret_ranges);
int64_t state_tree_mappings(struct state *state, struct state_mapping **ret_mappings);
