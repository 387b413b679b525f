/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * State: what a restarted daemon has to know and cannot see in names/ and data/. Kept in
 * memory as it is in the journal (state/journal), which is written before a change takes effect
 * and compacted when most of it is out of date.
 *
 * It says what was promised, not what is there: pages that are there are found in data/. What a
 * crash left between record and effect is therefore at most a reservation too many, which the
 * file keeps.
 *
 * Thread-safe; no function is on the way of a page fault.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "fs/journal.h"
#include "fs/kernel_pool.h"
#include "fs/lock.h"

/* What a mount was set up with; its private filesystems keep it for life. */
struct state_setup {
	uint64_t page_size;
	int64_t min, max, data_max; /* pages, as in struct mount_pages */
	uint32_t is_thp;
	uint32_t nr_nodes;
	int64_t node_pages[POOL_MAX_NODES];
};

/* A pool size that was set by writing to .hugefuse; before that there is none. */
struct state_size {
	int64_t nr, overcommit;
	int64_t first_loan; /* what of the loan was for min_size= */
};

/* A client's mapping. */
struct state_mapping {
	uint64_t id, key[2];
	uint64_t ino;
	uint64_t address, length; /* where it was mapped first */
	int64_t from, to;         /* page indexes */
	uint64_t start_time;      /* of the process: its pid may be used again */
	int32_t pid;
	uint32_t uid;
	uint32_t flags; /* HUGEFUSE_MAP_* */
	int32_t access_mode;
	uint32_t forked;
	uint32_t moved; /* by mremap(2): not where it was mapped first any more */
};

struct state_range {
	uint64_t ino;
	int64_t from, to; /* page indexes */
};

/* What a directory and what is below it may have; neither: it has no quota. */
struct state_quota {
	uint64_t ino;
	int64_t max, min; /* pages; SUBPOOL_NO_LIMIT, 0 */
};

#define STATE_STEPS_MAX (2 * (POOL_MAX_NODES + 1)) /* there, and back again */

struct state {
	struct mutex lock; /* LOCK_RANK_STATE */
	int dir_fd;        /* set at init; not owned */
	struct journal journal;
	uint64_t compacted_size; /* lock; bytes */
	char *options;           /* lock; of the mount, as options_print() has them; or NULL */
	bool has_setup, has_size, has_loan;
	bool ready; /* the private filesystems are there: it can be adopted */
	struct state_setup setup;
	struct state_size size;
	struct kernel_pool_loan loan;
	struct kernel_pool_step steps[STATE_STEPS_MAX]; /* whose outcome is not known */
	int nr_steps;
	struct state_quota *quotas; /* lock */
	size_t nr_quotas;           /* lock */
	void *files;                /* lock; a tsearch(3) tree of the files with reservations */
	void *mappings;             /* lock; of the mappings, by id */
};

/*
 * Read the journal of state/, open as @dir_fd, or make it. 0, -EUCLEAN where it is damaged in
 * the middle (@ret_damage says where), -EPROTO where a whole record means nothing to us,
 * -errno.
 */
int state_open(struct state *state, int dir_fd, struct journal_damage *ret_damage);
/* As much as can be read of a damaged one; nothing can be added to it. */
int state_salvage(struct state *state, int dir_fd, struct journal_damage *ret_damage);
/* Write all that is known to a new journal, which takes the place of the old one. */
int state_rewrite(struct state *state);
/* From now on nothing is written any more: each function that would returns -EROFS. */
void state_freeze(struct state *state);
void state_close(struct state *state);

/* All of these return 0, or -errno with nothing changed. */
int state_set_options(struct state *state, const char *options);
int state_set_setup(struct state *state, const struct state_setup *setup);
int state_set_size(struct state *state, const struct state_size *size);
int state_set_loan(struct state *state, const struct kernel_pool_loan *loan);
int state_set_ready(struct state *state);
/* The kernel's pool is about to be changed. */
int state_add_step(struct state *state, const struct kernel_pool_step *step);
/* Pages [from, to) of file @ino are about to be reserved; not to be any more; all of them. */
int state_reserve(struct state *state, uint64_t ino, int64_t from, int64_t to);
int state_unreserve(struct state *state, uint64_t ino, int64_t from, int64_t to);
int state_forget(struct state *state, uint64_t ino);
int state_set_quota(struct state *state, const struct state_quota *quota);
int state_add_mapping(struct state *state, const struct state_mapping *mapping);
int state_move_mapping(struct state *state, uint64_t id);
int state_drop_mapping(struct state *state, uint64_t id);

/* The same in memory alone, for a state that is salvaged and then written anew. */
int state_note_reserved(struct state *state, uint64_t ino, int64_t from, int64_t to);
int state_note_mapping(struct state *state, const struct state_mapping *mapping);
bool state_is_reserved(struct state *state, uint64_t ino, int64_t idx);

/* Copies of all, malloc()ed; their number or -ENOMEM. */
int64_t state_ranges(struct state *state, struct state_range **ret_ranges);
/* The quota of the directory @ino: whether it has one. */
bool state_find_quota(struct state *state, uint64_t ino, struct state_quota *ret_quota);
int64_t state_mappings(struct state *state, struct state_mapping **ret_mappings);
