/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a mount has to do with nodes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "fs/mount.h"

/* What a backing cannot do of @rule, in a line; NULL: it can do all of it. */
const char *mount_numa_lacks(const struct numa_rule *rule, bool is_thp);
/* Whether this machine has the nodes that the options name. 0, or -EINVAL with a line in
 * @error. */
int mount_numa_check(const struct mount_options *options, bool is_thp, char *error,
		     size_t error_size);
/* How many pages each node is to have; NULL where that was not said. */
const int64_t *mount_numa_node_pages(const struct mount_options *options,
				     int64_t ret_pages[POOL_MAX_NODES]);
/* After the counters were set up. */
void mount_numa_set_up(struct mount *mount);
