/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What subpools on one pool have to do, told in another way: what each tenant itself knows (the
 * reservations and pages that it has), min_size's rule in the kernel's words, and a pool of one
 * node. On top of it what no rule may break: the pool's resv is what all subpools keep and all
 * tenants have reserved. To be included after cmocka.h.
 */
#pragma once

#include "fs/pool.h"
#include "fs/subpool.h"

#include <errno.h>
#include <stdbool.h>

#define NONE SUBPOOL_NO_LIMIT

static uint32_t random_below(uint64_t *seed, uint32_t limit)
{
	*seed = *seed * 6364136223846793005U + 1442695040888963407U;
	return (uint32_t)(((*seed >> 32) * limit) >> 32);
}

static void init_pool(struct pool *pool, int64_t nr, int64_t overcommit)
{
	pool_init(pool, 1, overcommit);
	assert_int_equal(pool_resize(pool, 0, nr), 0);
}

static void assert_used(struct subpool *subpool, int64_t used, int64_t resv)
{
	struct subpool_counts counts;

	subpool_read(subpool, &counts);
	assert_int_equal(counts.used, used);
	assert_int_equal(counts.resv, resv);
}

static void assert_pool(struct pool *pool, int64_t nr, int64_t free_pages, int64_t resv,
			int64_t surplus)
{
	struct pool_counts counts;

	pool_read(pool, &counts);
	assert_int_equal(counts.nr, nr);
	assert_int_equal(counts.free, free_pages);
	assert_int_equal(counts.resv, resv);
	assert_int_equal(counts.surplus, surplus);
}

enum {
	NR_TENANTS = 3
};

struct tenant {
	struct subpool subpool;
	int max, min, resv; /* resv: of min */
	int nr_reserved, nr_pages;
};

struct model {
	struct pool pool;
	int nr, free, resv, surplus, overcommit;
	struct tenant tenant[NR_TENANTS];
};

static int model_get(struct tenant *tenant, int nr)
{
	int need = nr;

	if (tenant->max != NONE && tenant->nr_reserved + tenant->nr_pages + nr > tenant->max)
		return -ENOMEM;
	if (tenant->resv) {
		if (nr > tenant->resv) {
			need = nr - tenant->resv;
			tenant->resv = 0;
		} else {
			need = 0;
			tenant->resv -= nr;
		}
	}
	return need;
}

/* What the tenant has must have been reduced before. */
static int model_put(struct tenant *tenant, int nr)
{
	int used = tenant->max == NONE ? 0 : tenant->nr_reserved + tenant->nr_pages;
	int back = nr;

	if (used < tenant->min) {
		if (tenant->resv + nr <= tenant->min)
			back = 0;
		else
			back = tenant->resv + nr - tenant->min;
		tenant->resv += nr;
		if (tenant->resv > tenant->min)
			tenant->resv = tenant->min;
	}
	return back;
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

static void model_reserve(struct model *model, struct tenant *tenant, int nr)
{
	int resv_before = tenant->resv;
	int need = model_get(tenant, nr);
	int missing = model->resv + need - model->free;

	if (need < 0 || (missing > 0 && model->surplus + missing > model->overcommit)) {
		tenant->resv = resv_before;
		assert_int_equal(subpool_reserve(&tenant->subpool, nr), -ENOMEM);
		return;
	}
	assert_int_equal(subpool_reserve(&tenant->subpool, nr), 0);
	tenant->nr_reserved += nr;
	model->resv += need;
	if (missing > 0) {
		model->nr += missing;
		model->free += missing;
		model->surplus += missing;
	}
}

static void model_unreserve(struct model *model, struct tenant *tenant, int nr)
{
	int back;

	subpool_unreserve(&tenant->subpool, nr);
	tenant->nr_reserved -= nr;
	back = model_put(tenant, nr);
	model->resv -= back;
	for (; back > 0 && model->surplus > 0 && model->free > 0; back--) {
		model->surplus--;
		model->free--;
		model->nr--;
	}
}

static void model_take_page(struct model *model, struct tenant *tenant, bool untake)
{
	int resv_before = tenant->resv, nr_before = model->nr, need = model_get(tenant, 1);
	bool available = need == 0 || model->free > model->resv;
	struct subpool_taken taken;

	if (need < 0 || (!available && model->surplus >= model->overcommit)) {
		tenant->resv = resv_before;
		assert_int_equal(subpool_take_page(&tenant->subpool, 0, &taken), -ENOMEM);
		return;
	}
	assert_int_equal(subpool_take_page(&tenant->subpool, 0, &taken), 0);
	assert_int_equal(taken.source, need == 0   ? POOL_FROM_RESERVATION
				       : available ? POOL_FROM_FREE
						   : POOL_FROM_SURPLUS);
	model->resv -= need == 0;
	model->nr += !available;
	model->surplus += !available;
	model->free -= available;
	tenant->nr_pages++;
	if (untake) {
		subpool_untake_page(&tenant->subpool, 0, &taken);
		tenant->nr_pages--;
		tenant->resv = resv_before;
		model_put_page(model, need == 0);
		assert_true(available || model->nr == nr_before);
	}
}

static void model_compare(struct model *model)
{
	int promised = 0;

	for (int i = 0; i < NR_TENANTS; i++) {
		struct tenant *tenant = &model->tenant[i];

		assert_used(&tenant->subpool, tenant->nr_reserved + tenant->nr_pages,
			    tenant->resv);
		promised += tenant->nr_reserved + tenant->resv;
	}
	assert_int_equal(model->resv, promised);
	assert_pool(&model->pool, model->nr, model->free, model->resv, model->surplus);
}

static void init_model(struct model *model, uint64_t *seed)
{
	*model = (struct model){.overcommit = (int)random_below(seed, 10)};
	model->nr = model->free = 20 + (int)random_below(seed, 20);
	init_pool(&model->pool, model->nr, model->overcommit);
	for (int i = 0; i < NR_TENANTS; i++) {
		struct tenant *tenant = &model->tenant[i];

		tenant->min = tenant->resv = (int)random_below(seed, 7);
		tenant->max = random_below(seed, 3) ? tenant->min + (int)random_below(seed, 15)
						    : NONE;
		model->resv += tenant->min;
		assert_int_equal(
			subpool_init(&tenant->subpool, &model->pool, tenant->max, tenant->min),
			0);
	}
}

static void deinit_model(struct model *model)
{
	for (int i = 0; i < NR_TENANTS; i++) {
		struct tenant *tenant = &model->tenant[i];

		model_unreserve(model, tenant, tenant->nr_reserved);
		for (; tenant->nr_pages > 0; tenant->nr_pages--)
			subpool_put_page(&tenant->subpool, 0);
		assert_used(&tenant->subpool, 0, tenant->min);
		subpool_deinit(&tenant->subpool);
	}
	pool_deinit(&model->pool);
}
