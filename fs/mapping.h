/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Direct mappings: which pages of which file a client has mapped where.
 *
 * A mapping is made when a client asks for it, with its reservation, and is pending until the
 * client has handed over its userfaultfds. A shared mapping works on the file's page space; a
 * private one has a page space of its own, whose pages are in the client's memory alone, and
 * whose backing gives a missing page by UFFDIO_COPY of zeroes.
 *
 * The address ranges (segments) are an immutable array that is replaced under mapping->lock and
 * read under RCU, so that the fault path takes no lock. One mapping begins as one segment;
 * munmap and mremap of parts cut and move them. A userfaultfd covers a fixed range of page
 * indexes.
 *
 * References: the client's list, each userfaultfd that is served, each fault in flight.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <urcu-bp.h>

#include "fs/ahead.h"
#include "fs/inode.h"
#include "fs/page.h"
#include "hugefuse_protocol.h"

struct client;
struct mapping;
struct mount;
struct state_mapping;

struct segment {
	uint64_t start, end; /* addresses */
	int64_t idx;         /* page index in the file of start */
};

struct segments {
	struct rcu_head rcu;
	uint32_t nr;
	struct segment segment[];
};

/* The backing of a private mapping's pages. */
struct private_file {
	struct backing_file file;
	struct backing backing;
	struct mapping *mapping;
};

struct removal;

struct mapping {
	uint64_t id;      /* set at init */
	uint64_t key[2];  /* set at init; what a forked child must show */
	uint64_t made_ms; /* set at init; clock_time_ms() */
	uint32_t flags;   /* set at init; HUGEFUSE_MAP_* */
	int access_mode;  /* set at init; of the open file: O_RDONLY or O_RDWR */
	bool forked;      /* set at init; a child's, whose pages were its parent's first */
	bool adopted;     /* set at init; of a client that a daemon had which died */
	struct mount *mount;
	struct inode *inode;         /* set at init; a reference */
	struct page_space *space;    /* set at init; the file's or own_space */
	struct page_space own_space; /* of a private mapping, if it has_own_pages */
	struct private_file private_file;
	struct region_map added; /* what a pending shared mapping has newly reserved */
	int64_t from, to;        /* set at init; page indexes */

	struct client *client;           /* set at attach */
	struct mapping *next, **link;    /* client->lock: the client's list; NULL: not in it */
	struct mapping *next_died;       /* while it is in client->died */
	struct cds_lfht_node id_node;    /* rcu; while it is in the list */
	int uffd[HUGEFUSE_MAX_SHARDS];   /* set at register; closed with the mapping */
	uint32_t nr_uffds;               /* set at register; 0: the kernel serves the faults */
	int64_t shard_pages;             /* set at register */
	struct removal *_Atomic removal; /* the fault service's, while it serves this */

	struct mutex lock;         /* LOCK_RANK_MAPPING */
	struct segments *segments; /* rcu; replaced under lock */
	_Atomic bool dead;         /* nothing is mapped any more */
	_Atomic bool counted;      /* in the inode's nr_mappings */
	_Atomic bool refused;      /* pages were taken out of the userfaultfd for want of one */
	_Atomic uint64_t nr_refs;
	_Atomic uint64_t nr_faults;
	_Atomic int local_node;       /* of the thread that faulted last; POOL_ANY_NODE */
	struct numa_rule thread_rule; /* set at init; of the thread that has mapped it */
	_Atomic int64_t reconcile_at; /* the hole to look at next */
	struct ahead ahead;
	struct rcu_head rcu;
};

/* Whether its pages are its own and not the file's: where the size is what is reserved, the
 * kernel alone copies what a private mapping writes. */
bool mapping_has_own_pages(const struct mapping *mapping);

/*
 * For whom a page of @mapping is: its thread @tid, or 0, the one that faulted last, and what
 * that which has mapped it has for all its memory. Where there is one node nothing is asked.
 */
struct page_hint mapping_hint(struct mapping *mapping, pid_t tid);
/* page_instantiate() of a page that nobody waits for. */
int mapping_instantiate(struct mapping *mapping, int64_t idx);

/*
 * A pending mapping of pages [from, to) of @inode, whose pages are reserved unless
 * HUGEFUSE_MAP_NORESERVE is in @flags, or the file's size has them reserved. 0, -ENOMEM where
 * they cannot be reserved, or another -errno.
 */
int mapping_new(struct mount *mount, struct inode *inode, uint32_t flags, int access_mode,
		int64_t from, int64_t to, struct mapping **ret_mapping);
/* A pending mapping for a forked child of the same pages as [from, to) of @parent; nothing is
 * reserved. */
int mapping_new_forked(struct mapping *parent, int64_t from, int64_t to,
		       struct mapping **ret_mapping);
/*
 * The mapping that a daemon which died had written down as @record, of @inode: nobody has
 * handed over a userfaultfd, and what a private one has reserved is reserved when its segments
 * are set. 0 or -errno.
 */
int mapping_new_adopted(struct mount *mount, struct inode *inode,
			const struct state_mapping *record, struct mapping **ret_mapping);
/* A segment of an adopted mapping, behind those that it has. 0 or -ENOMEM. */
int mapping_add_segment(struct mapping *mapping, const struct segment *segment);
/*
 * The part of @mapping from page @from on that is mapped at @address, as a mapping of its own
 * that begins there: -EINVAL where @mapping has not all of it in one segment, -ENOMEM.
 */
int mapping_split(struct mapping *mapping, uint64_t address, int64_t from, int64_t to,
		  struct mapping **ret_mapping);
/* A number that no mapping has, had, or will have. */
uint64_t mapping_next_id(void);
/* Give up a pending mapping, and what it reserved. */
void mapping_abort(struct mapping *mapping);
/* From here on a shared mapping's reservation is the file's. */
void mapping_commit(struct mapping *mapping);

struct mapping *mapping_ref(struct mapping *mapping);
void mapping_put(struct mapping *mapping);

/* Let @segments be the mapping's, with its lock held; for what changes them. */
void mapping_replace_segments_locked(struct mapping *mapping, struct segments *segments);
/* The first segment: [address, address + length) holds the pages from mapping->from on. */
int mapping_set_address(struct mapping *mapping, uint64_t address, uint64_t length);
/* The page index at @address, or -1 where this mapping has nothing there. Lock-free. */
int64_t mapping_index_at(struct mapping *mapping, uint64_t address);
/* The address of page @idx, or 0. Lock-free. */
uint64_t mapping_address_of(struct mapping *mapping, int64_t idx);
/* Wake who waits in @uffd, one of the mapping's, for the page at @address. */
void mapping_wake(const struct mapping *mapping, int uffd, uint64_t address);
/*
 * Enter what is there of pages [from, to) into the client's page table, so that it does not
 * fault on them, and wake who waits for one of them. It may end early, where a page is not
 * there or not mapped: what is not entered is the kernel's to find. Shared mappings of hugetlb
 * only.
 */
void mapping_enter(struct mapping *mapping, int64_t from, int64_t to);
/* The userfaultfd that page @idx belongs to, or -1. */
int mapping_uffd_of(const struct mapping *mapping, int64_t idx);
/* Behind the last page of the userfaultfd that page @idx belongs to. */
int64_t mapping_shard_end(const struct mapping *mapping, int64_t idx);

/*
 * [start, end) has been unmapped: forget it, and of a private mapping its pages and
 * reservations. Marks the mapping dead when nothing is left. 0 or -ENOMEM.
 */
int mapping_unmap(struct mapping *mapping, uint64_t start, uint64_t end);
/* @length bytes have been moved from @from to @to (mremap). 0 or -ENOMEM. */
int mapping_move(struct mapping *mapping, uint64_t from, uint64_t to, uint64_t length);
/* [start, end) of a private mapping has lost its pages (MADV_DONTNEED); they are reserved
 * again. */
void mapping_discard(struct mapping *mapping, uint64_t start, uint64_t end);

/* Whether a page of this private mapping that is freed becomes a reserved one again (as since
 * Linux 6.11). */
bool mapping_keeps_reservation(const struct mapping *mapping);

/* Whether the memory that was mapped has gone altogether (the process has exited or called
 * exec). */
bool mapping_memory_is_gone(struct mapping *mapping);

/* The address ranges at this moment, malloc()ed; the number of them or -ENOMEM. */
int mapping_segments(struct mapping *mapping, struct segment **ret_segments);
