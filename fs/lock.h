/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Ranked locks: a mutex and a reader-writer semaphore, both futex based, with the order check
 * of lockdep and the counters of lock_stat.
 *
 * Every lock has a rank, and the rank is also its class: a thread may take a lock only if every
 * lock that it holds has a lower rank. enum lock_rank below is the lock order of the whole
 * daemon; docs/locking.md tells why it is what it is. With -Dlock_check=true a violation prints
 * both locks and aborts; a trylock, which could not deadlock, must keep to the order as well.
 *
 * Counters are kept per class and thread, so that counting never makes two threads share a
 * cache line, and are summed up when somebody reads them. An uncontended lock and unlock costs
 * at most 15 ns more than without counters; -Dlock_stat=false compiles them to nothing. Waits
 * and holds are all measured, with the TSC or the arm64 counter. Where the CPU has no invariant
 * TSC only clock_gettime() is left: then holds are measured for every contended acquisition and
 * one of 13 others, whose total is scaled up.
 *
 * A lock is released by the thread that took it, and may be freed when every lock operation on
 * it has returned: an unlock that has let somebody in still wakes others.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The order in which locks are taken: a thread that holds one may take one further down. */
enum lock_rank {
	LOCK_RANK_CONTROL,     /* the tokens and the list of clients */
	LOCK_RANK_CLIENT,      /* one client's list of mappings */
	LOCK_RANK_NAMESPACE,   /* a change of the directory tree */
	LOCK_RANK_INODE,       /* one file's size and opens */
	LOCK_RANK_MAPPING,     /* one mapping's address ranges */
	LOCK_RANK_FAULT_MUTEX, /* the fault mutex table */
	LOCK_RANK_RESERVE,     /* what backing=thp sets aside */
	LOCK_RANK_STATE,       /* the journal of state/ */
	LOCK_RANK_REGION_MAP, /* region maps: from here on no blocking call and no allocation */
	LOCK_RANK_SUBPOOL,
	LOCK_RANK_POOL,
	LOCK_RANK_SPLIT_QUEUE, /* huge pages that may be split */
	LOCK_RANK_LEAF,        /* statistics and queues, nothing is taken inside */
	NR_LOCK_RANKS,
};

/* The name of a rank as lock_stat shows it, such as "fault_mutex". */
const char *lock_rank_name(enum lock_rank rank);

/* One class's counters. Times in nanoseconds; min is 0 where nothing was counted. */
struct lock_counts {
	uint64_t nr_contentions;  /* acquisitions that had to wait */
	uint64_t nr_acquisitions; /* all acquisitions */
	uint64_t nr_bounces;      /* acquisitions on another CPU than the lock's last one */
	uint64_t nr_wait_bounces; /* contended ones among nr_bounces */
	uint64_t wait_min_ns, wait_max_ns, wait_total_ns;
	uint64_t hold_min_ns, hold_max_ns, hold_total_ns;
};

/* What lock_stat has: the exclusive side of a class, and the shared side of an rwsem's. */
struct lock_class_stat {
	struct lock_counts exclusive; /* mutexes, and rwsems taken for writing */
	struct lock_counts shared;    /* rwsems taken for reading */
};

/*
 * Sum the counters of @rank over all threads that are or were. Thread-safe; a snapshot taken
 * while locks are in use may miss the very last events, never counts one twice.
 */
void lock_stat_read(enum lock_rank rank, struct lock_class_stat *ret_stat);

/*
 * Set all counters of all classes to zero, extremes too; a lock's own stay. Holds that began
 * before it are not counted when they end. Thread-safe.
 */
void lock_stat_clear(void);

/*
 * Switch counting on or off at run time (mount option lockstat=); on at start. What is held at
 * that moment is counted when it ends if its acquisition was. Thread-safe.
 */
void lock_stat_enable(bool enable);
bool lock_stat_enabled(void);

/*
 * Mutex. Not recursive. 64 bytes and cache-line aligned, so that a table of them does not
 * falsely share; per-lock counts show which one of a table is the hot one.
 */
struct mutex {
	_Alignas(64) _Atomic uint32_t state; /* atomic; enum futex_lock_state */
	enum lock_rank rank;                 /* set at init */
	uint32_t last_cpu;                   /* the lock itself; -1: never taken */
	uint64_t hold_start;              /* the lock itself, in clock ticks; 0: not counted */
	_Atomic uint64_t nr_acquisitions; /* the holder writes, anybody reads */
	_Atomic uint64_t nr_contentions;  /* the holder writes, anybody reads */
};

void mutex_init(struct mutex *mutex, enum lock_rank rank);
/* The mutex is free; NULL is none. */
void mutex_deinit(struct mutex *mutex);
void mutex_lock(struct mutex *mutex);
bool mutex_trylock(struct mutex *mutex);
void mutex_unlock(struct mutex *mutex);
/* Abort, with lock_check, unless the calling thread holds @mutex. */
void mutex_assert_held(const struct mutex *mutex);

/*
 * Reader-writer semaphore with downgrade. A waiting writer keeps new readers out (no writer
 * starvation), and readers that were waiting when a writer leaves are let in before the next
 * writer (no reader starvation). Not recursive: a reader that reads again would wait for the
 * writer that waits for it.
 */
struct rwsem {
	_Alignas(64) _Atomic uint64_t state;      /* atomic; who holds it and who waits */
	_Atomic uint32_t read_futex, write_futex; /* atomic; count wakes */
	enum lock_rank rank;                      /* set at init */
	uint32_t last_cpu;   /* the last writer's; writers write, holders read */
	uint64_t hold_start; /* the writer */
};

void rwsem_init(struct rwsem *sem, enum lock_rank rank);
/* The semaphore is free; NULL is none. */
void rwsem_deinit(struct rwsem *sem);
void rwsem_read_lock(struct rwsem *sem);
bool rwsem_read_trylock(struct rwsem *sem);
void rwsem_read_unlock(struct rwsem *sem);
void rwsem_write_lock(struct rwsem *sem);
bool rwsem_write_trylock(struct rwsem *sem);
void rwsem_write_unlock(struct rwsem *sem);
/*
 * From writing to reading without a moment in between; waiting readers come in too. Ends an
 * exclusive hold, and counts as an uncontended acquisition for reading.
 */
void rwsem_downgrade(struct rwsem *sem);
/* Abort, with lock_check, unless the calling thread holds @sem (for writing / in any way). */
void rwsem_assert_write_held(const struct rwsem *sem);
void rwsem_assert_held(const struct rwsem *sem);

/* With lock_check: abort if a lock is held under which nothing may block or allocate. */
void lock_assert_may_block(void);

/*
 * Event count: wait for "something has changed" without a lock. Read the count, look at the
 * condition, wait with the count read before; a wake in between makes the wait return at once.
 */
struct waitqueue {
	_Atomic uint32_t count;
	_Atomic uint32_t nr_waiters;
};

uint32_t waitqueue_read(const struct waitqueue *queue);
/*
 * Wait at most @timeout_ns (UINT64_MAX: for ever). 0: something was woken since @count was
 * read; -ETIMEDOUT. A queue starts as all zeroes.
 */
int waitqueue_wait(struct waitqueue *queue, uint32_t count, uint64_t timeout_ns);
void waitqueue_wake_all(struct waitqueue *queue);
