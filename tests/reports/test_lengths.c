/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Lengths and numbers: more than 4 GB wherever 32 bits would do until then; ULONG_MAX written
 * to nr_hugepages while another resizes; pages of 1 GB beside those of 2 MB.
 *
 * 2 MB + 1 byte mapped and unmapped is unaligned_lengths() in tests/mount/test_mapping.c, files
 * as long as they can be are in tests/mount/test_hostile_files.c.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hugefuse.h"
#include "reports.h"

#define GB    (1024 * MB)
#define PAGES 2056 /* 4 GB and 16 MB */
#define LAST  (PAGES - 1)

/* A column of the file's line in .hugefuse/files. */
static long file_column(const struct side *side, int column)
{
	char *text = fixture_text(&side->fixture, "files"), *line = strstr(text, "\n") + 1;
	long value = 0;

	for (char *word = strsep(&line, " "); column-- >= 0; word = strsep(&line, " "))
		value = atol(word);
	free(text);
	return value;
}

/* Reserved and mapped as a whole; touched where a number of 31 or 32 bits would wrap. */
static void more_than_4_gb(struct side *side)
{
	static const long touched[] = {0, 1023, 1024, 2047, 2048, LAST};
	int fd = side_file(side, "file", PAGES);
	char *p = side_map_pages(side, MAP_SHARED, fd, 0, PAGES), byte;

	side_expect(side, 0, PAGES);
	for (int i = 0; i < 6; i++)
		*page(p, touched[i]) = (char)(i + 1);
	side_expect(side, 6, PAGES - 6);
	assert_int_equal(lseek(fd, 0, SEEK_END), PAGES * PAGE_2M);
	assert_int_equal(pages_of(fd), 6);
	for (int i = 0; i < 6; i++) {
		assert_int_equal(pread(fd, &byte, 1, touched[i] * (off_t)PAGE_2M), 1);
		assert_int_equal(byte, i + 1);
	}
	if (!side->kernel) {
		assert_int_equal(file_column(side, 1), PAGES * PAGE_2M);
		assert_int_equal(file_column(side, 2), (PAGES - 6) * PAGE_2M >> 10);
		assert_int_equal(file_column(side, 3), 6 * PAGE_2M >> 10);
	}
	punch(fd, 1, 2047);
	side_expect(side, 3, PAGES - 6);
	assert_int_equal(*page(p, 2048), 5);
	assert_int_equal(*page(p, LAST), 6);
	assert_int_equal(ftruncate(fd, 4 * GB), 0);
	side_expect(side, 1, PAGES - 6 - 5 - 1);
	assert_int_equal(*p, 1);
	assert_true(raises_sigbus(page(p, 2048), false));
	assert_int_equal(side_unmap(side, p, PAGES * PAGE_2M), 0);
	assert_int_equal(ftruncate(fd, 0), 0);
	side_expect(side, 0, 0);
}

/* The same without a reservation and privately, from an offset behind 4 GB. */
static void behind_4_gb(struct side *side)
{
	int fd = side_file(side, "file", 4 * PAGES);
	char *p = side_map_pages(side, MAP_SHARED | MAP_NORESERVE, fd, 2 * PAGES, 2 * PAGES);
	char *own = side_map_pages(side, MAP_PRIVATE, fd, 3 * PAGES, 3), byte = 0;

	side_expect(side, 0, 3);
	*page(p, 2 * PAGES - 1) = 7;
	*page(p, PAGES) = 8;
	assert_int_equal(*own, 8);
	*own = 9;
	*page(own, 1) = 10;
	side_expect(side, 4, 1);
	assert_int_equal(*page(p, PAGES), 8);
	assert_int_equal(pread(fd, &byte, 1, (4 * PAGES - 1) * (off_t)PAGE_2M), 1);
	assert_int_equal(byte, 7);
	assert_int_equal(fallocate(fd, 0, 5 * GB, PAGE_2M), 0);
	side_expect(side, 5, 1);
	assert_int_equal(side_unmap(side, own, 3 * PAGE_2M), 0);
	side_expect(side, 3, 0);
	if (!side->kernel) {
		assert_int_equal(hugefuse_reserve(fd, 6 * GB, 2 * PAGE_2M), 2);
		assert_int_equal(pwrite(fd, "x", 1, 7 * GB + 1), 1);
		side_expect(side, 4, 2);
	}
}

static int write_number(const struct fixture *fixture, const char *name, const char *number)
{
	int fd = open(fixture_path(fixture, name), O_WRONLY | O_CLOEXEC);
	int error = 0;

	assert_true(fd >= 0);
	if (write(fd, number, strlen(number)) < 0)
		error = errno;
	close(fd);
	return error;
}

#define NR_OF_SYSCTL ".hugefuse/kernel/nr_hugepages"
#define NR_OF_SYSFS  ".hugefuse/kernel/hugepages-2048kB/nr_hugepages"

static struct fixture fixture;
static atomic_bool stop;

static void *resize(void *data)
{
	char number[8];

	for (unsigned int i = 0; !stop; i++) {
		snprintf(number, sizeof(number), "%u", 2 + i % 7);
		assert_int_equal(write_number(&fixture, NR_OF_SYSFS, number), 0);
	}
	return NULL;
}

/* As many as there may be; the kernel, too, takes it for that. */
static void test_ulong_max(void **state)
{
	pthread_t resizer;

	fixture_mount(&fixture, "size=16M,max_size=32M");
	assert_int_equal(write_number(&fixture, NR_OF_SYSCTL, "18446744073709551615"), 0);
	assert_int_equal(fixture_counter(&fixture, "nr_hugepages"), 16);
	assert_int_equal(write_number(&fixture, NR_OF_SYSCTL, "18446744073709551616"), ERANGE);
	assert_int_equal(write_number(&fixture, NR_OF_SYSCTL, "-1"), EINVAL);
	assert_int_equal(pthread_create(&resizer, NULL, resize, NULL), 0);
	for (int i = 0; i < 200; i++)
		assert_int_equal(write_number(&fixture, NR_OF_SYSFS, "18446744073709551615\n"),
				 0);
	stop = true;
	pthread_join(resizer, NULL);
	assert_int_equal(write_number(&fixture, NR_OF_SYSFS, "9223372036854775808"), 0);
	assert_int_equal(fixture_counter(&fixture, "nr_hugepages"), 16);
	assert_int_equal(fixture_counter(&fixture, "free_hugepages"), 16);
	assert_int_equal(write_number(&fixture, NR_OF_SYSCTL, "8"), 0);
	assert_int_equal(fixture_counter(&fixture, "nr_hugepages"), 8);
	fixture_umount(&fixture);
}

/* Each mount counts its own size of pages, and neither is taken for the other. */
static void test_both_page_sizes(void **state)
{
	struct fixture small = {0}, large = {0};
	char *p, *q;
	int fd;

	if (!pages_are_to_be_had(GB, 1))
		skip();
	fixture_mount(&small, "size=16M");
	fixture_mount(&large, "pagesize=1G,size=1G");
	fd = fixture_file(&large, "file", O_RDWR | O_CREAT, GB);
	p = hugefuse_mmap(NULL, 1, RW, MAP_SHARED, fd, 0); /* rounded up to a page */
	assert_ptr_not_equal(p, MAP_FAILED);
	p[GB - 1] = 1;
	assert_int_equal(fixture_counter(&large, "free_hugepages"), 0);
	assert_int_equal(fixture_counter(&small, "free_hugepages"), 8);
	close(fd);
	fd = fixture_file(&small, "file", O_RDWR | O_CREAT, PAGE_2M);
	q = hugefuse_mmap(NULL, 1, RW, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(q, MAP_FAILED);
	q[PAGE_2M - 1] = 2;
	assert_int_equal(fixture_counter(&small, "free_hugepages"), 7);
	assert_int_equal(fixture_counter(&large, "nr_hugepages"), 1);
	assert_int_equal(p[GB - 1], 1);
	assert_int_equal(hugefuse_munmap(q, 1), 0);
	assert_int_equal(hugefuse_munmap(p, 1), 0);
	assert_false(is_mapped(p + GB - 1) || is_mapped(q + PAGE_2M - 1));
	close(fd);
	fixture_umount(&large);
	fixture_umount(&small);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(more_than_4_gb, PAGES),
		ON_BOTH(behind_4_gb, 16),
		cmocka_unit_test(test_ulong_max),
		cmocka_unit_test(test_both_page_sizes),
	};

	require_root();
	require_pages(PAGE_2M, PAGES);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
