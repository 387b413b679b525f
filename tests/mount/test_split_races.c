/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Deferred split under threads that punch, write and check, and store through mappings, in the
 * same huge pages, while the shrinker takes what it is let have: no byte may be lost.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>

#include "split.h"

#define RACE_PAGES   3
#define RACE_THREADS 4

struct race {
	_Atomic bool stop;
	_Atomic long steps;
	int number;
	long rounds;
	unsigned int seed;
	char value[RACE_PAGES * 512]; /* of each base page that is this thread's */
};

static struct race presser; /* counts the steps of all */

static void check_own(struct race *race, const char *bytes, size_t idx)
{
	for (size_t i = 0; i < 4096; i++) {
		if (bytes[i] != race->value[idx])
			fail_msg("thread %d: page %zu has %d at %zu, not %d", race->number, idx,
				 bytes[i], i, race->value[idx]);
	}
}

/* One of this thread's pages, in a random huge page. */
static size_t own_page(struct race *race)
{
	return (size_t)rand_r(&race->seed) % (RACE_PAGES * 512) / RACE_THREADS * RACE_THREADS +
	       (size_t)race->number;
}

/* Into pages that were just noted, among others. */
static void store_through_mapping(struct race *race, int wo)
{
	int fd;
	char *p;

	for (int i = 0; i < 50; i++) {
		size_t idx = own_page(race);

		punch(wo, (off_t)idx * 4096, 4096);
		race->value[idx] = 0;
	}
	fd = open(fixture_path(&fixture, "file"), O_RDWR | O_CLOEXEC);
	p = mmap(NULL, RACE_PAGES * PAGE_2M, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	close(fd);
	for (int i = 0; i < 1000; i++) {
		size_t idx = own_page(race);

		check_own(race, p + idx * 4096, idx);
		race->value[idx] = (char)(1 + rand_r(&race->seed) % 100);
		memset(p + idx * 4096, race->value[idx], 4096);
	}
	munmap(p, RACE_PAGES * PAGE_2M);
}

static void race_step(struct race *race, int fd, int ro, const char *map)
{
	size_t idx = own_page(race);
	char bytes[4096];

	switch (rand_r(&race->seed) % 4) {
	case 0:
		punch(fd, (off_t)idx * 4096, 4096);
		race->value[idx] = 0;
		break;
	case 1:
		race->value[idx] = (char)(1 + rand_r(&race->seed) % 100);
		write_all(fd, (off_t)idx * 4096, 4096, race->value[idx]);
		break;
	case 2:
		check_own(race, map + idx * 4096, idx);
		break;
	default:
		assert_int_equal(pread(ro, bytes, 4096, (off_t)idx * 4096), 4096);
		check_own(race, bytes, idx);
	}
}

/*
 * Each thread has every fourth base page for itself: it punches, writes and checks them, while
 * the others do so in the same huge pages, the shrinker splits them, and now and then one
 * stores through a mapping of its own, for which all notes have to be settled.
 */
static void *race_main(void *data)
{
	struct race *race = data;
	int fd = open(fixture_path(&fixture, "file"), O_WRONLY | O_CLOEXEC);
	int ro = open(fixture_path(&fixture, "file"), O_RDONLY | O_CLOEXEC);
	char *map = mmap(NULL, RACE_PAGES * PAGE_2M, PROT_READ, MAP_SHARED, ro, 0);

	assert_ptr_not_equal(map, MAP_FAILED);
	for (long i = 0; i < race->rounds; i++) {
		race_step(race, fd, ro, map);
		presser.steps++;
		if (rand_r(&race->seed) % 150 == 0)
			store_through_mapping(race, fd);
	}
	for (size_t idx = (size_t)race->number; idx < RACE_PAGES * 512; idx += RACE_THREADS)
		check_own(race, map + idx * 4096, idx);
	munmap(map, RACE_PAGES * PAGE_2M);
	close(ro);
	close(fd);
	return NULL;
}

/* Let memory be short, and not short any more, time and again. */
static void *press(void *data)
{
	struct race *race = data;
	int fd = fixture_file(&fixture, "other", O_WRONLY | O_CREAT, 0);

	while (!race->stop) {
		race->steps = 0;
		while (!race->stop && race->steps < 400)
			sched_yield();
		assert_int_equal(ftruncate(fd, 2 * (off_t)PAGE_2M), 0);
		assert_int_equal(ftruncate(fd, 0), 0);
	}
	close(fd);
	assert_int_equal(unlink(fixture_path(&fixture, "other")), 0);
	return NULL;
}

/* A new file, whose pages are whole, and that nobody has open: notes can be made again. */
static void race_round(unsigned int seed)
{
	static struct race races[RACE_THREADS];
	pthread_t threads[RACE_THREADS];

	close(full_file("file", RACE_PAGES, 'r'));
	for (int i = 0; i < RACE_THREADS; i++) {
		races[i].number = i;
		races[i].rounds = 400;
		races[i].seed = seed + (unsigned int)i;
		memset(races[i].value, 'r', sizeof(races[i].value));
		assert_int_equal(pthread_create(&threads[i], NULL, race_main, &races[i]), 0);
	}
	for (int i = 0; i < RACE_THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(unlink(fixture_path(&fixture, "file")), 0);
}

static void run_race(const char *options, bool pressed)
{
	unsigned int seed = (unsigned int)time(NULL);
	pthread_t thread;

	printf("SEED=%u\n", seed);
	presser.stop = false;
	fixture_mount(&fixture, options);
	if (pressed)
		assert_int_equal(pthread_create(&thread, NULL, press, &presser), 0);
	for (unsigned int i = 0; i < (unsigned int)(20 * test_scale()); i++)
		race_round(seed + i * RACE_THREADS);
	presser.stop = true; /* whether there is one or not */
	if (pressed)
		pthread_join(thread, NULL);
	assert_true(column("deferred") > 0);
	assert_true(column("settled") > 0);
	assert_int_equal(column("split") > 0, pressed);
	assert_true(wait_until(nothing_is_used, NULL, 2000));
	assert_int_equal(column("queued"), 0);
	assert_int_equal(fixture_counter(&fixture, "free_hugepages"), 8);
	fixture_umount(&fixture);
}

static void test_race(void **state)
{
	run_race(DEFER ",split_marks=0:0,size=16M", false);
}

static void test_race_shrinking(void **state)
{
	/* 3 of 8 huge pages are the file's, and 2 come and go. */
	run_race(DEFER ",split_marks=50:100,size=16M", true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_race),
		cmocka_unit_test(test_race_shrinking),
	};

	require_root();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
