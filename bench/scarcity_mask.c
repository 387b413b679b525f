/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Availability mask: faults of threads on node 0, which has no huge page, while node 1 has. It
 * is the daemon's own page transaction and mask over a backing without memory, whose nodes are
 * numbers; what an attempt costs, in vain or not, is simulated by sleeping for as long. Now and
 * then memory for one page comes back on node 0, and a thread as fs/refill.c's looks for it as
 * often.
 *
 * usage: scarcity_mask on|off THREADS SECONDS PERIOD_MS POPULATE_US FAIL_US
 *
 * Prints one line: median and 99th percentile of a fault's latency in microseconds, attempts in
 * vain by faults per 1000 faults, and per period.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "fs/backing_mem.h"
#include "fs/clock.h"
#include "fs/page.h"

#define MAX_THREADS 64
#define MAX_FAULTS  200000 /* of a thread */
#define PAGE_SIZE   (UINT64_C(2) << 20)

struct worker {
	pthread_t thread;
	struct backing_file *file;
	struct page_space space;
	uint32_t *latency_ns;
	size_t nr_faults;
};

static struct backing_mem mem;
static struct page_core core;
static struct worker workers[MAX_THREADS];
static _Atomic bool stop;

static void fail(const char *what)
{
	fprintf(stderr, "scarcity_mask: %s\n", what);
	exit(1);
}

static void *work(void *data)
{
	struct worker *worker = data;
	uint64_t start, end;

	prctl(PR_SET_TIMERSLACK, 1UL);
	while (!stop && worker->nr_faults < MAX_FAULTS) {
		start = clock_now_ns();
		if (page_instantiate(&worker->space, (int64_t)worker->nr_faults, 0) < 0)
			fail("a fault has failed");
		end = clock_now_ns();
		worker->latency_ns[worker->nr_faults++] = (uint32_t)(end - start);
	}
	return NULL;
}

static void start_worker(struct worker *worker, uint64_t number)
{
	worker->latency_ns = calloc(MAX_FAULTS, sizeof(*worker->latency_ns));
	if (!worker->latency_ns ||
	    mem.backing.ops->file_open(&mem.backing, number, -1, &worker->file) < 0 ||
	    mem.backing.ops->resize(worker->file, MAX_FAULTS) < 0 ||
	    page_space_init(&worker->space, &core, worker->file, number, 0, MAX_FAULTS) < 0)
		fail("out of memory");
	if (pthread_create(&worker->thread, NULL, work, worker) != 0)
		fail("cannot start a thread");
}

static void sleep_ns(uint64_t ns)
{
	struct timespec time = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};

	nanosleep(&time, NULL);
}

/* A page's memory comes back in each period; with the mask the refiller finds it, tries for
 * more, and gets none. */
static void refill_for(uint64_t ns, uint64_t period_ns)
{
	uint64_t until = clock_now_ns() + ns;

	while (clock_now_ns() < until) {
		sleep_ns(period_ns);
		mem.node_room[0]++;
		if (!core.avail.enabled)
			continue;
		if (pool_resize(&core.pool, 0, 1) < 0)
			fail("the pool cannot grow");
		sleep_ns(mem.fail_ns);
	}
	stop = true;
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void print(int nr_threads, double periods)
{
	size_t nr = 0;
	uint32_t *all;

	for (int i = 0; i < nr_threads; i++)
		nr += workers[i].nr_faults;
	all = calloc(nr ? nr : 1, sizeof(*all));
	if (!all || nr < 100)
		fail("too few faults");
	nr = 0;
	for (int i = 0; i < nr_threads; i++) {
		memcpy(all + nr, workers[i].latency_ns, workers[i].nr_faults * sizeof(*all));
		nr += workers[i].nr_faults;
	}
	qsort(all, nr, sizeof(*all), compare);
	printf("%.1f %.1f %.2f %.3f\n", all[nr / 2] / 1e3, all[nr * 99 / 100] / 1e3,
	       (double)core.avail.nr_failed * 1e3 / (double)nr,
	       (double)core.avail.nr_failed / periods);
	free(all);
}

int main(int argc, char **argv)
{
	int64_t none[2] = {0, 0};
	uint64_t ns, period_ns;
	int nr_threads;

	if (argc != 7 || (strcmp(argv[1], "on") != 0 && strcmp(argv[1], "off") != 0))
		fail("usage: on|off THREADS SECONDS PERIOD_MS POPULATE_US FAIL_US");
	nr_threads = atoi(argv[2]);
	ns = (uint64_t)(atof(argv[3]) * 1e9);
	period_ns = strtoull(argv[4], NULL, 10) * 1000000;
	if (nr_threads < 1 || nr_threads > MAX_THREADS || period_ns == 0)
		fail("a number is out of range");
	backing_mem_init(&mem, PAGE_SIZE, 2);
	mem.populate_ns = strtoull(argv[5], NULL, 10) * 1000;
	mem.fail_ns = strtoull(argv[6], NULL, 10) * 1000;
	mem.node_room[0] = 0;
	if (page_core_init(&core, 2, none, (int64_t)MAX_FAULTS * nr_threads, 0, 1024, false) <
	    0)
		fail("out of memory");
	avail_mask_init(&core.avail, strcmp(argv[1], "on") == 0);
	for (int i = 0; i < nr_threads; i++)
		start_worker(&workers[i], (uint64_t)i + 2);
	refill_for(ns, period_ns);
	for (int i = 0; i < nr_threads; i++)
		pthread_join(workers[i].thread, NULL);
	print(nr_threads, (double)ns / (double)period_ns);
	return 0;
}
