/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Mutex, reader-writer semaphore and event count on futexes. fs/lock_stat.h counts, and
 * fs/lock_check.h checks the order; both compile to nothing where they are not wanted.
 *
 * A waiter of one of the classes under which nothing may block spins for a moment before it
 * sleeps, as the holder is about to leave. All others sleep at once: a fault mutex is held
 * while a page is cleared, which takes longer than going to sleep and waking up.
 */
#include "fs/lock.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <time.h>

#include "fs/futex.h"
#include "fs/lock_check.h"
#include "fs/lock_spin.h"
#include "fs/lock_stat.h"
#include "fs/trace.h"

/* Mutex */

/* One of the mutex's own counters, which only its holder writes. */
static inline void count_own(_Atomic uint64_t *counter)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

void mutex_init(struct mutex *mutex, enum lock_rank rank)
{
	*mutex = (struct mutex){.rank = rank, .last_cpu = (uint32_t)-1};
}

void mutex_deinit(struct mutex *mutex)
{
	if (mutex)
		assert(atomic_load(&mutex->state) == FUTEX_LOCK_FREE);
}

/* The caller has got @mutex, and waited for it since @wait_start (0: did not wait). */
static inline void mutex_acquired(struct mutex *mutex, uint64_t wait_start)
{
	if (lock_stat_exclusive_acquired(mutex->rank, wait_start, &mutex->last_cpu,
					 &mutex->hold_start)) {
		count_own(&mutex->nr_acquisitions);
		if (wait_start)
			count_own(&mutex->nr_contentions);
	}
	lock_check_acquired(mutex, mutex->rank, true);
}

static bool mutex_spin(struct mutex *mutex)
{
	for (int i = 0; i < NR_SPINS; i++) {
		uint32_t state = atomic_load_explicit(&mutex->state, memory_order_relaxed);

		/* Somebody sleeps already: the lock is not about to be free for us. */
		if (state == FUTEX_LOCK_CONTENDED)
			return false;
		if (state == FUTEX_LOCK_FREE && futex_trylock(&mutex->state))
			return true;
		cpu_relax();
	}
	return false;
}

static __attribute__((noinline)) void mutex_lock_slow(struct mutex *mutex)
{
	uint64_t wait_start = lock_stat_wait_start();

	trace_lock_contended(mutex, mutex->rank, 0);
	if (!rank_may_spin(mutex->rank) || !mutex_spin(mutex))
		futex_lock_wait(&mutex->state);
	trace_lock_waited(mutex, mutex->rank, 0);
	mutex_acquired(mutex, wait_start);
}

void mutex_lock(struct mutex *mutex)
{
	lock_check_order(mutex, mutex->rank);
	if (__builtin_expect(futex_trylock(&mutex->state), true))
		mutex_acquired(mutex, 0);
	else
		mutex_lock_slow(mutex);
}

bool mutex_trylock(struct mutex *mutex)
{
	lock_check_order(mutex, mutex->rank);
	if (!futex_trylock(&mutex->state))
		return false;
	mutex_acquired(mutex, 0);
	return true;
}

void mutex_unlock(struct mutex *mutex)
{
	/* Read before the release: the next holder writes it. */
	uint64_t hold_start = mutex->hold_start;
	enum lock_rank rank = mutex->rank;
	bool wake;

	lock_check_released(mutex, rank, true);
	wake = futex_lock_release(&mutex->state);
	lock_stat_exclusive_released(rank, hold_start);
	if (__builtin_expect(wake, false))
		futex_wake(&mutex->state, 1);
}

void mutex_assert_held(const struct mutex *mutex)
{
	lock_check_held(mutex, mutex->rank, true);
}

/* Event count */

/* @timeout_ns from now on; false: never. */
static bool deadline_after(uint64_t timeout_ns, struct timespec *ret_deadline)
{
	const uint64_t ns_per_second = 1000000000;
	uint64_t ns;

	/* Centuries: also keeps time_t from overflowing. */
	if (timeout_ns > INT64_MAX)
		return false;
	clock_gettime(CLOCK_MONOTONIC, ret_deadline);
	ns = (uint64_t)ret_deadline->tv_nsec + timeout_ns % ns_per_second;
	ret_deadline->tv_sec += (time_t)(timeout_ns / ns_per_second + ns / ns_per_second);
	ret_deadline->tv_nsec = (long)(ns % ns_per_second);
	return true;
}

uint32_t waitqueue_read(const struct waitqueue *queue)
{
	return atomic_load_explicit(&queue->count, memory_order_acquire);
}

int waitqueue_wait(struct waitqueue *queue, uint32_t count, uint64_t timeout_ns)
{
	struct timespec deadline;
	bool has_deadline = deadline_after(timeout_ns, &deadline);
	int result = 0;

	/*
	 * Sequentially consistent, as in waitqueue_wake_all(): either the waker sees this
	 * waiter, or the waiter sees the waker's count.
	 */
	atomic_fetch_add(&queue->nr_waiters, 1);
	while (atomic_load(&queue->count) == count) {
		if (!futex_wait_until(&queue->count, count, has_deadline ? &deadline : NULL) ||
		    errno != ETIMEDOUT)
			continue;
		if (atomic_load(&queue->count) == count)
			result = -ETIMEDOUT;
		break;
	}
	atomic_fetch_sub(&queue->nr_waiters, 1);
	return result;
}

void waitqueue_wake_all(struct waitqueue *queue)
{
	atomic_fetch_add(&queue->count, 1);
	if (atomic_load(&queue->nr_waiters))
		futex_wake(&queue->count, INT_MAX);
}
