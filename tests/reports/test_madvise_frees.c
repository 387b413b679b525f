/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What frees pages of a shared mapping and what does not: holes that are less than a page, and
 * MADV_DONTNEED, MADV_FREE and MADV_REMOVE. docs/reservations.md has it as a table.
 *
 * Whole pages of private mappings are in tests/mount/test_address.c.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "reports.h"

#define POOL 8

/* A hole within pages: zeroes, and no page less. */
static void punch_less_than_a_page(struct side *side)
{
	int fd = side_file(side, "file", 4);
	char *p = side_map_pages(side, MAP_SHARED, fd, 0, 4);
	const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;

	memset(p, 7, 3 * PAGE_2M);
	side_expect(side, 3, 1);
	assert_int_equal(fallocate(fd, mode, 4096, 8192), 0);
	side_expect(side, 3, 1);
	assert_true(p[4095] == 7 && p[4096] == 0 && p[12287] == 0 && p[12288] == 7);
	/* from the middle of page 0 to the middle of page 1 */
	assert_int_equal(fallocate(fd, mode, PAGE_2M / 2, PAGE_2M), 0);
	side_expect(side, 3, 1);
	assert_true(p[PAGE_2M / 2 - 1] == 7 && p[PAGE_2M / 2] == 0);
	assert_true(p[3 * PAGE_2M / 2 - 1] == 0 && p[3 * PAGE_2M / 2] == 7);
	/* with a whole page in it, which goes */
	assert_int_equal(fallocate(fd, mode, PAGE_2M - 1, 2 * PAGE_2M + 2), 0);
	side_expect(side, 1, 1);
	assert_true(p[PAGE_2M - 1] == 0);
	/* where there is no page none is made */
	assert_int_equal(fallocate(fd, mode, 3 * PAGE_2M + 1, 100), 0);
	side_expect(side, 1, 1);
	/* one byte, and the last one of the file */
	p[PAGE_2M - 2] = p[PAGE_2M - 3] = 5;
	assert_int_equal(fallocate(fd, mode, PAGE_2M - 2, 1), 0);
	assert_true(p[PAGE_2M - 2] == 0 && p[PAGE_2M - 3] == 5);
	side_expect(side, 1, 1);
}

/* MADV_DONTNEED of a shared mapping frees nothing, and nothing is lost. */
static void dontneed(struct side *side)
{
	int fd = side_file(side, "file", 4);
	char *p = side_map_pages(side, MAP_SHARED, fd, 0, 4);

	*p = *page(p, 1) = 1;
	for (int i = 0; i < 50; i++) {
		assert_int_equal(madvise(p, 4 * PAGE_2M, MADV_DONTNEED), 0);
		assert_int_equal(*p, 1);
		assert_int_equal(*page(p, 1), 1);
	}
	side_expect(side, 2, 2);
	/* A length that is no multiple of the page is rounded down, an address is refused. */
	assert_int_equal(madvise(p + 4096, PAGE_2M, MADV_DONTNEED), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(madvise(p, 4096, MADV_DONTNEED), 0);
	assert_int_equal(*p, 1);
	side_expect(side, 2, 2);
}

/* MADV_FREE is for memory of no file. */
static void free_is_refused(struct side *side)
{
	int fd = side_file(side, "file", 4);
	char *p = side_map_pages(side, MAP_SHARED, fd, 0, 2);
	char *own = side_map_pages(side, MAP_PRIVATE, fd, 0, 2);

	*p = *own = 1;
	side_expect(side, 2, 2);
	assert_int_equal(madvise(p, PAGE_2M, MADV_FREE), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(madvise(own, PAGE_2M, MADV_FREE), -1);
	assert_int_equal(errno, EINVAL);
	side_expect(side, 2, 2);
	assert_true(*p == 1 && *own == 1);
}

/* MADV_REMOVE punches: whole pages go, for all who have them mapped. */
static void remove_is_a_hole(struct side *side)
{
	int fd = side_file(side, "file", 4);
	char *p = side_map_pages(side, MAP_SHARED, fd, 0, 4);
	char *other = side_map_pages(side, MAP_SHARED, fd, 0, 4);

	memset(p, 3, 3 * PAGE_2M);
	side_expect(side, 3, 1);
	assert_int_equal(madvise(page(other, 1), PAGE_2M, MADV_REMOVE), 0);
	side_expect(side, 2, 1);
	assert_int_equal(*page(p, 1), 0);
	side_expect(side, 3, 1);
	/* less than a page is zeroed */
	assert_int_equal(madvise(p + 4096, 4096, MADV_REMOVE), 0);
	assert_true(p[4095] == 3 && p[4096] == 0 && p[8191] == 0 && p[8192] == 3);
	side_expect(side, 3, 1);
	assert_int_equal(pages_of(fd), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(punch_less_than_a_page, POOL),
		ON_BOTH(dontneed, POOL),
		ON_BOTH(free_is_refused, POOL),
		ON_BOTH(remove_is_a_hole, POOL),
	};

	require_root();
	require_pages(PAGE_2M, POOL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
