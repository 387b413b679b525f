/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Mappings that a daemon which died had: made again from what was written down and from where
 * the client has them mapped now, and cut into those that the client attaches again.
 */
#include "fs/mapping.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/mount.h"

int mapping_add_segment(struct mapping *mapping, const struct segment *segment)
{
	uint64_t page_size = mapping->mount->backing->page_size;
	int64_t nr = (int64_t)((segment->end - segment->start) / page_size), r = 0;
	struct segments *segments, *old;

	mutex_lock(&mapping->lock);
	old = mapping->segments;
	segments = malloc(sizeof(*segments) +
			  ((old ? old->nr : 0) + 1) * sizeof(segments->segment[0]));
	if (segments) {
		segments->nr = old ? old->nr : 0;
		if (old)
			memcpy(segments->segment, old->segment,
			       old->nr * sizeof(old->segment[0]));
		segments->segment[segments->nr++] = *segment;
		mapping_replace_segments_locked(mapping, segments);
	}
	mutex_unlock(&mapping->lock);
	if (!segments)
		return -ENOMEM;
	if (mapping_has_own_pages(mapping) && mapping_keeps_reservation(mapping))
		r = page_reserve_or_tell(mapping->space, segment->idx, segment->idx + nr, NULL);
	return (int)(r < 0 ? r : 0);
}

/* Whether [start, end) from page @idx on is in one segment. */
static bool has_range(struct mapping *mapping, uint64_t start, uint64_t end, int64_t idx)
{
	uint64_t page_size = mapping->mount->backing->page_size;
	struct segment *segments;
	int nr = mapping_segments(mapping, &segments);
	bool found = false;

	for (int i = 0; i < nr && !found; i++) {
		const struct segment *s = &segments[i];

		found = start >= s->start && end <= s->end &&
			s->idx + (int64_t)((start - s->start) / page_size) == idx;
	}
	if (nr >= 0)
		free(segments);
	return found;
}

int mapping_split(struct mapping *mapping, uint64_t address, int64_t from, int64_t to,
		  struct mapping **ret_mapping)
{
	uint64_t length = (uint64_t)(to - from) * mapping->mount->backing->page_size;
	struct mapping *part;
	int r;

	if (!has_range(mapping, address, address + length, from))
		return -EINVAL;
	r = mapping_new_forked(mapping, from, to, &part);
	if (r < 0)
		return r;
	part->forked = mapping->forked;
	part->adopted = true;
	r = mapping_set_address(part, address, length);
	if (r == 0 && mapping_has_own_pages(mapping))
		r = page_move(mapping->space, part->space, from, to);
	if (r < 0) {
		mapping_put(part);
		return r;
	}
	/* What it had there is the part's by now. Without memory it goes with the client. */
	mapping_unmap(mapping, address, address + length);
	*ret_mapping = part;
	return 0;
}
