/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Subpool: what one mount, or one tenant's directory, may use of a pool. size= is the most that
 * it may use, min_size= what is reserved for it beforehand; that reservation is used first and
 * refilled first. Follows struct hugepage_subpool in the kernel's mm/hugetlb.c.
 *
 * A tenant's subpool has a parent, the mount's or another tenant's, and what the tenant's
 * min_size does not cover is charged there as well, and so on up to the mount's: to its parent
 * a subpool is used + resv pages of use. All subpools of a mount are under one lock, that of
 * the mount's: a charge takes it once, however many there are.
 *
 * All functions are thread-safe and do not block.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fs/lock.h"
#include "fs/pool.h"

#define SUBPOOL_NO_LIMIT (-1)

/* All counters at one instant, in pages. */
struct subpool_counts {
	int64_t max;  /* size=, or SUBPOOL_NO_LIMIT */
	int64_t min;  /* min_size=, or 0 */
	int64_t used; /* reserved or instantiated by files; or charged by tenants inside */
	int64_t resv; /* of min, not used yet */
};

struct subpool {
	struct mutex lock;            /* the mount's: of all subpools below it */
	struct subpool *root;         /* set at init; the mount's, perhaps itself */
	struct subpool *parent;       /* set at init; with a reference; NULL: the mount's */
	struct pool *pool;            /* set at init */
	struct subpool_counts counts; /* root->lock */
	_Atomic int64_t nr_files;     /* that hold pages, in it or in one inside */
	_Atomic uint64_t nr_refused;  /* requests that were, in it or in one inside */
	int64_t tree_resv;            /* lock; of the mount's: all resv in the tree */
	_Atomic uint64_t nr_refs;     /* of a tenant's */
	void (*release)(struct subpool *subpool); /* set at init; of a tenant's */
};

/* The mount's. Reserves @min pages of @pool. 0, -EINVAL for min > max, -ENOMEM. */
int subpool_init(struct subpool *subpool, struct pool *pool, int64_t max, int64_t min);
/* Gives the rest of min back; nothing may be used any more. */
void subpool_deinit(struct subpool *subpool);

/*
 * A tenant's inside @parent, with one reference and a reference to @parent, and without limits.
 * @release frees it after the last reference, when it is deinitialised.
 */
void subpool_init_tenant(struct subpool *subpool, struct subpool *parent,
			 void (*release)(struct subpool *subpool));
/* References to a tenant's; the mount's has none, and stays as long as the mount. */
struct subpool *subpool_ref(struct subpool *subpool);
void subpool_unref(struct subpool *subpool);

/*
 * Change the limits of a tenant's. A size below what is used is no error: nothing more is to
 * be had until enough has been freed. What of @min is neither used nor reserved yet is charged
 * to the parent, and without @surplus no surplus pages are made for it. 0, -EINVAL for min >
 * max, -ENOMEM with nothing changed.
 */
int subpool_set_limits(struct subpool *subpool, int64_t max, int64_t min, bool surplus);

/*
 * From now on there is no limit but those above, and nothing set aside beforehand: what of min
 * is not used goes back.
 */
void subpool_drop_limits(struct subpool *subpool);

/*
 * Charge @nr pages to the subpool, and to those above it. Returns how many of them have to be
 * reserved in the pool (what no min_size covers), or -ENOMEM at a limit with nothing changed.
 * Follows hugepage_subpool_get_pages().
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

/* Where a page came from, and the subpool whose min_size had it reserved, or NULL. */
struct subpool_taken {
	enum pool_source source;
	struct subpool *covered_by;
};

/*
 * subpool_get_pages() of one page and pool_take_page() in one, for a page that no file has
 * reserved: from min_size, free or surplus. Returns its node, or -ENOMEM with nothing changed.
 * Follows alloc_hugetlb_folio().
 */
int subpool_take_page(struct subpool *subpool, int node, struct subpool_taken *ret_taken);
int subpool_take_page_at(struct subpool *subpool, const struct pool_place *place,
			 struct subpool_taken *ret_taken);
/* The same for a page that the kernel has given by itself, whatever the limits say. */
int subpool_take_given(struct subpool *subpool, int node, struct subpool_taken *ret_taken);
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
void subpool_untake_page(struct subpool *subpool, int node, const struct subpool_taken *taken);

/* One more file, or one fewer, that is charged to it, and a request that was refused: counted
 * at each level. Without a lock. */
void subpool_count_files(struct subpool *subpool, int64_t change);
void subpool_note_refused(struct subpool *subpool);

void subpool_read(struct subpool *subpool, struct subpool_counts *ret_counts);
/* What of all min_size of a mount and its tenants is not used. */
int64_t subpool_read_tree_resv(struct subpool *root);
/*
 * How many pages there are for it, and how many it could still get: of its size, or of what is
 * above it where it has none, in the end the pool. As hugetlbfs_statfs() counts.
 */
void subpool_read_space(struct subpool *subpool, int64_t *ret_size, int64_t *ret_free);
/* Whether it or one above it, but for the mount's, is at its size. */
bool subpool_is_full(struct subpool *subpool);

/* A subpool and its counters, for reading many at one instant. */
struct subpool_reading {
	struct subpool *subpool;
	struct subpool_counts counts;
	int64_t nr_files;
	uint64_t nr_refused;
};
/* Read @nr subpools of one mount at one instant; the readings are @stride bytes apart. */
void subpool_read_many(struct subpool_reading *readings, size_t nr, size_t stride);
