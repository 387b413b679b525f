/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The order check of -Dlock_check=true, as fs/lock.c calls it. Each thread remembers what it
 * holds in a table of its own, one entry per rank: the order allows no more.
 */
#pragma once

#include "fs/lock.h"

#if HF_LOCK_CHECK

/* Before waiting: abort if the calling thread holds a lock of @rank or of a later one. */
void lock_check_order(const void *lock, enum lock_rank rank);
/* The calling thread has got @lock. */
void lock_check_acquired(const void *lock, enum lock_rank rank, bool exclusive);
/* Abort unless the calling thread holds @lock, for itself alone if @exclusive is set. */
void lock_check_held(const void *lock, enum lock_rank rank, bool exclusive);
/* The same with the caller's mode, and forget it. */
void lock_check_released(const void *lock, enum lock_rank rank, bool exclusive);

#else

static inline void lock_check_order(const void *lock, enum lock_rank rank)
{
}

static inline void lock_check_acquired(const void *lock, enum lock_rank rank, bool exclusive)
{
}

static inline void lock_check_held(const void *lock, enum lock_rank rank, bool exclusive)
{
}

static inline void lock_check_released(const void *lock, enum lock_rank rank, bool exclusive)
{
}

#endif
