/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Ten million contended faults under a watchdog: four threads instantiate the same two pages,
 * and free them again; each page that is taken is taken once, from its one reservation.
 * $TEST_FAULTS changes how many. tests/reports/test_page_resolved_twice.c does it on a mount.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "page_util.h"

#include "page_threads.h"

enum {
	NR_FAULTERS = 4,
	NR_CONTENDED = 2,      /* pages */
	WATCHDOG_SECONDS = 100 /* which a sanitizer needs, too */
};

/* A sanitizer takes ten times as long. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define NR_FAULTS 500000
#else
#define NR_FAULTS 10000000
#endif

struct contest {
	struct page_test test;
	int64_t nr_faults;
	_Atomic int64_t nr_left, nr_taken, nr_freed, nr_wrong;
};

struct faulter {
	struct test_thread thread;
	struct contest *contest;
};

static void fault(void *context)
{
	struct contest *contest = ((struct faulter *)context)->contest;
	struct page_space *space = &contest->test.space[0];
	int64_t n, nr;
	int r;

	while ((n = contest->nr_left--) > 0) {
		r = page_instantiate(space, n % NR_CONTENDED, POOL_ANY_NODE);
		contest->nr_taken += r != PAGE_PRESENT;
		/* There is one page for each: none is taken from what is missing. */
		contest->nr_wrong += r != PAGE_PRESENT && r != PAGE_FROM_RESERVATION;
		if (n % 4)
			continue;
		nr = page_punch(space, n / 4 % NR_CONTENDED, n / 4 % NR_CONTENDED + 1);
		contest->nr_wrong += nr < 0 || nr > 1;
		contest->nr_freed += nr;
	}
}

static void run_contest(int64_t nr_faults, uint32_t nr_mutexes)
{
	const struct page_config config = {
		.nr_pages = {NR_CONTENDED},
		.max = NR_CONTENDED,
		.min = NR_CONTENDED,
		.nr_mutexes = nr_mutexes,
	};
	struct faulter faulters[NR_FAULTERS];
	struct contest *contest = aligned_alloc(_Alignof(struct contest), sizeof(*contest));

	page_test_init(&contest->test, &config);
	contest->nr_faults = nr_faults;
	contest->nr_left = nr_faults;
	contest->nr_taken = contest->nr_freed = contest->nr_wrong = 0;
	assert_int_equal(page_reserve(&contest->test.space[0], 0, NR_CONTENDED, NULL),
			 NR_CONTENDED);
	for (int i = 0; i < NR_FAULTERS; i++) {
		faulters[i].contest = contest;
		start_thread(&faulters[i].thread, fault, &faulters[i]);
	}
	for (int i = 0; i < NR_FAULTERS; i++)
		join_thread(&faulters[i].thread);
	assert_int_equal(contest->nr_wrong, 0);
	check(&contest->test);
	assert_int_equal(contest->nr_taken - contest->nr_freed, contest->test.mem.nr_pages);
	printf("%ld faults, %ld pages taken, %ld freed\n", (long)nr_faults,
	       (long)contest->nr_taken, (long)contest->nr_freed);
	page_test_deinit(&contest->test, &config);
	free(contest);
}

static void test_ten_million(void **state)
{
	const char *given = getenv("TEST_FAULTS");

	run_contest(given ? atol(given) : NR_FAULTS, TEST_MUTEXES);
}

static void test_one_mutex(void **state)
{
	run_contest(NR_FAULTS / 20, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ten_million),
		cmocka_unit_test(test_one_mutex),
	};

	alarm(WATCHDOG_SECONDS);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
