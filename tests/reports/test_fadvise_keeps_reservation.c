/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Advice is no access: posix_fadvise(2), madvise(2), readahead(2) and mincore(2) of a mapping
 * neither use a reservation nor lose one, nor instantiate a page.
 */
#include <errno.h>
#include <unistd.h>

#include "reports.h"

#define POOL 8

static void advise_file(int fd)
{
	static const int advice[] = {POSIX_FADV_NORMAL,   POSIX_FADV_SEQUENTIAL,
				     POSIX_FADV_RANDOM,   POSIX_FADV_NOREUSE,
				     POSIX_FADV_WILLNEED, POSIX_FADV_DONTNEED};

	for (size_t i = 0; i < sizeof(advice) / sizeof(advice[0]); i++) {
		posix_fadvise(fd, 0, 0, advice[i]);
		posix_fadvise(fd, PAGE_2M / 2, 3 * PAGE_2M, advice[i]);
	}
	if (readahead(fd, 0, 4 * PAGE_2M) < 0)
		assert_int_equal(errno, EINVAL); /* hugetlbfs has none */
}

static void advise_memory(char *p)
{
	static const int advice[] = {MADV_NORMAL,   MADV_SEQUENTIAL, MADV_RANDOM,
				     MADV_WILLNEED, MADV_DONTDUMP,   MADV_DODUMP};
	unsigned char residency[4 * PAGE_2M / 4096];

	for (size_t i = 0; i < sizeof(advice) / sizeof(advice[0]); i++) {
		assert_int_equal(madvise(p, 4 * PAGE_2M, advice[i]), 0);
		madvise(page(p, 1) + 4096, PAGE_2M, advice[i]);
	}
	assert_int_equal(mincore(p, 4 * PAGE_2M, residency), 0);
}

static void advice_is_free(struct side *side)
{
	int fd = side_file(side, "file", 4);
	char *p = side_map_pages(side, MAP_SHARED, fd, 0, 4);
	char *own = side_map_pages(side, MAP_PRIVATE, fd, 0, 4);

	for (int i = 0; i < 200; i++) {
		advise_file(fd);
		advise_memory(p);
		advise_memory(own);
		if (i == 0)
			side_expect(side, 0, 8);
	}
	side_expect(side, 0, 8);
	*page(p, 2) = 7;
	assert_int_equal(*page(own, 2), 7);
	*page(own, 2) = 8;
	side_expect(side, 2, 6);
	for (int i = 0; i < 200; i++) {
		advise_file(fd);
		advise_memory(p);
		advise_memory(own);
	}
	side_expect(side, 2, 6);
	assert_int_equal(*page(p, 2), 7);
	assert_int_equal(*page(own, 2), 8);
	for (int i = 0; i < 4; i++) {
		assert_false(raises_sigbus(page(p, i), true));
		assert_false(raises_sigbus(page(own, i), true));
	}
	for (int i = 0; i < 4; i++)
		*page(p, i) = *page(own, i) = (char)(i + 1);
	side_expect(side, 8, 0);
}

/* What was read ahead is not what is read later: the pages are changed through a mapping. */
static void nothing_stale(struct side *side)
{
	int fd = side_file(side, "file", 4);
	char *p = side_map_pages(side, MAP_SHARED, fd, 0, 4), byte;

	for (int i = 0; i < 20; i++) {
		advise_file(fd);
		*page(p, i % 4) = (char)(i + 1);
		assert_int_equal(pread(fd, &byte, 1, i % 4 * (off_t)PAGE_2M), 1);
		assert_int_equal(byte, i + 1);
	}
	side_expect(side, 4, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(advice_is_free, POOL),
		ON_BOTH(nothing_stale, POOL),
	};

	require_root();
	require_pages(PAGE_2M, POOL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
