/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The reader-writer semaphore.
 *
 * Everything that decides who holds it and who waits is in one word, so that each step is one
 * compare-and-swap:
 *
 *   bits 0-19   readers that hold it
 *   bits 20-39  readers that wait
 *   bits 40-59  writers that wait
 *   bit 60      a writer holds it
 *   bit 61      the phase: flips whenever waiting readers are let in
 *
 * Readers wait while a writer holds it or waits; none wait otherwise. A writer that leaves
 * turns all waiting readers into holders in the same step, and they learn it from the phase.
 * One bit suffices: the next such step takes a writer, which cannot come in before all those
 * readers have left. So a reader waits for one writer at most that comes in after it, and a
 * writer for the readers that are in when it comes and, among writers, for whoever is faster.
 *
 * A thread that makes the word free while writers wait wakes one. Sleepers sleep on read_futex
 * and write_futex, which count wakes: read the count, look at the word, sleep while the count
 * is the same.
 */
#include "fs/lock.h"

#include <assert.h>
#include <limits.h>

#include "fs/futex.h"
#include "fs/lock_check.h"
#include "fs/lock_spin.h"
#include "fs/lock_stat.h"
#include "fs/trace.h"

#define RWSEM_READER        (1ULL << 0)
#define RWSEM_READERS       (0xfffffULL << 0)
#define RWSEM_READ_WAITER   (1ULL << 20)
#define RWSEM_READ_WAITERS  (0xfffffULL << 20)
#define RWSEM_WRITE_WAITER  (1ULL << 40)
#define RWSEM_WRITE_WAITERS (0xfffffULL << 40)
#define RWSEM_WRITER        (1ULL << 60)
#define RWSEM_PHASE         (1ULL << 61)

void rwsem_init(struct rwsem *sem, enum lock_rank rank)
{
	*sem = (struct rwsem){.rank = rank, .last_cpu = (uint32_t)-1};
}

void rwsem_deinit(struct rwsem *sem)
{
	if (sem)
		assert(!(atomic_load(&sem->state) & ~RWSEM_PHASE));
}

static inline bool rwsem_closed_to_readers(uint64_t state)
{
	return state & (RWSEM_WRITER | RWSEM_WRITE_WAITERS);
}

static inline bool rwsem_closed_to_writers(uint64_t state)
{
	return state & (RWSEM_WRITER | RWSEM_READERS);
}

static inline bool rwsem_try_read(struct rwsem *sem)
{
	uint64_t state = atomic_load_explicit(&sem->state, memory_order_relaxed);

	while (!rwsem_closed_to_readers(state))
		if (atomic_compare_exchange_weak_explicit(
			    &sem->state, &state, state + RWSEM_READER, memory_order_acquire,
			    memory_order_relaxed))
			return true;
	return false;
}

static inline bool rwsem_try_write(struct rwsem *sem)
{
	uint64_t state = atomic_load_explicit(&sem->state, memory_order_relaxed);

	while (!rwsem_closed_to_writers(state))
		if (atomic_compare_exchange_weak_explicit(
			    &sem->state, &state, state | RWSEM_WRITER, memory_order_acquire,
			    memory_order_relaxed))
			return true;
	return false;
}

static bool rwsem_spin(struct rwsem *sem, bool (*try)(struct rwsem *))
{
	for (int i = 0; i < NR_SPINS; i++) {
		if (try(sem))
			return true;
		cpu_relax();
	}
	return false;
}

/* Wake the readers that the word's phase has let in. */
static void rwsem_wake_readers(struct rwsem *sem)
{
	atomic_fetch_add_explicit(&sem->read_futex, 1, memory_order_release);
	futex_wake(&sem->read_futex, INT_MAX);
}

static void rwsem_wake_writer(struct rwsem *sem)
{
	atomic_fetch_add_explicit(&sem->write_futex, 1, memory_order_release);
	futex_wake(&sem->write_futex, 1);
}

/* Become a reader, or join those that wait and return when a writer has let them in. */
static void rwsem_wait_read(struct rwsem *sem)
{
	uint64_t state = atomic_load_explicit(&sem->state, memory_order_relaxed);
	uint64_t step;
	uint32_t nr_wakes;

	do
		step = rwsem_closed_to_readers(state) ? RWSEM_READ_WAITER : RWSEM_READER;
	while (!atomic_compare_exchange_weak_explicit(
		&sem->state, &state, state + step, memory_order_acquire, memory_order_relaxed));
	if (step == RWSEM_READER)
		return;
	for (;;) {
		nr_wakes = atomic_load_explicit(&sem->read_futex, memory_order_acquire);
		if ((atomic_load_explicit(&sem->state, memory_order_acquire) ^ state) &
		    RWSEM_PHASE)
			return;
		futex_wait(&sem->read_futex, nr_wakes);
	}
}

static void rwsem_wait_write(struct rwsem *sem)
{
	uint64_t state = atomic_fetch_add_explicit(&sem->state, RWSEM_WRITE_WAITER,
						   memory_order_relaxed);
	uint32_t nr_wakes;

	for (;;) {
		nr_wakes = atomic_load_explicit(&sem->write_futex, memory_order_acquire);
		state = atomic_load_explicit(&sem->state, memory_order_relaxed);
		while (!rwsem_closed_to_writers(state))
			if (atomic_compare_exchange_weak_explicit(
				    &sem->state, &state,
				    (state - RWSEM_WRITE_WAITER) | RWSEM_WRITER,
				    memory_order_acquire, memory_order_relaxed))
				return;
		futex_wait(&sem->write_futex, nr_wakes);
	}
}

/*
 * The writer leaves, and stays as @nr_own readers; waiting readers come in. Returns the word as
 * it was.
 */
static uint64_t rwsem_leave_write(struct rwsem *sem, uint64_t nr_own)
{
	uint64_t state = atomic_load_explicit(&sem->state, memory_order_relaxed);
	uint64_t nr_waiting, next;

	do {
		nr_waiting = (state & RWSEM_READ_WAITERS) / RWSEM_READ_WAITER;
		next = (state & ~(RWSEM_WRITER | RWSEM_READ_WAITERS)) + nr_waiting + nr_own;
		if (nr_waiting)
			next ^= RWSEM_PHASE;
	} while (!atomic_compare_exchange_weak_explicit(
		&sem->state, &state, next, memory_order_release, memory_order_relaxed));
	return state;
}

static inline void rwsem_read_acquired(struct rwsem *sem, uint64_t wait_start)
{
	lock_stat_shared_acquired(sem->rank, wait_start, sem->last_cpu);
	lock_check_acquired(sem, sem->rank, false);
}

static inline void rwsem_write_acquired(struct rwsem *sem, uint64_t wait_start)
{
	lock_stat_exclusive_acquired(sem->rank, wait_start, &sem->last_cpu, &sem->hold_start);
	lock_check_acquired(sem, sem->rank, true);
}

static __attribute__((noinline)) void rwsem_read_lock_slow(struct rwsem *sem)
{
	uint64_t wait_start = lock_stat_wait_start();

	trace_lock_contended(sem, sem->rank, 1);
	if (!rank_may_spin(sem->rank) || !rwsem_spin(sem, rwsem_try_read))
		rwsem_wait_read(sem);
	trace_lock_waited(sem, sem->rank, 1);
	rwsem_read_acquired(sem, wait_start);
}

void rwsem_read_lock(struct rwsem *sem)
{
	lock_check_order(sem, sem->rank);
	if (__builtin_expect(rwsem_try_read(sem), true))
		rwsem_read_acquired(sem, 0);
	else
		rwsem_read_lock_slow(sem);
}

bool rwsem_read_trylock(struct rwsem *sem)
{
	lock_check_order(sem, sem->rank);
	if (!rwsem_try_read(sem))
		return false;
	rwsem_read_acquired(sem, 0);
	return true;
}

void rwsem_read_unlock(struct rwsem *sem)
{
	enum lock_rank rank = sem->rank;
	uint64_t state;

	lock_check_released(sem, rank, false);
	state = atomic_fetch_sub_explicit(&sem->state, RWSEM_READER, memory_order_release);
	lock_stat_shared_released(rank);
	if (__builtin_expect(state & RWSEM_WRITE_WAITERS, 0) &&
	    (state & RWSEM_READERS) == RWSEM_READER)
		rwsem_wake_writer(sem);
}

static __attribute__((noinline)) void rwsem_write_lock_slow(struct rwsem *sem)
{
	uint64_t wait_start = lock_stat_wait_start();

	trace_lock_contended(sem, sem->rank, 0);
	if (!rank_may_spin(sem->rank) || !rwsem_spin(sem, rwsem_try_write))
		rwsem_wait_write(sem);
	trace_lock_waited(sem, sem->rank, 0);
	rwsem_write_acquired(sem, wait_start);
}

void rwsem_write_lock(struct rwsem *sem)
{
	lock_check_order(sem, sem->rank);
	if (__builtin_expect(rwsem_try_write(sem), true))
		rwsem_write_acquired(sem, 0);
	else
		rwsem_write_lock_slow(sem);
}

bool rwsem_write_trylock(struct rwsem *sem)
{
	lock_check_order(sem, sem->rank);
	if (!rwsem_try_write(sem))
		return false;
	rwsem_write_acquired(sem, 0);
	return true;
}

void rwsem_write_unlock(struct rwsem *sem)
{
	/* Read before the release: the next writer writes it. */
	uint64_t hold_start = sem->hold_start;
	enum lock_rank rank = sem->rank;
	uint64_t state;

	lock_check_released(sem, rank, true);
	state = rwsem_leave_write(sem, 0);
	lock_stat_exclusive_released(rank, hold_start);
	if (state & RWSEM_READ_WAITERS)
		rwsem_wake_readers(sem);
	else if (state & RWSEM_WRITE_WAITERS)
		rwsem_wake_writer(sem);
}

void rwsem_downgrade(struct rwsem *sem)
{
	uint64_t hold_start = sem->hold_start;
	uint64_t state;

	lock_check_released(sem, sem->rank, true);
	state = rwsem_leave_write(sem, 1);
	lock_stat_exclusive_released(sem->rank, hold_start);
	rwsem_read_acquired(sem, 0);
	if (state & RWSEM_READ_WAITERS)
		rwsem_wake_readers(sem);
}

void rwsem_assert_write_held(const struct rwsem *sem)
{
	lock_check_held(sem, sem->rank, true);
}

void rwsem_assert_held(const struct rwsem *sem)
{
	lock_check_held(sem, sem->rank, false);
}
