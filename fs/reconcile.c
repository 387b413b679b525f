/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reconcile. Pages that have gone are looked for before pages that have come, which may need
 * the reservation or the free page that the others give.
 */
#include "fs/reconcile.h"

#include <errno.h>
#include <stdlib.h>

#include "fs/control.h"

/* Let every page of [from, to) that the counters say is (@there) or is not there be looked at.
 */
static void reconcile_pages(struct page_space *space, int64_t from, int64_t to, bool there,
			    bool keep_reserved)
{
	for (int64_t idx = from; idx < to; idx++) {
		if (page_is_instantiated(space, idx) == there)
			page_reconcile(space, idx, keep_reserved);
	}
}

void reconcile_inode(struct mount *mount, struct inode *inode)
{
	struct page_space *pages = inode->pages;
	struct page_space_counts counts;
	int64_t nr, nr_pages;

	if (!pages)
		return;
	nr = pages->file->backing->ops->count(pages->file);
	page_space_read(pages, &counts);
	/* What is being populated at this moment is counted already, and may or may not be
	 * there. */
	if (nr < 0 ||
	    (nr <= counts.instantiated && nr >= counts.instantiated - counts.populating))
		return;
	rwsem_read_lock(pages->lock);
	nr_pages = pages->nr_pages;
	rwsem_read_unlock(pages->lock);
	reconcile_pages(pages, 0, nr_pages, true, false);
	reconcile_pages(pages, 0, nr_pages, false, false);
}

void reconcile_mapping(struct mapping *mapping)
{
	uint64_t page_size = mapping->mount->backing->page_size;
	bool keep = mapping_keeps_reservation(mapping);
	struct segment *segments;
	int nr;

	if (!(mapping->flags & HUGEFUSE_MAP_PRIVATE) || !mapping->client)
		return;
	nr = mapping_segments(mapping, &segments);
	for (int pass = 0; pass < 2; pass++) {
		for (int i = 0; i < nr; i++) {
			const struct segment *s = &segments[i];

			reconcile_pages(mapping->space, s->idx,
					s->idx + (int64_t)((s->end - s->start) / page_size),
					pass == 0, keep);
		}
	}
	if (nr >= 0)
		free(segments);
}

static int visit_inode(struct mount *mount, struct inode *inode, void *data)
{
	reconcile_inode(mount, inode);
	return 0;
}

static int visit_mapping(struct mapping *mapping, void *data)
{
	reconcile_mapping(mapping);
	return 0;
}

void reconcile_mount(struct mount *mount)
{
	inode_for_each(mount, visit_inode, NULL);
	control_for_each_mapping(mount->control, visit_mapping, NULL);
}

bool reconcile_may_help(struct mount *mount, int64_t error)
{
	if (error != -ENOSPC && error != -ENOMEM)
		return false;
	reconcile_mount(mount);
	return true;
}
