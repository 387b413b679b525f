/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Model: the counters of struct hstate and struct hugepage_subpool. */
#include <assert.h>
#include <stddef.h>

#include "model.h"

void model_pool_init(struct model *model, long max, long min)
{
	model->counts = (struct counts){.nr = min, .free = min, .resv = min};
	model->max = max;
	model->min = min;
	model->spool_resv = min;
	model->overcommit = max - min;
}

/* hugepage_subpool_get_pages(): how many to reserve globally, or -1. */
static long subpool_get(struct model *model, long nr)
{
	long covered = nr < model->spool_resv ? nr : model->spool_resv;

	if (model->counts.used + nr > model->max)
		return -1;
	model->counts.used += nr;
	model->spool_resv -= covered;
	return nr - covered;
}

/* hugepage_subpool_put_pages(): how many global reservations to give back. */
static long subpool_put(struct model *model, long nr)
{
	long refill = 0;

	model->counts.used -= nr;
	assert(model->counts.used >= 0);
	if (model->counts.used < model->min) {
		refill = model->min - model->spool_resv;
		if (refill > nr)
			refill = nr;
	}
	model->spool_resv += refill;
	return nr - refill;
}

/* return_unused_surplus_pages() */
static void release(struct counts *counts, long nr)
{
	counts->resv -= nr;
	for (; nr > 0 && counts->surplus > 0 && counts->free > 0; nr--) {
		counts->nr--;
		counts->free--;
		counts->surplus--;
	}
}

/* hugetlb_acct_memory(): size = min_size + nr_overcommit, so there is room. */
static void acquire(const struct model *model, struct counts *counts, long nr)
{
	long missing = counts->resv + nr - counts->free;

	if (nr > 0 && missing > 0) {
		assert(counts->surplus + missing <= model->overcommit);
		counts->nr += missing;
		counts->free += missing;
		counts->surplus += missing;
	}
	counts->resv += nr;
}

bool model_reserve(struct model *model, long nr)
{
	long global = subpool_get(model, nr);

	if (global < 0)
		return false;
	acquire(model, &model->counts, global);
	return true;
}

void model_unreserve(struct model *model, long nr)
{
	long global = subpool_put(model, nr);

	release(&model->counts, global);
}

/* dequeue_hugetlb_folio_vma(), or else alloc_buddy_hugetlb_folio_with_mpol() */
static void take(const struct model *model, struct counts *counts, bool reserved)
{
	if (counts->free > 0 && (reserved || counts->free > counts->resv)) {
		counts->free--;
	} else {
		assert(counts->surplus < model->overcommit);
		counts->nr++;
		counts->surplus++;
	}
	counts->resv -= reserved;
}

bool model_take_page(struct model *model, bool charged)
{
	long global = charged ? 0 : subpool_get(model, 1);

	if (global < 0)
		return false;
	take(model, &model->counts, global == 0);
	return true;
}

/* free_huge_folio() */
void model_free_page(struct model *model, bool restore)
{
	struct counts *counts = &model->counts;

	if (!restore && subpool_put(model, 1) == 0)
		restore = true;
	counts->resv += restore;
	if (counts->surplus > 0) {
		counts->nr--;
		counts->surplus--;
	} else {
		counts->free++;
	}
}
