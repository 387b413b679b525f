/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Populating ahead. What is reserved is looked up without the lock, which is a leaf, so that a
 * claim is entered only if its stream has not changed meanwhile.
 */
#include "fs/ahead.h"

#define AHEAD_NEVER (-2) /* no page follows it */

void ahead_init(struct ahead *ahead)
{
	mutex_init(&ahead->lock, LOCK_RANK_LEAF);
	ahead->clock = 0;
	ahead->claims = NULL;
	for (int i = 0; i < AHEAD_STREAMS; i++)
		ahead->stream[i] = (struct ahead_stream){.next = AHEAD_NEVER,
							 .end = AHEAD_NEVER,
							 .last = AHEAD_NEVER,
							 .opened = true};
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

/* The stream that @idx carries on or is waited for in; else the one without a waiter that was
 * unused for the longest time, or NULL. */
static struct ahead_stream *find_stream_locked(struct ahead *ahead, int64_t idx)
{
	struct ahead_stream *oldest = NULL;

	mutex_assert_held(&ahead->lock);
	for (int i = 0; i < AHEAD_STREAMS; i++) {
		struct ahead_stream *stream = &ahead->stream[i];

		if (continues(stream, idx) || stream->last == idx)
			return stream;
		if (!stream->waiter && (!oldest || stream->used < oldest->used))
			oldest = stream;
	}
	return oldest;
}

static void start_stream(struct ahead_stream *stream, int64_t idx)
{
	stream->next = stream->end = idx + 1;
	stream->window = AHEAD_FIRST_SIZE;
}

/*
 * Where nobody has got to opening a window, as all threads are busy with other faults, it
 * begins right behind @idx: then this fault stands for all of its pages.
 */
static void carry_on(struct ahead_stream *stream, int64_t idx, int64_t max, int64_t to,
		     void *waiter)
{
	int64_t end = idx + 1;

	if (!stream->opened && stream->end <= end)
		end += stream->window < max ? stream->window : max;
	if (stream->next < idx + 1)
		stream->next = idx + 1;
	if (stream->end < end)
		stream->end = end < to ? end : to;
	stream->window *= 2;
	stream->waiter = waiter;
	stream->wait_end = stream->end;
	stream->is_claimed = false;
}

bool ahead_fault(struct ahead *ahead, int64_t idx, int64_t max, int64_t to, void *waiter)
{
	struct ahead_stream *stream;
	bool waits = false;

	mutex_lock(&ahead->lock);
	stream = find_stream_locked(ahead, idx);
	if (!stream || stream->waiter || stream->last == idx)
		goto out_unlock;
	waits = continues(stream, idx);
	if (waits)
		carry_on(stream, idx, max, to, waiter);
	else
		start_stream(stream, idx);
	stream->last = idx;
	stream->opened = false;
	stream->max = max;
	stream->to = to;
	stream->used = ++ahead->clock;
	if (stream->window > max)
		stream->window = max;
out_unlock:
	mutex_unlock(&ahead->lock);
	return waits;
}

/* Open the next window: find its mark. Drops the lock in between. */
static void open_window_locked(struct ahead *ahead, struct ahead_stream *stream,
			       struct page_space *space)
{
	int64_t end = stream->end, last = stream->last;
	int64_t to = end + stream->window < stream->to ? end + stream->window : stream->to;
	int64_t mark;

	mutex_unlock(&ahead->lock);
	mark = end < to ? page_next_reserved(space, end, to) : -1;
	mutex_lock(&ahead->lock);
	if (stream->opened || stream->end != end || stream->last != last)
		return;
	stream->opened = true;
	if (mark < 0)
		return;
	stream->next = mark + 1;
	stream->end = mark + 1 + stream->window;
	if (stream->end > stream->to)
		stream->end = stream->to;
}

/* The next page of @stream's window, or -1. Drops the lock in between. */
static int64_t next_page_locked(struct ahead *ahead, struct ahead_stream *stream,
				struct page_space *space)
{
	int64_t next, end, last, idx;

	for (;;) {
		if (stream->next >= stream->end && !stream->opened)
			open_window_locked(ahead, stream, space);
		next = stream->next;
		end = stream->end;
		last = stream->last;
		if (next >= end) {
			if (stream->opened)
				return -1;
			continue;
		}
		mutex_unlock(&ahead->lock);
		idx = page_next_reserved(space, next, end);
		mutex_lock(&ahead->lock);
		if (stream->next != next || stream->end != end || stream->last != last)
			continue;
		stream->next = idx < 0 ? end : idx + 1;
		if (idx >= 0)
			return idx;
	}
}

static bool claim_locked(struct ahead *ahead, struct ahead_stream *stream,
			 struct page_space *space, struct ahead_claim *ret_claim)
{
	*ret_claim = (struct ahead_claim){.stream = stream};
	if (stream->waiter && !stream->is_claimed) {
		stream->is_claimed = true;
		ret_claim->waiter = stream->waiter;
		ret_claim->idx = stream->last;
	} else {
		ret_claim->idx = next_page_locked(ahead, stream, space);
	}
	if (ret_claim->idx < 0)
		return false;
	ret_claim->next = ahead->claims;
	ahead->claims = ret_claim;
	return true;
}

bool ahead_claim(struct ahead *ahead, struct page_space *space, struct ahead_claim *ret_claim)
{
	bool found = false;

	mutex_lock(&ahead->lock);
	for (int i = 0; i < 2 * AHEAD_STREAMS && !found; i++) {
		struct ahead_stream *stream = &ahead->stream[i % AHEAD_STREAMS];

		if (i >= AHEAD_STREAMS || stream->waiter)
			found = claim_locked(ahead, stream, space, ret_claim);
	}
	mutex_unlock(&ahead->lock);
	return found;
}

void ahead_done(struct ahead *ahead, struct ahead_claim *claim, bool failed)
{
	struct ahead_claim **link = &ahead->claims;

	mutex_lock(&ahead->lock);
	while (*link != claim)
		link = &(*link)->next;
	*link = claim->next;
	if (failed) {
		claim->stream->next = claim->stream->end;
		claim->stream->opened = true;
	}
	mutex_unlock(&ahead->lock);
}

/* Whether all of the waiter's window has been claimed, and is done. */
static bool is_ready_locked(const struct ahead *ahead, const struct ahead_stream *stream)
{
	mutex_assert_held(&ahead->lock);
	if (!stream->is_claimed || stream->next < stream->wait_end)
		return false;
	for (const struct ahead_claim *claim = ahead->claims; claim; claim = claim->next) {
		if (claim->stream == stream && claim->idx < stream->wait_end)
			return false;
	}
	return true;
}

/* Whether somebody is at the waiter's own page, and is going to tell it the result. */
static bool is_in_hand_locked(const struct ahead *ahead, const struct ahead_stream *stream)
{
	mutex_assert_held(&ahead->lock);
	for (const struct ahead_claim *claim = ahead->claims; claim; claim = claim->next) {
		if (claim->waiter == stream->waiter)
			return true;
	}
	return false;
}

void *ahead_take_ready(struct ahead *ahead, bool any, int64_t *ret_end)
{
	void *waiter = NULL;

	mutex_lock(&ahead->lock);
	for (int i = 0; i < AHEAD_STREAMS && !waiter; i++) {
		struct ahead_stream *stream = &ahead->stream[i];

		if (!stream->waiter)
			continue;
		if (any ? is_in_hand_locked(ahead, stream) : !is_ready_locked(ahead, stream))
			continue;
		waiter = stream->waiter;
		stream->waiter = NULL;
		*ret_end = stream->wait_end;
	}
	mutex_unlock(&ahead->lock);
	return waiter;
}
