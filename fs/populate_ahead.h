/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Populating ahead of the streams of a mapping: see ahead.h for which pages. Whichever fault
 * threads have nothing else to do take a page at a time, and look for faults in between. When a
 * window is there as a whole, it is entered into the client's page table at once, and the
 * thread that waits for it is woken.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "fs/fault_resolve.h"

/*
 * @fault, if it carries on a stream, is resolved when its page and the rest of the window, of
 * at most @max_pages, are there. false: it does not, resolve it as usual.
 */
bool populate_window(struct fault_thread *thread, const struct fault *fault, int64_t max_pages);
/* A fault in @mapping was resolved as usual: populate what is ahead of it. */
void populate_ahead(struct fault_thread *thread, struct mapping *mapping, int64_t max_pages);
