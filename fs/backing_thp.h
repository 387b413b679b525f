/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * thp backing: the pages of a file are those of its inode in names/, a tmpfs mounted with
 * huge=within_size: transparent huge pages as far as the file is long, base pages where its end
 * does not fill one. What is counted are base pages.
 *
 * The pages that nobody has reserved are set aside in the reserve: a hidden file in the
 * same tmpfs, whose length is set by backing_thp_set_reserve(). Making it shorter is what gives
 * other files room.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "fs/backing.h"
#include "fs/numa_rule.h"

/*
 * A backing over the tmpfs of the file @reserve_fd, which is the reserve as it was left, or
 * empty (taken over on success). 0 or -errno.
 */
int backing_thp_new(int reserve_fd, struct backing **ret_backing);
void backing_thp_free(struct backing *backing);

/*
 * Let the reserve hold as many pages as @target(@data) says, which is called with the reserve
 * locked: whoever comes later sees what was decided before. Returns 0, or -errno where the
 * reserve could not grow: it holds what was to be had, and the next call tries again.
 */
int backing_thp_set_reserve(struct backing *backing, int64_t (*target)(void *data), void *data);

/* How many pages the reserve holds. */
int64_t backing_thp_reserved(struct backing *backing);
/* How many huge pages were populated as base pages, since the start or the last clearing. */
int64_t backing_thp_nr_fallbacks(struct backing *backing);
void backing_thp_clear_fallbacks(struct backing *backing);

/* How many pages of [from, to) are there, or -errno. */
int64_t backing_thp_count(struct backing_file *file, int64_t from, int64_t to);
/*
 * Whether nobody else has the file open, nor mapped: asked with a lease, for which SIGIO has to
 * be ignored. false also where that cannot be said.
 */
bool backing_thp_is_alone(struct backing_file *file);
/* The descriptor of a file of this backing, open for reading and writing; the backing's own. */
int backing_thp_fd(struct backing_file *file);
/* Make one huge page of the base pages around page @idx, where the file is long enough. Not an
 * error where that does not work. */
void backing_thp_collapse(struct backing_file *file, int64_t idx);
/*
 * Let the pages of the file that are not there yet be where @rule says, as far as the kernel
 * does so: the policy is the file's, and counts for whoever allocates them. 0 or -errno.
 */
int backing_thp_set_rule(struct backing_file *file, const struct numa_rule *rule);
