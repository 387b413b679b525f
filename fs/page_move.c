/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Moving pages from one page space to another: out of the one, then into the other, since the
 * two locks are of one rank, or the same. In between neither has them, but they stay charged.
 */
#include <errno.h>
#include <stdlib.h>

#include "fs/page.h"
#include "fs/page_change.h"
#include "fs/page_maps.h"
#include "fs/page_place.h"

struct moving {
	struct page_range *range;   /* in order */
	struct region_change *into; /* two for each: resv and inst */
	struct region_change *out;  /* one for resv and one for each node */
	int64_t nr, room;
};

static void moving_free(struct moving *moving, int nr_nodes)
{
	page_changes_free(moving->into, 2 * (size_t)moving->room);
	page_changes_free(moving->out, (size_t)nr_nodes + 1);
	free(moving->range);
}

static int moving_init(struct moving *moving, int nr_nodes, int64_t room)
{
	*moving = (struct moving){.room = room};
	moving->range = calloc((size_t)room, sizeof(*moving->range));
	moving->into = page_changes_new(2 * (size_t)room);
	moving->out = page_changes_new((size_t)nr_nodes + 1);
	if (moving->range && moving->into && moving->out)
		return 0;
	moving_free(moving, nr_nodes);
	return -ENOMEM;
}

/* The ranges of [begin, end), as many as there is room for; their number. */
static int64_t read_locked(const struct page_space *space, int64_t begin, int64_t end,
			   struct moving *moving)
{
	struct page_range range = {.to = begin};
	int64_t nr = 0;

	while (page_next_range_locked(space, range.to, &range) && range.from < end) {
		if (range.from < begin)
			range.from = begin;
		if (range.to > end)
			range.to = end;
		if (nr < moving->room)
			moving->range[nr] = range;
		nr++;
	}
	return nr;
}

static void take_out_locked(struct page_space *space, int64_t begin, int64_t end,
			    struct moving *moving)
{
	for (int node = 0; node < space->nr_nodes; node++) {
		page_change_set(&moving->out[node], begin, end);
		region_map_delete_locked(&space->inst[node], &moving->out[node]);
	}
	page_change_set(&moving->out[space->nr_nodes], begin, end);
	region_map_delete_locked(&space->resv, &moving->out[space->nr_nodes]);
	page_unbind_excess_locked(space);
}

static void put_in_locked(struct page_space *space, struct moving *moving)
{
	for (int64_t i = 0; i < moving->nr; i++) {
		const struct page_range *range = &moving->range[i];
		struct region_change *change = &moving->into[2 * i];

		page_change_set(&change[0], range->from, range->to);
		region_map_commit_locked(&space->resv, &change[0]);
		if (range->node < 0)
			continue;
		page_change_set(&change[1], range->from, range->to);
		region_map_commit_locked(&space->inst[range->node], &change[1]);
	}
}

int page_move(struct page_space *from, struct page_space *to, int64_t begin, int64_t end)
{
	struct moving moving;
	int64_t room = 1;
	int r;

	for (;;) {
		r = moving_init(&moving, from->nr_nodes, room);
		if (r < 0)
			return r;
		rwsem_write_lock(from->lock);
		moving.nr = read_locked(from, begin, end, &moving);
		if (moving.nr <= room)
			take_out_locked(from, begin, end, &moving);
		rwsem_write_unlock(from->lock);
		if (moving.nr <= room)
			break;
		room = moving.nr + moving.nr / 4;
		moving_free(&moving, from->nr_nodes);
	}
	rwsem_write_lock(to->lock);
	put_in_locked(to, &moving);
	rwsem_write_unlock(to->lock);
	moving_free(&moving, from->nr_nodes);
	return 0;
}
