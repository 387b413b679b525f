/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Model: faults, and what takes pages away. */
#include <assert.h>
#include <errno.h>
#include <stddef.h>

#include "model.h"

static int new_anon(struct model *model, uint64_t value)
{
	for (int i = 0; i < NR_ANON; i++) {
		if (model->anon[i].nr_refs == 0) {
			model->anon[i] = (struct model_anon){.nr_refs = 1, .value = value};
			return i;
		}
	}
	assert(!"more anonymous pages than the pool has");
	return NO_PAGE;
}

int model_instantiate(struct model *model, struct model_file *file, int idx)
{
	if (file->cached[idx])
		return 0;
	if (!model_take_page(model, file->resv[idx]))
		return ENOSPC;
	file->resv[idx] = file->cached[idx] = true;
	file->value[idx] = 0;
	return 0;
}

/* A page of one's own: @enforce is the kernel's MAP_CHG_ENFORCED. */
static bool take_anon(struct model *model, struct model_map *map, int page, uint64_t value,
		      bool enforce)
{
	bool charged = map->owner && !map->consumed[page] && !enforce;

	if (!model_take_page(model, charged))
		return false;
	if (map->owner)
		map->consumed[page] = true;
	map->anon[page] = new_anon(model, value);
	return true;
}

/* unmap_ref_private() */
static void take_from_children(struct model *model, int anon)
{
	for (int proc = NR_WORKERS; proc < NR_PROCS; proc++) {
		for (int slot = 0; slot < NR_SLOTS; slot++) {
			struct model_map *map = &model->proc[proc].map[slot];

			for (int page = 0; map->exists && page < map->nr; page++) {
				if (map->anon[page] != anon || map->owner)
					continue;
				map->anon[page] = NO_PAGE;
				map->poisoned = true;
				model->anon[anon].nr_refs--;
			}
		}
	}
	assert(model->anon[anon].nr_refs == 1);
}

/* hugetlb_wp() of an anonymous page; whether it can be written to. */
static bool unshare(struct model *model, struct model_map *map, int page)
{
	int old = map->anon[page];

	if (model->anon[old].nr_refs == 1)
		return true;
	if (take_anon(model, map, page, model->anon[old].value, map->owner)) {
		model->anon[old].nr_refs--;
		return true;
	}
	if (!map->owner)
		return false;
	take_from_children(model, old);
	return true;
}

static struct result touch_private(struct model *model, struct model_map *map, int page,
				   bool write, uint64_t value)
{
	struct model_file *file = &model->file[map->file];
	const struct result sigbus = {.error = RESULT_SIGBUS};
	int idx = map->from + page;

	if (map->anon[page] == NO_PAGE) {
		if (map->poisoned)
			return sigbus;
		if (file->cached[idx] && !write)
			return (struct result){.value = file->value[idx]};
		if (!file->cached[idx] && idx >= file->size)
			return sigbus;
		if (!take_anon(model, map, page, file->cached[idx] ? file->value[idx] : 0,
			       false))
			return sigbus;
	} else if (write && !unshare(model, map, page)) {
		return sigbus;
	}
	if (write)
		model->anon[map->anon[page]].value = value;
	return (struct result){.value = model->anon[map->anon[page]].value};
}

struct result model_touch(struct model *model, struct model_map *map, int page, bool write,
			  uint64_t value)
{
	struct model_file *file = &model->file[map->file];
	int idx = map->from + page;

	if (map->flags & OP_PRIVATE)
		return touch_private(model, map, page, write, value);
	if ((!file->cached[idx] && idx >= file->size) || model_instantiate(model, file, idx))
		return (struct result){.error = RESULT_SIGBUS};
	if (write)
		file->value[idx] = value;
	return (struct result){.value = file->value[idx]};
}

/* __unmap_hugepage_range(): the pages themselves go in model_flush(). */
void model_zap(struct model *model, struct model_map *map, int from, int to)
{
	for (int page = from < 0 ? 0 : from; page < map->nr && page < to; page++) {
		struct model_anon *anon;

		if (map->anon[page] == NO_PAGE)
			continue;
		anon = &model->anon[map->anon[page]];
		map->anon[page] = NO_PAGE;
		if (map->owner && model->counts.surplus == 0) {
			anon->restore = true;
			map->consumed[page] = false;
		}
		/* -1: gone, to be freed. A page that is in use has at least one reference. */
		if (--anon->nr_refs == 0)
			anon->nr_refs = -1;
	}
}

/* tlb_finish_mmu() */
void model_flush(struct model *model)
{
	for (int i = 0; i < NR_ANON; i++) {
		if (model->anon[i].nr_refs == -1) {
			model->anon[i].nr_refs = 0;
			model_free_page(model, model->anon[i].restore);
		}
	}
}

/* hugetlb_vmdelete_list() */
static void zap_all(struct model *model, const struct model_file *file, int from, int to)
{
	for (int proc = 0; proc < NR_PROCS; proc++) {
		for (int slot = 0; slot < NR_SLOTS; slot++) {
			struct model_map *map = &model->proc[proc].map[slot];

			if (map->exists && &model->file[map->file] == file)
				model_zap(model, map, from - map->from, to - map->from);
			model_flush(model);
		}
	}
}

/* remove_inode_hugepages(); the number of reservations that had no page. */
static long remove_pages(struct model *model, struct model_file *file, int from, int to,
			 bool truncate)
{
	long unused = 0;

	for (int idx = from; idx < to; idx++) {
		if (file->cached[idx])
			model_free_page(model, false);
		else if (truncate)
			unused += file->resv[idx];
		if (file->cached[idx] || truncate)
			file->resv[idx] = false;
		file->cached[idx] = false;
	}
	return unused;
}

void model_punch(struct model *model, struct model_file *file, int from, int to)
{
	zap_all(model, file, from, to);
	remove_pages(model, file, from, to, false);
}

void model_truncate(struct model *model, struct model_file *file, int size)
{
	bool shrinks = size < file->size;

	file->size = size;
	if (!shrinks)
		return;
	zap_all(model, file, size, FILE_PAGES);
	model_unreserve(model, remove_pages(model, file, size, FILE_PAGES, true));
}

void model_put_file(struct model *model, struct model_file *file)
{
	if (file->name >= 0 || file->nr_maps > 0)
		return;
	model_unreserve(model, remove_pages(model, file, 0, FILE_PAGES, true));
	file->exists = false;
}

/* hugetlb_vm_op_close() of [from, to), which has been zapped. */
static void close_range(struct model *model, struct model_map *map, int from, int to)
{
	long unused = 0;
	bool rest = false;

	for (int page = from; page < to; page++) {
		if (map->mapped[page] && map->owner && !map->consumed[page])
			unused++;
		map->mapped[page] = false;
	}
	model_unreserve(model, unused);
	for (int page = 0; page < map->nr; page++)
		rest = rest || map->mapped[page];
	if (!rest) {
		map->exists = false;
		model->file[map->file].nr_maps--;
		model_put_file(model, &model->file[map->file]);
	}
}

void model_unmap(struct model *model, struct model_map *map, int from, int to)
{
	model_zap(model, map, from, to);
	model_flush(model);
	close_range(model, map, from, to);
}

void model_exit(struct model *model, struct model_proc *proc)
{
	for (int slot = 0; slot < NR_SLOTS; slot++) {
		if (proc->map[slot].exists)
			model_zap(model, &proc->map[slot], 0, FILE_PAGES);
	}
	model_flush(model);
	for (int slot = 0; slot < NR_SLOTS; slot++) {
		if (proc->map[slot].exists)
			close_range(model, &proc->map[slot], 0, proc->map[slot].nr);
	}
	proc->alive = false;
}
