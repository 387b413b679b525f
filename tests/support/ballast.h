/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Ballast: the free pages of the machine's pool, reserved, so that what a test takes beyond a
 * mount's own are surplus pages, whatever was free before.
 */
#pragma once

#include <stddef.h>

struct ballast {
	void *addr; /* NULL: there was nothing free */
	size_t length;
};

/* Before the test reads counters to compare with. Fails the test if that cannot be done. */
void ballast_take(struct ballast *ballast, unsigned long page_size);
/* After the last comparison. */
void ballast_drop(struct ballast *ballast);
