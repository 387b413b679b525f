/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Limits: what setrlimit(2) allows a daemon, and whether that is enough. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* As far as this user may: open files, the size of files, the address space. */
void rlimits_raise(void);
/*
 * Whether a file can be as long as a mount of @bytes is large, and be mapped: 0, or -EINVAL
 * with one line in @error.
 */
int rlimits_check(uint64_t bytes, char *error, size_t error_size);
