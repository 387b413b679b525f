/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The clock that deadlines and latencies are measured with. */
#pragma once

#include <stdint.h>
#include <time.h>

/* The same clock as of the last tick, some milliseconds ago, for next to nothing. */
static inline uint64_t clock_tick_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Nanoseconds of CLOCK_MONOTONIC. */
static inline uint64_t clock_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}
