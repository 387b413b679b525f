/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Removing trees: deep ones, forbidden ones, and nothing outside. As any user. */
#include "fs/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define DEPTH 3000 /* much more than PATH_MAX has room for */

static char dir[] = "/tmp/hugefuse-tree-XXXXXX";
static int dir_fd;

static void make_file(int at, const char *name)
{
	int fd = openat(at, name, O_WRONLY | O_CREAT | O_EXCL, 0600);

	assert_true(fd >= 0);
	close(fd);
}

static int make_dir(int at, const char *name)
{
	int fd;

	assert_int_equal(mkdirat(at, name, 0700), 0);
	fd = openat(at, name, O_RDONLY | O_DIRECTORY);
	assert_true(fd >= 0);
	return fd;
}

static int set_up(void **state)
{
	if (!mkdtemp(dir))
		return -1;
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY);
	return dir_fd < 0 ? -1 : 0;
}

static int take_down(void **state)
{
	close(dir_fd);
	return rmdir(dir);
}

static void expect_gone(const char *name)
{
	struct stat st;

	assert_int_equal(fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW), -1);
	assert_int_equal(errno, ENOENT);
}

static void test_deep(void **state)
{
	int fd = make_dir(dir_fd, "a"), child;

	for (int i = 0; i < DEPTH; i++) {
		make_file(fd, "file");
		child = make_dir(fd, "moved-1");
		close(fd);
		fd = child;
	}
	close(fd);
	assert_int_equal(tree_remove(dir_fd, "a"), 0);
	expect_gone("a");
}

static void test_forbidden(void **state)
{
	int fd = make_dir(dir_fd, "a"), child = make_dir(fd, "b"), leaf = make_dir(child, "c");

	make_file(leaf, "file");
	close(make_dir(leaf, "d"));
	assert_int_equal(fchmod(leaf, 0), 0);
	assert_int_equal(fchmod(child, 0500), 0);
	assert_int_equal(fchmod(fd, 0), 0);
	close(leaf);
	close(child);
	close(fd);
	assert_int_equal(tree_remove(dir_fd, "a"), 0);
	expect_gone("a");
}

static void test_links_are_not_followed(void **state)
{
	int outside = make_dir(dir_fd, "outside"), fd = make_dir(dir_fd, "a");
	struct stat st;

	make_file(outside, "file");
	assert_int_equal(symlinkat("../outside", fd, "link"), 0);
	assert_int_equal(symlinkat("outside", dir_fd, "top"), 0);
	close(fd);
	assert_int_equal(tree_remove(dir_fd, "a"), 0);
	expect_gone("a");
	assert_true(tree_remove(dir_fd, "top") < 0);
	assert_int_equal(fstatat(outside, "file", &st, 0), 0);
	assert_int_equal(unlinkat(dir_fd, "top", 0), 0);
	close(outside);
	assert_int_equal(tree_remove(dir_fd, "outside"), 0);
}

static void test_nothing_there(void **state)
{
	assert_int_equal(tree_remove(dir_fd, "a"), 0);
	make_file(dir_fd, "a");
	assert_int_equal(tree_remove(dir_fd, "a"), -ENOTDIR);
	assert_int_equal(unlinkat(dir_fd, "a", 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_deep),
		cmocka_unit_test(test_forbidden),
		cmocka_unit_test(test_links_are_not_followed),
		cmocka_unit_test(test_nothing_there),
	};

	return cmocka_run_group_tests(tests, set_up, take_down);
}
