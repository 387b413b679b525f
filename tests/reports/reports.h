/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reports: what the tests of reported kinds of fault share. */
#pragma once

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "side.h"

#define RW (PROT_READ | PROT_WRITE)

/* Page @idx at @p. */
static inline char *page(char *p, long idx)
{
	return p + idx * (long)PAGE_2M;
}

static inline void punch(int fd, long idx, long pages)
{
	assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				   idx * (long)PAGE_2M, pages * (long)PAGE_2M),
			 0);
}

/* How many pages st_blocks says that the file has. */
static inline long pages_of(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return st.st_blocks / (long)(PAGE_2M / 512);
}
