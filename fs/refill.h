/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Refiller: the thread that makes costly attempts at pages on nodes where an allocation has
 * failed (fs/avail_mask.h), so that no fault does.
 */
#pragma once

#include "fs/mount.h"

struct refill;

/* Starts the thread, with avail_mask=on; else *@ret_refill is NULL. 0, -ENOMEM, -errno. */
int refill_new(struct mount *mount, struct refill **ret_refill);
/* NULL-safe. */
void refill_free(struct refill *refill);
