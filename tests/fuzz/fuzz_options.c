/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The option parser: what it takes it prints, and reads back to the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/options.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fail(const char *what, const char *text)
{
	fprintf(stderr, "fuzz: %s: %s\n", what, text);
	abort();
}

static void check_error(const char *error)
{
	if (*error == '\0' || strchr(error, '\n'))
		fail("not one line", error);
}

static char *print(const struct mount_options *options)
{
	int len = options_print(options, NULL, 0);
	char *text;

	if (len < 0)
		fail("cannot be printed", "");
	text = malloc((size_t)len + 1);
	if (options_print(options, text, (size_t)len + 1) != len)
		fail("is not as long as it says", text);
	return text;
}

static void read_back(const struct mount_options *options)
{
	char error[1024], *first = print(options), *second;
	struct mount_options again;

	options_init(&again);
	if (options_parse(&again, first, error, sizeof(error)) < 0)
		fail(error, first);
	second = print(&again);
	if (strcmp(first, second) != 0)
		fail(first, second);
	options_deinit(&again);
	free(first);
	free(second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t error_size = size % 7 == 0 ? size % 40 : 1024;
	struct mount_options options;
	char error[1024] = "", *list = malloc(size + 1), *before, *after;

	memcpy(list, data, size);
	list[size] = '\0';
	options_init(&options);
	before = print(&options);
	if (options_parse(&options, list, error, error_size) == 0) {
		if (options_check(&options, error, sizeof(error)) < 0)
			check_error(error);
		read_back(&options);
	} else {
		if (error_size == sizeof(error))
			check_error(error);
		after = print(&options);
		if (strcmp(before, after) != 0)
			fail("a refused list has changed something", list);
		free(after);
	}
	options_deinit(&options);
	free(before);
	free(list);
	return 0;
}
