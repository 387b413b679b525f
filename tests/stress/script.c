/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Script: choosing operations. Each chooser draws an operation of one type from the state of
 * the model, and says whether there is one that makes sense; if not, another type is drawn.
 *
 * While a forked child lives, nothing is unmapped or freed: see model.h.
 */
#include "script.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#define DRAIN_STEPS 10000

struct maker {
	struct model model, trial;
	uint64_t random;
	uint64_t nr_values;
};

/* splitmix64 */
static uint64_t draw(struct maker *maker)
{
	uint64_t z = maker->random += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static int below(struct maker *maker, int limit)
{
	return (int)(draw(maker) % (uint64_t)limit);
}

static bool one_in(struct maker *maker, int n)
{
	return below(maker, n) == 0;
}

static void draw_range(struct maker *maker, int limit, int *ret_from, int *ret_nr)
{
	*ret_from = below(maker, limit);
	*ret_nr = 1 + below(maker, limit - *ret_from);
}

/* A mapping of @op->proc. */
static bool choose_slot(struct maker *maker, struct op *op)
{
	for (int tries = 0; tries < 2 * NR_SLOTS; tries++) {
		op->slot = below(maker, NR_SLOTS);
		if (model_map_of(&maker->model, op)->exists)
			return true;
	}
	return false;
}

/* Whether there are too few pages to populate all of a mapping without a reservation. */
static bool populates_in_part(struct maker *maker, const struct op *op)
{
	const struct model_file *file = model_find(&maker->model, op->name);
	long missing = 0;

	if ((op->flags & (OP_NORESERVE | OP_PRIVATE)) != OP_NORESERVE)
		return false;
	for (int idx = op->from; idx < op->from + op->nr; idx++)
		missing += !file || !file->resv[idx];
	return maker->model.counts.used + missing > maker->model.max;
}

static bool choose_map(struct maker *maker, struct op *op)
{
	static const unsigned int kinds[] = {
		0, 0, 0, OP_NORESERVE, OP_PRIVATE, OP_PRIVATE, OP_PRIVATE | OP_NORESERVE};

	op->slot = below(maker, NR_SLOTS);
	if (model_map_of(&maker->model, op)->exists ||
	    maker->model.proc[CHILD_OF(op->proc)].alive)
		return false;
	draw_range(maker, FILE_PAGES, &op->from, &op->nr);
	op->flags = kinds[below(maker, sizeof(kinds) / sizeof(kinds[0]))];
	if (one_in(maker, 6))
		op->flags |= OP_READONLY;
	if (one_in(maker, 6) && !populates_in_part(maker, op))
		op->flags |= OP_POPULATE;
	if (one_in(maker, 6))
		op->flags |= OP_UNALIGNED;
	return true;
}

/* Whether a write would take the page away from a child, and the process maps it twice. */
static bool spoils(const struct model *model, const struct op *op)
{
	const struct model_proc *proc = &model->proc[op->proc];
	const struct model_map *map = &proc->map[op->slot];
	int anon = map->anon[op->from], idx = map->from + op->from;

	if (!map->owner || anon == NO_PAGE || model->anon[anon].nr_refs == 1 ||
	    model->counts.used < model->max)
		return false;
	for (int slot = 0; slot < NR_SLOTS; slot++) {
		const struct model_map *other = &proc->map[slot];

		if (other->exists && other != map && other->file == map->file &&
		    other->flags & OP_PRIVATE && idx >= other->from &&
		    idx < other->from + other->nr)
			return true;
	}
	return false;
}

static bool choose_touch(struct maker *maker, struct op *op)
{
	struct model_map *map;

	/* A child that lives is for this. */
	if (maker->model.proc[CHILD_OF(op->proc)].alive && !one_in(maker, 4))
		op->proc = CHILD_OF(op->proc);
	if (!choose_slot(maker, op))
		return false;
	map = model_map_of(&maker->model, op);
	op->from = below(maker, map->nr);
	op->nr = 1;
	if (!map->mapped[op->from] || map->poisoned)
		return false;
	if (op->type == OP_READ)
		return true;
	return !(map->flags & OP_READONLY) && !spoils(&maker->model, op);
}

/* Whether @map would lose reservations, were pages [from, to) of it taken away: see model.h. */
static bool loses(const struct model *model, const struct model_map *map, int from, int to)
{
	if (!map->exists || !map->owner || model->counts.surplus == 0)
		return false;
	for (int page = from < 0 ? 0 : from; page < map->nr && page < to; page++) {
		if (map->anon[page] != NO_PAGE)
			return true;
	}
	return false;
}

static bool somebody_loses(const struct model *model, const struct model_file *file, int from,
			   int to)
{
	for (int proc = 0; proc < NR_PROCS; proc++) {
		for (int slot = 0; slot < NR_SLOTS; slot++) {
			const struct model_map *map = &model->proc[proc].map[slot];

			if (&model->file[map->file] == file &&
			    loses(model, map, from - map->from, to - map->from))
				return true;
		}
	}
	return false;
}

/* A part of a mapping that is all there. */
static bool choose_part(struct maker *maker, struct op *op)
{
	struct model_map *map;

	if (model_has_child(&maker->model) || !choose_slot(maker, op))
		return false;
	map = model_map_of(&maker->model, op);
	if (one_in(maker, 2)) {
		op->from = 0;
		op->nr = map->nr;
	} else {
		draw_range(maker, map->nr, &op->from, &op->nr);
	}
	for (int page = op->from; page < op->from + op->nr; page++) {
		if (!map->mapped[page])
			return false;
	}
	if (op->type == OP_DONTNEED)
		return !loses(&maker->model, map, op->from, op->from + op->nr);
	if (op->type != OP_REMOVE)
		return true;
	return !(map->flags & (OP_PRIVATE | OP_READONLY)) &&
	       !somebody_loses(&maker->model, &maker->model.file[map->file],
			       map->from + op->from, map->from + op->from + op->nr);
}

/* Whether a private mapping has a copy of a page that the file has not. */
static bool is_copied(const struct model *model, const struct model_file *file, int idx)
{
	for (int proc = 0; proc < NR_PROCS; proc++) {
		for (int slot = 0; slot < NR_SLOTS; slot++) {
			const struct model_map *map = &model->proc[proc].map[slot];
			int page = idx - map->from;

			if (map->exists && &model->file[map->file] == file && page >= 0 &&
			    page < map->nr && map->anon[page] != NO_PAGE)
				return !file->cached[idx];
		}
	}
	return false;
}

static bool choose_punch(struct maker *maker, struct op *op)
{
	struct model_file *file = model_find(&maker->model, op->name);

	if (model_has_child(&maker->model))
		return false;
	draw_range(maker, FILE_PAGES, &op->from, &op->nr);
	for (int idx = op->from; file && idx < op->from + op->nr; idx++) {
		if (is_copied(&maker->model, file, idx))
			return false;
	}
	return !file || !somebody_loses(&maker->model, file, op->from, op->from + op->nr);
}

/* Only one that works as a whole. */
static bool choose_fallocate(struct maker *maker, struct op *op)
{
	struct model_file *file = model_find(&maker->model, op->name);
	long missing = 0;

	draw_range(maker, FILE_PAGES, &op->from, &op->nr);
	for (int idx = op->from; idx < op->from + op->nr; idx++)
		missing += !file || !file->resv[idx];
	return op->nr == 1 || maker->model.counts.used + missing <= maker->model.max;
}

static bool choose_truncate(struct maker *maker, struct op *op)
{
	struct model_file *file = model_find(&maker->model, op->name);

	if (model_has_child(&maker->model))
		return false;
	op->nr = below(maker, FILE_PAGES + 1);
	if (file && somebody_loses(&maker->model, file, op->nr, FILE_PAGES))
		return false;
	if (op->nr > 0 && one_in(maker, 2))
		op->flags |= OP_UNALIGNED;
	return true;
}

static bool choose_page(struct maker *maker, struct op *op)
{
	op->from = below(maker, FILE_PAGES);
	op->nr = 1;
	return true;
}

static bool choose_unlink(struct maker *maker, struct op *op)
{
	return !model_has_child(&maker->model) && model_find(&maker->model, op->name);
}

static bool choose_fork(struct maker *maker, struct op *op)
{
	return !model_has_child(&maker->model) && choose_slot(maker, op);
}

static bool choose_child_end(struct maker *maker, struct op *op)
{
	return maker->model.proc[CHILD_OF(op->proc)].alive;
}

static bool choose_without_child(struct maker *maker, struct op *op)
{
	return !model_has_child(&maker->model);
}

static bool choose_burst(struct maker *maker, struct op *op)
{
	model_find_safe(&maker->model, op);
	return !model_has_child(&maker->model);
}

struct choice {
	const char *name;
	int weight;
	bool (*choose)(struct maker *maker, struct op *op);
};

static const struct choice choices[NR_OP_TYPES] = {
	[OP_MAP] = {"map", 20, choose_map},
	[OP_READ] = {"read", 22, choose_touch},
	[OP_WRITE] = {"write", 30, choose_touch},
	[OP_UNMAP] = {"unmap", 8, choose_part},
	[OP_PLAIN_UNMAP] = {"plain-unmap", 5, choose_part},
	[OP_DONTNEED] = {"dontneed", 5, choose_part},
	[OP_REMOVE] = {"remove", 2, choose_part},
	[OP_PUNCH] = {"punch", 4, choose_punch},
	[OP_FALLOCATE] = {"fallocate", 3, choose_fallocate},
	[OP_TRUNCATE] = {"truncate", 4, choose_truncate},
	[OP_PREAD] = {"pread", 5, choose_page},
	[OP_PWRITE] = {"pwrite", 4, choose_page},
	[OP_UNLINK] = {"unlink", 3, choose_unlink},
	[OP_FORK] = {"fork", 2, choose_fork},
	[OP_CHILD_EXIT] = {"child-exit", 5, choose_child_end},
	[OP_CHILD_KILL] = {"child-kill", 5, choose_child_end},
	[OP_KILL] = {"kill", 1, choose_without_child},
	[OP_BURST] = {"burst", 1, choose_burst},
};

const char *op_name(enum op_type type)
{
	return choices[type].name;
}

static enum op_type draw_type(struct maker *maker)
{
	int total = 0, at;

	for (int type = 0; type < NR_OP_TYPES; type++)
		total += choices[type].weight;
	at = below(maker, total);
	for (int type = 0; type < NR_OP_TYPES; type++) {
		at -= choices[type].weight;
		if (at < 0)
			return type;
	}
	return OP_READ;
}

/* Whether the use of the mount falls through min_size: see model.h. */
static bool falls_through(struct maker *maker, const struct op *op)
{
	const struct model *model = &maker->model;

	if (model->min == 0 || model->counts.used <= model->min)
		return false;
	maker->trial = *model;
	model_apply(&maker->trial, op);
	return maker->trial.counts.used < model->min;
}

static void draw_op(struct maker *maker, struct op *op)
{
	do
		*op = (struct op){
			.type = draw_type(maker),
			.proc = below(maker, NR_WORKERS),
			.name = below(maker, NR_NAMES),
			.value = ++maker->nr_values,
		};
	while (!choices[op->type].choose(maker, op) || falls_through(maker, op));
}

static void add_step(struct script *script, struct maker *maker, const struct op *op)
{
	struct step *step = &script->steps[script->nr++];

	step->op = *op;
	step->result = model_apply(&maker->model, op);
	step->counts = maker->model.counts;
}

/* Let the use fall to min_size, by operations that free more than they take. */
static void drain(struct script *script, struct maker *maker)
{
	static const bool frees[NR_OP_TYPES] = {
		[OP_UNMAP] = true,      [OP_PLAIN_UNMAP] = true, [OP_REMOVE] = true,
		[OP_PUNCH] = true,      [OP_TRUNCATE] = true,    [OP_UNLINK] = true,
		[OP_CHILD_EXIT] = true,
	};
	size_t last = script->nr + DRAIN_STEPS;
	struct op op;

	while (maker->model.min > 0 && maker->model.counts.used > maker->model.min) {
		assert(script->nr < last);
		draw_op(maker, &op);
		if (frees[op.type] || one_in(maker, 8))
			add_step(script, maker, &op);
	}
}

static void add_end(struct script *script, struct maker *maker)
{
	struct op op = {0};

	for (op.proc = 0; op.proc < NR_WORKERS; op.proc++) {
		op.type = OP_CHILD_EXIT;
		if (maker->model.proc[CHILD_OF(op.proc)].alive)
			add_step(script, maker, &op);
	}
	for (op.proc = 0; op.proc < NR_WORKERS; op.proc++) {
		op.type = OP_KILL;
		add_step(script, maker, &op);
	}
	op.proc = 0;
	for (op.name = 0; op.name < NR_NAMES; op.name++) {
		op.type = OP_UNLINK;
		if (model_find(&maker->model, op.name))
			add_step(script, maker, &op);
	}
}

void script_make(struct script *script, uint64_t seed, size_t nr, long max, long min)
{
	struct maker *maker = calloc(1, sizeof(*maker));
	const struct counts *counts;
	struct op op;

	script->steps =
		calloc(nr + DRAIN_STEPS + 2 * NR_WORKERS + NR_NAMES, sizeof(*script->steps));
	assert(maker && script->steps);
	maker->random = seed;
	model_init(&maker->model, max, min);
	for (script->nr = 0; script->nr < nr;) {
		draw_op(maker, &op);
		add_step(script, maker, &op);
	}
	drain(script, maker);
	add_end(script, maker);
	counts = &maker->model.counts;
	assert(counts->used == 0 && counts->nr == min && counts->free == min &&
	       counts->resv == min && counts->surplus == 0);
	(void)counts;
	free(maker);
}

void script_free(struct script *script)
{
	free(script->steps);
	script->steps = NULL;
}

void script_print(FILE *out, const struct script *script, size_t index)
{
	const struct step *step = &script->steps[index];
	const struct op *op = &step->op;

	fprintf(out,
		"%7zu: %-11s proc %d file %d slot %d pages %d+%d%s%s%s%s%s value %" PRIu64
		" -> %d %" PRIu64 "; nr %ld free %ld resv %ld surplus %ld used %ld\n",
		index, op_name(op->type), op->proc, op->name, op->slot, op->from, op->nr,
		op->flags & OP_PRIVATE ? " private" : "",
		op->flags & OP_NORESERVE ? " noreserve" : "",
		op->flags & OP_READONLY ? " readonly" : "",
		op->flags & OP_POPULATE ? " populate" : "",
		op->flags & OP_UNALIGNED ? " unaligned" : "", op->value, step->result.error,
		step->result.value, step->counts.nr, step->counts.free, step->counts.resv,
		step->counts.surplus, step->counts.used);
}
