/* SPDX-License-Identifier: GPL-2.0-or-later */
/* hugetlb backing: pages of the kernel's hugetlb pool, in a private hugetlbfs. */
#pragma once

#include "fs/backing.h"

/*
 * A backing over the hugetlbfs whose root is open as @dir_fd (taken over on success).
 * @min_pages: its min_size=, where its size= is more; else 0. 0, -ENOMEM, -errno.
 */
int backing_hugetlb_new(int dir_fd, uint64_t page_size, int nr_nodes, int64_t min_pages,
			struct backing **ret_backing);
void backing_hugetlb_free(struct backing *backing);
