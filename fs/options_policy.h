/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Setters of fs/options.c, for the options of the policies (docs/policies.md): 0, -EINVAL
 * (malformed) or -ERANGE.
 */
#pragma once

#include "fs/options.h"

int options_set_split_queue(struct mount_options *options, const char *value);
int options_set_split_marks(struct mount_options *options, const char *value);
