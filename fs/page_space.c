/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Setting up page spaces, and what all of a mount share; and taking them down. */
#include "fs/page.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "fs/page_change.h"

int page_core_init(struct page_core *core, int nr_nodes, const int64_t *node_pages, int64_t max,
		   int64_t min, uint32_t nr_fault_mutexes, bool region_lock_global)
{
	int64_t set_aside = 0;
	int r;

	assert(nr_nodes > 0 && nr_nodes <= POOL_MAX_NODES);
	for (int node = 0; node < nr_nodes; node++)
		set_aside += node_pages[node];
	if (max != SUBPOOL_NO_LIMIT && max < set_aside)
		return -EINVAL;
	r = fault_mutex_table_init(&core->faults, nr_fault_mutexes, FAULT_HASH_JHASH2);
	if (r < 0)
		return r;
	pool_init(&core->pool, nr_nodes, max == SUBPOOL_NO_LIMIT ? 0 : max - set_aside);
	for (int node = 0; node < nr_nodes; node++) {
		r = pool_resize(&core->pool, node, node_pages[node]);
		if (r < 0)
			goto out_pool;
	}
	r = subpool_init(&core->subpool, &core->pool, max, min);
	if (r < 0)
		goto out_pool;
	core->unreserved = NULL;
	core->nr_short = 0;
	avail_mask_init(&core->avail, false);
	core->memory_nodes = UINT64_MAX >> (POOL_MAX_NODES - nr_nodes);
	core->numa = (struct numa_rule){NUMA_NONE, NUMA_FALLBACK_NONE, 0};
	core->nr_remote = core->nr_unbound = 0;
	for (int node = 0; node < POOL_MAX_NODES; node++)
		core->nr_unbound_of[node] = 0;
	core->region_lock_global = region_lock_global;
	rwsem_init(&core->region_lock, LOCK_RANK_REGION_MAP);
	return 0;

out_pool:
	pool_deinit(&core->pool);
	fault_mutex_table_deinit(&core->faults);
	return r;
}

void page_core_deinit(struct page_core *core)
{
	rwsem_deinit(&core->region_lock);
	subpool_deinit(&core->subpool);
	pool_deinit(&core->pool);
	fault_mutex_table_deinit(&core->faults);
}

int page_space_init(struct page_space *space, struct page_core *core, struct backing_file *file,
		    uint64_t object, int64_t key_offset, int64_t nr_pages)
{
	int nr_nodes = file->backing->nr_nodes;

	space->inst = calloc(nr_nodes, sizeof(*space->inst));
	space->bound = calloc(nr_nodes, sizeof(*space->bound));
	space->final_changes = page_changes_new(nr_nodes + 1);
	if (!space->inst || !space->bound || !space->final_changes) {
		page_changes_free(space->final_changes, nr_nodes + 1);
		free(space->bound);
		free(space->inst);
		space->inst = NULL;
		return -ENOMEM;
	}
	space->core = core;
	space->subpool = &core->subpool;
	space->is_file = space->holds_pages = false;
	space->file = file;
	space->object = object;
	space->key_offset = key_offset;
	space->nr_nodes = nr_nodes;
	space->chunk = backing_chunk(file->backing);
	space->nr_pages = nr_pages;
	space->nr_populating = 0;
	space->rule = (struct numa_rule){NUMA_NONE, NUMA_FALLBACK_NONE, 0};
	space->nr_bound = 0;
	space->entries = NULL;
	space->made_ms = clock_time_ms();
	page_note_change(space);
	rwsem_init(&space->own_lock, LOCK_RANK_REGION_MAP);
	space->lock = core->region_lock_global ? &core->region_lock : &space->own_lock;
	region_map_init(&space->resv, space->lock);
	for (int node = 0; node < nr_nodes; node++)
		region_map_init(&space->inst[node], space->lock);
	return 0;
}

void page_space_set_subpool(struct page_space *space, struct subpool *subpool, bool is_file)
{
	space->subpool = subpool_ref(subpool);
	space->is_file = is_file;
}

void page_space_deinit(struct page_space *space)
{
	if (!space->inst)
		return;
	rwsem_write_lock(space->lock);
	page_forget_locked(space, 0, REGION_END, space->final_changes);
	rwsem_write_unlock(space->lock);
	page_changes_free(space->final_changes, space->nr_nodes + 1);
	for (int node = 0; node < space->nr_nodes; node++)
		region_map_deinit(&space->inst[node]);
	free(space->inst);
	free(space->bound);
	space->inst = NULL;
	region_map_deinit(&space->resv);
	rwsem_deinit(&space->own_lock);
	subpool_unref(space->subpool);
}
