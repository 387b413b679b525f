/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Populating a range of pages (MAP_POPULATE): all fault threads take one at a time, and look
 * for faults in between. */
#pragma once

#include <stdint.h>

#include "fs/fault_service.h"

/*
 * Populate pages [from, to) of @mapping on all fault threads, as many as can be had, and call
 * @done on one of them. 0 or -ENOMEM.
 */
int populate_range(struct fault_service *service, struct mapping *mapping, int64_t from,
		   int64_t to, void (*done)(void *data), void *data);
