/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The fault mutex table: a page is instantiated under the mutex that its key hashes to, so that
 * two threads that race for the last page of a pool never see a spurious failure, while
 * different pages are cleared in parallel. With one mutex it is the single "instantiation
 * mutex" that hugetlbfs had before Linux 3.15. Follows hugetlb_fault_mutex_hash().
 */
#pragma once

#include <stdint.h>

#include "fs/lock.h"

enum fault_hash {
	FAULT_HASH_JHASH2,   /* the kernel's */
	FAULT_HASH_LOW_BITS, /* the page index alone, for comparison */
	FAULT_HASH_CONSTANT, /* every page the same mutex, for comparison */
};

struct fault_mutex_table {
	struct mutex *mutexes; /* set at init; cache-line aligned */
	uint32_t nr_mutexes;   /* set at init; a power of two */
	enum fault_hash hash;  /* set at init */
};

/* What is instantiated: a page of a file, or of one client's private mapping. */
struct fault_key {
	uint64_t object; /* inode number, or client id with the top bit set */
	uint64_t idx;    /* page index in the file, or virtual page number */
};

/* Bob Jenkins' hash over 32-bit words, as in the kernel's include/linux/jhash.h. */
uint32_t jhash2(const uint32_t *words, uint32_t nr_words, uint32_t initval);

/* roundup_pow_of_two(128 * @nr_cpus), at least 1024; a mutex is 64 bytes. */
uint32_t fault_mutex_default_count(unsigned int nr_cpus);

/*
 * Set up @nr_mutexes (rounded up to a power of two; 0: the default for this machine). 0,
 * -EINVAL for more than 2^20, -ENOMEM.
 */
int fault_mutex_table_init(struct fault_mutex_table *table, uint32_t nr_mutexes,
			   enum fault_hash hash);
void fault_mutex_table_deinit(struct fault_mutex_table *table);

/* Which mutex of the table guards @key. */
uint32_t fault_mutex_index(const struct fault_mutex_table *table, struct fault_key key);
/* Lock the mutex of @key, and return it for mutex_unlock(). */
struct mutex *fault_mutex_lock(struct fault_mutex_table *table, struct fault_key key);
/* The same, or NULL where it is held by another thread. */
struct mutex *fault_mutex_trylock(struct fault_mutex_table *table, struct fault_key key);
