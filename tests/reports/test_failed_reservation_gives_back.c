/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A reservation that fails gives back exactly what it took from min_size=: no counter drifts,
 * be it by one page in a thousand failures, none goes below zero, and the mount can still map
 * its whole size.
 *
 * Between min_size= and size= the pages are surplus ones. Somebody else takes the right to make
 * them away: then a mapping of more than min_size= is charged, and fails after that.
 */
#include <errno.h>
#include <unistd.h>

#include "ballast.h"
#include "hugefuse.h"
#include "reports.h"

#define POOL      8
#define MIN_PAGES 3
#define NR_ROUNDS 1000

struct picture {
	struct kernel_counts kernel;
	long used, resv, counted_resv;
};

static struct picture picture_take(const struct side *side)
{
	return (struct picture){
		.kernel = kernel_counts_read(PAGE_2M),
		.used = side_used(side),
		.resv = side_resv(side),
		.counted_resv = fixture_counter(&side->fixture, "resv_hugepages"),
	};
}

static void assert_same(const struct picture *before, const struct side *side)
{
	struct picture now = picture_take(side);

	assert_memory_equal(&now, before, sizeof(now));
}

static void fail_to_map(const struct side *side, int fd, int flags, long pages)
{
	errno = 0;
	assert_ptr_equal(side_map(side, NULL, (size_t)pages * PAGE_2M, RW, flags, fd, 0),
			 MAP_FAILED);
	assert_int_equal(errno, ENOMEM);
}

static void fail_often(struct side *side, int fd)
{
	struct picture before = picture_take(side);

	for (int i = 0; i < NR_ROUNDS * test_scale(); i++) {
		long pages = MIN_PAGES + 1 + i % (POOL - MIN_PAGES + 2);

		fail_to_map(side, fd, i % 2 ? MAP_PRIVATE : MAP_SHARED, pages);
		if (i % 50 == 0)
			assert_same(&before, side);
	}
	assert_same(&before, side);
}

static void reserve_often(struct side *side, int fd)
{
	struct picture before = picture_take(side);

	for (int i = 0; i < NR_ROUNDS * test_scale(); i++) {
		errno = 0;
		assert_int_equal(hugefuse_reserve(fd, 0, (MIN_PAGES + 1 + i % 5) * PAGE_2M),
				 -1);
		assert_int_equal(errno, ENOMEM);
		if (i % 50 == 0)
			assert_same(&before, side);
	}
	assert_same(&before, side);
}

static void map_all(struct side *side, int fd, int flags)
{
	char *p = side_map_pages(side, flags, fd, 0, POOL);

	assert_int_equal(side_used(side) + side_resv(side), POOL);
	for (int i = 0; i < POOL; i++) {
		assert_false(raises_sigbus(page(p, i), true));
		*page(p, i) = (char)i;
	}
	assert_int_equal(side_used(side), POOL);
	assert_int_equal(side_unmap(side, p, POOL * PAGE_2M), 0);
}

static void fails_a_thousand_times(struct side *side)
{
	long overcommit = kernel_counts_read(PAGE_2M).overcommit;
	int fd = side_file(side, "file", POOL), other = side_file(side, "other", POOL);
	struct ballast ballast;
	char *held;

	ballast_take(&ballast, PAGE_2M);
	kernel_overcommit_set(PAGE_2M, 0);
	fail_often(side, fd);
	reserve_often(side, fd);
	/* With a part of min_size= in use the rest of it is what is taken first. */
	held = side_map_pages(side, MAP_SHARED, other, 0, MIN_PAGES - 1);
	*held = 1;
	fail_often(side, fd);
	assert_int_equal(*held, 1);
	assert_int_equal(side_unmap(side, held, (MIN_PAGES - 1) * PAGE_2M), 0);
	assert_int_equal(ftruncate(other, 0), 0);
	kernel_overcommit_set(PAGE_2M, overcommit);
	for (int i = 0; i < 3; i++) {
		map_all(side, fd, i % 2 ? MAP_PRIVATE : MAP_SHARED);
		assert_int_equal(ftruncate(fd, 0) | ftruncate(fd, POOL * PAGE_2M), 0);
		assert_int_equal(side_used(side), 0);
		assert_int_equal(side_resv(side), 0);
	}
	ballast_drop(&ballast);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* Not on the kernel's own: up to 6.18 it fails this, and each time for good. */
		ON_HUGEFUSE(fails_a_thousand_times, "min_size=6M", POOL),
	};

	require_root();
	require_pages(PAGE_2M, POOL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
