/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The order check: a table in each thread of the locks that it holds, indexed by rank, since
 * a thread never holds two locks of one rank. Nothing here is shared, so nothing needs a lock.
 */
#include "fs/lock_check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *const rank_names[NR_LOCK_RANKS] = {
	[LOCK_RANK_CONTROL] = "control",
	[LOCK_RANK_CLIENT] = "client",
	[LOCK_RANK_NAMESPACE] = "namespace",
	[LOCK_RANK_INODE] = "inode",
	[LOCK_RANK_MAPPING] = "mapping",
	[LOCK_RANK_FAULT_MUTEX] = "fault_mutex",
	[LOCK_RANK_RESERVE] = "reserve",
	[LOCK_RANK_STATE] = "state",
	[LOCK_RANK_REGION_MAP] = "region_map",
	[LOCK_RANK_SUBPOOL] = "subpool",
	[LOCK_RANK_POOL] = "pool",
	[LOCK_RANK_SPLIT_QUEUE] = "split_queue",
	[LOCK_RANK_LEAF] = "leaf",
};

const char *lock_rank_name(enum lock_rank rank)
{
	return (unsigned int)rank < NR_LOCK_RANKS ? rank_names[rank] : "invalid";
}

#if HF_LOCK_CHECK

struct held_lock {
	const void *lock; /* NULL: none of this rank */
	bool exclusive;
};

static _Thread_local struct held_lock held_locks[NR_LOCK_RANKS];

/* One write for the whole message: another thread may be about to abort as well. */
__attribute__((format(printf, 1, 2), noreturn)) static void fail(const char *format, ...)
{
	char text[1024];
	size_t length;
	va_list args;

	length = (size_t)snprintf(text, sizeof(text), "hugefuse: lock check: thread %ld ",
				  syscall(SYS_gettid));
	va_start(args, format);
	vsnprintf(text + length, sizeof(text) - length, format, args);
	va_end(args);
	length = strlen(text);
	for (int rank = 0; rank < NR_LOCK_RANKS; rank++) {
		if (!held_locks[rank].lock)
			continue;
		snprintf(text + length, sizeof(text) - length, "; holds %s %p %s",
			 rank_names[rank], held_locks[rank].lock,
			 held_locks[rank].exclusive ? "exclusive" : "shared");
		length = strlen(text);
	}
	if (length == sizeof(text) - 1)
		length--;
	text[length++] = '\n';
	if (write(STDERR_FILENO, text, length) < 0)
		abort();
	abort();
}

void lock_check_order(const void *lock, enum lock_rank rank)
{
	for (int later = (int)rank; later < NR_LOCK_RANKS; later++)
		if (held_locks[later].lock)
			fail("takes %s %p after %s %p", rank_names[rank], lock,
			     rank_names[later], held_locks[later].lock);
}

void lock_check_acquired(const void *lock, enum lock_rank rank, bool exclusive)
{
	held_locks[rank] = (struct held_lock){lock, exclusive};
}

void lock_check_held(const void *lock, enum lock_rank rank, bool exclusive)
{
	if (held_locks[rank].lock != lock)
		fail("does not hold %s %p", rank_names[rank], lock);
	if (exclusive && !held_locks[rank].exclusive)
		fail("holds %s %p only shared", rank_names[rank], lock);
}

void lock_check_released(const void *lock, enum lock_rank rank, bool exclusive)
{
	lock_check_held(lock, rank, exclusive);
	if (!exclusive && held_locks[rank].exclusive)
		fail("releases %s %p as a reader", rank_names[rank], lock);
	held_locks[rank].lock = NULL;
}

void lock_assert_may_block(void)
{
	for (int rank = LOCK_RANK_REGION_MAP; rank < NR_LOCK_RANKS; rank++)
		if (held_locks[rank].lock)
			fail("may block under %s %p", rank_names[rank], held_locks[rank].lock);
}

#else

void lock_assert_may_block(void)
{
}

#endif
