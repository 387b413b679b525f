/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The futex system call, process-private, and the smallest mutex on top of it (Ulrich Drepper,
 * "Futexes Are Tricky", mutex3). Only fs/lock uses this: everybody else takes ranked locks.
 */
#pragma once

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Sleep while *@futex is @value; may return early. */
static inline void futex_wait(_Atomic uint32_t *futex, uint32_t value)
{
	syscall(SYS_futex, futex, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

/* The same, until CLOCK_MONOTONIC reaches @deadline (NULL: never). 0, or -1 and errno. */
static inline int futex_wait_until(_Atomic uint32_t *futex, uint32_t value,
				   const struct timespec *deadline)
{
	return (int)syscall(SYS_futex, futex, FUTEX_WAIT_BITSET_PRIVATE, value, deadline, NULL,
			    FUTEX_BITSET_MATCH_ANY);
}

static inline void futex_wake(_Atomic uint32_t *futex, int nr_threads)
{
	syscall(SYS_futex, futex, FUTEX_WAKE_PRIVATE, nr_threads, NULL, NULL, 0);
}

enum futex_lock_state {
	FUTEX_LOCK_FREE,
	FUTEX_LOCK_HELD,
	FUTEX_LOCK_CONTENDED, /* held, and somebody may sleep */
};

static inline bool futex_trylock(_Atomic uint32_t *lock)
{
	uint32_t free_state = FUTEX_LOCK_FREE;

	return atomic_compare_exchange_strong_explicit(
		lock, &free_state, FUTEX_LOCK_HELD, memory_order_acquire, memory_order_relaxed);
}

/* After a failed futex_trylock(). */
static inline void futex_lock_wait(_Atomic uint32_t *lock)
{
	while (atomic_exchange_explicit(lock, FUTEX_LOCK_CONTENDED, memory_order_acquire) !=
	       FUTEX_LOCK_FREE)
		futex_wait(lock, FUTEX_LOCK_CONTENDED);
}

static inline void futex_lock(_Atomic uint32_t *lock)
{
	if (!futex_trylock(lock))
		futex_lock_wait(lock);
}

/* Give @lock free; true if the caller shall wake one thread that waits for it. */
static inline bool futex_lock_release(_Atomic uint32_t *lock)
{
	return atomic_exchange_explicit(lock, FUTEX_LOCK_FREE, memory_order_release) ==
	       FUTEX_LOCK_CONTENDED;
}

static inline void futex_unlock(_Atomic uint32_t *lock)
{
	if (futex_lock_release(lock))
		futex_wake(lock, 1);
}
