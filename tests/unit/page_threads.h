/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A team of threads that all make a call at the same moment, again and again, and a stop in the
 * backing at which a test holds one thread while another goes on. To be included after
 * page_util.h.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "lock_threads.h"

enum {
	MAX_TEAM = 8
};

struct team {
	struct page_test *test;
	int nr_threads, nr_rounds;
	int64_t (*call)(struct page_test *test, int number); /* by each thread */
	void (*check)(struct page_test *test, const int64_t *results, int nr); /* by main */
	pthread_barrier_t barrier;
	int64_t results[MAX_TEAM];
};

struct team_member {
	struct test_thread thread;
	struct team *team;
	int number;
};

static inline void team_member_run(void *context)
{
	struct team_member *member = context;
	struct team *team = member->team;

	for (int i = 0; i < team->nr_rounds; i++) {
		pthread_barrier_wait(&team->barrier);
		team->results[member->number] = team->call(team->test, member->number);
		pthread_barrier_wait(&team->barrier);
	}
}

static inline void team_run(struct team *team)
{
	struct team_member members[MAX_TEAM];

	pthread_barrier_init(&team->barrier, NULL, (unsigned)team->nr_threads + 1);
	for (int i = 0; i < team->nr_threads; i++) {
		members[i].team = team;
		members[i].number = i;
		start_thread(&members[i].thread, team_member_run, &members[i]);
	}
	for (int i = 0; i < team->nr_rounds; i++) {
		pthread_barrier_wait(&team->barrier);
		pthread_barrier_wait(&team->barrier);
		/* The threads wait for the next round. */
		team->check(team->test, team->results, team->nr_threads);
	}
	for (int i = 0; i < team->nr_threads; i++)
		join_thread(&members[i].thread);
	pthread_barrier_destroy(&team->barrier);
}

static inline int count_results(const int64_t *results, int nr, int64_t result)
{
	int count = 0;

	for (int i = 0; i < nr; i++)
		count += results[i] == result;
	return count;
}

/* Where a thread stops inside a hook until it is let go. */
struct stop {
	sem_t reached, go;
};

static inline void stop_init(struct stop *stop)
{
	sem_init(&stop->reached, 0, 0);
	sem_init(&stop->go, 0, 0);
}

static inline void stop_here(struct stop *stop)
{
	sem_post(&stop->reached);
	wait_event(&stop->go);
}

/* A thread that makes one call, whose result is there once it is joined. */
struct caller {
	struct test_thread thread;
	struct page_test *test;
	int64_t (*call)(struct page_test *test);
	int64_t result;
	_Atomic bool done;
};

static inline void caller_run(void *context)
{
	struct caller *caller = context;

	caller->result = caller->call(caller->test);
	caller->done = true;
}

static inline void start_caller(struct caller *caller, struct page_test *test,
				int64_t (*call)(struct page_test *test))
{
	caller->test = test;
	caller->call = call;
	caller->done = false;
	start_thread(&caller->thread, caller_run, caller);
}

static inline int64_t join_caller(struct caller *caller)
{
	join_thread(&caller->thread);
	return caller->result;
}
