/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What tests of a restarted daemon count: the mount's pages, and the kernel's beside them. */
#pragma once

#include <sys/mman.h>

#include "fixture.h"

#define RW   (PROT_READ | PROT_WRITE)
#define POOL 24 /* pages of the mount, all of them set aside */

static inline char *page(char *p, long idx)
{
	return p + idx * (long)PAGE_2M;
}

char *map_file(int fd, long pages, int flags);

/* What the mount says, and what the kernel says less what was there before. */
struct counts {
	long used, resv, kernel_used, kernel_resv, kernel_nr;
};

struct counts read_counts(const struct fixture *fixture);
void expect_counts(const struct fixture *fixture, struct counts expected);
/* The pages in use, and all others set aside; the kernel says the same, in a moment. */
void expect(const struct fixture *fixture, long used);
/* How many pages can be reserved still; none of them stay. */
long can_reserve(const struct fixture *fixture);
