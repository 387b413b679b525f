/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the page transaction has to do, told in another way: the state of each page in an array,
 * and the counters by the rules of hugetlbfs, page by page. Nothing here is shared with fs/. To
 * be included after page_util.h.
 *
 * On several nodes the model has no surplus pages; test_pool.c has them.
 */
#pragma once

enum {
	MODEL_PAGES = 48,
	MODEL_NODES = 2,
	ABSENT = -2,
	RESERVED = -1, /* else the node that it is on */
	ANY = POOL_ANY_NODE,
};

struct model_pool {
	int nr[MODEL_NODES], free[MODEL_NODES], surplus, resv, overcommit;
	int next_node; /* where a page comes from that may be anywhere */
};

struct model {
	struct model_pool pool;
	int nr_nodes;
	int max, min, used, min_resv;
	int page[NR_SPACES][MODEL_PAGES];
	int end[NR_SPACES];
	bool added[NR_SPACES][MODEL_PAGES]; /* in the map for page_unreserve_map() */
};

static inline int model_free(const struct model *model)
{
	return model->pool.free[0] + model->pool.free[1];
}

/* Charge to the subpool: how many must come from the pool, or -1. */
static inline int model_get(struct model *model, int nr)
{
	int covered = nr < model->min_resv ? nr : model->min_resv;

	if (model->max != NONE && model->used + nr > model->max)
		return -1;
	model->used += nr;
	model->min_resv -= covered;
	return nr - covered;
}

/* The opposite: how many reservations go back to the pool. min_size is refilled first. */
static inline int model_put(struct model *model, int nr)
{
	int refill = 0;

	model->used -= nr;
	if (model->max == NONE || model->used < model->min) {
		refill = model->min - model->min_resv;
		refill = nr < refill ? nr : refill;
	}
	model->min_resv += refill;
	return nr - refill;
}

static inline int model_reserve_pool(struct model *model, int nr)
{
	int missing = model->pool.resv + nr - model_free(model);

	if (missing > 0 && model->pool.surplus + missing > model->pool.overcommit)
		return -ENOMEM;
	if (missing > 0) {
		model->pool.surplus += missing;
		model->pool.nr[0] += missing;
		model->pool.free[0] += missing;
	}
	model->pool.resv += nr;
	return 0;
}

static inline void model_unreserve(struct model *model, int nr)
{
	int back = model_put(model, nr);

	model->pool.resv -= back;
	for (; back > 0 && model->pool.surplus > 0 && model->pool.free[0] > 0; back--) {
		model->pool.surplus--;
		model->pool.nr[0]--;
		model->pool.free[0]--;
	}
}

static inline void model_put_pool(struct model *model, int node, bool restore)
{
	if (!restore && model->pool.surplus > 0) {
		model->pool.surplus--;
		model->pool.nr[node]--;
		return;
	}
	model->pool.free[node]++;
	model->pool.resv += restore;
}

/* A page is gone, and its reservation unless @keep. */
static inline void model_free_page(struct model *model, int *page, bool keep)
{
	model_put_pool(model, *page, keep || model_put(model, 1) == 0);
	*page = keep ? RESERVED : ABSENT;
}

static inline int model_reserve(struct model *model, int space, int from, int to, bool added)
{
	int *page = model->page[space], nr = 0, need, min_resv = model->min_resv;

	for (int i = from; i < to; i++)
		nr += page[i] == ABSENT;
	need = model_get(model, nr);
	if (need < 0)
		return -ENOMEM;
	if (model_reserve_pool(model, need) < 0) {
		model->used -= nr;
		model->min_resv = min_resv;
		return -ENOMEM;
	}
	for (int i = from; i < to; i++) {
		if (page[i] != ABSENT)
			continue;
		page[i] = RESERVED;
		model->added[space][i] |= added;
	}
	return nr;
}

/* Which node gives a page, where there is a free one. */
static inline int model_choose(struct model *model, int node)
{
	int found = node == ANY ? model->pool.next_node : node;

	if (model->pool.free[found] == 0)
		found = (found + 1) % model->nr_nodes;
	if (node == ANY)
		model->pool.next_node = (found + 1) % model->nr_nodes;
	return found;
}

/* The page leaves the pool. Returns its enum page_outcome, or -ENOSPC. */
static inline int model_take(struct model *model, int *page, int node)
{
	bool reserved = *page == RESERVED;
	int need = reserved ? 0 : model_get(model, 1), outcome = PAGE_FROM_RESERVATION;

	if (need < 0)
		return -ENOSPC;
	if (need == 0) {
		model->pool.resv--;
	} else if (model_free(model) > model->pool.resv) {
		outcome = PAGE_FROM_FREE;
	} else if (model->pool.surplus < model->pool.overcommit) {
		model->pool.surplus++;
		model->pool.nr[0]++;
		*page = 0;
		return PAGE_FROM_SURPLUS;
	} else {
		model->used--;
		return -ENOSPC;
	}
	*page = model_choose(model, node);
	model->pool.free[*page]--;
	return outcome;
}

/* The backing had the page on @node instead. */
static inline void model_move(struct model *model, int *page, int node)
{
	if (*page == node)
		return;
	if (model->pool.free[node] > 0) {
		model->pool.free[*page]++;
		model->pool.free[node]--;
	} else {
		model->pool.nr[*page]--;
		model->pool.nr[node]++;
	}
	*page = node;
}

static inline int model_instantiate(struct model *model, int space, int idx, int node,
				    bool fails, int answer_node)
{
	int *page = &model->page[space][idx], outcome;
	struct model before = *model;

	if (*page >= 0)
		return PAGE_PRESENT;
	if (idx >= model->end[space])
		return -ERANGE;
	outcome = model_take(model, page, node);
	if (outcome < 0)
		return outcome;
	if (fails) {
		before.pool.next_node = model->pool.next_node;
		*model = before;
		return -ENOSPC;
	}
	if (answer_node >= 0)
		model_move(model, page, answer_node);
	return outcome;
}

static inline int model_punch(struct model *model, int space, int from, int to)
{
	int nr = 0;

	for (int i = from; i < to; i++) {
		if (model->page[space][i] < 0)
			continue;
		model_free_page(model, &model->page[space][i], false);
		nr++;
	}
	return nr;
}

/* Pages first, one by one, then all reservations. */
static inline void model_forget(struct model *model, int space, int from, int to)
{
	int nr = 0;

	model_punch(model, space, from, to);
	for (int i = from; i < to; i++) {
		nr += model->page[space][i] == RESERVED;
		model->page[space][i] = ABSENT;
	}
	model_unreserve(model, nr);
}

/* Range by range of what is in the map and still only reserved. */
static inline void model_unreserve_map(struct model *model, int space)
{
	int *page = model->page[space], nr = 0;
	bool *added = model->added[space];

	for (int i = 0; i <= MODEL_PAGES; i++) {
		if (i < MODEL_PAGES && added[i] && page[i] == RESERVED) {
			page[i] = ABSENT;
			nr++;
		} else if (nr > 0) {
			model_unreserve(model, nr);
			nr = 0;
		}
	}
	memset(added, 0, sizeof(model->added[space]));
}

static inline void model_init(struct model *model, const struct page_config *config)
{
	*model = (struct model){
		.nr_nodes = config->nr_nodes,
		.max = (int)config->max,
		.min = (int)config->min,
		.min_resv = (int)config->min,
		.end = {SPACE_PAGES, SPACE_PAGES},
	};
	for (int node = 0; node < config->nr_nodes; node++) {
		model->pool.nr[node] = model->pool.free[node] = (int)config->nr_pages[node];
		if (config->max != NONE)
			model->pool.overcommit -= (int)config->nr_pages[node];
	}
	if (config->max != NONE)
		model->pool.overcommit += (int)config->max;
	model_reserve_pool(model, model->min);
	for (int i = 0; i < NR_SPACES; i++) {
		for (int j = 0; j < MODEL_PAGES; j++)
			model->page[i][j] = ABSENT;
	}
}
