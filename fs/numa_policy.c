/* SPDX-License-Identifier: GPL-2.0-or-later */
/* NUMA, by libnuma. */
#include "fs/numa_policy.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <numa.h>
#include <numaif.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fs/clock.h"
#include "fs/node_share.h"
#include "fs/pool.h"

#define PROC_STAT_PROCESSOR 39          /* a field of /proc/PID/stat */
#define NODE_IS_KNOWN_NS    10000000ULL /* so long a thread is taken to be where it was */

int numa_policy_nr_nodes(void)
{
	int nr;

	if (numa_available() < 0)
		return 1;
	nr = numa_max_node() + 1;
	return nr > POOL_MAX_NODES ? POOL_MAX_NODES : nr;
}

uint64_t numa_policy_memory_nodes(void)
{
	int nr = numa_policy_nr_nodes();
	struct bitmask *allowed = nr > 1 ? numa_get_mems_allowed() : NULL;
	uint64_t nodes = 0;

	for (int node = 0; allowed && node < nr; node++) {
		if (numa_bitmask_isbitset(allowed, (unsigned int)node) &&
		    numa_node_size64(node, NULL) > 0)
			nodes |= NODE_BIT(node);
	}
	if (allowed)
		numa_free_nodemask(allowed);
	return nodes ? nodes : NODE_BIT(0);
}

int numa_policy_bind(int node)
{
	unsigned long nodes = 1UL << node;

	return set_mempolicy(MPOL_BIND, &nodes, sizeof(nodes) * CHAR_BIT + 1) < 0 ? -errno : 0;
}

void numa_policy_unbind(void)
{
	set_mempolicy(MPOL_DEFAULT, NULL, 0);
}

static cpu_set_t node_cpus[POOL_MAX_NODES]; /* set once */

static void read_node_cpus(void)
{
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		int node = numa_node_of_cpu(cpu);

		if (node >= 0 && node < POOL_MAX_NODES)
			CPU_SET(cpu, &node_cpus[node]);
	}
}

/* The node that has all processors that @tid may run on; -ENOENT where that is not just one. */
static int node_of_affinity(pid_t tid)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	cpu_set_t cpus, there;

	pthread_once(&once, read_node_cpus);
	if (sched_getaffinity(tid, sizeof(cpus), &cpus) < 0)
		return -ENOENT;
	for (int node = 0; node < POOL_MAX_NODES; node++) {
		CPU_AND(&there, &cpus, &node_cpus[node]);
		if (CPU_COUNT(&there) > 0)
			return CPU_EQUAL(&there, &cpus) ? node : -ENOENT;
	}
	return -ENOENT;
}

static int node_of_last_cpu(pid_t pid, pid_t tid)
{
	char text[512], *field;
	ssize_t len;
	int fd, cpu;

	snprintf(text, sizeof(text), "/proc/%d/task/%d/stat", pid, tid);
	fd = open(text, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	len = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (len <= 0)
		return -ESRCH;
	text[len] = '\0';
	/* The command, the second field, may have anything in it but is in the last brackets.
	 */
	field = strrchr(text, ')');
	for (int i = 2; field && i < PROC_STAT_PROCESSOR; i++)
		field = strchr(field + 1, ' ');
	if (!field || sscanf(field, "%d", &cpu) != 1)
		return -EIO;
	return numa_node_of_cpu(cpu);
}

int numa_policy_node_of_thread(pid_t pid, pid_t tid)
{
	static _Thread_local struct {
		pid_t tid;
		int node;
		uint64_t until_ns;
	} last;
	uint64_t now;
	int node = node_of_affinity(tid);

	if (node >= 0)
		return node;
	now = clock_now_ns();
	if (last.tid != tid || now >= last.until_ns) {
		last.node = node_of_last_cpu(pid, tid);
		last.tid = tid;
		last.until_ns = now + NODE_IS_KNOWN_NS;
	}
	return last.node;
}

int numa_policy_node_in(pid_t pid, uint64_t addr)
{
	void *page = (void *)(uintptr_t)addr;
	int node = -ENOENT;

	if (move_pages(pid, 1, &page, NULL, &node, 0) < 0)
		return -errno;
	return node;
}

int numa_policy_node_of(const void *addr)
{
	int node;

	if (get_mempolicy(&node, NULL, 0, (void *)addr, MPOL_F_NODE | MPOL_F_ADDR) < 0)
		return -errno;
	return node;
}
