/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is special about a mount with backing=thp: whether this machine can, how much, and
 * setting the pages aside, at the beginning and when the pool is resized.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fs/mount.h"

#define THP_PAGE_SIZE      UINT64_C(4096) /* what is counted with backing=thp */
#define MOUNT_THP_NO_LIMIT INT64_MAX      /* but the memory: a tmpfs can have any size */

/* The sizes of a mount in pages of the backing. */
struct mount_pages {
	int64_t max, min;
	int64_t data_max; /* what nr_hugepages may be raised to */
};

/* Whether files of a tmpfs can be mapped through a FUSE mount here (Linux 6.9). */
bool mount_thp_is_supported(void);
/* size= and min_size= in pages; -EINVAL with one line in @error. Per cent is of the memory. */
int mount_thp_resolve(const struct mount_options *options, struct mount_pages *ret_pages,
		      char *error, size_t error_size);
/* Make the backing, and set min_size aside in its reserve. */
int mount_thp_set_aside(struct mount *mount, char *error, size_t error_size);
/*
 * Let the pool have @nr pages that are not surplus, as mount_set_nr_pages() says: as far as
 * there is memory for more; of those in use as many become surplus as are too many. Returns how
 * many it has. Under size_lock.
 */
int64_t mount_thp_set_nr(struct mount *mount, int64_t nr);
/* How many pages the tmpfs that was found can have: never fewer than the pool had. */
int64_t mount_thp_room(const struct mount *mount);
