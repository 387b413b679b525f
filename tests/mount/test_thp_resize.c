/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writing nr_hugepages of a mount with transparent huge pages means what it means for the
 * kernel's pool: more pages are set aside, those that are too many leave, and those in use
 * become surplus and leave when they are freed. Files and their mappings do not notice.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "fixture.h"

#define OPTIONS "backing=thp,size=32M"
#define SIZE    16 /* pages of 2 MB */

static struct fixture fixture;

/* The number that nr_hugepages has then. */
static long resize(const char *name, long nr)
{
	char path[256], text[24];
	int fd;

	snprintf(path, sizeof(path), "%s/.hugefuse/%s", fixture.dir, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	snprintf(text, sizeof(text), "%ld\n", nr);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	return fixture_counter(&fixture, "nr_hugepages");
}

static long resize_pool(long nr)
{
	return resize("hugepages-2048kB/nr_hugepages", nr);
}

/* A file's end is told to the daemon after close(2) has returned. */
static void expect_pool(long nr, long free, long surplus)
{
	fixture_expect_counter(&fixture, "free_hugepages", free);
	assert_int_equal(fixture_counter(&fixture, "nr_hugepages"), nr);
	assert_int_equal(fixture_counter(&fixture, "surplus_hugepages"), surplus);
}

/* What statfs(2) says that the filesystem has, in pages. */
static long total(void)
{
	struct statvfs st;

	assert_int_equal(statvfs(fixture.dir, &st), 0);
	return (long)(st.f_blocks * st.f_frsize / PAGE_2M);
}

/* What the files of the tmpfs may have is as much, beside what names have. */
static void expect_no_more_than(const char *name, long pages)
{
	int fd = fixture_file(&fixture, name, O_RDWR | O_CREAT, pages * (off_t)PAGE_2M);

	assert_int_equal(ftruncate(fd, (off_t)PAGE_2M * pages + 1), -1);
	assert_int_equal(errno, ENOSPC);
	assert_int_equal(posix_fallocate(fd, 0, (off_t)PAGE_2M * (pages + 1)), ENOSPC);
	close(fd);
	assert_int_equal(unlink(fixture_path(&fixture, name)), 0);
	fixture_expect_counter(&fixture, "free_hugepages", pages);
}

static char *map_file(const char *name, long pages)
{
	int fd = fixture_file(&fixture, name, O_RDWR | O_CREAT, pages * (off_t)PAGE_2M);
	char *p =
		mmap(NULL, (size_t)pages * PAGE_2M, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	close(fd);
	return p;
}

static void fill(char *p, long from, long to)
{
	for (long i = from; i < to; i++)
		memset(p + i * PAGE_2M, (int)i + 1, PAGE_2M);
}

static void expect_filled(const char *p, long pages)
{
	for (size_t i = 0; i < (size_t)pages * PAGE_2M; i += 4096)
		assert_int_equal(p[i], i / PAGE_2M + 1);
}

static void test_grows(void **state)
{
	char *p;

	fixture_mount(&fixture, OPTIONS);
	expect_pool(SIZE, SIZE, 0);
	expect_no_more_than("file", SIZE);
	assert_int_equal(resize_pool(3 * SIZE), 3 * SIZE);
	expect_pool(3 * SIZE, 3 * SIZE, 0);
	assert_int_equal(total(), 3 * SIZE);
	expect_no_more_than("file", 3 * SIZE);
	p = map_file("file", 3 * SIZE);
	fill(p, 0, 3 * SIZE);
	expect_pool(3 * SIZE, 0, 0);
	/* While it is full, and in use. */
	assert_int_equal(resize("node/node0/hugepages-2048kB/nr_hugepages", 3 * SIZE + 1),
			 3 * SIZE + 1);
	expect_pool(3 * SIZE + 1, 1, 0);
	expect_filled(p, 3 * SIZE);
	munmap(p, 3 * SIZE * PAGE_2M);
	assert_int_equal(unlink(fixture_path(&fixture, "file")), 0);
	fixture_umount(&fixture);
}

static void test_shrinks(void **state)
{
	char *p;

	fixture_mount(&fixture, OPTIONS);
	p = map_file("file", 10);
	fill(p, 0, 10);
	assert_int_equal(resize_pool(12), 12);
	expect_pool(12, 2, 0);
	expect_no_more_than("other", 2);
	/* Those in use stay, as surplus. */
	assert_int_equal(resize_pool(4), 10);
	expect_pool(10, 0, 6);
	assert_int_equal(total(), 10);
	expect_filled(p, 10);
	/* They leave one by one. */
	assert_int_equal(truncate(fixture_path(&fixture, "file"), 7 * (off_t)PAGE_2M), 0);
	expect_pool(7, 0, 3);
	expect_filled(p, 7);
	munmap(p, 10 * PAGE_2M);
	assert_int_equal(unlink(fixture_path(&fixture, "file")), 0);
	expect_pool(4, 4, 0);
	expect_no_more_than("other", 4);
	/* Surplus pages are the first that a larger pool has. */
	p = map_file("file", 4);
	assert_int_equal(resize_pool(0), 4);
	expect_pool(4, 0, 4);
	assert_int_equal(resize_pool(6), 6);
	expect_pool(6, 2, 0);
	munmap(p, 4 * PAGE_2M);
	assert_int_equal(unlink(fixture_path(&fixture, "file")), 0);
	fixture_umount(&fixture);
}

/* What min_size promised was of the size that it was mounted with. */
static void test_min_size(void **state)
{
	fixture_mount(&fixture, "backing=thp,size=32M,min_size=8M");
	expect_pool(4, 4, 0);
	assert_int_equal(resize_pool(8), 8);
	expect_pool(8, 8, 0);
	assert_int_equal(resize_pool(1), 1);
	expect_pool(1, 1, 0);
	assert_int_equal(resize_pool(0), 0);
	fixture_umount(&fixture);
}

static void test_max_size(void **state)
{
	fixture_mount(&fixture, "backing=thp,size=16M,max_size=24M");
	assert_int_equal(resize_pool(100), 12);
	expect_pool(12, 12, 0);
	assert_int_equal(resize_pool(8), 8);
	assert_int_equal(resize_pool(13), 12);
	fixture_umount(&fixture);
}

static void restart(void)
{
	fixture_kill(&fixture);
	fixture_restart(&fixture, OPTIONS);
}

static void test_survives(void **state)
{
	char *p;

	fixture_mount(&fixture, OPTIONS);
	assert_int_equal(resize_pool(2 * SIZE), 2 * SIZE);
	p = map_file("file", SIZE + 3);
	fill(p, 0, SIZE + 3);
	restart();
	expect_pool(2 * SIZE, SIZE - 3, 0);
	expect_filled(p, SIZE + 3);
	expect_no_more_than("other", SIZE - 3);
	/* One that is smaller than what is in use. */
	assert_int_equal(resize_pool(2), SIZE + 3);
	restart();
	expect_pool(SIZE + 3, 0, SIZE + 1);
	expect_filled(p, SIZE + 3);
	munmap(p, (SIZE + 3) * PAGE_2M);
	assert_int_equal(unlink(fixture_path(&fixture, "file")), 0);
	expect_pool(2, 2, 0);
	fixture_umount(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_grows),    cmocka_unit_test(test_shrinks),
		cmocka_unit_test(test_min_size), cmocka_unit_test(test_max_size),
		cmocka_unit_test(test_survives),
	};

	require_root();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
