/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Contention: threads that fault pages through the page transaction, over a backing where a
 * page takes a set time and no CPU. So the locks, the hash and the region maps are those of
 * real faults, and there may be many more threads than CPUs.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "fs/fault_mutex.h"
#include "fs/page.h"

enum {
	CONTENTION_MAX_THREADS = 4096,
	CONTENTION_MAX_FILES = 4096,
	CONTENTION_MAX_PAGES = 1 << 20,
};

struct contention_config {
	uint32_t nr_threads;
	int64_t nr_pages;    /* of all files together; a thread has a part of each own */
	uint64_t page_size;  /* bytes */
	uint64_t clear_ns;   /* how long populating a page takes */
	uint32_t nr_mutexes; /* 0: the default for as many CPUs as threads, or as there are */
	enum fault_hash hash;
	bool region_lock_global;
	bool private_mappings; /* the "files" are private mappings of one process */
	bool reserved;         /* all pages are reserved before */
	double same_page;      /* percent of the pages that every thread faults, at one time */
	uint32_t nr_files;
	uint64_t seed;

	/* Another way to divide the work: each thread faults every page, in an order of its own
	 */
	bool every_page;
	uint64_t think_ns;   /* from one fault of a thread to its next */
	uint64_t stagger_ns; /* a thread begins so much later than the one before */
};

struct contention_result {
	double seconds; /* from the first thread's start to the last one's end */
	double one_thread_seconds;
	int64_t one_thread_pages; /* how many it was measured with */
	double best_seconds;      /* with the pages divided evenly and nobody waiting */
	double populate_seconds;  /* of a page, on average */
	int64_t nr_faults;
	int64_t outcomes[NR_PAGE_OUTCOMES];
	uint32_t nr_mutexes;
	uint64_t busiest; /* acquisitions of the mutex that has most of them */
	struct lock_counts mutexes;
	struct lock_class_stat region, pool;
};

/* The pages of thread @number, in order. Returns how many, at most nr_pages. */
int64_t contention_schedule(const struct contention_config *config, uint32_t number,
			    int64_t *ret_pages);
/* The shortest time in which @config's pages can be populated. */
double contention_best_seconds(const struct contention_config *config);
/* Run it. 0 or -errno, the first of a thread's. One at a time: counters are the process's. */
int contention_run(const struct contention_config *config,
		   struct contention_result *ret_result);
