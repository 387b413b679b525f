/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Subpool: the rules of size= and min_size=.
 *
 * Invariant, under subpool->lock: used <= max, and
 *
 *	max(0, min - used) <= resv <= min
 *
 * and the pool's resv includes this resv. (It may be more than min - used: the kernel refills
 * min_size with every page that comes back once use is below it, not just with what is
 *missing.)
 *
 * What concerns subpool and pool at once is done under the subpool's lock, with the pool's
 * inside. Were it let go in between, then a reservation that is about to fail would hold pages
 * of min_size that others are entitled to, and what it had to give back would depend on what
 * they did meanwhile: undoing it with the rule for freed pages is how hugetlbfs lost and
 * invented reservations. Under the lock, undoing is putting the old counters back.
 */
#include "fs/subpool.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>

static int64_t min_pages(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static void subpool_check_locked(const struct subpool *subpool)
{
	const struct subpool_counts *counts = &subpool->counts;

	mutex_assert_held(&subpool->lock);
	assert(counts->used >= 0);
	assert(counts->max == SUBPOOL_NO_LIMIT || counts->used <= counts->max);
	assert(counts->resv >= 0 && counts->resv <= counts->min);
	assert(counts->resv >= counts->min - counts->used);
	(void)counts;
}

static int64_t get_pages_locked(struct subpool *subpool, int64_t nr)
{
	struct subpool_counts *counts = &subpool->counts;
	int64_t limit = counts->max == SUBPOOL_NO_LIMIT ? INT64_MAX : counts->max;
	int64_t nr_covered;

	mutex_assert_held(&subpool->lock);
	assert(nr >= 0);
	if (nr > limit - counts->used)
		return -ENOMEM;

	nr_covered = min_pages(nr, counts->resv);
	counts->used += nr;
	counts->resv -= nr_covered;
	subpool_check_locked(subpool);
	return nr - nr_covered;
}

static int64_t put_pages_locked(struct subpool *subpool, int64_t nr)
{
	struct subpool_counts *counts = &subpool->counts;
	int64_t nr_refilled = 0;

	mutex_assert_held(&subpool->lock);
	assert(nr >= 0 && nr <= counts->used);

	counts->used -= nr;
	/*
	 * hugetlbfs does not count the use of a mount without size=, and thus takes it to be
	 * below min_size always. So do we: resv_hugepages would differ otherwise.
	 */
	if (counts->max == SUBPOOL_NO_LIMIT || counts->used < counts->min)
		nr_refilled = min_pages(nr, counts->min - counts->resv);
	counts->resv += nr_refilled;
	subpool_check_locked(subpool);
	return nr - nr_refilled;
}

int subpool_init(struct subpool *subpool, struct pool *pool, int64_t max, int64_t min)
{
	int r;

	if (max < 0 && max != SUBPOOL_NO_LIMIT)
		return -EINVAL;
	if (min < 0 || (max != SUBPOOL_NO_LIMIT && min > max))
		return -EINVAL;

	r = pool_reserve(pool, min);
	if (r < 0)
		return r;

	*subpool = (struct subpool){
		.pool = pool,
		.counts = {.max = max, .min = min, .resv = min},
	};
	mutex_init(&subpool->lock, LOCK_RANK_SUBPOOL);
	return 0;
}

void subpool_deinit(struct subpool *subpool)
{
	if (!subpool)
		return;
	assert(subpool->counts.used == 0);
	pool_unreserve(subpool->pool, subpool->counts.resv);
	mutex_deinit(&subpool->lock);
}

void subpool_drop_limits(struct subpool *subpool)
{
	mutex_lock(&subpool->lock);
	pool_unreserve(subpool->pool, subpool->counts.resv);
	subpool->counts.max = SUBPOOL_NO_LIMIT;
	subpool->counts.min = subpool->counts.resv = 0;
	subpool_check_locked(subpool);
	mutex_unlock(&subpool->lock);
}

int64_t subpool_get_pages(struct subpool *subpool, int64_t nr)
{
	int64_t r;

	mutex_lock(&subpool->lock);
	r = get_pages_locked(subpool, nr);
	mutex_unlock(&subpool->lock);
	return r;
}

int64_t subpool_put_pages(struct subpool *subpool, int64_t nr)
{
	int64_t r;

	mutex_lock(&subpool->lock);
	r = put_pages_locked(subpool, nr);
	mutex_unlock(&subpool->lock);
	return r;
}

int subpool_reserve(struct subpool *subpool, int64_t nr)
{
	struct subpool_counts before;
	int64_t nr_needed;
	int r;

	mutex_lock(&subpool->lock);
	before = subpool->counts;
	nr_needed = get_pages_locked(subpool, nr);
	r = nr_needed < 0 ? (int)nr_needed : pool_reserve(subpool->pool, nr_needed);
	if (r < 0)
		subpool->counts = before;
	mutex_unlock(&subpool->lock);
	return r;
}

void subpool_unreserve(struct subpool *subpool, int64_t nr)
{
	mutex_lock(&subpool->lock);
	pool_unreserve(subpool->pool, put_pages_locked(subpool, nr));
	mutex_unlock(&subpool->lock);
}

int subpool_take_page(struct subpool *subpool, int node, enum pool_source *ret_source)
{
	struct subpool_counts before;
	int64_t nr_needed;
	int r;

	mutex_lock(&subpool->lock);
	before = subpool->counts;
	nr_needed = get_pages_locked(subpool, 1);
	r = nr_needed < 0 ? (int)nr_needed
			  : pool_take_page(subpool->pool, node, nr_needed == 0, ret_source);
	if (r < 0)
		subpool->counts = before;
	mutex_unlock(&subpool->lock);
	return r;
}

/* What min_size wants back of @nr pages that are uncharged one by one. */
static int64_t refill_locked(struct subpool *subpool, int64_t nr)
{
	struct subpool_counts *counts = &subpool->counts;
	int64_t nr_below = nr, nr_refilled;

	mutex_assert_held(&subpool->lock);
	assert(nr >= 0 && nr <= counts->used);
	counts->used -= nr;
	/* Those that left min_size in use behind them did not refill it. */
	if (counts->max != SUBPOOL_NO_LIMIT)
		nr_below = min_pages(nr, counts->min - counts->used);
	nr_refilled = min_pages(nr_below, counts->min - counts->resv);
	if (nr_refilled < 0)
		nr_refilled = 0;
	counts->resv += nr_refilled;
	subpool_check_locked(subpool);
	return nr_refilled;
}

void subpool_put_taken(struct subpool *subpool, int node, int64_t nr)
{
	mutex_lock(&subpool->lock);
	/* A page that min_size wants back stays reserved for it. */
	pool_put_pages(subpool->pool, node, nr, refill_locked(subpool, nr));
	mutex_unlock(&subpool->lock);
}

void subpool_put_page(struct subpool *subpool, int node)
{
	subpool_put_taken(subpool, node, 1);
}

void subpool_untake_page(struct subpool *subpool, int node, enum pool_source source)
{
	struct subpool_counts *counts = &subpool->counts;
	bool restore;

	mutex_lock(&subpool->lock);
	assert(counts->used > 0);
	counts->used--;
	/*
	 * To min_size goes what came from it. While the page was out others may have come and
	 * gone: then min_size may be full, or now need this page to be kept.
	 */
	restore = counts->resv < counts->min && (source == POOL_FROM_RESERVATION ||
						 counts->resv < counts->min - counts->used);
	counts->resv += restore;
	subpool_check_locked(subpool);
	pool_put_page(subpool->pool, node, restore);
	mutex_unlock(&subpool->lock);
}

void subpool_read(struct subpool *subpool, struct subpool_counts *ret_counts)
{
	mutex_lock(&subpool->lock);
	*ret_counts = subpool->counts;
	mutex_unlock(&subpool->lock);
}
