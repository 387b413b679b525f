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
/* The root of the hugetlbfs; the backing's own. */
int backing_hugetlb_dir_fd(struct backing *backing);
/*
 * Call @found for each page of [from, to) that is there, in order, until it returns non-zero,
 * which is returned. 0, or -errno. For whoever knows nothing of a file yet.
 */
int backing_hugetlb_find(struct backing_file *file, int64_t from, int64_t to,
			 int (*found)(void *data, int64_t idx), void *data);
void backing_hugetlb_free(struct backing *backing);
