/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Files of transparent huge pages under threads that do everything at a time: nobody gets
 * SIGBUS inside a file, and in the end all is counted as it is. And a random script beside a
 * tmpfs.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "beside.h"
#include "fixture.h"

#define ROUNDS     400
#define FILE_PAGES 6

static struct fixture fixture;

static unsigned long used(const struct fixture *of)
{
	struct statvfs st;

	assert_int_equal(statvfs(of->dir, &st), 0);
	return (st.f_blocks - st.f_bfree) * st.f_frsize;
}

static bool nothing_is_used(void *data)
{
	return used(data) == 0;
}

/* ---- never SIGBUS inside a file ---- */

struct storm {
	int fd, other;
	char *p;
	_Atomic bool stop, failed;
};

static void *touch_all(void *data)
{
	struct storm *storm = data;
	unsigned int seed = 1;

	while (!storm->stop) {
		size_t at = (size_t)rand_r(&seed) % (FILE_PAGES * PAGE_2M);

		if (raises_sigbus(storm->p + at, rand_r(&seed) % 2))
			storm->failed = true;
	}
	return NULL;
}

static void *punch_some(void *data)
{
	struct storm *storm = data;
	unsigned int seed = 2;

	while (!storm->stop) {
		off_t at = (off_t)rand_r(&seed) % (FILE_PAGES * (off_t)PAGE_2M);
		off_t len = 1 + (off_t)rand_r(&seed) % (2 * (off_t)PAGE_2M);

		if (fallocate(storm->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, len) <
		    0)
			storm->failed = true;
		at = at / 4096 * 4096;
		if (at + 4096 <= FILE_PAGES * (off_t)PAGE_2M &&
		    madvise(storm->p + at, 4096, MADV_REMOVE) < 0)
			storm->failed = true;
	}
	return NULL;
}

/* Take the room wherever it is to be had. */
static void *grab(void *data)
{
	struct storm *storm = data;
	unsigned int seed = 3;

	while (!storm->stop) {
		off_t size = (off_t)rand_r(&seed) % (4 * (off_t)PAGE_2M);

		if (ftruncate(storm->other, size) < 0 && errno != ENOSPC)
			storm->failed = true;
		if (pwrite(storm->other, "x", 1, size) < 0 && errno != ENOSPC)
			storm->failed = true;
	}
	return NULL;
}

static void test_never_sigbus(void **state)
{
	void *(*const threads[])(void *) = {touch_all, punch_some, grab, touch_all};
	const struct timespec second = {.tv_sec = 3};
	struct storm storm = {0};
	pthread_t thread[4];
	struct stat st;

	fixture_mount(&fixture, "backing=thp,size=16M");
	storm.fd =
		fixture_file(&fixture, "file", O_RDWR | O_CREAT, FILE_PAGES * (off_t)PAGE_2M);
	storm.other = fixture_file(&fixture, "other", O_RDWR | O_CREAT, 0);
	storm.p = mmap(NULL, FILE_PAGES * PAGE_2M, PROT_READ | PROT_WRITE, MAP_SHARED, storm.fd,
		       0);
	assert_ptr_not_equal(storm.p, MAP_FAILED);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, threads[i], &storm), 0);
	/* how long it rages; nothing is waited for */
	nanosleep(&second, NULL);
	storm.stop = true;
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	assert_false(storm.failed);
	assert_int_equal(ftruncate(storm.other, 0), 0);
	assert_int_equal(used(&fixture), FILE_PAGES * PAGE_2M);
	for (size_t at = 0; at < FILE_PAGES * PAGE_2M; at += 4096)
		storm.p[at] = 1;
	assert_int_equal(fstat(storm.fd, &st), 0);
	assert_int_equal(st.st_blocks, FILE_PAGES * PAGE_2M / 512);
	assert_int_equal(fixture_counter(&fixture, "free_hugepages"), 8 - FILE_PAGES);
	munmap(storm.p, FILE_PAGES * PAGE_2M);
	close(storm.fd);
	close(storm.other);
	unlink(fixture_path(&fixture, "file"));
	unlink(fixture_path(&fixture, "other"));
	assert_true(wait_until(nothing_is_used, &fixture, 2000));
	assert_int_equal(fixture_counter(&fixture, "free_hugepages"), 8);
	fixture_umount(&fixture);
}

/* ---- files that come and go while they are mapped ---- */

static void *live_and_die(void *data)
{
	struct storm *storm = data;
	unsigned int seed = (unsigned int)pthread_self();
	char name[128];
	bool early;
	char *p;
	int fd;

	for (int i = 0; i < ROUNDS; i++) {
		size_t length = 1 + (size_t)rand_r(&seed) % PAGE_2M;

		snprintf(name, sizeof(name), "%s/%lx", fixture.dir,
			 (unsigned long)pthread_self());
		fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		if (fd < 0 || ftruncate(fd, (off_t)length) < 0) {
			storm->failed = true;
			break;
		}
		p = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (p == MAP_FAILED) {
			storm->failed = true;
			break;
		}
		early = rand_r(&seed) % 2;
		if (early)
			close(fd);
		if (unlink(name) < 0 || raises_sigbus(p + length - 1, true) || p[0] != 0)
			storm->failed = true;
		munmap(p, length);
		if (!early)
			close(fd);
	}
	return NULL;
}

static void test_come_and_go(void **state)
{
	struct storm storm = {0};
	pthread_t thread[4];

	fixture_mount(&fixture, "backing=thp,size=64M");
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, live_and_die, &storm), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	assert_false(storm.failed);
	assert_true(wait_until(nothing_is_used, &fixture, 2000));
	assert_int_equal(fixture_counter(&fixture, "free_hugepages"), 32);
	fixture_umount(&fixture);
}

/* ---- a random script, beside a tmpfs ---- */

#define SCRIPT_SIZE  (9 * (off_t)PAGE_2M / 2)
#define SCRIPT_STEPS 600

static off_t random_offset(unsigned int *seed)
{
	off_t offset = (off_t)rand_r(seed) % SCRIPT_SIZE;

	switch (rand_r(seed) % 4) {
	case 0:
		return offset / (off_t)PAGE_2M * (off_t)PAGE_2M;
	case 1:
		return offset / 4096 * 4096;
	}
	return offset;
}

/* Store through the mapping as far as the file is long. */
static long store(char *p, int at, off_t offset, size_t len, char value)
{
	struct stat st;

	if (fstatat(at, "file", &st, 0) < 0)
		return -1;
	if (offset >= st.st_size)
		return 0;
	if ((off_t)len > st.st_size - offset)
		len = (size_t)(st.st_size - offset);
	memset(p + offset, value, len);
	return (long)len;
}

static void script_step(int fds[2], char *const map[2], unsigned int *seed)
{
	static const int modes[] = {0, FALLOC_FL_KEEP_SIZE,
				    FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				    FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE};
	off_t offset = random_offset(seed), end = random_offset(seed);
	size_t len = 1 + (size_t)rand_r(seed) % 100000;
	char value = (char)rand_r(seed), *bytes;
	int mode = modes[rand_r(seed) % 4];

	if ((off_t)len > SCRIPT_SIZE - offset)
		len = (size_t)(SCRIPT_SIZE - offset);
	switch (rand_r(seed) % 5) {
	case 0:
		both_give(0, ftruncate(fds[side], offset));
		break;
	case 1:
		if (end > offset)
			both_give(0, fallocate(fds[side], mode, offset, end - offset));
		break;
	case 2:
		both_equal(store(map[side], at, offset, len, value));
		break;
	default:
		bytes = malloc(len);
		memset(bytes, value, len);
		both_equal(pwrite(fds[side], bytes, len, offset));
		free(bytes);
	}
}

static int run_script(void *data)
{
	unsigned int seed = *(unsigned int *)data;
	char *map[2];
	int fds[2];

	beside_open();
	both_give(0, (fds[side] = openat(at, "file", O_RDWR | O_CREAT | O_CLOEXEC, 0600)) < 0);
	both_give(0, (map[side] = mmap(NULL, SCRIPT_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
				       fds[side], 0)) == MAP_FAILED);
	for (int i = 0; i < SCRIPT_STEPS; i++) {
		script_step(fds, map, &seed);
		if (i % 20 == 0)
			compare_content("file", SCRIPT_SIZE);
	}
	compare_content("file", SCRIPT_SIZE);
	both_give(0, munmap(map[side], SCRIPT_SIZE));
	both_give(0, close(fds[side]));
	both_give(0, unlinkat(at, "file", 0));
	return 0;
}

static void test_random_beside_tmpfs(void **state)
{
	const char *given = getenv("SEED");
	unsigned int seed = given ? (unsigned int)strtoul(given, NULL, 10)
				  : (unsigned int)time(NULL);

	beside_mount("backing=thp,size=32M");
	for (int i = 0; i < 4; i++, seed++) {
		printf("SEED=%u\n", seed);
		beside_run(run_script, &seed, 0);
		assert_true(wait_until(nothing_is_used, &beside_fixture, 2000));
		assert_int_equal(fixture_counter(&beside_fixture, "free_hugepages"), 16);
	}
	beside_umount();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_never_sigbus),
		cmocka_unit_test(test_come_and_go),
		cmocka_unit_test(test_random_beside_tmpfs),
	};

	require_root();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
