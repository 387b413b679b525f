/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Numbers as the kernel's lib/cmdline.c and lib/kstrtox.c read them, except that nothing wraps:
 * what does not fit 64 bits is -ERANGE. strtoull() will not do: it takes signs and spaces, and
 * since C23 a 0b prefix too. No state, no locks.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "fs/memparse.h"

static int digit_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return INT_MAX;
}

/* simple_strtoull() of the kernel; -ERANGE where that overflows, -EINVAL without a digit. */
static int parse_digits(const char *text, int base, const char **ret_rest, uint64_t *ret_value)
{
	uint64_t value = 0;
	const char *first;

	if (base == 0) {
		base = 10;
		if (text[0] == '0') {
			base = 8;
			if ((text[1] == 'x' || text[1] == 'X') && digit_value(text[2]) < 16) {
				base = 16;
				text += 2;
			}
		}
	}
	for (first = text; digit_value(*text) < base; text++) {
		if (__builtin_mul_overflow(value, (uint64_t)base, &value) ||
		    __builtin_add_overflow(value, (uint64_t)digit_value(*text), &value))
			return -ERANGE;
	}
	if (text == first)
		return -EINVAL;
	*ret_rest = text;
	*ret_value = value;
	return 0;
}

int memparse_size(const char *text, const char **ret_rest, uint64_t *ret_value)
{
	static const char suffixes[] = "kKmMgGtTpPeE";
	const char *rest, *suffix;
	uint64_t value;
	int r;

	r = parse_digits(text, 0, &rest, &value);
	if (r < 0)
		return r;
	if (*rest != '\0' && (suffix = strchr(suffixes, *rest)) != NULL) {
		unsigned int shift = 10 * (unsigned int)((suffix - suffixes) / 2 + 1);

		if (value > UINT64_MAX >> shift)
			return -ERANGE;
		value <<= shift;
		rest++;
	}
	*ret_rest = rest;
	*ret_value = value;
	return 0;
}

int memparse_bytes(const char *text, uint64_t *ret_bytes)
{
	const char *rest;
	uint64_t value;
	int r;

	r = memparse_size(text, &rest, &value);
	if (r < 0)
		return r;
	if (*rest != '\0')
		return -EINVAL;
	if (value > MEMPARSE_MAX_BYTES)
		return -ERANGE;
	*ret_bytes = value;
	return 0;
}

int memparse_number(const char *text, int base, uint64_t min, uint64_t max, uint64_t *ret_value)
{
	const char *rest;
	uint64_t value;
	int r;

	r = parse_digits(text, base, &rest, &value);
	if (r < 0)
		return r;
	if (*rest != '\0')
		return -EINVAL;
	if (value < min || value > max)
		return -ERANGE;
	*ret_value = value;
	return 0;
}
