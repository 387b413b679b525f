/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The page transaction. See page.h for the invariants; every change of a map, of the subpool
 * and of the pool that belong together is made in one write-locked section of the region rwsem,
 * by the functions called *_locked below. What such a section may need to allocate is allocated
 * before, as struct region_change, and what is left over is freed after.
 */
#include "fs/page.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "fs/page_change.h"
#include "fs/page_maps.h"
#include "fs/page_place.h"
#include "fs/trace.h"

void page_forget_locked(struct page_space *space, int64_t from, int64_t to,
			struct region_change *changes)
{
	int64_t nr, freed = 0;

	for (int node = 0; node < space->nr_nodes; node++) {
		page_change_set(&changes[node], from, to);
		nr = region_map_delete_locked(&space->inst[node], &changes[node]);
		if (nr > 0) {
			trace_page_freed(space->object, from, nr, node);
			subpool_put_taken(space->subpool, node, nr);
			avail_mask_set(&space->core->avail, node);
		}
		freed += nr;
	}
	page_change_set(&changes[space->nr_nodes], from, to);
	nr = region_map_delete_locked(&space->resv, &changes[space->nr_nodes]);
	assert(nr >= freed);
	page_count_file_locked(space);
	page_unbind_excess_locked(space);
	subpool_unreserve(space->subpool, nr - freed);
}

/* A page for @idx was taken on @node: enter it. The changes are for resv and inst. */
static void enter_locked(struct page_space *space, int node, bool reserved,
			 struct region_change *resv, struct region_change *inst)
{
	if (!reserved)
		region_map_commit_locked(&space->resv, resv);
	page_count_file_locked(space);
	region_map_commit_locked(&space->inst[node], inst);
}

/* Take a page for @idx where @place says, and enter it. Its node, or -ENOSPC. */
static int take_locked(struct page_space *space, struct page_entry *entry,
		       const struct pool_place *place, struct region_change *resv,
		       struct region_change *inst)
{
	struct subpool_taken *taken = &entry->taken;
	int node;

	entry->reserved = region_map_contains_locked(&space->resv, entry->idx);
	if (entry->reserved)
		node = pool_take_page_at(&space->core->pool, place, true, &taken->source);
	else
		node = subpool_take_page_at(space->subpool, place, taken);
	if (node < 0)
		return -ENOSPC;
	if (place->bound)
		page_unbound_locked(space, node);
	enter_locked(space, node, entry->reserved, resv, inst);
	return node;
}

/* Take a page that the kernel has given by itself, on @on; POOL_ANY_NODE: wherever it is. */
static int take_given_locked(struct page_space *space, int64_t idx, int on,
			     struct region_change *resv, struct region_change *inst)
{
	bool reserved = region_map_contains_locked(&space->resv, idx);
	struct subpool_taken taken;
	int node;

	if (reserved)
		node = pool_take_page(&space->core->pool, on, true, &taken.source);
	else
		node = subpool_take_given(space->subpool, on, &taken);
	if (node < 0)
		return reserved ? node : -ENOSPC;
	if (on != POOL_ANY_NODE && on != node) {
		pool_move_page(&space->core->pool, node, on);
		node = on;
	}
	enter_locked(space, node, reserved, resv, inst);
	return node;
}

/* Take page @idx on @node out of the maps and give it back; with @keep_reserved it stays in
 * resv. */
static void give_locked(struct page_space *space, int node, bool keep_reserved,
			struct region_change *resv, struct region_change *inst)
{
	trace_page_freed(space->object, inst->from, 1, node);
	region_map_delete_locked(&space->inst[node], inst);
	if (keep_reserved) {
		pool_put_page(&space->core->pool, node, true);
		page_rebind_locked(space, node);
	} else {
		region_map_delete_locked(&space->resv, resv);
		page_count_file_locked(space);
		subpool_put_page(space->subpool, node);
	}
	avail_mask_set(&space->core->avail, node);
}

/* One page's changes of both maps, allocated together. */
struct page_change {
	struct region_change resv, inst;
};

static int page_change_init(struct page_change *change, int64_t idx)
{
	int r;

	r = region_change_init(&change->resv, idx, idx + 1);
	if (r < 0)
		return r;
	r = region_change_init(&change->inst, idx, idx + 1);
	if (r < 0)
		region_change_free(&change->resv);
	return r;
}

static void page_change_free(struct page_change *change)
{
	region_change_free(&change->resv);
	region_change_free(&change->inst);
}

/* Under the fault mutex of the page: enter it and take its page. 0, 1: it is there, -errno. */
static int enter_page(struct page_space *space, struct page_entry *entry,
		      struct page_attempt *attempt, struct page_change *change)
{
	struct pool_place place;
	int r = -ERANGE;

	rwsem_write_lock(space->lock);
	if (page_inst_node_locked(space, entry->idx) >= 0) {
		rwsem_write_unlock(space->lock);
		return 1;
	}
	if (entry->idx < space->nr_pages) {
		page_place_locked(space, entry->idx, attempt, &place);
		r = take_locked(space, entry, &place, &change->resv, &change->inst);
	}
	if (r >= 0) {
		entry->node = r;
		entry->next = space->entries;
		space->entries = entry;
		space->nr_populating++;
		page_note_change(space);
	}
	rwsem_write_unlock(space->lock);
	return r < 0 ? r : 0;
}

static void leave_locked(struct page_space *space, const struct page_entry *entry)
{
	struct page_entry **link = &space->entries;

	while (*link != entry)
		link = &(*link)->next;
	*link = entry->next;
	space->nr_populating--;
}

/* page_forget() may have uncounted a page that was entered when it had waited for others. */
static bool is_entered_locked(const struct page_space *space, const struct page_entry *entry)
{
	return page_inst_node_locked(space, entry->idx) == entry->node;
}

/* Undo enter_page() for a page that could not be populated. */
static void untake_page(struct page_space *space, const struct page_entry *entry,
			struct page_change *change)
{
	rwsem_write_lock(space->lock);
	leave_locked(space, entry);
	if (!is_entered_locked(space, entry)) {
		/* It was given back already. */
	} else if (entry->reserved) {
		give_locked(space, entry->node, true, &change->resv, &change->inst);
	} else {
		region_map_delete_locked(&space->inst[entry->node], &change->inst);
		region_map_delete_locked(&space->resv, &change->resv);
		page_count_file_locked(space);
		subpool_untake_page(space->subpool, entry->node, &entry->taken);
	}
	rwsem_write_unlock(space->lock);
}

/* The page is there; the backing may have put it on another node than it was taken from. */
static void finish_page(struct page_space *space, const struct page_entry *entry, int node,
			struct page_change *change)
{
	rwsem_write_lock(space->lock);
	leave_locked(space, entry);
	if (node != entry->node && is_entered_locked(space, entry)) {
		region_map_delete_locked(&space->inst[entry->node], &change->resv);
		region_map_commit_locked(&space->inst[node], &change->inst);
		pool_move_page(&space->core->pool, entry->node, node);
	}
	rwsem_write_unlock(space->lock);
}

static enum page_outcome page_outcome(enum pool_source source)
{
	switch (source) {
	case POOL_FROM_RESERVATION:
		return PAGE_FROM_RESERVATION;
	case POOL_FROM_FREE:
		return PAGE_FROM_FREE;
	case POOL_FROM_SURPLUS:
		break;
	}
	return PAGE_FROM_SURPLUS;
}

/* Under the fault mutex of @idx: take a page, populate it, or put everything back. */
static int try_page(struct page_space *space, int64_t idx, struct page_attempt *attempt,
		    int *ret_node)
{
	struct page_change enter, undo; /* undoing must not need memory */
	struct page_entry entry = {.idx = idx};
	int r;

	r = page_change_init(&enter, idx);
	if (r < 0)
		return r;
	r = page_change_init(&undo, idx);
	if (r < 0)
		goto out_enter;
	attempt->failed_on = POOL_ANY_NODE;
	r = enter_page(space, &entry, attempt, &enter);
	if (r > 0) {
		*ret_node = page_node(space, idx);
		r = PAGE_PRESENT;
		goto out_undo;
	}
	if (r < 0)
		goto out_undo;
	r = space->file->backing->ops->populate(space->file, idx,
						attempt->anywhere ? POOL_ANY_NODE : entry.node);
	if (r < 0) {
		attempt->failed_on = entry.node;
		attempt->was_free = entry.taken.source != POOL_FROM_SURPLUS;
		untake_page(space, &entry, &undo);
		goto out_undo;
	}
	finish_page(space, &entry, r, &undo);
	*ret_node = r;
	trace_page_taken(space->object, idx, r, entry.taken.source);
	r = page_outcome(entry.taken.source);
out_undo:
	page_change_free(&undo);
out_enter:
	page_change_free(&enter);
	return r;
}

/* The same on one node after the other, as far as its rule allows. */
static int instantiate_page(struct page_space *space, int64_t idx, const struct page_hint *hint,
			    int *ret_node)
{
	struct page_attempt attempt = {.hint = hint};
	int r;

	do
		r = try_page(space, idx, &attempt, ret_node);
	while (r == -ENOSPC && page_try_again(space, &attempt));
	if (r >= 0 && attempt.first >= 0 && *ret_node != attempt.first)
		space->core->nr_remote++;
	return r;
}

/*
 * Spares the memory and the write lock where the page is there: on which node, else -ENOENT. It
 * does not wait for the lock: entering the page looks again.
 */
static int seen_on_node(struct page_space *space, int64_t idx)
{
	int node;

	if (!rwsem_read_trylock(space->lock))
		return -ENOENT;
	node = page_inst_node_locked(space, idx);
	rwsem_read_unlock(space->lock);
	return node;
}

int page_instantiate_for(struct page_space *space, int64_t idx, const struct page_hint *hint,
			 int *ret_node)
{
	struct mutex *mutex = fault_mutex_lock(&space->core->faults, page_key(space, idx));
	int r = PAGE_PRESENT, there = seen_on_node(space, idx);

	if (there < 0)
		r = instantiate_page(space, idx, hint, ret_node);
	else
		*ret_node = there;
	mutex_unlock(mutex);
	return r;
}

int page_instantiate_on(struct page_space *space, int64_t idx, int node, int *ret_node)
{
	const struct page_hint hint = {.node = node};

	return page_instantiate_for(space, idx, &hint, ret_node);
}

int page_instantiate(struct page_space *space, int64_t idx, int node)
{
	int on;

	return page_instantiate_on(space, idx, node, &on);
}

/* Page @idx goes, and with it its reservation. */
static void note_unreserved(const struct page_space *space, int64_t idx)
{
	const struct page_core *core = space->core;

	if (core->unreserved)
		core->unreserved(core->unreserved_data, space->object, idx);
}

/* Free page @idx, if it is there. Returns the number of pages freed or -errno. */
static int punch_page(struct page_space *space, int64_t idx)
{
	struct page_change change;
	struct mutex *mutex;
	int node, r;

	r = page_change_init(&change, idx);
	if (r < 0)
		return r;
	mutex = fault_mutex_lock(&space->core->faults, page_key(space, idx));
	if (!page_is_instantiated(space, idx))
		goto out_unlock;
	r = space->file->backing->ops->punch(space->file, idx, idx + 1);
	if (r < 0)
		goto out_unlock;
	note_unreserved(space, idx);
	rwsem_write_lock(space->lock);
	node = page_inst_node_locked(space, idx);
	/* A truncation may have uncounted it while the page was punched. */
	if (node >= 0)
		give_locked(space, node, false, &change.resv, &change.inst);
	rwsem_write_unlock(space->lock);
	r = node >= 0;
out_unlock:
	mutex_unlock(mutex);
	page_change_free(&change);
	return r;
}

int64_t page_punch(struct page_space *space, int64_t from, int64_t to)
{
	int64_t idx, nr = 0;
	int r;

	while ((idx = page_next_instantiated(space, from, to)) >= 0) {
		r = punch_page(space, idx);
		if (r < 0)
			return r;
		nr += r;
		from = idx + 1;
	}
	return nr;
}

/* Wait until no page of [from, to) that was entered before is still being populated. */
static void wait_populated(struct page_space *space, int64_t from, int64_t to)
{
	int64_t idx;

	while ((idx = page_next_instantiated(space, from, to)) >= 0) {
		mutex_unlock(fault_mutex_lock(&space->core->faults, page_key(space, idx)));
		from = (idx / space->chunk + 1) * space->chunk;
	}
}

int page_forget(struct page_space *space, int64_t from, int64_t to)
{
	struct region_change *changes = page_changes_new(space->nr_nodes + 1);

	if (!changes)
		return -ENOMEM;
	wait_populated(space, from, to);
	rwsem_write_lock(space->lock);
	page_forget_locked(space, from, to, changes);
	rwsem_write_unlock(space->lock);
	page_changes_free(changes, space->nr_nodes + 1);
	return 0;
}

static int64_t set_nr_pages(struct page_space *space, int64_t nr_pages)
{
	int64_t old;

	rwsem_write_lock(space->lock);
	old = space->nr_pages;
	space->nr_pages = nr_pages;
	rwsem_write_unlock(space->lock);
	return old;
}

int page_truncate(struct page_space *space, int64_t nr_pages)
{
	const struct backing_ops *ops = space->file->backing->ops;
	struct region_change *changes;
	int64_t old;
	int r;

	rwsem_read_lock(space->lock);
	old = space->nr_pages;
	rwsem_read_unlock(space->lock);
	if (nr_pages >= old) {
		r = nr_pages > old ? ops->resize(space->file, nr_pages) : 0;
		if (r == 0)
			set_nr_pages(space, nr_pages);
		return r;
	}
	changes = page_changes_new(space->nr_nodes + 1);
	if (!changes)
		return -ENOMEM;
	/* From here on nothing is entered behind the new end; what was entered is waited for.
	 */
	set_nr_pages(space, nr_pages);
	wait_populated(space, nr_pages, REGION_END);
	r = ops->resize(space->file, nr_pages);
	if (r < 0) {
		set_nr_pages(space, old);
	} else {
		rwsem_write_lock(space->lock);
		page_forget_locked(space, nr_pages, REGION_END, changes);
		rwsem_write_unlock(space->lock);
	}
	page_changes_free(changes, space->nr_nodes + 1);
	return r;
}

/* Make the counters of @idx say what @present does, and that it is on node @on. Under its fault
 * mutex. */
static int reconcile_page(struct page_space *space, int64_t idx, bool present, int on,
			  bool keep_reserved)
{
	struct page_change change;
	int node, r;

	r = page_change_init(&change, idx);
	if (r < 0)
		return r;
	if (!present && !keep_reserved && page_is_instantiated(space, idx))
		note_unreserved(space, idx);
	rwsem_write_lock(space->lock);
	node = page_inst_node_locked(space, idx);
	/* Behind the end it was there before a truncation, and is not any more. */
	if (present == (node >= 0) || (present && idx >= space->nr_pages)) {
		r = 0;
	} else if (present) {
		page_unbind_locked(space, 1);
		node = take_given_locked(space, idx, on, &change.resv, &change.inst);
		r = node < 0 ? node : 1;
	} else {
		give_locked(space, node, keep_reserved, &change.resv, &change.inst);
		r = 1;
	}
	rwsem_write_unlock(space->lock);
	page_change_free(&change);
	return r;
}

/* The node of a page that is there and that nobody has counted, if that can be said. */
static int given_on(struct page_space *space, int64_t idx)
{
	const struct backing_ops *ops = space->file->backing->ops;
	int node = POOL_ANY_NODE;

	if (space->nr_nodes > 1 && ops->node && !page_is_instantiated(space, idx))
		node = ops->node(space->file, idx);
	return node >= 0 && node < space->nr_nodes ? node : POOL_ANY_NODE;
}

int page_reconcile(struct page_space *space, int64_t idx, bool keep_reserved)
{
	struct mutex *mutex = fault_mutex_lock(&space->core->faults, page_key(space, idx));
	int r = space->file->backing->ops->present(space->file, idx);

	if (r >= 0)
		r = reconcile_page(space, idx, r, r ? given_on(space, idx) : POOL_ANY_NODE,
				   keep_reserved);
	mutex_unlock(mutex);
	return r;
}

void page_discard(struct page_space *space, int64_t idx, bool keep_reserved)
{
	struct mutex *mutex = fault_mutex_lock(&space->core->faults, page_key(space, idx));

	/* Without memory it stays counted until the next page_reconcile(). */
	reconcile_page(space, idx, false, POOL_ANY_NODE, keep_reserved);
	mutex_unlock(mutex);
}
