/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The fault mutex table and the hash that selects from it.
 *
 * The table does not change after init, so that looking up a mutex takes no lock. Two keys may
 * share a mutex; that costs time only, as long as nobody wants two of them at once, which the
 * lock order forbids.
 */
#include "fs/fault_mutex.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define MAX_MUTEXES     (1U << 20)
#define DEFAULT_MUTEXES 1024U
#define MUTEXES_PER_CPU 128U /* docs/contention.md derives it */

#define JHASH_INITVAL 0xdeadbeefU

static uint32_t rotate_left(uint32_t word, unsigned int nr_bits)
{
	return (word << nr_bits) | (word >> (32 - nr_bits));
}

static void mix_step(uint32_t *x, uint32_t y, uint32_t *z, unsigned int nr_bits)
{
	*x -= *z;
	*x ^= rotate_left(*z, nr_bits);
	*z += y;
}

static void final_step(uint32_t *x, uint32_t y, unsigned int nr_bits)
{
	*x ^= y;
	*x -= rotate_left(y, nr_bits);
}

/* hashword() of Bob Jenkins' lookup3.c (May 2006, public domain). */
uint32_t jhash2(const uint32_t *words, uint32_t nr_words, uint32_t initval)
{
	uint32_t a = JHASH_INITVAL + (nr_words << 2) + initval;
	uint32_t b = a, c = a;

	if (nr_words == 0)
		return c;

	for (; nr_words > 3; nr_words -= 3, words += 3) {
		a += words[0];
		b += words[1];
		c += words[2];
		mix_step(&a, b, &c, 4);
		mix_step(&b, c, &a, 6);
		mix_step(&c, a, &b, 8);
		mix_step(&a, b, &c, 16);
		mix_step(&b, c, &a, 19);
		mix_step(&c, a, &b, 4);
	}

	a += words[0];
	b += nr_words > 1 ? words[1] : 0;
	c += nr_words > 2 ? words[2] : 0;
	final_step(&c, b, 14);
	final_step(&a, c, 11);
	final_step(&b, a, 25);
	final_step(&c, b, 16);
	final_step(&a, c, 4);
	final_step(&b, a, 14);
	final_step(&c, b, 24);
	return c;
}

/* @nr, at most 2^31, rounded up to a power of two. */
static uint32_t round_up_to_power_of_two(uint32_t nr)
{
	uint32_t power = 1;

	while (power < nr)
		power <<= 1;
	return power;
}

uint32_t fault_mutex_default_count(unsigned int nr_cpus)
{
	if (nr_cpus <= DEFAULT_MUTEXES / MUTEXES_PER_CPU)
		return DEFAULT_MUTEXES;
	/* What this returns is always good for fault_mutex_table_init(). */
	if (nr_cpus >= MAX_MUTEXES / MUTEXES_PER_CPU)
		return MAX_MUTEXES;
	return round_up_to_power_of_two(nr_cpus * MUTEXES_PER_CPU);
}

/* The CPUs that there may ever be, as num_possible_cpus(). */
static unsigned int count_cpus(void)
{
	long nr_cpus = sysconf(_SC_NPROCESSORS_CONF);

	return nr_cpus > 0 ? (unsigned int)nr_cpus : 1;
}

int fault_mutex_table_init(struct fault_mutex_table *table, uint32_t nr_mutexes,
			   enum fault_hash hash)
{
	struct mutex *mutexes;

	if (nr_mutexes > MAX_MUTEXES)
		return -EINVAL;
	nr_mutexes = nr_mutexes == 0 ? fault_mutex_default_count(count_cpus())
				     : round_up_to_power_of_two(nr_mutexes);

	mutexes = aligned_alloc(_Alignof(struct mutex), nr_mutexes * sizeof(*mutexes));
	if (!mutexes)
		return -ENOMEM;
	for (uint32_t i = 0; i < nr_mutexes; i++)
		mutex_init(&mutexes[i], LOCK_RANK_FAULT_MUTEX);

	*table = (struct fault_mutex_table){
		.mutexes = mutexes,
		.nr_mutexes = nr_mutexes,
		.hash = hash,
	};
	return 0;
}

void fault_mutex_table_deinit(struct fault_mutex_table *table)
{
	if (!table)
		return;
	for (uint32_t i = 0; i < table->nr_mutexes; i++)
		mutex_deinit(&table->mutexes[i]);
	free(table->mutexes);
	*table = (struct fault_mutex_table){0};
}

uint32_t fault_mutex_index(const struct fault_mutex_table *table, struct fault_key key)
{
	const uint32_t words[] = {
		(uint32_t)key.object,
		(uint32_t)(key.object >> 32),
		(uint32_t)key.idx,
		(uint32_t)(key.idx >> 32),
	};
	uint32_t mask = table->nr_mutexes - 1;

	switch (table->hash) {
	case FAULT_HASH_JHASH2:
		return jhash2(words, sizeof(words) / sizeof(words[0]), 0) & mask;
	case FAULT_HASH_LOW_BITS:
		return (uint32_t)key.idx & mask;
	case FAULT_HASH_CONSTANT:
		return 0;
	}
	assert(!"a hash that is not in enum fault_hash");
	return 0;
}

struct mutex *fault_mutex_lock(struct fault_mutex_table *table, struct fault_key key)
{
	struct mutex *mutex = &table->mutexes[fault_mutex_index(table, key)];

	mutex_lock(mutex);
	return mutex;
}

struct mutex *fault_mutex_trylock(struct fault_mutex_table *table, struct fault_key key)
{
	struct mutex *mutex = &table->mutexes[fault_mutex_index(table, key)];

	return mutex_trylock(mutex) ? mutex : NULL;
}
