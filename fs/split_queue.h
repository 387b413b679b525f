/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Split queues: huge pages with holes that were only noted, in the order in which they came, to
 * be split when memory is short. Follows the deferred split queues of the kernel's
 * mm/huge_memory.c, which were one for each node, then one for each memory cgroup, and are one
 * for each cgroup and node now: split_queue=global, tenant and tenant-node are these.
 *
 * A set has the queues of one tenant (with global: of all), one for each node or a single one.
 * Whoever looks for something to split takes its name, not the entry: the entry is its file's,
 * and may be gone as soon as the queue's lock is free.
 *
 * Locks: a queue's, of rank LOCK_RANK_SPLIT_QUEUE, with nothing inside; that of the list of
 * sets, a leaf. They are never held together.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "fs/lock.h"

struct subpool;

enum split_mode {
	SPLIT_OFF, /* holes are punched at once */
	SPLIT_GLOBAL,
	SPLIT_TENANT,
	SPLIT_TENANT_NODE,
	NR_SPLIT_MODES,
};

/* As in split_queue=. */
extern const char *const split_mode_names[NR_SPLIT_MODES];

/* Why a huge page leaves its queue. */
enum split_end {
	SPLIT_END_SPLIT,    /* its holes were punched, for want of memory */
	SPLIT_END_EMPTIED,  /* all of it was punched, and is free */
	SPLIT_END_REFILLED, /* all of its holes were written again */
	SPLIT_END_SETTLED,  /* its holes were punched, as the file may be mapped for writing */
	SPLIT_END_CUT,      /* it was cut off with the end of the file, or the file has gone */
	NR_SPLIT_ENDS,
};

/* What a queue holds, and what has become of what it held. Pages are base pages. */
struct split_counts {
	int64_t nr_huge;  /* huge pages in the queue */
	int64_t nr_noted; /* pages of them that could be freed */
	uint64_t nr_deferred;
	uint64_t nr_ended[NR_SPLIT_ENDS];
	uint64_t nr_freed;     /* pages that splitting has freed */
	uint64_t nr_elsewhere; /* split for want of memory of another node or tenant */
};

struct split_queue {
	struct mutex lock;
	struct split_entry *first, *last; /* lock */
	struct split_counts counts;       /* lock */
};

/* A huge page that may be queued. */
struct split_entry {
	struct split_queue *queue;       /* set at init */
	struct split_entry *prev, *next; /* queue->lock */
	int64_t nr_noted;                /* queue->lock; 0: it is not in the queue */
	uint64_t ino;                    /* set at init */
	int64_t chunk;                   /* set at init; index of the huge page in the file */
	int node;                        /* set at init */
};

struct split_set {
	struct split_set *next;  /* queues->lock */
	struct subpool *subpool; /* set at init; with a reference; NULL: of all tenants */
	uint32_t nr_users;       /* queues->lock; files, and those who look at it */
	/* Whose file was refused pages, only to be compared; NULL: nobody's. */
	_Atomic(const struct subpool *) pressed_by;
	int nr_queues; /* set at init */
	struct split_queue queues[];
};

struct split_queues {
	enum split_mode mode; /* set at init */
	int nr_nodes;         /* set at init */
	struct mutex lock;
	struct split_set *sets;    /* lock */
	_Atomic int64_t nr_filled; /* queues that are not empty */
};

void split_queues_init(struct split_queues *queues, enum split_mode mode, int nr_nodes);
/* Nothing is queued any more. */
void split_queues_deinit(struct split_queues *queues);

/* The set for files of @subpool, with one user more. NULL without memory. */
struct split_set *split_set_get(struct split_queues *queues, struct subpool *subpool);
/* NULL-safe. A set stays for its counters as long as its tenant does. */
void split_set_put(struct split_queues *queues, struct split_set *set);
/*
 * All sets that there are, malloc()ed, each with one user more, for split_sets_free(). Returns
 * their number or -ENOMEM.
 */
int64_t split_sets_read(struct split_queues *queues, struct split_set ***ret_sets);
void split_sets_free(struct split_queues *queues, struct split_set **sets, int64_t nr);
/* Files of @subpool were refused pages: note that in their set. false: there is none. */
bool split_set_press(struct split_queues *queues, const struct subpool *subpool);
/* The queue for huge pages on @node. */
struct split_queue *split_set_queue(struct split_set *set, int node);

void split_entry_init(struct split_entry *entry, struct split_queue *queue, uint64_t ino,
		      int64_t chunk, int node);
/* @nr_noted pages of it could be freed now, not 0; it comes to the end of its queue if it was
 * not in it. */
void split_entry_note(struct split_queues *queues, struct split_entry *entry, int64_t nr_noted);
/* It leaves the queue; @nr_freed of its pages were freed by that. Not in it: nothing to do. */
void split_entry_end(struct split_queues *queues, struct split_entry *entry, enum split_end why,
		     int64_t nr_freed);

/* A name of a huge page that was queued a moment ago. */
struct split_pick {
	uint64_t ino;
	int64_t chunk;
	int node;
};
/* The one that has been in the queue for longest, which moves to its end. false: it is empty.
 */
bool split_queue_pick(struct split_queue *queue, struct split_pick *ret_pick);
/* What was picked is split, and was not what memory was wanted of. */
void split_queue_count_elsewhere(struct split_queue *queue);

void split_queue_read(struct split_queue *queue, struct split_counts *ret_counts);
/* Whether any queue holds anything: a look without locks. */
static inline bool split_queues_hold(const struct split_queues *queues)
{
	return atomic_load_explicit(&queues->nr_filled, memory_order_relaxed) > 0;
}
