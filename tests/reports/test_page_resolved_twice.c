/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A page that is resolved twice, by two fault threads, or by a fault and MAP_POPULATE, is taken
 * once, uses one reservation, and all threads that waited for it are woken. A watchdog ends the
 * test where one is not.
 *
 * That the last page of a pool is found by all who race for it is in tests/mount/test_race.c;
 * ten million contended faults without a mount are in tests/unit/test_page_contended.c.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "reports.h"

#define PAGES       4
#define NR_THREADS  4
#define NR_ROUNDS   3000
#define NR_POPULATE 1000

struct contest {
	struct side *side;
	int fd;
	long nr_rounds;
	bool populate; /* one process populates a mapping of its own instead of touching */
	pthread_barrier_t start, end;
	_Atomic long nr_touched;
};

static char *pages_of_process;

static void *touch(void *data)
{
	struct contest *contest = data;

	for (long round = 0; round < contest->nr_rounds; round++) {
		pthread_barrier_wait(&contest->start);
		for (int i = 0; i < PAGES; i++) {
			if (raises_sigbus(page(pages_of_process, i), true))
				fail_msg("SIGBUS in round %ld", round);
			contest->nr_touched++;
		}
		pthread_barrier_wait(&contest->end);
	}
	return NULL;
}

static int touch_in_process(void *data)
{
	struct contest *contest = data;
	pthread_t thread[NR_THREADS / 2];

	pages_of_process = side_map_pages(contest->side, MAP_SHARED, contest->fd, 0, PAGES);
	for (int i = 0; i < NR_THREADS / 2; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, touch, contest), 0);
	for (int i = 0; i < NR_THREADS / 2; i++)
		pthread_join(thread[i], NULL);
	return 0;
}

static int populate_in_process(void *data)
{
	struct contest *contest = data;
	char *p;

	for (long round = 0; round < contest->nr_rounds; round++) {
		pthread_barrier_wait(&contest->start);
		p = side_map_pages(contest->side, MAP_SHARED | MAP_POPULATE, contest->fd, 0,
				   PAGES);
		assert_int_equal(side_unmap(contest->side, p, PAGES * PAGE_2M), 0);
		pthread_barrier_wait(&contest->end);
	}
	return 0;
}

static void shared_barrier(pthread_barrier_t *barrier, unsigned int nr)
{
	pthread_barrierattr_t attributes;

	pthread_barrierattr_init(&attributes);
	pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(barrier, &attributes, nr);
}

/* All of them fault on the same pages at once; then a hole makes them missing again. */
static void run_contest(struct side *side, bool populate, long nr_rounds)
{
	struct contest *contest = shared_memory(sizeof(*contest));
	unsigned int nr = populate ? NR_THREADS / 2 + 1 : NR_THREADS;
	pid_t process[2];
	char *p;

	contest->side = side;
	contest->fd = side_file(side, "file", PAGES);
	contest->nr_rounds = nr_rounds;
	shared_barrier(&contest->start, nr + 1);
	shared_barrier(&contest->end, nr + 1);
	process[0] = start_child(touch_in_process, contest, 0);
	process[1] = start_child(populate ? populate_in_process : touch_in_process, contest, 0);
	for (long round = 0; round < nr_rounds; round++) {
		p = side_map_pages(side, MAP_SHARED, contest->fd, 0, PAGES);
		assert_int_equal(side_unmap(side, p, PAGES * PAGE_2M), 0);
		pthread_barrier_wait(&contest->start);
		pthread_barrier_wait(&contest->end);
		if (round % 100 == 0)
			side_expect(side, PAGES, 0);
		punch(contest->fd, 0, PAGES);
		if (round % 100 == 0)
			side_expect(side, 0, 0);
	}
	for (int i = 0; i < 2; i++)
		assert_int_equal(wait_child(process[i], 10000), 0);
	printf("%ld faults on contended pages\n", contest->nr_touched);
	side_expect(side, 0, 0);
}

static void faults_alone(struct side *side)
{
	run_contest(side, false, NR_ROUNDS * test_scale());
}

static void fault_and_populate(struct side *side)
{
	run_contest(side, true, NR_POPULATE * test_scale());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(faults_alone, PAGES),
		ON_HUGEFUSE(faults_alone, "fault_threads=4,ahead=off", PAGES),
		ON_BOTH(fault_and_populate, PAGES),
		ON_HUGEFUSE(fault_and_populate, "fault_mutexes=1,fault_threads=4", PAGES),
	};

	require_root();
	require_pages(PAGE_2M, PAGES);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
