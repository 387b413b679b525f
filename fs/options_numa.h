/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The options that concern nodes: private to fs/options*.c. All: 0, -EINVAL or -ERANGE. */
#pragma once

#include "fs/options.h"

int options_set_node_sizes(struct mount_options *options, const char *value);
int options_set_numa(struct mount_options *options, const char *value);
int options_set_fallback(struct mount_options *options, const char *value);
int options_set_avail_mask(struct mount_options *options, const char *value);
int options_set_alloc_sleep_ms(struct mount_options *options, const char *value);

/* The check of them; one line in @error and -EINVAL. */
int options_check_numa(const struct mount_options *options, char *error, size_t error_size);
