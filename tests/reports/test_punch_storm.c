/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Holes are punched under a storm of faults. Once it is quiet st_blocks is what is
 * instantiated, what is counted is what is there, and no page is inside the hole that was
 * punched last.
 *
 * For files of transparent huge pages see tests/mount/test_thp_races.c.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "reports.h"

#define PAGES      16 /* pages of the file */
#define SPARE      16 /* a page that is punched is free a moment later than it is gone */
#define HOLE       4  /* the last hole: from there, as many */
#define NR_THREADS 3

struct storm {
	struct side *side;
	int fd;
	char *p;
	_Atomic bool stop, quiet_outside;
	_Atomic long nr_faults;
};

static void *fault(void *data)
{
	struct storm *storm = data;
	unsigned int seed = (unsigned int)(uintptr_t)pthread_self();

	while (!storm->stop) {
		int idx = rand_r(&seed) % PAGES;

		if (storm->quiet_outside && idx >= HOLE && idx < 2 * HOLE)
			continue;
		*(volatile char *)page(storm->p, idx) = 1;
		storm->nr_faults++;
	}
	return NULL;
}

static void *punch_anywhere(void *data)
{
	struct storm *storm = data;
	unsigned int seed = 7;

	while (!storm->stop) {
		long from = rand_r(&seed) % PAGES, pages = 1 + rand_r(&seed) % 4;

		if (rand_r(&seed) % 4 == 0)
			assert_int_equal(madvise(page(storm->p, from), PAGE_2M, MADV_REMOVE),
					 0);
		else
			punch(storm->fd, from, from + pages > PAGES ? PAGES - from : pages);
	}
	return NULL;
}

static void count_what_is_there(struct storm *storm, long used)
{
	side_expect(storm->side, used, side_resv(storm->side));
	assert_int_equal(pages_of(storm->fd), used);
}

static void storm_and_quiet(struct side *side)
{
	const struct timespec second = {.tv_nsec = 800000000};
	struct storm storm = {side, side_file(side, "file", PAGES)};
	pthread_t thread[NR_THREADS + 1];
	long there = 0;

	storm.p = side_map_pages(side, MAP_SHARED, storm.fd, 0, PAGES);
	for (int round = 0; round < 3 * test_scale(); round++) {
		storm.stop = false;
		for (int i = 0; i <= NR_THREADS; i++)
			assert_int_equal(pthread_create(&thread[i], NULL,
							i ? fault : punch_anywhere, &storm),
					 0);
		/* how long it rages; nothing is waited for */
		nanosleep(&second, NULL);
		storm.stop = true;
		for (int i = 0; i <= NR_THREADS; i++)
			pthread_join(thread[i], NULL);
		there = pages_of(storm.fd);
		count_what_is_there(&storm, there);
		punch(storm.fd, HOLE, HOLE);
		there = pages_of(storm.fd);
		assert_true(there <= PAGES - HOLE);
		count_what_is_there(&storm, there);
	}
	assert_true(storm.nr_faults > 0);
	/* Nothing inside the hole: what is outside is filled, and that is all there is. */
	for (int i = 0; i < PAGES; i++) {
		if (i < HOLE || i >= 2 * HOLE)
			*page(storm.p, i) = 1;
	}
	count_what_is_there(&storm, PAGES - HOLE);
	for (int i = HOLE; i < 2 * HOLE; i++)
		assert_int_equal(*page(storm.p, i), 0);
	count_what_is_there(&storm, PAGES);
}

/* Outside the hole the storm goes on while the hole is looked at. */
static void hole_under_the_storm(struct side *side)
{
	struct storm storm = {side, side_file(side, "file", PAGES), .quiet_outside = true};
	pthread_t thread[NR_THREADS];
	char byte;

	storm.p = side_map_pages(side, MAP_SHARED, storm.fd, 0, PAGES);
	for (int i = 0; i < NR_THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, fault, &storm), 0);
	for (int round = 0; round < 300 * test_scale(); round++) {
		for (int i = HOLE; i < 2 * HOLE; i++)
			*page(storm.p, i) = 9;
		punch(storm.fd, 0, PAGES);
		assert_true(pages_of(storm.fd) <= PAGES - HOLE);
		for (int i = HOLE; i < 2 * HOLE; i++) {
			assert_int_equal(pread(storm.fd, &byte, 1, i * (off_t)PAGE_2M), 1);
			assert_int_equal(byte, 0);
		}
	}
	storm.stop = true;
	for (int i = 0; i < NR_THREADS; i++)
		pthread_join(thread[i], NULL);
	count_what_is_there(&storm, pages_of(storm.fd));
	punch(storm.fd, 0, PAGES);
	count_what_is_there(&storm, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* Not on the kernel's own: there (6.18) reservations are left over for good. */
		ON_HUGEFUSE(storm_and_quiet, "", PAGES + SPARE),
		ON_HUGEFUSE(storm_and_quiet, "ahead=off,fault_threads=4", PAGES + SPARE),
		ON_BOTH(hole_under_the_storm, PAGES + SPARE),
	};

	require_root();
	require_pages(PAGE_2M, PAGES + SPARE);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
