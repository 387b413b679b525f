/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The clock that deadlines and latencies are measured with. */
#pragma once

#include <stdint.h>
#include <time.h>

/*
 * Milliseconds since the Epoch as of the last tick of the clock, some milliseconds ago, for
 * next to nothing: to say when something was, as files do.
 */
static inline uint64_t clock_time_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Nanoseconds of CLOCK_MONOTONIC. */
static inline uint64_t clock_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}
