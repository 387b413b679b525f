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

/* Wait (at most @timeout_ns) until all that clients had sent when it was called is done. 0,
 * -ETIMEDOUT. */
int fault_service_drain(struct fault_service *service, uint64_t timeout_ns);

/* For the fault threads. Work for any thread that sleeps; false: none does. */
bool fault_service_send_to_sleeping(struct fault_service *service, struct fault_work *work);
struct fault_thread *fault_service_thread(struct fault_service *service, uint32_t number);
/* The largest window of ahead=, in pages; 0: off. */
int64_t fault_service_ahead_pages(const struct fault_service *service);
struct exhaustion *fault_service_exhaustion(struct fault_service *service);

/* For the fault threads: what fault_stat_end() wants, and faults that begin and end to wait. */
const struct fault_stat_base *fault_service_base(const struct fault_service *service);
void fault_service_add_waiting(struct fault_service *service, int nr);

/*
 * What is in .hugefuse/fault_stat, how many faults wait for a page, and since when it is
 * counted; and beginning anew. 0 or -ENOMEM.
 */
int fault_service_read(struct fault_service *service, struct fault_sum *ret_sum,
		       uint64_t *ret_waiting, uint64_t *ret_age_ns);
int fault_service_clear(struct fault_service *service);
