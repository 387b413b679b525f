/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The page transaction where something fails: the backing at every point of a sequence, every
 * allocation of every operation. What fails leaves every counter as it was, and can be tried
 * again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "page_util.h"

static const struct page_config plain = {.nr_pages = {10}, .max = 10};

/* How many allocations of region map nodes succeed from now on; < 0: all. */
static int nr_allocs_left = -1;

bool region_map_fail_alloc(void)
{
	if (nr_allocs_left < 0)
		return false;
	if (nr_allocs_left == 0)
		return true;
	nr_allocs_left--;
	return false;
}

/* One page of each kind, in the order in which they can be had. */
static const struct page_config mixed = {.nr_pages = {3, 3}, .nr_nodes = 2, .max = 7, .min = 3};
static const struct {
	int space;
	int64_t idx;
	enum page_outcome outcome;
} mixed_pages[] = {
	{0, 0, PAGE_FROM_RESERVATION}, /* the file's */
	{1, 0, PAGE_FROM_RESERVATION}, /* the file's */
	{0, 9, PAGE_FROM_RESERVATION}, /* min_size */
	{1, 9, PAGE_FROM_FREE},        {0, 8, PAGE_FROM_FREE},
	{1, 8, PAGE_FROM_FREE},        {0, 7, PAGE_FROM_SURPLUS},
};

static void mixed_init(struct page_test *test)
{
	page_test_init(test, &mixed);
	/* Two of min_size, whose third is for the first that has no reservation. */
	assert_int_equal(page_reserve(&test->space[0], 0, 1, NULL), 1);
	assert_int_equal(page_instantiate(&test->space[1], 5, 0), PAGE_FROM_RESERVATION);
	assert_int_equal(page_punch(&test->space[1], 5, 6), 1);
	assert_int_equal(page_reserve(&test->space[1], 0, 1, NULL), 1);
	check(test);
}

static int mixed_instantiate(struct page_test *test, size_t i)
{
	return page_instantiate(&test->space[mixed_pages[i].space], mixed_pages[i].idx,
				(int)(i % 2));
}

/* populate number @k fails; all others succeed, and so does it when it is tried again. */
static void test_populate_fails_at_every_point(void **state)
{
	for (size_t k = 0; k < ARRAY_SIZE(mixed_pages); k++) {
		struct page_counters before;
		struct page_test test;

		mixed_init(&test);
		for (size_t i = 0; i < ARRAY_SIZE(mixed_pages); i++) {
			before = counters(&test);
			if (i == k) {
				test.populate_error = -ENOSPC;
				assert_int_equal(mixed_instantiate(&test, i), -ENOSPC);
				test.populate_error = 0;
				assert_unchanged(&test, &before);
			}
			assert_int_equal(mixed_instantiate(&test, i), mixed_pages[i].outcome);
			check(&test);
		}
		page_test_deinit(&test, &mixed);
	}
}

/* The backing has fewer pages than the pool counts. */
static void test_backing_has_fewer_pages(void **state)
{
	struct page_counters before;
	struct page_test test;

	mixed_init(&test);
	for (size_t i = 0; i < ARRAY_SIZE(mixed_pages); i++) {
		test.mem.max_pages = (int64_t)i;
		before = counters(&test);
		for (int again = 0; again < 100; again++)
			assert_int_equal(mixed_instantiate(&test, i), -ENOSPC);
		assert_unchanged(&test, &before);
		test.mem.max_pages = (int64_t)i + 1;
		assert_int_equal(mixed_instantiate(&test, i), mixed_pages[i].outcome);
	}
	/* A page that is there needs none. */
	test.mem.max_pages = 0;
	assert_int_equal(mixed_instantiate(&test, 0), PAGE_PRESENT);
	page_test_deinit(&test, &mixed);
}

static void test_populate_errors_are_passed_on(void **state)
{
	static const int errors[] = {-ENOSPC, -ENOMEM, -ERANGE, -EIO, -EAGAIN};
	struct page_counters before;
	struct page_test test;

	mixed_init(&test);
	for (size_t i = 0; i < ARRAY_SIZE(mixed_pages); i++) {
		before = counters(&test);
		for (size_t j = 0; j < ARRAY_SIZE(errors); j++) {
			test.populate_error = errors[j];
			assert_int_equal(mixed_instantiate(&test, i), errors[j]);
			assert_unchanged(&test, &before);
		}
		test.populate_error = 0;
		assert_int_equal(mixed_instantiate(&test, i), mixed_pages[i].outcome);
	}
	page_test_deinit(&test, &mixed);
}

/* Somebody cut the backing file, and the page's end is not yet told. */
static void test_backing_file_is_shorter(void **state)
{
	struct page_counters before;
	struct page_test test;

	page_test_init(&test, &plain);
	assert_int_equal(page_reserve(&test.space[0], 5, 6, NULL), 1);
	assert_int_equal(test.ops.resize(test.file[0], 3), 0);
	before = counters(&test);
	assert_int_equal(page_instantiate(&test.space[0], 5, 0), -ERANGE);
	assert_int_equal(page_instantiate(&test.space[0], 6, 0), -ERANGE);
	assert_unchanged(&test, &before);
	assert_int_equal(page_instantiate(&test.space[0], 2, 0), PAGE_FROM_FREE);
	page_test_deinit(&test, &plain);
}

static void test_punch_fails(void **state)
{
	struct page_counters before;
	struct page_test test;

	page_test_init(&test, &plain);
	for (int64_t idx = 0; idx < 4; idx++)
		assert_int_equal(page_instantiate(&test.space[0], idx, 0), PAGE_FROM_FREE);
	before = counters(&test);
	test.punch_error = -EIO;
	assert_int_equal(page_punch(&test.space[0], 1, 64), -EIO);
	assert_int_equal(page_punch(&test.space[0], 4, 64), 0);
	assert_unchanged(&test, &before);
	test.punch_error = 0;
	assert_int_equal(page_punch(&test.space[0], 1, 64), 3);
	assert_space(&test, 0, 0, 1);
	page_test_deinit(&test, &plain);
}

static void test_resize_fails(void **state)
{
	struct page_counters before;
	struct page_test test;

	page_test_init(&test, &plain);
	assert_int_equal(page_reserve(&test.space[0], 0, 8, NULL), 8);
	assert_int_equal(page_instantiate(&test.space[0], 6, 0), PAGE_FROM_RESERVATION);
	before = counters(&test);
	test.resize_error = -EIO;
	assert_int_equal(page_truncate(&test.space[0], 2), -EIO);
	assert_int_equal(page_truncate(&test.space[0], SPACE_PAGES + 1), -EIO);
	assert_unchanged(&test, &before);
	/* The end is where it was: here there is a page, and there none can be. */
	test.resize_error = 0;
	assert_int_equal(page_instantiate(&test.space[0], 7, 0), PAGE_FROM_RESERVATION);
	assert_int_equal(page_instantiate(&test.space[0], SPACE_PAGES, 0), -ERANGE);
	assert_int_equal(page_truncate(&test.space[0], 7), 0);
	assert_space(&test, 0, 6, 1);
	page_test_deinit(&test, &plain);
}

static void test_reconcile_fails(void **state)
{
	static const struct page_config config = {.nr_pages = {1}, .max = 1};
	struct page_counters before, now;
	struct page_test test;

	page_test_init(&test, &config);
	assert_int_equal(page_instantiate(&test.space[0], 0, 0), PAGE_FROM_FREE);
	before = counters(&test);
	test.present_error = -EIO;
	assert_int_equal(page_reconcile(&test.space[0], 0, true), -EIO);
	assert_int_equal(page_reconcile(&test.space[1], 0, true), -EIO);
	assert_unchanged(&test, &before);
	test.present_error = 0;
	/* A page that nothing is left to count with: the next time, perhaps. */
	assert_int_equal(test.mem_ops->populate(test.file[1], 0, 0), 0);
	assert_int_equal(page_reconcile(&test.space[1], 0, true), -ENOSPC);
	now = counters(&test);
	assert_memory_equal(&now, &before, sizeof(now));
	assert_int_equal(page_punch(&test.space[0], 0, 1), 1);
	assert_int_equal(page_reconcile(&test.space[1], 0, true), 1);
	assert_space(&test, 1, 0, 1);
	page_test_deinit(&test, &config);
}

/* The operations whose allocations fail. Each may run again and again while it fails. */
static int64_t op_reserve(struct page_test *test)
{
	return page_reserve(&test->space[0], 0, 20, NULL);
}

/* Into a map that is empty again if that fails. */
static int64_t op_reserve_added(struct page_test *test)
{
	struct region_map added;
	int64_t r;

	region_map_init(&added, test->space[0].lock);
	r = page_reserve(&test->space[0], 0, 20, &added);
	assert_int_equal(region_map_count(&added, 0, REGION_END), r > 0 ? r : 0);
	region_map_deinit(&added);
	return r;
}

static int64_t op_instantiate(struct page_test *test)
{
	return page_instantiate(&test->space[0], 5, 0);
}

static int64_t op_punch(struct page_test *test)
{
	return page_punch(&test->space[0], 9, 11);
}

static int64_t op_truncate(struct page_test *test)
{
	return page_truncate(&test->space[0], 9);
}

static int64_t op_reconcile(struct page_test *test)
{
	return page_reconcile(&test->space[0], 10, true);
}

static int64_t op_reconcile_gone(struct page_test *test)
{
	int64_t r;

	assert_int_equal(test->mem_ops->punch(test->file[0], 10, 11), 0);
	r = page_reconcile(&test->space[0], 10, true);
	if (r < 0)
		assert_int_equal(test->mem_ops->populate(test->file[0], 10, 0), 0);
	return r;
}

static int64_t op_forget(struct page_test *test)
{
	int r;

	assert_int_equal(test->mem_ops->punch(test->file[0], 10, 11), 0);
	r = page_forget(&test->space[0], 10, 11);
	if (r < 0)
		assert_int_equal(test->mem_ops->populate(test->file[0], 10, 0), 0);
	return r;
}

/* It has no result: what it could not do page_reconcile() does. */
static int64_t op_discard(struct page_test *test)
{
	assert_int_equal(test->mem_ops->punch(test->file[0], 10, 11), 0);
	page_discard(&test->space[0], 10, true);
	if (!page_is_instantiated(&test->space[0], 10))
		return 0;
	assert_int_equal(test->mem_ops->populate(test->file[0], 10, 0), 0);
	return -ENOMEM;
}

static const struct {
	const char *name;
	int64_t (*run)(struct page_test *test);
	int64_t expected;
	int64_t resv, instantiated; /* after */
} operations[] = {
	{"reserve", op_reserve, 9, 10, 10},
	{"reserve_added", op_reserve_added, 9, 10, 10},
	{"instantiate", op_instantiate, PAGE_FROM_FREE, 1, 11},
	{"punch", op_punch, 1, 1, 9},
	{"truncate", op_truncate, 0, 1, 5},
	{"reconcile", op_reconcile, 0, 1, 10},
	{"reconcile_gone", op_reconcile_gone, 1, 2, 9},
	{"forget", op_forget, 0, 1, 9},
	{"discard", op_discard, 0, 2, 9},
};

/* Every other page of 20, so that changes cut and merge regions; 3 is reserved. */
static void fragmented_init(struct page_test *test, const struct page_config *config)
{
	page_test_init(test, config);
	for (int64_t idx = 0; idx < 20; idx += 2)
		assert_int_equal(page_instantiate(&test->space[0], idx, 0), PAGE_FROM_FREE);
	assert_int_equal(page_reserve(&test->space[0], 3, 4, NULL), 1);
	check(test);
}

static void test_every_allocation_fails(void **state)
{
	static const struct page_config config = {.nr_pages = {30}, .max = 30};
	struct page_counters before;
	struct page_test test;
	int64_t r;

	for (size_t i = 0; i < ARRAY_SIZE(operations); i++) {
		int nr_allocs = 0;

		fragmented_init(&test, &config);
		before = counters(&test);
		for (;; nr_allocs++) {
			nr_allocs_left = nr_allocs;
			r = operations[i].run(&test);
			nr_allocs_left = -1;
			if (r >= 0)
				break;
			assert_int_equal(r, -ENOMEM);
			assert_unchanged(&test, &before);
		}
		print_message("%s: %d allocations\n", operations[i].name, nr_allocs);
		assert_true(nr_allocs > 0); /* else the hook did nothing */
		assert_int_equal(r, operations[i].expected);
		assert_space(&test, 0, operations[i].resv, operations[i].instantiated);
		page_test_deinit(&test, &config);
	}
}

/* Without memory what is in the map stays reserved, and nothing else happens. */
static void test_unreserve_without_memory(void **state)
{
	struct region_map added;
	struct page_test test;

	page_test_init(&test, &plain);
	region_map_init(&added, test.space[0].lock);
	assert_int_equal(page_reserve(&test.space[0], 2, 4, NULL), 2);
	assert_int_equal(page_reserve(&test.space[0], 0, 6, &added), 4);
	nr_allocs_left = 1;
	page_unreserve_map(&test.space[0], &added);
	nr_allocs_left = -1;
	assert_space(&test, 0, 4, 0);
	assert_int_equal(region_map_count(&added, 0, REGION_END), 0);
	page_test_deinit(&test, &plain);
}

static void test_the_end_needs_no_memory(void **state)
{
	static const struct page_config config = {.nr_pages = {30}, .max = 30};
	struct page_test test;

	fragmented_init(&test, &config);
	nr_allocs_left = 0;
	page_test_deinit(&test, &config);
	nr_allocs_left = -1;
}

static void test_space_init_without_memory(void **state)
{
	struct page_space space = {0};
	struct page_test test;

	page_test_init(&test, &plain);
	for (int i = 0; i < 2; i++) {
		nr_allocs_left = i;
		assert_int_equal(page_space_init(&space, &test.core, test.file[0], 7, 0, 1),
				 -ENOMEM);
		nr_allocs_left = -1;
		page_space_deinit(&space);
	}
	page_test_deinit(&test, &plain);
}

static void reserve_all(struct page_test *test, int64_t idx)
{
	test->before_populate = NULL;
	assert_true(page_reserve(&test->space[0], 0, 8, NULL) >= 0);
	assert_int_equal(page_reserve(&test->space[0], 0, 8, NULL), 0);
}

/*
 *	A				B
 *	enters page 3, which
 *	nobody has reserved
 *					reserves 0-8: 3 is there
 *	populate fails, takes
 *	page 3 out again
 *					touches page 3, for which it has a reservation
 *
 * B was told that its mapping cannot fail. Likewise where A has got a page from surplus, or
 * where B asked for page 3 alone.
 */
static void check_reserve_beside_failure(const struct page_config *config, int64_t nr_free)
{
	struct page_test test;

	page_test_init(&test, config);
	for (int64_t idx = 20; idx < 20 + 10 - nr_free; idx++)
		assert_true(page_instantiate(&test.space[1], idx, 0) > 0);
	test.before_populate = reserve_all;
	test.populate_error = -EIO;
	assert_int_equal(page_instantiate(&test.space[0], 3, 0), -EIO);
	test.populate_error = 0;
	assert_space(&test, 0, 8, 0);
	/* Once it has been told, page 3 is as any other reserved one. */
	test.populate_error = -EIO;
	assert_int_equal(page_instantiate(&test.space[0], 3, 0), -EIO);
	test.populate_error = 0;
	assert_space(&test, 0, 8, 0);
	for (int64_t idx = 0; idx < 8; idx++)
		assert_int_equal(page_instantiate(&test.space[0], idx, 0),
				 PAGE_FROM_RESERVATION);
	assert_space(&test, 0, 0, 8);
	page_test_deinit(&test, config);
}

static void test_reserve_beside_failure(void **state)
{
	static const struct page_config with_min = {.nr_pages = {10}, .max = 10, .min = 3};
	static const struct page_config surplus = {.nr_pages = {10}, .max = 18};

	check_reserve_beside_failure(&plain, 10);
	check_reserve_beside_failure(&plain, 8);
	check_reserve_beside_failure(&with_min, 10);
	check_reserve_beside_failure(&surplus, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_populate_fails_at_every_point),
		cmocka_unit_test(test_backing_has_fewer_pages),
		cmocka_unit_test(test_populate_errors_are_passed_on),
		cmocka_unit_test(test_backing_file_is_shorter),
		cmocka_unit_test(test_punch_fails),
		cmocka_unit_test(test_resize_fails),
		cmocka_unit_test(test_reconcile_fails),
		cmocka_unit_test(test_every_allocation_fails),
		cmocka_unit_test(test_unreserve_without_memory),
		cmocka_unit_test(test_the_end_needs_no_memory),
		cmocka_unit_test(test_space_init_without_memory),
		cmocka_unit_test(test_reserve_beside_failure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
