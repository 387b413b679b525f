/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * In-memory backing: pages that are only a byte each, for unit tests and for experiments with
 * more threads than the machine has cores. Populating can be made to take a time without using
 * a CPU, and to fail.
 */
#pragma once

#include <stdatomic.h>

#include "fs/backing.h"
#include "fs/pool.h"

struct backing_mem {
	struct backing backing;
	uint64_t populate_ns;      /* set at init; sleep that long in populate, 0: not at all */
	_Atomic int64_t nr_pages;  /* pages that are there, in all files */
	_Atomic int64_t max_pages; /* populate answers -ENOSPC beyond; tests change it */
	_Atomic int64_t
		node_room[POOL_MAX_NODES]; /* more pages that a node has; tests change it */
	uint64_t fail_ns;          /* set at init; sleep that long where a node has none */
	_Atomic int64_t nr_failed; /* how often that was */
	_Atomic int64_t
		fail_after; /* when it counts down to 0 one populate fails; < 0: never */
};

/* Pages of @page_size bytes on @nr_nodes nodes. */
void backing_mem_init(struct backing_mem *mem, uint64_t page_size, int nr_nodes);
