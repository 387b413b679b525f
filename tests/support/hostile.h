/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What hostile users have in common: numbers that nobody should believe, and mappings to lie
 * about. */
#pragma once

#include <stdint.h>

#include "raw_client.h"

#define NR_ABSURD 16
extern const int64_t absurd[NR_ABSURD];

/* Attach the first @pages pages of the file @name, made if need be, in a child. Returns 0. */
int attach(struct raw_mapping *mapping, const char *name, uint32_t flags, uint64_t pages);
