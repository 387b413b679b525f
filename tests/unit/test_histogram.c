/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Latency histogram beside a sorted array of all values. TEST_SEED in the environment repeats a
 * random run.
 */
#include "fs/histogram.h"

#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

static uint64_t random_next(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

static uint64_t start_seed(void)
{
	const char *text = getenv("TEST_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 0) : (uint64_t)time(NULL);

	print_message("TEST_SEED=%" PRIu64 "\n", seed);
	return seed * 2 + 1;
}

static struct histogram *new_histogram(void)
{
	struct histogram *histogram = calloc(1, sizeof(*histogram));

	assert_non_null(histogram);
	return histogram;
}

/* Not below @value, and at most 12.5 % above. */
static void assert_close(uint64_t got, uint64_t value)
{
	if (got < value || got - value > value / 8)
		print_message("got %" PRIu64 " for %" PRIu64 "\n", got, value);
	assert_true(got >= value);
	assert_true(got - value <= value / 8);
}

static int compare_values(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void test_empty(void **state)
{
	struct histogram *histogram = new_histogram();

	assert_int_equal(histogram_count(histogram), 0);
	assert_int_equal(histogram_percentile(histogram, 0), 0);
	assert_int_equal(histogram_percentile(histogram, 50), 0);
	assert_int_equal(histogram_percentile(histogram, 100), 0);
	free(histogram);
}

static void check_value(uint64_t value)
{
	struct histogram *histogram = new_histogram();

	histogram_add(histogram, value);
	assert_int_equal(histogram_count(histogram), 1);
	/* The only one is also the largest, and so exact. */
	for (int percent = 0; percent <= 100; percent += 25)
		assert_true(histogram_percentile(histogram, percent) == value);
	/* It is not when a larger one is there. */
	histogram_add(histogram, UINT64_MAX);
	assert_close(histogram_percentile(histogram, 50), value);
	if (value < 16)
		assert_int_equal(histogram_percentile(histogram, 50), value);
	assert_true(histogram_percentile(histogram, 100) == UINT64_MAX);
	free(histogram);
}

/* Each value alone, at the edges of the buckets above all. Below 16 it is exact. */
static void test_one_value(void **state)
{
	for (uint64_t value = 0; value < 300; value++)
		check_value(value);
	for (int shift = 3; shift < 64; shift++) {
		for (uint64_t eighth = 8; eighth < 16; eighth++) {
			uint64_t bottom = eighth << (shift - 3);

			check_value(bottom - 1);
			check_value(bottom);
			check_value(bottom + 1);
		}
	}
	check_value(UINT64_MAX - 1);
	check_value(UINT64_MAX);
}

/* Which value @percent of @nr do not exceed, from 0. */
static size_t rank_of(size_t nr, double percent)
{
	size_t rank = 0;

	/* In tenths of a thousandth: 99.9 % of 1000 are 999, whatever a double makes of it. */
	while (rank < nr && rank * 1000000 < nr * (size_t)(percent * 10000 + 0.5))
		rank++;
	return rank ? rank - 1 : 0;
}

/* Small sets, where the ranks matter. */
static void test_percentile_of_few(void **state)
{
	static const double percents[] = {0, 1, 10, 25, 33, 50, 60, 67, 75, 90, 99, 99.9, 100};

	for (size_t nr = 1; nr <= 12; nr++) {
		struct histogram *histogram = new_histogram();

		for (size_t i = 0; i < nr; i++)
			histogram_add(histogram, 100ULL << i);
		for (size_t i = 0; i < ARRAY_SIZE(percents); i++) {
			uint64_t got = histogram_percentile(histogram, percents[i]);

			assert_close(got, 100ULL << rank_of(nr, percents[i]));
		}
		free(histogram);
	}
}

static uint64_t random_value(uint64_t *seed, int distribution)
{
	uint64_t value = random_next(seed);

	switch (distribution) {
	case 0:
		return value % 20; /* the exact buckets */
	case 1:
		return 100000 + value % 1000; /* all in one or two */
	case 2:
		return value >> (random_next(seed) % 64); /* all magnitudes */
	default:
		return value % 1000 == 0 ? 5000000 : 8000 + value % 4000; /* a long tail */
	}
}

static void test_percentiles_beside_a_sorted_array(void **state)
{
	static const double percents[] = {0, 0.1, 1, 10, 50, 90, 99, 99.9, 99.99, 100};
	enum {
		NR_VALUES = 20000
	};
	uint64_t *values = calloc(NR_VALUES, sizeof(*values)), seed = start_seed();

	assert_non_null(values);
	for (int distribution = 0; distribution < 4; distribution++) {
		struct histogram *histogram = new_histogram();

		for (size_t i = 0; i < NR_VALUES; i++) {
			values[i] = random_value(&seed, distribution);
			histogram_add(histogram, values[i]);
		}
		qsort(values, NR_VALUES, sizeof(*values), compare_values);
		assert_int_equal(histogram_count(histogram), NR_VALUES);
		for (size_t i = 0; i < ARRAY_SIZE(percents); i++)
			assert_close(histogram_percentile(histogram, percents[i]),
				     values[rank_of(NR_VALUES, percents[i])]);
		assert_true(histogram_percentile(histogram, 100) == values[NR_VALUES - 1]);
		free(histogram);
	}
	free(values);
}

/* Two threads' sum is what one would have counted. */
static void test_sum(void **state)
{
	struct histogram *parts[2] = {new_histogram(), new_histogram()};
	struct histogram *all = new_histogram(), *sum = new_histogram();
	uint64_t seed = start_seed();

	for (int i = 0; i < 5000; i++) {
		uint64_t value = random_value(&seed, 2);

		histogram_add(parts[i % 3 == 0], value);
		histogram_add(all, value);
	}
	histogram_sum(sum, parts[0]);
	histogram_sum(sum, parts[1]);
	assert_memory_equal(sum, all, sizeof(*sum));
	free(parts[0]);
	free(parts[1]);
	free(all);
	free(sum);
}

/* What was counted since: the base's values are gone. */
static void test_subtract(void **state)
{
	struct histogram *histogram = new_histogram(), *base = new_histogram();

	for (int i = 0; i < 1000; i++)
		histogram_add(histogram, 1000000);
	histogram_sum(base, histogram);
	for (uint64_t i = 1; i <= 100; i++)
		histogram_add(histogram, i * 10);
	histogram_subtract(histogram, base);
	assert_int_equal(histogram_count(histogram), 100);
	assert_close(histogram_percentile(histogram, 50), 500);
	assert_close(histogram_percentile(histogram, 99), 990);
	/* Not the maximum of what was subtracted. */
	assert_close(histogram_percentile(histogram, 100), 1000);
	histogram_sum(base, histogram);
	histogram_subtract(base, base);
	assert_int_equal(histogram_count(base), 0);
	assert_int_equal(histogram_percentile(base, 99), 0);
	free(histogram);
	free(base);
}

enum {
	NR_COUNTED = 300000
};

static void *count_thread(void *data)
{
	for (uint64_t i = 0; i < NR_COUNTED; i++)
		histogram_add(data, i % 1000);
	return NULL;
}

/*
 *	writer				reader
 *	counts 998
 *					sums: a count that is half written,
 *					or more than there are
 *	counts 999
 */
static void test_reading_while_counting(void **state)
{
	struct histogram *histogram = new_histogram();
	uint64_t before = 0, count;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, count_thread, histogram), 0);
	do {
		struct histogram *sum = new_histogram();

		histogram_sum(sum, histogram);
		count = histogram_count(sum);
		assert_in_range(count, before, NR_COUNTED);
		assert_in_range(histogram_percentile(sum, 100), 0, 999);
		before = count;
		free(sum);
	} while (count < NR_COUNTED);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_close(histogram_percentile(histogram, 50), 499);
	free(histogram);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_one_value),
		cmocka_unit_test(test_percentile_of_few),
		cmocka_unit_test(test_percentiles_beside_a_sorted_array),
		cmocka_unit_test(test_sum),
		cmocka_unit_test(test_subtract),
		cmocka_unit_test(test_reading_while_counting),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
