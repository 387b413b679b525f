/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Region maps. See region_tree.h for the tree.
 *
 * A change that stays within one node, as nearly all do, edits its array and adds the
 * difference to the sums on the way from the root. All others take the tree apart and put it
 * together again.
 *
 * Invariants, all guarded by map->lock: regions are disjoint and do not touch; no node is
 * empty; two neighbouring nodes hold more than REGION_NODE_MERGE regions together; a tree holds
 * at least two regions, a single one is in map->only.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "fs/region_map.h"
#include "fs/region_tree.h"

static struct region_node *node_new(void)
{
	lock_assert_may_block();
	if (region_map_fail_alloc && region_map_fail_alloc())
		return NULL;
	return malloc(sizeof(struct region_node));
}

static struct region_node *change_take_spare(struct region_change *change)
{
	struct region_node *node = change->spare;

	assert(node);
	change->spare = NULL;
	node->left = node->right = NULL;
	node->nr = 0;
	node->own_pages = 0;
	return node;
}

/* Leave @tree to region_change_free(). */
static void change_bury(struct region_change *change, struct region_node *tree)
{
	if (!tree)
		return;
	tree->next_dead = change->dead;
	change->dead = tree;
}

static void change_bury_node(struct region_change *change, struct region_node *node)
{
	node->left = node->right = NULL;
	change_bury(change, node);
}

/* Merge the node that begins at @idx with the one after it, which it has room for. */
static void map_merge_next(struct region_map *map, struct region_change *change, int64_t idx)
{
	struct region_node *left, *right, *node, *next;

	tree_split(map->root, idx, &left, &right);
	node = tree_pop_first(&right);
	next = tree_pop_first(&right);
	node_splice(node, node->nr, node->nr, next->regions, next->nr);
	change_bury_node(change, next);
	map->root = tree_join(left, node, right);
}

/* Merge the node at @place with its neighbours as long as they are small enough. */
static void map_settle_place(struct region_map *map, struct region_change *change,
			     struct place *place)
{
	while (place->node && place->nr <= REGION_NODE_MERGE) {
		struct region_node *first = place_prev(place);

		if (!first || first->nr + place->nr > REGION_NODE_MERGE)
			first = place->node;
		if (first == place->node &&
		    (!place->next || place->next->nr + place->nr > REGION_NODE_MERGE))
			return;
		map_merge_next(map, change, node_key(first));
		place_find(map, node_key(first), place);
	}
}

/* The same with the node where @idx belongs. */
static void map_settle(struct region_map *map, struct region_change *change, int64_t idx)
{
	struct place place;

	place_find(map, idx, &place);
	map_settle_place(map, change, &place);
}

/*
 * What takes the place of the regions from @first to @last when change's range is added or
 * removed. Adding: those that overlap or touch it (NULL: none) and the range become one.
 * Removing: what they have outside the range stays. Returns the number of regions in
 * @ret_regions, at most two.
 */
static size_t change_result(const struct region_change *change, bool add,
			    const struct region *first, const struct region *last,
			    struct region ret_regions[2])
{
	int64_t from = change->from, to = change->to;
	size_t nr = 0;

	if (add) {
		if (first && first->from < from)
			from = first->from;
		if (first && last->to > to)
			to = last->to;
		ret_regions[nr++] = (struct region){from, to};
		return nr;
	}
	if (first && first->from < from)
		ret_regions[nr++] = (struct region){first->from, from};
	if (first && last->to > to)
		ret_regions[nr++] = (struct region){to, last->to};
	return nr;
}

/* Add the differences to the sums of the node at @place and of all above it. */
static void place_add(struct place *place, int64_t nr_regions, int64_t pages)
{
	place->node->nr += nr_regions;
	place->node->own_pages += pages;
	for (size_t i = 0; i < place->depth; i++) {
		place->path[i]->nr_regions += nr_regions;
		place->path[i]->pages += pages;
	}
}

/*
 * Put the spare node in: the array at @place is full and regions [*begin, *end) of it are to be
 * replaced by one more. Sets all three to where there is room. Returns the other half's first
 * index.
 */
static int64_t map_grow(struct region_map *map, struct region_change *change,
			struct place *place, size_t *begin, size_t *end)
{
	struct region_node *spare = change_take_spare(change), *node = place->node;
	struct region_node *left, *right;
	size_t keep = 0;

	if (node) /* Adding in ascending order leaves full nodes behind. */
		keep = *begin == place->nr ? REGION_NODE_CAPACITY - 1
					   : REGION_NODE_CAPACITY / 2;
	node_splice(spare, 0, 0, &place->regions[keep], place->nr - keep);
	if (node)
		place_add(place, -(int64_t)spare->nr, -spare->own_pages);
	tree_split(map->root, node_key(spare), &left, &right);
	map->root = tree_join(left, spare, right);
	if (node && *begin < keep) {
		place_find(map, node_key(node), place);
		return node_key(spare);
	}
	*begin -= keep;
	*end -= keep;
	place_find(map, node_key(spare), place);
	return node ? node_key(node) : node_key(spare);
}

/* Take the node at @place out of the tree. */
static void map_remove_node(struct region_map *map, struct region_change *change,
			    const struct place *place)
{
	int64_t idx = node_key(place->node);
	struct region_node *left, *right;

	tree_split(map->root, idx, &left, &right);
	change_bury_node(change, tree_pop_first(&right));
	map->root = tree_concat(left, right);
	map_settle(map, change, idx);
}

/* map_edit() where the regions [begin, end) that it replaces, if any, are in one array. */
static int64_t map_edit_node(struct region_map *map, struct region_change *change, bool add,
			     struct place *place, size_t begin, size_t end)
{
	const struct region *first = begin < end ? &place->regions[begin] : NULL;
	const struct region *last = begin < end ? &place->regions[end - 1] : NULL;
	size_t nr_old = end - begin, nr_new, nr;
	int64_t pages, other = 0;
	struct region new[2];
	bool grow;

	nr_new = change_result(change, add, first, last, new);
	nr = place->nr - nr_old + nr_new;
	map->nr_regions = map->nr_regions - nr_old + nr_new;
	if (!nr && place->node) {
		pages = place->node->own_pages;
		map_remove_node(map, change, place);
		return pages;
	}
	grow = nr > (place->node ? REGION_NODE_CAPACITY : 1);
	if (grow && !change->spare) {
		map->nr_regions = map->nr_regions - nr_new + nr_old;
		return -ENOMEM;
	}
	if (grow)
		other = map_grow(map, change, place, &begin, &end);
	pages = splice(place->regions, place->nr, begin, end, new, nr_new);
	if (place->node)
		place_add(place, (int64_t)nr_new - (int64_t)nr_old, pages);
	place->nr = place->nr - nr_old + nr_new;
	if (grow || nr_new < nr_old)
		map_settle_place(map, change, place);
	if (grow)
		map_settle(map, change, other);
	return add ? pages : -pages;
}

/*
 * map_edit() where the regions that it replaces begin in the node at @place and end in a later
 * one, whose first region begins before @hi. All nodes in between are cut out as one tree.
 */
static int64_t map_edit_nodes(struct region_map *map, struct region_change *change, bool add,
			      struct place *place, size_t begin, int64_t hi)
{
	struct region_node *left, *middle, *right, *first = place->node, *last;
	int64_t pages = map->root->pages, idx = node_key(first);
	struct region new[2];
	size_t end, nr_new;

	place_find(map, hi - 1, place);
	last = place->node;
	end = find_begin_from(last->regions, 0, last->nr, hi);
	nr_new = change_result(change, add, &first->regions[begin], &last->regions[end - 1],
			       new);

	tree_split(map->root, idx, &left, &right);
	first = tree_pop_first(&right);
	tree_split(right, node_key(last), &middle, &right);
	last = tree_pop_first(&right);
	change_bury(change, middle);

	/* Each loses at least one region and so has room for one. */
	node_splice(first, begin, first->nr, new, nr_new ? 1 : 0);
	node_splice(last, 0, end, &new[1], nr_new == 2 ? 1 : 0);
	if (last->nr) {
		right = tree_join(NULL, last, right);
	} else {
		change_bury_node(change, last);
		last = NULL;
	}
	if (first->nr) {
		map->root = tree_join(left, first, right);
		idx = node_key(first);
	} else {
		map->root = tree_concat(left, right);
		change_bury_node(change, first);
	}
	pages = (map->root ? map->root->pages : 0) - pages;
	map->nr_regions = map->root ? map->root->nr_regions : 0;
	if (last)
		map_settle(map, change, node_key(last));
	map_settle(map, change, idx);
	return add ? pages : -pages;
}

/*
 * Add change's range, or remove it. Returns by how many pages, or -ENOMEM if a node is needed
 * and there is no spare one.
 */
static int64_t map_edit(struct region_map *map, struct region_change *change, bool add)
{
	/* To replace is what overlaps [lo, hi): adding takes what touches, too. */
	int64_t lo = add ? change->from - 1 : change->from;
	int64_t hi = add && change->to < REGION_END ? change->to + 1 : change->to;
	struct place place;
	size_t begin, end;
	int64_t pages;

	place_find(map, lo, &place);
	begin = find_end_after(place.regions, place.nr, lo);
	if (begin == place.nr && place.next && node_key(place.next) < hi) {
		place_find(map, node_key(place.next), &place);
		begin = 0;
	}
	end = find_begin_from(place.regions, begin, place.nr, hi);
	if (begin == end && !add)
		return 0;
	if (end == place.nr && place.next && node_key(place.next) < hi)
		pages = map_edit_nodes(map, change, add, &place, begin, hi);
	else
		pages = map_edit_node(map, change, add, &place, begin, end);
	if (map->root && map->nr_regions == 1) {
		map->only = map->root->regions[0];
		change_bury_node(change, map->root);
		map->root = NULL;
	}
	return pages;
}

void region_map_init(struct region_map *map, struct rwsem *lock)
{
	*map = (struct region_map){.lock = lock};
}

void region_map_deinit(struct region_map *map)
{
	if (!map)
		return;
	tree_free(map->root);
	map->root = NULL;
	map->nr_regions = 0;
}

int region_change_init(struct region_change *change, int64_t from, int64_t to)
{
	struct region_node *spare;

	if (from < 0 || from >= to)
		return -EINVAL;
	spare = node_new();
	if (!spare)
		return -ENOMEM;
	*change = (struct region_change){.from = from, .to = to, .spare = spare};
	return 0;
}

void region_change_free(struct region_change *change)
{
	struct region_node *dead;

	if (!change)
		return;
	if (change->spare || change->dead)
		lock_assert_may_block();
	free(change->spare);
	change->spare = NULL;
	while ((dead = change->dead)) {
		change->dead = dead->next_dead;
		tree_free(dead);
	}
}

int64_t region_map_prepare(struct region_map *map, int64_t from, int64_t to,
			   struct region_change *ret_change)
{
	int64_t pages;
	int r;

	r = region_change_init(ret_change, from, to);
	if (r < 0)
		return r;
	rwsem_read_lock(map->lock);
	pages = region_map_count_locked(map, from, to);
	rwsem_read_unlock(map->lock);
	return to - from - pages;
}

int64_t region_map_commit_locked(struct region_map *map, struct region_change *change)
{
	int64_t pages;

	rwsem_assert_write_held(map->lock);
	pages = map_edit(map, change, true);
	assert(pages >= 0);
	return pages;
}

int64_t region_map_commit(struct region_map *map, struct region_change *change)
{
	int64_t pages;

	rwsem_write_lock(map->lock);
	pages = region_map_commit_locked(map, change);
	rwsem_write_unlock(map->lock);
	region_change_free(change);
	return pages;
}

void region_map_abort(struct region_map *map, struct region_change *change)
{
	region_change_free(change);
}

int64_t region_map_delete_locked(struct region_map *map, struct region_change *change)
{
	rwsem_assert_write_held(map->lock);
	return map_edit(map, change, false);
}

int64_t region_map_delete(struct region_map *map, int64_t from, int64_t to)
{
	struct region_change change = {.from = from, .to = to};
	int64_t pages;

	if (from < 0 || from >= to)
		return -EINVAL;
	change.spare = node_new(); /* without it only a hole can fail */
	rwsem_write_lock(map->lock);
	pages = region_map_delete_locked(map, &change);
	rwsem_write_unlock(map->lock);
	region_change_free(&change);
	return pages;
}

int64_t region_map_truncate(struct region_map *map, int64_t from)
{
	struct region_change change = {.from = from < 0 ? 0 : from, .to = REGION_END};
	int64_t pages;

	/* It makes no hole, and so needs no node. */
	rwsem_write_lock(map->lock);
	pages = region_map_delete_locked(map, &change);
	rwsem_write_unlock(map->lock);
	region_change_free(&change);
	return pages;
}

int64_t region_map_count_locked(const struct region_map *map, int64_t from, int64_t to)
{
	struct view view;

	rwsem_assert_held(map->lock);
	if (from >= to)
		return 0;
	view_find(map, from, &view);
	if (to <= view.next_from) {
		size_t begin = find_end_after(view.regions, view.nr, from);

		return count_pages(view.regions, begin, view.nr, from, to);
	}
	return tree_count_below(map->root, to) - tree_count_below(map->root, from);
}

int64_t region_map_count(struct region_map *map, int64_t from, int64_t to)
{
	int64_t pages;

	rwsem_read_lock(map->lock);
	pages = region_map_count_locked(map, from, to);
	rwsem_read_unlock(map->lock);
	return pages;
}

bool region_map_contains_locked(const struct region_map *map, int64_t idx)
{
	struct view view;
	size_t i;

	rwsem_assert_held(map->lock);
	view_find(map, idx, &view);
	i = find_end_after(view.regions, view.nr, idx);
	return i < view.nr && view.regions[i].from <= idx;
}

bool region_map_next_locked(const struct region_map *map, int64_t from,
			    struct region *ret_region)
{
	struct view view;
	size_t i;

	rwsem_assert_held(map->lock);
	view_find(map, from, &view);
	i = find_end_after(view.regions, view.nr, from);
	if (i == view.nr && view.next_from < REGION_END) {
		view_find(map, view.next_from, &view);
		i = 0;
	}
	if (i == view.nr)
		return false;
	*ret_region = view.regions[i];
	return true;
}

size_t region_map_bytes_per_region(void)
{
	/* glibc puts 8 bytes in front and rounds up to 16. */
	size_t node = (sizeof(struct region_node) + 8 + 15) / 16 * 16;

	/* Two neighbours hold at least this many together. */
	return (2 * node + REGION_NODE_MERGE) / (REGION_NODE_MERGE + 1);
}

bool region_map_check_locked(const struct region_map *map)
{
	struct check check = {.ok = true};

	if (!map->root)
		return map->nr_regions == 0 || (map->nr_regions == 1 && map->only.from >= 0 &&
						map->only.from < map->only.to);
	check_tree(map->root, &check);
	return check.ok && map->nr_regions >= 2 && map->nr_regions == map->root->nr_regions;
}
