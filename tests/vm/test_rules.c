/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Rules of files and directories, the memory policy of the thread that maps, and what a daemon
 * that takes over makes of both: each page is looked at.
 */
#include <errno.h>
#include <fcntl.h>
#include <numaif.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "hugefuse.h"
#include "nodes.h"

#define PER_NODE 4

static struct fixture fixture;
static int first, last;

static void mount_two(const char *options)
{
	char list[160];

	fixture = (struct fixture){0};
	first = memory_node(0);
	last = memory_node(-1);
	snprintf(list, sizeof(list), "backing=hugetlb,size=%d:%dM,%d:%dM%s", first,
		 2 * PER_NODE, last, 2 * PER_NODE, options);
	nodes_note();
	fixture_mount(&fixture, list);
}

__attribute__((format(printf, 2, 3))) static void set_rule(const char *name, const char *format,
							   ...)
{
	char rule[64];
	va_list args;

	va_start(args, format);
	vsnprintf(rule, sizeof(rule), format, args);
	va_end(args);
	if (setxattr(fixture_path(&fixture, name), "user.hugefuse.numa", rule, strlen(rule), 0))
		fail_msg("%s: %s: %s", name, rule, strerror(errno));
}

static void make_dir(const char *name)
{
	assert_int_equal(mkdir(fixture_path(&fixture, name), 0755), 0);
}

static void drop_and_umount(struct nodes_file *a, struct nodes_file *b)
{
	nodes_expect_as_kernel(&fixture);
	nodes_drop(&fixture, a);
	if (b)
		nodes_drop(&fixture, b);
	fixture_expect_counter(&fixture, "free_hugepages", 2 * PER_NODE);
	nodes_expect_as_kernel(&fixture);
	fixture_umount(&fixture);
}

/* hugefuse why says of the mount which node it was. */
static void expect_why_names(int node)
{
	char command[256], wanted[64], line[512];
	bool found = false;
	FILE *why;

	snprintf(command, sizeof(command), "%s why %s", getenv("HUGEFUSE"), fixture.dir);
	snprintf(wanted, sizeof(wanted), "to be on node %d were refused", node);
	why = popen(command, "r");
	assert_non_null(why);
	while (fgets(line, sizeof(line), why))
		found = found || strstr(line, wanted);
	assert_int_equal(pclose(why), 0);
	assert_true(found);
}

/* Two directories, each with a rule: what is made there is there, and neither takes what the
 * other has reserved. */
static void test_directories(void **state)
{
	struct nodes_file bound, other;

	mount_two("");
	make_dir("bound");
	make_dir("other");
	set_rule("bound", "bind:%d", last);
	set_rule("other", "preferred:%d", last);
	bound = nodes_map(&fixture, "bound/file", PER_NODE - 1);
	other = nodes_map(&fixture, "other/file", PER_NODE - 1);
	/* One page of that node is nobody's. */
	assert_int_equal(nodes_touch(&other, 0, first), last);
	for (long idx = 1; idx < PER_NODE - 1; idx++)
		assert_int_equal(nodes_touch(&other, idx, last), first);
	for (long idx = 0; idx < PER_NODE - 1; idx++)
		assert_int_equal(nodes_touch(&bound, idx, first), last);
	assert_int_equal(nodes_map_error(&fixture, "bound/more", 1, MAP_SHARED), ENOMEM);
	assert_true(fixture_fault_stat(&fixture, "bind_refused") > 0);
	expect_why_names(last);
	/* said in the log */
	fixture.expected = "that are to be on node";
	nodes_drop(&fixture, &bound);
	assert_int_equal(rmdir(fixture_path(&fixture, "bound")), 0);
	drop_and_umount(&other, NULL);
}

/* A rule that is set while the file is mapped is for the pages that come after it. */
static void test_changed_while_mapped(void **state)
{
	struct nodes_file file;

	mount_two("");
	file = nodes_map(&fixture, "file", 6);
	assert_int_equal(nodes_touch(&file, 0, first), first);
	set_rule("file", "bind:%d", last);
	assert_int_equal(nodes_touch(&file, 1, first), last);
	set_rule("file", "interleave:%d,%d", first, last);
	for (long idx = 2; idx < 6; idx++)
		assert_int_equal(nodes_touch(&file, idx, first), idx % 2 ? last : first);
	assert_int_equal(removexattr(fixture_path(&fixture, "file"), "user.hugefuse.numa"), 0);
	drop_and_umount(&file, NULL);
}

static void set_policy(int mode, unsigned long nodes)
{
	assert_int_equal(set_mempolicy(mode, nodes ? &nodes : NULL, 8 * sizeof(nodes) + 1), 0);
}

/* libnuma's policy of the thread that maps counts where the file has none, and only there. */
static void test_policy_of_thread(void **state)
{
	struct nodes_file file, ruled;

	mount_two("");
	make_dir("dir");
	set_rule("dir", "preferred:%d", first);
	set_policy(MPOL_BIND, 1UL << last);
	file = nodes_map(&fixture, "file", PER_NODE + 1);
	ruled = nodes_map(&fixture, "dir/file", 1);
	set_policy(MPOL_DEFAULT, 0);
	for (long idx = 0; idx < PER_NODE; idx++)
		assert_int_equal(nodes_touch(&file, idx, first), last);
	/* It was reserved without that policy being asked: it does not fail for it. */
	assert_int_equal(nodes_touch(&file, PER_NODE, first), first);
	assert_int_equal(nodes_touch(&ruled, 0, last), first);
	drop_and_umount(&file, &ruled);
}

static void test_interleaving_thread(void **state)
{
	struct nodes_file file;

	mount_two("");
	set_policy(MPOL_INTERLEAVE, 1UL << first | 1UL << last);
	file = nodes_map_with(&fixture, "file", 4, MAP_PRIVATE);
	set_policy(MPOL_DEFAULT, 0);
	for (long idx = 0; idx < 4; idx++)
		assert_int_equal(nodes_touch(&file, idx, first), idx % 2 ? last : first);
	drop_and_umount(&file, NULL);
}

/* Where each page is, and what is bound to where, is found again by a daemon that takes over.
 */
static void test_restart(void **state)
{
	struct nodes_file file, other, again;

	mount_two("");
	make_dir("dir");
	set_rule("dir", "bind:%d", last);
	file = nodes_map(&fixture, "dir/file", PER_NODE);
	other = nodes_map(&fixture, "other", 2);
	for (long idx = 0; idx < PER_NODE - 1; idx++)
		assert_int_equal(nodes_touch(&file, idx, first), last);
	for (long idx = 0; idx < 2; idx++)
		assert_int_equal(nodes_touch(&other, idx, last), first);
	nodes_expect_as_kernel(&fixture);
	fixture_kill(&fixture);
	fixture_restart(&fixture, "backing=hugetlb");
	nodes_expect_as_kernel(&fixture);
	/* The library attaches what it has when it has something to ask. */
	again = nodes_map(&fixture, "again", 1);
	assert_int_equal(nodes_map_error(&fixture, "dir/more", 1, MAP_SHARED), ENOMEM);
	fixture.expected = "that are to be on node";
	assert_int_equal(nodes_touch(&file, PER_NODE - 1, first), last);
	nodes_drop(&fixture, &file);
	assert_int_equal(rmdir(fixture_path(&fixture, "dir")), 0);
	drop_and_umount(&other, &again);
}

static char *map_thp(const char *name, long pages, int *ret_fd)
{
	char *p;

	*ret_fd = fixture_file(&fixture, name, O_RDWR | O_CREAT, pages * (off_t)PAGE_2M);
	p = mmap(NULL, (size_t)pages * PAGE_2M, PROT_READ | PROT_WRITE, MAP_SHARED, *ret_fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

/* With thp the kernel places the pages, by the file's policy, whoever makes them. */
static void test_thp(void **state)
{
	char list[96], *p;
	int fd;

	fixture = (struct fixture){0};
	first = memory_node(0);
	last = memory_node(-1);
	snprintf(list, sizeof(list), "backing=thp,size=32M,numa=preferred:%d,fallback=small",
		 last);
	fixture_mount(&fixture, list);
	run_on_node(first);
	p = map_thp("preferred", 2, &fd);
	for (long idx = 0; idx < 2; idx++) {
		p[idx * (long)PAGE_2M] = 1;
		assert_int_equal(node_of_page(p + idx * (long)PAGE_2M), last);
	}
	munmap(p, 2 * PAGE_2M);
	close(fd);
	make_dir("dir");
	set_rule("dir", "interleave:%d,%d", first, last);
	p = map_thp("dir/file", 4, &fd);
	for (long idx = 0; idx < 4; idx++)
		p[idx * (long)PAGE_2M] = 1;
	for (long idx = 0; idx < 3; idx++)
		assert_int_not_equal(node_of_page(p + idx * (long)PAGE_2M),
				     node_of_page(p + (idx + 1) * (long)PAGE_2M));
	munmap(p, 4 * PAGE_2M);
	close(fd);
	fixture_umount(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_directories),
		cmocka_unit_test(test_changed_while_mapped),
		cmocka_unit_test(test_policy_of_thread),
		cmocka_unit_test(test_interleaving_thread),
		cmocka_unit_test(test_restart),
		cmocka_unit_test(test_thp),
	};

	require_nodes(2);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
