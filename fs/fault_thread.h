/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fault thread: reads the userfaultfds that are at home here, runs the work that others send,
 * and in between, a step at a time, what can wait (background).
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "fs/fault_stat.h"
#include "fs/lock.h"

struct fault_thread;
struct fault_service;
struct fault_source;
struct mapping;

/* Something to do on a fault thread. run() owns it. */
struct fault_work {
	void (*run)(struct fault_thread *thread, struct fault_work *work);
	struct fault_work *next;
};

/* Something to do when there are no faults: step() returns false, having freed it, when it is
 * over. */
struct fault_background {
	bool (*step)(struct fault_thread *thread, struct fault_background *background);
	struct fault_background *next;
};

struct fault_thread {
	_Alignas(64) struct fault_service *service;
	pthread_t thread;
	int epoll_fd, event_fd;
	_Atomic bool sleeping; /* in epoll_wait() with nothing to do */
	_Atomic bool stop;
	struct mutex lock;                    /* LOCK_RANK_LEAF */
	struct fault_work *work, **work_tail; /* lock */
	struct fault_source *sources;         /* lock; freed by the thread alone */
	struct fault_background *background;  /* the thread */
	struct fault_stat stat;
};

/* Whether it has read all that was sent, and begun with it, and sleeps. Any thread asks. */
bool fault_thread_is_idle(struct fault_thread *thread);

int fault_thread_start(struct fault_thread *thread, struct fault_service *service, int number,
		       int nr_nodes);
/* Stop it and run what is left of its work. NULL-safe where it was not started. */
void fault_thread_stop(struct fault_thread *thread);

/* Let @thread run @work soon. Never fails. */
void fault_thread_send(struct fault_thread *thread, struct fault_work *work);
/* The same, but only if it sleeps; it does not count as sleeping after. */
bool fault_thread_send_if_sleeping(struct fault_thread *thread, struct fault_work *work);
/* Called on the thread itself. */
void fault_thread_add_background(struct fault_thread *thread,
				 struct fault_background *background);

/*
 * Make @uffd a source of @thread: its faults are for @mapping (a reference is taken). It goes
 * to the front of @owner's list, by which it is dropped again. -ENOMEM, or another -errno, and
 * then it may be in the list.
 */
int fault_thread_add_source(struct fault_thread *thread, struct mapping *mapping, int uffd,
			    struct fault_source **owner);
/* Called on the thread itself: forget the sources of @owner's list, all of this thread. */
void fault_thread_drop_sources(struct fault_thread *thread, struct fault_source **owner);
/* Called on the thread itself: answer what is waiting now, without sleeping. */
void fault_thread_poll(struct fault_thread *thread);
