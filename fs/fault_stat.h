/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What fault threads have counted, for .hugefuse/fault_stat. A fault is counted once, when it
 * is over: by kind, outcome and latency, in the record of the node that its page is on. So the
 * outcomes add up to the faults and the nodes to the whole, whatever is in flight.
 *
 * Each thread has records of its own, which it alone writes, without a lock; a reader gets each
 * record of one instant, by its sequence number.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "fs/histogram.h"
#include "fs/lock.h"

enum fault_kind {
	FAULT_MISSING,
	FAULT_MINOR,
	FAULT_WRITE_PROTECT,
	NR_FAULT_KINDS,
};

enum fault_outcome {
	FAULT_PRESENT,     /* another thread had been faster */
	FAULT_RESERVATION, /* from a reservation */
	FAULT_FREE,        /* from the free pool */
	FAULT_SURPLUS,
	FAULT_WAITED,  /* a page, after it had to wait for one to become free */
	FAULT_REFUSED, /* SIGBUS: no page, or behind the end of the file */
	FAULT_STALE,   /* at an address that is not mapped any more */
	FAULT_FAILED,  /* the backing failed, and the kernel was left to serve it */
	NR_FAULT_OUTCOMES,
};

struct fault_counts {
	_Atomic uint64_t kind[NR_FAULT_KINDS];
	_Atomic uint64_t outcome[NR_FAULT_OUTCOMES];
	_Atomic uint64_t latency_total; /* nanoseconds */
	struct histogram latency;       /* nanoseconds, from message to wake */
};

/* Faults on the pages of one node, by one thread. */
struct fault_record {
	_Alignas(64) _Atomic uint32_t sequence; /* odd while it is written */
	_Atomic uint32_t epoch;                 /* that latency.max is of */
	struct fault_counts counts;
};

/* One thread's. Where nothing else is said, written by the thread alone. */
struct fault_stat {
	int nr_records; /* set at init; the nodes, and one for faults without a page */
	struct fault_record *records; /* set at init */
	_Atomic uint64_t nr_started;  /* faults read */
	_Atomic uint64_t nr_ended;    /* faults counted */
	_Atomic uint64_t nr_ahead;    /* pages populated ahead, or by MAP_POPULATE */
	_Atomic uint64_t nr_events;   /* unmap, remap and remove messages */
};

/* All threads' since the last clearing. */
struct fault_sum {
	uint64_t nr_ahead, nr_events;
	int nr_records;
	struct fault_counts *records;
	struct fault_counts total;
};

/* What is subtracted since the last clearing. */
struct fault_stat_base {
	struct mutex lock; /* LOCK_RANK_LEAF */
	_Atomic uint32_t epoch;
	uint64_t cleared_ns;  /* lock; when, or when it started */
	struct fault_sum sum; /* lock */
};

/* 0 or -ENOMEM. */
int fault_stat_init(struct fault_stat *stat, int nr_nodes);
void fault_stat_deinit(struct fault_stat *stat);

/* Called on the thread whose @stat it is. */
static inline void fault_stat_count(_Atomic uint64_t *counter)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
			      memory_order_release);
}
/* A fault is over. @node: -1 where there is no page. */
void fault_stat_end(struct fault_stat *stat, const struct fault_stat_base *base,
		    enum fault_kind kind, enum fault_outcome outcome, int node,
		    uint64_t latency_ns);

int fault_stat_base_init(struct fault_stat_base *base, int nr_nodes);
void fault_stat_base_deinit(struct fault_stat_base *base);

/* The sum of @nr threads' statistics, of which the n-th is @stat_of(@data, n). 0 or -ENOMEM. */
int fault_stat_read(struct fault_stat_base *base,
		    struct fault_stat *(*stat_of)(void *data, uint32_t number), void *data,
		    uint32_t nr, struct fault_sum *ret_sum, uint64_t *ret_age_ns);
/* Count from now on. 0 or -ENOMEM. */
int fault_stat_clear(struct fault_stat_base *base,
		     struct fault_stat *(*stat_of)(void *data, uint32_t number), void *data,
		     uint32_t nr);
void fault_sum_deinit(struct fault_sum *sum);

/* The lines of .hugefuse/fault_stat; docs/stats-files.md. */
void fault_sum_print(const struct fault_sum *sum, FILE *out);
void fault_sum_print_details(const struct fault_sum *sum, FILE *out);
