/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Split queues: doubly linked lists, as entries leave from anywhere. */
#include "fs/split_queue.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "fs/subpool.h"

const char *const split_mode_names[NR_SPLIT_MODES] = {
	[SPLIT_OFF] = "off",
	[SPLIT_GLOBAL] = "global",
	[SPLIT_TENANT] = "tenant",
	[SPLIT_TENANT_NODE] = "tenant-node",
};

void split_queues_init(struct split_queues *queues, enum split_mode mode, int nr_nodes)
{
	queues->mode = mode;
	queues->nr_nodes = nr_nodes;
	queues->sets = NULL;
	queues->nr_filled = 0;
	mutex_init(&queues->lock, LOCK_RANK_LEAF);
}

static struct split_set *set_new(const struct split_queues *queues, struct subpool *subpool)
{
	int nr = queues->mode == SPLIT_TENANT_NODE ? queues->nr_nodes : 1;
	struct split_set *set = aligned_alloc(_Alignof(struct split_queue),
					      sizeof(*set) + nr * sizeof(struct split_queue));

	if (!set)
		return NULL;
	*set = (struct split_set){.nr_queues = nr, .nr_users = 1};
	set->subpool = queues->mode == SPLIT_GLOBAL ? NULL : subpool_ref(subpool);
	for (int i = 0; i < nr; i++) {
		set->queues[i] = (struct split_queue){.first = NULL};
		mutex_init(&set->queues[i].lock, LOCK_RANK_SPLIT_QUEUE);
	}
	return set;
}

/* NULL-safe. */
static void set_free(struct split_set *set)
{
	if (!set)
		return;
	for (int i = 0; i < set->nr_queues; i++) {
		assert(!set->queues[i].first);
		mutex_deinit(&set->queues[i].lock);
	}
	if (set->subpool)
		subpool_unref(set->subpool);
	free(set);
}

/* A list of sets that has become nobody's. */
static void free_list(struct split_set *set)
{
	struct split_set *next;

	for (; set; set = next) {
		next = set->next;
		set_free(set);
	}
}

void split_queues_deinit(struct split_queues *queues)
{
	free_list(queues->sets);
	queues->sets = NULL;
	mutex_deinit(&queues->lock);
}

static struct split_set *find_locked(const struct split_queues *queues,
				     const struct subpool *subpool)
{
	struct split_set *set = queues->sets;

	while (set && queues->mode != SPLIT_GLOBAL && set->subpool != subpool)
		set = set->next;
	return set;
}

/* Take those out whose tenant has gone: only we hold its subpool. */
static struct split_set *take_dead_locked(struct split_queues *queues)
{
	struct split_set **link = &queues->sets, *set, *dead = NULL;

	while ((set = *link)) {
		if (set->nr_users > 0 || !set->subpool || set->subpool->root == set->subpool ||
		    atomic_load(&set->subpool->nr_refs) > 1) {
			link = &set->next;
			continue;
		}
		*link = set->next;
		set->next = dead;
		dead = set;
	}
	return dead;
}

struct split_set *split_set_get(struct split_queues *queues, struct subpool *subpool)
{
	struct split_set *set, *fresh = NULL, *dead = NULL;

	for (;;) {
		mutex_lock(&queues->lock);
		set = find_locked(queues, subpool);
		if (set) {
			set->nr_users++;
		} else if (fresh) {
			dead = take_dead_locked(queues);
			fresh->next = queues->sets;
			queues->sets = set = fresh;
			fresh = NULL;
		}
		mutex_unlock(&queues->lock);
		if (set)
			break;
		fresh = set_new(queues, subpool);
		if (!fresh)
			return NULL;
	}
	set_free(fresh);
	free_list(dead);
	return set;
}

void split_set_put(struct split_queues *queues, struct split_set *set)
{
	if (!set)
		return;
	mutex_lock(&queues->lock);
	assert(set->nr_users > 0);
	set->nr_users--;
	mutex_unlock(&queues->lock);
}

bool split_set_press(struct split_queues *queues, const struct subpool *subpool)
{
	struct split_set *set;

	mutex_lock(&queues->lock);
	set = find_locked(queues, subpool);
	if (set)
		set->pressed_by = subpool;
	mutex_unlock(&queues->lock);
	return set;
}

static int64_t count_locked(const struct split_queues *queues)
{
	int64_t nr = 0;

	for (const struct split_set *set = queues->sets; set; set = set->next)
		nr++;
	return nr;
}

int64_t split_sets_read(struct split_queues *queues, struct split_set ***ret_sets)
{
	struct split_set **sets = NULL, *dead;
	int64_t nr = 0, room;

	do {
		mutex_lock(&queues->lock);
		dead = take_dead_locked(queues);
		room = count_locked(queues);
		mutex_unlock(&queues->lock);
		free_list(dead);
		free(sets);
		sets = malloc((size_t)(room + 1) * sizeof(struct split_set *));
		if (!sets)
			return -ENOMEM;
		mutex_lock(&queues->lock);
		nr = count_locked(queues);
		if (nr <= room) {
			nr = 0;
			for (struct split_set *set = queues->sets; set; set = set->next) {
				set->nr_users++;
				sets[nr++] = set;
			}
			room = nr;
		}
		mutex_unlock(&queues->lock);
	} while (nr > room);
	*ret_sets = sets;
	return nr;
}

void split_sets_free(struct split_queues *queues, struct split_set **sets, int64_t nr)
{
	for (int64_t i = 0; i < nr; i++)
		split_set_put(queues, sets[i]);
	free(sets);
}

struct split_queue *split_set_queue(struct split_set *set, int node)
{
	return &set->queues[set->nr_queues > 1 && node < set->nr_queues ? node : 0];
}

void split_entry_init(struct split_entry *entry, struct split_queue *queue, uint64_t ino,
		      int64_t chunk, int node)
{
	*entry = (struct split_entry){.queue = queue, .ino = ino, .chunk = chunk, .node = node};
}

static void append_locked(struct split_queue *queue, struct split_entry *entry)
{
	mutex_assert_held(&queue->lock);
	entry->prev = queue->last;
	entry->next = NULL;
	*(queue->last ? &queue->last->next : &queue->first) = entry;
	queue->last = entry;
}

static void remove_locked(struct split_queue *queue, struct split_entry *entry)
{
	mutex_assert_held(&queue->lock);
	*(entry->prev ? &entry->prev->next : &queue->first) = entry->next;
	*(entry->next ? &entry->next->prev : &queue->last) = entry->prev;
}

void split_entry_note(struct split_queues *queues, struct split_entry *entry, int64_t nr_noted)
{
	struct split_queue *queue = entry->queue;

	assert(nr_noted > 0);
	mutex_lock(&queue->lock);
	if (entry->nr_noted == 0) {
		if (!queue->first)
			queues->nr_filled++;
		append_locked(queue, entry);
		queue->counts.nr_huge++;
		queue->counts.nr_deferred++;
	}
	queue->counts.nr_noted += nr_noted - entry->nr_noted;
	entry->nr_noted = nr_noted;
	mutex_unlock(&queue->lock);
}

void split_entry_end(struct split_queues *queues, struct split_entry *entry, enum split_end why,
		     int64_t nr_freed)
{
	struct split_queue *queue = entry->queue;

	mutex_lock(&queue->lock);
	if (entry->nr_noted > 0) {
		remove_locked(queue, entry);
		if (!queue->first)
			queues->nr_filled--;
		queue->counts.nr_huge--;
		queue->counts.nr_noted -= entry->nr_noted;
		queue->counts.nr_ended[why]++;
		queue->counts.nr_freed += (uint64_t)nr_freed;
		entry->nr_noted = 0;
	}
	mutex_unlock(&queue->lock);
}

bool split_queue_pick(struct split_queue *queue, struct split_pick *ret_pick)
{
	struct split_entry *entry;

	mutex_lock(&queue->lock);
	entry = queue->first;
	if (entry) {
		*ret_pick = (struct split_pick){entry->ino, entry->chunk, entry->node};
		remove_locked(queue, entry);
		append_locked(queue, entry);
	}
	mutex_unlock(&queue->lock);
	return entry;
}

void split_queue_count_elsewhere(struct split_queue *queue)
{
	mutex_lock(&queue->lock);
	queue->counts.nr_elsewhere++;
	mutex_unlock(&queue->lock);
}

void split_queue_read(struct split_queue *queue, struct split_counts *ret_counts)
{
	mutex_lock(&queue->lock);
	*ret_counts = queue->counts;
	mutex_unlock(&queue->lock);
}
