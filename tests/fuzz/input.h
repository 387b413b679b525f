/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Input: what the fuzzer has made up, taken piece by piece. Behind its end all is zero. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct input {
	const uint8_t *data;
	size_t left;
};

static inline uint8_t take_byte(struct input *input)
{
	if (input->left == 0)
		return 0;
	input->left--;
	return *input->data++;
}

static inline size_t take_bytes(struct input *input, void *buf, size_t len)
{
	size_t n = len < input->left ? len : input->left;

	memset(buf, 0, len);
	if (n > 0)
		memcpy(buf, input->data, n);
	input->data += n;
	input->left -= n;
	return n;
}

/* Any number, but more often one that something depends on. */
static inline uint64_t take_number(struct input *input)
{
	uint64_t number;
	uint8_t kind = take_byte(input);

	if (kind < 64)
		return kind;
	if (kind < 128)
		return (uint64_t)(kind - 64) << 21; /* huge pages */
	if (kind < 192)
		return (1ULL << (kind - 128)) - take_byte(input) % 3 + 1;
	take_bytes(input, &number, sizeof(number));
	return number;
}
