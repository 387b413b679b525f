/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A private mapping is written, a hole is punched into its file there, and it is written again:
 * no reservation is counted twice, none is lost, and none goes below zero.
 *
 * Where hugetlbfs punches it takes the pages of private mappings, too, and tells nobody.
 */
#include <unistd.h>

#include "reports.h"

#define POOL      6
#define NR_ROUNDS 200

static void round_of(struct side *side, int fd, char *own, int round)
{
	for (int i = 0; i < 3; i++) {
		assert_false(raises_sigbus(page(own, i), true));
		*page(own, i) = (char)(round + 1);
	}
	punch(fd, round % 3, 1 + round % 2);
	for (int i = 0; i < 3; i++) {
		assert_false(raises_sigbus(page(own, i), true));
		*page(own, i) = (char)(round + 2);
	}
	for (int i = 0; i < 3; i++)
		assert_int_equal(*page(own, i), (char)(round + 2));
}

/* The file has no pages of its own. */
static void punch_nothing(struct side *side)
{
	int fd = side_file(side, "file", 3);
	char *own = side_map_pages(side, MAP_PRIVATE, fd, 0, 3);

	for (int round = 0; round < NR_ROUNDS; round++) {
		round_of(side, fd, own, round);
		if (round % 20 == 0)
			side_expect(side, 3, 0);
	}
	side_expect(side, 3, 0);
	assert_int_equal(side_unmap(side, own, 3 * PAGE_2M), 0);
	side_expect(side, 0, 0);
}

/* The file has pages, which the private ones are copies of. */
static void punch_pages(struct side *side)
{
	int fd = side_file(side, "file", 3);
	char *shared = side_map_pages(side, MAP_SHARED, fd, 0, 3), *own;

	own = side_map_pages(side, MAP_PRIVATE, fd, 0, 3);
	for (int round = 0; round < NR_ROUNDS; round++) {
		for (int i = 0; i < 3; i++)
			*page(shared, i) = 99;
		if (round % 20 == 0)
			side_expect(side, round ? 6 : 3, round ? 0 : 3);
		round_of(side, fd, own, round);
		if (round % 20 == 0) {
			int holes = round % 2 && round % 3 < 2 ? 2 : 1;

			side_expect(side, 6 - holes, 0);
		}
	}
	assert_int_equal(side_unmap(side, shared, 3 * PAGE_2M), 0);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(side_unmap(side, own, 3 * PAGE_2M), 0);
	side_expect(side, 0, 0);
}

/* What is seen right after the hole was punched, without writing again. */
static void counted_after_the_punch(struct side *side)
{
	int fd = side_file(side, "file", 3);
	char *own = side_map_pages(side, MAP_PRIVATE, fd, 0, 3);

	*own = *page(own, 1) = 1;
	side_expect(side, 2, 1);
	punch(fd, 1, 1);
	assert_int_equal(*own, 1);
	/* hugetlbfs drops it; it is not the file's, and where that has no page, we do not. */
	assert_int_equal(*page(own, 1), side->kernel ? 0 : 1);
	*page(own, 2) = 2;
	side_expect(side, 3, 0);
	assert_int_equal(side_unmap(side, own, 3 * PAGE_2M), 0);
	side_expect(side, 0, 0);
	/* All of the pool is to be had again. */
	side_map_pages(side, MAP_PRIVATE | MAP_POPULATE, fd, 0, POOL);
	side_expect(side, POOL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(counted_after_the_punch, POOL),
		ON_BOTH(punch_nothing, POOL),
		ON_BOTH(punch_pages, POOL),
	};

	require_root();
	require_pages(PAGE_2M, POOL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
