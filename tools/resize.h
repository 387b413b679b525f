/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Resize: what hugefuse resize takes for a size. */
#pragma once

#include <stdint.h>

/*
 * The size that @text asks of a pool of @bytes: a size as in mount options, a percentage of
 * @bytes, or either after + or - as a difference. Returns 0, -EINVAL for what is no such text,
 * or -ERANGE for what is below 0 or too large.
 */
int resize_parse(const char *text, uint64_t bytes, uint64_t *ret_bytes);
