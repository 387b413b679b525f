/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What tests on a machine of several nodes have in common: each node's counters, the kernel's
 * and a mount's, and where a page really is. Node N has processor N, as tests/vm/lib.sh makes
 * it.
 */
#pragma once

#include "fixture.h"

#define MAX_NODES 8

struct node_counts {
	long nr, free, surplus;
};

/* Exit with SKIP_EXIT unless this machine has at least @nr nodes with memory, and root, and a
 * daemon. */
void require_nodes(int nr);
/* Node numbers, also of those without memory; and whether one has any. */
int nr_nodes(void);
bool node_has_memory(int node);

struct node_counts kernel_node(int node);
struct node_counts mount_node(const struct fixture *fixture, int node);
/* The @nth node with memory, from 0 on; negative: from the last one on. */
int memory_node(int nth);
/* Set a node's nr_hugepages in the kernel, and fail where it is not obeyed. */
void kernel_node_set(int node, long nr);
void kernel_node_write(int node, long nr);
/* Let it have as many as there is memory for. */
void kernel_node_fill(int node);

/*
 * Note each node's kernel counters; later: assert that all that has changed there since is what
 * the mount says it has, in a moment.
 */
void nodes_note(void);
void nodes_expect_as_kernel(const struct fixture *fixture);

/* The node that the page at @addr is on, as move_pages(2) says; -errno. */
int node_of_page(void *addr);
/* Run on @node's processor from here on. */
void run_on_node(int node);

/* Map @pages of a new file through the library; unmapped and removed by nodes_drop(). */
struct nodes_file {
	int fd;
	char *addr;
	long pages;
	const char *name;
};
struct nodes_file nodes_map_with(const struct fixture *fixture, const char *name, long pages,
				 int flags);
struct nodes_file nodes_map(const struct fixture *fixture, const char *name, long pages);
void nodes_drop(const struct fixture *fixture, struct nodes_file *file);
/* The same of hugefuse_mmap() alone: the errno that it fails with, having changed nothing. */
int nodes_map_error(const struct fixture *fixture, const char *name, long pages, int flags);
/* Touch page @idx from @node's processor; the node that it is on then. */
int nodes_touch(const struct nodes_file *file, long idx, int node);
