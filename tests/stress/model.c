/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Model: one operation after the other. */
#include "model.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

void model_init(struct model *model, long max, long min)
{
	memset(model, 0, sizeof(*model));
	model_pool_init(model, max, min);
	for (int worker = 0; worker < NR_WORKERS; worker++)
		model->proc[worker].alive = true;
}

struct model_file *model_find(struct model *model, int name)
{
	for (int i = 0; i < NR_FILES; i++) {
		if (model->file[i].exists && model->file[i].name == name)
			return &model->file[i];
	}
	return NULL;
}

struct model_file *model_open(struct model *model, int name)
{
	struct model_file *file = model_find(model, name);

	for (int i = 0; !file && i < NR_FILES; i++) {
		if (!model->file[i].exists) {
			file = &model->file[i];
			*file = (struct model_file){.exists = true, .name = name};
		}
	}
	assert(file);
	return file;
}

struct model_map *model_map_of(struct model *model, const struct op *op)
{
	return &model->proc[op->proc].map[op->slot];
}

bool model_has_child(const struct model *model)
{
	for (int proc = NR_WORKERS; proc < NR_PROCS; proc++) {
		if (model->proc[proc].alive)
			return true;
	}
	return false;
}

/* hugetlbfs_file_mmap(); for private mappings every page is charged. */
static bool reserve_map(struct model *model, struct model_file *file, const struct op *op)
{
	long nr = op->nr;

	if (op->flags & OP_NORESERVE)
		return true;
	for (int i = op->from; !(op->flags & OP_PRIVATE) && i < op->from + op->nr; i++)
		nr -= file->resv[i];
	if (!model_reserve(model, nr))
		return false;
	for (int i = op->from; !(op->flags & OP_PRIVATE) && i < op->from + op->nr; i++)
		file->resv[i] = true;
	return true;
}

static struct result apply_map(struct model *model, const struct op *op)
{
	struct model_file *file = model_open(model, op->name);
	struct model_map *map = model_map_of(model, op);

	assert(!map->exists);
	if (!reserve_map(model, file, op))
		return (struct result){.error = ENOMEM};
	*map = (struct model_map){
		.exists = true,
		.file = (int)(file - model->file),
		.from = op->from,
		.nr = op->nr,
		.flags = op->flags,
		.owner = (op->flags & (OP_PRIVATE | OP_NORESERVE)) == OP_PRIVATE,
	};
	file->nr_maps++;
	for (int page = 0; page < op->nr; page++) {
		map->mapped[page] = true;
		map->anon[page] = NO_PAGE;
	}
	/* Private mappings, too, make the file longer: VM_WRITE is what counts. */
	if (!(op->flags & OP_READONLY) && file->size < op->from + op->nr)
		file->size = op->from + op->nr;
	for (int page = 0; op->flags & OP_POPULATE && page < op->nr; page++) {
		bool write = (op->flags & (OP_PRIVATE | OP_READONLY)) == OP_PRIVATE;
		int idx = op->from + page;

		/* populate_vma_page_range() ends at the first page that fails. The written
		 * value is what was there. */
		if (model_touch(model, map, page, write,
				file->cached[idx] ? file->value[idx] : 0)
			    .error)
			break;
	}
	return (struct result){0};
}

static struct result apply_fork(struct model *model, const struct op *op)
{
	struct model_proc *child = &model->proc[CHILD_OF(op->proc)];

	*child = model->proc[op->proc];
	for (int slot = 0; slot < NR_SLOTS; slot++) {
		struct model_map *map = &child->map[slot];

		if (!map->exists)
			continue;
		map->owner = false; /* hugetlb_dup_vma_private() */
		model->file[map->file].nr_maps++;
		for (int page = 0; page < map->nr; page++) {
			if (map->anon[page] != NO_PAGE)
				model->anon[map->anon[page]].nr_refs++;
		}
	}
	return (struct result){0};
}

static struct result apply_pread(struct model *model, const struct op *op)
{
	struct model_file *file = model_open(model, op->name);

	if (op->from >= file->size)
		return (struct result){.error = RESULT_EOF};
	return (struct result){.value = file->cached[op->from] ? file->value[op->from] : 0};
}

/* write(2), or on hugetlbfs a store through a mapping: the same for the counters. */
static struct result apply_pwrite(struct model *model, const struct op *op)
{
	struct model_file *file = model_open(model, op->name);

	if (model_instantiate(model, file, op->from))
		return (struct result){.error = ENOSPC};
	if (file->size <= op->from)
		file->size = op->from + 1;
	file->value[op->from] = op->value;
	return (struct result){0};
}

static struct result apply_fallocate(struct model *model, const struct op *op)
{
	struct model_file *file = model_open(model, op->name);

	for (int idx = op->from; idx < op->from + op->nr; idx++) {
		if (model_instantiate(model, file, idx))
			return (struct result){.error = ENOSPC};
	}
	if (file->size < op->from + op->nr)
		file->size = op->from + op->nr;
	return (struct result){0};
}

static void apply_unlink(struct model *model, const struct op *op)
{
	struct model_file *file = model_find(model, op->name);

	file->name = -1;
	model_put_file(model, file);
}

static bool is_safe(const struct model *model, const struct model_map *map, int page)
{
	const struct model_file *file = &model->file[map->file];
	int idx = map->from + page;

	if (!map->mapped[page] || idx >= file->size)
		return false;
	if (!(map->flags & OP_PRIVATE))
		return file->resv[idx];
	return map->owner && !(map->flags & OP_READONLY) &&
	       (map->anon[page] != NO_PAGE || !map->consumed[page]);
}

void model_find_safe(const struct model *model, struct op *op)
{
	for (int worker = 0; worker < NR_WORKERS; worker++) {
		for (int slot = 0; slot < NR_SLOTS; slot++) {
			const struct model_map *map = &model->proc[worker].map[slot];

			for (int page = 0; map->exists && page < map->nr; page++) {
				if (is_safe(model, map, page))
					op->safe[worker][slot] |= (uint16_t)(1 << page);
			}
		}
	}
}

/* Shared memory is read, private memory is written to: the order does not matter. */
static struct result apply_burst(struct model *model, const struct op *op)
{
	for (int worker = 0; worker < NR_WORKERS; worker++) {
		for (int slot = 0; slot < NR_SLOTS; slot++) {
			struct model_map *map = &model->proc[worker].map[slot];

			for (int page = 0; page < FILE_PAGES; page++) {
				if (op->safe[worker][slot] & 1 << page)
					model_touch(model, map, page, map->flags & OP_PRIVATE,
						    op->value);
			}
		}
	}
	return (struct result){0};
}

static struct result apply_to_pages(struct model *model, const struct op *op)
{
	struct model_map *map = model_map_of(model, op);
	int to = op->from + op->nr;

	switch (op->type) {
	case OP_READ:
	case OP_WRITE:
		return model_touch(model, map, op->from, op->type == OP_WRITE, op->value);
	case OP_DONTNEED:
		model_zap(model, map, op->from, to);
		model_flush(model);
		break;
	case OP_REMOVE:
		model_punch(model, &model->file[map->file], map->from + op->from,
			    map->from + to);
		break;
	default:
		model_unmap(model, map, op->from, to);
	}
	return (struct result){0};
}

struct result model_apply(struct model *model, const struct op *op)
{
	switch (op->type) {
	case OP_MAP:
		return apply_map(model, op);
	case OP_FORK:
		return apply_fork(model, op);
	case OP_PREAD:
		return apply_pread(model, op);
	case OP_PWRITE:
		return apply_pwrite(model, op);
	case OP_FALLOCATE:
		return apply_fallocate(model, op);
	case OP_BURST:
		return apply_burst(model, op);
	case OP_PUNCH:
		model_punch(model, model_open(model, op->name), op->from, op->from + op->nr);
		break;
	case OP_TRUNCATE:
		model_truncate(model, model_open(model, op->name), op->nr);
		break;
	case OP_UNLINK:
		apply_unlink(model, op);
		break;
	case OP_KILL:
		model_exit(model, &model->proc[op->proc]);
		model->proc[op->proc].alive = true; /* a new one takes its place */
		break;
	case OP_CHILD_EXIT:
	case OP_CHILD_KILL:
		model_exit(model, &model->proc[CHILD_OF(op->proc)]);
		break;
	default:
		return apply_to_pages(model, op);
	}
	return (struct result){0};
}
