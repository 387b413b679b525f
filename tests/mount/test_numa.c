/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * numa= and user.hugefuse.numa where there is one node: what is refused, who gets a rule from
 * whom, that it stays over a restart, and that files with rules have pages as others. Where
 * pages are on machines of several nodes is in tests/vm.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "fixture.h"
#include "hugefuse.h"

#define NUMA "user.hugefuse.numa"
#define RW   (PROT_READ | PROT_WRITE)

static struct fixture fixture;

static int set_rule(const char *name, const char *rule)
{
	return setxattr(fixture_path(&fixture, name), NUMA, rule, strlen(rule), 0) < 0 ? -errno
										       : 0;
}

/* The rule of @name, or "" for none; in a static buffer. */
static const char *rule_of(const char *name)
{
	static char value[256];
	ssize_t len = getxattr(fixture_path(&fixture, name), NUMA, value, sizeof(value) - 1);

	if (len < 0)
		assert_int_equal(errno, ENODATA);
	value[len < 0 ? 0 : len] = '\0';
	return value;
}

static void make_file(const char *name)
{
	close(fixture_file(&fixture, name, O_RDWR | O_CREAT | O_EXCL, 2 * PAGE_2M));
}

static void test_refused_rules(void **state)
{
	static const char *const bad[] = {"",
					  "near",
					  "bind",
					  "bind:",
					  "bind:63",
					  "bind:x",
					  "local ",
					  "local:0",
					  "bind:0,fallback=none",
					  "local,fallback=small",
					  "preferred:0-1",
					  "bind:64"};

	fixture_mount(&fixture, "backing=hugetlb,size=8M");
	make_file("file");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(set_rule("file", bad[i]),
				 strstr(bad[i], "small") ? -EOPNOTSUPP : -EINVAL);
	assert_string_equal(rule_of("file"), "");
	assert_int_equal(setxattr(fixture_path(&fixture, "file"), NUMA, "local\0", 6, 0), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(
		setxattr(fixture_path(&fixture, "file"), NUMA, "local", 5, XATTR_REPLACE), -1);
	assert_int_equal(errno, ENODATA);
	assert_int_equal(set_rule("file", "local"), 0);
	assert_int_equal(
		setxattr(fixture_path(&fixture, "file"), NUMA, "local", 5, XATTR_CREATE), -1);
	assert_int_equal(errno, EEXIST);
	fixture_umount(&fixture);
}

/* What is made in a directory has its rule; what was there, or is moved there, has its own. */
static void test_inherited_at_create(void **state)
{
	char list[256];

	fixture_mount(&fixture, "backing=hugetlb,size=8M");
	assert_int_equal(mkdir(fixture_path(&fixture, "dir"), 0755), 0);
	make_file("dir/before");
	make_file("outside");
	assert_int_equal(set_rule("dir", "bind:0,fallback=fail"), 0);
	make_file("dir/file");
	assert_int_equal(mkdir(fixture_path(&fixture, "dir/below"), 0755), 0);
	make_file("dir/below/file");
	assert_int_equal(mknod(fixture_path(&fixture, "dir/node"), S_IFREG | 0644, 0), 0);
	assert_int_equal(symlink("x", fixture_path(&fixture, "dir/link")), 0);
	assert_int_equal(mkfifo(fixture_path(&fixture, "dir/fifo"), 0644), 0);
	assert_string_equal(rule_of("dir/file"), "bind:0,fallback=fail");
	assert_string_equal(rule_of("dir/below"), "bind:0,fallback=fail");
	assert_string_equal(rule_of("dir/below/file"), "bind:0,fallback=fail");
	assert_string_equal(rule_of("dir/node"), "bind:0,fallback=fail");
	assert_string_equal(rule_of("dir/before"), "");
	assert_int_equal(set_rule("dir", "interleave"), 0);
	assert_string_equal(rule_of("dir/file"), "bind:0,fallback=fail");
	assert_int_equal(removexattr(fixture_path(&fixture, "dir"), NUMA), 0);
	make_file("dir/after");
	assert_string_equal(rule_of("dir/after"), "");
	assert_int_equal(listxattr(fixture_path(&fixture, "dir/file"), list, sizeof(list)),
			 sizeof(NUMA));
	assert_string_equal(list, NUMA);
	fixture_umount(&fixture);
}

static void map_all(const char *name)
{
	int fd = fixture_file(&fixture, name, O_RDWR | O_CREAT, 2 * PAGE_2M);
	char *p = hugefuse_mmap(NULL, 2 * PAGE_2M, RW, MAP_SHARED, fd, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	assert_false(raises_sigbus(p, true));
	assert_false(raises_sigbus(p + PAGE_2M, true));
	assert_int_equal(hugefuse_munmap(p, 2 * PAGE_2M), 0);
	close(fd);
}

/* On one node all of them come to the same, whatever is mapped, and when it is set. */
static void test_one_node_serves_all(void **state)
{
	static const char *const rules[] = {"local,fallback=fail", "preferred:0,fallback=wait",
					    "bind:0", "interleave"};
	long nr = sizeof(rules) / sizeof(rules[0]);
	char name[16];

	fixture_mount(&fixture, "backing=hugetlb,size=20M,numa=bind:0,fallback=fail");
	for (long i = 0; i < nr; i++) {
		snprintf(name, sizeof(name), "file%ld", i);
		make_file(name);
		assert_int_equal(set_rule(name, rules[i]), 0);
		map_all(name);
	}
	assert_int_equal(fixture_counter(&fixture, "free_hugepages"), 10 - 2 * nr);
	assert_int_equal(fixture_fault_stat(&fixture, "remote_pages"), 0);
	assert_int_equal(fixture_fault_stat(&fixture, "attempts_failed"), 0);
	fixture_umount(&fixture);
}

/* A daemon that takes over finds the rules, and what is made from then on inherits them. */
static void test_stays_over_restart(void **state)
{
	fixture_mount(&fixture, "backing=hugetlb,size=16M");
	assert_int_equal(mkdir(fixture_path(&fixture, "dir"), 0755), 0);
	assert_int_equal(set_rule("dir", "preferred:0"), 0);
	map_all("dir/file");
	fixture_kill(&fixture);
	fixture_restart(&fixture, "backing=hugetlb,size=16M");
	assert_string_equal(rule_of("dir"), "preferred:0");
	assert_string_equal(rule_of("dir/file"), "preferred:0");
	make_file("dir/new");
	assert_string_equal(rule_of("dir/new"), "preferred:0");
	fixture_umount(&fixture);
}

static int set_as_user(void *data)
{
	const char *path = data;

	return setxattr(path, NUMA, "local", 5, 0) < 0 ? errno : 0;
}

static void test_who_may_write_may_set(void **state)
{
	static char path[128];

	fixture_mount(&fixture, "backing=hugetlb,size=8M,mode=1777");
	make_file("file");
	snprintf(path, sizeof(path), "%s", fixture_path(&fixture, "file"));
	assert_int_equal(run_child(set_as_user, path, 1000, 10000), EACCES);
	assert_int_equal(chown(path, 1000, 1000), 0);
	assert_int_equal(run_child(set_as_user, path, 1000, 10000), 0);
	assert_string_equal(rule_of("file"), "local");
	fixture_umount(&fixture);
}

/* With thp it is the kernel that places pages: what it cannot do is refused. */
static void test_thp_refuses(void **state)
{
	fixture_mount(&fixture, "backing=thp,size=8M,numa=preferred:0,fallback=small");
	make_file("file");
	assert_int_equal(set_rule("file", "bind:0"), -EOPNOTSUPP);
	assert_int_equal(set_rule("file", "local,fallback=wait"), -EOPNOTSUPP);
	assert_int_equal(set_rule("file", "interleave,fallback=small"), 0);
	assert_string_equal(rule_of("file"), "interleave,fallback=small");
	assert_int_equal(removexattr(fixture_path(&fixture, "file"), NUMA), 0);
	fixture_umount(&fixture);
}

static void test_verb(void **state)
{
	static char path[128];

	fixture_mount(&fixture, "backing=hugetlb,size=8M");
	make_file("file");
	snprintf(path, sizeof(path), "%s", fixture_path(&fixture, "file"));
	assert_int_equal(run_hugefuse("numa", path, "bind:0,fallback=wait", NULL), 0);
	assert_string_equal(rule_of("file"), "bind:0,fallback=wait");
	assert_int_equal(run_hugefuse("numa", "--json", path, NULL), 0);
	assert_int_equal(run_hugefuse("numa", path, "bind:63", NULL), 1);
	assert_string_equal(rule_of("file"), "bind:0,fallback=wait");
	assert_int_equal(run_hugefuse("numa", path, "none", NULL), 0);
	assert_int_equal(run_hugefuse("numa", path, "none", NULL), 0);
	assert_string_equal(rule_of("file"), "");
	assert_int_equal(run_hugefuse("numa", "/", NULL), 1);
	assert_int_equal(run_hugefuse("numa", NULL), 2);
	fixture_umount(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused_rules),
		cmocka_unit_test(test_inherited_at_create),
		cmocka_unit_test(test_one_node_serves_all),
		cmocka_unit_test(test_stays_over_restart),
		cmocka_unit_test(test_who_may_write_may_set),
		cmocka_unit_test(test_thp_refuses),
		cmocka_unit_test(test_verb),
	};

	require_root();
	require_pages(PAGE_2M, 10);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
