/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Split notes: an array of notes in the order of their huge pages. A note takes 150 bytes for
 * 2 MB of a file, and stays when its holes were written again: then it says that the page is
 * whole. So what is noted may be added and dropped without a look at the pages.
 */
#include "fs/split_notes.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WORD_BITS 64
#define MAX_ASKED 64 /* then base pages may have been collapsed */

struct split_note {
	struct split_entry entry;
	int64_t nr_noted;
	bool is_base;     /* nothing is noted */
	int node;         /* that it was on when it was looked at; -1: unknown */
	uint8_t nr_asked; /* how often that was said since it was looked at */
	uint64_t bits[SPLIT_CHUNK / WORD_BITS];
};

/* The index of the first note of @chunk or behind. */
static size_t lower_bound(const struct split_notes *notes, int64_t chunk)
{
	size_t low = 0, high = notes->nr, middle;

	while (low < high) {
		middle = (low + high) / 2;
		if (notes->list[middle]->entry.chunk < chunk)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct split_note *find(const struct split_notes *notes, int64_t chunk)
{
	size_t at = lower_bound(notes, chunk);

	return at < notes->nr && notes->list[at]->entry.chunk == chunk ? notes->list[at] : NULL;
}

bool split_notes_have(const struct split_notes *notes, int64_t chunk)
{
	const struct split_note *note = find(notes, chunk);

	return note && note->nr_noted > 0;
}

enum split_knowledge split_notes_know(const struct split_notes *notes, int64_t chunk)
{
	struct split_note *note = find(notes, chunk);

	if (!note || (note->is_base && ++note->nr_asked == MAX_ASKED))
		return SPLIT_UNKNOWN;
	return note->is_base ? SPLIT_BASE : SPLIT_WHOLE;
}

static bool is_set(const struct split_note *note, int64_t bit)
{
	return note->bits[bit / WORD_BITS] >> bit % WORD_BITS & 1;
}

/* Set or clear [from, to) of a note's bits. */
static void mark(struct split_note *note, int64_t from, int64_t to, bool set)
{
	for (int64_t bit = from; bit < to; bit++) {
		uint64_t one = UINT64_C(1) << bit % WORD_BITS;
		uint64_t *word = &note->bits[bit / WORD_BITS];

		note->nr_noted += set ? !(*word & one) : -(int64_t) !!(*word & one);
		*word = set ? *word | one : *word & ~one;
	}
}

static int make_room(struct split_notes *notes)
{
	size_t room = notes->room ? notes->room * 2 : 8;
	struct split_note **list;

	if (notes->nr < notes->room)
		return 0;
	list = realloc(notes->list, room * sizeof(struct split_note *));
	if (!list)
		return -ENOMEM;
	notes->list = list;
	notes->room = room;
	return 0;
}

static struct split_note *insert(struct split_notes *notes, int64_t chunk)
{
	size_t at = lower_bound(notes, chunk);
	struct split_note *note = calloc(1, sizeof(*note));

	if (!note || make_room(notes) < 0) {
		free(note);
		return NULL;
	}
	note->entry.chunk = chunk;
	note->node = -1;
	memmove(&notes->list[at + 1], &notes->list[at],
		(notes->nr - at) * sizeof(struct split_note *));
	notes->list[at] = note;
	notes->nr++;
	return note;
}

/* It is about to be noted for the first time, or again: it may have moved meanwhile. */
static void set_queue(struct split_notes *notes, struct split_note *note,
		      struct page_space *space)
{
	int64_t chunk = note->entry.chunk;
	int node = note->node;

	if (node < 0)
		node = page_node(space, chunk * SPLIT_CHUNK);
	if (node < 0)
		node = 0;
	split_entry_init(&note->entry, split_set_queue(notes->set, node), space->object, chunk,
			 node);
}

static void erase(struct split_notes *notes, struct split_queues *queues, size_t at,
		  enum split_end why, int64_t nr_freed)
{
	struct split_note *note = notes->list[at];

	notes->nr_noted -= note->nr_noted;
	if (note->entry.queue)
		split_entry_end(queues, &note->entry, why, nr_freed);
	free(note);
	notes->nr--;
	memmove(&notes->list[at], &notes->list[at + 1],
		(notes->nr - at) * sizeof(struct split_note *));
}

void split_notes_deinit(struct split_notes *notes, struct split_queues *queues)
{
	while (notes->nr > 0)
		erase(notes, queues, notes->nr - 1, SPLIT_END_CUT, 0);
	free(notes->list);
	split_set_put(queues, notes->set);
	notes->list = NULL;
	notes->room = 0;
	notes->set = NULL;
}

/* The note of @chunk, which may be a new one; NULL without memory. */
static struct split_note *get(struct split_notes *notes, int64_t chunk)
{
	struct split_note *note = find(notes, chunk);

	return note ? note : insert(notes, chunk);
}

void split_notes_learn(struct split_notes *notes, int64_t chunk, int node)
{
	struct split_note *note = get(notes, chunk);

	if (!note)
		return;
	assert(node >= 0 || note->nr_noted == 0);
	note->is_base = node < 0;
	note->node = node;
	note->nr_asked = 0;
}

int split_notes_add(struct split_notes *notes, struct split_queues *queues,
		    struct page_space *space, int64_t from, int64_t to)
{
	int64_t chunk = from / SPLIT_CHUNK, first = chunk * SPLIT_CHUNK;
	struct split_note *note;
	int64_t before;

	assert(space->chunk == SPLIT_CHUNK);
	assert(from < to && (to - 1) / SPLIT_CHUNK == chunk);
	if (!notes->set)
		notes->set = split_set_get(queues, space->subpool);
	note = notes->set ? get(notes, chunk) : NULL;
	if (!note)
		return -ENOMEM;
	if (note->nr_noted == 0)
		set_queue(notes, note, space);
	note->is_base = false;
	before = note->nr_noted;
	mark(note, from - first, to - first, true);
	notes->nr_noted += note->nr_noted - before;
	split_entry_note(queues, &note->entry, note->nr_noted);
	return note->nr_noted == SPLIT_CHUNK;
}

static void drop_part(struct split_notes *notes, struct split_queues *queues, size_t at,
		      int64_t from, int64_t to, enum split_end why)
{
	struct split_note *note = notes->list[at];
	int64_t before = note->nr_noted;

	mark(note, from, to, false);
	notes->nr_noted += note->nr_noted - before;
	if (note->nr_noted == 0 && why != SPLIT_END_REFILLED)
		erase(notes, queues, at, why, 0);
	else if (note->nr_noted == 0 && before > 0)
		split_entry_end(queues, &note->entry, why, 0);
	else if (note->nr_noted != before)
		split_entry_note(queues, &note->entry, note->nr_noted);
}

/* The part of [from, to) in @chunk, counted from its beginning. */
static struct region part_of(int64_t chunk, int64_t from, int64_t to)
{
	int64_t first = chunk * SPLIT_CHUNK, last = first + SPLIT_CHUNK;

	return (struct region){from > first ? from - first : 0,
			       to < last ? to - first : SPLIT_CHUNK};
}

void split_notes_drop(struct split_notes *notes, struct split_queues *queues, int64_t from,
		      int64_t to, enum split_end why)
{
	size_t at = lower_bound(notes, from / SPLIT_CHUNK), nr;
	struct region part;
	int64_t chunk;

	while (at < notes->nr) {
		chunk = notes->list[at]->entry.chunk;
		if (chunk * SPLIT_CHUNK >= to)
			break;
		part = part_of(chunk, from, to);
		nr = notes->nr;
		drop_part(notes, queues, at, part.from, part.to, why);
		at += notes->nr == nr; /* else the next one has come there */
	}
}

/* The first run of a note's bits from @bit on. */
static bool next_run(const struct split_note *note, int64_t bit, struct region *ret_run)
{
	while (bit < SPLIT_CHUNK && !is_set(note, bit))
		bit++;
	if (bit == SPLIT_CHUNK)
		return false;
	ret_run->from = bit;
	while (bit < SPLIT_CHUNK && is_set(note, bit))
		bit++;
	ret_run->to = bit;
	return true;
}

bool split_notes_next(const struct split_notes *notes, int64_t from, int64_t to,
		      struct region *ret_run)
{
	const struct split_note *note;
	struct region run;
	int64_t first;

	for (size_t at = lower_bound(notes, from / SPLIT_CHUNK); at < notes->nr; at++) {
		note = notes->list[at];
		first = note->entry.chunk * SPLIT_CHUNK;
		if (first >= to)
			break;
		if (!next_run(note, from > first ? from - first : 0, &run))
			continue;
		if (first + run.from >= to)
			break;
		ret_run->from = first + run.from;
		ret_run->to = first + run.to < to ? first + run.to : to;
		return true;
	}
	return false;
}

static int punch_run(struct page_space *space, int64_t from, int64_t to)
{
	int r = space->file->backing->ops->punch(space->file, from, to);

	return r < 0 ? r : page_run_absent(space, from, to);
}

static int64_t split_at(struct split_notes *notes, struct split_queues *queues,
			struct page_space *space, size_t at, enum split_end why)
{
	struct split_note *note = notes->list[at];
	int64_t first = note->entry.chunk * SPLIT_CHUNK, nr = 0;
	struct region run = {0, 0};
	int r = 0;

	/* Before the pages go: whoever takes them off what the kernel counts sees too many. */
	notes->nr_noted -= note->nr_noted;
	note->nr_noted = 0;
	while (r >= 0 && next_run(note, run.to, &run)) {
		r = punch_run(space, first + run.from, first + run.to);
		if (r >= 0)
			nr += run.to - run.from;
	}
	erase(notes, queues, at, why, nr);
	return r < 0 ? r : nr;
}

int64_t split_notes_split(struct split_notes *notes, struct split_queues *queues,
			  struct page_space *space, int64_t chunk, enum split_end why)
{
	size_t at = lower_bound(notes, chunk);

	if (at == notes->nr || notes->list[at]->entry.chunk != chunk)
		return 0;
	return split_at(notes, queues, space, at, why);
}

int64_t split_notes_split_all(struct split_notes *notes, struct split_queues *queues,
			      struct page_space *space, enum split_end why)
{
	int64_t nr = 0, r;

	while (notes->nr > 0) {
		r = split_at(notes, queues, space, notes->nr - 1, why);
		if (r > 0)
			nr += r;
	}
	return nr;
}
