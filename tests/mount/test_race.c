/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The race for the last page, which the fault mutex table exists for.
 *
 * Interleaving: a pool with one free page; two processes of two threads each touch the same
 * page of a file at the same time. The first takes the last free page; the second finds none
 * free, and must not be told so, but wait for the first and find the page in the file.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

#include "side.h"

#define NR_PROCESSES 2
#define NR_THREADS   2
#define NR_ROUNDS    10000

struct race {
	pthread_barrier_t start, end;
	struct side *side;
	int fd;
};

static char *page_of_process; /* mapped by each process for itself */

static void *race_thread(void *data)
{
	struct race *race = data;

	for (int round = 0; round < NR_ROUNDS; round++) {
		pthread_barrier_wait(&race->start);
		if (raises_sigbus(page_of_process, true))
			fail_msg("SIGBUS in round %d", round);
		pthread_barrier_wait(&race->end);
	}
	return NULL;
}

static int race_process(void *data)
{
	struct race *race = data;
	pthread_t thread[NR_THREADS];

	page_of_process =
		side_map_pages(race->side, MAP_SHARED | MAP_NORESERVE, race->fd, 0, 1);
	for (int i = 0; i < NR_THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, race_thread, race), 0);
	for (int i = 0; i < NR_THREADS; i++)
		pthread_join(thread[i], NULL);
	return 0;
}

static void shared_barrier(pthread_barrier_t *barrier)
{
	pthread_barrierattr_t attributes;

	pthread_barrierattr_init(&attributes);
	pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(barrier, &attributes, NR_PROCESSES * NR_THREADS + 1);
}

static void last_page(struct side *side)
{
	struct race *race = shared_memory(sizeof(*race));
	pid_t process[NR_PROCESSES];

	shared_barrier(&race->start);
	shared_barrier(&race->end);
	race->side = side;
	race->fd = side_file(side, "file", 1);
	for (int i = 0; i < NR_PROCESSES; i++)
		process[i] = start_child(race_process, race, 0);
	for (int round = 0; round < NR_ROUNDS; round++) {
		assert_int_equal(fallocate(race->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					   0, PAGE_2M),
				 0);
		pthread_barrier_wait(&race->start);
		pthread_barrier_wait(&race->end);
	}
	for (int i = 0; i < NR_PROCESSES; i++)
		assert_int_equal(wait_child(process[i], 10000), 0);
	side_expect(side, 1, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(last_page, 1),
		ON_HUGEFUSE(last_page, "fault_mutexes=1", 1),
	};

	require_root();
	require_pages(PAGE_2M, 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
