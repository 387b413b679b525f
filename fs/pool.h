/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Pool: the counters of a set of huge pages of one size, per node: how many there are, how many
 * are free, how many of the free ones are reserved, how many are surplus. It follows struct
 * hstate in the kernel's mm/hugetlb.c operation by operation, so that, with nothing in flight,
 * its numbers equal those of /sys/kernel/mm/hugepages less what was there before.
 *
 * A pool counts; it does not hold pages. The invariants, checked after every change:
 *
 *	0 <= resv <= free <= nr, surplus <= nr, and nr/free/surplus are the sums over the nodes
 *	bound <= free on each node, and the sum of bound <= resv
 *
 * All functions are thread-safe and do not block: surplus pages are made by the backing, when a
 * page is populated.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "fs/lock.h"

#define POOL_MAX_NODES 64
#define POOL_ANY_NODE  (-1)

struct pool_node {
	int64_t nr, free, surplus;
	int64_t bound; /* of the reserved pages, those that have to be on this node */
};

/* All counters at one instant. */
struct pool_counts {
	int64_t nr, free, resv, surplus, overcommit;
	int nr_nodes;
	struct pool_node node[POOL_MAX_NODES];
};

struct pool {
	struct mutex lock;
	struct pool_counts counts; /* lock */
	int next_node_to_alloc;    /* lock; where the next page goes that may go anywhere */
	int next_node_to_free;     /* lock; where the next surplus page leaves */
	struct waitqueue freed;    /* woken whenever a page can be had that could not before */
};

/* A pool of no pages on @nr_nodes nodes that may have @overcommit surplus pages. */
void pool_init(struct pool *pool, int nr_nodes, int64_t overcommit);
/* Nothing may be in use any more. */
void pool_deinit(struct pool *pool);

/*
 * @nr pages more (or, negative, fewer) on @node. 0, -EBUSY where that many are not free and
 * unreserved (surplus pages do not count), -EINVAL for a node that there is not, -EOVERFLOW.
 */
int pool_resize(struct pool *pool, int node, int64_t nr);

/*
 * Let @node (POOL_ANY_NODE: the pool) have @nr pages that are not surplus, as far as that is to
 * be done without new pages: surplus pages become others, free and unreserved ones leave (their
 * number for each node goes to @ret_left), and of those in use as many become surplus as are
 * too many. Returns how many pages are still missing, for pool_resize(). Follows
 * set_max_huge_pages().
 */
int64_t pool_set_nr(struct pool *pool, int node, int64_t nr, int64_t *ret_left);
/* How many surplus pages there may be; those that there are stay. */
void pool_set_overcommit(struct pool *pool, int64_t overcommit);

/*
 * Reserve @nr pages, making surplus pages of what is missing as far as overcommit allows.
 * 0 or -ENOMEM with nothing changed. Follows hugetlb_acct_memory() with a positive delta and
 * gather_surplus_pages().
 */
int pool_reserve(struct pool *pool, int64_t nr);
/* The same of free pages alone, without making any. */
int pool_reserve_free(struct pool *pool, int64_t nr);
/*
 * Give @nr reservations back, and as many free surplus pages with them as there are. Follows
 * return_unused_surplus_pages().
 */
void pool_unreserve(struct pool *pool, int64_t nr);

/* Where a page came from. */
enum pool_source {
	POOL_FROM_RESERVATION,
	POOL_FROM_FREE,
	POOL_FROM_SURPLUS,
};

/*
 * Let @nr pages that the caller has reserved be pages of @nodes (a bit each): nobody else takes
 * those. How many on which node goes to @ret_bound. 0, or -ENOMEM with
 * nothing changed where these nodes have not so many that are bound to nobody.
 */
int pool_bind(struct pool *pool, uint64_t nodes, int64_t nr, int64_t *ret_bound);
/* @nr reserved pages of @node may be anywhere again. */
void pool_unbind(struct pool *pool, int node, int64_t nr);

/* Where a page is taken. */
struct pool_place {
	int first;        /* here if it has one; POOL_ANY_NODE: in turns */
	uint64_t nodes;   /* else here, a bit each */
	uint64_t surplus; /* of these, where a surplus page may be made */
	bool bound;       /* a page that is bound to first, of the caller's */
};
#define POOL_ALL_NODES UINT64_MAX

/*
 * Take a free page: with @reserved one that was reserved (and the reservation with it), else
 * one that nobody has reserved, else a new surplus page. On @node where it has one, else on any
 * other. Returns the node, and in @ret_source where the page came from; -ENOMEM where there is
 * none. Follows dequeue_hugetlb_folio_vma() and alloc_surplus_hugetlb_folio().
 */
int pool_take_page(struct pool *pool, int node, bool reserved, enum pool_source *ret_source);
/* The same, but not elsewhere than @place says. */
int pool_take_page_at(struct pool *pool, const struct pool_place *place, bool reserved,
		      enum pool_source *ret_source);
/* Take @nr pages of @node that were reserved, and are free there. */
void pool_take_reserved(struct pool *pool, int node, int64_t nr);
/*
 * Give a page of @node back; with @restore it becomes a reserved one again. A surplus page of
 * that node leaves the pool unless it is restored. Follows free_huge_folio(), where however a
 * surplus page leaves even so, and a reservation without a page behind it remains.
 */
void pool_put_page(struct pool *pool, int node, bool restore);
/* The same for @nr pages, of which @nr_restored become reserved ones again. */
void pool_put_pages(struct pool *pool, int node, int64_t nr, int64_t nr_restored);
/*
 * A page that was taken on @from turned out to be on @to (the backing decides in the end): a
 * free page of @to was taken instead, or, where @to has none, the page was made there.
 */
void pool_move_page(struct pool *pool, int from, int to);

void pool_read(struct pool *pool, struct pool_counts *ret_counts);
