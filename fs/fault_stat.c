/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Counting faults. The writer makes a record's sequence odd, changes it, and makes it even; a
 * reader copies it until it finds the same even number before and after. All stores are
 * releases and all loads acquires, so that a reader that sees a part of a change sees the odd
 * number, too.
 */
#include "fs/fault_stat.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "fs/clock.h"

/* The bounds that are printed of the histogram: powers of two from a microsecond on. */
#define FIRST_BOUND_LOG 10
#define LAST_BOUND_LOG  36

static struct fault_record *new_records(int nr)
{
	size_t size = sizeof(struct fault_record) * (size_t)nr;
	struct fault_record *records = aligned_alloc(_Alignof(struct fault_record), size);

	if (records)
		memset(records, 0, size);
	return records;
}

int fault_stat_init(struct fault_stat *stat, int nr_nodes)
{
	stat->nr_records = nr_nodes + 1;
	stat->records = new_records(stat->nr_records);
	return stat->records ? 0 : -ENOMEM;
}

void fault_stat_deinit(struct fault_stat *stat)
{
	free(stat->records);
	stat->records = NULL;
}

static void add(_Atomic uint64_t *counter, uint64_t value)
{
	atomic_store_explicit(counter,
			      atomic_load_explicit(counter, memory_order_relaxed) + value,
			      memory_order_release);
}

void fault_stat_end(struct fault_stat *stat, const struct fault_stat_base *base,
		    enum fault_kind kind, enum fault_outcome outcome, int node,
		    uint64_t latency_ns)
{
	struct fault_record *record = &stat->records[node < 0 ? stat->nr_records - 1 : node];
	uint32_t sequence = atomic_load_explicit(&record->sequence, memory_order_relaxed);
	uint32_t epoch = atomic_load_explicit(&base->epoch, memory_order_acquire);

	atomic_store_explicit(&record->sequence, sequence + 1, memory_order_relaxed);
	if (atomic_load_explicit(&record->epoch, memory_order_relaxed) != epoch) {
		atomic_store_explicit(&record->counts.latency.max, 0, memory_order_release);
		atomic_store_explicit(&record->epoch, epoch, memory_order_release);
	}
	add(&record->counts.kind[kind], 1);
	add(&record->counts.outcome[outcome], 1);
	add(&record->counts.latency_total, latency_ns);
	histogram_add(&record->counts.latency, latency_ns);
	atomic_store_explicit(&record->sequence, sequence + 2, memory_order_release);
	fault_stat_count(&stat->nr_ended);
}

/* Counters are arrays of 64-bit words, whatever they are called. */
#define NR_WORDS (sizeof(struct fault_counts) / sizeof(uint64_t))

static void load_counts(uint64_t *words, const struct fault_counts *counts)
{
	const _Atomic uint64_t *from = &counts->kind[0];

	for (size_t i = 0; i < NR_WORDS; i++)
		words[i] = atomic_load_explicit(&from[i], memory_order_acquire);
}

static void read_record(const struct fault_record *record, uint64_t *words, uint32_t *ret_epoch)
{
	uint32_t before, after;

	do {
		before = atomic_load_explicit(&record->sequence, memory_order_acquire);
		load_counts(words, &record->counts);
		*ret_epoch = atomic_load_explicit(&record->epoch, memory_order_acquire);
		after = atomic_load_explicit(&record->sequence, memory_order_relaxed);
	} while (before != after || before % 2 != 0);
}

static void add_words(struct fault_counts *sum, const uint64_t *words, uint64_t max)
{
	_Atomic uint64_t *to = &sum->kind[0];
	uint64_t before = atomic_load_explicit(&sum->latency.max, memory_order_relaxed);

	for (size_t i = 0; i < NR_WORDS; i++)
		add(&to[i], words[i]);
	atomic_store_explicit(&sum->latency.max, max > before ? max : before,
			      memory_order_relaxed);
}

static int sum_init(struct fault_sum *sum, int nr_records)
{
	*sum = (struct fault_sum){.nr_records = nr_records};
	sum->records = calloc((size_t)nr_records, sizeof(*sum->records));
	return sum->records ? 0 : -ENOMEM;
}

void fault_sum_deinit(struct fault_sum *sum)
{
	free(sum->records);
	sum->records = NULL;
}

static void add_stat(struct fault_sum *sum, const struct fault_stat *stat, uint32_t epoch)
{
	uint64_t words[NR_WORDS], max;
	uint32_t of;

	sum->nr_ahead += atomic_load_explicit(&stat->nr_ahead, memory_order_acquire);
	sum->nr_events += atomic_load_explicit(&stat->nr_events, memory_order_acquire);
	for (int i = 0; i < sum->nr_records; i++) {
		read_record(&stat->records[i], words, &of);
		max = of == epoch ? words[NR_WORDS - 1] : 0;
		add_words(&sum->records[i], words, max);
	}
}

_Static_assert(offsetof(struct fault_counts, latency.max) == (NR_WORDS - 1) * sizeof(uint64_t),
	       "the maximum is the last word");

/* Take what @base has out of @counts, but for the maximum, which is of this epoch. */
static void subtract(struct fault_counts *counts, const struct fault_counts *base)
{
	_Atomic uint64_t *to = &counts->kind[0];
	const _Atomic uint64_t *from = &base->kind[0];

	for (size_t i = 0; i < NR_WORDS - 1; i++)
		add(&to[i], -atomic_load_explicit(&from[i], memory_order_relaxed));
}

static void sum_up(struct fault_sum *sum)
{
	uint64_t words[NR_WORDS];

	for (int i = 0; i < sum->nr_records; i++) {
		load_counts(words, &sum->records[i]);
		add_words(&sum->total, words, words[NR_WORDS - 1]);
	}
}

int fault_stat_base_init(struct fault_stat_base *base, int nr_nodes)
{
	mutex_init(&base->lock, LOCK_RANK_LEAF);
	base->cleared_ns = clock_now_ns();
	return sum_init(&base->sum, nr_nodes + 1);
}

void fault_stat_base_deinit(struct fault_stat_base *base)
{
	fault_sum_deinit(&base->sum);
	mutex_deinit(&base->lock);
}

int fault_stat_read(struct fault_stat_base *base,
		    struct fault_stat *(*stat_of)(void *data, uint32_t number), void *data,
		    uint32_t nr, struct fault_sum *ret_sum, uint64_t *ret_age_ns)
{
	struct fault_sum sum;
	int r = sum_init(&sum, base->sum.nr_records);

	if (r < 0)
		return r;
	mutex_lock(&base->lock);
	for (uint32_t i = 0; i < nr; i++)
		add_stat(&sum, stat_of(data, i), base->epoch);
	sum.nr_ahead -= base->sum.nr_ahead;
	sum.nr_events -= base->sum.nr_events;
	for (int i = 0; i < sum.nr_records; i++)
		subtract(&sum.records[i], &base->sum.records[i]);
	*ret_age_ns = clock_now_ns() - base->cleared_ns;
	mutex_unlock(&base->lock);
	sum_up(&sum);
	*ret_sum = sum;
	return 0;
}

int fault_stat_clear(struct fault_stat_base *base,
		     struct fault_stat *(*stat_of)(void *data, uint32_t number), void *data,
		     uint32_t nr)
{
	struct fault_sum sum, old;
	int r = sum_init(&sum, base->sum.nr_records);

	if (r < 0)
		return r;
	mutex_lock(&base->lock);
	/* First: a fault that is not in the sum yet is not to count for an old maximum. */
	base->epoch++;
	for (uint32_t i = 0; i < nr; i++)
		add_stat(&sum, stat_of(data, i), base->epoch);
	old = base->sum;
	base->sum = sum;
	base->cleared_ns = clock_now_ns();
	mutex_unlock(&base->lock);
	fault_sum_deinit(&old);
	return 0;
}

/* ---- the text ---- */

static const char *const kind_name[NR_FAULT_KINDS] = {
	[FAULT_MISSING] = "missing",
	[FAULT_MINOR] = "minor",
	[FAULT_WRITE_PROTECT] = "write_protect",
};

static const char *const outcome_name[NR_FAULT_OUTCOMES] = {
	[FAULT_PRESENT] = "present", [FAULT_RESERVATION] = "reservation",
	[FAULT_FREE] = "free",       [FAULT_SURPLUS] = "surplus",
	[FAULT_WAITED] = "waited",   [FAULT_REFUSED] = "refused",
	[FAULT_STALE] = "stale",     [FAULT_FAILED] = "failed",
};

static void print_number(FILE *out, const char *prefix, const char *name, uint64_t number)
{
	fprintf(out, "%s%s %" PRIu64 "\n", prefix, name, number);
}

static void print_outcomes(FILE *out, const char *prefix, const struct fault_counts *counts,
			   int from, int to)
{
	for (int i = from; i < to; i++)
		fprintf(out, "%soutcome_%s %" PRIu64 "\n", prefix, outcome_name[i],
			(uint64_t)counts->outcome[i]);
}

static void print_percentiles(FILE *out, const char *prefix, const struct fault_counts *counts)
{
	static const double percentiles[] = {50, 90, 99, 99.9};

	for (size_t i = 0; i < sizeof(percentiles) / sizeof(percentiles[0]); i++)
		fprintf(out, "%slatency_ns_p%g %" PRIu64 "\n", prefix, percentiles[i],
			histogram_percentile(&counts->latency, percentiles[i]));
	print_number(out, prefix, "latency_ns_max", counts->latency.max);
}

static uint64_t nr_faults(const struct fault_counts *counts)
{
	uint64_t nr = 0;

	for (int i = 0; i < NR_FAULT_KINDS; i++)
		nr += counts->kind[i];
	return nr;
}

static void print_kinds(FILE *out, const char *prefix, const struct fault_counts *counts,
			int from)
{
	for (int i = from; i < NR_FAULT_KINDS; i++)
		fprintf(out, "%sfaults_%s %" PRIu64 "\n", prefix, kind_name[i],
			(uint64_t)counts->kind[i]);
}

static void print_histogram(FILE *out, const char *prefix, const struct fault_counts *counts)
{
	uint64_t bound;

	print_number(out, prefix, "latency_ns_sum", counts->latency_total);
	for (int log = FIRST_BOUND_LOG; log <= LAST_BOUND_LOG; log++) {
		bound = (1ULL << log) - 1;
		fprintf(out, "%slatency_ns_le_%" PRIu64 " %" PRIu64 "\n", prefix, bound,
			histogram_count_to(&counts->latency, bound));
	}
}

void fault_sum_print(const struct fault_sum *sum, FILE *out)
{
	const struct fault_counts *total = &sum->total;

	print_number(out, "", "faults_missing", total->kind[FAULT_MISSING]);
	print_outcomes(out, "", total, FAULT_PRESENT, FAULT_WAITED);
	print_number(out, "", "populated_ahead", sum->nr_ahead);
	print_outcomes(out, "", total, FAULT_WAITED, NR_FAULT_OUTCOMES);
	print_number(out, "", "events", sum->nr_events);
	print_percentiles(out, "", total);
}

void fault_sum_print_details(const struct fault_sum *sum, FILE *out)
{
	char prefix[24];

	print_number(out, "", "faults", nr_faults(&sum->total));
	print_kinds(out, "", &sum->total, FAULT_MINOR);
	print_histogram(out, "", &sum->total);
	for (int i = 0; i < sum->nr_records; i++) {
		const struct fault_counts *counts = &sum->records[i];

		if (i < sum->nr_records - 1)
			snprintf(prefix, sizeof(prefix), "node%d_", i);
		else
			snprintf(prefix, sizeof(prefix), "nonode_");
		print_number(out, prefix, "faults", nr_faults(counts));
		print_kinds(out, prefix, counts, FAULT_MISSING);
		print_outcomes(out, prefix, counts, FAULT_PRESENT, NR_FAULT_OUTCOMES);
		print_percentiles(out, prefix, counts);
		print_histogram(out, prefix, counts);
	}
}
