/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What waits for what: a file is closed, flushed and synchronised while a fault of the same
 * process waits; copies of the page cache are dropped while handles are open; the connection is
 * aborted under all of that. Nothing hangs, and after an abort everything is given back.
 *
 * System calls of the daemon's clients into their own mappings are in
 * test_syscalls_into_untouched.c.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "hugefuse.h"
#include "reports.h"

#define POOL 8

struct waiter {
	struct side *side;
	char *at;
	_Atomic bool done;
};

static void *touch(void *data)
{
	struct waiter *waiter = data;

	raises_sigbus(waiter->at, true);
	waiter->done = true;
	return NULL;
}

static bool one_waits(void *data)
{
	const struct side *side = data;

	return fixture_fault_stat(&side->fixture, "waiting") >= 1;
}

/* Everything that FUSE sends when a descriptor is used and closed. */
static void use_and_close(const struct side *side, int fd)
{
	char bytes[100];
	int other = dup(fd);

	assert_true(pread(fd, bytes, sizeof(bytes), 0) >= 0);
	assert_int_equal(fsync(fd) | fdatasync(fd), 0);
	assert_int_equal(close(other), 0);
	other = fixture_file(&side->fixture, "another", O_RDWR | O_CREAT, 0);
	assert_int_equal(ftruncate(other, PAGE_2M) | close(other), 0);
	assert_int_equal(unlink(fixture_path(&side->fixture, "another")), 0);
	assert_int_equal(syncfs(fd), 0);
}

static void flush_while_a_fault_waits(struct side *side)
{
	int held = side_file(side, "held", POOL), fd = side_file(side, "file", 2);
	struct waiter waiter = {side};
	pthread_t thread;

	side_map_pages(side, MAP_SHARED | MAP_POPULATE, held, 0, POOL);
	waiter.at = side_map_pages(side, MAP_SHARED | MAP_NORESERVE, fd, 0, 2);
	assert_int_equal(pthread_create(&thread, NULL, touch, &waiter), 0);
	assert_true(wait_until(one_waits, side, 5000));
	for (int i = 0; i < 50; i++)
		use_and_close(side, fd);
	assert_int_equal(close(fd), 0);
	assert_false(waiter.done);
	punch(held, 0, 1);
	pthread_join(thread, NULL);
	side_expect(side, POOL, 0);
}

/* A file's size changes while a fault behind the new end, and one before it, wait. */
static void truncate_while_a_fault_waits(struct side *side)
{
	int held = side_file(side, "held", POOL), fd = side_file(side, "file", 2);
	struct waiter waiter = {side};
	pthread_t thread;

	side_map_pages(side, MAP_SHARED | MAP_POPULATE, held, 0, POOL);
	waiter.at = page(side_map_pages(side, MAP_SHARED | MAP_NORESERVE, fd, 0, 2), 1);
	assert_int_equal(pthread_create(&thread, NULL, touch, &waiter), 0);
	assert_true(wait_until(one_waits, side, 5000));
	assert_int_equal(ftruncate(fd, PAGE_2M), 0);
	pthread_join(thread, NULL); /* SIGBUS: it is behind the end now */
	side_expect(side, POOL, 0);
}

/* ---- copies are dropped under open handles ---- */

static struct fixture fixture;
static _Atomic bool stop;

static void *read_and_write(void *data)
{
	unsigned int seed = (unsigned int)(uintptr_t)&seed;
	char bytes[5000] = "x";

	while (!stop) {
		int fd = open(fixture_path(&fixture, "file"), O_RDWR | O_CLOEXEC);
		off_t at = rand_r(&seed) % (2 * (off_t)PAGE_2M);

		assert_true(fd >= 0);
		assert_true(pwrite(fd, bytes, sizeof(bytes), at) > 0);
		assert_true(pread(fd, bytes, sizeof(bytes), at) > 0);
		if (rand_r(&seed) % 2)
			assert_int_equal(fsync(fd), 0);
		close(fd);
	}
	return NULL;
}

/* Direct mappings, before which the copies go, are made and ended all the time. */
static void test_copies_are_dropped(void **state)
{
	pthread_t thread[2];
	int fd, nr_mapped = 0;
	char *p;

	fixture_mount(&fixture, "backing=hugetlb,plain=cached,size=16M");
	fd = fixture_file(&fixture, "file", O_RDWR | O_CREAT, 3 * PAGE_2M);
	close(fd);
	stop = false;
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, read_and_write, NULL), 0);
	for (int i = 0; i < 500 * test_scale(); i++) {
		fd = open(fixture_path(&fixture, "file"), O_RDWR | O_CLOEXEC);
		assert_true(fd >= 0);
		p = hugefuse_mmap(NULL, PAGE_2M, RW, MAP_SHARED, fd, 0);
		if (p == MAP_FAILED) {
			assert_int_equal(errno, EBUSY); /* somebody has it open for copies */
		} else {
			*p = 1;
			nr_mapped++;
			assert_int_equal(hugefuse_munmap(p, PAGE_2M), 0);
		}
		close(fd);
	}
	stop = true;
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	printf("%d of %ld mappings were made\n", nr_mapped, 500 * test_scale());
	fixture_umount(&fixture);
}

/* ---- the connection is aborted ---- */

static const char *connections(void)
{
	static const char path[] = "/sys/fs/fuse/connections";
	struct statfs st;

	if (statfs(path, &st) == 0 && st.f_type != 0x65735543 &&
	    mount("fusectl", path, "fusectl", 0, NULL) < 0)
		return NULL;
	return path;
}

static void abort_connection(unsigned int number)
{
	char path[80];
	int fd;

	snprintf(path, sizeof(path), "%s/%u/abort", connections(), number);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		fail_msg("%s: %s", path, strerror(errno));
	assert_int_equal(write(fd, "1", 1), 1);
	close(fd);
}

static int touch_in_child(void *data)
{
	int fd = open(fixture_path(&fixture, "file"), O_RDWR | O_CLOEXEC);
	char *p = hugefuse_mmap(NULL, 2 * PAGE_2M, RW, MAP_SHARED | MAP_NORESERVE, fd, 0);

	if (p == MAP_FAILED)
		return 2;
	raises_sigbus(p, true);
	return 0;
}

static void *look_all_the_time(void *data)
{
	struct stat st;
	int fd;

	while (!stop) {
		stat(fixture_path(&fixture, "file"), &st);
		fd = open(fixture_path(&fixture, "file"), O_RDWR | O_CLOEXEC);
		if (fd >= 0)
			close(fd);
	}
	return NULL;
}

static bool fault_waits(void *data)
{
	return fixture_fault_stat(&fixture, "waiting") >= 1;
}

/* Requests are under way, a fault waits, and a file is mapped. */
static void test_abort(void **state)
{
	struct kernel_counts now;
	pthread_t thread;
	struct stat st;
	pid_t child;
	char *p;
	int fd;

	if (!connections())
		skip();
	fixture_mount(&fixture, "backing=hugetlb,on_exhausted=wait,size=16M");
	assert_int_equal(stat(fixture.dir, &st), 0);
	close(fixture_file(&fixture, "file", O_RDWR | O_CREAT, 2 * PAGE_2M));
	fd = fixture_file(&fixture, "held", O_RDWR | O_CREAT, POOL * PAGE_2M);
	p = hugefuse_mmap(NULL, POOL * PAGE_2M, RW, MAP_SHARED | MAP_POPULATE, fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	*p = 1;
	child = start_child(touch_in_child, NULL, 0);
	assert_true(wait_until(fault_waits, NULL, 5000));
	stop = false;
	assert_int_equal(pthread_create(&thread, NULL, look_all_the_time, NULL), 0);
	abort_connection(minor(st.st_dev));
	assert_int_equal(stat(fixture_path(&fixture, "file"), &st), -1);
	assert_int_equal(errno, ENOTCONN);
	stop = true;
	pthread_join(thread, NULL);
	assert_int_equal(*p, 1); /* what is mapped stays */
	assert_int_equal(hugefuse_munmap(p, POOL * PAGE_2M), 0);
	close(fd);
	kill(child, SIGKILL);
	assert_int_equal(wait_child(child, 5000), 1000 + SIGKILL);
	/* The daemon sees that it is over, and gives everything back by itself. */
	assert_int_equal(wait_child(fixture.daemon, 10000), 0);
	now = kernel_counts_read(PAGE_2M);
	assert_memory_equal(&now, &fixture.before, sizeof(now));
	assert_int_equal(unlink(fixture.log), 0);
	assert_int_equal(rmdir(fixture.dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_HUGEFUSE(flush_while_a_fault_waits, "on_exhausted=wait", POOL),
		ON_HUGEFUSE(truncate_while_a_fault_waits, "on_exhausted=wait", POOL),
		cmocka_unit_test(test_copies_are_dropped),
		cmocka_unit_test(test_abort),
	};

	require_root();
	require_pages(PAGE_2M, POOL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
