/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Split queues: tenants that punch holes into huge pages and fill them again, while memory is
 * short on node 0 all the time. One thread for each tenant, with a file of its own whose huge
 * pages are on the nodes in turn; and a shrinker that splits what the queues give it for node
 * 0.
 *
 * It is the daemon's own code over a backing without pages; the nodes are numbers. So it shows
 * what the queues and their locks do, not what memory of another node costs. A hole is one base
 * page, which is really cleared and written.
 *
 * usage: scarcity_split MODE NODES TENANTS SECONDS
 *
 * Prints one line: operations (a hole noted, or filled) per second, contentions of the queues'
 * locks per million operations, how many huge pages were split, and how many of those were on
 * other nodes.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fs/backing_mem.h"
#include "fs/split_notes.h"

#define MAX_TENANTS 64
#define NR_CHUNKS   16 /* huge pages of a file */
#define NR_PAGES    ((int64_t)NR_CHUNKS * SPLIT_CHUNK)
#define BASE_PAGE   4096
#define FIRST_INO   2
#define NR_HOLES    8 /* of a file, at a time */
#define PICKS       4 /* from each queue, each time */

struct file {
	struct rwsem lock; /* as an inode's */
	struct subpool tenant;
	struct backing_file *backing_file;
	struct page_space space;
	struct split_notes notes; /* lock */
	pthread_t thread;
	uint64_t nr_ops; /* the thread's */
	char page[BASE_PAGE];
};

static struct backing_mem mem;
static struct page_core core;
static struct split_queues queues;
static struct file files[MAX_TENANTS];
static int nr_tenants;
static _Atomic bool stop;
static uint64_t nr_split, nr_elsewhere; /* the shrinker's */

static void fail(const char *what)
{
	fprintf(stderr, "scarcity_split: %s\n", what);
	exit(1);
}

static void no_release(struct subpool *subpool)
{
}

static void make_file(struct file *file, uint64_t ino, int nr_nodes)
{
	rwsem_init(&file->lock, LOCK_RANK_INODE);
	subpool_init_tenant(&file->tenant, &core.subpool, no_release);
	if (mem.backing.ops->file_open(&mem.backing, ino, -1, &file->backing_file) < 0 ||
	    mem.backing.ops->resize(file->backing_file, NR_PAGES) < 0 ||
	    page_space_init(&file->space, &core, file->backing_file, ino, 0, NR_PAGES) < 0)
		fail("cannot make a file");
	page_space_set_subpool(&file->space, &file->tenant, true);
	if (page_reserve(&file->space, 0, NR_PAGES, NULL) < 0)
		fail("cannot reserve");
	for (int64_t idx = 0; idx < NR_PAGES; idx++) {
		if (page_instantiate(&file->space, idx, (int)(idx / SPLIT_CHUNK % nr_nodes)) <
		    0)
			fail("cannot instantiate");
	}
}

static void set_up(enum split_mode mode, int nr_nodes)
{
	int64_t node_pages[POOL_MAX_NODES], all = 0;

	for (int node = 0; node < nr_nodes; node++)
		all += node_pages[node] = nr_tenants * NR_PAGES;
	backing_mem_init(&mem, BASE_PAGE, nr_nodes);
	mem.backing.huge_page_size = (uint64_t)SPLIT_CHUNK * BASE_PAGE;
	if (page_core_init(&core, nr_nodes, node_pages, all, 0, 1024, false) < 0)
		fail("cannot make a pool");
	split_queues_init(&queues, mode, nr_nodes);
	for (int i = 0; i < nr_tenants; i++)
		make_file(&files[i], FIRST_INO + (uint64_t)i, nr_nodes);
}

static void punch(struct file *file, int64_t idx)
{
	rwsem_write_lock(&file->lock);
	memset(file->page, 0, BASE_PAGE);
	if (split_notes_add(&file->notes, &queues, &file->space, idx, idx + 1) < 0)
		fail("cannot note a hole");
	rwsem_write_unlock(&file->lock);
}

/* Write it again; it may have been split off meanwhile. */
static void fill(struct file *file, int64_t idx)
{
	int node = (int)(idx / SPLIT_CHUNK % queues.nr_nodes);

	rwsem_write_lock(&file->lock);
	if (page_instantiate(&file->space, idx, node) < 0)
		fail("cannot instantiate");
	memset(file->page, 1, BASE_PAGE);
	split_notes_drop(&file->notes, &queues, idx, idx + 1, SPLIT_END_REFILLED);
	rwsem_write_unlock(&file->lock);
}

/* Some holes are open at a time: the oldest one is filled. */
static void *work(void *data)
{
	struct file *file = data;
	unsigned int seed = (unsigned int)(file - files);
	int64_t holes[NR_HOLES];

	for (int i = 0; i < NR_HOLES; i++)
		punch(file, holes[i] = rand_r(&seed) % NR_PAGES);
	for (uint64_t i = 0; !stop; i++) {
		int64_t *hole = &holes[i % NR_HOLES];

		fill(file, *hole);
		punch(file, *hole = rand_r(&seed) % NR_PAGES);
		file->nr_ops += 2;
	}
	return NULL;
}

static void split_pick(const struct split_pick *pick)
{
	struct file *file = &files[pick->ino - FIRST_INO];
	int64_t nr;

	rwsem_write_lock(&file->lock);
	nr = split_notes_split(&file->notes, &queues, &file->space, pick->chunk,
			       SPLIT_END_SPLIT);
	rwsem_write_unlock(&file->lock);
	nr_split += nr > 0;
	nr_elsewhere += nr > 0 && pick->node != 0;
}

static void *shrink(void *data)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	struct split_set **sets;
	struct split_pick pick;
	int64_t nr;

	while (!stop) {
		nr = split_sets_read(&queues, &sets);
		for (int64_t i = 0; i < nr; i++) {
			for (int j = 0; j < PICKS; j++) {
				if (split_queue_pick(split_set_queue(sets[i], 0), &pick))
					split_pick(&pick);
			}
		}
		if (nr >= 0)
			split_sets_free(&queues, sets, nr);
		nanosleep(&pause, NULL); /* between two turns, as memory becomes short again */
	}
	return NULL;
}

static void run(double seconds)
{
	struct timespec length = {.tv_sec = (time_t)seconds,
				  .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
	pthread_t shrinker;

	lock_stat_clear();
	for (int i = 0; i < nr_tenants; i++) {
		if (pthread_create(&files[i].thread, NULL, work, &files[i]))
			fail("cannot start a thread");
	}
	if (pthread_create(&shrinker, NULL, shrink, NULL))
		fail("cannot start a thread");
	nanosleep(&length, NULL);
	stop = true;
	for (int i = 0; i < nr_tenants; i++)
		pthread_join(files[i].thread, NULL);
	pthread_join(shrinker, NULL);
}

int main(int argc, char **argv)
{
	struct lock_class_stat stat;
	int mode = SPLIT_GLOBAL, nr_nodes;
	uint64_t nr_ops = 0;
	double seconds;

	if (argc != 5)
		fail("usage: scarcity_split global|tenant|tenant-node NODES TENANTS SECONDS");
	while (mode < NR_SPLIT_MODES && strcmp(argv[1], split_mode_names[mode]) != 0)
		mode++;
	nr_nodes = atoi(argv[2]);
	nr_tenants = atoi(argv[3]);
	seconds = atof(argv[4]);
	if (mode == NR_SPLIT_MODES || nr_nodes < 1 || nr_nodes > POOL_MAX_NODES ||
	    nr_tenants < 1 || nr_tenants > MAX_TENANTS || seconds <= 0)
		fail("no such mode, or a number out of range");
	set_up((enum split_mode)mode, nr_nodes);
	run(seconds);
	for (int i = 0; i < nr_tenants; i++)
		nr_ops += files[i].nr_ops;
	lock_stat_read(LOCK_RANK_SPLIT_QUEUE, &stat);
	printf("%.0f %.1f %" PRIu64 " %" PRIu64 "\n", (double)nr_ops / seconds,
	       (double)stat.exclusive.nr_contentions * 1e6 / (double)nr_ops, nr_split,
	       nr_elsewhere);
	return 0;
}
