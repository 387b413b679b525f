/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The shrinker of deferred splits. It takes names from the queues, finds their files, and
 * splits under the file's lock what is still noted there: a queue's lock is held for the look
 * only, and no two locks are held at a time.
 */
#include "fs/mount.h"
#include "fs/node_memory.h"
#include "fs/split.h"

/*
 * Below this much of a node's memory, and a part of it, the shrinker begins; at twice that it
 * ends. With transparent huge pages the kernel keeps tens of megabytes of each node free.
 */
#define MEMORY_LOW_KB   (UINT64_C(64) << 10)
#define MEMORY_LOW_PART 64

/* What memory is wanted of. */
struct target {
	int node;                      /* POOL_ANY_NODE: all */
	const struct subpool *subpool; /* NULL: all */
	int64_t nr_pages;              /* still wanted */
};

static bool is_meant(const struct target *target, const struct split_pick *pick,
		     const struct page_space *pages)
{
	return (target->node == POOL_ANY_NODE || target->node == pick->node) &&
	       (!target->subpool || target->subpool == pages->subpool);
}

/* Split what was picked, if it is still there. The pages that were freed. */
static int64_t split_picked(struct mount *mount, struct split_queue *queue,
			    const struct split_pick *pick, const struct target *target)
{
	struct inode *inode = inode_find(mount, pick->ino);
	struct page_space *pages;
	int64_t nr = 0;

	if (!inode)
		return 0;
	rwsem_write_lock(&inode->lock);
	pages = atomic_load(&inode->pages);
	if (pages)
		nr = split_notes_split(&inode->split, &mount->split.queues, pages, pick->chunk,
				       SPLIT_END_SPLIT);
	if (nr > 0 && !is_meant(target, pick, pages))
		split_queue_count_elsewhere(queue);
	rwsem_write_unlock(&inode->lock);
	/* It may have lost its name meanwhile, and we kept it from being freed. */
	inode_drop_unlinked(mount, inode);
	inode_put(mount, inode, 1);
	return nr > 0 ? nr : 0;
}

/* At most @share pages of one queue, and each huge page once. */
static int64_t shrink_queue(struct mount *mount, struct split_queue *queue,
			    const struct target *target, int64_t share)
{
	struct split_counts counts;
	struct split_pick pick;
	int64_t nr = 0;

	split_queue_read(queue, &counts);
	for (int64_t i = 0; i < counts.nr_huge && nr < share; i++) {
		if (!split_queue_pick(queue, &pick))
			break;
		nr += split_picked(mount, queue, &pick, target);
	}
	return nr;
}

static int64_t shrink_set(struct mount *mount, struct split_set *set,
			  const struct target *target, int64_t share)
{
	int64_t nr = 0;

	if (target->node != POOL_ANY_NODE)
		return shrink_queue(mount, split_set_queue(set, target->node), target, share);
	for (int i = 0; i < set->nr_queues && nr < share; i++)
		nr += shrink_queue(mount, &set->queues[i], target, share - nr);
	return nr;
}

/* Of all sets in turn, a share of each, until there is enough or nothing left. */
static int64_t shrink(struct mount *mount, struct target target)
{
	struct split_set **sets;
	int64_t nr_sets = split_sets_read(&mount->split.queues, &sets), all = 0, nr;

	if (nr_sets < 0)
		return 0;
	do {
		int64_t share = target.nr_pages / (nr_sets ? nr_sets : 1) + 1;

		nr = 0;
		for (int64_t i = 0; i < nr_sets && nr < target.nr_pages; i++)
			nr += shrink_set(mount, sets[i], &target, share);
		target.nr_pages -= nr;
		all += nr;
	} while (nr > 0 && target.nr_pages > 0);
	split_sets_free(&mount->split.queues, sets, nr_sets);
	if (all > 0)
		mount_pages_freed(mount);
	return all;
}

int64_t split_shrink_node(struct mount *mount, int node, int64_t nr_pages)
{
	return shrink(mount, (struct target){.node = node, .nr_pages = nr_pages});
}

int64_t split_shrink_tenant(struct mount *mount, struct split_set *set,
			    const struct subpool *subpool, int64_t nr_pages)
{
	struct target target = {POOL_ANY_NODE, subpool, nr_pages};
	int64_t nr = shrink_set(mount, set, &target, nr_pages);

	if (nr > 0)
		mount_pages_freed(mount);
	return nr;
}

/* How many pages @node is short of its high mark, if it is below the low one. */
static int64_t below_mark(const struct split *split, const struct pool_node *node)
{
	if (node->free >= node->nr * split->low_percent / 100)
		return 0;
	return node->nr * split->high_percent / 100 - node->free;
}

/* How many pages a tenant that was refused some shall have less; all without a size. */
static int64_t tenant_wants(const struct split *split, struct subpool *subpool)
{
	struct subpool_counts counts = {.max = SUBPOOL_NO_LIMIT};

	if (subpool)
		subpool_read(subpool, &counts);
	return counts.max == SUBPOOL_NO_LIMIT ? INT64_MAX
					      : counts.max * split->high_percent / 100 + 1;
}

static int64_t relieve_tenants(struct mount *mount)
{
	const struct subpool *subpool;
	struct split_set **sets;
	int64_t nr_sets = split_sets_read(&mount->split.queues, &sets), nr = 0;

	if (nr_sets < 0)
		return 0;
	for (int64_t i = 0; i < nr_sets; i++) {
		subpool = atomic_exchange(&sets[i]->pressed_by, NULL);
		if (subpool)
			nr += split_shrink_tenant(
				mount, sets[i], subpool,
				tenant_wants(&mount->split, sets[i]->subpool));
	}
	split_sets_free(&mount->split.queues, sets, nr_sets);
	return nr;
}

/* The pool may count all pages as one node's: then any will do. */
static int64_t relieve_pool(struct mount *mount)
{
	bool by_node = mount->backing->nr_nodes > 1;
	struct pool_counts pool;
	int64_t nr = 0, wanted;

	pool_read(&mount->core.pool, &pool);
	for (int node = 0; node < pool.nr_nodes; node++) {
		wanted = below_mark(&mount->split, &pool.node[node]);
		if (wanted > 0)
			nr += split_shrink_node(mount, by_node ? node : POOL_ANY_NODE, wanted);
	}
	return nr;
}

/* How many pages the machine's @node is short of its high mark. */
static int64_t memory_wants(const struct mount *mount, int node)
{
	uint64_t page_kb = mount->backing->page_size / 1024;
	struct node_memory memory;
	uint64_t low_kb;

	if (node_memory_read(node, &memory) < 0 || memory.total_kb == 0)
		return 0;
	low_kb = MEMORY_LOW_KB + memory.total_kb / MEMORY_LOW_PART;
	if (memory.available_kb >= low_kb)
		return 0;
	return (int64_t)((2 * low_kb - memory.available_kb) / page_kb);
}

static int64_t relieve_memory(struct mount *mount)
{
	int64_t nr = 0, wanted;

	for (int node = 0; node < mount->split.queues.nr_nodes; node++) {
		wanted = memory_wants(mount, node);
		if (wanted > 0)
			nr += split_shrink_node(mount, node, wanted);
	}
	return nr;
}

int64_t split_relieve(struct mount *mount)
{
	int64_t nr = 0;

	if (split_queues_hold(&mount->split.queues))
		nr += relieve_tenants(mount);
	if (split_queues_hold(&mount->split.queues))
		nr += relieve_pool(mount);
	if (split_queues_hold(&mount->split.queues))
		nr += relieve_memory(mount);
	return nr;
}

bool split_relieve_shortage(struct mount *mount)
{
	int64_t nr_pages = atomic_exchange(&mount->core.nr_short, 0);

	if (nr_pages <= 0 || !split_queues_hold(&mount->split.queues))
		return false;
	return split_shrink_node(mount, POOL_ANY_NODE, nr_pages) > 0;
}

void split_check_pressure(struct mount *mount)
{
	struct pool_counts pool;

	if (!split_queues_hold(&mount->split.queues))
		return;
	pool_read(&mount->core.pool, &pool);
	for (int node = 0; node < pool.nr_nodes; node++) {
		if (below_mark(&mount->split, &pool.node[node]) > 0) {
			waitqueue_wake_all(&mount->split.pressure);
			return;
		}
	}
}

void split_note_refused(struct mount *mount, const struct subpool *subpool)
{
	if (split_queues_hold(&mount->split.queues) &&
	    split_set_press(&mount->split.queues, subpool))
		waitqueue_wake_all(&mount->split.pressure);
}
