/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Questions to the maps of a page space. Nothing is changed here. */
#include "fs/page_maps.h"

#include <errno.h>
#include <stdlib.h>

/* The node that page @idx is instantiated on, or -1. */
int page_inst_node_locked(const struct page_space *space, int64_t idx)
{
	for (int node = 0; node < space->nr_nodes; node++) {
		if (region_map_contains_locked(&space->inst[node], idx))
			return node;
	}
	return -1;
}

/* The first instantiated page in [from, to), or -1. */
int64_t page_next_inst_locked(const struct page_space *space, int64_t from, int64_t to)
{
	int64_t first = to;
	struct region region;

	for (int node = 0; node < space->nr_nodes; node++) {
		if (region_map_next_locked(&space->inst[node], from, &region) &&
		    region.from < first)
			first = region.from > from ? region.from : from;
	}
	return first < to ? first : -1;
}

int64_t page_next_instantiated(struct page_space *space, int64_t from, int64_t to)
{
	int64_t idx;

	rwsem_read_lock(space->lock);
	idx = page_next_inst_locked(space, from, to);
	rwsem_read_unlock(space->lock);
	return idx;
}

/* The first range in [from, to) that is reserved and not instantiated. */
bool page_next_reserved_locked(const struct page_space *space, int64_t from, int64_t to,
			       struct region *ret_region)
{
	struct region resv, inst;

restart:
	if (from >= to || !region_map_next_locked(&space->resv, from, &resv) || resv.from >= to)
		return false;
	if (resv.from < from)
		resv.from = from;
	if (resv.to > to)
		resv.to = to;
	for (int node = 0; node < space->nr_nodes; node++) {
		if (!region_map_next_locked(&space->inst[node], resv.from, &inst))
			continue;
		if (inst.from <= resv.from) {
			from = inst.to;
			goto restart;
		}
		if (inst.from < resv.to)
			resv.to = inst.from;
	}
	*ret_region = resv;
	return true;
}

/* The first range in [from, to) that is not in the resv map. */
bool page_next_gap_locked(const struct page_space *space, int64_t from, int64_t to,
			  struct region *ret_gap)
{
	struct region region;

	while (from < to) {
		if (!region_map_next_locked(&space->resv, from, &region) || region.from >= to) {
			*ret_gap = (struct region){from, to};
			return true;
		}
		if (region.from > from) {
			*ret_gap = (struct region){from, region.from};
			return true;
		}
		from = region.to;
	}
	return false;
}

size_t page_count_gaps_locked(const struct page_space *space, int64_t from, int64_t to)
{
	struct region gap = {from, from};
	size_t nr = 0;

	while (page_next_gap_locked(space, gap.to, to, &gap))
		nr++;
	return nr;
}

int page_node(struct page_space *space, int64_t idx)
{
	int node;

	rwsem_read_lock(space->lock);
	node = page_inst_node_locked(space, idx);
	rwsem_read_unlock(space->lock);
	return node;
}

bool page_is_instantiated(struct page_space *space, int64_t idx)
{
	return page_node(space, idx) >= 0;
}

void page_space_read(struct page_space *space, struct page_space_counts *ret_counts)
{
	*ret_counts = (struct page_space_counts){0};
	rwsem_read_lock(space->lock);
	for (int node = 0; node < space->nr_nodes; node++) {
		ret_counts->node[node] =
			region_map_count_locked(&space->inst[node], 0, REGION_END);
		ret_counts->instantiated += ret_counts->node[node];
	}
	ret_counts->resv =
		region_map_count_locked(&space->resv, 0, REGION_END) - ret_counts->instantiated;
	ret_counts->populating = space->nr_populating;
	rwsem_read_unlock(space->lock);
}

void page_space_count(struct page_space *space, int64_t from, int64_t to, int64_t *ret_resv,
		      int64_t *ret_instantiated)
{
	int64_t nr = 0;

	rwsem_read_lock(space->lock);
	for (int node = 0; node < space->nr_nodes; node++)
		nr += region_map_count_locked(&space->inst[node], from, to);
	*ret_resv = region_map_count_locked(&space->resv, from, to) - nr;
	*ret_instantiated = nr;
	rwsem_read_unlock(space->lock);
}

int64_t page_next_hole(struct page_space *space, int64_t from)
{
	struct region region;
	bool moved;

	rwsem_read_lock(space->lock);
	do {
		moved = false;
		for (int node = 0; node < space->nr_nodes; node++) {
			if (region_map_next_locked(&space->inst[node], from, &region) &&
			    region.from <= from) {
				from = region.to;
				moved = true;
			}
		}
	} while (moved);
	rwsem_read_unlock(space->lock);
	return from;
}

int64_t page_next_reserved(struct page_space *space, int64_t from, int64_t to)
{
	struct region region;
	bool found;

	rwsem_read_lock(space->lock);
	found = page_next_reserved_locked(space, from, to, &region);
	rwsem_read_unlock(space->lock);
	return found ? region.from : -1;
}

/* The range that begins at @from, or the first one behind it. */
static bool next_range_locked(const struct page_space *space, int64_t from,
			      struct page_range *ret_range)
{
	struct page_range range = {.from = REGION_END, .to = REGION_END, .node = -1};
	struct region region;

	if (page_next_reserved_locked(space, from, REGION_END, &region)) {
		range.from = region.from;
		range.to = region.to;
	}
	for (int node = 0; node < space->nr_nodes; node++) {
		if (!region_map_next_locked(&space->inst[node], from, &region))
			continue;
		if (region.from < from)
			region.from = from;
		if (region.from < range.from)
			range = (struct page_range){region.from, region.to, node};
	}
	*ret_range = range;
	return range.from < REGION_END;
}

/* As many as there is room for. Returns how many there are. */
static int64_t ranges_locked(const struct page_space *space, struct page_range *ranges,
			     int64_t room)
{
	struct page_range range = {0};
	int64_t nr = 0;

	while (next_range_locked(space, range.to, &range)) {
		if (nr < room)
			ranges[nr] = range;
		nr++;
	}
	return nr;
}

int64_t page_space_ranges(struct page_space *space, struct page_range **ret_ranges)
{
	struct page_range *ranges = NULL;
	int64_t nr = 0, room;

	do {
		room = nr + nr / 4 + 1;
		free(ranges);
		ranges = malloc((size_t)room * sizeof(*ranges));
		if (!ranges)
			return -ENOMEM;
		rwsem_read_lock(space->lock);
		nr = ranges_locked(space, ranges, room);
		rwsem_read_unlock(space->lock);
	} while (nr > room);
	*ret_ranges = ranges;
	return nr;
}
