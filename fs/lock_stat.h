/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The recording side of lock_stat, inline in the lock operations of fs/lock.c; reading and
 * clearing are in fs/lock_stat.c.
 *
 * Each thread counts into a block of its own, so that an event is a few plain stores. A block's
 * counters carry the epoch (the clock at the last lock_stat_clear()) in which they began. The
 * owner starts them anew when it finds that the epoch has moved on, and a reader ignores those
 * of an old epoch: clearing touches no other thread's memory and forgets extremes as well.
 *
 * Times are in ticks of lock_stat_clock() until somebody reads them. Where that is the TSC (or
 * the arm64 counter), every hold is measured. Where it can only be clock_gettime(), holds are
 * measured for contended acquisitions and one in LOCK_STAT_SAMPLE others, and the total of the
 * latter is scaled up. Waits are always measured.
 */
#pragma once

#include <sched.h>
#include <stdint.h>
#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#if defined(__has_builtin) && __has_include(<sys/rseq.h>)
#if __has_builtin(__builtin_thread_pointer)
#include <sys/rseq.h>
#define LOCK_STAT_HAS_RSEQ 1
#endif
#endif
#ifndef LOCK_STAT_HAS_RSEQ
#define LOCK_STAT_HAS_RSEQ 0
#endif

#include "fs/lock.h"

/* A prime, so that a loop of a few acquisitions is not always sampled at the same one. */
#define LOCK_STAT_SAMPLE 13

/* The hold stands for itself; without this bit it stands for the holds not measured as well. */
#define LOCK_STAT_EXACT 1ULL

/* Written by the owning thread, read by any: atomic, relaxed. Times in ticks. */
struct lock_stat_side {
	_Atomic uint64_t epoch; /* released after the counters are zero */
	_Atomic uint64_t nr_acquisitions, nr_bounces;
	_Atomic uint64_t hold_min, hold_max, hold_total;
	_Atomic uint64_t nr_contentions, nr_wait_bounces;
	_Atomic uint64_t wait_min, wait_max, wait_total;
	_Atomic uint64_t nr_sampled, sampled_total; /* holds without LOCK_STAT_EXACT */
	uint32_t nr_until_sample;                   /* the owning thread's */
};

struct lock_stat_thread {
	struct lock_stat_side sides[NR_LOCK_RANKS][2]; /* exclusive, shared */
	/*
	 * When the thread took its read locks, 0: not counted. One per rank is enough: the lock
	 * order allows no more.
	 */
	uint64_t read_hold_start[NR_LOCK_RANKS];
	struct lock_stat_thread *next, **previous_next; /* lock_stat_registry */
	bool known;                                     /* was on the list, maybe still is */
} __attribute__((aligned(64)));

struct lock_stat_config {
	_Atomic uint64_t epoch; /* never 0 once enabled */
	_Atomic bool enabled;
	bool cheap_clock; /* lock_stat_choose_clock() */
} __attribute__((aligned(64)));

extern struct lock_stat_config lock_stat_config;

/*
 * Count by the cheap clock, if @cheap is set and there is one, or else by clock_gettime().
 * Called at start, and by tests while no lock is held and no other thread is counted.
 */
void lock_stat_choose_clock(bool cheap);

#if HF_LOCK_STAT

extern _Thread_local struct lock_stat_thread lock_stat_thread
	__attribute__((tls_model("initial-exec")));

/* Begin @side's counters in the epoch of now, and put a new thread's block on the list. */
void lock_stat_start_side(struct lock_stat_side *side);

static inline uint64_t lock_stat_clock(void)
{
#if defined(__aarch64__)
	uint64_t ticks;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
	return ticks;
#else
	struct timespec now;

#if defined(__x86_64__)
	if (__builtin_expect(lock_stat_config.cheap_clock, true))
		return __rdtsc();
#endif
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
#endif
}

/*
 * The CPU that the thread runs on, or ran on a moment ago. glibc keeps the number in the
 * thread's rseq area, where reading it is one load; sched_getcpu() costs 2 ns more.
 */
static inline uint32_t lock_stat_cpu(void)
{
#if LOCK_STAT_HAS_RSEQ
	const volatile struct rseq *rseq =
		(const void *)((const char *)__builtin_thread_pointer() + __rseq_offset);
	uint32_t cpu = rseq->cpu_id;

	/* Negative where the kernel or the user (GLIBC_TUNABLES) has no rseq. */
	if (__builtin_expect((int32_t)cpu >= 0, true))
		return cpu;
#endif
	return (uint32_t)sched_getcpu();
}

static inline uint64_t lock_stat_get(const _Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

static inline void lock_stat_set(_Atomic uint64_t *counter, uint64_t value)
{
	atomic_store_explicit(counter, value, memory_order_relaxed);
}

/* Not atomic as a whole: only the owning thread writes. */
static inline void lock_stat_add(_Atomic uint64_t *counter, uint64_t value)
{
	lock_stat_set(counter, lock_stat_get(counter) + value);
}

static inline void lock_stat_extremes(_Atomic uint64_t *min, _Atomic uint64_t *max,
				      uint64_t ticks)
{
	if (ticks < lock_stat_get(min))
		lock_stat_set(min, ticks);
	if (ticks > lock_stat_get(max))
		lock_stat_set(max, ticks);
}

static inline struct lock_stat_side *lock_stat_side(enum lock_rank rank, bool shared)
{
	struct lock_stat_side *side = &lock_stat_thread.sides[rank][shared];

	if (__builtin_expect(lock_stat_get(&side->epoch) !=
				     lock_stat_get(&lock_stat_config.epoch),
			     false))
		lock_stat_start_side(side);
	return side;
}

static inline bool lock_stat_counting(void)
{
	return atomic_load_explicit(&lock_stat_config.enabled, memory_order_relaxed);
}

/* Before a wait: when it began, for lock_stat_acquired(); 0: not counted. */
static inline uint64_t lock_stat_wait_start(void)
{
	return lock_stat_counting() ? lock_stat_clock() : 0;
}

static inline uint64_t lock_stat_hold_start(struct lock_stat_side *side)
{
	if (__builtin_expect(lock_stat_config.cheap_clock, true))
		return lock_stat_clock() | LOCK_STAT_EXACT;
	if (side->nr_until_sample--)
		return 0;
	side->nr_until_sample = LOCK_STAT_SAMPLE - 1;
	return lock_stat_clock() & ~LOCK_STAT_EXACT;
}

/*
 * Count an acquisition on @cpu of a lock that was last taken on @last_cpu (-1: never), and that
 * waited since @wait_start (0: did not wait). Returns when the hold began.
 */
static inline uint64_t lock_stat_acquired(enum lock_rank rank, bool shared, uint64_t wait_start,
					  uint32_t last_cpu, uint32_t cpu)
{
	struct lock_stat_side *side = lock_stat_side(rank, shared);
	bool bounced = cpu != last_cpu && last_cpu != (uint32_t)-1;
	uint64_t now, waited;

	lock_stat_add(&side->nr_acquisitions, 1);
	if (bounced)
		lock_stat_add(&side->nr_bounces, 1);
	if (__builtin_expect(!wait_start, true))
		return lock_stat_hold_start(side);

	now = lock_stat_clock();
	waited = now > wait_start ? now - wait_start : 0;
	lock_stat_add(&side->nr_contentions, 1);
	if (bounced)
		lock_stat_add(&side->nr_wait_bounces, 1);
	lock_stat_extremes(&side->wait_min, &side->wait_max, waited);
	lock_stat_add(&side->wait_total, waited);
	return now | LOCK_STAT_EXACT;
}

/* Count the end of a hold that began at @hold_start. */
static inline void lock_stat_released(enum lock_rank rank, bool shared, uint64_t hold_start)
{
	struct lock_stat_side *side;
	uint64_t now, held;

	if (!hold_start)
		return;
	side = lock_stat_side(rank, shared);
	/* Taken before a clear: its acquisition is forgotten, so is its hold. */
	if (__builtin_expect(hold_start < lock_stat_get(&side->epoch), false))
		return;
	now = lock_stat_clock();
	held = now > hold_start ? now - hold_start : 0;
	lock_stat_extremes(&side->hold_min, &side->hold_max, held);
	if (__builtin_expect(hold_start & LOCK_STAT_EXACT, true)) {
		lock_stat_add(&side->hold_total, held);
	} else {
		lock_stat_add(&side->nr_sampled, 1);
		lock_stat_add(&side->sampled_total, held);
	}
}

/*
 * The lock has been taken for its thread alone, which may therefore write the lock's own
 * @last_cpu and @hold_start. Was it counted?
 */
static inline bool lock_stat_exclusive_acquired(enum lock_rank rank, uint64_t wait_start,
						uint32_t *last_cpu, uint64_t *hold_start)
{
	uint32_t cpu;

	*hold_start = 0;
	if (!lock_stat_counting())
		return false;
	cpu = lock_stat_cpu();
	*hold_start = lock_stat_acquired(rank, false, wait_start, *last_cpu, cpu);
	*last_cpu = cpu;
	return true;
}

/* The lock has been free for others since a moment ago; @hold_start was read before that. */
static inline void lock_stat_exclusive_released(enum lock_rank rank, uint64_t hold_start)
{
	lock_stat_released(rank, false, hold_start);
}

static inline void lock_stat_shared_acquired(enum lock_rank rank, uint64_t wait_start,
					     uint32_t last_cpu)
{
	uint64_t hold_start = 0;

	if (lock_stat_counting())
		hold_start =
			lock_stat_acquired(rank, true, wait_start, last_cpu, lock_stat_cpu());
	lock_stat_thread.read_hold_start[rank] = hold_start;
}

static inline void lock_stat_shared_released(enum lock_rank rank)
{
	lock_stat_released(rank, true, lock_stat_thread.read_hold_start[rank]);
}

#else

static inline uint64_t lock_stat_wait_start(void)
{
	return 0;
}

static inline bool lock_stat_exclusive_acquired(enum lock_rank rank, uint64_t wait_start,
						uint32_t *last_cpu, uint64_t *hold_start)
{
	return false;
}

static inline void lock_stat_exclusive_released(enum lock_rank rank, uint64_t hold_start)
{
}

static inline void lock_stat_shared_acquired(enum lock_rank rank, uint64_t wait_start,
					     uint32_t last_cpu)
{
}

static inline void lock_stat_shared_released(enum lock_rank rank)
{
}

#endif
