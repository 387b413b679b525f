/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A mount on a machine of several nodes: its pages are spread over those that have memory, and
 * each node's counters are the kernel's, also when pages come and go on one of them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "nodes.h"

static int nr_with_memory(void)
{
	int nr = 0;

	for (int node = 0; node < nr_nodes(); node++)
		nr += node_has_memory(node);
	return nr;
}

static void mount_pages(struct fixture *fixture, long pages, const char *options)
{
	char list[128];

	snprintf(list, sizeof(list), "backing=hugetlb,size=%ldM%s", pages * 2, options);
	nodes_note();
	fixture_mount(fixture, list);
}

static void test_spread_evenly(void **state)
{
	int nr = nr_with_memory();
	struct fixture fixture = {0};

	mount_pages(&fixture, 4 * nr, "");
	for (int node = 0; node < nr_nodes(); node++)
		assert_int_equal(mount_node(&fixture, node).nr, node_has_memory(node) ? 4 : 0);
	nodes_expect_as_kernel(&fixture);
	fixture_umount(&fixture);
	mount_pages(&fixture, 4 * nr + 1, "");
	nodes_expect_as_kernel(&fixture);
	fixture_umount(&fixture);
}

/* Pages that the kernel's pool has already are taken where they are: on one node only. */
static void test_existing_pages_are_taken(void **state)
{
	struct fixture fixture = {0};
	int last = nr_nodes() - 1;

	kernel_node_set(last, 6);
	fixture_mount(&fixture, "backing=hugetlb,size=8M");
	assert_int_equal(mount_node(&fixture, last).nr, 4);
	assert_int_equal(fixture_counter(&fixture, "nr_hugepages"), 4);
	assert_int_equal(kernel_node(last).nr, 6);
	fixture_umount(&fixture);
	kernel_node_set(last, 0);
}

static void test_counters_follow_pages(void **state)
{
	struct fixture fixture = {0};
	long pages = 4 * nr_with_memory();
	long on_node[MAX_NODES] = {0};
	struct nodes_file file;

	mount_pages(&fixture, pages, "");
	file = nodes_map(&fixture, "file", pages);
	for (long idx = 0; idx < pages; idx++) {
		int on = nodes_touch(&file, idx, (int)(idx % nr_nodes()));

		assert_in_range(on, 0, nr_nodes() - 1);
		on_node[on]++;
		assert_int_equal(mount_node(&fixture, on).free,
				 mount_node(&fixture, on).nr - on_node[on]);
	}
	for (int node = 0; node < nr_nodes(); node++)
		assert_int_equal(mount_node(&fixture, node).free, 0);
	nodes_expect_as_kernel(&fixture);
	nodes_drop(&fixture, &file);
	fixture_expect_counter(&fixture, "free_hugepages", pages);
	nodes_expect_as_kernel(&fixture);
	fixture_umount(&fixture);
}

static void write_mount_node(const struct fixture *fixture, int node, long nr)
{
	char path[192];
	FILE *file;

	snprintf(path, sizeof(path), "%s/.hugefuse/node/node%d/hugepages-2048kB/nr_hugepages",
		 fixture->dir, node);
	file = fopen(path, "we");
	assert_non_null(file);
	assert_true(fprintf(file, "%ld\n", nr) > 0);
	assert_int_equal(fclose(file), 0);
}

/* A node's nr_hugepages of the mount is raised and lowered while files use the pages. */
static void test_one_node_grows_and_shrinks(void **state)
{
	struct fixture fixture = {0};
	long pages = 2 * nr_with_memory();
	int last = nr_nodes() - 1;
	struct nodes_file file;

	mount_pages(&fixture, pages, ",max_size=64M");
	file = nodes_map(&fixture, "file", pages);
	for (long idx = 0; idx < pages; idx++)
		nodes_touch(&file, idx, 0);
	write_mount_node(&fixture, last, 5);
	assert_int_equal(mount_node(&fixture, last).nr, 5);
	assert_int_equal(mount_node(&fixture, 0).nr, 2);
	nodes_expect_as_kernel(&fixture);
	write_mount_node(&fixture, last, 3);
	assert_int_equal(mount_node(&fixture, last).nr, 3);
	nodes_expect_as_kernel(&fixture);
	nodes_drop(&fixture, &file);
	fixture_expect_counter(&fixture, "free_hugepages", pages + 1);
	nodes_expect_as_kernel(&fixture);
	fixture_umount(&fixture);
}

/* The kernel's pool of one node grows and shrinks beside the mount, whose counters stay. */
static void test_kernel_pool_changes_beside(void **state)
{
	struct fixture fixture = {0};
	int nr = nr_with_memory(), last = nr_nodes() - 1;
	long had;

	mount_pages(&fixture, 2 * nr, "");
	had = kernel_node(last).nr;
	kernel_node_set(last, had + 3);
	assert_int_equal(mount_node(&fixture, last).nr, 2);
	assert_int_equal(fixture_counter(&fixture, "free_hugepages"), 2 * nr);
	kernel_node_set(last, had);
	nodes_expect_as_kernel(&fixture);
	fixture_umount(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_spread_evenly),
		cmocka_unit_test(test_existing_pages_are_taken),
		cmocka_unit_test(test_counters_follow_pages),
		cmocka_unit_test(test_one_node_grows_and_shrinks),
		cmocka_unit_test(test_kernel_pool_changes_beside),
	};

	require_nodes(2);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
