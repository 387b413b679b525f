/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A daemon is killed at any moment, over and over, while clients go on writing, and while it is
 * being set up or taken over.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "hugefuse.h"
#include "restart.h"
#include "side.h"

static const char *const options = "size=48M";

#define WRITERS 3

struct storm {
	struct fixture *fixture;
	atomic_bool stop;
	atomic_int nr_mapped; /* writers that have all mapped */
	atomic_long nr_written;
};

/* Writes a pattern all along, and looks whether it is still there. */
static int write_all_along(void *data)
{
	struct storm *storm = data;
	char name[32];
	long round;
	char *shared, *own;
	int fd;

	snprintf(name, sizeof(name), "storm-%d", getpid());
	fd = fixture_file(storm->fixture, name, O_RDWR | O_CREAT, 4 * PAGE_2M);
	shared = map_file(fd, 4, MAP_SHARED);
	own = map_file(fd, 2, MAP_PRIVATE);
	storm->nr_mapped++;
	for (round = 0; !storm->stop; round++) {
		for (int i = 0; i < 4; i++) {
			volatile long *at = (long *)(page(shared, i) + 8 * (round % 1000));
			volatile long *mine = (long *)page(own, i % 2) + i / 2;

			*at = round;
			*mine = round + i;
			assert_int_equal(*at, round);
			assert_int_equal(*mine, round + i);
		}
		/* What is given up may be had again: by the kernel or by the daemon. */
		if (round % 97 == 0)
			assert_int_equal(madvise(page(own, 0), PAGE_2M, MADV_DONTNEED), 0);
		storm->nr_written++;
		usleep(50);
	}
	for (int i = 0; i < 4; i++)
		assert_int_equal(*(long *)(page(shared, i) + 8 * ((round - 1) % 1000)),
				 round - 1);
	return 0;
}

static bool has_written(void *data)
{
	long *least = ((long **)data)[1];

	return ((struct storm **)data)[0]->nr_mapped == WRITERS &&
	       ((struct storm **)data)[0]->nr_written >= *least;
}

/* $RESTART_ROUNDS kills, each at another moment of what the clients do. */
static void test_random_kills(void **state)
{
	const char *text = getenv("RESTART_ROUNDS"), *seed_text = getenv("TEST_SEED");
	unsigned int seed = seed_text ? (unsigned int)strtoul(seed_text, NULL, 0)
				      : (unsigned int)clock_ms();
	long rounds = text ? strtol(text, NULL, 10) : 20, least = 0;
	struct storm *storm = shared_memory(sizeof(*storm));
	void *progress[] = {storm, &least};
	struct fixture fixture = {0};
	pid_t writer[WRITERS];

	print_message("TEST_SEED=%u\n", seed);
	storm->fixture = &fixture;
	fixture_mount(&fixture, options);
	for (int i = 0; i < WRITERS; i++)
		writer[i] = start_child(write_all_along, storm, 0);
	for (long round = 0; round < rounds; round++) {
		least = storm->nr_written + WRITERS + rand_r(&seed) % 200;
		assert_true(wait_until(has_written, progress, 20000));
		fixture_kill(&fixture);
		/* Some rounds without a daemon, and some not. */
		least = storm->nr_written + rand_r(&seed) % 20;
		assert_true(wait_until(has_written, progress, 20000));
		fixture_restart(&fixture, options);
		for (int i = 0; i < WRITERS; i++)
			assert_false(child_has_ended(writer[i]));
	}
	storm->stop = true;
	for (int i = 0; i < WRITERS; i++)
		assert_int_equal(wait_child(writer[i], 10000), 0);
	expect(&fixture, 4 * WRITERS);
	assert_int_equal(can_reserve(&fixture), POOL - 4 * WRITERS);
	fixture_umount(&fixture);
	munmap(storm, sizeof(*storm));
}

/* And while it is being set up, taken over or taken down. */
static void test_kills_at_the_start(void **state)
{
	struct fixture fixture = {0};
	struct timespec delay = {0};
	int fd;

	fixture_mount(&fixture, options);
	fd = fixture_file(&fixture, "file", O_RDWR | O_CREAT, 3 * PAGE_2M);
	assert_int_equal(hugefuse_reserve(fd, 0, 3 * PAGE_2M), 3);
	assert_int_equal(pwrite(fd, "x", 1, PAGE_2M), 1);
	close(fd);
	for (int i = 0; i < 40; i++) {
		fixture_kill(&fixture);
		fixture_start(&fixture, options);
		delay.tv_nsec = i * 400000; /* any moment of its first 16 ms */
		nanosleep(&delay, NULL);
	}
	fixture_kill(&fixture);
	fixture_restart(&fixture, options);
	close(fixture_file(&fixture, "file", O_RDONLY, 0));
	expect(&fixture, 1);
	assert_int_equal(can_reserve(&fixture), POOL - 3);
	fixture_umount(&fixture);
	for (int i = 0; i < 20; i++) {
		/* From nothing: what was begun is given back, or gone on with. */
		fixture_mount(&fixture, options);
		fixture_kill(&fixture);
		run_hugefuse("umount", fixture.dir, NULL);
		fixture_start(&fixture, options);
		delay.tv_nsec = i * 800000;
		nanosleep(&delay, NULL);
		fixture_kill(&fixture);
		fixture_restart(&fixture, options);
		fixture_umount(&fixture);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_kills),
		cmocka_unit_test(test_kills_at_the_start),
	};

	require_root();
	require_pages(PAGE_2M, POOL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
