/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memparse: numbers in options. The base is chosen as in C (0x, a leading 0, else decimal),
 * sizes may carry one of K, M, G, T, P and E in either case for powers of 1024. All return 0,
 * -EINVAL for what is no such number, or -ERANGE; and leave their results alone on failure.
 */
#pragma once

#include <stdint.h>

/* The largest size: an loff_t. */
#define MEMPARSE_MAX_BYTES ((uint64_t)INT64_MAX)

/* memparse() of the kernel; *@ret_rest is what follows the number and its suffix. */
int memparse_size(const char *text, const char **ret_rest, uint64_t *ret_value);
/* A size and nothing after it, of at most MEMPARSE_MAX_BYTES. */
int memparse_bytes(const char *text, uint64_t *ret_bytes);
/* A number without suffix and nothing after it; @base 0 chooses it as above. */
int memparse_number(const char *text, int base, uint64_t min, uint64_t max,
		    uint64_t *ret_value);
