/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who spins for a moment before going to sleep: waiters of the classes under which nothing may
 * block, as their holder is about to leave. All others sleep at once: a fault mutex is held
 * while a page is cleared, which takes longer than going to sleep and waking up.
 */
#pragma once

#include "fs/lock.h"

/*
 * About 1 us where a pause takes 20 ns. Against sleeping at once it shortens the mean wait from
 * 5 to 2 us and leaves the throughput as it is (bench/lock_cost.c --contended, 2 cores).
 */
#define NR_SPINS 50

static inline void cpu_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield" ::: "memory");
#endif
}

static inline bool rank_may_spin(enum lock_rank rank)
{
	return rank >= LOCK_RANK_REGION_MAP;
}
