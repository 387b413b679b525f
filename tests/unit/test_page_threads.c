/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Races of the page transaction, each provoked: either all threads of a team make their call at
 * the same moment, or one is held inside the backing while another goes on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "page_util.h"

#include "page_threads.h"

enum {
	NR_THREADS = 4,
	NR_ROUNDS = 300,
};

static const uint32_t mutex_counts[] = {1, TEST_MUTEXES};

static void run_team(const struct page_config *config, uint32_t nr_mutexes,
		     int64_t (*call)(struct page_test *, int),
		     void (*check_results)(struct page_test *, const int64_t *, int))
{
	struct page_config own = *config;
	struct page_test test;
	struct team team = {
		.test = &test,
		.nr_threads = NR_THREADS,
		.nr_rounds = NR_ROUNDS,
		.call = call,
		.check = check_results,
	};

	own.nr_mutexes = nr_mutexes;
	page_test_init(&test, &own);
	team_run(&team);
	page_test_deinit(&test, &own);
}

static int64_t instantiate_same(struct page_test *test, int number)
{
	return page_instantiate(&test->space[0], 7, 0);
}

static int64_t instantiate_own(struct page_test *test, int number)
{
	return page_instantiate(&test->space[number % 2], number, 0);
}

static void punch_all(struct page_test *test, int64_t nr)
{
	check(test);
	assert_int_equal(page_punch(&test->space[0], 0, REGION_END) +
				 page_punch(&test->space[1], 0, REGION_END),
			 nr);
	check(test);
}

static void one_made_it(struct page_test *test, const int64_t *results, int nr)
{
	assert_int_equal(count_results(results, nr, PAGE_FROM_FREE), 1);
	assert_int_equal(count_results(results, nr, PAGE_PRESENT), nr - 1);
	punch_all(test, 1);
}

/*
 *	A				B
 *	page 7 is not there
 *					page 7 is not there
 *	takes a page for it
 *					takes another one for it, or
 *					finds none left: -ENOSPC, for
 *					a page that is there
 *
 * The second is what the kernel's instantiation mutex was made for.
 */
static void test_same_page(void **state)
{
	static const struct page_config many = {.nr_pages = {10}, .max = 10};
	static const struct page_config last = {.nr_pages = {1}, .max = 1};

	for (size_t i = 0; i < ARRAY_SIZE(mutex_counts); i++) {
		run_team(&many, mutex_counts[i], instantiate_same, one_made_it);
		run_team(&last, mutex_counts[i], instantiate_same, one_made_it);
	}
}

static void one_wins(struct page_test *test, const int64_t *results, int nr)
{
	assert_int_equal(count_results(results, nr, PAGE_FROM_FREE), 1);
	assert_int_equal(count_results(results, nr, -ENOSPC), nr - 1);
	punch_all(test, 1);
}

static void two_win(struct page_test *test, const int64_t *results, int nr)
{
	assert_int_equal(count_results(results, nr, PAGE_FROM_FREE), 1);
	assert_int_equal(count_results(results, nr, PAGE_FROM_SURPLUS), 1);
	assert_int_equal(count_results(results, nr, -ENOSPC), nr - 2);
	punch_all(test, 2);
}

static void all_win(struct page_test *test, const int64_t *results, int nr)
{
	assert_int_equal(count_results(results, nr, PAGE_FROM_FREE), nr);
	punch_all(test, nr);
}

/*
 *	A, page 0			B, page 1, of another space
 *	one page is free
 *					one page is free
 *	takes it
 *					takes it again, or both give up
 *
 * As many win as there are pages, not one more or fewer.
 */
static void test_last_page_for_different_pages(void **state)
{
	static const struct page_config last = {.nr_pages = {1}, .max = 1};
	static const struct page_config surplus = {.nr_pages = {1}, .max = 2};
	static const struct page_config enough = {.nr_pages = {NR_THREADS}, .max = NR_THREADS};

	for (size_t i = 0; i < ARRAY_SIZE(mutex_counts); i++) {
		run_team(&last, mutex_counts[i], instantiate_own, one_wins);
		run_team(&surplus, mutex_counts[i], instantiate_own, two_win);
		run_team(&enough, mutex_counts[i], instantiate_own, all_win);
	}
}

static int64_t reserve_then_instantiate(struct page_test *test, int number)
{
	if (number == 0 && page_reserve(&test->space[0], 0, 1, NULL) < 0)
		return -ENOMEM;
	return instantiate_own(test, number);
}

static void reservation_holds(struct page_test *test, const int64_t *results, int nr)
{
	int nr_won = count_results(results + 1, nr - 1, PAGE_FROM_FREE);

	/* Too late to reserve is no failure of a reservation. */
	if (results[0] == -ENOMEM) {
		assert_int_equal(nr_won, 2);
	} else {
		assert_int_equal(results[0], PAGE_FROM_RESERVATION);
		assert_int_equal(nr_won, 1);
	}
	assert_int_equal(count_results(results + 1, nr - 1, -ENOSPC), nr - 1 - nr_won);
	punch_all(test, 2);
}

/*
 *	A				B, C, D
 *	reserves page 0
 *					find two pages free, one of them
 *					reserved, and take both
 *	touches page 0: none is left
 */
static void test_reservation_against_the_others(void **state)
{
	static const struct page_config two = {.nr_pages = {2}, .max = 2};

	for (size_t i = 0; i < ARRAY_SIZE(mutex_counts); i++)
		run_team(&two, mutex_counts[i], reserve_then_instantiate, reservation_holds);
}

static struct region_map team_added[NR_THREADS];

static int64_t reserve_same(struct page_test *test, int number)
{
	region_map_init(&team_added[number], test->space[0].lock);
	return page_reserve(&test->space[0], number, 20 - number, &team_added[number]);
}

static void reserved_once(struct page_test *test, const int64_t *results, int nr)
{
	int64_t sum = 0;

	assert_space(test, 0, 20, 0);
	for (int i = 0; i < nr; i++) {
		assert_int_equal(region_map_count(&team_added[i], 0, REGION_END), results[i]);
		sum += results[i];
	}
	assert_int_equal(sum, 20);
	for (int i = 0; i < nr; i++) {
		page_unreserve_map(&test->space[0], &team_added[i]);
		sum -= results[i];
		assert_space(test, 0, sum, 0);
	}
}

/*
 *	A				B
 *	0-20: the gaps are 0-20
 *					1-19: the gaps are 1-19
 *	enters 0-20
 *					enters 1-19, and says that they
 *					are its own: gives A's back
 */
static void test_reserve_the_same(void **state)
{
	static const struct page_config enough = {.nr_pages = {20}, .max = 20};

	run_team(&enough, 1, reserve_same, reserved_once);
}

/* What is held inside the backing. */
static struct stop stop;

static void stop_on_page(struct page_test *test, int64_t idx)
{
	if (idx == 5)
		stop_here(&stop);
}

static void stop_on_page_0(struct page_test *test, int64_t idx)
{
	if (idx == 0)
		stop_here(&stop);
}

static int64_t call_instantiate(struct page_test *test)
{
	return page_instantiate(&test->space[0], 5, 0);
}

static int64_t call_truncate(struct page_test *test)
{
	return page_truncate(&test->space[0], 0);
}

static int64_t call_punch(struct page_test *test)
{
	return page_punch(&test->space[0], 0, REGION_END);
}

static struct mutex *mutex_of(struct page_test *test, int i, int64_t idx)
{
	struct page_space *space = &test->space[i];
	struct fault_key key = {space->object, (uint64_t)(idx + space->key_offset)};

	return &test->core.faults.mutexes[fault_mutex_index(&test->core.faults, key)];
}

static const struct page_config plain = {.nr_pages = {10}, .max = 10};

/*
 *	A				B
 *	enters page 5, populates
 *					truncates to 0
 *	the page is there, behind
 *	the end, and counted
 *
 * B has to wait for A. Meanwhile nothing new is entered behind the end.
 */
static void check_truncate_beside_populate(int error)
{
	struct page_space_counts counts;
	struct caller a, b;
	struct page_test test;

	page_test_init(&test, &plain);
	stop_init(&stop);
	assert_int_equal(page_reserve(&test.space[0], 4, 8, NULL), 4);
	assert_int_equal(page_instantiate(&test.space[0], 4, 0), PAGE_FROM_RESERVATION);
	test.before_populate = stop_on_page;
	test.populate_error = error;
	start_caller(&a, &test, call_instantiate);
	wait_event(&stop.reached);
	page_space_read(&test.space[0], &counts);
	assert_int_equal(counts.instantiated, 2);
	assert_int_equal(counts.populating, 1);
	start_caller(&b, &test, call_truncate);
	WAIT_ASLEEP(&b.thread, mutex_of(&test, 0, 5));
	assert_int_equal(page_instantiate(&test.space[0], 6, 0), -ERANGE);
	assert_int_equal(page_instantiate(&test.space[0], 0, 0), -ERANGE);
	assert_false(b.done);
	sem_post(&stop.go);
	assert_int_equal(join_caller(&a), error ? error : PAGE_FROM_RESERVATION);
	assert_int_equal(join_caller(&b), 0);
	assert_space(&test, 0, 0, 0);
	assert_pool(&test, 10, 10, 0, 0);
	page_test_deinit(&test, &plain);
}

static void test_truncate_beside_populate(void **state)
{
	check_truncate_beside_populate(0);
	check_truncate_beside_populate(-ERANGE);
}

/*
 *	A				B
 *	enters page 5, populates
 *					punches: page 5 is counted, but
 *					the backing has none: uncounts it
 *	the page is there, uncounted
 */
static void test_punch_beside_populate(void **state)
{
	struct caller a, b;
	struct page_test test;

	page_test_init(&test, &plain);
	stop_init(&stop);
	test.before_populate = stop_on_page;
	start_caller(&a, &test, call_instantiate);
	wait_event(&stop.reached);
	start_caller(&b, &test, call_punch);
	WAIT_ASLEEP(&b.thread, mutex_of(&test, 0, 5));
	assert_false(b.done);
	sem_post(&stop.go);
	assert_int_equal(join_caller(&a), PAGE_FROM_FREE);
	assert_int_equal(join_caller(&b), 1);
	assert_space(&test, 0, 0, 0);
	page_test_deinit(&test, &plain);
}

static struct stop resize_stop;

static void stop_in_resize(struct page_test *test)
{
	stop_here(&resize_stop);
}

/*
 *	A				B
 *					truncates to 0: nothing is being
 *					populated
 *	punches page 5
 *					uncounts all
 *	uncounts page 5 once more
 */
static void test_truncate_beside_punch(void **state)
{
	struct caller a, b;
	struct page_test test;

	page_test_init(&test, &plain);
	stop_init(&stop);
	stop_init(&resize_stop);
	assert_int_equal(page_instantiate(&test.space[0], 5, 0), PAGE_FROM_FREE);
	assert_int_equal(page_instantiate(&test.space[0], 6, 0), PAGE_FROM_FREE);
	test.before_resize = stop_in_resize;
	test.before_punch = stop_on_page;
	start_caller(&b, &test, call_truncate);
	wait_event(&resize_stop.reached);
	start_caller(&a, &test, call_punch);
	wait_event(&stop.reached);
	sem_post(&resize_stop.go);
	assert_int_equal(join_caller(&b), 0);
	assert_space(&test, 0, 0, 0);
	sem_post(&stop.go);
	assert_int_equal(join_caller(&a), 0);
	assert_space(&test, 0, 0, 0);
	test.before_resize = NULL;
	page_test_deinit(&test, &plain);
}

static int64_t call_forget(struct page_test *test)
{
	return page_forget(&test->space[1], 0, 10);
}

static int64_t call_instantiate_private(struct page_test *test)
{
	return page_instantiate(&test->space[1], 0, 0);
}

/*
 *	A				B
 *					0-10 was unmapped: waits for what is
 *					being populated, and is past page 0
 *	enters page 0, populates
 *					uncounts 0-10
 *	there is no memory any more:
 *	gives page 0 back once more
 */
static void check_forget_beside_populate(int64_t nr_reserved)
{
	struct caller a, b;
	struct page_test test;
	struct mutex *mutex;

	page_test_init(&test, &plain);
	stop_init(&stop);
	assert_int_equal(page_instantiate(&test.space[1], 5, 0), PAGE_FROM_FREE);
	if (nr_reserved)
		assert_int_equal(page_reserve(&test.space[1], 0, nr_reserved, NULL),
				 nr_reserved);
	assert_int_equal(test.mem_ops->punch(test.file[1], 5, 6), 0);
	test.before_populate = stop_on_page_0;
	test.populate_error = -ERANGE;
	mutex = mutex_of(&test, 1, 5);
	assert_ptr_not_equal(mutex, mutex_of(&test, 1, 0));
	mutex_lock(mutex);
	start_caller(&b, &test, call_forget);
	WAIT_ASLEEP(&b.thread, mutex);
	start_caller(&a, &test, call_instantiate_private);
	wait_event(&stop.reached);
	mutex_unlock(mutex);
	assert_int_equal(join_caller(&b), 0);
	sem_post(&stop.go);
	assert_int_equal(join_caller(&a), -ERANGE);
	assert_space(&test, 1, 0, 0);
	assert_pool(&test, 10, 10, 0, 0);
	page_test_deinit(&test, &plain);
}

static void test_forget_beside_populate(void **state)
{
	check_forget_beside_populate(0);
	check_forget_beside_populate(4);
}

static int64_t call_reconcile(struct page_test *test)
{
	return page_reconcile(&test->space[0], 5, true);
}

/*
 *	A				B
 *	reconciles page 5: it is
 *	there, and not counted
 *					truncates to 0: page 5 is not being
 *					populated; frees and uncounts all
 *	counts page 5
 */
static void test_truncate_beside_reconcile(void **state)
{
	struct caller a;
	struct page_test test;

	page_test_init(&test, &plain);
	stop_init(&stop);
	assert_int_equal(test.mem_ops->populate(test.file[0], 5, 0), 0);
	test.after_present = stop_on_page;
	start_caller(&a, &test, call_reconcile);
	wait_event(&stop.reached);
	assert_int_equal(page_truncate(&test.space[0], 0), 0);
	sem_post(&stop.go);
	assert_int_equal(join_caller(&a), 0);
	assert_space(&test, 0, 0, 0);
	page_test_deinit(&test, &plain);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_page),
		cmocka_unit_test(test_last_page_for_different_pages),
		cmocka_unit_test(test_reservation_against_the_others),
		cmocka_unit_test(test_reserve_the_same),
		cmocka_unit_test(test_truncate_beside_populate),
		cmocka_unit_test(test_punch_beside_populate),
		cmocka_unit_test(test_truncate_beside_punch),
		cmocka_unit_test(test_forget_beside_populate),
		cmocka_unit_test(test_truncate_beside_reconcile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
