/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What of a process's memory is in its page table. */
#pragma once

#include <stdint.h>

struct pagemap_range {
	uint64_t start, end; /* addresses */
};

/*
 * The ranges of anonymous pages that the page table has in [start, end), in order. Their
 * number; -ENOTTY before Linux 6.7, -E2BIG where there are more than @room.
 */
int pagemap_anonymous(int fd, uint64_t start, uint64_t end, struct pagemap_range *ranges,
		      int room);

/*
 * How many bytes of [start, end), whole pages of @page_size, the page table behind @fd, a
 * /proc/PID/pagemap, has. 0 where the process has gone; -errno.
 */
int64_t pagemap_present(int fd, uint64_t start, uint64_t end, uint64_t page_size);

/* Whether an entry for a huge page maps the page at @address: 1, 0, or -errno. */
int pagemap_is_huge(int fd, uint64_t address);
