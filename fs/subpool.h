/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Subpool: what one mount (later: one tenant's directory) may use of a pool. size= is the most
 * that it may use, min_size= what is reserved for it beforehand; that reservation is used first
 * and refilled first. Follows struct hugepage_subpool in the kernel's mm/hugetlb.c.
 */
#pragma once

#include <stdint.h>

#include "fs/lock.h"
#include "fs/pool.h"

#define SUBPOOL_NO_LIMIT (-1)

/* All counters at one instant, in pages. */
struct subpool_counts {
	int64_t max;  /* size=, or SUBPOOL_NO_LIMIT */
	int64_t min;  /* min_size=, or 0 */
	int64_t used; /* reserved or instantiated by files */
	int64_t resv; /* of min, not used yet */
};

struct subpool {
	struct mutex lock;
	struct pool *pool;            /* set at init */
	struct subpool_counts counts; /* lock */
};

/* Reserves @min pages of @pool. 0, -EINVAL for min > max, -ENOMEM. */
int subpool_init(struct subpool *subpool, struct pool *pool, int64_t max, int64_t min);
/* Gives the rest of min back; nothing may be used any more. */
void subpool_deinit(struct subpool *subpool);

/*
 * From now on there is no limit but the pool's, and nothing set aside beforehand: what of min
 * is not used goes back to the pool.
 */
void subpool_drop_limits(struct subpool *subpool);

/*
 * Charge @nr pages to the subpool. Returns how many of them have to be reserved in the pool
 * (what min_size does not cover), or -ENOMEM at the limit with nothing changed. Follows
 * hugepage_subpool_get_pages().
 */
int64_t subpool_get_pages(struct subpool *subpool, int64_t nr);
/*
 * Uncharge @nr pages. Returns how many reservations the caller has to give back to the pool
 * (the others refill min_size). Follows hugepage_subpool_put_pages().
 */
int64_t subpool_put_pages(struct subpool *subpool, int64_t nr);

/*
 * subpool_get_pages() and pool_reserve() in one, undone exactly where the second fails:
 * 0 or -ENOMEM with nothing changed.
 */
int subpool_reserve(struct subpool *subpool, int64_t nr);
/* The opposite of subpool_reserve(). */
void subpool_unreserve(struct subpool *subpool, int64_t nr);

/*
 * subpool_get_pages() of one page and pool_take_page() in one, for a page that no file has
 * reserved: from min_size, free or surplus. Returns its node, or -ENOMEM with nothing changed.
 * Follows alloc_hugetlb_folio().
 */
int subpool_take_page(struct subpool *subpool, int node, enum pool_source *ret_source);
/*
 * A page that a file had, however it was taken, goes back; to min_size first. The same as
 * subpool_put_pages() and pool_put_page(). Follows free_huge_folio().
 */
void subpool_put_page(struct subpool *subpool, int node);
/* The same for @nr pages, as if they were put one by one. */
void subpool_put_taken(struct subpool *subpool, int node, int64_t nr);
/*
 * Undo subpool_take_page(): the page goes back to where it came from, and not, as with
 * subpool_put_page(), to min_size if that came from elsewhere.
 */
void subpool_untake_page(struct subpool *subpool, int node, enum pool_source source);

void subpool_read(struct subpool *subpool, struct subpool_counts *ret_counts);
