/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the operations of a region map cost, by the number of regions in it.
 *
 * The map has every fourth page, put in in random order. Timed are, each at random places and
 * again and again at the middle one: prepare and commit of a one-page region in a gap, and its
 * delete; and a count over everything, a count over a random range and contains at random
 * places, lock included. Random places are timed in batches, all commits first and then all
 * deletes, so that with many regions neither finds the caches warm. Every figure is the median
 * of its rounds, in ns.
 */
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fs/region_map.h"

#define STRIDE     4 /* pages from one region to the next */
#define NR_ROUNDS  41
#define NR_LOOKUPS 20000 /* a round */
#define MAX_BATCH  4096

/* Results in ns, for one number of regions. */
struct cost {
	size_t nr_regions;
	double add_random, delete_random, add_random_best, add_middle, delete_middle;
	double count_all, count_random, contains_random;
	double bytes;
};

static uint64_t random_state = 88172645463325252ULL;
static double clock_ns; /* what reading the clock costs */
static volatile int64_t sink;

static uint64_t random_next(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int compare_doubles(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

static double median(double *values, size_t nr)
{
	qsort(values, nr, sizeof(*values), compare_doubles);
	return values[nr / 2];
}

static void add_page(struct region_map *map, int64_t idx)
{
	struct region_change change;

	if (region_map_prepare(map, idx, idx + 1, &change) < 0)
		abort();
	if (region_map_commit(map, &change) != 1)
		abort();
}

static void delete_page(struct region_map *map, int64_t idx)
{
	if (region_map_delete(map, idx, idx + 1) != 1)
		abort();
}

/* Numbers below @nr in random order. */
static int64_t *shuffle_new(size_t nr)
{
	int64_t *order = malloc(nr * sizeof(*order));

	if (!order)
		abort();
	for (size_t i = 0; i < nr; i++) {
		size_t other = random_next() % (i + 1);

		order[i] = order[other];
		order[other] = (int64_t)i;
	}
	return order;
}

/* The memory that is allocated, in bytes. */
static double memory_used(void)
{
	struct mallinfo2 info = mallinfo2();

	return (double)(info.uordblks + info.hblkhd);
}

static void map_fill(struct region_map *map, size_t nr_regions, struct cost *cost)
{
	int64_t *order = shuffle_new(nr_regions);
	double before = memory_used();

	for (size_t i = 0; i < nr_regions; i++)
		add_page(map, order[i] * STRIDE);
	cost->bytes = (memory_used() - before) / (double)nr_regions;
	free(order);
}

/* Batches of random places, all different, each in the middle of a gap. */
static void time_random_places(struct region_map *map, struct cost *cost)
{
	size_t nr_regions = cost->nr_regions, batch = nr_regions / 16, place = 0;
	int64_t *order = shuffle_new(nr_regions);
	double adds[NR_ROUNDS], deletes[NR_ROUNDS], start, middle;

	batch = batch < 4 ? 4 : batch > MAX_BATCH ? MAX_BATCH : batch;
	for (size_t round = 0; round < NR_ROUNDS; round++) {
		if (place + batch > nr_regions)
			place = 0;
		start = now_ns();
		for (size_t i = 0; i < batch; i++)
			add_page(map, order[place + i] * STRIDE + 2);
		middle = now_ns();
		for (size_t i = 0; i < batch; i++)
			delete_page(map, order[place + i] * STRIDE + 2);
		deletes[round] = (now_ns() - middle - clock_ns) / (double)batch;
		adds[round] = (middle - start - clock_ns) / (double)batch;
		place += batch;
	}
	cost->add_random = median(adds, NR_ROUNDS);
	cost->add_random_best = adds[0]; /* median() has sorted them */
	cost->delete_random = median(deletes, NR_ROUNDS);
	free(order);
}

static void time_middle_place(struct region_map *map, struct cost *cost)
{
	static double adds[NR_LOOKUPS], deletes[NR_LOOKUPS];
	int64_t idx = (int64_t)cost->nr_regions / 2 * STRIDE + 2;

	for (size_t i = 0; i < NR_LOOKUPS; i++) {
		double start = now_ns(), middle;

		add_page(map, idx);
		middle = now_ns();
		delete_page(map, idx);
		deletes[i] = now_ns() - middle - clock_ns;
		adds[i] = middle - start - clock_ns;
	}
	cost->add_middle = median(adds, NR_LOOKUPS);
	cost->delete_middle = median(deletes, NR_LOOKUPS);
}

static void time_lookups(struct region_map *map, struct cost *cost)
{
	int64_t nr_pages = (int64_t)cost->nr_regions * STRIDE;
	double all[NR_ROUNDS], range[NR_ROUNDS], contains[NR_ROUNDS], start;

	for (size_t round = 0; round < NR_ROUNDS; round++) {
		start = now_ns();
		for (size_t i = 0; i < NR_LOOKUPS; i++)
			sink += region_map_count(map, 0, REGION_END);
		all[round] = (now_ns() - start) / NR_LOOKUPS;

		start = now_ns();
		for (size_t i = 0; i < NR_LOOKUPS; i++) {
			int64_t from = (int64_t)(random_next() % (uint64_t)nr_pages);

			sink += region_map_count(map, from, from + nr_pages / 2);
		}
		range[round] = (now_ns() - start) / NR_LOOKUPS;

		start = now_ns();
		for (size_t i = 0; i < NR_LOOKUPS; i++) {
			int64_t idx = (int64_t)(random_next() % (uint64_t)nr_pages);

			rwsem_read_lock(map->lock);
			sink += region_map_contains_locked(map, idx);
			rwsem_read_unlock(map->lock);
		}
		contains[round] = (now_ns() - start) / NR_LOOKUPS;
	}
	cost->count_all = median(all, NR_ROUNDS);
	cost->count_random = median(range, NR_ROUNDS);
	cost->contains_random = median(contains, NR_ROUNDS);
}

static void measure(size_t nr_regions, struct cost *ret_cost)
{
	struct region_map map;
	struct rwsem lock;

	*ret_cost = (struct cost){.nr_regions = nr_regions};
	rwsem_init(&lock, LOCK_RANK_REGION_MAP);
	region_map_init(&map, &lock);
	map_fill(&map, nr_regions, ret_cost);
	time_random_places(&map, ret_cost);
	time_middle_place(&map, ret_cost);
	time_lookups(&map, ret_cost);
	if (region_map_count(&map, 0, REGION_END) != (int64_t)nr_regions)
		abort();
	region_map_deinit(&map);
	rwsem_deinit(&lock);
}

static void measure_clock(void)
{
	double costs[1001];

	for (size_t i = 0; i < 1001; i++) {
		double start = now_ns();

		costs[i] = now_ns() - start;
	}
	clock_ns = median(costs, 1001);
}

static void print_json(const struct cost *costs, size_t nr)
{
	printf("{\"bench\": \"region_map_cost\", \"unit\": \"ns\", \"clock\": %.1f, "
	       "\"bytes_per_region_max\": %zu, \"results\": [\n",
	       clock_ns, region_map_bytes_per_region());
	for (size_t i = 0; i < nr; i++)
		printf("  {\"regions\": %zu, \"add_random\": %.1f, \"add_random_best\": %.1f, "
		       "\"delete_random\": %.1f, \"add_middle\": %.1f, "
		       "\"delete_middle\": %.1f, \"count_all\": %.1f, \"count_random\": %.1f, "
		       "\"contains_random\": %.1f, \"bytes_per_region\": %.1f}%s\n",
		       costs[i].nr_regions, costs[i].add_random, costs[i].add_random_best,
		       costs[i].delete_random, costs[i].add_middle, costs[i].delete_middle,
		       costs[i].count_all, costs[i].count_random, costs[i].contains_random,
		       costs[i].bytes, i + 1 < nr ? "," : "");
	printf("]}\n");
}

static void print_table(const struct cost *costs, size_t nr)
{
	printf("%9s %10s %10s %10s %10s %10s %10s %12s %9s %12s\n", "regions", "add random",
	       "its best", "del random", "add middle", "del middle", "count all",
	       "count random", "contains", "bytes/region");
	for (size_t i = 0; i < nr; i++)
		printf("%9zu %10.1f %10.1f %10.1f %10.1f %10.1f %10.1f %12.1f %9.1f %12.1f\n",
		       costs[i].nr_regions, costs[i].add_random, costs[i].add_random_best,
		       costs[i].delete_random, costs[i].add_middle, costs[i].delete_middle,
		       costs[i].count_all, costs[i].count_random, costs[i].contains_random,
		       costs[i].bytes);
	printf("ns; add is prepare and commit; a region takes at most %zu bytes in a large map\n",
	       region_map_bytes_per_region());
}

int main(int argc, char **argv)
{
	static const size_t sizes[] = {10, 1000, 100000, 1000000};
	struct cost costs[4];
	bool json = argc == 2 && strcmp(argv[1], "--json") == 0;

	if (argc > 1 && !json) {
		fprintf(stderr, "usage: %s [--json]\n", argv[0]);
		return 2;
	}
	measure_clock();
	for (size_t i = 0; i < 4; i++)
		measure(sizes[i], &costs[i]);
	if (json)
		print_json(costs, 4);
	else
		print_table(costs, 4);
	return 0;
}
