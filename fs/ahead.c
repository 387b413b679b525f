/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Populating ahead. Windows are changed under the lock by whoever resolved a fault, and eaten
 * up from below by compare-and-swap by whoever populates.
 */
#include "fs/ahead.h"

#define AHEAD_NEVER (-2) /* no page follows it */

void ahead_init(struct ahead *ahead)
{
	mutex_init(&ahead->lock, LOCK_RANK_LEAF);
	ahead->clock = 0;
	for (int i = 0; i < AHEAD_STREAMS; i++) {
		struct ahead_stream *stream = &ahead->stream[i];

		stream->next = stream->end = 0;
		stream->last = AHEAD_NEVER;
		stream->window = 0;
		stream->used = 0;
	}
}

void ahead_deinit(struct ahead *ahead)
{
	mutex_deinit(&ahead->lock);
}

/* Whether a fault on @idx carries @stream on: the next page, or one up to the end of its
 * window. */
static bool continues(const struct ahead_stream *stream, int64_t idx)
{
	return idx == stream->last + 1 || (idx > stream->last && idx <= stream->end);
}

/* The stream that @idx carries on, or the one unused for the longest time. */
static struct ahead_stream *find_stream(struct ahead *ahead, int64_t idx)
{
	struct ahead_stream *oldest = &ahead->stream[0];

	for (int i = 0; i < AHEAD_STREAMS; i++) {
		if (continues(&ahead->stream[i], idx))
			return &ahead->stream[i];
		if (ahead->stream[i].used < oldest->used)
			oldest = &ahead->stream[i];
	}
	return oldest;
}

/* Pages before @next are not wanted any more. Claimers move it too: it never goes back. */
static void advance(struct ahead_stream *stream, int64_t next)
{
	int64_t old = stream->next;

	while (old < next && !atomic_compare_exchange_weak(&stream->next, &old, next))
		;
}

int64_t ahead_fault(struct ahead *ahead, int64_t idx, int64_t max, int64_t to)
{
	struct ahead_stream *stream;
	int64_t next, end;

	mutex_lock(&ahead->lock);
	stream = find_stream(ahead, idx);
	if (continues(stream, idx)) {
		stream->window = stream->window ? 2 * stream->window : AHEAD_FIRST_SIZE;
		advance(stream, idx + 1);
		end = stream->end;
	} else {
		stream->window = AHEAD_FIRST_SIZE;
		/* Empty while it moves, so that nobody claims from one window to the other. */
		stream->end = 0;
		stream->next = end = idx + 1;
	}
	if (stream->window > max)
		stream->window = max;
	if (end < idx + 1 + stream->window)
		end = idx + 1 + stream->window;
	if (end > to)
		end = to;
	stream->last = idx;
	stream->used = ++ahead->clock;
	stream->end = end;
	next = stream->next;
	mutex_unlock(&ahead->lock);
	return end > next ? end - next : 0;
}

static int64_t claim_in_stream(struct ahead_stream *stream, struct page_space *space)
{
	int64_t next = stream->next, end = stream->end, idx;

	while (next < end) {
		idx = page_next_reserved(space, next, end);
		if (atomic_compare_exchange_strong(&stream->next, &next,
						   idx < 0 ? end : idx + 1))
			return idx;
		end = stream->end;
	}
	return -1;
}

int64_t ahead_claim(struct ahead *ahead, struct page_space *space)
{
	int64_t idx;

	for (int i = 0; i < AHEAD_STREAMS; i++) {
		idx = claim_in_stream(&ahead->stream[i], space);
		if (idx >= 0)
			return idx;
	}
	return -1;
}
