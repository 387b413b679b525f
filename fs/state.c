/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * State: the records, and what they make of the state in memory, the same way when they are
 * written and when they are read again.
 */
#include "fs/state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/state_tree.h"

#define JOURNAL_NAME   "journal"
#define COMPACT_MIN    UINT64_C(65536) /* bytes */
#define COMPACT_FACTOR 4
#define NO_INO         UINT64_MAX

/* Never used for something else: a newer daemon reads an older one's. */
enum record_type {
	RECORD_OPTIONS = 1,
	RECORD_SETUP,
	RECORD_SIZE,
	RECORD_LOAN,
	RECORD_STEP,
	RECORD_READY,
	RECORD_RESERVE,
	RECORD_UNRESERVE,
	RECORD_FORGET,
	RECORD_MAP,
	RECORD_MOVE,
	RECORD_UNMAP,
	RECORD_QUOTA,
	NR_RECORD_TYPES,
};

/* A loan without its log, which is not the file's. */
struct loan_record {
	uint64_t page_size;
	int64_t overcommit;
	int64_t nr_nodes;
	int64_t node_pages[POOL_MAX_NODES];
};

/* ---- files ---- */

static bool is_range(const struct state_range *range)
{
	return range->from >= 0 && range->from < range->to;
}

static int apply_reserve(struct state *state, const void *payload, size_t length)
{
	const struct state_range *range = payload;
	struct region_change change;
	struct state_file *file;
	int64_t r;

	if (!is_range(range))
		return -EPROTO;
	file = state_tree_get_file(state, range->ino);
	if (!file)
		return -ENOMEM;
	r = region_map_prepare(&file->reserved, range->from, range->to, &change);
	if (r >= 0)
		region_map_commit(&file->reserved, &change);
	return (int)(r < 0 ? r : 0);
}

static int apply_unreserve(struct state *state, const void *payload, size_t length)
{
	const struct state_range *range = payload;
	struct state_file *file;
	int64_t r = 0;

	if (!is_range(range))
		return -EPROTO;
	file = state_tree_find(state->files, range->ino);
	if (file)
		r = region_map_delete(&file->reserved, range->from, range->to);
	if (file && region_map_count(&file->reserved, 0, REGION_END) == 0)
		state_tree_drop_file(state, range->ino);
	return (int)(r < 0 ? r : 0);
}

static int apply_forget(struct state *state, const void *payload, size_t length)
{
	state_tree_drop_file(state, *(const uint64_t *)payload);
	return 0;
}

/* ---- mappings ---- */

static int apply_map(struct state *state, const void *payload, size_t length)
{
	const struct state_mapping *mapping = payload;

	if (mapping->from < 0 || mapping->from >= mapping->to)
		return -EPROTO;
	return state_tree_add_mapping(state, mapping);
}

static int apply_move(struct state *state, const void *payload, size_t length)
{
	struct state_mapping_node *node =
		state_tree_find(state->mappings, *(const uint64_t *)payload);

	if (node)
		node->mapping.moved = 1;
	return 0;
}

static int apply_unmap(struct state *state, const void *payload, size_t length)
{
	state_tree_drop_mapping(state, *(const uint64_t *)payload);
	return 0;
}

/* ---- the mount ---- */

static int apply_quota(struct state *state, const void *payload, size_t length)
{
	return state_tree_set_quota(state, payload);
}

static int apply_options(struct state *state, const void *payload, size_t length)
{
	char *options = strndup(payload, length);

	if (!options)
		return -ENOMEM;
	free(state->options);
	state->options = options;
	return 0;
}

static int apply_setup(struct state *state, const void *payload, size_t length)
{
	const struct state_setup *setup = payload;

	if (setup->nr_nodes < 1 || setup->nr_nodes > POOL_MAX_NODES || setup->min < 0 ||
	    setup->page_size < 4096 || (setup->page_size & (setup->page_size - 1)))
		return -EPROTO;
	state->setup = *setup;
	state->has_setup = true;
	return 0;
}

static int apply_size(struct state *state, const void *payload, size_t length)
{
	memcpy(&state->size, payload, sizeof(state->size));
	state->has_size = true;
	return 0;
}

static int apply_loan(struct state *state, const void *payload, size_t length)
{
	const struct loan_record *record = payload;

	if (record->nr_nodes < 1 || record->nr_nodes > POOL_MAX_NODES)
		return -EPROTO;
	state->loan = (struct kernel_pool_loan){
		.page_size = record->page_size,
		.nr_nodes = (int)record->nr_nodes,
		.overcommit = record->overcommit,
	};
	memcpy(state->loan.node_pages, record->node_pages, sizeof(record->node_pages));
	state->has_loan = true;
	state->nr_steps = 0;
	return 0;
}

static int apply_step(struct state *state, const void *payload, size_t length)
{
	const struct kernel_pool_step *step = payload;

	if (step->node >= POOL_MAX_NODES || state->nr_steps == STATE_STEPS_MAX)
		return -EPROTO;
	state->steps[state->nr_steps++] = *step;
	return 0;
}

static int apply_ready(struct state *state, const void *payload, size_t length)
{
	state->ready = true;
	return 0;
}

static const struct {
	int (*apply)(struct state *state, const void *payload, size_t length);
	size_t length; /* 0: any */
} record_types[NR_RECORD_TYPES] = {
	[RECORD_OPTIONS] = {apply_options, 0},
	[RECORD_SETUP] = {apply_setup, sizeof(struct state_setup)},
	[RECORD_SIZE] = {apply_size, sizeof(struct state_size)},
	[RECORD_LOAN] = {apply_loan, sizeof(struct loan_record)},
	[RECORD_STEP] = {apply_step, sizeof(struct kernel_pool_step)},
	[RECORD_READY] = {apply_ready, 0},
	[RECORD_RESERVE] = {apply_reserve, sizeof(struct state_range)},
	[RECORD_UNRESERVE] = {apply_unreserve, sizeof(struct state_range)},
	[RECORD_FORGET] = {apply_forget, sizeof(uint64_t)},
	[RECORD_MAP] = {apply_map, sizeof(struct state_mapping)},
	[RECORD_MOVE] = {apply_move, sizeof(uint64_t)},
	[RECORD_UNMAP] = {apply_unmap, sizeof(uint64_t)},
	[RECORD_QUOTA] = {apply_quota, sizeof(struct state_quota)},
};

/* Records are aligned for what they hold. */
static int apply(void *data, uint32_t type, const void *payload, size_t length)
{
	if (type >= NR_RECORD_TYPES || !record_types[type].apply ||
	    (record_types[type].length && record_types[type].length != length))
		return -EPROTO;
	return record_types[type].apply(data, payload, length);
}

/* ---- writing ---- */

static int append_ranges(struct journal *journal, const struct state_range *ranges, int64_t nr)
{
	int r = 0;

	for (int64_t i = 0; i < nr && r == 0; i++)
		r = journal_append(journal, RECORD_RESERVE, &ranges[i], sizeof(ranges[i]));
	return r;
}

static int append_mappings(struct journal *journal, const struct state_mapping *mappings,
			   int64_t nr)
{
	int r = 0;

	for (int64_t i = 0; i < nr && r == 0; i++)
		r = journal_append(journal, RECORD_MAP, &mappings[i], sizeof(mappings[i]));
	return r;
}

static struct loan_record loan_record(const struct kernel_pool_loan *loan)
{
	struct loan_record record = {
		.page_size = loan->page_size,
		.overcommit = loan->overcommit,
		.nr_nodes = loan->nr_nodes,
	};

	memcpy(record.node_pages, loan->node_pages, sizeof(record.node_pages));
	return record;
}

static int append_mount(struct journal *journal, const struct state *state)
{
	struct loan_record loan = loan_record(&state->loan);
	int r = 0;

	if (state->options)
		r = journal_append(journal, RECORD_OPTIONS, state->options,
				   strlen(state->options));
	if (r == 0 && state->has_setup)
		r = journal_append(journal, RECORD_SETUP, &state->setup, sizeof(state->setup));
	if (r == 0 && state->has_size)
		r = journal_append(journal, RECORD_SIZE, &state->size, sizeof(state->size));
	if (r == 0 && state->has_loan)
		r = journal_append(journal, RECORD_LOAN, &loan, sizeof(loan));
	for (int i = 0; r == 0 && i < state->nr_steps; i++)
		r = journal_append(journal, RECORD_STEP, &state->steps[i],
				   sizeof(state->steps[i]));
	for (size_t i = 0; r == 0 && i < state->nr_quotas; i++)
		r = journal_append(journal, RECORD_QUOTA, &state->quotas[i],
				   sizeof(state->quotas[i]));
	if (r == 0 && state->ready)
		r = journal_append(journal, RECORD_READY, NULL, 0);
	return r;
}

static int append_all(struct journal *journal, struct state *state)
{
	struct state_mapping *mappings = NULL;
	struct state_range *ranges = NULL;
	int64_t nr_ranges, nr_mappings;
	int r;

	nr_ranges = state_tree_ranges(state, &ranges);
	if (nr_ranges < 0)
		return (int)nr_ranges;
	nr_mappings = state_tree_mappings(state, &mappings);
	r = nr_mappings < 0 ? (int)nr_mappings : append_mount(journal, state);
	if (r == 0)
		r = append_ranges(journal, ranges, nr_ranges);
	if (r == 0)
		r = append_mappings(journal, mappings, nr_mappings);
	free(ranges);
	free(mappings);
	return r;
}

static int rewrite_locked(struct state *state)
{
	struct journal journal;
	int r;

	mutex_assert_held(&state->lock);
	r = journal_new(state->dir_fd, JOURNAL_NAME, &journal);
	if (r < 0)
		return r;
	r = append_all(&journal, state);
	if (r == 0)
		r = journal_replace(state->dir_fd, JOURNAL_NAME, &journal);
	if (r < 0) {
		journal_close(&journal);
		return r;
	}
	journal_close(&state->journal);
	state->journal = journal;
	state->compacted_size = journal.size;
	return 0;
}

int state_rewrite(struct state *state)
{
	int r;

	mutex_lock(&state->lock);
	r = rewrite_locked(state);
	mutex_unlock(&state->lock);
	return r;
}

/* Where it cannot be compacted it goes on growing: that is the next append's concern. */
static int write_locked(struct state *state, uint32_t type, const void *payload, size_t length)
{
	int r;

	mutex_assert_held(&state->lock);
	if (state->journal.fd < 0)
		return -EROFS;
	if (state->journal.size > COMPACT_MIN + COMPACT_FACTOR * state->compacted_size)
		rewrite_locked(state);
	r = journal_append(&state->journal, type, payload, length);
	return r < 0 ? r : apply(state, type, payload, length);
}

static int write_record(struct state *state, uint32_t type, const void *payload, size_t length)
{
	int r;

	mutex_lock(&state->lock);
	r = write_locked(state, type, payload, length);
	mutex_unlock(&state->lock);
	return r;
}

int state_set_options(struct state *state, const char *options)
{
	return write_record(state, RECORD_OPTIONS, options, strlen(options));
}

int state_set_setup(struct state *state, const struct state_setup *setup)
{
	return write_record(state, RECORD_SETUP, setup, sizeof(*setup));
}

int state_set_size(struct state *state, const struct state_size *size)
{
	return write_record(state, RECORD_SIZE, size, sizeof(*size));
}

int state_set_loan(struct state *state, const struct kernel_pool_loan *loan)
{
	struct loan_record record = loan_record(loan);

	return write_record(state, RECORD_LOAN, &record, sizeof(record));
}

int state_set_ready(struct state *state)
{
	return write_record(state, RECORD_READY, NULL, 0);
}

int state_add_step(struct state *state, const struct kernel_pool_step *step)
{
	return write_record(state, RECORD_STEP, step, sizeof(*step));
}

/* How many pages of [from, to) are written down as reserved. */
static int64_t count_locked(struct state *state, uint64_t ino, int64_t from, int64_t to)
{
	struct state_file *file = state_tree_find(state->files, ino);

	return file ? region_map_count(&file->reserved, from, to) : 0;
}

int state_reserve(struct state *state, uint64_t ino, int64_t from, int64_t to)
{
	struct state_range range = {ino, from, to};
	int r = 0;

	mutex_lock(&state->lock);
	if (count_locked(state, ino, from, to) < to - from)
		r = write_locked(state, RECORD_RESERVE, &range, sizeof(range));
	mutex_unlock(&state->lock);
	return r;
}

int state_unreserve(struct state *state, uint64_t ino, int64_t from, int64_t to)
{
	struct state_range range = {ino, from, to};
	int r = 0;

	mutex_lock(&state->lock);
	if (from < to && count_locked(state, ino, from, to) > 0)
		r = write_locked(state, RECORD_UNRESERVE, &range, sizeof(range));
	mutex_unlock(&state->lock);
	return r;
}

int state_forget(struct state *state, uint64_t ino)
{
	int r = 0;

	mutex_lock(&state->lock);
	if (state_tree_find(state->files, ino))
		r = write_locked(state, RECORD_FORGET, &ino, sizeof(ino));
	mutex_unlock(&state->lock);
	return r;
}

int state_set_quota(struct state *state, const struct state_quota *quota)
{
	return write_record(state, RECORD_QUOTA, quota, sizeof(*quota));
}

bool state_find_quota(struct state *state, uint64_t ino, struct state_quota *ret_quota)
{
	const struct state_quota *quota;

	mutex_lock(&state->lock);
	quota = state_tree_find_quota(state, ino);
	if (quota)
		*ret_quota = *quota;
	mutex_unlock(&state->lock);
	return quota;
}

int state_add_mapping(struct state *state, const struct state_mapping *mapping)
{
	return write_record(state, RECORD_MAP, mapping, sizeof(*mapping));
}

static int write_if_mapped(struct state *state, uint32_t type, uint64_t id)
{
	int r = 0;

	mutex_lock(&state->lock);
	if (state_tree_find(state->mappings, id))
		r = write_locked(state, type, &id, sizeof(id));
	mutex_unlock(&state->lock);
	return r;
}

int state_move_mapping(struct state *state, uint64_t id)
{
	return write_if_mapped(state, RECORD_MOVE, id);
}

int state_drop_mapping(struct state *state, uint64_t id)
{
	return write_if_mapped(state, RECORD_UNMAP, id);
}

int state_note_reserved(struct state *state, uint64_t ino, int64_t from, int64_t to)
{
	struct state_range range = {ino, from, to};
	int r;

	mutex_lock(&state->lock);
	r = apply_reserve(state, &range, sizeof(range));
	mutex_unlock(&state->lock);
	return r;
}

int state_note_mapping(struct state *state, const struct state_mapping *mapping)
{
	int r;

	mutex_lock(&state->lock);
	r = apply_map(state, mapping, sizeof(*mapping));
	mutex_unlock(&state->lock);
	return r;
}

bool state_is_reserved(struct state *state, uint64_t ino, int64_t idx)
{
	bool reserved;

	mutex_lock(&state->lock);
	reserved = count_locked(state, ino, idx, idx + 1) > 0;
	mutex_unlock(&state->lock);
	return reserved;
}

/* ---- reading ---- */

int64_t state_ranges(struct state *state, struct state_range **ret_ranges)
{
	int64_t nr;

	mutex_lock(&state->lock);
	nr = state_tree_ranges(state, ret_ranges);
	mutex_unlock(&state->lock);
	return nr;
}

int64_t state_mappings(struct state *state, struct state_mapping **ret_mappings)
{
	int64_t nr;

	mutex_lock(&state->lock);
	nr = state_tree_mappings(state, ret_mappings);
	mutex_unlock(&state->lock);
	return nr;
}

static void state_init(struct state *state, int dir_fd)
{
	memset(state, 0, sizeof(*state));
	mutex_init(&state->lock, LOCK_RANK_STATE);
	state->dir_fd = dir_fd;
	state->journal.fd = -1;
}

int state_open(struct state *state, int dir_fd, struct journal_damage *ret_damage)
{
	int r;

	state_init(state, dir_fd);
	r = journal_open(dir_fd, JOURNAL_NAME, apply, state, ret_damage, &state->journal);
	if (r < 0)
		state_close(state);
	return r;
}

/* What a record that means nothing says is left out. */
static int apply_salvaged(void *data, uint32_t type, const void *payload, size_t length)
{
	int r = apply(data, type, payload, length);

	return r == -EPROTO ? 0 : r;
}

int state_salvage(struct state *state, int dir_fd, struct journal_damage *ret_damage)
{
	int r;

	state_init(state, dir_fd);
	r = journal_salvage(dir_fd, JOURNAL_NAME, apply_salvaged, state, ret_damage);
	if (r < 0)
		state_close(state);
	return r;
}

void state_freeze(struct state *state)
{
	mutex_lock(&state->lock);
	journal_close(&state->journal);
	mutex_unlock(&state->lock);
}

void state_close(struct state *state)
{
	journal_close(&state->journal);
	state_tree_free(state);
	free(state->options);
	state->options = NULL;
	mutex_deinit(&state->lock);
}
