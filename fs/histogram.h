/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Latency histogram in the manner of HdrHistogram: powers of two divided into eight, so that a
 * percentile is at most 12.5 % off. One writer, any number of readers.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#define HISTOGRAM_BUCKETS (62 * 8)

struct histogram {
	_Atomic uint64_t bucket[HISTOGRAM_BUCKETS]; /* atomic; one writer */
	_Atomic uint64_t max;
};

/* Count @value. Only the histogram's one writer calls this. */
void histogram_add(struct histogram *histogram, uint64_t value);
/* Add what @from holds to @sum, which nobody else uses. */
void histogram_sum(struct histogram *sum, const struct histogram *from);
/* Take what @base holds out of @sum. */
void histogram_subtract(struct histogram *sum, const struct histogram *base);
uint64_t histogram_count(const struct histogram *histogram);
/* How many are in buckets that end at or below @value: exact for a power of two less one. */
uint64_t histogram_count_to(const struct histogram *histogram, uint64_t value);
/* The value that @percent of all values do not exceed, 0 where there is none. */
uint64_t histogram_percentile(const struct histogram *histogram, double percent);
