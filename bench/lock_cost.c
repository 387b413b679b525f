/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a lock costs: nanoseconds for one uncontended lock and unlock, the best of several
 * rounds. The cost of the counters is the difference between a build with -Dlock_stat=true and
 * one with false, of the same buildtype.
 *
 * usage: bench-lock-cost [--json] [--contended]
 *
 * --contended adds an operation's wall time with two threads that hold the lock for about half
 * of the time each, 100 ns at a go: on a mutex whose waiters spin first (pool), and on one
 * whose waiters sleep at once (fault_mutex).
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fs/lock.h"

#define NR_ROUNDS     15
#define NR_OPERATIONS 1000000
#define NR_THREADS    2
/* With two threads; about 250 ns and 1.2 us, a pool's lock on a busy fault path. */
#define NR_CONTENDED     300000
#define NR_STEPS_INSIDE  300
#define NR_STEPS_OUTSIDE 1500

struct result {
	const char *name;
	double ns;
};

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void loop_mutex(void *lock)
{
	for (int i = 0; i < NR_OPERATIONS; i++) {
		mutex_lock(lock);
		mutex_unlock(lock);
	}
}

static void loop_read(void *lock)
{
	for (int i = 0; i < NR_OPERATIONS; i++) {
		rwsem_read_lock(lock);
		rwsem_read_unlock(lock);
	}
}

static void loop_write(void *lock)
{
	for (int i = 0; i < NR_OPERATIONS; i++) {
		rwsem_write_lock(lock);
		rwsem_write_unlock(lock);
	}
}

/* The best round: everything that disturbs makes one slower, nothing faster. */
static double measure(void (*loop)(void *), void *lock)
{
	double best = 0;

	for (int i = 0; i < NR_ROUNDS; i++) {
		double start = now_ns(), ns;

		loop(lock);
		ns = (now_ns() - start) / NR_OPERATIONS;
		if (i == 0 || ns < best)
			best = ns;
	}
	return best;
}

static void work(int nr_steps)
{
	for (volatile int i = 0; i < nr_steps; i++)
		;
}

static void *contender(void *lock)
{
	for (int i = 0; i < NR_CONTENDED; i++) {
		mutex_lock(lock);
		work(NR_STEPS_INSIDE);
		mutex_unlock(lock);
		work(NR_STEPS_OUTSIDE);
	}
	return NULL;
}

/*
 * Two threads on a mutex of @rank: wall time over all operations, and what the contended ones
 * waited on average (0 without counters).
 */
static void measure_contended(enum lock_rank rank, struct result *wall, struct result *wait)
{
	pthread_t threads[NR_THREADS];
	struct lock_class_stat stat;
	struct mutex mutex;
	double start;

	mutex_init(&mutex, rank);
	lock_stat_clear();
	start = now_ns();
	for (int i = 0; i < NR_THREADS; i++)
		if (pthread_create(&threads[i], NULL, contender, &mutex))
			abort();
	for (int i = 0; i < NR_THREADS; i++)
		pthread_join(threads[i], NULL);
	wall->ns = (now_ns() - start) / (NR_THREADS * NR_CONTENDED);
	lock_stat_read(rank, &stat);
	if (stat.exclusive.nr_contentions)
		wait->ns = (double)stat.exclusive.wait_total_ns /
			   (double)stat.exclusive.nr_contentions;
	mutex_deinit(&mutex);
}

static void print_results(const struct result *results, int nr_results, bool as_json)
{
	if (as_json)
		printf("{\"lock_stat\": %s, \"lock_check\": %s, \"ns_per_operation\": {",
		       HF_LOCK_STAT ? "true" : "false", HF_LOCK_CHECK ? "true" : "false");
	else
		printf("lock and unlock, lock_stat %s, lock_check %s\n",
		       HF_LOCK_STAT ? "on" : "compiled out", HF_LOCK_CHECK ? "on" : "off");
	for (int i = 0; i < nr_results; i++)
		printf(as_json ? "%s\"%s\": %.2f" : "%s%-24s %8.2f ns\n",
		       as_json && i ? ", " : "", results[i].name, results[i].ns);
	if (as_json)
		printf("}}\n");
}

int main(int argc, char **argv)
{
	bool as_json = false, contended = false;
	struct result results[] = {
		{"mutex", 0},
		{"rwsem_read", 0},
		{"rwsem_write", 0},
		{"contended_pool", 0},
		{"contended_pool_wait", 0},
		{"contended_fault", 0},
		{"contended_fault_wait", 0},
	};
	struct mutex mutex;
	struct rwsem sem;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--json")) {
			as_json = true;
		} else if (!strcmp(argv[i], "--contended")) {
			contended = true;
		} else {
			fprintf(stderr, "usage: %s [--json] [--contended]\n", argv[0]);
			return 2;
		}
	}
	mutex_init(&mutex, LOCK_RANK_POOL);
	rwsem_init(&sem, LOCK_RANK_REGION_MAP);
	results[0].ns = measure(loop_mutex, &mutex);
	results[1].ns = measure(loop_read, &sem);
	results[2].ns = measure(loop_write, &sem);
	if (contended) {
		measure_contended(LOCK_RANK_POOL, &results[3], &results[4]);
		measure_contended(LOCK_RANK_FAULT_MUTEX, &results[5], &results[6]);
	}
	rwsem_deinit(&sem);
	mutex_deinit(&mutex);
	print_results(results, contended ? 7 : 3, as_json);
	return 0;
}
