/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reservations of a page space: making them, and taking them back while nobody relies on them.
 */
#include <errno.h>
#include <stdlib.h>

#include "fs/page.h"
#include "fs/page_change.h"
#include "fs/page_maps.h"
#include "fs/page_place.h"

/* Whoever reserves [from, to) counts on the pages that are there; some may not come. */
static void reserve_entries_locked(struct page_space *space, int64_t from, int64_t to)
{
	for (struct page_entry *entry = space->entries; entry; entry = entry->next) {
		if (entry->idx >= from && entry->idx < to)
			entry->reserved = true;
	}
}

/* Enter [from, to) into resv, and what is new of it into @added, with @changes for each gap. */
static int64_t reserve_locked(struct page_space *space, struct region_change *change,
			      struct region_map *added, struct region_change *changes)
{
	struct region gap = {change->from, change->from};
	int64_t nr = change->to - change->from -
		     region_map_count_locked(&space->resv, change->from, change->to);
	int r;

	r = nr > 0 ? subpool_reserve(space->subpool, nr) : 0;
	if (r == 0) {
		r = page_bind_locked(space, nr);
		if (r < 0)
			subpool_unreserve(space->subpool, nr);
	}
	if (r < 0)
		return r == -ENOMEM ? -ENOSPC : r;
	reserve_entries_locked(space, change->from, change->to);
	if (nr == 0)
		return 0;
	while (added && page_next_gap_locked(space, gap.to, change->to, &gap)) {
		page_change_set(changes, gap.from, gap.to);
		region_map_commit_locked(added, changes++);
	}
	region_map_commit_locked(&space->resv, change);
	page_count_file_locked(space);
	page_note_change(space);
	return nr;
}

int64_t page_reserve_or_tell(struct page_space *space, int64_t from, int64_t to,
			     struct region_map *ret_added)
{
	struct region_change change, *changes;
	bool enough;
	size_t nr_gaps = 0;
	int64_t r;

	do {
		r = region_change_init(&change, from, to);
		if (r < 0)
			return r;
		if (ret_added) {
			rwsem_read_lock(space->lock);
			nr_gaps = page_count_gaps_locked(space, from, to);
			rwsem_read_unlock(space->lock);
		}
		changes = page_changes_new(nr_gaps);
		if (!changes) {
			region_change_free(&change);
			return -ENOMEM;
		}
		rwsem_write_lock(space->lock);
		enough = !ret_added || page_count_gaps_locked(space, from, to) <= nr_gaps;
		if (enough)
			r = reserve_locked(space, &change, ret_added, changes);
		rwsem_write_unlock(space->lock);
		page_changes_free(changes, nr_gaps);
		region_change_free(&change);
	} while (!enough);
	return r;
}

int64_t page_reserve(struct page_space *space, int64_t from, int64_t to,
		     struct region_map *ret_added)
{
	int64_t r = page_reserve_or_tell(space, from, to, ret_added);

	return r == -ENOSPC ? -ENOMEM : r;
}

/* Give back the first unused reservation in [*pos, to), if nobody else relies on it, and move
 * *pos behind it. */
static int unreserve_next(struct page_space *space, int64_t *pos, int64_t to)
{
	struct region_change change;
	struct region region;
	int64_t nr;
	bool found;
	int r;

	r = region_change_init(&change, *pos, to);
	if (r < 0)
		return r;
	rwsem_write_lock(space->lock);
	found = page_next_reserved_locked(space, *pos, to, &region);
	if (found) {
		page_change_set(&change, region.from, region.to);
		nr = region_map_delete_locked(&space->resv, &change);
		page_unbind_excess_locked(space);
		subpool_unreserve(space->subpool, nr);
		page_count_file_locked(space);
	}
	rwsem_write_unlock(space->lock);
	region_change_free(&change);
	*pos = found ? region.to : to;
	return 0;
}

void page_unreserve_map(struct page_space *space, struct region_map *added)
{
	struct region region = {0, 0};
	bool more;

	for (;;) {
		rwsem_read_lock(space->lock);
		more = region_map_next_locked(added, region.to, &region);
		rwsem_read_unlock(space->lock);
		if (!more)
			break;
		/* Without memory for a node the rest stays reserved, as if it were mapped
		 * still. */
		for (int64_t pos = region.from; pos < region.to;) {
			if (unreserve_next(space, &pos, region.to) < 0)
				break;
		}
	}
	region_map_truncate(added, 0);
}
