/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Latency histogram. Values below 8 have a bucket each; the others one for each eighth of a
 * power of two. */
#include "fs/histogram.h"

static uint32_t bucket_of(uint64_t value)
{
	uint32_t log, index;

	if (value < 8)
		return (uint32_t)value;
	log = 63 - (uint32_t)__builtin_clzll(value);
	index = (log - 2) * 8 + (uint32_t)((value >> (log - 3)) & 7);
	return index < HISTOGRAM_BUCKETS ? index : HISTOGRAM_BUCKETS - 1;
}

/* The largest value of a bucket. */
static uint64_t bucket_top(uint32_t index)
{
	uint32_t log = index / 8 + 2;

	if (index < 8)
		return index;
	return ((8 + (uint64_t)(index & 7) + 1) << (log - 3)) - 1;
}

/* A release, so that who reads it sees what was written before (fs/fault_stat.c). */
static void add(_Atomic uint64_t *counter, uint64_t value)
{
	atomic_store_explicit(counter,
			      atomic_load_explicit(counter, memory_order_relaxed) + value,
			      memory_order_release);
}

void histogram_add(struct histogram *histogram, uint64_t value)
{
	add(&histogram->bucket[bucket_of(value)], 1);
	if (value > atomic_load_explicit(&histogram->max, memory_order_relaxed))
		atomic_store_explicit(&histogram->max, value, memory_order_release);
}

void histogram_sum(struct histogram *sum, const struct histogram *from)
{
	uint64_t max = from->max;

	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
		sum->bucket[i] += from->bucket[i];
	if (max > sum->max)
		sum->max = max;
}

void histogram_subtract(struct histogram *sum, const struct histogram *base)
{
	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
		sum->bucket[i] -= base->bucket[i];
}

uint64_t histogram_count(const struct histogram *histogram)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
		count += histogram->bucket[i];
	return count;
}

uint64_t histogram_count_to(const struct histogram *histogram, uint64_t value)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS && bucket_top(i) <= value; i++)
		count += histogram->bucket[i];
	return count;
}

uint64_t histogram_percentile(const struct histogram *histogram, double percent)
{
	uint64_t count = histogram_count(histogram), seen = 0, top;
	double wanted = (double)count * percent / 100.0;
	uint64_t rank = (uint64_t)wanted;

	if (count == 0)
		return 0;
	/* Rounded up, but for what is a whole number if one could write it in binary. */
	if (rank < 1 || wanted - (double)rank > wanted * 1e-12)
		rank++;
	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
		seen += histogram->bucket[i];
		if (seen >= rank) {
			top = bucket_top(i);
			return top < histogram->max ? top : histogram->max;
		}
	}
	return histogram->max;
}
