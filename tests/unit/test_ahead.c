/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Populating ahead: which pages it wants for which faults, that it gives each of them to one
 * thread, and for what a waiter waits.
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

/* Claim a page and be done with it at once; -1 if there is none. */
static int64_t claim_one(struct page_test *test, struct ahead *ahead)
{
	struct ahead_claim claim;

	if (!ahead_claim(ahead, &test->space[1], &claim))
		return -1;
	ahead_done(ahead, &claim, false);
	return claim.idx;
}

/* The pages that can be claimed are just [from, to), in order. */
static void assert_claims(struct page_test *test, struct ahead *ahead, int64_t from, int64_t to)
{
	for (int64_t idx = from; idx < to; idx++)
		assert_int_equal(claim_one(test, ahead), idx);
	assert_int_equal(claim_one(test, ahead), -1);
}

/* The window of @waiter is there, and ends at @end; no other is. */
static void assert_ready(struct ahead *ahead, const void *waiter, int64_t end)
{
	int64_t ready_end = -1;

	assert_ptr_equal(ahead_take_ready(ahead, false, &ready_end), waiter);
	assert_int_equal(ready_end, end);
	assert_null(ahead_take_ready(ahead, false, &ready_end));
}

static void assert_none_ready(struct ahead *ahead)
{
	int64_t end;

	assert_null(ahead_take_ready(ahead, false, &end));
}

static char waiter, other_waiter;

static void test_nothing_before_a_fault(void **state)
{
	struct page_test test;
	struct ahead ahead;

	init(&test, &ahead);
	assert_int_equal(page_reserve(&test.space[1], 0, 100, NULL), 100);
	assert_int_equal(claim_one(&test, &ahead), -1);
	/* Nothing is carried on by the very first page. */
	assert_false(ahead_fault(&ahead, 0, MAX, END, &waiter));
	assert_none_ready(&ahead);
	deinit(&test, &ahead);
}

/* The window begins behind its mark, and doubles whenever that is faulted on. */
static void test_window_doubles_up_to_max(void **state)
{
	static const int windows[] = {8, 16, 32, MAX, MAX, MAX};
	struct page_test test;
	struct ahead ahead;
	int64_t mark = 1, end = mark + 1 + AHEAD_FIRST_SIZE;

	init(&test, &ahead);
	assert_int_equal(page_reserve(&test.space[1], 0, END, NULL), END);
	assert_false(ahead_fault(&ahead, 0, MAX, END, &waiter));
	assert_claims(&test, &ahead, mark + 1, end);
	for (size_t i = 0; i < ARRAY_SIZE(windows); i++) {
		assert_true(ahead_fault(&ahead, mark, MAX, END, &waiter));
		assert_none_ready(&ahead);
		assert_int_equal(claim_one(&test, &ahead), mark);
		assert_ready(&ahead, &waiter, end);
		/* The next one is populated without a fault. */
		mark = end;
		end = mark + 1 + windows[i];
		assert_claims(&test, &ahead, mark + 1, end);
	}
	deinit(&test, &ahead);
}

/* A waiter waits for all pages of its window, those that others are at too, and for no more. */
static void test_waiter_waits_for_its_window(void **state)
{
	struct ahead_claim slow, own, next;
	struct page_test test;
	struct ahead ahead;

	init(&test, &ahead);
	assert_int_equal(page_reserve(&test.space[1], 0, END, NULL), END);
	ahead_fault(&ahead, 0, MAX, END, &waiter);
	assert_true(ahead_claim(&ahead, &test.space[1], &slow));
	assert_int_equal(slow.idx, 2);
	assert_null(slow.waiter);
	assert_true(ahead_fault(&ahead, 1, MAX, END, &waiter));
	assert_true(ahead_claim(&ahead, &test.space[1], &own));
	assert_int_equal(own.idx, 1);
	assert_ptr_equal(own.waiter, &waiter);
	for (int64_t idx = 3; idx < 6; idx++)
		assert_int_equal(claim_one(&test, &ahead), idx);
	/* All of it is claimed: the next window is opened, behind its mark. */
	assert_true(ahead_claim(&ahead, &test.space[1], &next));
	assert_int_equal(next.idx, 7);
	ahead_done(&ahead, &own, false);
	assert_none_ready(&ahead);
	ahead_done(&ahead, &slow, false);
	assert_ready(&ahead, &waiter, 6);
	ahead_done(&ahead, &next, false);
	deinit(&test, &ahead);
}

/* Others who fault where somebody waits see to their pages themselves. */
static void test_one_waiter_of_a_stream(void **state)
{
	struct page_test test;
	struct ahead ahead;

	init(&test, &ahead);
	assert_int_equal(page_reserve(&test.space[1], 0, END, NULL), END);
	ahead_fault(&ahead, 0, MAX, END, &waiter);
	assert_int_equal(claim_one(&test, &ahead), 2);
	assert_true(ahead_fault(&ahead, 1, MAX, END, &waiter));
	assert_false(ahead_fault(&ahead, 1, MAX, END, &other_waiter));
	assert_false(ahead_fault(&ahead, 3, MAX, END, &other_waiter));
	assert_int_equal(claim_one(&test, &ahead), 1);
	for (int64_t idx = 3; idx < 6; idx++)
		assert_int_equal(claim_one(&test, &ahead), idx);
	assert_ready(&ahead, &waiter, 6);
	/* Nobody waits for this page any more, and it is no new stream. */
	assert_false(ahead_fault(&ahead, 1, MAX, END, &other_waiter));
	assert_claims(&test, &ahead, 7, 15);
	deinit(&test, &ahead);
}

/* A fault in the middle of the window: what is before it is not wanted. */
static void test_stream_overtakes(void **state)
{
	struct page_test test;
	struct ahead ahead;

	init(&test, &ahead);
	assert_int_equal(page_reserve(&test.space[1], 0, END, NULL), END);
	ahead_fault(&ahead, 10, MAX, END, &waiter);
	assert_int_equal(claim_one(&test, &ahead), 12);
	assert_true(ahead_fault(&ahead, 14, MAX, END, &waiter));
	assert_int_equal(claim_one(&test, &ahead), 14);
	assert_int_equal(claim_one(&test, &ahead), 15);
	assert_ready(&ahead, &waiter, 16);
	assert_claims(&test, &ahead, 17, 25);
	deinit(&test, &ahead);
}

/* Streams that are waited for come first. */
static void test_waiters_come_first(void **state)
{
	struct page_test test;
	struct ahead ahead;

	init(&test, &ahead);
	assert_int_equal(page_reserve(&test.space[1], 0, END, NULL), END);
	ahead_fault(&ahead, 0, MAX, END, NULL);
	ahead_fault(&ahead, 1000, MAX, END, NULL);
	assert_int_equal(claim_one(&test, &ahead), 2);
	assert_true(ahead_fault(&ahead, 1001, MAX, END, &waiter));
	for (int64_t idx = 1001; idx < 1002 + AHEAD_FIRST_SIZE; idx++) {
		assert_none_ready(&ahead);
		assert_int_equal(claim_one(&test, &ahead), idx);
	}
	assert_ready(&ahead, &waiter, 1002 + AHEAD_FIRST_SIZE);
	assert_int_equal(claim_one(&test, &ahead), 3);
	deinit(&test, &ahead);
}

/* Where nobody opens windows, a fault that carries on stands for a window's pages. */
static void test_window_without_mark(void **state)
{
	int64_t idx = 1, end = 0, size = AHEAD_FIRST_SIZE;
	struct page_test test;
	struct ahead ahead;

	init(&test, &ahead);
	assert_int_equal(page_reserve(&test.space[1], 0, END, NULL), END);
	assert_false(ahead_fault(&ahead, 0, MAX, END, NULL));
	for (int i = 0; i < 8; i++) {
		assert_true(ahead_fault(&ahead, idx, MAX, idx + 1 + size, &waiter));
		for (end = idx + 1 + size; idx < end; idx++)
			assert_int_equal(claim_one(&test, &ahead), idx);
		assert_ready(&ahead, &waiter, end);
		size = 2 * size < MAX ? 2 * size : MAX;
	}
	/* Never behind the end. */
	assert_true(ahead_fault(&ahead, idx, MAX, idx + 1, &waiter));
	assert_claims(&test, &ahead, idx, idx + 1);
	assert_ready(&ahead, &waiter, idx + 1);
	deinit(&test, &ahead);
}

/* A page that cannot be had ends the window, and nobody waits for the rest of it. */
static void test_failure_ends_the_window(void **state)
{
	struct ahead_claim claim;
	struct page_test test;
	struct ahead ahead;

	init(&test, &ahead);
	assert_int_equal(page_reserve(&test.space[1], 0, END, NULL), END);
	ahead_fault(&ahead, 0, MAX, END, &waiter);
	assert_int_equal(claim_one(&test, &ahead), 2);
	assert_true(ahead_fault(&ahead, 1, MAX, END, &waiter));
	assert_int_equal(claim_one(&test, &ahead), 1);
	assert_true(ahead_claim(&ahead, &test.space[1], &claim));
	ahead_done(&ahead, &claim, true);
	assert_int_equal(claim_one(&test, &ahead), -1);
	assert_ready(&ahead, &waiter, 6);
	deinit(&test, &ahead);
}

/* When all is over waiters are taken as they are, but not from who is at their own page. */
static void test_any_waiter(void **state)
{
	struct ahead_claim claim;
	struct page_test test;
	struct ahead ahead;
	int64_t end;

	init(&test, &ahead);
	assert_int_equal(page_reserve(&test.space[1], 0, END, NULL), END);
	ahead_fault(&ahead, 0, MAX, END, &waiter);
	assert_true(ahead_fault(&ahead, 1, MAX, END, &waiter));
	assert_none_ready(&ahead);
	assert_ptr_equal(ahead_take_ready(&ahead, true, &end), &waiter);
	assert_null(ahead_take_ready(&ahead, true, &end));
	assert_true(ahead_fault(&ahead, 2, MAX, END, &waiter));
	assert_true(ahead_claim(&ahead, &test.space[1], &claim));
	assert_ptr_equal(claim.waiter, &waiter);
	assert_null(ahead_take_ready(&ahead, true, &end));
	ahead_done(&ahead, &claim, false);
	assert_ptr_equal(ahead_take_ready(&ahead, true, &end), &waiter);
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
		{95, 64, 100, 3},
		{97, 64, 100, 1},
		{98, 64, 100, 0},
		{99, 64, 100, 0},
	};
	struct page_test test;
	struct ahead ahead;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		init(&test, &ahead);
		assert_int_equal(page_reserve(&test.space[1], 0, 200, NULL), 200);
		assert_false(
			ahead_fault(&ahead, cases[i].idx, cases[i].max, cases[i].to, &waiter));
		assert_claims(&test, &ahead, cases[i].idx + 2,
			      cases[i].idx + 2 + cases[i].expected);
		deinit(&test, &ahead);
	}
}

static void test_never_behind_to(void **state)
{
	struct page_test test;
	struct ahead ahead;
	int64_t idx, end;

	init(&test, &ahead);
	assert_int_equal(page_reserve(&test.space[1], 0, END, NULL), END);
	for (int64_t fault = 0; fault < 100; fault++) {
		ahead_fault(&ahead, fault, MAX, 100, &waiter);
		while ((idx = claim_one(&test, &ahead)) >= 0)
			assert_in_range(idx, fault, 99);
		if (ahead_take_ready(&ahead, false, &end))
			assert_in_range(end, fault + 1, 100);
	}
	deinit(&test, &ahead);
}

/* Only what is reserved and not there: no page is taken that others could have had. */
static void test_only_reserved_pages(void **state)
{
	struct page_test test;
	struct ahead ahead;

	init(&test, &ahead);
	assert_int_equal(page_reserve(&test.space[1], 2, 5, NULL), 3);
	assert_int_equal(page_reserve(&test.space[1], 6, 7, NULL), 1);
	assert_int_equal(page_instantiate(&test.space[1], 4, 0), PAGE_FROM_RESERVATION);
	assert_int_equal(page_reserve(&test.space[1], 12, 20, NULL), 8);
	ahead_fault(&ahead, 0, 8, END, &waiter);
	/* The mark is 2, where the stream will fault; 4 is there. */
	assert_int_equal(claim_one(&test, &ahead), 3);
	assert_int_equal(claim_one(&test, &ahead), 6);
	assert_int_equal(claim_one(&test, &ahead), -1);
	assert_true(ahead_fault(&ahead, 1, 8, END, &waiter));
	assert_int_equal(claim_one(&test, &ahead), 1);
	assert_int_equal(claim_one(&test, &ahead), 13); /* the mark is 12 */
	assert_ready(&ahead, &waiter, 7);
	deinit(&test, &ahead);
}

/* What is reserved is further away than the window is long. */
static void test_no_mark_in_reach(void **state)
{
	struct page_test test;
	struct ahead ahead;

	init(&test, &ahead);
	assert_int_equal(page_reserve(&test.space[1], 10, 20, NULL), 10);
	ahead_fault(&ahead, 0, MAX, END, &waiter);
	assert_int_equal(claim_one(&test, &ahead), -1);
	deinit(&test, &ahead);
}

/* One stream more than there is room for: the oldest is replaced, but never one with a waiter.
 */
static void test_oldest_stream_is_replaced(void **state)
{
	struct page_test test;
	struct ahead ahead;
	int64_t end;

	init(&test, &ahead);
	for (int i = 0; i < AHEAD_STREAMS; i++)
		assert_false(ahead_fault(&ahead, 1000 * (i + 1), MAX, END, &waiter));
	assert_true(ahead_fault(&ahead, 1001, MAX, END, &waiter));
	assert_false(ahead_fault(&ahead, 50000, MAX, END, NULL)); /* instead of 2000 */
	for (int i = 2; i < AHEAD_STREAMS; i++)
		assert_true(ahead_fault(&ahead, 1000 * (i + 1) + 1, MAX, END, &waiter));
	assert_true(ahead_fault(&ahead, 50001, MAX, END, &waiter));
	/* All have a waiter. */
	assert_false(ahead_fault(&ahead, 2001, MAX, END, &waiter));
	assert_false(ahead_fault(&ahead, 2002, MAX, END, &waiter));
	for (int i = 0; i < AHEAD_STREAMS; i++)
		assert_ptr_equal(ahead_take_ready(&ahead, true, &end), &waiter);
	deinit(&test, &ahead);
}

/* Access without an order: never more than the first window, and nobody waits. */
static void test_random_access_stays_small(void **state)
{
	struct page_test test;
	struct ahead ahead;
	int64_t idx;
	int nr;

	init(&test, &ahead);
	assert_int_equal(page_reserve(&test.space[1], 0, END, NULL), END);
	for (int64_t i = 0; i < 2000; i++) {
		/* Steps that no window reaches; backwards, too. */
		idx = i % 2 ? i * 48271 % 997 * 100 : END - 100 - i * 7 % 500 * 100;
		assert_false(ahead_fault(&ahead, idx, MAX, END, &waiter));
		for (nr = 0; claim_one(&test, &ahead) >= 0; nr++)
			;
		assert_in_range(nr, 0, AHEAD_FIRST_SIZE);
	}
	for (idx = 500; idx >= 0; idx--)
		assert_false(ahead_fault(&ahead, idx, MAX, END, &waiter));
	deinit(&test, &ahead);
}

enum {
	NR_CLAIMERS = 3,
	FAULTS_END = END - 2 * MAX,
};

struct race {
	struct page_test *test;
	struct ahead *ahead;
	_Atomic bool over;
	_Atomic int64_t waits_at;  /* where the waiter has faulted */
	_Atomic int64_t ready_end; /* of its window, when it is there */
	_Atomic uint8_t nr_claims[END], nr_done[END];
	_Atomic int64_t nr_wrong;
};

static void take_ready(struct race *race)
{
	int64_t end;

	if (!ahead_take_ready(race->ahead, false, &end))
		return;
	for (int64_t idx = race->waits_at; idx < end; idx++)
		race->nr_wrong += race->nr_done[idx] != 1;
	race->ready_end = end;
}

static void claim_run(void *context)
{
	struct race *race = context;
	struct ahead_claim claim;

	while (!race->over) {
		if (ahead_claim(race->ahead, &race->test->space[1], &claim)) {
			race->nr_claims[claim.idx]++;
			race->nr_done[claim.idx]++;
			ahead_done(race->ahead, &claim, false);
		}
		take_ready(race);
	}
}

/*
 *	fault				claimer 1	claimer 2
 *	waits at 6 for [6, 15)
 *					claims 14
 *							opens [16, 32)
 *							claims 16
 *							looks for who is ready
 *					done with 14
 *					wakes it, once
 *
 * Nobody populates here, so that a page that is claimed twice is seen. A waiter is given back
 * when each page of its window has been claimed and done, and no earlier.
 */
static void test_each_page_is_claimed_once(void **state)
{
	struct test_thread threads[NR_CLAIMERS];
	struct race *race = calloc(1, sizeof(*race));
	struct page_test test;
	struct ahead ahead;
	int64_t idx;

	assert_non_null(race);
	init(&test, &ahead);
	assert_int_equal(page_reserve(&test.space[1], 0, END, NULL), END);
	race->test = &test;
	race->ahead = &ahead;
	assert_false(ahead_fault(&ahead, 0, MAX, END, race));
	for (int i = 0; i < NR_CLAIMERS; i++)
		start_thread(&threads[i], claim_run, race);
	for (idx = 1; idx < FAULTS_END; idx = race->ready_end) {
		race->ready_end = 0;
		race->waits_at = idx;
		assert_true(ahead_fault(&ahead, idx, MAX, END, race));
		while (!race->ready_end)
			sched_yield();
		assert_true(race->ready_end > idx);
	}
	race->over = true;
	for (int i = 0; i < NR_CLAIMERS; i++)
		join_thread(&threads[i]);
	for (int64_t page = 1; page < idx; page++)
		assert_int_equal(race->nr_claims[page], 1);
	assert_int_equal(race->nr_wrong, 0);
	free(race);
	deinit(&test, &ahead);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_before_a_fault),
		cmocka_unit_test(test_window_doubles_up_to_max),
		cmocka_unit_test(test_waiter_waits_for_its_window),
		cmocka_unit_test(test_one_waiter_of_a_stream),
		cmocka_unit_test(test_stream_overtakes),
		cmocka_unit_test(test_waiters_come_first),
		cmocka_unit_test(test_window_without_mark),
		cmocka_unit_test(test_failure_ends_the_window),
		cmocka_unit_test(test_any_waiter),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_never_behind_to),
		cmocka_unit_test(test_only_reserved_pages),
		cmocka_unit_test(test_no_mark_in_reach),
		cmocka_unit_test(test_oldest_stream_is_replaced),
		cmocka_unit_test(test_random_access_stays_small),
		cmocka_unit_test(test_each_page_is_claimed_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
