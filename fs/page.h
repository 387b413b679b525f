/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Page: the one transaction. Every change of a page's state, and with it of any counter, is
 *made here: reserve, unreserve, instantiate, punch, truncate.
 *
 * A page_space is the set of pages of one file, or of one private mapping. It has two region
 * maps under one rwsem: resv, what is reserved or instantiated (the kernel's resv_map), and
 *inst, per node, what is instantiated (the kernel's page cache). inst is always a part of resv,
 *and
 *
 *	charged to the subpool    = count(resv)
 *	taken from the pool       = count(inst)
 *	bound to nodes in the pool <= count(resv) - count(inst)
 *
 * hold whenever the rwsem is free: maps, subpool and pool change together inside it. A page is
 * entered into inst before it is populated, under its fault mutex, which is held until the page
 *is there or the entry is taken back. So whoever finds a page in inst and wants to know whether
 *it is really there takes its fault mutex.
 *
 * Locks: fault mutex > region rwsem > subpool > pool. Blocking calls (populate, punch) are made
 * under the fault mutex alone.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "fs/avail_mask.h"
#include "fs/backing.h"
#include "fs/fault_mutex.h"
#include "fs/numa_rule.h"
#include "fs/pool.h"
#include "fs/region_map.h"
#include "fs/subpool.h"

/* What all page spaces of a mount share. */
struct page_core {
	struct pool pool;
	struct subpool subpool;
	struct fault_mutex_table faults;
	struct avail_mask avail;
	uint64_t memory_nodes;      /* set before use; a bit each, all by default */
	struct numa_rule numa;      /* set before use; what spaces leave open */
	_Atomic uint64_t nr_remote; /* pages that are not on the node that was to be */
	_Atomic uint64_t nr_unbound_of[POOL_MAX_NODES]; /* the same, by node */
	_Atomic uint64_t nr_unbound; /* reservations refused: not on these nodes */
	/* set before use, may be NULL: page @idx of file @object is about not to be reserved */
	void (*unreserved)(void *data, uint64_t object, int64_t idx);
	void *unreserved_data;
	_Atomic int64_t
		nr_short;        /* pages that the backing had no memory for, and should have */
	bool region_lock_global; /* set at init: region_lock=global */
	struct rwsem region_lock; /* the one for all, if so */
};

struct page_entry;

struct page_space {
	struct page_core *core;    /* set at init */
	struct subpool *subpool;   /* set before use; what its pages are charged to */
	bool is_file;              /* set before use; else a private mapping */
	bool holds_pages;          /* lock; counted as a file of the subpool */
	struct backing_file *file; /* set at init; not owned */
	uint64_t object;           /* set at init; fault_key.object */
	int64_t key_offset;        /* set at init; added to an index for fault_key.idx */
	int nr_nodes;              /* set at init */
	int64_t chunk;             /* set at init; pages of one huge page */
	struct rwsem *lock;        /* set at init; own_lock or core->region_lock */
	struct rwsem own_lock;
	struct numa_rule rule;               /* lock; where its pages are to be */
	int64_t *bound;                      /* lock; reserved pages of each node (pool_bind) */
	int64_t nr_bound;                    /* lock; their sum */
	struct region_map resv;              /* lock */
	struct region_map *inst;             /* lock; one per node */
	int64_t nr_pages;                    /* lock; nothing is instantiated from here on */
	int64_t nr_populating;               /* lock */
	struct page_entry *entries;          /* lock; those being populated */
	struct region_change *final_changes; /* set at init, so that the end needs no memory */
	uint64_t made_ms;                    /* set at init; clock_time_ms() */
	_Atomic uint64_t changed_ms; /* the same, when a page was last reserved or came */
};

/* What became of an instantiation. */
enum page_outcome {
	PAGE_PRESENT, /* it was there already */
	PAGE_FROM_RESERVATION,
	PAGE_FROM_FREE,
	PAGE_FROM_SURPLUS,
	NR_PAGE_OUTCOMES,
};

struct page_space_counts {
	int64_t resv; /* reserved, not instantiated */
	int64_t instantiated;
	int64_t populating;           /* of those, entered but perhaps not there yet */
	int64_t node[POOL_MAX_NODES]; /* instantiated, by node */
};

/*
 * Set up the counters and locks of a mount: @pages set aside (spread over the nodes as
 * @node_pages tells), @max and @min of the mount's subpool. 0, -EINVAL, -ENOMEM.
 */
int page_core_init(struct page_core *core, int nr_nodes, const int64_t *node_pages, int64_t max,
		   int64_t min, uint32_t nr_fault_mutexes, bool region_lock_global);
void page_core_deinit(struct page_core *core);

int page_space_init(struct page_space *space, struct page_core *core, struct backing_file *file,
		    uint64_t object, int64_t key_offset, int64_t nr_pages);
/*
 * Charge its pages to a tenant's subpool, to which it takes a reference, instead of the
 * mount's;
 * @is_file: it is counted there while it holds pages or reservations. Before any page is
 * reserved or instantiated.
 */
void page_space_set_subpool(struct page_space *space, struct subpool *subpool, bool is_file);
/* Where its pages are to be from now on; what is there, or reserved, stays as it is. */
void page_space_set_rule(struct page_space *space, const struct numa_rule *rule);
struct numa_rule page_space_rule(struct page_space *space);
/* Uncharge everything. The pages themselves are the backing's to free, which must have
 * happened. */
void page_space_deinit(struct page_space *space);

/*
 * Reserve what of [from, to) is neither reserved nor instantiated. Returns the number of pages
 * newly reserved; -ENOMEM with nothing changed, also where the nodes that its rule binds the
 * space to have not so many. A page that is being populated, and in the end
 * cannot be, is a reserved one then. @ret_added (may be NULL) is a map of the
 * caller's, with the same lock, into which the new ranges are added for a later
 * page_unreserve_map(). Follows hugetlb_reserve_pages().
 */
int64_t page_reserve(struct page_space *space, int64_t from, int64_t to,
		     struct region_map *ret_added);
/* The same, but it is -ENOSPC where there are not enough pages, and -ENOMEM where there is not
 * enough memory to know what is reserved. */
int64_t page_reserve_or_tell(struct page_space *space, int64_t from, int64_t to,
			     struct region_map *ret_added);
/* Give back the reservations in @added that were not used meanwhile; @added is empty after. */
void page_unreserve_map(struct page_space *space, struct region_map *added);

/*
 * Make page @idx be there. Returns an enum page_outcome; -ENOSPC where neither a reservation
 * nor a free page is to be had, -ERANGE at or behind nr_pages, -ENOMEM, or the backing's error.
 * Follows hugetlb_no_page() and alloc_hugetlb_folio().
 */
int page_instantiate(struct page_space *space, int64_t idx, int node);
/* The same; where it is there, the node that it is on is in @ret_node. */
int page_instantiate_on(struct page_space *space, int64_t idx, int node, int *ret_node);

/* For whom a page is. */
struct page_hint {
	int node; /* where the thread is that wants it; POOL_ANY_NODE: not known */
	const struct numa_rule *rule; /* where neither space nor mount has one; or NULL */
};
/* The same as page_instantiate_on() by the space's rule, which has the last word. */
int page_instantiate_for(struct page_space *space, int64_t idx, const struct page_hint *hint,
			 int *ret_node);

/*
 * Free the pages of [from, to) that are there; reservations that were not used stay, as with
 * the kernel's hole punching. Returns the number of pages freed or -errno.
 */
int64_t page_punch(struct page_space *space, int64_t from, int64_t to);
/*
 * Let the space end at @nr_pages: everything behind is freed and unreserved. Growing only moves
 * the end. The backing file is resized with it. Follows hugetlb_vmtruncate().
 */
int page_truncate(struct page_space *space, int64_t nr_pages);
/* Only the counters of page_truncate() for [from, to): the pages have gone already (munmap). */
int page_forget(struct page_space *space, int64_t from, int64_t to);

/* Page @idx has been freed without us; with @keep_reserved it is reserved again. Not there:
 * nothing to do. */
void page_discard(struct page_space *space, int64_t idx, bool keep_reserved);

/*
 * Make the counters of page @idx agree with the backing, where the kernel may have given or
 * taken the page without asking (a client without userfaultfd, madvise(2)). With @keep_reserved
 * a page that has gone becomes a reserved one. Returns 1 if something changed, 0, or -errno.
 */
int page_reconcile(struct page_space *space, int64_t idx, bool keep_reserved);

/*
 * For backings that reserve what is sized (page_run.c). The caller excludes every other change
 * of [from, to), as the file's lock does.
 *
 * Let what is reserved of [from, to) be there: a huge page at a time, each under its fault
 * mutex. 0, or the backing's error with a part of it done.
 */
int page_run_populate(struct page_space *space, int64_t from, int64_t to);
/* The pages of [from, to) have come; all are reserved. 0 or -ENOMEM. */
int page_run_present(struct page_space *space, int64_t from, int64_t to);
/* The pages of [from, to) have gone, and are reserved ones again. 0 or -ENOMEM. */
int page_run_absent(struct page_space *space, int64_t from, int64_t to);

/*
 * Let @to have what @from has of [begin, end), reservations and pages, with nothing charged or
 * uncharged: a part of a private mapping has become one of its own. 0 or -ENOMEM.
 */
int page_move(struct page_space *from, struct page_space *to, int64_t begin, int64_t end);

void page_space_read(struct page_space *space, struct page_space_counts *ret_counts);
/* The same for [from, to): reserved and not instantiated, and instantiated. */
void page_space_count(struct page_space *space, int64_t from, int64_t to, int64_t *ret_resv,
		      int64_t *ret_instantiated);
/* The first index in [from, to) that is reserved but not instantiated, or -1. For populating
 * ahead. */
int64_t page_next_reserved(struct page_space *space, int64_t from, int64_t to);
/* The first instantiated page in [from, to), or -1; the first index from @from on that is not.
 */
int64_t page_next_instantiated(struct page_space *space, int64_t from, int64_t to);
int64_t page_next_hole(struct page_space *space, int64_t from);
bool page_is_instantiated(struct page_space *space, int64_t idx);
/* The node that page @idx is on, or -1 where it is not there. */
int page_node(struct page_space *space, int64_t idx);

struct page_range {
	int64_t from, to;
	int node; /* -1: reserved, not instantiated */
};
/* All ranges in order, at one instant, malloc()ed. Returns their number or -ENOMEM. */
int64_t page_space_ranges(struct page_space *space, struct page_range **ret_ranges);
