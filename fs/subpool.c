/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Subpool: the rules of size= and min_size=.
 *
 * Invariant, under the lock:
 *
 *	max(0, min - used) <= resv <= min
 *	used of a parent >= the sum of used + resv of those inside
 *
 * and the pool's resv includes all resv. (It may be more than min - used: the kernel refills
 * min_size with every page that comes back once use is below it, not just with what is
 * missing.) used <= max holds but for limits that were lowered, and pages that the kernel has
 * given by itself.
 *
 * What concerns subpools and pool at once is done under the lock, with the pool's inside. Were
 * it let go in between, then a reservation that is about to fail would hold pages of min_size
 * that others are entitled to, and what it had to give back would depend on what they did
 * meanwhile: undoing it with the rule for freed pages is how hugetlbfs lost and invented
 * reservations. So nothing is undone: what a charge needs is computed for all of the chain
 * first, then reserved in the pool, which may fail, and then entered, which cannot.
 */
#include "fs/subpool.h"

#include <assert.h>
#include <errno.h>

static int64_t min_pages(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t max_pages(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static void lock_tree(struct subpool *subpool)
{
	mutex_lock(&subpool->root->lock);
}

static void unlock_tree(struct subpool *subpool)
{
	mutex_unlock(&subpool->root->lock);
}

static void subpool_check_locked(const struct subpool *subpool)
{
	const struct subpool_counts *counts = &subpool->counts;

	mutex_assert_held(&subpool->root->lock);
	assert(counts->used >= 0);
	assert(counts->resv >= 0 && counts->resv <= counts->min);
	assert(counts->resv >= counts->min - counts->used);
	(void)counts;
}

static void change_resv_locked(struct subpool *subpool, int64_t change)
{
	subpool->counts.resv += change;
	subpool->root->tree_resv += change;
	subpool_check_locked(subpool);
}

static int64_t limit_of(const struct subpool *subpool)
{
	return subpool->counts.max == SUBPOOL_NO_LIMIT ? INT64_MAX : subpool->counts.max;
}

/* How many of @nr pages would have to be reserved in the pool, or -ENOMEM at a limit. */
static int64_t needed_locked(const struct subpool *subpool, int64_t nr)
{
	mutex_assert_held(&subpool->root->lock);
	assert(nr >= 0);
	for (; subpool && nr > 0; subpool = subpool->parent) {
		if (nr > limit_of(subpool) - subpool->counts.used)
			return -ENOMEM;
		nr -= min_pages(nr, subpool->counts.resv);
	}
	return nr;
}

/* Enter what needed_locked() has found possible. */
static void charge_locked(struct subpool *subpool, int64_t nr)
{
	int64_t nr_covered;

	for (; subpool && nr > 0; subpool = subpool->parent) {
		nr_covered = min_pages(nr, subpool->counts.resv);
		subpool->counts.used += nr;
		change_resv_locked(subpool, -nr_covered);
		nr -= nr_covered;
	}
}

static int64_t put_pages_locked(struct subpool *subpool, int64_t nr)
{
	int64_t nr_refilled;

	for (; subpool && nr > 0; subpool = subpool->parent) {
		struct subpool_counts *counts = &subpool->counts;

		assert(nr <= counts->used);
		counts->used -= nr;
		/*
		 * hugetlbfs does not count the use of a mount without size=, and thus takes it
		 * to be below min_size always. So do we: resv_hugepages would differ otherwise.
		 */
		nr_refilled = 0;
		if (counts->max == SUBPOOL_NO_LIMIT || counts->used < counts->min)
			nr_refilled = min_pages(nr, counts->min - counts->resv);
		change_resv_locked(subpool, nr_refilled);
		nr -= nr_refilled;
	}
	return nr;
}

static bool limits_are_valid(int64_t max, int64_t min)
{
	if (max < 0 && max != SUBPOOL_NO_LIMIT)
		return false;
	return min >= 0 && (max == SUBPOOL_NO_LIMIT || min <= max);
}

int subpool_init(struct subpool *subpool, struct pool *pool, int64_t max, int64_t min)
{
	int r;

	if (!limits_are_valid(max, min))
		return -EINVAL;
	r = pool_reserve(pool, min);
	if (r < 0)
		return r;

	*subpool = (struct subpool){
		.root = subpool,
		.pool = pool,
		.counts = {.max = max, .min = min, .resv = min},
		.tree_resv = min,
	};
	mutex_init(&subpool->lock, LOCK_RANK_SUBPOOL);
	return 0;
}

void subpool_deinit(struct subpool *subpool)
{
	if (!subpool)
		return;
	assert(subpool->counts.used == 0);
	subpool_drop_limits(subpool);
	mutex_deinit(&subpool->lock);
}

void subpool_init_tenant(struct subpool *subpool, struct subpool *parent,
			 void (*release)(struct subpool *subpool))
{
	*subpool = (struct subpool){
		.root = parent->root,
		.parent = subpool_ref(parent),
		.pool = parent->pool,
		.counts = {.max = SUBPOOL_NO_LIMIT},
		.nr_refs = 1,
		.release = release,
	};
	mutex_init(&subpool->lock, LOCK_RANK_SUBPOOL);
}

struct subpool *subpool_ref(struct subpool *subpool)
{
	if (subpool->parent)
		atomic_fetch_add(&subpool->nr_refs, 1);
	return subpool;
}

void subpool_unref(struct subpool *subpool)
{
	struct subpool *parent;

	while (subpool && subpool->parent && atomic_fetch_sub(&subpool->nr_refs, 1) == 1) {
		parent = subpool->parent;
		subpool_deinit(subpool);
		subpool->release(subpool);
		subpool = parent;
	}
}

/* Let @nr pages more be set aside for @subpool, as far as its parents and the pool have them.
 */
static int set_aside_locked(struct subpool *subpool, int64_t nr, bool surplus)
{
	int64_t nr_needed = needed_locked(subpool->parent, nr);
	int r;

	if (nr_needed < 0)
		return -ENOMEM;
	r = surplus ? pool_reserve(subpool->pool, nr_needed)
		    : pool_reserve_free(subpool->pool, nr_needed);
	if (r == 0)
		charge_locked(subpool->parent, nr);
	return r;
}

int subpool_set_limits(struct subpool *subpool, int64_t max, int64_t min, bool surplus)
{
	struct subpool_counts *counts = &subpool->counts;
	int64_t change;
	int r = 0;

	assert(subpool->parent);
	if (!limits_are_valid(max, min))
		return -EINVAL;
	lock_tree(subpool);
	change = max_pages(0, min - counts->used) - counts->resv;
	if (change > 0)
		r = set_aside_locked(subpool, change, surplus);
	else
		pool_unreserve(subpool->pool, put_pages_locked(subpool->parent, -change));
	if (r == 0) {
		counts->max = max;
		counts->min = min;
		change_resv_locked(subpool, change);
	}
	unlock_tree(subpool);
	/* A higher limit may be what somebody waits for. */
	if (r == 0)
		waitqueue_wake_all(&subpool->pool->freed);
	return r;
}

void subpool_drop_limits(struct subpool *subpool)
{
	int64_t resv;

	lock_tree(subpool);
	resv = subpool->counts.resv;
	subpool->counts.max = SUBPOOL_NO_LIMIT;
	subpool->counts.min = 0;
	change_resv_locked(subpool, -resv);
	pool_unreserve(subpool->pool, put_pages_locked(subpool->parent, resv));
	unlock_tree(subpool);
}

int64_t subpool_get_pages(struct subpool *subpool, int64_t nr)
{
	int64_t r;

	lock_tree(subpool);
	r = needed_locked(subpool, nr);
	if (r >= 0)
		charge_locked(subpool, nr);
	unlock_tree(subpool);
	return r;
}

int64_t subpool_put_pages(struct subpool *subpool, int64_t nr)
{
	int64_t r;

	lock_tree(subpool);
	r = put_pages_locked(subpool, nr);
	unlock_tree(subpool);
	return r;
}

int subpool_reserve(struct subpool *subpool, int64_t nr)
{
	int64_t nr_needed;
	int r;

	lock_tree(subpool);
	nr_needed = needed_locked(subpool, nr);
	r = nr_needed < 0 ? (int)nr_needed : pool_reserve(subpool->pool, nr_needed);
	if (r == 0)
		charge_locked(subpool, nr);
	unlock_tree(subpool);
	return r;
}

void subpool_unreserve(struct subpool *subpool, int64_t nr)
{
	lock_tree(subpool);
	pool_unreserve(subpool->pool, put_pages_locked(subpool, nr));
	unlock_tree(subpool);
}

/* The first from @subpool on that has a page of min_size to give, or NULL. */
static struct subpool *covering_locked(struct subpool *subpool)
{
	while (subpool && subpool->counts.resv == 0)
		subpool = subpool->parent;
	return subpool;
}

static int take_locked(struct subpool *subpool, const struct pool_place *place,
		       struct subpool_taken *ret_taken)
{
	struct subpool *covered_by = covering_locked(subpool);
	int r;

	r = pool_take_page_at(subpool->pool, place, covered_by != NULL, &ret_taken->source);
	if (r < 0)
		return r;
	ret_taken->covered_by = covered_by;
	charge_locked(subpool, 1);
	return r;
}

int subpool_take_page_at(struct subpool *subpool, const struct pool_place *place,
			 struct subpool_taken *ret_taken)
{
	int r;

	lock_tree(subpool);
	r = needed_locked(subpool, 1) < 0 ? -ENOMEM : take_locked(subpool, place, ret_taken);
	unlock_tree(subpool);
	return r;
}

int subpool_take_page(struct subpool *subpool, int node, struct subpool_taken *ret_taken)
{
	const struct pool_place place = {node, POOL_ALL_NODES, POOL_ALL_NODES, false};

	return subpool_take_page_at(subpool, &place, ret_taken);
}

int subpool_take_given(struct subpool *subpool, int node, struct subpool_taken *ret_taken)
{
	const struct pool_place place = {node, POOL_ALL_NODES, POOL_ALL_NODES, false};
	int r;

	lock_tree(subpool);
	r = take_locked(subpool, &place, ret_taken);
	unlock_tree(subpool);
	return r;
}

/* What min_size, of any level, wants back of @nr pages that are uncharged one by one. */
static int64_t refill_locked(struct subpool *subpool, int64_t nr)
{
	int64_t nr_below, nr_refilled, total = 0;

	for (; subpool && nr > 0; subpool = subpool->parent) {
		struct subpool_counts *counts = &subpool->counts;

		assert(nr <= counts->used);
		counts->used -= nr;
		/* Those that left min_size in use behind them did not refill it. */
		nr_below = nr;
		if (counts->max != SUBPOOL_NO_LIMIT)
			nr_below = min_pages(nr, counts->min - counts->used);
		nr_refilled = max_pages(0, min_pages(nr_below, counts->min - counts->resv));
		change_resv_locked(subpool, nr_refilled);
		total += nr_refilled;
		nr -= nr_refilled;
	}
	return total;
}

void subpool_put_taken(struct subpool *subpool, int node, int64_t nr)
{
	lock_tree(subpool);
	/* A page that min_size wants back stays reserved for it. */
	pool_put_pages(subpool->pool, node, nr, refill_locked(subpool, nr));
	unlock_tree(subpool);
}

void subpool_put_page(struct subpool *subpool, int node)
{
	subpool_put_taken(subpool, node, 1);
}

/*
 * To min_size goes what came from it. While the page was out others may have come and gone:
 * then min_size may be full, or now need this page to be kept.
 */
static bool is_restored_locked(const struct subpool *subpool, const struct subpool_taken *taken)
{
	const struct subpool_counts *counts = &subpool->counts;

	return counts->resv < counts->min &&
	       (subpool == taken->covered_by || counts->resv < counts->min - counts->used);
}

void subpool_untake_page(struct subpool *subpool, int node, const struct subpool_taken *taken)
{
	struct pool *pool = subpool->pool;
	struct subpool *at;
	bool restore = false;

	lock_tree(subpool);
	for (at = subpool; at && !restore; at = at->parent) {
		assert(at->counts.used > 0);
		at->counts.used--;
		restore = is_restored_locked(at, taken);
		change_resv_locked(at, restore);
	}
	pool_put_page(pool, node, restore);
	unlock_tree(subpool);
}

void subpool_count_files(struct subpool *subpool, int64_t change)
{
	for (; subpool; subpool = subpool->parent)
		atomic_fetch_add(&subpool->nr_files, change);
}

void subpool_note_refused(struct subpool *subpool)
{
	for (; subpool; subpool = subpool->parent)
		atomic_fetch_add(&subpool->nr_refused, 1);
}

void subpool_read(struct subpool *subpool, struct subpool_counts *ret_counts)
{
	lock_tree(subpool);
	*ret_counts = subpool->counts;
	unlock_tree(subpool);
}

int64_t subpool_read_tree_resv(struct subpool *root)
{
	int64_t resv;

	lock_tree(root);
	resv = root->tree_resv;
	unlock_tree(root);
	return resv;
}

void subpool_read_space(struct subpool *subpool, int64_t *ret_size, int64_t *ret_free)
{
	struct pool_counts pool;
	int64_t resv = 0;
	struct subpool *at;

	lock_tree(subpool);
	pool_read(subpool->pool, &pool);
	for (at = subpool; at && at->counts.max == SUBPOOL_NO_LIMIT; at = at->parent)
		resv += at->counts.resv;
	if (at) {
		*ret_size = at->counts.max;
		*ret_free = max_pages(0, at->counts.max - at->counts.used + resv);
	} else {
		*ret_size = pool.nr;
		*ret_free = max_pages(0, pool.free - pool.resv + resv);
	}
	unlock_tree(subpool);
}

bool subpool_is_full(struct subpool *subpool)
{
	struct subpool *at;

	lock_tree(subpool);
	for (at = subpool; at->parent && at->counts.used < limit_of(at); at = at->parent)
		;
	unlock_tree(subpool);
	return at->parent != NULL;
}

void subpool_read_many(struct subpool_reading *readings, size_t nr, size_t stride)
{
	struct subpool *root = readings->subpool->root;
	struct subpool_reading *reading;

	mutex_lock(&root->lock);
	for (size_t i = 0; i < nr; i++) {
		reading = (struct subpool_reading *)((char *)readings + i * stride);
		reading->counts = reading->subpool->counts;
		reading->nr_files = reading->subpool->nr_files;
		reading->nr_refused = reading->subpool->nr_refused;
	}
	mutex_unlock(&root->lock);
}
