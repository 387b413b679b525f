/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Threads and events for the tests of locks. Each wait has a timeout, which ends the test: a
 * thread that is stuck in a lock cannot be cleaned up. Nothing here uses fs/lock.
 */
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define TIMEOUT_S 30

static inline uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static inline void give_up(const char *what)
{
	fprintf(stderr, "timeout: %s\n", what);
	abort();
}

static inline struct timespec timeout_end(void)
{
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += TIMEOUT_S;
	return end;
}

static inline void wait_event(sem_t *event)
{
	struct timespec end = timeout_end();

	if (sem_timedwait(event, &end))
		give_up("an event");
}

/* A thread that may be seen sleeping in a lock. */
struct test_thread {
	pthread_t thread;
	void (*run)(void *context);
	void *context;
	_Atomic int tid;
};

static inline void *test_thread_run(void *data)
{
	struct test_thread *thread = data;

	thread->tid = (int)syscall(SYS_gettid);
	thread->run(thread->context);
	return NULL;
}

static inline void start_thread(struct test_thread *thread, void (*run)(void *), void *context)
{
	thread->run = run;
	thread->context = context;
	thread->tid = 0;
	if (pthread_create(&thread->thread, NULL, test_thread_run, thread))
		abort();
}

static inline void join_thread(struct test_thread *thread)
{
	struct timespec end = timeout_end();

	if (pthread_timedjoin_np(thread->thread, NULL, &end))
		give_up("the end of a thread");
}

/* Is @thread in a futex call on a word of the lock of @nr_bytes at @lock? */
static inline bool thread_sleeps_in(struct test_thread *thread, const void *lock,
				    size_t nr_bytes)
{
	char path[64], text[128];
	unsigned long address = 0;
	long number = -1;
	FILE *file;

	if (!thread->tid)
		return false;
	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", thread->tid);
	file = fopen(path, "re");
	if (!file)
		return false;
	if (!fgets(text, sizeof(text), file) || sscanf(text, "%ld %lx", &number, &address) != 2)
		number = -1; /* "running" */
	fclose(file);
	return number == SYS_futex && address >= (unsigned long)lock &&
	       address < (unsigned long)lock + nr_bytes;
}

static inline void wait_asleep(struct test_thread *thread, const void *lock, size_t nr_bytes)
{
	uint64_t start = now_ns();

	while (!thread_sleeps_in(thread, lock, nr_bytes)) {
		if (now_ns() - start > TIMEOUT_S * 1000000000ull)
			give_up("a thread that sleeps in a lock");
		sched_yield();
	}
}

#define WAIT_ASLEEP(thread, lock) wait_asleep(thread, lock, sizeof(*(lock)))
