/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Leftovers: what a dead daemon's mount still has, for hugefuse reap and hugefuse fsck. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fs/process_maps.h"

struct leftovers {
	char mountpoint[4096];
	bool is_thp;
	uint64_t page_size;
	int64_t nr_files, nr_pages; /* with pages; in them, of names/ and data/ together */
	int64_t nr_lent;            /* pages that were added to the kernel's pool */
	struct vma_list vmas;       /* what processes have mapped; backing=hugetlb */
};

/* What there is at @run_dir, called @name, whose state/ is open and locked as @state_fd. 0,
 * -errno. */
int leftovers_read(const char *run_dir, const char *name, int state_fd,
		   struct leftovers *ret_leftovers);
void leftovers_free(struct leftovers *leftovers);
