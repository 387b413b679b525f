/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fault service: the threads that answer the clients' page faults.
 *
 * Each userfaultfd belongs to one thread, its home, which alone reads it: with a thread of
 * one's own the scheduler keeps a faulting thread and its fault thread where they are, and
 * nobody is woken in vain. What the home cannot do at once is handed to threads that sleep.
 * Threads that have nothing to answer populate ahead.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "fs/fault_thread.h"
#include "fs/mapping.h"
#include "fs/mount.h"

struct exhaustion;
struct fault_service;

/* Starts the threads. 0, -ENOMEM, -errno. */
int fault_service_new(struct mount *mount, uint32_t nr_threads,
		      struct fault_service **ret_service);
/* Stop the threads and close all userfaultfds; the kernel serves what the clients fault on
 * then. */
void fault_service_free(struct fault_service *service);

uint32_t fault_service_nr_threads(const struct fault_service *service);

/* Serve the userfaultfds of @mapping (set at register), from now on the service's to close. */
int fault_service_add(struct fault_service *service, struct mapping *mapping);
/* Stop serving @mapping, which is dead or whose client is gone. Returns at once. */
void fault_service_remove(struct fault_service *service, struct mapping *mapping);

/*
 * Populate pages [from, to) of @mapping on the fault threads, as many as can be had, and call
 * @done on one of them. 0 or -ENOMEM.
 */
int fault_service_populate(struct fault_service *service, struct mapping *mapping, int64_t from,
			   int64_t to, void (*done)(void *data), void *data);

/* Wait (at most @timeout_ns) until all that clients had sent when it was called is done. 0,
 * -ETIMEDOUT. */
int fault_service_drain(struct fault_service *service, uint64_t timeout_ns);

/* For the fault threads: work for any thread that sleeps (false: none does), and populating
 * ahead. */
bool fault_service_send_to_sleeping(struct fault_service *service, struct fault_work *work);
void fault_service_ahead(struct fault_thread *thread, struct mapping *mapping, int64_t idx);
struct exhaustion *fault_service_exhaustion(struct fault_service *service);

/* .hugefuse/fault_stat, and the clearing of it. */
void fault_service_print(struct fault_service *service, FILE *file);
void fault_service_clear(struct fault_service *service);
