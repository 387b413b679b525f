/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bench/contention: how the pages are divided, the closest possible result, and what the
 * counters have to say whatever the timing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/contention_options.h"
#include "bench/contention_run.h"

static struct contention_config config_of(uint32_t nr_threads, int64_t nr_pages)
{
	return (struct contention_config){
		.nr_threads = nr_threads,
		.nr_pages = nr_pages,
		.page_size = 2 << 20,
		.nr_files = 1,
		.seed = 1,
	};
}

/* How often all threads together fault each page. */
static void count_faults(const struct contention_config *config, int *ret_counts)
{
	int64_t *pages = calloc((size_t)config->nr_pages, sizeof(*pages));

	assert_non_null(pages);
	memset(ret_counts, 0, (size_t)config->nr_pages * sizeof(*ret_counts));
	for (uint32_t number = 0; number < config->nr_threads; number++) {
		int64_t nr = contention_schedule(config, number, pages);

		assert_in_range(nr, 0, config->nr_pages);
		for (int64_t i = 0; i < nr; i++) {
			assert_in_range(pages[i], 0, config->nr_pages - 1);
			ret_counts[pages[i]]++;
		}
	}
	free(pages);
}

static void test_each_page_is_one_threads(void **state)
{
	for (uint32_t nr_threads = 1; nr_threads <= 9; nr_threads++) {
		struct contention_config config = config_of(nr_threads, 100);
		int counts[100];

		count_faults(&config, counts);
		for (int i = 0; i < 100; i++)
			assert_int_equal(counts[i], 1);
	}
}

static void test_parts_are_equal(void **state)
{
	struct contention_config config = config_of(7, 100);
	int64_t pages[100];

	for (uint32_t number = 0; number < 7; number++)
		assert_in_range(contention_schedule(&config, number, pages), 14, 15);
}

static void test_same_pages_are_everybodys(void **state)
{
	struct contention_config config = config_of(4, 100);
	int64_t pages[100];
	int counts[100];

	config.same_page = 25;
	count_faults(&config, counts);
	for (int i = 0; i < 100; i++)
		assert_int_equal(counts[i], i < 25 ? 4 : 1);
	/* evenly among its own: 25 and 19 */
	assert_int_equal(contention_schedule(&config, 3, pages), 44);
	for (int i = 0, nr_common = 0; i < 44; i++) {
		nr_common += pages[i] < 25;
		assert_in_range(nr_common + 1, (i + 1) * 25 / 44, (i + 1) * 25 / 44 + 2);
	}
	config.same_page = 100;
	count_faults(&config, counts);
	for (int i = 0; i < 100; i++)
		assert_int_equal(counts[i], 4);
}

static void test_every_page_in_an_order_of_its_own(void **state)
{
	struct contention_config config = config_of(3, 50);
	int64_t one[50], other[50];
	int counts[50];

	config.every_page = true;
	count_faults(&config, counts);
	for (int i = 0; i < 50; i++)
		assert_int_equal(counts[i], 3);
	contention_schedule(&config, 0, one);
	contention_schedule(&config, 1, other);
	assert_memory_not_equal(one, other, sizeof(one));
	contention_schedule(&config, 0, other);
	assert_memory_equal(one, other, sizeof(one));
}

static void test_perfect_parallelism(void **state)
{
	struct contention_config config = config_of(64, 8192);

	config.clear_ns = 4970000;
	assert_float_equal(contention_best_seconds(&config), 128 * 0.00497, 1e-9);
	config.nr_pages = 8193;
	assert_float_equal(contention_best_seconds(&config), 129 * 0.00497, 1e-9);
	config.nr_threads = 1;
	assert_float_equal(contention_best_seconds(&config), 8193 * 0.00497, 1e-9);
}

static void run(const struct contention_config *config, struct contention_result *ret_result)
{
	assert_int_equal(contention_run(config, ret_result), 0);
	assert_true(ret_result->seconds > 0);
	assert_true(ret_result->one_thread_seconds > 0);
}

static void test_one_thread_never_waits(void **state)
{
	struct contention_config config = config_of(1, 200);
	struct contention_result result;

	config.hash = FAULT_HASH_CONSTANT;
	config.clear_ns = 1000;
	run(&config, &result);
	assert_int_equal(result.mutexes.nr_acquisitions, HF_LOCK_STAT ? 200 : 0);
	assert_int_equal(result.mutexes.nr_contentions, 0);
	assert_int_equal(result.busiest, HF_LOCK_STAT ? 200 : 0);
	assert_int_equal(result.nr_faults, 200);
	assert_int_equal(result.outcomes[PAGE_FROM_FREE], 200);
	assert_true(result.seconds >= 200 * 0.5e-6);
}

static void test_two_threads_meet_at_one_mutex(void **state)
{
	struct contention_config config = config_of(2, 200);
	struct contention_result result;

	if (!HF_LOCK_STAT)
		skip();
	config.hash = FAULT_HASH_CONSTANT;
	config.clear_ns = 200000;
	run(&config, &result);
	assert_int_equal(result.mutexes.nr_acquisitions, 200);
	assert_true(result.mutexes.nr_contentions > 0);
	assert_true(result.mutexes.wait_total_ns > 0);
	assert_int_equal(result.busiest, 200);
	/* one at a time, each at least half of what was asked */
	assert_true(result.seconds >= 200 * 100e-6);
}

static void test_an_acquisition_for_each_fault(void **state)
{
	struct contention_result result;

	for (int i = 0; i < 16; i++) {
		struct contention_config config = config_of(4, 400);

		config.private_mappings = i & 1;
		config.reserved = i & 2;
		config.region_lock_global = i & 4;
		config.nr_files = i & 8 ? 7 : 1;
		config.same_page = 50;
		run(&config, &result);
		assert_int_equal(result.nr_faults, 4 * 200 + 200);
		assert_int_equal(result.outcomes[PAGE_PRESENT], 3 * 200);
		assert_int_equal(result.outcomes[config.reserved ? PAGE_FROM_RESERVATION
								 : PAGE_FROM_FREE],
				 400);
		if (HF_LOCK_STAT)
			assert_int_equal(result.mutexes.nr_acquisitions, 1000);
	}
}

static void test_mutexes_are_as_many_as_asked(void **state)
{
	struct contention_config config = config_of(3, 10);
	struct contention_result result;

	config.nr_mutexes = 100;
	run(&config, &result);
	assert_int_equal(result.nr_mutexes, 128);
	config.nr_mutexes = 0;
	config.nr_threads = 4000;
	run(&config, &result);
	assert_int_equal(result.nr_mutexes, fault_mutex_default_count(4000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_page_is_one_threads),
		cmocka_unit_test(test_parts_are_equal),
		cmocka_unit_test(test_same_pages_are_everybodys),
		cmocka_unit_test(test_every_page_in_an_order_of_its_own),
		cmocka_unit_test(test_perfect_parallelism),
		cmocka_unit_test(test_one_thread_never_waits),
		cmocka_unit_test(test_two_threads_meet_at_one_mutex),
		cmocka_unit_test(test_an_acquisition_for_each_fault),
		cmocka_unit_test(test_mutexes_are_as_many_as_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
