/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The reading side of lock_stat: the list of the threads' counter blocks, the sums of the
 * threads that have ended, and the clock. fs/lock_stat.h tells how an event is counted.
 *
 * lock_stat_registry.lock guards the list, the sums and changes of the epoch. It is no ranked
 * lock, since ranked locks count.
 */
#include "fs/lock_stat.h"

#include <pthread.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "fs/futex.h"

struct lock_stat_config lock_stat_config;

#if HF_LOCK_STAT

/* A side's counters as plain numbers, in ticks. */
struct tick_counts {
	uint64_t nr_contentions, nr_acquisitions, nr_bounces, nr_wait_bounces;
	uint64_t wait_min, wait_max, wait_total;
	uint64_t hold_min, hold_max, hold_total;
};

static struct {
	_Atomic uint32_t lock;
	struct lock_stat_thread *threads;           /* lock */
	struct tick_counts ended[NR_LOCK_RANKS][2]; /* lock; of the current epoch */
	pthread_key_t exit_key;                     /* set at start */
	bool has_exit_key;                          /* set at start */
	uint64_t start_ticks, start_ns;             /* lock_stat_choose_clock() */
	uint64_t ns_per_tick;                       /* lock; 32.32 fixed point, 0: unknown */
} lock_stat_registry;

_Thread_local struct lock_stat_thread lock_stat_thread;

static const struct tick_counts no_counts = {.wait_min = UINT64_MAX, .hold_min = UINT64_MAX};

static uint64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Read both clocks at one moment: of a few attempts the one least disturbed. */
static void read_clocks(uint64_t *ret_ticks, uint64_t *ret_ns)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < 8; i++) {
		uint64_t before = lock_stat_clock();
		uint64_t ns = monotonic_ns();
		uint64_t after = lock_stat_clock();

		if (after - before >= best)
			continue;
		best = after - before;
		*ret_ticks = before + best / 2;
		*ret_ns = ns;
	}
}

/*
 * Find the length of a tick from what both clocks have advanced since the start, 5 ms at least.
 * It then stays as it is: a total must not go backwards because it is converted better.
 */
static void calibrate_locked(void)
{
	uint64_t ticks, ns;

	if (lock_stat_registry.ns_per_tick)
		return;
	do
		read_clocks(&ticks, &ns);
	while (ns - lock_stat_registry.start_ns < 5000000);
	ticks -= lock_stat_registry.start_ticks;
	ns -= lock_stat_registry.start_ns;
	lock_stat_registry.ns_per_tick = (uint64_t)(((unsigned __int128)ns << 32) / ticks);
}

static uint64_t ticks_to_ns(uint64_t ticks)
{
	return (uint64_t)(((unsigned __int128)ticks * lock_stat_registry.ns_per_tick) >> 32);
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void add_counts(struct tick_counts *sum, const struct tick_counts *counts)
{
	sum->nr_contentions += counts->nr_contentions;
	sum->nr_acquisitions += counts->nr_acquisitions;
	sum->nr_bounces += counts->nr_bounces;
	sum->nr_wait_bounces += counts->nr_wait_bounces;
	sum->wait_min = min_u64(sum->wait_min, counts->wait_min);
	sum->wait_max = max_u64(sum->wait_max, counts->wait_max);
	sum->wait_total += counts->wait_total;
	sum->hold_min = min_u64(sum->hold_min, counts->hold_min);
	sum->hold_max = max_u64(sum->hold_max, counts->hold_max);
	sum->hold_total += counts->hold_total;
}

/* The sampled holds stand for all that did not wait. */
static uint64_t scale_sampled(const struct lock_stat_side *side, uint64_t nr_uncontended)
{
	uint64_t nr_sampled = lock_stat_get(&side->nr_sampled);

	if (!nr_sampled)
		return 0;
	return (uint64_t)((unsigned __int128)lock_stat_get(&side->sampled_total) *
			  nr_uncontended / nr_sampled);
}

static void add_side_locked(struct tick_counts *sum, const struct lock_stat_side *side)
{
	struct tick_counts counts;

	/* Acquire: the counters are seen as they were set to zero for this epoch, or later. */
	if (atomic_load_explicit(&side->epoch, memory_order_acquire) !=
	    lock_stat_get(&lock_stat_config.epoch))
		return;
	counts = (struct tick_counts){
		.nr_contentions = lock_stat_get(&side->nr_contentions),
		.nr_acquisitions = lock_stat_get(&side->nr_acquisitions),
		.nr_bounces = lock_stat_get(&side->nr_bounces),
		.nr_wait_bounces = lock_stat_get(&side->nr_wait_bounces),
		.wait_min = lock_stat_get(&side->wait_min),
		.wait_max = lock_stat_get(&side->wait_max),
		.wait_total = lock_stat_get(&side->wait_total),
		.hold_min = lock_stat_get(&side->hold_min),
		.hold_max = lock_stat_get(&side->hold_max),
		.hold_total = lock_stat_get(&side->hold_total),
	};
	counts.hold_total +=
		scale_sampled(side, counts.nr_acquisitions - counts.nr_contentions);
	add_counts(sum, &counts);
}

/*
 * The thread ends and with it its block. What it counts from here on, in the destructors of
 * other keys, stays in a block that is on no list.
 */
static void thread_exit(void *data)
{
	struct lock_stat_thread *thread = data;

	futex_lock(&lock_stat_registry.lock);
	for (int rank = 0; rank < NR_LOCK_RANKS; rank++)
		for (int shared = 0; shared < 2; shared++)
			add_side_locked(&lock_stat_registry.ended[rank][shared],
					&thread->sides[rank][shared]);
	*thread->previous_next = thread->next;
	if (thread->next)
		thread->next->previous_next = thread->previous_next;
	futex_unlock(&lock_stat_registry.lock);
}

static void register_thread(struct lock_stat_thread *thread)
{
	thread->known = true;
	/* Not told of the thread's end, we must not list a block that ends with it. */
	if (!lock_stat_registry.has_exit_key ||
	    pthread_setspecific(lock_stat_registry.exit_key, thread))
		return;
	futex_lock(&lock_stat_registry.lock);
	thread->next = lock_stat_registry.threads;
	thread->previous_next = &lock_stat_registry.threads;
	if (thread->next)
		thread->next->previous_next = &thread->next;
	lock_stat_registry.threads = thread;
	futex_unlock(&lock_stat_registry.lock);
}

void lock_stat_start_side(struct lock_stat_side *side)
{
	uint64_t epoch = lock_stat_get(&lock_stat_config.epoch);

	if (!lock_stat_thread.known)
		register_thread(&lock_stat_thread);
	lock_stat_set(&side->nr_acquisitions, 0);
	lock_stat_set(&side->nr_bounces, 0);
	lock_stat_set(&side->hold_min, UINT64_MAX);
	lock_stat_set(&side->hold_max, 0);
	lock_stat_set(&side->hold_total, 0);
	lock_stat_set(&side->nr_contentions, 0);
	lock_stat_set(&side->nr_wait_bounces, 0);
	lock_stat_set(&side->wait_min, UINT64_MAX);
	lock_stat_set(&side->wait_max, 0);
	lock_stat_set(&side->wait_total, 0);
	lock_stat_set(&side->nr_sampled, 0);
	lock_stat_set(&side->sampled_total, 0);
	side->nr_until_sample = 0;
	atomic_store_explicit(&side->epoch, epoch, memory_order_release);
}

static struct lock_counts counts_in_ns(const struct tick_counts *ticks)
{
	return (struct lock_counts){
		.nr_contentions = ticks->nr_contentions,
		.nr_acquisitions = ticks->nr_acquisitions,
		.nr_bounces = ticks->nr_bounces,
		.nr_wait_bounces = ticks->nr_wait_bounces,
		.wait_min_ns = ticks->wait_min == UINT64_MAX ? 0 : ticks_to_ns(ticks->wait_min),
		.wait_max_ns = ticks_to_ns(ticks->wait_max),
		.wait_total_ns = ticks_to_ns(ticks->wait_total),
		.hold_min_ns = ticks->hold_min == UINT64_MAX ? 0 : ticks_to_ns(ticks->hold_min),
		.hold_max_ns = ticks_to_ns(ticks->hold_max),
		.hold_total_ns = ticks_to_ns(ticks->hold_total),
	};
}

void lock_stat_read(enum lock_rank rank, struct lock_class_stat *ret_stat)
{
	struct tick_counts sums[2];

	futex_lock(&lock_stat_registry.lock);
	calibrate_locked();
	for (int shared = 0; shared < 2; shared++) {
		sums[shared] = lock_stat_registry.ended[rank][shared];
		for (struct lock_stat_thread *thread = lock_stat_registry.threads; thread;
		     thread = thread->next)
			add_side_locked(&sums[shared], &thread->sides[rank][shared]);
	}
	ret_stat->exclusive = counts_in_ns(&sums[0]);
	ret_stat->shared = counts_in_ns(&sums[1]);
	futex_unlock(&lock_stat_registry.lock);
}

static void start_epoch_locked(void)
{
	uint64_t now = lock_stat_clock();
	uint64_t last = lock_stat_get(&lock_stat_config.epoch);

	for (int rank = 0; rank < NR_LOCK_RANKS; rank++)
		for (int shared = 0; shared < 2; shared++)
			lock_stat_registry.ended[rank][shared] = no_counts;
	lock_stat_set(&lock_stat_config.epoch, max_u64(now, last + 1));
}

void lock_stat_clear(void)
{
	futex_lock(&lock_stat_registry.lock);
	start_epoch_locked();
	futex_unlock(&lock_stat_registry.lock);
}

/* The same rate on every CPU, in every state of power saving? */
static bool clock_is_cheap(void)
{
#if defined(__x86_64__)
	unsigned int eax, ebx, ecx, edx;

	return __get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) && (edx & (1u << 8));
#elif defined(__aarch64__)
	return true;
#else
	return false;
#endif
}

void lock_stat_choose_clock(bool cheap)
{
	futex_lock(&lock_stat_registry.lock);
	lock_stat_config.cheap_clock = cheap && clock_is_cheap();
	lock_stat_registry.ns_per_tick = 0;
	read_clocks(&lock_stat_registry.start_ticks, &lock_stat_registry.start_ns);
	lock_stat_set(&lock_stat_config.epoch, 0); /* the other clock's may be in the future */
	start_epoch_locked();
	futex_unlock(&lock_stat_registry.lock);
}

/* Before main(): locks taken by an earlier constructor are not counted. */
__attribute__((constructor)) static void lock_stat_start(void)
{
	lock_stat_registry.has_exit_key =
		pthread_key_create(&lock_stat_registry.exit_key, thread_exit) == 0;
	lock_stat_choose_clock(true);
	lock_stat_enable(true);
}

#else

void lock_stat_choose_clock(bool cheap)
{
}

void lock_stat_read(enum lock_rank rank, struct lock_class_stat *ret_stat)
{
	*ret_stat = (struct lock_class_stat){0};
}

void lock_stat_clear(void)
{
}

#endif

void lock_stat_enable(bool enable)
{
	atomic_store_explicit(&lock_stat_config.enabled, HF_LOCK_STAT && enable,
			      memory_order_relaxed);
}

bool lock_stat_enabled(void)
{
	return atomic_load_explicit(&lock_stat_config.enabled, memory_order_relaxed);
}
