/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Page runs: instantiation where every page is reserved before, as of files that are reserved
 * as far as they are long. Then nothing can be missing that somebody else might take, and a
 * page is entered into the map when it is there rather than before: there is nothing to undo.
 */
#include <errno.h>

#include "fs/page.h"
#include "fs/page_change.h"
#include "fs/page_maps.h"
#include "fs/trace.h"

/* The maps of one node: where the pages are is the kernel's business here. */
#define RUN_NODE 0

int page_run_present(struct page_space *space, int64_t from, int64_t to)
{
	struct region_change change;
	int64_t nr;
	int r;

	if (from >= to)
		return 0;
	r = region_change_init(&change, from, to);
	if (r < 0)
		return r;
	rwsem_write_lock(space->lock);
	nr = region_map_commit_locked(&space->inst[RUN_NODE], &change);
	pool_take_reserved(&space->core->pool, RUN_NODE, nr);
	if (nr > 0) {
		trace_page_taken(space->object, from, RUN_NODE, POOL_FROM_RESERVATION);
		page_note_change(space);
	}
	rwsem_write_unlock(space->lock);
	region_change_free(&change);
	return 0;
}

int page_run_absent(struct page_space *space, int64_t from, int64_t to)
{
	struct region_change *changes;
	int64_t nr;

	if (from >= to)
		return 0;
	changes = page_changes_new(space->nr_nodes);
	if (!changes)
		return -ENOMEM;
	rwsem_write_lock(space->lock);
	for (int node = 0; node < space->nr_nodes; node++) {
		page_change_set(&changes[node], from, to);
		nr = region_map_delete_locked(&space->inst[node], &changes[node]);
		if (nr > 0) {
			pool_put_pages(&space->core->pool, node, nr, nr);
			trace_page_freed(space->object, from, nr, node);
		}
	}
	rwsem_write_unlock(space->lock);
	page_changes_free(changes, space->nr_nodes);
	return 0;
}

/* The first run in [from, to) that is reserved, not there, and in one huge page. */
static bool next_run(struct page_space *space, int64_t from, int64_t to, struct region *ret_run)
{
	int64_t end;
	bool found;

	rwsem_read_lock(space->lock);
	found = page_next_reserved_locked(space, from, to, ret_run);
	rwsem_read_unlock(space->lock);
	if (!found)
		return false;
	end = (ret_run->from / space->chunk + 1) * space->chunk;
	if (ret_run->to > end)
		ret_run->to = end;
	return true;
}

int page_run_populate(struct page_space *space, int64_t from, int64_t to)
{
	const struct backing_ops *ops = space->file->backing->ops;
	struct mutex *mutex;
	struct region run;
	int r;

	for (; next_run(space, from, to, &run); from = run.to) {
		mutex = fault_mutex_lock(&space->core->faults, page_key(space, run.from));
		r = ops->populate_run(space->file, run.from, run.to);
		if (r == 0)
			r = page_run_present(space, run.from, run.to);
		mutex_unlock(mutex);
		if (r < 0) {
			/* All of the rest may be wanting. */
			space->core->nr_short += to - run.from;
			return r;
		}
	}
	return 0;
}
