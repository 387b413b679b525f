/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Counting faults: threads count as fast as they can, while readers sum up and clear: in every
 * sum the kinds, the outcomes and the histogram are as many, of each node and of the whole.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "fs/fault_stat.h"

#define NR_WRITERS 2
#define NR_NODES   3
#define NR_FAULTS  200000
#define NR_READS   300

struct counting {
	struct fault_stat stats[NR_WRITERS];
	struct fault_stat_base base;
	_Atomic int nr_running;
};

static struct counting counting;

static struct fault_stat *stat_of(void *data, uint32_t number)
{
	struct counting *all = data;

	return &all->stats[number];
}

static void *count(void *data)
{
	struct fault_stat *stat = data;

	for (uint64_t i = 0; i < NR_FAULTS; i++) {
		fault_stat_count(&stat->nr_started);
		fault_stat_end(stat, &counting.base, i % NR_FAULT_KINDS, i % NR_FAULT_OUTCOMES,
			       (int)(i % (NR_NODES + 1)) - 1, i);
	}
	counting.nr_running--;
	return NULL;
}

static uint64_t expect_sums(const struct fault_counts *counts)
{
	uint64_t kinds = 0, outcomes = 0;

	for (int i = 0; i < NR_FAULT_KINDS; i++)
		kinds += counts->kind[i];
	for (int i = 0; i < NR_FAULT_OUTCOMES; i++)
		outcomes += counts->outcome[i];
	assert_int_equal(kinds, outcomes);
	assert_int_equal(kinds, histogram_count(&counts->latency));
	assert_true(counts->latency_total <= kinds * NR_FAULTS);
	return kinds;
}

static uint64_t read_sum(void)
{
	uint64_t nr = 0, age_ns;
	struct fault_sum sum;

	assert_int_equal(
		fault_stat_read(&counting.base, stat_of, &counting, NR_WRITERS, &sum, &age_ns),
		0);
	assert_int_equal(sum.nr_records, NR_NODES + 1);
	for (int i = 0; i < sum.nr_records; i++)
		nr += expect_sums(&sum.records[i]);
	assert_int_equal(expect_sums(&sum.total), nr);
	fault_sum_deinit(&sum);
	return nr;
}

static void set_up_counting(void)
{
	memset(&counting, 0, sizeof(counting));
	assert_int_equal(fault_stat_base_init(&counting.base, NR_NODES), 0);
	for (int i = 0; i < NR_WRITERS; i++)
		assert_int_equal(fault_stat_init(&counting.stats[i], NR_NODES), 0);
}

static void take_down_counting(void)
{
	for (int i = 0; i < NR_WRITERS; i++)
		fault_stat_deinit(&counting.stats[i]);
	fault_stat_base_deinit(&counting.base);
}

static void run_writers(bool clear)
{
	pthread_t threads[NR_WRITERS];
	uint64_t last = 0, now;

	counting.nr_running = NR_WRITERS;
	for (int i = 0; i < NR_WRITERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, count, &counting.stats[i]),
				 0);
	for (int i = 0; i < NR_READS || counting.nr_running > 0; i++) {
		now = read_sum();
		assert_true(clear || now >= last);
		last = now;
		if (clear && i % 7 == 0)
			assert_int_equal(fault_stat_clear(&counting.base, stat_of, &counting,
							  NR_WRITERS),
					 0);
	}
	for (int i = 0; i < NR_WRITERS; i++)
		pthread_join(threads[i], NULL);
}

static void test_sums_add_up(void **state)
{
	set_up_counting();
	run_writers(false);
	assert_int_equal(read_sum(), (uint64_t)NR_WRITERS * NR_FAULTS);
	assert_int_equal(counting.stats[0].nr_ended, counting.stats[0].nr_started);
	take_down_counting();
}

static void test_clearing_meanwhile(void **state)
{
	set_up_counting();
	run_writers(true);
	assert_int_equal(fault_stat_clear(&counting.base, stat_of, &counting, NR_WRITERS), 0);
	assert_int_equal(read_sum(), 0);
	take_down_counting();
}

/* The longest one is of what was counted since, whatever was before. */
static void test_longest_since_cleared(void **state)
{
	struct fault_sum sum;
	uint64_t age_ns;

	set_up_counting();
	fault_stat_end(&counting.stats[0], &counting.base, FAULT_MISSING, FAULT_FREE, 0, 5000);
	assert_int_equal(fault_stat_clear(&counting.base, stat_of, &counting, NR_WRITERS), 0);
	for (uint64_t latency = 0; latency <= 300; latency += 300) {
		if (latency)
			fault_stat_end(&counting.stats[0], &counting.base, FAULT_MISSING,
				       FAULT_FREE, 0, latency);
		assert_int_equal(fault_stat_read(&counting.base, stat_of, &counting, NR_WRITERS,
						 &sum, &age_ns),
				 0);
		assert_int_equal(sum.total.latency.max, latency);
		assert_int_equal(sum.total.latency_total, latency);
		assert_int_equal(sum.records[0].outcome[FAULT_FREE], latency > 0);
		fault_sum_deinit(&sum);
	}
	take_down_counting();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sums_add_up),
		cmocka_unit_test(test_clearing_meanwhile),
		cmocka_unit_test(test_longest_since_cleared),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
