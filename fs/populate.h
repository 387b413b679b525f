/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Populating more than the page that was faulted on: MAP_POPULATE, and ahead of a stream. All
 * fault threads that have nothing else to do take pages of one job, one at a time, and look for
 * faults in between.
 *
 * A page that is populated ahead is no use to a client that gets there while it is being
 * cleared: it waits in the kernel for the page's mutex, spinning, on a CPU that could clear the
 * next one. So a stream that keeps up with the windows is woken when a whole window is there
 * (populate_window()); only one that does not come back soon has the next window populated
 * behind its back.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "fs/fault_resolve.h"
#include "fs/fault_service.h"

/*
 * @fault carries on a stream that is close behind its windows: populate its page and the next
 * window, then wake it. false: it does not, resolve it as usual.
 */
bool populate_window(struct fault_thread *thread, const struct fault *fault, int64_t max_pages);
/* A fault on @idx was resolved: populate what is ahead of it, if it is part of a stream. */
void populate_ahead(struct fault_thread *thread, struct mapping *mapping, int64_t idx,
		    int64_t max_pages);
/* The stream behind the last window of @thread has not come back: populate the next one. */
void populate_lazy(struct fault_thread *thread);
void populate_drop_lazy(struct fault_thread *thread);

/*
 * Populate pages [from, to) of @mapping on all fault threads, as many as can be had, and call
 * @done on one of them. 0 or -ENOMEM.
 */
int populate_range(struct fault_service *service, struct mapping *mapping, int64_t from,
		   int64_t to, void (*done)(void *data), void *data);
