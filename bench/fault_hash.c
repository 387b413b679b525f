/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How evenly each hash spreads pages over the fault mutexes: for 1, 16 and 1024 files with
 * inode numbers in a row, whose pages are touched in order, in strides of 2^k and at random.
 *
 * NR_KEYS_PER_MUTEX pages for each mutex are entered. Shown are: of the first pages, as many as
 * there are mutexes, those that find their mutex taken by an earlier one (a random function
 * leaves a mutex empty with probability 1/e, so that 36.8 % collide); the busiest mutex's
 * pages over the mean; and chi-square over its degrees of freedom, with how many standard
 * deviations that is from 1. Negative: more even than at random.
 */
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/contention_options.h"
#include "fs/fault_mutex.h"
#include "fs/memparse.h"

enum {
	NR_KEYS_PER_MUTEX = 64,
	FIRST_INODE = 2,
	RANDOM = -1, /* instead of a stride's exponent */
};

static const uint32_t file_counts[] = {1, 16, 1024};
static const int exponents[] = {0, 1, 4, 9, 12, 20, RANDOM};

struct quality {
	double collisions; /* percent */
	double busiest;    /* times the mean */
	double chi_square; /* over the degrees of freedom */
	double deviations; /* of chi_square from what is expected */
};

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static struct fault_key make_key(uint64_t i, uint32_t nr_files, int exponent, uint64_t *state)
{
	uint64_t idx = i / nr_files;

	idx = exponent == RANDOM ? next_random(state) % (1ULL << 32) : idx << exponent;
	return (struct fault_key){FIRST_INODE + i % nr_files, idx};
}

static void measure(const struct fault_mutex_table *table, uint32_t nr_files, int exponent,
		    struct quality *ret_quality)
{
	uint64_t nr = table->nr_mutexes, state = 88172645463325252ULL;
	uint32_t *counts = calloc(nr, sizeof(*counts));
	uint32_t most = 0, nr_collisions = 0;
	double chi_square = 0, freedom = (double)nr - 1;

	if (!counts)
		abort();
	for (uint64_t i = 0; i < NR_KEYS_PER_MUTEX * nr; i++) {
		uint32_t at = fault_mutex_index(table, make_key(i, nr_files, exponent, &state));

		nr_collisions += i < nr && counts[at] > 0;
		counts[at]++;
	}
	for (uint64_t i = 0; i < nr; i++) {
		double more = (double)counts[i] - NR_KEYS_PER_MUTEX;

		chi_square += more * more / NR_KEYS_PER_MUTEX;
		most = counts[i] > most ? counts[i] : most;
	}
	free(counts);
	*ret_quality = (struct quality){
		.collisions = 100.0 * nr_collisions / (double)nr,
		.busiest = (double)most / NR_KEYS_PER_MUTEX,
		.chi_square = chi_square / freedom,
		.deviations = (chi_square - freedom) / sqrt(2 * freedom),
	};
}

static void order_name(int exponent, char *name, size_t bytes)
{
	if (exponent == RANDOM)
		snprintf(name, bytes, "at random");
	else if (exponent == 0)
		snprintf(name, bytes, "in order");
	else
		snprintf(name, bytes, "stride 2^%d", exponent);
}

static void print_row(bool json, bool first, enum fault_hash hash, uint32_t nr_files,
		      int exponent, const struct quality *quality)
{
	char order[32];

	order_name(exponent, order, sizeof(order));
	if (json)
		printf("%s\n  {\"hash\": \"%s\", \"files\": %" PRIu32 ", \"order\": \"%s\", "
		       "\"collisions_percent\": %.2f, \"busiest\": %.3f, "
		       "\"chi_square\": %.4f, \"deviations\": %.2f}",
		       first ? "" : ",", contention_hash_name(hash), nr_files, order,
		       quality->collisions, quality->busiest, quality->chi_square,
		       quality->deviations);
	else
		printf("%-9s %6" PRIu32 "  %-12s %10.1f %% %10.2f %12.3f %12.1f\n",
		       contention_hash_name(hash), nr_files, order, quality->collisions,
		       quality->busiest, quality->chi_square, quality->deviations);
}

static void print_all(uint32_t nr_mutexes, bool json)
{
	struct fault_mutex_table table;
	struct quality quality;

	for (int hash = FAULT_HASH_JHASH2; hash <= FAULT_HASH_CONSTANT; hash++) {
		if (fault_mutex_table_init(&table, nr_mutexes, (enum fault_hash)hash) < 0)
			abort();
		for (size_t i = 0; i < sizeof(file_counts) / sizeof(file_counts[0]); i++) {
			for (size_t k = 0; k < sizeof(exponents) / sizeof(exponents[0]); k++) {
				measure(&table, file_counts[i], exponents[k], &quality);
				print_row(json, hash == 0 && i + k == 0, table.hash,
					  file_counts[i], exponents[k], &quality);
			}
		}
		fault_mutex_table_deinit(&table);
	}
}

int main(int argc, char **argv)
{
	bool json = argc > 1 && strcmp(argv[1], "--json") == 0;
	uint64_t nr_mutexes = 1024;

	if (argc > 2 + json || (argc > 1 + json && memparse_number(argv[1 + json], 10, 2,
								   1 << 20, &nr_mutexes) < 0)) {
		fprintf(stderr, "usage: fault_hash [--json] [MUTEXES]\n");
		return 2;
	}
	if (json)
		printf("{\"schema\": 1, \"bench\": \"fault_hash\", \"fault_mutexes\": %" PRIu64
		       ", \"results\": [",
		       nr_mutexes);
	else
		printf("%-9s %6s  %-12s %12s %10s %12s %12s\n", "hash", "files", "pages",
		       "collisions", "busiest", "chi-square", "deviations");
	print_all((uint32_t)nr_mutexes, json);
	if (json)
		printf("\n]}\n");
	return 0;
}
