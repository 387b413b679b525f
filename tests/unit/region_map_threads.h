/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The threads of test_region_map.c. Each adds and removes pairs of pages, either its own, so
 * that it knows what every call must return although regions of several threads merge all the
 * time; or all use the same pairs, and what their calls returned must add up.
 */
#pragma once

#include <pthread.h>

#include "region_map_util.h"

#define NR_THREADS      4
#define NR_THREAD_LOOPS 20000
#define NR_THREAD_PAIRS 6000 /* pairs, for each thread */

struct worker {
	struct region_map *map;
	pthread_t thread;
	int64_t number;
	uint64_t random;
	int64_t nr_errors;
	int64_t balance; /* pages added minus pages removed */
	bool is_shared;  /* all threads use the same pages */
	bool has[NR_THREAD_PAIRS];
};

/* One call or two on @pair. Returns whether one was wrong. */
static inline int64_t worker_step(struct worker *worker, int64_t pair)
{
	int64_t owner = worker->is_shared ? 0 : worker->number;
	int64_t from = (pair * NR_THREADS + owner) * 2;
	bool has = worker->has[pair];
	struct region_change change;
	int64_t said, done;

	switch (random_next(&worker->random) % 4) {
	case 0:
		said = region_map_count(worker->map, from, from + 2);
		return !worker->is_shared && said != 2 * has;
	case 1:
		done = region_map_delete(worker->map, from, from + 2);
		worker->has[pair] = false;
		worker->balance -= done;
		return worker->is_shared ? done < 0 || done > 2 : done != 2 * has;
	case 2:
		said = region_map_prepare(worker->map, from, from + 2, &change);
		region_map_abort(worker->map, &change);
		return worker->is_shared ? said < 0 || said > 2 : said != 2 * !has;
	default:
		said = region_map_prepare(worker->map, from, from + 2, &change);
		done = region_map_commit(worker->map, &change);
		worker->has[pair] = true;
		worker->balance += done;
		return worker->is_shared ? done < 0 || done > 2
					 : said != done || done != 2 * !has;
	}
}

static inline void *worker_main(void *arg)
{
	struct worker *worker = arg;

	for (int64_t i = 0; i < NR_THREAD_LOOPS; i++) {
		int64_t pair = (int64_t)(random_next(&worker->random) % NR_THREAD_PAIRS);

		worker->nr_errors += worker_step(worker, pair);
		if (i % 2000 == 0)
			worker->nr_errors += !check(worker->map);
	}
	return NULL;
}

static inline struct worker *run_workers(struct region_map *map, bool is_shared)
{
	struct worker *workers = calloc(NR_THREADS, sizeof(*workers));
	uint64_t seed = get_seed();

	assert_non_null(workers);
	for (int64_t i = 0; i < NR_THREADS; i++) {
		workers[i].map = map;
		workers[i].number = i;
		workers[i].is_shared = is_shared;
		workers[i].random = seed + (uint64_t)i * 7919 + 1;
		assert_int_equal(
			pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]), 0);
	}
	for (int64_t i = 0; i < NR_THREADS; i++)
		assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
	for (int64_t i = 0; i < NR_THREADS; i++)
		assert_int_equal(workers[i].nr_errors, 0);
	return workers;
}
