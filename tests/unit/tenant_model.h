/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a tree of subpools has to do, told in another way than fs/subpool.c does: a charge walks
 * up by the kernel's two rules, level by level, and where it fails the whole model is put back
 * as it was. On top of it what no rule may break: what a subpool has charged to the one above
 * it is its use and what it keeps reserved, and the pool's resv is what all keep and all have
 * reserved. To be included after cmocka.h.
 */
#pragma once

#include "fs/pool.h"
#include "fs/subpool.h"

#include <errno.h>
#include <stdbool.h>

#define NONE SUBPOOL_NO_LIMIT

enum {
	NR_LEVELS = 6
};

/* The first is the mount's, which 1, 2 and 3 are in; 4 is in 1, and 5 in 4. */
static const int parent_of[NR_LEVELS] = {-1, 0, 0, 0, 1, 4};

struct level {
	int max, min, used, resv;
	int nr_reserved, nr_pages; /* by its own files */
};

struct model {
	int nr, free, resv, surplus, overcommit;
	struct level level[NR_LEVELS];
};

struct tree {
	struct pool pool;
	struct subpool subpool[NR_LEVELS];
	int nr_released;
	struct model model;
};

static uint32_t random_below(uint64_t *seed, uint32_t limit)
{
	*seed = *seed * 6364136223846793005U + 1442695040888963407U;
	return (uint32_t)(((*seed >> 32) * limit) >> 32);
}

/* Charge @nr pages from level @at on: how many the pool has to reserve, or -1. */
static int model_get(struct model *model, int at, int nr)
{
	struct level *level;
	int covered;

	if (at < 0 || nr == 0)
		return nr;
	level = &model->level[at];
	if (level->max != NONE && level->used + nr > level->max)
		return -1;
	covered = nr < level->resv ? nr : level->resv;
	level->used += nr;
	level->resv -= covered;
	return model_get(model, parent_of[at], nr - covered);
}

/* hugepage_subpool_put_pages() at each level: how many reservations the pool gets back. */
static int model_put(struct model *model, int at, int nr)
{
	struct level *level;
	int back = nr;

	if (at < 0 || nr == 0)
		return nr;
	level = &model->level[at];
	level->used -= nr;
	if (level->max == NONE || level->used < level->min) {
		back = level->resv + nr <= level->min ? 0 : level->resv + nr - level->min;
		level->resv += nr - back;
	}
	return model_put(model, parent_of[at], back);
}

static bool model_pool_reserve(struct model *model, int nr, bool surplus)
{
	int missing = model->resv + nr - model->free;

	if (missing > 0 && (!surplus || model->surplus + missing > model->overcommit))
		return false;
	model->resv += nr;
	if (missing > 0) {
		model->nr += missing;
		model->free += missing;
		model->surplus += missing;
	}
	return true;
}

static void model_pool_unreserve(struct model *model, int nr)
{
	model->resv -= nr;
	for (; nr > 0 && model->surplus > 0 && model->free > 0; nr--) {
		model->surplus--;
		model->free--;
		model->nr--;
	}
}

static void model_put_page(struct model *model, bool restore)
{
	model->resv += restore;
	if (model->surplus > 0 && !restore) {
		model->surplus--;
		model->nr--;
	} else {
		model->free++;
	}
}

static void tree_reserve(struct tree *tree, int at, int nr)
{
	struct model before = tree->model;
	int need = model_get(&tree->model, at, nr);

	if (need < 0 || !model_pool_reserve(&tree->model, need, true)) {
		tree->model = before;
		assert_int_equal(subpool_reserve(&tree->subpool[at], nr), -ENOMEM);
		return;
	}
	assert_int_equal(subpool_reserve(&tree->subpool[at], nr), 0);
	tree->model.level[at].nr_reserved += nr;
}

static void tree_unreserve(struct tree *tree, int at, int nr)
{
	subpool_unreserve(&tree->subpool[at], nr);
	tree->model.level[at].nr_reserved -= nr;
	model_pool_unreserve(&tree->model, model_put(&tree->model, at, nr));
}

/* Take a page, and with @untake put everything back as it was. */
static void tree_take_page(struct tree *tree, int at, bool untake)
{
	struct model before = tree->model;
	int need = model_get(&tree->model, at, 1);
	bool available = need == 0 || tree->model.free > tree->model.resv;
	struct subpool_taken taken;

	if (need < 0 ||
	    (!available && tree->model.surplus >= tree->model.overcommit)) {
		tree->model = before;
		assert_int_equal(subpool_take_page(&tree->subpool[at], 0, &taken), -ENOMEM);
		return;
	}
	assert_int_equal(subpool_take_page(&tree->subpool[at], 0, &taken), 0);
	assert_int_equal(taken.source, need == 0   ? POOL_FROM_RESERVATION
				       : available ? POOL_FROM_FREE
						   : POOL_FROM_SURPLUS);
	assert_true((taken.covered_by != NULL) == (need == 0));
	if (untake) {
		subpool_untake_page(&tree->subpool[at], 0, &taken);
		/* Which page of a node is the surplus one is not known. */
		before.nr = tree->model.nr;
		before.free = tree->model.free;
		before.surplus = tree->model.surplus;
		if (!available) {
			tree->model = before;
			return;
		}
		before.free--;
		before.resv -= need == 0;
		tree->model = before;
		model_put_page(&tree->model, need == 0);
		return;
	}
	tree->model.resv -= need == 0;
	tree->model.nr += !available;
	tree->model.surplus += !available;
	tree->model.free -= available;
	tree->model.level[at].nr_pages++;
}

static void tree_put_page(struct tree *tree, int at)
{
	subpool_put_page(&tree->subpool[at], 0);
	tree->model.level[at].nr_pages--;
	model_put_page(&tree->model, model_put(&tree->model, at, 1) == 0);
}

static void tree_set_limits(struct tree *tree, int at, int max, int min, bool surplus)
{
	struct model before = tree->model;
	struct level *level = &tree->model.level[at];
	int target = min > level->used ? min - level->used : 0;
	int change = target - level->resv, need;
	int expected = 0;

	if (max != NONE && min > max) {
		expected = -EINVAL;
	} else if (change > 0) {
		need = model_get(&tree->model, parent_of[at], change);
		if (need < 0 || !model_pool_reserve(&tree->model, need, surplus))
			expected = -ENOMEM;
	} else {
		model_pool_unreserve(&tree->model,
				     model_put(&tree->model, parent_of[at], -change));
	}
	if (expected < 0) {
		tree->model = before;
	} else {
		level->resv = target;
		level->max = max;
		level->min = min;
	}
	assert_int_equal(subpool_set_limits(&tree->subpool[at], max, min, surplus), expected);
}

static void tree_compare(struct tree *tree)
{
	int promised = 0, kept = 0, below[NR_LEVELS] = {0};
	struct subpool_counts counts;
	struct pool_counts pool;

	for (int at = NR_LEVELS - 1; at >= 0; at--) {
		const struct level *level = &tree->model.level[at];

		subpool_read(&tree->subpool[at], &counts);
		assert_int_equal(counts.max, level->max);
		assert_int_equal(counts.min, level->min);
		assert_int_equal(counts.used, level->used);
		assert_int_equal(counts.resv, level->resv);
		assert_int_equal(counts.used,
				 level->nr_reserved + level->nr_pages + below[at]);
		if (parent_of[at] >= 0)
			below[parent_of[at]] += level->used + level->resv;
		promised += level->nr_reserved + level->resv;
		kept += level->resv;
	}
	assert_int_equal(tree->model.resv, promised);
	assert_int_equal(subpool_read_tree_resv(&tree->subpool[0]), kept);
	pool_read(&tree->pool, &pool);
	assert_int_equal(pool.nr, tree->model.nr);
	assert_int_equal(pool.free, tree->model.free);
	assert_int_equal(pool.resv, tree->model.resv);
	assert_int_equal(pool.surplus, tree->model.surplus);
}

static struct tree *releasing; /* where the tests count what is released */

static void count_release(struct subpool *subpool)
{
	releasing->nr_released++;
}

static void tree_init(struct tree *tree, int nr, int overcommit, int max, int min)
{
	*tree = (struct tree){.model = {.nr = nr, .free = nr, .overcommit = overcommit}};
	releasing = tree;
	pool_init(&tree->pool, 1, overcommit);
	assert_int_equal(pool_resize(&tree->pool, 0, nr), 0);
	assert_int_equal(subpool_init(&tree->subpool[0], &tree->pool, max, min), 0);
	assert_true(model_pool_reserve(&tree->model, min, true));
	tree->model.level[0] = (struct level){.max = max, .min = min, .resv = min};
	for (int at = 1; at < NR_LEVELS; at++) {
		subpool_init_tenant(&tree->subpool[at], &tree->subpool[parent_of[at]],
				    count_release);
		tree->model.level[at].max = NONE;
	}
	tree_compare(tree);
}

/* Everything goes back, and the machine is as it was. */
static void tree_deinit(struct tree *tree)
{
	struct pool_counts pool;
	int nr = tree->model.nr - tree->model.surplus;

	for (int at = 0; at < NR_LEVELS; at++) {
		while (tree->model.level[at].nr_pages > 0)
			tree_put_page(tree, at);
		tree_unreserve(tree, at, tree->model.level[at].nr_reserved);
		tree_compare(tree);
	}
	for (int at = 1; at < NR_LEVELS; at++)
		subpool_unref(&tree->subpool[at]);
	assert_int_equal(tree->nr_released, NR_LEVELS - 1);
	subpool_deinit(&tree->subpool[0]);
	pool_read(&tree->pool, &pool);
	assert_int_equal(pool.nr, nr);
	assert_int_equal(pool.free, nr);
	assert_int_equal(pool.resv, 0);
	pool_deinit(&tree->pool);
}
