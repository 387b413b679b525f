/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fault mutex table: the hash against numbers that were computed elsewhere, the table's size
 * and layout, which keys share a mutex, and that a mutex of the table excludes.
 */
#include "fs/fault_mutex.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

/*
 * From a transcription of lookup3.c's hashlittle() into Python, which gives the values that
 * lookup3.c publishes ("Four score and seven years ago" with 0 and 1: 0x17770551, 0xcd628161).
 * Word i is (i + 1) * 0x9e3779b9; a row per number of words, a column per initval.
 */
static const uint32_t vector_initvals[] = {0, 1, 0xdeadbeef, 0xffffffff};
static const uint32_t vectors[][ARRAY_SIZE(vector_initvals)] = {
	{0xdeadbeef, 0xdeadbef0, 0xbd5b7dde, 0xdeadbeee},
	{0x5ae9ac0c, 0x293ad9b4, 0x3b708079, 0xac844d50},
	{0x5863e4fa, 0x85fe9ab4, 0x5de6173a, 0x377d1266},
	{0x6e07dba2, 0x3457ec6a, 0xeb8903a1, 0x052aa10f},
	{0x2246cc06, 0x53a56bb4, 0x2597b2e6, 0xd937ea7b},
	{0xdfe677a7, 0x24744f0d, 0x9ca8156e, 0xa5cda110},
	{0xcfa5b220, 0x3af975a3, 0xdfcd1f39, 0xe3de94a5},
	{0xdf1e7751, 0x15b90b8f, 0x3a08ce90, 0xc944238b},
	{0xb5860532, 0x74b5f45e, 0xd2aedf1b, 0xed68da15},
};

static void test_jhash2_gives_the_numbers_of_lookup3(void **state)
{
	uint32_t words[ARRAY_SIZE(vectors)];

	for (uint32_t i = 0; i < ARRAY_SIZE(words); i++)
		words[i] = (i + 1) * 0x9e3779b9U;
	for (uint32_t nr = 0; nr < ARRAY_SIZE(vectors); nr++) {
		for (size_t i = 0; i < ARRAY_SIZE(vector_initvals); i++)
			assert_int_equal(jhash2(words, nr, vector_initvals[i]), vectors[nr][i]);
	}
}

static void test_jhash2_reads_no_word_too_many(void **state)
{
	/* On the heap, so that the address sanitizer sees it; and no words need no address. */
	for (uint32_t nr = 1; nr <= 8; nr++) {
		uint32_t *words = calloc(nr, sizeof(*words));

		assert_non_null(words);
		assert_int_equal(jhash2(words, nr, 7), jhash2(words, nr, 7));
		free(words);
	}
	assert_int_equal(jhash2(NULL, 0, 0), 0xdeadbeef);
}

static void test_default_count_is_128_per_cpu(void **state)
{
	static const struct {
		unsigned int nr_cpus;
		uint32_t expected;
	} cases[] = {
		{0, 1024},
		{1, 1024},
		{2, 1024},
		{7, 1024},
		{8, 1024},
		{9, 2048},
		{16, 2048},
		{17, 4096},
		{64, 8192},
		{4096, 1 << 19},
		{4097, 1 << 20},
		{8191, 1 << 20},
		{8192, 1 << 20},
		{8193, 1 << 20},
		{1 << 25, 1 << 20},
		{1 << 29, 1 << 20},
		{(1U << 31) + 1, 1 << 20},
		{~0U, 1 << 20},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(fault_mutex_default_count(cases[i].nr_cpus),
				 cases[i].expected);
}

static void test_table_is_rounded_up(void **state)
{
	static const uint32_t cases[][2] = {
		{1, 1},
		{2, 2},
		{3, 4},
		{4, 4},
		{5, 8},
		{1023, 1024},
		{1025, 2048},
		{600000, 1 << 20},
		{1 << 20, 1 << 20},
	};
	struct fault_mutex_table table;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(fault_mutex_table_init(&table, cases[i][0], FAULT_HASH_JHASH2),
				 0);
		assert_int_equal(table.nr_mutexes, cases[i][1]);
		fault_mutex_table_deinit(&table);
	}

	assert_int_equal(fault_mutex_table_init(&table, 0, FAULT_HASH_JHASH2), 0);
	assert_int_equal(table.nr_mutexes, fault_mutex_default_count((unsigned int)sysconf(
						   _SC_NPROCESSORS_CONF)));
	fault_mutex_table_deinit(&table);
}

static void test_table_has_a_limit(void **state)
{
	struct fault_mutex_table table, untouched;

	memset(&table, 0x5a, sizeof(table));
	memcpy(&untouched, &table, sizeof(table));
	assert_int_equal(fault_mutex_table_init(&table, (1 << 20) + 1, FAULT_HASH_JHASH2),
			 -EINVAL);
	assert_int_equal(fault_mutex_table_init(&table, UINT32_MAX, FAULT_HASH_JHASH2),
			 -EINVAL);
	assert_memory_equal(&table, &untouched, sizeof(table));
}

static void test_deinit_takes_nothing_and_twice(void **state)
{
	struct fault_mutex_table table;

	fault_mutex_table_deinit(NULL);
	assert_int_equal(fault_mutex_table_init(&table, 4, FAULT_HASH_CONSTANT), 0);
	fault_mutex_table_deinit(&table);
	assert_null(table.mutexes);
	fault_mutex_table_deinit(&table);
}

static void test_mutexes_share_no_cache_line(void **state)
{
	struct fault_mutex_table table;

	assert_int_equal(sizeof(struct mutex) % 64, 0);
	for (uint32_t nr = 1; nr <= 4096; nr *= 2) {
		assert_int_equal(fault_mutex_table_init(&table, nr, FAULT_HASH_JHASH2), 0);
		for (uint32_t i = 0; i < nr; i++)
			assert_int_equal((uintptr_t)&table.mutexes[i] % 64, 0);
		fault_mutex_table_deinit(&table);
	}
}

static void test_index_is_the_hash_of_both_words(void **state)
{
	/* Computed as the vectors above. */
	static const struct {
		struct fault_key key;
		uint32_t hash;
	} cases[] = {
		{{2, 0}, 0x82995c6f},
		{{2, 1}, 0x2f411ff8},
		{{3, 0}, 0x7f88dd9b},
		{{0x8000000000000007, 0x7f1234567}, 0xa4ac005c},
		{{UINT64_MAX, UINT64_MAX}, 0x9d82926f},
	};

	for (uint32_t nr = 1; nr <= 1 << 16; nr *= 16) {
		struct fault_mutex_table table;

		assert_int_equal(fault_mutex_table_init(&table, nr, FAULT_HASH_JHASH2), 0);
		for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
			assert_int_equal(fault_mutex_index(&table, cases[i].key),
					 cases[i].hash & (nr - 1));
		fault_mutex_table_deinit(&table);
	}
}

static void test_hashes_for_comparison(void **state)
{
	struct fault_mutex_table table;

	assert_int_equal(fault_mutex_table_init(&table, 256, FAULT_HASH_LOW_BITS), 0);
	for (uint64_t idx = 0; idx < 1024; idx++) {
		assert_int_equal(fault_mutex_index(&table, (struct fault_key){5, idx}),
				 idx & 255);
		assert_int_equal(fault_mutex_index(&table, (struct fault_key){6, idx}),
				 idx & 255);
	}
	fault_mutex_table_deinit(&table);

	assert_int_equal(fault_mutex_table_init(&table, 256, FAULT_HASH_CONSTANT), 0);
	for (uint64_t idx = 0; idx < 1024; idx++)
		assert_int_equal(fault_mutex_index(&table, (struct fault_key){idx, idx}), 0);
	fault_mutex_table_deinit(&table);
}

/*
 * What the table is for: files that are touched page after page use all of it. Chi-square with
 * 1023 degrees of freedom has mean 1023 and deviation 45; the limits are five of them, and the
 * keys are the same ones in every run.
 */
static void test_sequential_pages_use_the_whole_table(void **state)
{
	enum {
		NR_FILES = 16,
		NR_PAGES = 4096,
		NR_MUTEXES = 1024
	};
	const double expected = (double)NR_FILES * NR_PAGES / NR_MUTEXES;
	static unsigned int nr_keys[NR_MUTEXES];
	struct fault_mutex_table table;
	double chi_square = 0;

	assert_int_equal(fault_mutex_table_init(&table, NR_MUTEXES, FAULT_HASH_JHASH2), 0);
	for (uint64_t object = 2; object < 2 + NR_FILES; object++) {
		for (uint64_t idx = 0; idx < NR_PAGES; idx++)
			nr_keys[fault_mutex_index(&table, (struct fault_key){object, idx})]++;
	}
	for (unsigned int i = 0; i < NR_MUTEXES; i++) {
		assert_int_not_equal(nr_keys[i], 0);
		chi_square += (nr_keys[i] - expected) * (nr_keys[i] - expected) / expected;
	}
	print_message("chi-square %.1f for 1023 degrees of freedom\n", chi_square);
	assert_true(chi_square > 1023 - 5 * 45 && chi_square < 1023 + 5 * 45);
	fault_mutex_table_deinit(&table);
}

struct try_key {
	struct fault_mutex_table *table;
	struct fault_key key;
	bool locked;
};

static void *try_thread(void *data)
{
	struct try_key *try = data;
	struct mutex *mutex = fault_mutex_trylock(try->table, try->key);

	try->locked = mutex;
	if (mutex)
		mutex_unlock(mutex);
	return NULL;
}

static bool other_thread_gets(struct fault_mutex_table *table, struct fault_key key)
{
	struct try_key try = {.table = table, .key = key};
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, try_thread, &try), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	return try.locked;
}

static void test_same_key_same_mutex(void **state)
{
	const struct fault_key key = {2, 0}, other = {2, 1}; /* 0x6f and 0x3f8 of 1024 */
	struct fault_mutex_table table;
	struct mutex *mutex;

	assert_int_equal(fault_mutex_table_init(&table, 1024, FAULT_HASH_JHASH2), 0);

	mutex = fault_mutex_lock(&table, key);
	assert_ptr_equal(mutex, &table.mutexes[fault_mutex_index(&table, key)]);
	assert_false(other_thread_gets(&table, key));
	assert_true(other_thread_gets(&table, other));
	mutex_unlock(mutex);

	assert_true(other_thread_gets(&table, key));
	mutex = fault_mutex_trylock(&table, key);
	assert_ptr_equal(mutex, &table.mutexes[fault_mutex_index(&table, key)]);
	assert_false(other_thread_gets(&table, key));
	mutex_unlock(mutex);

	fault_mutex_table_deinit(&table);
}

enum {
	NR_THREADS = 4,
	NR_KEYS = 64,
	NR_ROUNDS = 20000
};

struct hammer {
	struct fault_mutex_table table;
	unsigned int nr_faults[NR_KEYS]; /* the key's fault mutex */
};

/* Threads fault the same pages, in the same order: a lost update means two were inside. */
static void *hammer_thread(void *data)
{
	struct hammer *hammer = data;

	for (uint64_t i = 0; i < NR_ROUNDS; i++) {
		struct fault_key key = {7, i % NR_KEYS};
		struct mutex *mutex = fault_mutex_lock(&hammer->table, key);

		hammer->nr_faults[key.idx]++;
		mutex_unlock(mutex);
	}
	return NULL;
}

static void check_exclusion(uint32_t nr_mutexes, enum fault_hash hash)
{
	static struct hammer hammer;
	pthread_t threads[NR_THREADS];
	unsigned int nr_faults = 0;

	memset(&hammer, 0, sizeof(hammer));
	assert_int_equal(fault_mutex_table_init(&hammer.table, nr_mutexes, hash), 0);
	for (size_t i = 0; i < NR_THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, hammer_thread, &hammer), 0);
	for (size_t i = 0; i < NR_THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	for (size_t i = 0; i < NR_KEYS; i++)
		nr_faults += hammer.nr_faults[i];
	assert_int_equal(nr_faults, NR_THREADS * NR_ROUNDS);
	fault_mutex_table_deinit(&hammer.table);
}

static void test_mutexes_exclude(void **state)
{
	check_exclusion(0, FAULT_HASH_JHASH2);
	check_exclusion(4, FAULT_HASH_JHASH2);
	check_exclusion(1, FAULT_HASH_JHASH2);
	check_exclusion(16, FAULT_HASH_LOW_BITS);
	check_exclusion(16, FAULT_HASH_CONSTANT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_jhash2_gives_the_numbers_of_lookup3),
		cmocka_unit_test(test_jhash2_reads_no_word_too_many),
		cmocka_unit_test(test_default_count_is_128_per_cpu),
		cmocka_unit_test(test_table_is_rounded_up),
		cmocka_unit_test(test_table_has_a_limit),
		cmocka_unit_test(test_deinit_takes_nothing_and_twice),
		cmocka_unit_test(test_mutexes_share_no_cache_line),
		cmocka_unit_test(test_index_is_the_hash_of_both_words),
		cmocka_unit_test(test_hashes_for_comparison),
		cmocka_unit_test(test_sequential_pages_use_the_whole_table),
		cmocka_unit_test(test_same_key_same_mutex),
		cmocka_unit_test(test_mutexes_exclude),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
