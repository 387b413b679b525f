/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fault injection: the program under test, linked so that its own calls of the functions in
 * inject_list.h pass through here, and one of them fails, or stalls, when a test says so. The
 * schedule is in memory that the test and the program share: the file $HUGEFUSE_INJECT.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#define INJECT_ENV "HUGEFUSE_INJECT"

/* Kinds of calls, as bits. */
#define INJECT_ALLOC   1U
#define INJECT_SYSCALL 2U
#define INJECT_MESSAGE 4U
#define INJECT_LOCK    8U /* cannot fail, only stall */

/*
 * A call counts so many times from one place: what goes through all processes of the machine,
 * line by line, would never end, and is tried often enough by then.
 */
#define INJECT_AT_MOST  200
#define INJECT_NR_SITES 1024

struct inject_site {
	_Atomic uint64_t caller; /* 0: free */
	_Atomic uint32_t nr;
};

struct inject {
	_Atomic uint32_t kinds;    /* those that count; 0: none */
	_Atomic int64_t countdown; /* the call that brings it to 0 fails or stalls */
	_Atomic uint32_t stall_ms; /* stall for so long; 0: fail */
	_Atomic uint32_t nr_fired; /* calls that failed or stalled */
	_Atomic uint64_t nr_calls; /* of the kinds that count */
	char function[32];         /* what failed */
	uint64_t caller;           /* from where: an offset, for addr2line -e PROGRAM */
	struct inject_site sites[INJECT_NR_SITES];
};

/* The schedule of a program that makes it itself, or NULL for none any more. Weak: the others
 * are not linked with it. */
void inject_use(struct inject *schedule) __attribute__((weak));
