/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Changes of maps, allocated before the lock is taken. */
#include "fs/page_change.h"

#include <stdlib.h>

void page_changes_free(struct region_change *changes, size_t nr)
{
	for (size_t i = 0; changes && i < nr; i++)
		region_change_free(&changes[i]);
	free(changes);
}

struct region_change *page_changes_new(size_t nr)
{
	struct region_change *changes = calloc(nr ? nr : 1, sizeof(*changes));

	for (size_t i = 0; changes && i < nr; i++) {
		if (region_change_init(&changes[i], 0, 1) < 0) {
			page_changes_free(changes, i);
			return NULL;
		}
	}
	return changes;
}

void page_change_set(struct region_change *change, int64_t from, int64_t to)
{
	change->from = from;
	change->to = to;
}

void page_count_file_locked(struct page_space *space)
{
	bool holds_pages = space->is_file && space->resv.nr_regions > 0;

	rwsem_assert_write_held(space->lock);
	if (holds_pages == space->holds_pages)
		return;
	space->holds_pages = holds_pages;
	subpool_count_files(space->subpool, holds_pages ? 1 : -1);
}
