/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where pages are by every numa= and fallback=: each page is looked at by move_pages(2), and
 * each node's counters are compared with the kernel's.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hugefuse.h"
#include "nodes.h"

#define PER_NODE 3
#define REFUSED  "that are to be on node" /* what the daemon says of it, once */

static int nr_memory_nodes(void)
{
	int nr = 0;

	for (int node = 0; node < nr_nodes(); node++)
		nr += node_has_memory(node);
	return nr;
}

/* PER_NODE pages on each node with memory. */
static void mount_evenly(struct fixture *fixture, const char *options)
{
	char list[160];

	snprintf(list, sizeof(list), "backing=hugetlb,size=%dM%s",
		 PER_NODE * nr_memory_nodes() * 2, options);
	nodes_note();
	fixture_mount(fixture, list);
	for (int node = 0; node < nr_nodes(); node++)
		assert_int_equal(mount_node(fixture, node).nr,
				 node_has_memory(node) ? PER_NODE : 0);
}

static void end(struct fixture *fixture, struct nodes_file *file)
{
	nodes_expect_as_kernel(fixture);
	nodes_drop(fixture, file);
	fixture_expect_counter(fixture, "free_hugepages",
			       fixture_counter(fixture, "nr_hugepages"));
	nodes_expect_as_kernel(fixture);
	fixture_umount(fixture);
}

/* Each node's threads get its pages while it has some; then those of others. */
static void check_local(const char *options, int flags)
{
	struct fixture fixture = {0};
	struct nodes_file file;
	long pages = PER_NODE * nr_memory_nodes(), idx = 0;

	mount_evenly(&fixture, options);
	file = nodes_map_with(&fixture, "file", pages, flags);
	for (int node = 0; node < nr_nodes(); node++) {
		for (int i = 0; i < PER_NODE - 1 && node_has_memory(node); i++)
			assert_int_equal(nodes_touch(&file, idx++, node), node);
	}
	/* One of each node is left: this one's first. */
	assert_int_equal(nodes_touch(&file, idx++, memory_node(-1)), memory_node(-1));
	for (; idx < pages; idx++)
		assert_int_not_equal(nodes_touch(&file, idx, memory_node(-1)), memory_node(-1));
	end(&fixture, &file);
}

static void test_local(void **state)
{
	check_local(",numa=local", MAP_SHARED);
	check_local(",numa=local", MAP_PRIVATE);
	check_local(",numa=local,ahead=8M", MAP_SHARED | MAP_NORESERVE);
}

/* Without numa= it is the same. */
static void test_default_is_local(void **state)
{
	check_local("", MAP_SHARED);
}

/* Processors of a node without memory: their threads get pages all the same. */
static void test_node_without_memory(void **state)
{
	struct fixture fixture = {0};
	struct nodes_file file;
	int node = 0;

	while (node < nr_nodes() && node_has_memory(node))
		node++;
	if (node == nr_nodes())
		skip();
	mount_evenly(&fixture, ",numa=local,fallback=fail");
	file = nodes_map(&fixture, "file", 2 * PER_NODE);
	for (long idx = 0; idx < 2 * PER_NODE; idx++)
		assert_in_range(nodes_touch(&file, idx, node), 0, nr_nodes() - 1);
	end(&fixture, &file);
}

static void with_node(char *list, size_t size, const char *format, int node)
{
	snprintf(list, size, format, node);
}

static void test_preferred_then_remote(void **state)
{
	struct fixture fixture = {0};
	int last = memory_node(-1);
	struct nodes_file file;
	char list[80];

	with_node(list, sizeof(list), ",numa=preferred:%d", last);
	mount_evenly(&fixture, list);
	file = nodes_map(&fixture, "file", PER_NODE + 2);
	for (long idx = 0; idx < PER_NODE; idx++)
		assert_int_equal(nodes_touch(&file, idx, memory_node(0)), last);
	for (long idx = PER_NODE; idx < PER_NODE + 2; idx++)
		assert_int_not_equal(nodes_touch(&file, idx, last), last);
	assert_int_equal(mount_node(&fixture, last).free, 0);
	end(&fixture, &file);
}

/* With fail a page elsewhere is no page: what cannot be reserved there is refused, and what was
 * not reserved raises SIGBUS. */
static void test_preferred_or_fail(void **state)
{
	struct fixture fixture = {0};
	int last = memory_node(-1);
	struct nodes_file file;
	char list[80];

	with_node(list, sizeof(list), ",numa=preferred:%d,fallback=fail", last);
	mount_evenly(&fixture, list);
	fixture.expected = REFUSED;
	assert_int_equal(nodes_map_error(&fixture, "more", PER_NODE + 1, MAP_SHARED), ENOMEM);
	file = nodes_map_with(&fixture, "file", PER_NODE + 1, MAP_SHARED | MAP_NORESERVE);
	for (long idx = 0; idx < PER_NODE; idx++)
		assert_int_equal(nodes_touch(&file, idx, memory_node(0)), last);
	assert_true(raises_sigbus(file.addr + PER_NODE * PAGE_2M, true));
	end(&fixture, &file);
}

static int punch_first(const struct nodes_file *file)
{
	return fallocate(file->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE_2M);
}

static void *touch_slowly(void *data)
{
	struct nodes_file *file = data;

	return (void *)(long)nodes_touch(file, PER_NODE, memory_node(0));
}

static bool somebody_waits(void *data)
{
	return fixture_fault_stat(data, "waiting") == 1;
}

/* With wait a thread sleeps until a page of the node is freed, whatever others have. */
static void test_preferred_or_wait(void **state)
{
	struct fixture fixture = {0};
	int last = memory_node(-1);
	struct nodes_file file;
	pthread_t thread;
	char list[80];
	void *node;

	with_node(list, sizeof(list), ",numa=preferred:%d,fallback=wait", last);
	mount_evenly(&fixture, list);
	file = nodes_map_with(&fixture, "file", PER_NODE + 1, MAP_SHARED | MAP_NORESERVE);
	for (long idx = 0; idx < PER_NODE; idx++)
		assert_int_equal(nodes_touch(&file, idx, memory_node(0)), last);
	assert_int_equal(pthread_create(&thread, NULL, touch_slowly, &file), 0);
	assert_true(wait_until(somebody_waits, &fixture, 10000));
	assert_int_equal(mount_node(&fixture, memory_node(0)).free, PER_NODE);
	assert_int_equal(punch_first(&file), 0);
	assert_int_equal(pthread_join(thread, &node), 0);
	assert_int_equal((long)node, last);
	end(&fixture, &file);
}

/* bind reserves on its nodes: what they do not have is refused at mmap, and what was reserved
 * is there whoever touches it, and whatever others take meanwhile. */
static void test_bind(void **state)
{
	struct fixture fixture = {0};
	int last = memory_node(-1);
	struct nodes_file file;
	char list[80];

	with_node(list, sizeof(list), ",numa=bind:%d", last);
	mount_evenly(&fixture, list);
	fixture.expected = REFUSED;
	assert_int_equal(nodes_map_error(&fixture, "more", PER_NODE + 1, MAP_SHARED), ENOMEM);
	assert_int_equal(nodes_map_error(&fixture, "more", PER_NODE + 1, MAP_PRIVATE), ENOMEM);
	file = nodes_map(&fixture, "file", PER_NODE);
	assert_int_equal(nodes_map_error(&fixture, "more", 1, MAP_SHARED), ENOMEM);
	for (long idx = 0; idx < PER_NODE; idx++)
		assert_int_equal(nodes_touch(&file, idx, memory_node(0)), last);
	/* A page that is punched goes, and with it what it had of the node. */
	assert_int_equal(punch_first(&file), 0);
	nodes_expect_as_kernel(&fixture);
	assert_int_equal(nodes_touch(&file, 0, memory_node(0)), last);
	end(&fixture, &file);
}

static void test_bind_to_two(void **state)
{
	struct fixture fixture = {0};
	int first = memory_node(0), last = memory_node(-1), on[MAX_NODES] = {0};
	struct nodes_file file;
	char list[80];

	snprintf(list, sizeof(list), ",numa=bind:%d,%d", first, last);
	mount_evenly(&fixture, list);
	fixture.expected = REFUSED;
	assert_int_equal(nodes_map_error(&fixture, "more", 2 * PER_NODE + 1, MAP_SHARED),
			 ENOMEM);
	file = nodes_map(&fixture, "file", 2 * PER_NODE);
	for (long idx = 0; idx < PER_NODE; idx++)
		assert_int_equal(nodes_touch(&file, idx, first), first);
	for (long idx = PER_NODE; idx < 2 * PER_NODE; idx++)
		on[nodes_touch(&file, idx, first)]++;
	assert_int_equal(on[last], PER_NODE);
	end(&fixture, &file);
}

static void test_interleave(void **state)
{
	struct fixture fixture = {0};
	int nr = nr_memory_nodes();
	struct nodes_file file;

	mount_evenly(&fixture, ",numa=interleave");
	file = nodes_map(&fixture, "file", PER_NODE * nr);
	for (long idx = PER_NODE * nr - 1; idx >= 0; idx--)
		assert_int_equal(nodes_touch(&file, idx, 0), memory_node((int)idx % nr));
	end(&fixture, &file);
}

/* A size for each node; and what a machine does not have is refused in one line. */
static void test_size_of_each_node(void **state)
{
	struct fixture fixture = {0};
	int first = memory_node(0), last = memory_node(-1);
	struct nodes_file file;
	char list[120];

	snprintf(list, sizeof(list), "backing=hugetlb,size=%d:4M,%d:10M,numa=preferred:%d",
		 first, last, last);
	nodes_note();
	fixture_mount(&fixture, list);
	assert_int_equal(mount_node(&fixture, first).nr, 2);
	assert_int_equal(mount_node(&fixture, last).nr, 5);
	assert_int_equal(kernel_node(last).nr, 5);
	file = nodes_map(&fixture, "file", 7);
	for (long idx = 0; idx < 5; idx++)
		assert_int_equal(nodes_touch(&file, idx, first), last);
	assert_int_equal(nodes_touch(&file, 5, last), first);
	end(&fixture, &file);
}

static void test_refused_options(void **state)
{
	char options[][80] = {
		"backing=hugetlb,size=8M,numa=bind:9",
		"backing=hugetlb,size=9:8M",
		"backing=hugetlb,size=0:8M,min_size=4M",
		"backing=hugetlb,size=0:8M,fallback=small",
		"backing=hugetlb,size=0:900G",
	};

	nodes_note();
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		assert_int_equal(run_hugefuse("mount", "-o", options[i], "/mnt", NULL), 1);
		for (int node = 0; node < nr_nodes(); node++)
			assert_int_equal(kernel_node(node).nr, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_local),
		cmocka_unit_test(test_default_is_local),
		cmocka_unit_test(test_node_without_memory),
		cmocka_unit_test(test_preferred_then_remote),
		cmocka_unit_test(test_preferred_or_fail),
		cmocka_unit_test(test_preferred_or_wait),
		cmocka_unit_test(test_bind),
		cmocka_unit_test(test_bind_to_two),
		cmocka_unit_test(test_interleave),
		cmocka_unit_test(test_size_of_each_node),
		cmocka_unit_test(test_refused_options),
	};

	require_nodes(2);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
