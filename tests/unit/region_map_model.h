/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The long random run of test_region_map.c: a region map against an array with a byte a page.
 * Every operation is checked by what it returns and by counts, every 500th time the whole map
 * is compared.
 */
#pragma once

#include <string.h>

#include "region_map_util.h"

#define NR_OPERATIONS  250000 /* of one random run */
#define NR_MODEL_PAGES 16384
#define NR_PENDING     8

/* A map and a byte for each of its pages, from @base on. */
struct model {
	struct region_map *map;
	uint64_t random;
	int64_t base;
	int64_t pages; /* set in has[] */
	int64_t size;  /* the longest range */
	struct region_change pending[NR_PENDING];
	bool is_pending[NR_PENDING];
	bool has[NR_MODEL_PAGES];
};

static inline struct region model_range(struct model *model)
{
	int64_t size = 1 + (int64_t)(random_next(&model->random) % (uint64_t)model->size);
	int64_t from = (int64_t)(random_next(&model->random) % NR_MODEL_PAGES);

	return (struct region){from,
			       from + size < NR_MODEL_PAGES ? from + size : NR_MODEL_PAGES};
}

static inline int64_t model_count(const struct model *model, struct region range)
{
	int64_t pages = 0;

	for (int64_t i = range.from; i < range.to; i++)
		pages += model->has[i];
	return pages;
}

/* Returns how many pages that changed. */
static inline int64_t model_set(struct model *model, struct region range, bool has)
{
	int64_t before = model_count(model, range);
	int64_t after = has ? range.to - range.from : 0;

	memset(&model->has[range.from], has, (size_t)(range.to - range.from));
	model->pages += after - before;
	return has ? after - before : before - after;
}

/* All regions, their order and that they do not touch; and the inside of the tree. */
static inline void model_check(const struct model *model)
{
	struct region region = {0, 0};
	int64_t i = 0;
	size_t nr = 0;

	while (next_region(model->map, region.to, &region)) {
		for (; i < region.from - model->base; i++)
			assert_false(model->has[i]);
		for (; i < region.to - model->base; i++)
			assert_true(model->has[i]);
		assert_true(i == NR_MODEL_PAGES || !model->has[i]);
		nr++;
	}
	for (; i < NR_MODEL_PAGES; i++)
		assert_false(model->has[i]);
	assert_int_equal(nr, model->map->nr_regions);
	assert_true(check(model->map));
}

/* Prepare a change in the free slot @slot, or commit or abort the one that is in it. */
static inline void model_pending(struct model *model, size_t slot)
{
	struct region_change *change = &model->pending[slot];
	struct region range = model_range(model);

	if (!model->is_pending[slot]) {
		int64_t said = region_map_prepare(model->map, model->base + range.from,
						  model->base + range.to, change);

		assert_int_equal(said, range.to - range.from - model_count(model, range));
	} else if (random_next(&model->random) % 4) {
		range = (struct region){change->from - model->base, change->to - model->base};
		assert_int_equal(region_map_commit(model->map, change),
				 model_set(model, range, true));
	} else {
		region_map_abort(model->map, change);
	}
	model->is_pending[slot] = !model->is_pending[slot];
}

/* One operation; @growth of 100 that change the map add to it. */
static inline void model_step(struct model *model, uint64_t growth)
{
	uint64_t what = random_next(&model->random) % 100;
	struct region range = model_range(model);
	int64_t from = model->base + range.from, to = model->base + range.to;

	if (what < 25) {
		model_pending(model, what % NR_PENDING);
	} else if (what < 90) {
		if (random_next(&model->random) % 100 < growth)
			assert_int_equal(add(model->map, from, to),
					 model_set(model, range, true));
		else
			assert_int_equal(region_map_delete(model->map, from, to),
					 model_set(model, range, false));
	} else if (what < 99) {
		assert_int_equal(contains(model->map, from), model->has[range.from]);
	} else if (random_next(&model->random) % 100 == 0) {
		range.to = NR_MODEL_PAGES;
		assert_int_equal(region_map_truncate(model->map, from),
				 model_set(model, range, false));
	}
	range = model_range(model);
	assert_int_equal(
		region_map_count(model->map, model->base + range.from, model->base + range.to),
		model_count(model, range));
	assert_int_equal(region_map_count(model->map, 0, REGION_END), model->pages);
}

static inline void run_model(struct region_map *map, int64_t base)
{
	static const int64_t sizes[] = {1, 3, 1, 40, 2, 1, 3000};
	struct model *model = calloc(1, sizeof(*model));
	uint64_t growth = 50;

	assert_non_null(model);
	model->map = map;
	model->base = base;
	model->random = get_seed();
	for (int64_t i = 0; i < NR_OPERATIONS; i++) {
		/* Phases: small and large ranges, growing and shrinking. */
		if (i % 5000 == 0) {
			model->size = sizes[random_next(&model->random) % 7];
			growth = 20 + random_next(&model->random) % 70;
		}
		model_step(model, growth);
		if (i % 500 == 0)
			model_check(model);
	}
	model_check(model);
	for (size_t slot = 0; slot < NR_PENDING; slot++)
		if (model->is_pending[slot])
			region_map_abort(map, &model->pending[slot]);
	model_check(model);
	free(model);
}
