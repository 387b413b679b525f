/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which pages of a hugetlbfs file are there: hugetlbfs has no SEEK_DATA. */
#pragma once

#include <stdint.h>

/* What the others want as @probe: a descriptor, or -1 where there is no userfaultfd. */
int hugetlb_probe_open(void);
/* Whether page @idx of @fd is there: 1, 0 or -errno. Allocates nothing. */
int hugetlb_probe_page(int probe, int fd, uint64_t page_size, int64_t idx);
/*
 * Call @found for each page of [from, to) that is there, in order, until it returns non-zero,
 * which is returned. 0 or -errno.
 */
int hugetlb_probe_range(int probe, int fd, uint64_t page_size, int64_t from, int64_t to,
			int (*found)(void *data, int64_t idx), void *data);
