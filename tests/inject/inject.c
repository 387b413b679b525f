/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The wrappers that ld --wrap puts in the place of the functions in inject_list.h.
 *
 * All of these take and give back integers and pointers, at most seven, so that one prototype
 * does for all: the calling conventions of x86-64 and arm64 pass them alike, and a function
 * does not see that it was given more than it takes.
 */
#include "inject.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define BACKING_CLOSE _IOW(229, 2, uint32_t) /* FUSE_DEV_IOC_BACKING_CLOSE, Linux 6.9 */

static struct inject *control;

__attribute__((constructor)) static void find_control(void)
{
	const char *path = getenv(INJECT_ENV);
	void *addr;
	int fd;

	if (!path)
		return;
	fd = open(path, O_RDWR | O_CLOEXEC);
	addr = fd < 0 ? MAP_FAILED
		      : mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (addr == MAP_FAILED) {
		fprintf(stderr, INJECT_ENV "=%s: %s\n", path, strerror(errno));
		_exit(126);
	}
	close(fd);
	control = addr;
}

void inject_use(struct inject *schedule)
{
	control = schedule;
}

static void stall(uint32_t ms)
{
	struct timespec time = {ms / 1000, (long)(ms % 1000) * 1000000};

	while (nanosleep(&time, &time) < 0 && errno == EINTR)
		;
}

/*
 * Waking a client fails only where its memory has gone, and then nobody waits; waiting and
 * waking by futex(2) fails for nothing that can happen.
 */
static bool never_fails(const char *function, long first, long second)
{
	return ((second == (long)UFFDIO_WAKE || second == (long)BACKING_CLOSE) &&
		strcmp(function, "ioctl") == 0) ||
	       (second == EPOLL_CTL_DEL && strcmp(function, "epoll_ctl") == 0) ||
	       (first == SYS_futex && strcmp(function, "syscall") == 0);
}

extern const char __executable_start;

/* Whether a call from there counts still. There are fewer places than sites. */
static bool counts(uint64_t caller)
{
	struct inject_site *site;
	uint64_t there;

	for (uint64_t i = caller * 0x9e3779b97f4a7c15;; i++) {
		site = &control->sites[i % INJECT_NR_SITES];
		there = 0;
		if (atomic_compare_exchange_strong(&site->caller, &there, caller) ||
		    there == caller)
			return atomic_fetch_add(&site->nr, 1) < INJECT_AT_MOST;
	}
}

/* Whether the call is to fail, which comes from @caller; @first and @second are its arguments.
 */
static bool inject(const char *function, uint32_t kind, long first, long second,
		   const void *caller)
{
	uint64_t from = (uint64_t)((const char *)caller - &__executable_start);
	uint32_t ms;

	if (!control || !(atomic_load(&control->kinds) & kind) ||
	    never_fails(function, first, second) || !counts(from))
		return false;
	atomic_fetch_add(&control->nr_calls, 1);
	if (atomic_fetch_sub(&control->countdown, 1) != 1)
		return false;
	snprintf(control->function, sizeof(control->function), "%s", function);
	control->caller = from;
	atomic_fetch_add(&control->nr_fired, 1);
	ms = atomic_load(&control->stall_ms);
	if (ms > 0)
		stall(ms);
	return ms == 0 && kind != INJECT_LOCK;
}

#define X(name, kind, value, error)                                                    \
	long __real_##name(long, long, long, long, long, long, long);                  \
	long __wrap_##name(long a, long b, long c, long d, long e, long f, long g);    \
	long __wrap_##name(long a, long b, long c, long d, long e, long f, long g)     \
	{                                                                              \
		if (inject(#name, INJECT_##kind, a, b, __builtin_return_address(0))) { \
			errno = (error);                                               \
			return (value);                                                \
		}                                                                      \
		return __real_##name(a, b, c, d, e, f, g);                             \
	}
#include "inject_list.h"
#undef X
