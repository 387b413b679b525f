/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Nodes without a page to be had: one whose memory others have taken, and one that the daemon
 * may not use. Others help, and how often it is tried in vain is counted.
 */
#include <errno.h>
#include <fcntl.h>
#include <numaif.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hugefuse.h"
#include "nodes.h"

#define PAGES 6

/* All memory of a node, in huge pages of the kernel's own pool that somebody has. */
struct hoard {
	int node;
	long pages;
	char *addr;
};

static void take_all(struct hoard *hoard, int node)
{
	unsigned long mask = 1UL << node;

	hoard->node = node;
	/* What can be compacted together is found by and by. */
	kernel_node_fill(node);
	hoard->pages = kernel_node(node).free;
	assert_true(hoard->pages > 0);
	hoard->addr = mmap(NULL, (size_t)hoard->pages * PAGE_2M, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_NORESERVE, -1, 0);
	assert_ptr_not_equal(hoard->addr, MAP_FAILED);
	assert_int_equal(mbind(hoard->addr, (size_t)hoard->pages * PAGE_2M, MPOL_BIND, &mask,
			       8 * sizeof(mask) + 1, 0),
			 0);
	for (long i = 0; i < hoard->pages; i++)
		hoard->addr[i * (long)PAGE_2M] = 1;
	assert_int_equal(kernel_node(node).free, 0);
}

/*
 * Others may have pages of the mount's surplus: as many free ones as they have the kernel calls
 * surplus then, and keeps; clear_node() lets those go when nobody has any.
 */
static void give_back(struct hoard *hoard)
{
	/* The refiller may be about to add one. */
	int lock = open("/run/hugefuse/.kernel-pool.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	assert_true(lock >= 0);
	assert_int_equal(flock(lock, LOCK_EX), 0);
	assert_int_equal(munmap(hoard->addr, (size_t)hoard->pages * PAGE_2M), 0);
	kernel_node_write(hoard->node, kernel_node(hoard->node).nr - hoard->pages);
	close(lock);
}

static void clear_node(int node)
{
	kernel_node_write(node, kernel_node(node).nr);
	kernel_node_set(node, 0);
}

static void mount_surplus(struct fixture *fixture, int preferred, const char *options)
{
	char list[160];

	snprintf(list, sizeof(list), "backing=hugetlb,size=%dM,min_size=0,numa=preferred:%d%s",
		 2 * PAGES, preferred, options);
	fixture_mount(fixture, list);
}

static void drop_and_umount(struct fixture *fixture, struct nodes_file *file)
{
	nodes_expect_as_kernel(fixture);
	nodes_drop(fixture, file);
	fixture_expect_counter(fixture, "free_hugepages",
			       fixture_counter(fixture, "nr_hugepages"));
	nodes_expect_as_kernel(fixture);
	fixture_umount(fixture);
}

/* Every page goes elsewhere; one failed attempt with the mask, one for each page without. */
static void check_emptied(const char *options, bool mask)
{
	int last = memory_node(-1);
	struct fixture fixture = {0};
	struct nodes_file file;
	struct hoard hoard;

	take_all(&hoard, last);
	nodes_note();
	mount_surplus(&fixture, last, options);
	file = nodes_map_with(&fixture, "file", PAGES, MAP_SHARED | MAP_NORESERVE);
	for (long idx = 0; idx < PAGES; idx++)
		assert_int_not_equal(nodes_touch(&file, idx, last), last);
	assert_int_equal(fixture_fault_stat(&fixture, "attempts_failed"), mask ? 1 : PAGES);
	assert_int_equal(fixture_fault_stat(&fixture, "remote_pages"), PAGES);
	assert_int_equal(fixture_fault_stat(&fixture, "nodes_unavailable"), mask ? 1 : 0);
	drop_and_umount(&fixture, &file);
	give_back(&hoard);
}

static void test_emptied_node(void **state)
{
	check_emptied(",alloc_sleep_ms=3600000", true);
	check_emptied(",avail_mask=off", false);
}

/* What free surplus pages of the kernel's there are on @node is not to stay. */
static void end_quietly(struct fixture *fixture, struct nodes_file *file, int node)
{
	struct kernel_counts before = fixture->before, now;

	nodes_drop(fixture, file);
	fixture_expect_counter(fixture, "free_hugepages",
			       fixture_counter(fixture, "nr_hugepages"));
	now = kernel_counts_read(PAGE_2M);
	fixture->before = now;
	fixture->before.overcommit = before.overcommit;
	fixture->before.nr -= mount_node(fixture, node).nr;
	fixture->before.free -= mount_node(fixture, node).nr;
	fixture_umount(fixture);
	clear_node(node);
	now = kernel_counts_read(PAGE_2M);
	assert_memory_equal(&now, &before, sizeof(now));
}

static bool is_available(void *data)
{
	return fixture_fault_stat(data, "nodes_unavailable") == 0;
}

/* The refiller finds out that there is memory again; then pages are where they are to be. */
static void test_memory_comes_back(void **state)
{
	int last = memory_node(-1);
	struct fixture fixture = {0};
	struct nodes_file file;
	struct kernel_counts before = kernel_counts_read(PAGE_2M);
	struct hoard hoard;
	long idx;

	take_all(&hoard, last);
	/* The refiller's first attempt is to come when the node has been found empty. */
	mount_surplus(&fixture, last, ",alloc_sleep_ms=1000");
	fixture.before = before;
	file = nodes_map_with(&fixture, "file", PAGES, MAP_SHARED | MAP_NORESERVE);
	for (idx = 0; idx < 2; idx++)
		assert_int_not_equal(nodes_touch(&file, idx, last), last);
	assert_false(is_available(&fixture));
	give_back(&hoard);
	assert_true(wait_until(is_available, &fixture, 10000));
	for (; idx < PAGES; idx++)
		assert_int_equal(nodes_touch(&file, idx, memory_node(0)), last);
	assert_true(fixture_fault_stat(&fixture, "refills") >
		    fixture_fault_stat(&fixture, "refills_failed"));
	end_quietly(&fixture, &file, last);
}

/* A page that is freed on the node is found without the refiller. */
static void test_freed_page_is_taken(void **state)
{
	int last = memory_node(-1);
	struct fixture fixture = {0};
	struct nodes_file file;
	struct hoard hoard;

	mount_surplus(&fixture, last, ",alloc_sleep_ms=3600000");
	file = nodes_map_with(&fixture, "file", PAGES, MAP_SHARED | MAP_NORESERVE);
	assert_int_equal(nodes_touch(&file, 0, last), last);
	take_all(&hoard, last);
	assert_int_not_equal(nodes_touch(&file, 1, last), last);
	assert_false(is_available(&fixture));
	assert_int_equal(
		fallocate(file.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE_2M), 0);
	assert_true(is_available(&fixture));
	assert_int_equal(nodes_touch(&file, 2, memory_node(0)), last);
	give_back(&hoard);
	end_quietly(&fixture, &file, last);
}

/* ---- cpusets ---- */

#define CGROUP "/sys/fs/cgroup"

static void write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		fail_msg("%s: cannot write '%s': %s", path, text, strerror(errno));
	close(fd);
}

/* This process, and what it starts from here on, may use the memory of @node alone; -1: of all.
 */
static void restrict_to(int node)
{
	char text[32];

	if (mkdir(CGROUP "/test", 0755) < 0 && errno != EEXIST)
		fail_msg("%s: %s", CGROUP, strerror(errno));
	write_text(CGROUP "/cgroup.subtree_control", "+cpuset");
	snprintf(text, sizeof(text), "%d", node < 0 ? memory_node(0) : node);
	write_text(CGROUP "/test/cpuset.mems", text);
	snprintf(text, sizeof(text), "%d", getpid());
	write_text(node < 0 ? CGROUP "/cgroup.procs" : CGROUP "/test/cgroup.procs", text);
}

/* A daemon in a cpuset has the pages that it may have, and refuses what it may not. */
static void test_daemon_in_cpuset(void **state)
{
	int first = memory_node(0), last = memory_node(-1);
	struct fixture fixture = {0};
	struct nodes_file file;
	char list[80];

	restrict_to(first);
	snprintf(list, sizeof(list), "backing=hugetlb,size=8M,numa=bind:%d", last);
	assert_int_equal(run_hugefuse("mount", "-o", list, "/mnt", NULL), 1);
	nodes_note();
	fixture_mount(&fixture, "backing=hugetlb,size=8M,numa=local");
	restrict_to(-1);
	assert_int_equal(mount_node(&fixture, first).nr, 4);
	file = nodes_map(&fixture, "file", 4);
	for (long idx = 0; idx < 4; idx++)
		assert_int_equal(nodes_touch(&file, idx, last), first);
	drop_and_umount(&fixture, &file);
}

/* A node is taken from the daemon while it runs: its pages there are not to be had any more,
 * and those of others are. */
static void test_cpuset_shrinks(void **state)
{
	int first = memory_node(0), last = memory_node(-1);
	struct fixture fixture = {0};
	struct nodes_file file;
	char text[16], list[80];

	snprintf(list, sizeof(list), "backing=hugetlb,size=%d:8M,%d:8M,numa=local", first,
		 last);
	nodes_note();
	fixture_mount(&fixture, list);
	file = nodes_map_with(&fixture, "file", 4, MAP_SHARED | MAP_NORESERVE);
	write_text(CGROUP "/cgroup.subtree_control", "+cpuset");
	if (mkdir(CGROUP "/daemon", 0755) < 0 && errno != EEXIST)
		fail_msg("%s: %s", CGROUP, strerror(errno));
	snprintf(text, sizeof(text), "%d", first);
	write_text(CGROUP "/daemon/cpuset.mems", text);
	snprintf(text, sizeof(text), "%d", fixture.daemon);
	write_text(CGROUP "/daemon/cgroup.procs", text);
	for (long idx = 0; idx < 4; idx++)
		assert_int_equal(nodes_touch(&file, idx, last), first);
	nodes_expect_as_kernel(&fixture);
	write_text(CGROUP "/cgroup.procs", text);
	drop_and_umount(&fixture, &file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_emptied_node),
		cmocka_unit_test(test_memory_comes_back),
		cmocka_unit_test(test_freed_page_is_taken),
		cmocka_unit_test(test_daemon_in_cpuset),
		cmocka_unit_test(test_cpuset_shrinks),
	};

	require_nodes(2);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
