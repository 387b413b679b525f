/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Pool: struct hstate's counters without its pages.
 *
 * Where the kernel loops over pages, this computes: a reservation of a billion surplus pages is
 * as quick as one of two, and the lock is held for a time that depends on the number of nodes
 * only. The result is what the loop over pages would have left, next node included.
 *
 * Every change happens under pool->lock and ends in pool_check_locked().
 */
#include "fs/pool.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "fs/node_share.h"

static int64_t min_pages(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static bool node_is_valid(const struct pool *pool, int node)
{
	return node >= 0 && node < pool->counts.nr_nodes;
}

static int node_after(const struct pool *pool, int node)
{
	return (node + 1) % pool->counts.nr_nodes;
}

/* Free pages that nobody has reserved. Follows available_huge_pages(). */
static int64_t available_pages_locked(const struct pool *pool)
{
	mutex_assert_held(&pool->lock);
	return pool->counts.free - pool->counts.resv;
}

/* How many surplus pages may still be made. */
static int64_t overcommit_room_locked(const struct pool *pool)
{
	const struct pool_counts *counts = &pool->counts;

	mutex_assert_held(&pool->lock);
	/* No pool may grow beyond what its counters hold, whatever it is allowed. */
	return min_pages(counts->overcommit - counts->surplus, INT64_MAX - counts->nr);
}

/* The invariants of fs/pool.h. */
static void pool_check_locked(const struct pool *pool)
{
	const struct pool_counts *counts = &pool->counts;
	struct pool_node sum = {0};

	mutex_assert_held(&pool->lock);
	for (int node = 0; node < counts->nr_nodes; node++) {
		const struct pool_node *here = &counts->node[node];

		assert(here->free >= 0 && here->free <= here->nr);
		assert(here->surplus >= 0 && here->surplus <= here->nr);
		assert(here->bound >= 0 && here->bound <= here->free);
		sum.bound += here->bound;
		sum.nr += here->nr;
		sum.free += here->free;
		sum.surplus += here->surplus;
	}
	assert(sum.nr == counts->nr);
	assert(sum.free == counts->free);
	assert(sum.surplus == counts->surplus);
	assert(counts->resv >= 0 && counts->resv <= counts->free);
	assert(sum.bound <= counts->resv);
	(void)sum;
}

/* Add (or, negative, subtract) to a node's counters and to the sums, which thus cannot part. */
static void change_node_locked(struct pool *pool, int node, struct pool_node change)
{
	struct pool_counts *counts = &pool->counts;

	mutex_assert_held(&pool->lock);
	assert(node_is_valid(pool, node));
	counts->node[node].nr += change.nr;
	counts->node[node].free += change.free;
	counts->node[node].surplus += change.surplus;
	counts->nr += change.nr;
	counts->free += change.free;
	counts->surplus += change.surplus;
}

/*
 * Deal @nr pages to the nodes, one to each in turn from @next_node on, passing over nodes whose
 * @room is used up; there is room for all of them. The number for each node goes to @ret_deal.
 * Returns the node after the last one that got a page.
 *
 * As many whole turns as all nodes with room can take are dealt at once, so that this takes a
 * time that depends on the number of nodes only.
 */
static int deal_pages(int nr_nodes, int next_node, int64_t nr, const int64_t *room,
		      int64_t *ret_deal)
{
	memset(ret_deal, 0, (size_t)nr_nodes * sizeof(*ret_deal));

	while (nr > 0) {
		int64_t least = INT64_MAX, turns;
		int nr_open = 0;

		for (int node = 0; node < nr_nodes; node++) {
			if (room[node] > ret_deal[node]) {
				least = min_pages(least, room[node] - ret_deal[node]);
				nr_open++;
			}
		}
		assert(nr_open > 0);

		turns = min_pages(nr / nr_open, least);
		if (turns == 0)
			turns = 1;
		for (int i = 0, first = next_node; i < nr_nodes && nr > 0; i++) {
			int node = (first + i) % nr_nodes;

			if (room[node] > ret_deal[node]) {
				ret_deal[node] += turns;
				nr -= turns;
				next_node = (node + 1) % nr_nodes;
			}
		}
	}

	return next_node;
}

/* Put @nr new surplus pages among the free ones. There is room for them. */
static void make_surplus_pages_locked(struct pool *pool, int64_t nr)
{
	int nr_nodes = pool->counts.nr_nodes;
	int64_t room[POOL_MAX_NODES] = {0}, deal[POOL_MAX_NODES];

	assert(nr <= overcommit_room_locked(pool));
	for (int node = 0; node < nr_nodes; node++)
		room[node] = nr;

	pool->next_node_to_alloc =
		deal_pages(nr_nodes, pool->next_node_to_alloc, nr, room, deal);
	for (int node = 0; node < nr_nodes; node++)
		change_node_locked(pool, node,
				   (struct pool_node){deal[node], deal[node], deal[node]});
}

/* Let at most @nr free surplus pages leave. Follows remove_pool_hugetlb_folio(). */
static void drop_surplus_pages_locked(struct pool *pool, int64_t nr)
{
	int nr_nodes = pool->counts.nr_nodes;
	int64_t room[POOL_MAX_NODES] = {0}, deal[POOL_MAX_NODES], total = 0;

	mutex_assert_held(&pool->lock);
	for (int node = 0; node < nr_nodes; node++) {
		const struct pool_node *here = &pool->counts.node[node];

		room[node] = min_pages(here->surplus, here->free - here->bound);
		total += room[node];
	}

	pool->next_node_to_free =
		deal_pages(nr_nodes, pool->next_node_to_free, min_pages(nr, total), room, deal);
	for (int node = 0; node < nr_nodes; node++)
		change_node_locked(pool, node,
				   (struct pool_node){-deal[node], -deal[node], -deal[node]});
}

static bool is_in(uint64_t nodes, int node)
{
	return nodes & NODE_BIT(node);
}

/* The first node of @nodes, from @node on, that has a free page bound to nobody; or -1. */
static int find_free_node_locked(const struct pool *pool, int node, uint64_t nodes)
{
	const struct pool_node *here;

	mutex_assert_held(&pool->lock);
	for (int i = 0; i < pool->counts.nr_nodes; i++) {
		here = &pool->counts.node[node];
		if (is_in(nodes, node) && here->free > here->bound)
			return node;
		node = node_after(pool, node);
	}
	return -1;
}

/* The first node of @nodes from @node on, or -1. */
static int find_node(const struct pool *pool, int node, uint64_t nodes)
{
	for (int i = 0; i < pool->counts.nr_nodes; i++) {
		if (is_in(nodes, node))
			return node;
		node = node_after(pool, node);
	}
	return -1;
}

void pool_init(struct pool *pool, int nr_nodes, int64_t overcommit)
{
	assert(nr_nodes > 0 && nr_nodes <= POOL_MAX_NODES);
	assert(overcommit >= 0);

	*pool = (struct pool){.counts = {.nr_nodes = nr_nodes, .overcommit = overcommit}};
	mutex_init(&pool->lock, LOCK_RANK_POOL);
}

void pool_deinit(struct pool *pool)
{
	if (!pool)
		return;
	assert(pool->counts.resv == 0);
	assert(pool->counts.free == pool->counts.nr);
	mutex_deinit(&pool->lock);
}

int pool_resize(struct pool *pool, int node, int64_t nr)
{
	const struct pool_node *here;
	int r = 0;

	if (!node_is_valid(pool, node))
		return -EINVAL;
	here = &pool->counts.node[node];

	mutex_lock(&pool->lock);
	if (nr > INT64_MAX - pool->counts.nr)
		r = -EOVERFLOW;
	/* Surplus pages are not what is taken away: they leave by themselves. */
	else if (nr < 0 &&
		 (nr < here->bound - here->free || nr < -available_pages_locked(pool) ||
		  nr < here->surplus - here->nr))
		r = -EBUSY;
	else
		change_node_locked(pool, node, (struct pool_node){.nr = nr, .free = nr});
	pool_check_locked(pool);
	mutex_unlock(&pool->lock);
	return r;
}

/* Whether pages of @node may be changed, where those of @allowed are to be. */
static bool is_allowed(int node, int allowed)
{
	return allowed == POOL_ANY_NODE || node == allowed;
}

/* Make @nr pages surplus or, negative, others of surplus pages, as many as there are. Returns
 * how many. Follows adjust_pool_surplus(). */
static int64_t adjust_surplus_locked(struct pool *pool, int allowed, int64_t nr)
{
	int64_t done = 0, here, room;

	mutex_assert_held(&pool->lock);
	for (int node = 0; node < pool->counts.nr_nodes; node++) {
		const struct pool_node *counts = &pool->counts.node[node];

		if (!is_allowed(node, allowed))
			continue;
		room = nr > 0 ? counts->nr - counts->surplus : counts->surplus;
		here = min_pages(room, (nr > 0 ? nr : -nr) - done);
		change_node_locked(pool, node,
				   (struct pool_node){.surplus = nr > 0 ? here : -here});
		done += here;
	}
	return done;
}

/* Let at most @nr free pages leave. Follows remove_pool_hugetlb_folio(). */
static int64_t drop_free_pages_locked(struct pool *pool, int allowed, int64_t nr,
				      int64_t *ret_left)
{
	int nr_nodes = pool->counts.nr_nodes;
	int64_t room[POOL_MAX_NODES] = {0}, total = 0;

	mutex_assert_held(&pool->lock);
	for (int node = 0; node < nr_nodes; node++) {
		const struct pool_node *here = &pool->counts.node[node];

		if (!is_allowed(node, allowed))
			continue;
		/* the kernel may let a surplus page leave and call another one so instead */
		room[node] = min_pages(here->free - here->bound, here->nr - here->surplus);
		total += room[node];
	}
	nr = min_pages(nr, total);
	pool->next_node_to_free =
		deal_pages(nr_nodes, pool->next_node_to_free, nr, room, ret_left);
	for (int node = 0; node < nr_nodes; node++)
		change_node_locked(pool, node,
				   (struct pool_node){-ret_left[node], -ret_left[node], 0});
	return nr;
}

/* How many pages a node (POOL_ANY_NODE: all of them) has that are not surplus. */
static int64_t persistent_locked(const struct pool *pool, int node)
{
	const struct pool_counts *counts = &pool->counts;

	mutex_assert_held(&pool->lock);
	return node == POOL_ANY_NODE ? counts->nr - counts->surplus
				     : counts->node[node].nr - counts->node[node].surplus;
}

int64_t pool_set_nr(struct pool *pool, int node, int64_t nr, int64_t *ret_left)
{
	int64_t persistent, missing = 0, spare;

	assert(nr >= 0);
	assert(node == POOL_ANY_NODE || node_is_valid(pool, node));
	memset(ret_left, 0, sizeof(*ret_left) * (size_t)pool->counts.nr_nodes);

	mutex_lock(&pool->lock);
	persistent = persistent_locked(pool, node);
	if (nr > persistent) {
		persistent += adjust_surplus_locked(pool, node, persistent - nr);
		missing = nr - persistent;
	} else if (nr < persistent) {
		spare = min_pages(persistent - nr, available_pages_locked(pool));
		persistent -= drop_free_pages_locked(pool, node, spare, ret_left);
		adjust_surplus_locked(pool, node, persistent - nr);
	}
	pool_check_locked(pool);
	mutex_unlock(&pool->lock);
	return missing;
}

void pool_set_overcommit(struct pool *pool, int64_t overcommit)
{
	assert(overcommit >= 0);

	mutex_lock(&pool->lock);
	pool->counts.overcommit = overcommit;
	pool_check_locked(pool);
	mutex_unlock(&pool->lock);
	waitqueue_wake_all(&pool->freed);
}

static int reserve(struct pool *pool, int64_t nr, bool surplus)
{
	int64_t nr_missing;
	int r = 0;

	assert(nr >= 0);

	mutex_lock(&pool->lock);
	nr_missing = nr - available_pages_locked(pool);
	if (nr_missing > 0 && (!surplus || nr_missing > overcommit_room_locked(pool))) {
		r = -ENOMEM;
		goto out_unlock;
	}
	if (nr_missing > 0)
		make_surplus_pages_locked(pool, nr_missing);
	pool->counts.resv += nr;
	pool_check_locked(pool);
out_unlock:
	mutex_unlock(&pool->lock);
	return r;
}

int pool_reserve(struct pool *pool, int64_t nr)
{
	return reserve(pool, nr, true);
}

int pool_reserve_free(struct pool *pool, int64_t nr)
{
	return reserve(pool, nr, false);
}

void pool_unreserve(struct pool *pool, int64_t nr)
{
	assert(nr >= 0);

	mutex_lock(&pool->lock);
	assert(nr <= pool->counts.resv);
	pool->counts.resv -= nr;
	drop_surplus_pages_locked(pool, nr);
	pool_check_locked(pool);
	mutex_unlock(&pool->lock);
	waitqueue_wake_all(&pool->freed);
}

int pool_bind(struct pool *pool, uint64_t nodes, int64_t nr, int64_t *ret_bound)
{
	int64_t room[POOL_MAX_NODES] = {0}, total = 0;
	int nr_nodes = pool->counts.nr_nodes;
	int r = 0;

	mutex_lock(&pool->lock);
	for (int node = 0; node < nr_nodes; node++) {
		const struct pool_node *here = &pool->counts.node[node];

		if (is_in(nodes, node))
			room[node] = here->free - here->bound;
		total += room[node];
	}
	if (nr > total) {
		r = -ENOMEM;
	} else {
		deal_pages(nr_nodes, 0, nr, room, ret_bound);
		for (int node = 0; node < nr_nodes; node++)
			pool->counts.node[node].bound += ret_bound[node];
	}
	pool_check_locked(pool);
	mutex_unlock(&pool->lock);
	return r;
}

void pool_unbind(struct pool *pool, int node, int64_t nr)
{
	assert(node_is_valid(pool, node));

	mutex_lock(&pool->lock);
	assert(nr >= 0 && nr <= pool->counts.node[node].bound);
	pool->counts.node[node].bound -= nr;
	pool_check_locked(pool);
	mutex_unlock(&pool->lock);
}

/* On the node that was asked for if it has one; in turns where none was. */
static int take_free_locked(struct pool *pool, const struct pool_place *place)
{
	int node = place->first == POOL_ANY_NODE ? pool->next_node_to_alloc : place->first;

	if (place->bound) {
		assert(pool->counts.node[node].bound > 0);
		pool->counts.node[node].bound--;
	} else {
		node = find_free_node_locked(pool, node, place->nodes);
	}
	if (node < 0)
		return -ENOMEM;
	if (place->first == POOL_ANY_NODE)
		pool->next_node_to_alloc = node_after(pool, node);
	change_node_locked(pool, node, (struct pool_node){.free = -1});
	return node;
}

static int take_surplus_locked(struct pool *pool, const struct pool_place *place)
{
	int node = place->first == POOL_ANY_NODE ? pool->next_node_to_alloc : place->first;

	node = find_node(pool, node, place->surplus);
	if (node < 0 || overcommit_room_locked(pool) <= 0)
		return -ENOMEM;
	if (place->first == POOL_ANY_NODE)
		pool->next_node_to_alloc = node_after(pool, node);
	change_node_locked(pool, node, (struct pool_node){.nr = 1, .surplus = 1});
	return node;
}

int pool_take_page_at(struct pool *pool, const struct pool_place *place, bool reserved,
		      enum pool_source *ret_source)
{
	int r = -ENOMEM;

	assert(place->first == POOL_ANY_NODE || node_is_valid(pool, place->first));
	assert(reserved || !place->bound);

	mutex_lock(&pool->lock);
	if (reserved || available_pages_locked(pool) > 0)
		r = take_free_locked(pool, place);
	if (r >= 0) {
		if (reserved)
			pool->counts.resv--;
		*ret_source = reserved ? POOL_FROM_RESERVATION : POOL_FROM_FREE;
	} else if (!reserved) {
		r = take_surplus_locked(pool, place);
		if (r >= 0)
			*ret_source = POOL_FROM_SURPLUS;
	}
	pool_check_locked(pool);
	mutex_unlock(&pool->lock);
	return r;
}

int pool_take_page(struct pool *pool, int node, bool reserved, enum pool_source *ret_source)
{
	const struct pool_place place = {node, POOL_ALL_NODES, POOL_ALL_NODES, false};

	return pool_take_page_at(pool, &place, reserved, ret_source);
}

void pool_take_reserved(struct pool *pool, int node, int64_t nr)
{
	assert(node_is_valid(pool, node));

	mutex_lock(&pool->lock);
	assert(nr >= 0 && nr <= pool->counts.resv);
	change_node_locked(pool, node, (struct pool_node){.free = -nr});
	pool->counts.resv -= nr;
	pool_check_locked(pool);
	mutex_unlock(&pool->lock);
}

void pool_put_pages(struct pool *pool, int node, int64_t nr, int64_t nr_restored)
{
	int64_t leaving;

	assert(node_is_valid(pool, node));
	assert(nr_restored >= 0 && nr_restored <= nr);

	mutex_lock(&pool->lock);
	/*
	 * Which page of a node is the surplus one is not known and does not matter, as in the
	 * kernel. But unlike there a page whose reservation is restored stays: if it left, the
	 * reservation would have no page, and whoever has it could fail.
	 */
	leaving = min_pages(nr - nr_restored, pool->counts.node[node].surplus);
	change_node_locked(pool, node, (struct pool_node){-leaving, nr - leaving, -leaving});
	pool->counts.resv += nr_restored;
	pool_check_locked(pool);
	mutex_unlock(&pool->lock);
	waitqueue_wake_all(&pool->freed);
}

void pool_put_page(struct pool *pool, int node, bool restore)
{
	pool_put_pages(pool, node, 1, restore);
}

void pool_move_page(struct pool *pool, int from, int to)
{
	assert(node_is_valid(pool, from));
	assert(node_is_valid(pool, to));

	mutex_lock(&pool->lock);
	if (pool->counts.node[to].free > pool->counts.node[to].bound) {
		/* A page of @to was taken in place of the one on @from. */
		change_node_locked(pool, from, (struct pool_node){.free = 1});
		change_node_locked(pool, to, (struct pool_node){.free = -1});
	} else {
		/* @to has none that could have been taken: the page is one that was made there.
		 */
		int64_t surplus = pool->counts.node[from].surplus > 0;

		change_node_locked(pool, from,
				   (struct pool_node){.nr = -1, .surplus = -surplus});
		change_node_locked(pool, to, (struct pool_node){.nr = 1, .surplus = surplus});
	}
	pool_check_locked(pool);
	mutex_unlock(&pool->lock);
}

void pool_read(struct pool *pool, struct pool_counts *ret_counts)
{
	mutex_lock(&pool->lock);
	*ret_counts = pool->counts;
	mutex_unlock(&pool->lock);
}
