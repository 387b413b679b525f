/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Trees of the state, by tsearch(3). A file's map has a lock of its own because every map has.
 */
#include "fs/state_tree.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "fs/subpool.h"

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

void *state_tree_find(void *tree, uint64_t key)
{
	void **node = tfind(&key, &tree, compare_u64);

	return node ? *node : NULL;
}

static void free_file(void *data)
{
	struct state_file *file = data;

	region_map_deinit(&file->reserved);
	rwsem_deinit(&file->lock);
	free(file);
}

struct state_file *state_tree_get_file(struct state *state, uint64_t ino)
{
	struct state_file *file = state_tree_find(state->files, ino);

	if (file)
		return file;
	file = aligned_alloc(_Alignof(struct state_file), sizeof(*file));
	if (!file)
		return NULL;
	memset(file, 0, sizeof(*file));
	file->ino = ino;
	rwsem_init(&file->lock, LOCK_RANK_REGION_MAP);
	region_map_init(&file->reserved, &file->lock);
	if (!tsearch(file, &state->files, compare_u64)) {
		free_file(file);
		return NULL;
	}
	return file;
}

void state_tree_drop_file(struct state *state, uint64_t ino)
{
	struct state_file *file = state_tree_find(state->files, ino);

	if (!file)
		return;
	tdelete(&ino, &state->files, compare_u64);
	free_file(file);
}

int state_tree_add_mapping(struct state *state, const struct state_mapping *mapping)
{
	struct state_mapping_node *node = state_tree_find(state->mappings, mapping->id);

	if (node) {
		node->mapping = *mapping;
		return 0;
	}
	node = malloc(sizeof(*node));
	if (!node)
		return -ENOMEM;
	node->id = mapping->id;
	node->mapping = *mapping;
	if (tsearch(node, &state->mappings, compare_u64))
		return 0;
	free(node);
	return -ENOMEM;
}

void state_tree_drop_mapping(struct state *state, uint64_t id)
{
	struct state_mapping_node *node = state_tree_find(state->mappings, id);

	if (!node)
		return;
	tdelete(&id, &state->mappings, compare_u64);
	free(node);
}

struct state_quota *state_tree_find_quota(const struct state *state, uint64_t ino)
{
	for (size_t i = 0; i < state->nr_quotas; i++) {
		if (state->quotas[i].ino == ino)
			return &state->quotas[i];
	}
	return NULL;
}

int state_tree_set_quota(struct state *state, const struct state_quota *quota)
{
	struct state_quota *known = state_tree_find_quota(state, quota->ino), *grown;
	bool none = quota->max == SUBPOOL_NO_LIMIT && quota->min == 0;

	if (known && none)
		*known = state->quotas[--state->nr_quotas];
	else if (known)
		*known = *quota;
	if (known || none)
		return 0;
	grown = realloc(state->quotas, (state->nr_quotas + 1) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	state->quotas = grown;
	grown[state->nr_quotas++] = *quota;
	return 0;
}

void state_tree_free(struct state *state)
{
	tdestroy(state->files, free_file);
	tdestroy(state->mappings, free);
	state->files = state->mappings = NULL;
	free(state->quotas);
	state->quotas = NULL;
	state->nr_quotas = 0;
}

struct ranges {
	struct state_range *range;
	int64_t nr, room;
	bool failed;
};

static void add_range(struct ranges *ranges, const struct state_range *range)
{
	struct state_range *grown;

	if (ranges->nr == ranges->room) {
		ranges->room = 2 * ranges->room + 16;
		grown = realloc(ranges->range, (size_t)ranges->room * sizeof(*grown));
		if (!grown) {
			ranges->failed = true;
			ranges->room = ranges->nr;
			return;
		}
		ranges->range = grown;
	}
	ranges->range[ranges->nr++] = *range;
}

static void visit_file(const void *node, VISIT visit, void *data)
{
	struct state_file *file = *(struct state_file *const *)node;
	struct region region = {0, 0};
	bool more;

	if (visit != postorder && visit != leaf)
		return;
	for (;;) {
		rwsem_read_lock(&file->lock);
		more = region_map_next_locked(&file->reserved, region.to, &region);
		rwsem_read_unlock(&file->lock);
		if (!more)
			break;
		add_range(data, &(struct state_range){file->ino, region.from, region.to});
	}
}

int64_t state_tree_ranges(struct state *state, struct state_range **ret_ranges)
{
	struct ranges ranges = {0};

	mutex_assert_held(&state->lock);
	twalk_r(state->files, visit_file, &ranges);
	if (ranges.failed) {
		free(ranges.range);
		return -ENOMEM;
	}
	*ret_ranges = ranges.range;
	return ranges.nr;
}

struct mappings {
	struct state_mapping *mapping; /* NULL: only counted */
	int64_t nr;
};

static void visit_mapping(const void *node, VISIT visit, void *data)
{
	const struct state_mapping_node *mapping =
		*(const struct state_mapping_node *const *)node;
	struct mappings *mappings = data;

	if (visit != postorder && visit != leaf)
		return;
	if (mappings->mapping)
		mappings->mapping[mappings->nr] = mapping->mapping;
	mappings->nr++;
}

int64_t state_tree_mappings(struct state *state, struct state_mapping **ret_mappings)
{
	struct mappings mappings = {0};

	mutex_assert_held(&state->lock);
	twalk_r(state->mappings, visit_mapping, &mappings);
	mappings.mapping = calloc((size_t)mappings.nr + 1, sizeof(*mappings.mapping));
	if (!mappings.mapping)
		return -ENOMEM;
	mappings.nr = 0;
	twalk_r(state->mappings, visit_mapping, &mappings);
	*ret_mappings = mappings.mapping;
	return mappings.nr;
}
