/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Populating ahead: which pages it wants for which faults, and that it gives each of them to
 * one thread.
 */
#include "fs/ahead.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "page_util.h"

#include "lock_threads.h"

enum {
	END = 100000, /* of the mapping, far away */
	MAX = 64,     /* pages ahead */
};

static const struct page_config config = {.nr_pages = {END}, .max = END};

static void init(struct page_test *test, struct ahead *ahead)
{
	page_test_init(test, &config);
	ahead_init(ahead);
}

static void deinit(struct page_test *test, struct ahead *ahead)
{
	ahead_deinit(ahead);
	page_test_deinit(test, &config);
}

/* The pages that ahead_claim() gives are just [from, to), in order. */
static void assert_claims(struct page_test *test, struct ahead *ahead, int64_t from, int64_t to)
{
	for (int64_t idx = from; idx < to; idx++)
		assert_int_equal(ahead_claim(ahead, &test->space[1]), idx);
	assert_int_equal(ahead_claim(ahead, &test->space[1]), -1);
}

static void test_nothing_before_a_fault(void **state)
{
	struct page_test test;
	struct ahead ahead;

	init(&test, &ahead);
	assert_int_equal(page_reserve(&test.space[1], 0, 100, NULL), 100);
	assert_int_equal(ahead_claim(&ahead, &test.space[1]), -1);
	deinit(&test, &ahead);
}

/* The window begins behind the fault, and doubles whenever its end is reached. */
static void test_window_doubles_up_to_max(void **state)
{
	static const int windows[] = {AHEAD_FIRST_SIZE, 8, 16, 32, MAX, MAX, MAX};
	struct page_test test;
	struct ahead ahead;
	int64_t idx = 0;

	init(&test, &ahead);
	assert_int_equal(page_reserve(&test.space[1], 0, END, NULL), END);
	for (size_t i = 0; i < ARRAY_SIZE(windows); i++) {
		assert_int_equal(ahead_fault(&ahead, idx, MAX, END), windows[i]);
		assert_claims(&test, &ahead, idx + 1, idx + 1 + windows[i]);
		/* The first page that nobody populated. */
		idx += 1 + windows[i];
	}
	deinit(&test, &ahead);
}

/* What is not claimed yet is not forgotten, and not given twice. */
static void test_window_goes_on_where_it_was(void **state)
{
	struct page_test test;
	struct ahead ahead;

	init(&test, &ahead);
	assert_int_equal(page_reserve(&test.space[1], 0, END, NULL), END);
	assert_int_equal(ahead_fault(&ahead, 10, MAX, END), 4);
	assert_int_equal(ahead_claim(&ahead, &test.space[1]), 11);
	assert_int_equal(ahead_claim(&ahead, &test.space[1]), 12);
	/* The thread has overtaken: 13 it has itself. */
	ahead_fault(&ahead, 13, MAX, END);
	assert_int_equal(ahead_claim(&ahead, &test.space[1]), 14);
	assert_int_equal(ahead_claim(&ahead, &test.space[1]), 15);
	/* It is behind what was claimed. */
	ahead_fault(&ahead, 14, MAX, END);
	assert_int_equal(ahead_claim(&ahead, &test.space[1]), 16);
	deinit(&test, &ahead);
}

static void test_limits(void **state)
{
	static const struct {
		int64_t idx, max, to, expected;
	} cases[] = {
		{0, 64, 100, AHEAD_FIRST_SIZE},
		{0, 3, 100, 3},
		{0, 1, 100, 1},
		{0, 0, 100, 0},
		{96, 64, 100, 3},
		{98, 64, 100, 1},
		{99, 64, 100, 0},
	};
	struct page_test test;
	struct ahead ahead;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		init(&test, &ahead);
		assert_int_equal(page_reserve(&test.space[1], 0, 200, NULL), 200);
		assert_int_equal(ahead_fault(&ahead, cases[i].idx, cases[i].max, cases[i].to),
				 cases[i].expected);
		assert_claims(&test, &ahead, cases[i].idx + 1,
			      cases[i].idx + 1 + cases[i].expected);
		deinit(&test, &ahead);
	}
}

static void test_never_behind_to(void **state)
{
	struct page_test test;
	struct ahead ahead;
	int64_t idx;

	init(&test, &ahead);
	assert_int_equal(page_reserve(&test.space[1], 0, END, NULL), END);
	for (int64_t fault = 0; fault < 100; fault++) {
		assert_in_range(ahead_fault(&ahead, fault, MAX, 100), 0, MAX);
		while ((idx = ahead_claim(&ahead, &test.space[1])) >= 0)
			assert_in_range(idx, fault + 1, 99);
	}
	deinit(&test, &ahead);
}

/* Only what is reserved and not there: no page is taken that others could have had. */
static void test_only_reserved_pages(void **state)
{
	struct page_test test;
	struct ahead ahead;

	init(&test, &ahead);
	assert_int_equal(page_reserve(&test.space[1], 2, 4, NULL), 2);
	assert_int_equal(page_reserve(&test.space[1], 5, 6, NULL), 1);
	assert_int_equal(page_instantiate(&test.space[1], 3, 0), PAGE_FROM_RESERVATION);
	assert_int_equal(page_reserve(&test.space[1], 10, 20, NULL), 10);
	ahead_fault(&ahead, 0, 8, END);
	ahead_fault(&ahead, 1, 8, END); /* up to 9 */
	assert_int_equal(ahead_claim(&ahead, &test.space[1]), 2);
	assert_int_equal(ahead_claim(&ahead, &test.space[1]), 5);
	assert_int_equal(ahead_claim(&ahead, &test.space[1]), -1);
	deinit(&test, &ahead);
}

/* The window's last page is there, and a reserved one follows: it is behind the window. */
static void test_window_ends_with_a_page(void **state)
{
	struct page_test test;
	struct ahead ahead;

	init(&test, &ahead);
	assert_int_equal(page_reserve(&test.space[1], 0, 20, NULL), 20);
	for (int64_t idx = 0; idx < 5; idx++)
		assert_int_equal(page_instantiate(&test.space[1], idx, 0),
				 PAGE_FROM_RESERVATION);
	ahead_fault(&ahead, 0, MAX, END); /* 1 to 4 */
	assert_int_equal(ahead_claim(&ahead, &test.space[1]), -1);
	deinit(&test, &ahead);
}

static void test_several_streams(void **state)
{
	static const int windows[] = {AHEAD_FIRST_SIZE, 8, 16, 32};
	int64_t position[AHEAD_STREAMS];
	struct page_test test;
	struct ahead ahead;

	init(&test, &ahead);
	assert_int_equal(page_reserve(&test.space[1], 0, END, NULL), END);
	for (int i = 0; i < AHEAD_STREAMS; i++)
		position[i] = (AHEAD_STREAMS - i) * 10000;
	for (size_t round = 0; round < ARRAY_SIZE(windows); round++) {
		for (int i = 0; i < AHEAD_STREAMS; i++) {
			assert_int_equal(ahead_fault(&ahead, position[i], MAX, END),
					 windows[round]);
			assert_claims(&test, &ahead, position[i] + 1,
				      position[i] + 1 + windows[round]);
			position[i] += 1 + windows[round];
		}
	}
	deinit(&test, &ahead);
}

/* One stream more than there is room for: the oldest is replaced, the others go on. */
static void test_oldest_stream_is_replaced(void **state)
{
	struct page_test test;
	struct ahead ahead;

	init(&test, &ahead);
	for (int i = 0; i < AHEAD_STREAMS; i++)
		ahead_fault(&ahead, 1000 * (i + 1), MAX, END);
	assert_int_equal(ahead_fault(&ahead, 1005, MAX, END), 8);
	ahead_fault(&ahead, 50000, MAX, END); /* in the place of 2000 */
	assert_int_equal(ahead_fault(&ahead, 1014, MAX, END), 16);
	for (int i = 2; i < AHEAD_STREAMS; i++)
		assert_int_equal(ahead_fault(&ahead, 1000 * (i + 1) + 5, MAX, END), 8);
	assert_int_equal(ahead_fault(&ahead, 50005, MAX, END), 8);
	assert_int_equal(ahead_fault(&ahead, 2005, MAX, END), AHEAD_FIRST_SIZE);
	deinit(&test, &ahead);
}

/* Access without an order: never more than the first window. */
static void test_random_access_stays_small(void **state)
{
	struct page_test test;
	struct ahead ahead;

	init(&test, &ahead);
	for (int64_t i = 0; i < 2000; i++) {
		/* Steps that no window reaches; backwards, too. */
		int64_t idx = i % 2 ? i * 48271 % 997 * 100 : END - 100 - i * 7 % 500 * 100;

		assert_in_range(ahead_fault(&ahead, idx, MAX, END), 0, AHEAD_FIRST_SIZE);
	}
	for (int64_t idx = 500; idx >= 0; idx--)
		assert_in_range(ahead_fault(&ahead, idx, MAX, END), 0, AHEAD_FIRST_SIZE);
	deinit(&test, &ahead);
}

/* A stream that is read again from its beginning is a new one. */
static void test_again_from_the_beginning(void **state)
{
	struct page_test test;
	struct ahead ahead;

	init(&test, &ahead);
	ahead_fault(&ahead, 100, MAX, END);
	ahead_fault(&ahead, 105, MAX, END);
	ahead_fault(&ahead, 114, MAX, END);
	assert_int_equal(ahead_fault(&ahead, 100, MAX, END), AHEAD_FIRST_SIZE);
	deinit(&test, &ahead);
}

enum {
	NR_CLAIMERS = 3,
	NR_FAULTS = 20000,
};

struct race {
	struct page_test *test;
	struct ahead *ahead;
	_Atomic bool done;
	_Atomic int64_t position; /* of the fault that has been told */
	_Atomic uint8_t nr_claims[END];
	_Atomic int64_t nr_wrong, nr_all;
};

static void claim_run(void *context)
{
	struct race *race = context;
	int64_t idx;
	bool last;

	do {
		last = race->done;
		while ((idx = ahead_claim(race->ahead, &race->test->space[1])) >= 0) {
			race->nr_claims[idx]++;
			race->nr_all++;
			/* The fault that is being told may be the next window's. */
			race->nr_wrong += idx > race->position + 2 + MAX;
		}
	} while (!last);
}

/*
 *	fault				claimer 1	claimer 2
 *	the window begins at 5
 *					claims 5
 *	the window begins at 5,
 *	and goes to 12
 *							claims 5
 *
 * Nobody populates here, so that a page that is claimed twice is seen. The stream stays close
 * to its window's beginning.
 */
static void test_each_page_is_claimed_once(void **state)
{
	struct test_thread threads[NR_CLAIMERS];
	struct race *race = calloc(1, sizeof(*race));
	struct page_test test;
	struct ahead ahead;

	assert_non_null(race);
	init(&test, &ahead);
	assert_int_equal(page_reserve(&test.space[1], 0, END, NULL), END);
	race->test = &test;
	race->ahead = &ahead;
	for (int i = 0; i < NR_CLAIMERS; i++)
		start_thread(&threads[i], claim_run, race);
	for (int64_t idx = 0; idx < NR_FAULTS; idx++) {
		ahead_fault(&ahead, idx, MAX, END);
		race->position = idx;
		/* The stream waits for its window, as it would if the pages were mapped. */
		for (int i = 0; i < 1000 && ahead.stream[0].next < idx + 2; i++)
			sched_yield();
	}
	race->done = true;
	for (int i = 0; i < NR_CLAIMERS; i++)
		join_thread(&threads[i]);
	for (int64_t idx = 0; idx < END; idx++)
		assert_in_range(race->nr_claims[idx], 0, 1);
	assert_int_equal(race->nr_wrong, 0);
	print_message("%" PRId64 " pages claimed\n", race->nr_all);
	assert_true(race->nr_all > NR_FAULTS / 2);
	free(race);
	deinit(&test, &ahead);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_before_a_fault),
		cmocka_unit_test(test_window_doubles_up_to_max),
		cmocka_unit_test(test_window_goes_on_where_it_was),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_never_behind_to),
		cmocka_unit_test(test_only_reserved_pages),
		cmocka_unit_test(test_window_ends_with_a_page),
		cmocka_unit_test(test_several_streams),
		cmocka_unit_test(test_oldest_stream_is_replaced),
		cmocka_unit_test(test_random_access_stays_small),
		cmocka_unit_test(test_again_from_the_beginning),
		cmocka_unit_test(test_each_page_is_claimed_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
