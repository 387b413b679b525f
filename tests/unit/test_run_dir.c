/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The name below /run/hugefuse of a mount point: one directory for each mount point, never
 * outside, never hidden. TEST_SEED in the environment repeats a random run.
 */
#include "fs/run_dir.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

static void test_names(void **state)
{
	static const struct {
		const char *mountpoint, *name;
	} cases[] = {
		{"/", "-"},
		{"/mnt", "mnt"},
		{"/mnt/huge", "mnt-huge"},
		{"/a/b/c", "a-b-c"},
		{"/srv/db_1/v2.0", "srv-db_1-v2.0"},
		/* What a name could be taken for another's by. */
		{"/mnt-huge", "mnt\\x2dhuge"},
		{"/-", "\\x2d"},
		{"/a\\x2db", "a\\x5cx2db"},
		{"/a b", "a\\x20b"},
		{"/a\nb", "a\\x0ab"},
		{"/\xc3\xa4", "\\xc3\\xa4"},
		/* Nor is it the directory itself, the one above, or the lock file. */
		{"/.", "\\x2e"},
		{"/..", "\\x2e."},
		{"/.kernel-pool.lock", "\\x2ekernel\\x2dpool.lock"},
		{"/mnt/.huge", "mnt-.huge"},
	};
	char path[PATH_MAX], expected[PATH_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(run_dir_path(RUN_DIR, cases[i].mountpoint, path), 0);
		snprintf(expected, sizeof(expected), "%s/%s", RUN_DIR, cases[i].name);
		assert_string_equal(path, expected);
	}
}

/* A name has NAME_MAX bytes; where there may be no room, nothing is made. */
static void test_long_names(void **state)
{
	char mountpoint[PATH_MAX], path[PATH_MAX];
	int longest[2] = {0, 0};

	for (int escaped = 0; escaped < 2; escaped++) {
		for (int len = 1; len < 1000; len++) {
			int r;

			memset(mountpoint, escaped ? '-' : 'a', sizeof(mountpoint));
			mountpoint[0] = '/';
			mountpoint[1 + len] = '\0';
			strcpy(path, "untouched");
			r = run_dir_path(RUN_DIR, mountpoint, path);
			if (r == 0) {
				assert_int_equal(strlen(path) - strlen(RUN_DIR "/"),
						 escaped ? 4 * len : len);
				assert_true(strlen(path) - strlen(RUN_DIR "/") <= NAME_MAX);
				assert_int_equal(longest[escaped], len - 1);
				longest[escaped] = len;
			} else {
				assert_int_equal(r, -ENAMETOOLONG);
				assert_string_equal(path, "untouched");
			}
		}
	}
	assert_in_range(longest[0], 240, NAME_MAX);
	assert_in_range(longest[1], 60, NAME_MAX / 4);
}

static uint32_t random_below(uint64_t *seed, uint32_t limit)
{
	*seed = *seed * 6364136223846793005U + 1442695040888963407U;
	return (uint32_t)(((*seed >> 32) * limit) >> 32);
}

/* The opposite of run_dir_path(), by its description. */
static void unescape(const char *name, char *ret_mountpoint)
{
	unsigned int byte;

	*ret_mountpoint++ = '/';
	while (*name && strcmp(name, "-") != 0) {
		if (sscanf(name, "\\x%2x", &byte) == 1) {
			*ret_mountpoint++ = (char)byte;
			name += 4;
		} else {
			*ret_mountpoint++ = *name == '-' ? '/' : *name;
			name++;
		}
	}
	*ret_mountpoint = '\0';
}

/* As realpath(3) gives it: no "//", "/./", "/../", and no "/" at the end. */
static void random_mountpoint(uint64_t *seed, char *ret_mountpoint)
{
	static const char letters[] = "ab-_.\\x2d \n%\xff:";
	size_t nr_parts = 1 + random_below(seed, 4), len = 0;

	for (size_t part = 0; part < nr_parts; part++) {
		size_t nr = 1 + random_below(seed, 8);

		ret_mountpoint[len++] = '/';
		for (size_t i = 0; i < nr; i++)
			ret_mountpoint[len++] =
				letters[random_below(seed, sizeof(letters) - 1)];
		ret_mountpoint[len++] = 'z';
	}
	ret_mountpoint[len] = '\0';
}

/* Whoever can read the mount point back from the name has no other with the same name. */
static void test_no_two_have_the_same_name(void **state)
{
	const char *text = getenv("TEST_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 0) : (uint64_t)time(NULL);
	char mountpoint[PATH_MAX], path[PATH_MAX], back[PATH_MAX];

	print_message("TEST_SEED=%" PRIu64 "\n", seed);
	for (int i = 0; i < 50000; i++) {
		const char *name = path + strlen(RUN_DIR "/");

		random_mountpoint(&seed, mountpoint);
		assert_int_equal(run_dir_path(RUN_DIR, mountpoint, path), 0);
		assert_int_equal(strncmp(path, RUN_DIR "/", strlen(RUN_DIR "/")), 0);
		assert_null(strchr(name, '/'));
		assert_true(*name != '.' && *name != '\0');
		for (const char *c = name; *c; c++)
			assert_true(*c > ' ' && *c < 0x7f);
		unescape(name, back);
		assert_string_equal(back, mountpoint);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_long_names),
		cmocka_unit_test(test_no_two_have_the_same_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
