/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Nodes: their counters, and where pages are. */
#include "nodes.h"

#include <errno.h>
#include <fcntl.h>
#include <numa.h>
#include <numaif.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hugefuse.h"

static struct node_counts noted[MAX_NODES];

static long read_file(const char *path)
{
	FILE *file = fopen(path, "re");
	long value;

	if (!file || fscanf(file, "%ld", &value) != 1)
		value = -1;
	if (file)
		fclose(file);
	return value;
}

static void kernel_path(char *path, size_t size, int node, const char *name)
{
	snprintf(path, size, "/sys/devices/system/node/node%d/hugepages/hugepages-2048kB/%s",
		 node, name);
}

static long kernel_number(int node, const char *name)
{
	char path[128];

	kernel_path(path, sizeof(path), node, name);
	return read_file(path);
}

static long mount_number(const struct fixture *fixture, int node, const char *name)
{
	char path[192];

	snprintf(path, sizeof(path), "%s/.hugefuse/node/node%d/hugepages-2048kB/%s",
		 fixture->dir, node, name);
	return read_file(path);
}

int nr_nodes(void)
{
	char path[64];
	int nr = 0;

	do
		snprintf(path, sizeof(path), "/sys/devices/system/node/node%d", nr);
	while (access(path, F_OK) == 0 && ++nr < MAX_NODES);
	return nr;
}

bool node_has_memory(int node)
{
	return numa_node_size64(node, NULL) > 0;
}

void require_nodes(int nr)
{
	int have = 0;

	require_root();
	for (int node = 0; node < nr_nodes(); node++)
		have += node_has_memory(node);
	if (have < nr) {
		printf("skipped: needs %d nodes with memory\n", nr);
		exit(SKIP_EXIT);
	}
}

struct node_counts kernel_node(int node)
{
	struct node_counts counts = {0};

	if (node_has_memory(node))
		counts = (struct node_counts){
			.nr = kernel_number(node, "nr_hugepages"),
			.free = kernel_number(node, "free_hugepages"),
			.surplus = kernel_number(node, "surplus_hugepages"),
		};
	return counts;
}

struct node_counts mount_node(const struct fixture *fixture, int node)
{
	return (struct node_counts){
		.nr = mount_number(fixture, node, "nr_hugepages"),
		.free = mount_number(fixture, node, "free_hugepages"),
		.surplus = mount_number(fixture, node, "surplus_hugepages"),
	};
}

void kernel_node_write(int node, long nr)
{
	char path[128];
	FILE *file;

	kernel_path(path, sizeof(path), node, "nr_hugepages");
	file = fopen(path, "we");
	if (!file || fprintf(file, "%ld", nr) < 0 || fclose(file) != 0)
		fail_msg("%s: %s", path, strerror(errno));
}

void kernel_node_set(int node, long nr)
{
	kernel_node_write(node, nr);
	assert_int_equal(kernel_node(node).nr, nr);
}

void kernel_node_fill(int node)
{
	long before;

	do {
		before = kernel_node(node).nr;
		kernel_node_write(node, before + 100000);
	} while (kernel_node(node).nr > before);
}

void nodes_note(void)
{
	for (int node = 0; node < nr_nodes(); node++)
		noted[node] = kernel_node(node);
}

struct as_kernel {
	const struct fixture *fixture;
	bool print;
};

static bool is_as_kernel(void *data)
{
	const struct as_kernel *as = data;
	bool same = true;

	for (int node = 0; node < nr_nodes(); node++) {
		struct node_counts kernel = kernel_node(node), ours;

		ours = mount_node(as->fixture, node);
		kernel.nr -= noted[node].nr;
		kernel.free -= noted[node].free;
		kernel.surplus -= noted[node].surplus;
		if (kernel.nr == ours.nr && kernel.free == ours.free &&
		    kernel.surplus == ours.surplus)
			continue;
		same = false;
		if (as->print)
			fprintf(stderr,
				"node %d: the kernel %ld/%ld/%ld, the mount %ld/%ld/%ld\n",
				node, kernel.nr, kernel.free, kernel.surplus, ours.nr,
				ours.free, ours.surplus);
	}
	return same;
}

void nodes_expect_as_kernel(const struct fixture *fixture)
{
	struct as_kernel as = {.fixture = fixture};

	if (wait_until(is_as_kernel, &as, 5000))
		return;
	as.print = true;
	is_as_kernel(&as);
	fail_msg("a node's counters (nr/free/surplus) are not the kernel's");
}

int node_of_page(void *addr)
{
	int status = 0;

	if (move_pages(0, 1, &addr, NULL, &status, 0) < 0)
		return -errno;
	return status;
}

void run_on_node(int node)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(node, &set);
	if (sched_setaffinity(0, sizeof(set), &set) < 0)
		fail_msg("cannot run on processor %d: %s", node, strerror(errno));
}

static void *map(const struct nodes_file *file, int flags)
{
	return hugefuse_mmap(NULL, (size_t)file->pages * PAGE_2M, PROT_READ | PROT_WRITE, flags,
			     file->fd, 0);
}

static struct nodes_file make_file(const struct fixture *fixture, const char *name, long pages)
{
	struct nodes_file file = {.pages = pages, .name = name};

	file.fd = fixture_file(fixture, name, O_RDWR | O_CREAT, pages * (off_t)PAGE_2M);
	return file;
}

struct nodes_file nodes_map_with(const struct fixture *fixture, const char *name, long pages,
				 int flags)
{
	struct nodes_file file = make_file(fixture, name, pages);

	file.addr = map(&file, flags);
	if (file.addr == MAP_FAILED)
		fail_msg("%s: cannot map %ld pages: %s", name, pages, strerror(errno));
	return file;
}

struct nodes_file nodes_map(const struct fixture *fixture, const char *name, long pages)
{
	return nodes_map_with(fixture, name, pages, MAP_SHARED);
}

int nodes_map_error(const struct fixture *fixture, const char *name, long pages, int flags)
{
	struct nodes_file file = make_file(fixture, name, pages);
	void *addr = map(&file, flags);
	int error = errno;

	if (addr != MAP_FAILED)
		fail_msg("%s: %ld pages could be mapped", name, pages);
	close(file.fd);
	assert_int_equal(unlink(fixture_path(fixture, name)), 0);
	return error;
}

int memory_node(int nth)
{
	int first = nth < 0 ? nr_nodes() - 1 : 0, step = nth < 0 ? -1 : 1;
	int left = nth < 0 ? -nth - 1 : nth;

	for (int node = first; node >= 0 && node < nr_nodes(); node += step) {
		if (node_has_memory(node) && left-- == 0)
			return node;
	}
	fail_msg("there are not so many nodes with memory");
	return -1;
}

void nodes_drop(const struct fixture *fixture, struct nodes_file *file)
{
	assert_int_equal(hugefuse_munmap(file->addr, (size_t)file->pages * PAGE_2M), 0);
	close(file->fd);
	assert_int_equal(unlink(fixture_path(fixture, file->name)), 0);
}

int nodes_touch(const struct nodes_file *file, long idx, int node)
{
	char *addr = file->addr + idx * (long)PAGE_2M;

	run_on_node(node);
	*(volatile char *)addr = 1;
	return node_of_page(addr);
}
