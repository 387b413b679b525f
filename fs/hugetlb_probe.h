/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the hugetlb backing needs of the kernel, and which pages of a file are there. */
#pragma once

#include <stdint.h>

/* A userfaultfd that answers faults on pages which are not there with SIGBUS, or -1. */
int hugetlb_open_probe(void);
/* What this kernel lacks that the backing or its clients cannot do without, or NULL. */
const char *hugetlb_lacks(void);
/* Whether page @idx of @fd is there: 1, 0 or -errno. Allocates nothing. */
int hugetlb_probe_page(int probe, int fd, uint64_t page_size, int64_t idx);
/*
 * Call @found for each page of [from, to) that is there, in order, until it returns non-zero,
 * which is returned. 0 or -errno.
 */
int hugetlb_probe_range(int probe, int fd, uint64_t page_size, int64_t from, int64_t to,
			int (*found)(void *data, int64_t idx), void *data);
