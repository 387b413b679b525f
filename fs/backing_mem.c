/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * In-memory backing. A file is an array of bytes, one a page: 0 not there, else 1 + its node.
 * Page states are atomic: the callers' fault mutexes order what belongs together, and tests may
 * look at any time.
 */
#include "fs/backing_mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MEM_MAX_PAGES (1 << 20)

struct mem_file {
	struct backing_file file;
	_Atomic int64_t nr_pages;
	_Atomic unsigned char *state; /* MEM_MAX_PAGES, touched on demand */
};

static struct backing_mem *to_mem(struct backing *backing)
{
	return (struct backing_mem *)backing;
}

static struct mem_file *to_file(struct backing_file *file)
{
	return (struct mem_file *)file;
}

static int mem_punch(struct backing_file *file, int64_t from, int64_t to)
{
	struct mem_file *mem_file = to_file(file);

	struct backing_mem *mem = to_mem(file->backing);
	unsigned char state;

	for (int64_t idx = from; idx < to && idx < MEM_MAX_PAGES; idx++) {
		state = atomic_exchange(&mem_file->state[idx], 0);
		if (!state)
			continue;
		mem->nr_pages--;
		mem->node_room[state - 1]++;
	}
	return 0;
}

static int mem_file_open(struct backing *backing, uint64_t ino, int names_fd,
			 struct backing_file **ret_file)
{
	struct mem_file *mem_file = calloc(1, sizeof(*mem_file));

	if (!mem_file)
		return -ENOMEM;
	mem_file->state = calloc(MEM_MAX_PAGES, 1);
	if (!mem_file->state) {
		free(mem_file);
		return -ENOMEM;
	}
	mem_file->file.backing = backing;
	*ret_file = &mem_file->file;
	return 0;
}

static void mem_file_close(struct backing_file *file, bool remove)
{
	if (!file)
		return;
	mem_punch(file, 0, to_file(file)->nr_pages);
	free((void *)to_file(file)->state);
	free(to_file(file));
}

static int mem_resize(struct backing_file *file, int64_t nr_pages)
{
	int64_t old;

	if (nr_pages > MEM_MAX_PAGES)
		return -EFBIG;
	old = atomic_exchange(&to_file(file)->nr_pages, nr_pages);
	return mem_punch(file, nr_pages, old);
}

static int mem_reserve(struct backing_file *file, int64_t from, int64_t to)
{
	return 0;
}

static void spend(uint64_t ns)
{
	struct timespec time = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};

	if (ns)
		nanosleep(&time, NULL);
}

/* A page of @node is one fewer there. */
static bool take_from_node(struct backing_mem *mem, int node)
{
	int64_t room = mem->node_room[node];

	while (room > 0) {
		if (atomic_compare_exchange_weak(&mem->node_room[node], &room, room - 1))
			return true;
	}
	return false;
}

/* On @node, or with POOL_ANY_NODE on the first that has one; -ENOSPC. */
static int find_room(struct backing_mem *mem, int node)
{
	int from = node < 0 ? 0 : node, to = node < 0 ? mem->backing.nr_nodes - 1 : node;

	for (node = from; node <= to; node++) {
		if (take_from_node(mem, node))
			return node;
	}
	atomic_fetch_add(&mem->nr_failed, 1);
	spend(mem->fail_ns);
	return -ENOSPC;
}

static int mem_populate(struct backing_file *file, int64_t idx, int node)
{
	struct backing_mem *mem = to_mem(file->backing);
	_Atomic unsigned char *state;

	if (idx >= to_file(file)->nr_pages)
		return -ERANGE;
	state = &to_file(file)->state[idx];
	if (mem->fail_after >= 0 && atomic_fetch_sub(&mem->fail_after, 1) == 0)
		return -ENOSPC;
	if (*state)
		return *state - 1;
	node = find_room(mem, node);
	if (node < 0)
		return node;
	spend(mem->populate_ns);
	*state = (unsigned char)(1 + node);
	if (atomic_fetch_add(&mem->nr_pages, 1) >= mem->max_pages) {
		mem_punch(file, idx, idx + 1);
		return -ENOSPC;
	}
	return node;
}

static int mem_present(struct backing_file *file, int64_t idx)
{
	return idx < MEM_MAX_PAGES && to_file(file)->state[idx] != 0;
}

static int64_t mem_count(struct backing_file *file)
{
	int64_t nr = 0;

	for (int64_t idx = 0; idx < to_file(file)->nr_pages; idx++)
		nr += mem_present(file, idx);
	return nr;
}

static ssize_t mem_read(struct backing_file *file, void *buf, size_t len, uint64_t offset)
{
	memset(buf, 0, len);
	return len;
}

static ssize_t mem_write(struct backing_file *file, const void *buf, size_t len,
			 uint64_t offset)
{
	return len;
}

static int mem_descriptor(struct backing_file *file, int access_mode)
{
	return -EOPNOTSUPP;
}

static const struct backing_ops mem_ops = {
	.name = "mem",
	.file_open = mem_file_open,
	.file_close = mem_file_close,
	.file_descriptor = mem_descriptor,
	.resize = mem_resize,
	.reserve = mem_reserve,
	.populate = mem_populate,
	.punch = mem_punch,
	.present = mem_present,
	.count = mem_count,
	.read = mem_read,
	.write = mem_write,
};

void backing_mem_init(struct backing_mem *mem, uint64_t page_size, int nr_nodes)
{
	*mem = (struct backing_mem){
		.backing = {&mem_ops, page_size, nr_nodes, page_size},
		.max_pages = INT64_MAX,
		.fail_after = -1,
	};
	for (int node = 0; node < nr_nodes; node++)
		mem->node_room[node] = MEM_MAX_PAGES * INT64_C(1024);
}
