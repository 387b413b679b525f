/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a pool has to do, told in another way: a record for every page, and loops over pages, as
 * in the kernel, where the pool computes. Which page of a node is a surplus one is no property
 * of the page, as in the kernel, hence a number per node. To be included after cmocka.h.
 */
#pragma once

#include "fs/pool.h"

#include <errno.h>
#include <stdbool.h>

enum {
	MODEL_PAGES = 512,
	MODEL_NODES = 5
};

struct model {
	struct {
		bool present, free;
		int node;
	} page[MODEL_PAGES];
	int surplus[MODEL_NODES];
	int nr_nodes, resv, overcommit, next_to_alloc, next_to_free;
};

static int model_count(const struct model *model, int node, bool only_free)
{
	int nr = 0;

	for (int i = 0; i < MODEL_PAGES; i++)
		nr += model->page[i].present && (node < 0 || model->page[i].node == node) &&
		      (model->page[i].free || !only_free);
	return nr;
}

static int model_surplus(const struct model *model)
{
	int nr = 0;

	for (int node = 0; node < model->nr_nodes; node++)
		nr += model->surplus[node];
	return nr;
}

static void model_add_page(struct model *model, int node, bool is_free, bool surplus)
{
	int i = 0;

	while (model->page[i].present)
		i++;
	assert_true(i < MODEL_PAGES);
	model->page[i].present = true;
	model->page[i].free = is_free;
	model->page[i].node = node;
	model->surplus[node] += surplus;
}

/* Make a page of @node that is free (or not) the opposite, or with @leaves remove it. */
static void model_change_page(struct model *model, int node, bool was_free, bool leaves)
{
	int i = 0;

	while (!model->page[i].present || model->page[i].node != node ||
	       model->page[i].free != was_free)
		i++;
	assert_true(i < MODEL_PAGES);
	model->page[i].present = !leaves;
	model->page[i].free = !was_free;
}

static int model_reserve(struct model *model, int nr)
{
	int missing = model->resv + nr - model_count(model, -1, true);

	if (missing > 0 && model_surplus(model) + missing > model->overcommit)
		return -ENOMEM;
	for (; missing > 0; missing--) {
		model_add_page(model, model->next_to_alloc, true, true);
		model->next_to_alloc = (model->next_to_alloc + 1) % model->nr_nodes;
	}
	model->resv += nr;
	return 0;
}

static void model_unreserve(struct model *model, int nr)
{
	model->resv -= nr;
	for (; nr > 0; nr--) {
		for (int i = 0; i < model->nr_nodes; i++) {
			int node = model->next_to_free;

			model->next_to_free = (node + 1) % model->nr_nodes;
			if (model->surplus[node] == 0 || model_count(model, node, true) == 0)
				continue;
			model->surplus[node]--;
			model_change_page(model, node, true, true);
			break;
		}
	}
}

static int model_resize(struct model *model, int node, int nr)
{
	int most = model_count(model, -1, true) - model->resv;

	if (nr < 0 && (-nr > most || -nr > model_count(model, node, true) ||
		       -nr > model_count(model, node, false) - model->surplus[node]))
		return -EBUSY;
	for (; nr > 0; nr--)
		model_add_page(model, node, true, false);
	for (; nr < 0; nr++)
		model_change_page(model, node, true, true);
	return 0;
}

/* The pool has answered @result and @source to being asked for a page of @node. */
static void model_check_take(struct model *model, int node, bool reserved, int result,
			     enum pool_source source)
{
	bool available = model_count(model, -1, true) > model->resv;
	bool overcommit = model_surplus(model) < model->overcommit;

	if (!reserved && !available && !overcommit) {
		assert_int_equal(result, -ENOMEM);
		return;
	}
	assert_in_range(result, 0, model->nr_nodes - 1);
	if (node == POOL_ANY_NODE)
		model->next_to_alloc = (result + 1) % model->nr_nodes;
	if (!reserved && !available) {
		assert_int_equal(source, POOL_FROM_SURPLUS);
		assert_true(node == POOL_ANY_NODE || node == result);
		model_add_page(model, result, false, true);
		return;
	}
	assert_int_equal(source, reserved ? POOL_FROM_RESERVATION : POOL_FROM_FREE);
	if (node != POOL_ANY_NODE && model_count(model, node, true) > 0)
		assert_int_equal(result, node);
	model_change_page(model, result, true, false);
	model->resv -= reserved;
}

static void model_put(struct model *model, int node, bool restore)
{
	bool leaves = model->surplus[node] > 0 && !restore;

	model_change_page(model, node, false, leaves);
	model->surplus[node] -= leaves;
	model->resv += restore;
}

static void model_compare(const struct model *model, struct pool *pool)
{
	struct pool_counts counts;

	pool_read(pool, &counts);
	assert_int_equal(counts.nr, model_count(model, -1, false));
	assert_int_equal(counts.free, model_count(model, -1, true));
	assert_int_equal(counts.resv, model->resv);
	assert_int_equal(counts.surplus, model_surplus(model));
	for (int node = 0; node < model->nr_nodes; node++) {
		assert_int_equal(counts.node[node].nr, model_count(model, node, false));
		assert_int_equal(counts.node[node].free, model_count(model, node, true));
		assert_int_equal(counts.node[node].surplus, model->surplus[node]);
	}
}
