/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The tree inside a region map and the search in it, for region_map.c only: an AVL tree whose
 * nodes hold up to REGION_NODE_CAPACITY regions each, in order (a T-tree). The search goes by
 * the first region of each node, so that it reads one cache line a level, and a tree over
 * 1,000,000 regions has some 50,000 of those lines instead of 1,000,000; unlike a B+tree one
 * new region never needs more than one new node.
 *
 * Changes of the tree's shape are made of tree_split() and tree_join(), which are O(log n)
 * (Blelloch, Ferizovic, Sun: "Just Join for Parallel Ordered Sets", SPAA 2016).
 *
 * Invariants: sums and heights are right, subtrees differ by one level at most. The owner of a
 * tree guards it; the counts and the check only read it.
 */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fs/region_map.h"

#ifndef REGION_NODE_CAPACITY    /* for experiments: 12 to 124 differ little */
#define REGION_NODE_CAPACITY 28 /* makes 496 bytes, with malloc's own share 512 */
#endif
#define REGION_NODE_MERGE (REGION_NODE_CAPACITY * 3 / 4)
#define REGION_MAX_HEIGHT 64 /* no such AVL tree fits in memory */

/* What a search reads, from left to regions[0].from, lies together. */
struct region_node {
	size_t nr_regions; /* in the subtree */
	uint32_t nr;       /* used in regions[] */
	uint32_t height;   /* of the subtree, 1 for a leaf */
	struct region_node *left, *right;
	union {
		int64_t pages;                 /* in the subtree */
		struct region_node *next_dead; /* of a root in region_change.dead */
	};
	struct region regions[REGION_NODE_CAPACITY];
	int64_t own_pages; /* in regions[] */
};

static inline int64_t node_key(const struct region_node *node)
{
	return node->regions[0].from;
}

/*
 * Fetch all of regions[] if the search may end here, so that looking into it waits for memory
 * once. Nine in ten end in the lowest three levels.
 */
static inline void node_prefetch(const struct region_node *node)
{
	const char *bytes = (const char *)node->regions;

	if (node->height > 3)
		return;
	for (size_t i = 0; i < sizeof(node->regions); i += 64)
		__builtin_prefetch(bytes + i);
}

static inline uint32_t tree_height(const struct region_node *tree)
{
	return tree ? tree->height : 0;
}

static inline void node_update(struct region_node *node)
{
	uint32_t left = tree_height(node->left), right = tree_height(node->right);

	node->height = (left > right ? left : right) + 1;
	node->pages = node->own_pages;
	node->nr_regions = node->nr;
	if (node->left) {
		node->pages += node->left->pages;
		node->nr_regions += node->left->nr_regions;
	}
	if (node->right) {
		node->pages += node->right->pages;
		node->nr_regions += node->right->nr_regions;
	}
}

static inline struct region_node *tree_rotate_right(struct region_node *node)
{
	struct region_node *top = node->left;

	node->left = top->right;
	top->right = node;
	node_update(node);
	node_update(top);
	return top;
}

static inline struct region_node *tree_rotate_left(struct region_node *node)
{
	struct region_node *top = node->right;

	node->right = top->left;
	top->left = node;
	node_update(node);
	node_update(top);
	return top;
}

/* Update @node, whose subtrees differ by two levels at most. Returns the new root. */
static inline struct region_node *tree_balance(struct region_node *node)
{
	uint32_t left = tree_height(node->left), right = tree_height(node->right);

	if (left > right + 1) {
		if (tree_height(node->left->left) < tree_height(node->left->right))
			node->left = tree_rotate_left(node->left);
		return tree_rotate_right(node);
	}
	if (right > left + 1) {
		if (tree_height(node->right->right) < tree_height(node->right->left))
			node->right = tree_rotate_right(node->right);
		return tree_rotate_left(node);
	}
	node_update(node);
	return node;
}

/* The tree of all of @left, then @node alone, then all of @right. */
static inline struct region_node *tree_join(struct region_node *left, struct region_node *node,
					    struct region_node *right)
{
	if (tree_height(left) > tree_height(right) + 1) {
		assert(left);
		left->right = tree_join(left->right, node, right);
		return tree_balance(left);
	}
	if (tree_height(right) > tree_height(left) + 1) {
		assert(right);
		right->left = tree_join(left, node, right->left);
		return tree_balance(right);
	}
	node->left = left;
	node->right = right;
	node_update(node);
	return node;
}

/* Take @tree apart into the nodes that begin before @idx and the others. */
static inline void tree_split(struct region_node *tree, int64_t idx,
			      struct region_node **ret_left, struct region_node **ret_right)
{
	struct region_node *middle;

	if (!tree) {
		*ret_left = *ret_right = NULL;
	} else if (node_key(tree) < idx) {
		tree_split(tree->right, idx, &middle, ret_right);
		*ret_left = tree_join(tree->left, tree, middle);
	} else {
		tree_split(tree->left, idx, ret_left, &middle);
		*ret_right = tree_join(middle, tree, tree->right);
	}
}

/* Take the first node out of @tree, which is not empty. */
static inline struct region_node *tree_pop_first(struct region_node **tree)
{
	struct region_node *node = *tree, *first;

	assert(node);
	if (!node->left) {
		*tree = node->right;
		return node;
	}
	first = tree_pop_first(&node->left);
	*tree = tree_balance(node);
	return first;
}

/* As tree_join() with no node in between. */
static inline struct region_node *tree_concat(struct region_node *left,
					      struct region_node *right)
{
	struct region_node *first;

	if (!right)
		return left;
	first = tree_pop_first(&right);
	return tree_join(left, first, right);
}

static inline void tree_free(struct region_node *tree)
{
	while (tree) {
		struct region_node *right = tree->right;

		tree_free(tree->left);
		free(tree);
		tree = right;
	}
}

/* The first of @regions that ends after @idx, @nr if none does. */
static inline size_t find_end_after(const struct region *regions, size_t nr, int64_t idx)
{
	size_t base = 0;

	while (nr) {
		size_t half = nr / 2;

		if (regions[base + half].to <= idx) {
			base += half + 1;
			nr -= half + 1;
		} else {
			nr = half;
		}
	}
	return base;
}

/* The first of @regions, counted from @base, that begins at @idx or later, @nr if none does. */
static inline size_t find_begin_from(const struct region *regions, size_t base, size_t nr,
				     int64_t idx)
{
	while (base < nr && regions[base].from < idx)
		base++;
	return base;
}

static inline int64_t sum_pages(const struct region *regions, size_t begin, size_t end)
{
	int64_t pages = 0;

	for (size_t i = begin; i < end; i++)
		pages += regions[i].to - regions[i].from;
	return pages;
}

/* Put @nr_new regions in the place of [begin, end). Returns how many pages that adds. */
static inline int64_t splice(struct region *regions, size_t nr, size_t begin, size_t end,
			     const struct region *new, size_t nr_new)
{
	int64_t pages = sum_pages(new, 0, nr_new) - sum_pages(regions, begin, end);

	memmove(&regions[begin + nr_new], &regions[end], (nr - end) * sizeof(*regions));
	memcpy(&regions[begin], new, nr_new * sizeof(*regions));
	return pages;
}

/* splice() in a node that is in no tree. */
static inline void node_splice(struct region_node *node, size_t begin, size_t end,
			       const struct region *new, size_t nr_new)
{
	node->own_pages += splice(node->regions, node->nr, begin, end, new, nr_new);
	node->nr = node->nr - (end - begin) + nr_new;
}

/* The number of pages of [from, to) that are in @regions, those from @begin on. */
static inline int64_t count_pages(const struct region *regions, size_t begin, size_t nr,
				  int64_t from, int64_t to)
{
	int64_t pages = 0;

	for (size_t i = begin; i < nr && regions[i].from < to; i++) {
		int64_t first = regions[i].from > from ? regions[i].from : from;
		int64_t end = regions[i].to < to ? regions[i].to : to;

		pages += end > first ? end - first : 0;
	}
	return pages;
}

/* The number of pages in the map's tree that are before @idx. */
static inline int64_t tree_count_below(const struct region_node *node, int64_t idx)
{
	const struct region_node *found = NULL;
	int64_t pages = 0;

	while (node) {
		if (node_key(node) <= idx) {
			/* All of it but its right subtree, which is looked at next. */
			pages += node->pages - (node->right ? node->right->pages : 0);
			found = node;
			node = node->right;
		} else {
			node = node->left;
		}
	}
	if (found) {
		size_t begin = find_end_after(found->regions, found->nr, idx);

		pages -= count_pages(found->regions, begin, found->nr, idx, REGION_END);
	}
	return pages;
}

/* Where an index belongs: the array of regions and the way to it. */
struct place {
	struct region_node *node; /* NULL: the array is map->only */
	struct region *regions;
	size_t nr;
	struct region_node *next; /* the node after, or NULL */
	struct region_node *turn; /* the last node above that we went right at, or NULL */
	size_t depth;             /* of path[], node included */
	struct region_node *path[REGION_MAX_HEIGHT];
};

/* Find the last node that begins at @idx or before it; the first node if there is none. */
static inline void place_find(struct region_map *map, int64_t idx, struct place *place)
{
	struct region_node *node = map->root;
	size_t depth = 0;

	place->node = place->turn = place->next = NULL;
	place->regions = &map->only;
	place->nr = map->nr_regions;
	place->depth = 0;
	while (node) {
		assert(depth < REGION_MAX_HEIGHT);
		place->path[depth++] = node;
		if (node_key(node) <= idx) {
			place->turn = place->node;
			place->node = node;
			place->depth = depth;
			node_prefetch(node);
			node = node->right;
		} else {
			place->next = node;
			node = node->left;
		}
	}
	if (place->node) {
		place->regions = place->node->regions;
		place->nr = place->node->nr;
	} else if (place->next) {
		place_find(map, node_key(place->next), place);
	}
}

/* The node before @place, or NULL. */
static inline struct region_node *place_prev(const struct place *place)
{
	struct region_node *prev = place->node->left;

	if (!prev)
		return place->turn;
	while (prev->right)
		prev = prev->right;
	return prev;
}

/* What a reader finds: the array where an index belongs, and where the next one begins. */
struct view {
	const struct region *regions;
	size_t nr;
	int64_t next_from; /* REGION_END if it is the last */
};

static inline void view_find(const struct region_map *map, int64_t idx, struct view *ret_view)
{
	const struct region_node *node = map->root, *found = NULL;

	ret_view->next_from = REGION_END;
	while (node) {
		if (node_key(node) <= idx) {
			found = node;
			node_prefetch(node);
			node = node->right;
		} else {
			ret_view->next_from = node_key(node);
			node = node->left;
		}
	}
	ret_view->regions = found ? found->regions : &map->only;
	ret_view->nr = found ? found->nr : map->root ? 0 : map->nr_regions;
}

/* The node that the check came by last, and whether all was right up to there. */
struct check {
	const struct region_node *prev;
	bool ok;
};

static inline void check_tree(const struct region_node *node, struct check *check)
{
	const struct region_node *prev;
	struct region_node want;
	int64_t end;

	if (!node || !check->ok)
		return;
	check_tree(node->left, check);
	prev = check->prev;
	end = prev ? prev->regions[prev->nr - 1].to : -1;
	check->ok = check->ok && node->nr > 0 && node->nr <= REGION_NODE_CAPACITY &&
		    (!prev || prev->nr + node->nr > REGION_NODE_MERGE);
	for (size_t i = 0; check->ok && i < node->nr; i++) {
		check->ok = node->regions[i].from > end &&
			    node->regions[i].from < node->regions[i].to;
		end = node->regions[i].to;
	}
	check->prev = node;
	check_tree(node->right, check);
	want = *node;
	node_update(&want);
	if (want.pages != node->pages || want.nr_regions != node->nr_regions ||
	    want.height != node->height ||
	    tree_height(node->left) > tree_height(node->right) + 1 ||
	    tree_height(node->right) > tree_height(node->left) + 1 ||
	    node->own_pages != sum_pages(node->regions, 0, node->nr))
		check->ok = false;
}
