/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Split queues and notes over an in-memory backing: which queue a huge page comes to, in what
 * order it is picked, and any order of noting, dropping and splitting against a plain array of
 * bits, after each step of which every counter is looked at.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fs/backing_mem.h"
#include "fs/node_memory.h"
#include "fs/split_notes.h"
#include "page_util.h"

enum {
	NR_NODES = 2,
	NR_CHUNKS = 6,
	NR_FILES = 4,
	FILE_PAGES = NR_CHUNKS * SPLIT_CHUNK,
};

/* A mount of two nodes, and files whose huge pages are on them in turn. */
struct split_test {
	struct backing_mem mem;
	struct page_core core;
	struct split_queues queues;
	struct subpool tenant[NR_FILES];
	struct backing_file *file[NR_FILES];
	struct page_space space[NR_FILES];
	struct split_notes notes[NR_FILES];
};

static void no_release(struct subpool *subpool)
{
}

static void fill(struct split_test *test, int file)
{
	struct page_space *space = &test->space[file];

	assert_int_equal(page_reserve(space, 0, FILE_PAGES, NULL), FILE_PAGES);
	for (int64_t idx = 0; idx < FILE_PAGES; idx++)
		assert_true(page_instantiate(space, idx, idx / SPLIT_CHUNK % NR_NODES) >= 0);
}

static void set_up(struct split_test *test, enum split_mode mode)
{
	const int64_t node_pages[NR_NODES] = {NR_FILES * FILE_PAGES, NR_FILES * FILE_PAGES};

	memset(test, 0, sizeof(*test));
	backing_mem_init(&test->mem, 4096, NR_NODES);
	test->mem.backing.huge_page_size = SPLIT_CHUNK * 4096;
	assert_int_equal(page_core_init(&test->core, NR_NODES, node_pages,
					NR_NODES * node_pages[0], 0, 64, false),
			 0);
	split_queues_init(&test->queues, mode, NR_NODES);
	for (int i = 0; i < NR_FILES; i++) {
		assert_int_equal(test->mem.backing.ops->file_open(&test->mem.backing, 10 + i,
								  -1, &test->file[i]),
				 0);
		assert_int_equal(test->mem.backing.ops->resize(test->file[i], FILE_PAGES), 0);
		assert_int_equal(page_space_init(&test->space[i], &test->core, test->file[i],
						 10 + i, 0, FILE_PAGES),
				 0);
		subpool_init_tenant(&test->tenant[i], &test->core.subpool, no_release);
		page_space_set_subpool(&test->space[i], &test->tenant[i], true);
		fill(test, i);
	}
}

static void tear_down(struct split_test *test)
{
	for (int i = 0; i < NR_FILES; i++) {
		split_notes_deinit(&test->notes[i], &test->queues);
		test->mem.backing.ops->file_close(test->file[i], true);
		page_space_deinit(&test->space[i]);
	}
	assert_false(split_queues_hold(&test->queues));
	split_queues_deinit(&test->queues);
	for (int i = 0; i < NR_FILES; i++) {
		assert_int_equal(test->tenant[i].nr_refs, 1);
		subpool_unref(&test->tenant[i]);
	}
	page_core_deinit(&test->core);
}

/* Note a part of the huge page @chunk of a file. */
static void note(struct split_test *test, int file, int64_t chunk)
{
	int64_t first = chunk * SPLIT_CHUNK;

	assert_int_equal(split_notes_add(&test->notes[file], &test->queues, &test->space[file],
					 first + 1, first + 101),
			 0);
}

static struct split_counts sum(struct split_test *test)
{
	struct split_counts all = {0}, counts;
	struct split_set **sets;
	int64_t nr = split_sets_read(&test->queues, &sets);

	for (int64_t i = 0; i < nr; i++) {
		for (int node = 0; node < sets[i]->nr_queues; node++) {
			split_queue_read(&sets[i]->queues[node], &counts);
			all.nr_huge += counts.nr_huge;
			all.nr_noted += counts.nr_noted;
			all.nr_deferred += counts.nr_deferred;
			all.nr_freed += counts.nr_freed;
			for (int why = 0; why < NR_SPLIT_ENDS; why++)
				all.nr_ended[why] += counts.nr_ended[why];
		}
	}
	split_sets_free(&test->queues, sets, nr);
	return all;
}

/* ---- which queue ---- */

static void test_queues_by_mode(void **state)
{
	static const struct {
		enum split_mode mode;
		int nr_sets, nr_queues;
	} cases[] = {
		{SPLIT_GLOBAL, 1, 1},
		{SPLIT_TENANT, NR_FILES, 1},
		{SPLIT_TENANT_NODE, NR_FILES, NR_NODES},
	};
	struct split_test test;
	struct split_counts counts;
	struct split_set **sets;
	int64_t nr;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		set_up(&test, cases[i].mode);
		for (int file = 0; file < NR_FILES; file++) {
			note(&test, file, 0); /* on node 0 */
			note(&test, file, 2);
			note(&test, file, 3); /* on node 1 */
		}
		nr = split_sets_read(&test.queues, &sets);
		assert_int_equal(nr, cases[i].nr_sets);
		for (int64_t set = 0; set < nr; set++) {
			assert_int_equal(sets[set]->nr_queues, cases[i].nr_queues);
			split_queue_read(split_set_queue(sets[set], 0), &counts);
			assert_int_equal(counts.nr_huge, cases[i].mode == SPLIT_GLOBAL   ? 12
							 : cases[i].mode == SPLIT_TENANT ? 3
											 : 2);
			split_queue_read(split_set_queue(sets[set], 1), &counts);
			assert_int_equal(counts.nr_huge, cases[i].mode == SPLIT_GLOBAL   ? 12
							 : cases[i].mode == SPLIT_TENANT ? 3
											 : 1);
		}
		split_sets_free(&test.queues, sets, nr);
		tear_down(&test);
	}
}

static void test_pick_in_turn(void **state)
{
	struct split_test test;
	struct split_pick pick;
	struct split_queue *queue;

	set_up(&test, SPLIT_TENANT_NODE);
	note(&test, 0, 4);
	note(&test, 0, 0);
	note(&test, 0, 2);
	note(&test, 0, 4); /* it is in the queue, and keeps its place */
	queue = split_set_queue(test.notes[0].set, 0);
	for (int round = 0; round < 2; round++) {
		static const int64_t order[] = {4, 0, 2};

		for (size_t i = 0; i < ARRAY_SIZE(order); i++) {
			assert_true(split_queue_pick(queue, &pick));
			assert_int_equal(pick.ino, 10);
			assert_int_equal(pick.chunk, order[i]);
			assert_int_equal(pick.node, 0);
		}
	}
	assert_false(split_queue_pick(split_set_queue(test.notes[0].set, 1), &pick));
	/* From the middle. */
	assert_int_equal(split_notes_split(&test.notes[0], &test.queues, &test.space[0], 0,
					   SPLIT_END_SPLIT),
			 100);
	assert_int_equal(split_notes_split(&test.notes[0], &test.queues, &test.space[0], 0,
					   SPLIT_END_SPLIT),
			 0);
	assert_true(split_queue_pick(queue, &pick));
	assert_int_equal(pick.chunk, 4);
	assert_true(split_queue_pick(queue, &pick));
	assert_int_equal(pick.chunk, 2);
	tear_down(&test);
}

/* A tenant's set stays for its counters, and goes with the tenant. */
static void test_sets_end_with_tenants(void **state)
{
	struct split_test test;
	struct split_set **sets;
	int64_t nr;

	set_up(&test, SPLIT_TENANT);
	note(&test, 0, 0);
	note(&test, 1, 0);
	split_notes_deinit(&test.notes[0], &test.queues);
	split_notes_deinit(&test.notes[1], &test.queues);
	nr = split_sets_read(&test.queues, &sets);
	assert_int_equal(nr, 2);
	split_sets_free(&test.queues, sets, nr);
	/* Tenant 1 goes: its file, and then the directory. */
	test.mem.backing.ops->file_close(test.file[1], true);
	page_space_deinit(&test.space[1]);
	subpool_unref(&test.tenant[1]);
	assert_int_equal(test.tenant[1].nr_refs, 1);
	nr = split_sets_read(&test.queues, &sets);
	assert_int_equal(nr, 1);
	assert_ptr_equal(sets[0]->subpool, &test.tenant[0]);
	split_sets_free(&test.queues, sets, nr);
	/* As tear_down() wants it. */
	assert_int_equal(test.tenant[1].nr_refs, 0);
	test.mem.backing.ops->file_open(&test.mem.backing, 11, -1, &test.file[1]);
	assert_int_equal(
		page_space_init(&test.space[1], &test.core, test.file[1], 11, 0, FILE_PAGES),
		0);
	subpool_init_tenant(&test.tenant[1], &test.core.subpool, no_release);
	tear_down(&test);
}

static void test_pressed(void **state)
{
	struct split_test test;

	set_up(&test, SPLIT_TENANT_NODE);
	note(&test, 0, 0);
	assert_false(split_set_press(&test.queues, &test.tenant[1]));
	assert_true(split_set_press(&test.queues, &test.tenant[0]));
	assert_ptr_equal(test.notes[0].set->pressed_by, &test.tenant[0]);
	tear_down(&test);
}

/* ---- the notes of one file, against an array of bits ---- */

struct model {
	bool noted[FILE_PAGES], there[FILE_PAGES];
};

static void check_notes(struct split_test *test, const struct model *model)
{
	const struct split_notes *notes = &test->notes[0];
	struct region run = {0, 0};
	struct split_counts counts = sum(test);
	struct page_space_counts space;
	int64_t nr = 0, nr_huge = 0, nr_there = 0, idx = 0;

	for (int64_t chunk = 0; chunk < NR_CHUNKS; chunk++) {
		bool any = false;

		for (int64_t i = chunk * SPLIT_CHUNK; i < (chunk + 1) * SPLIT_CHUNK; i++) {
			any |= model->noted[i];
			nr += model->noted[i];
			nr_there += model->there[i];
		}
		nr_huge += any;
		assert_int_equal(split_notes_have(notes, chunk), any);
	}
	assert_int_equal(notes->nr_noted, nr);
	assert_int_equal(counts.nr_noted, nr);
	assert_int_equal(counts.nr_huge, nr_huge);
	while (split_notes_next(notes, run.to, FILE_PAGES, &run)) {
		for (; idx < run.from; idx++)
			assert_false(model->noted[idx]);
		for (; idx < run.to; idx++)
			assert_true(model->noted[idx]);
	}
	for (; idx < FILE_PAGES; idx++)
		assert_false(model->noted[idx]);
	page_space_read(&test->space[0], &space);
	assert_int_equal(space.instantiated, nr_there);
	assert_int_equal(space.resv + space.instantiated, FILE_PAGES);
}

static bool is_whole(const struct model *model, int64_t chunk, const bool *bits)
{
	for (int64_t i = chunk * SPLIT_CHUNK; i < (chunk + 1) * SPLIT_CHUNK; i++)
		if (!bits[i])
			return false;
	return true;
}

/* A punched huge page is made whole again, as nothing else could be noted in it. */
static void refill(struct split_test *test, struct model *model, int64_t chunk)
{
	for (int64_t i = chunk * SPLIT_CHUNK; i < (chunk + 1) * SPLIT_CHUNK; i++) {
		if (model->there[i])
			continue;
		assert_true(page_instantiate(&test->space[0], i, (int)(chunk % NR_NODES)) >= 0);
		model->there[i] = true;
	}
}

static void step(struct split_test *test, struct model *model, uint64_t *seed)
{
	struct split_notes *notes = &test->notes[0];
	int64_t chunk = random_below(seed, NR_CHUNKS), first = chunk * SPLIT_CHUNK;
	int64_t from = random_below(seed, SPLIT_CHUNK), nr, r;
	int64_t len = 1 + random_below(seed, SPLIT_CHUNK - (uint32_t)from), end;

	switch (random_below(seed, 4)) {
	case 0:
	case 1:
		if (!split_notes_have(notes, chunk))
			refill(test, model, chunk);
		for (int64_t i = from; i < from + len; i++)
			model->noted[first + i] = true;
		assert_int_equal(split_notes_add(notes, &test->queues, &test->space[0],
						 first + from, first + from + len),
				 is_whole(model, chunk, model->noted));
		break;
	case 2: /* over several huge pages */
		from += first;
		end = from + random_below(seed, 2 * SPLIT_CHUNK);
		if (end > FILE_PAGES)
			end = FILE_PAGES;
		split_notes_drop(notes, &test->queues, from, end, SPLIT_END_REFILLED);
		for (int64_t i = from; i < end; i++)
			model->noted[i] = false;
		break;
	default:
		nr = 0;
		for (int64_t i = first; i < first + SPLIT_CHUNK; i++) {
			nr += model->noted[i];
			model->there[i] &= !model->noted[i];
			model->noted[i] = false;
		}
		r = split_notes_split(notes, &test->queues, &test->space[0], chunk,
				      SPLIT_END_SPLIT);
		assert_int_equal(r, nr);
	}
}

static void test_random(void **state)
{
	static struct model model;
	uint64_t seed = start_seed();
	struct split_counts counts;
	struct split_test test;

	for (int mode = SPLIT_GLOBAL; mode <= SPLIT_TENANT_NODE; mode++) {
		set_up(&test, mode);
		memset(&model, 0, sizeof(model));
		memset(model.there, true, sizeof(model.there));
		for (int i = 0; i < 2000; i++) {
			step(&test, &model, &seed);
			check_notes(&test, &model);
		}
		counts = sum(&test);
		assert_int_equal(counts.nr_deferred - (uint64_t)counts.nr_huge,
				 counts.nr_ended[SPLIT_END_SPLIT] +
					 counts.nr_ended[SPLIT_END_REFILLED]);
		split_notes_split_all(&test.notes[0], &test.queues, &test.space[0],
				      SPLIT_END_SETTLED);
		assert_int_equal(test.notes[0].nr_noted, 0);
		assert_int_equal(sum(&test).nr_noted, 0);
		tear_down(&test);
	}
}

/* What cannot be punched stays, and is no hole any more. */
static int fail_punch(struct backing_file *file, int64_t from, int64_t to)
{
	return -EIO;
}

static void test_punch_fails(void **state)
{
	struct page_space_counts counts;
	struct backing_ops ops;
	struct split_test test;

	set_up(&test, SPLIT_TENANT_NODE);
	ops = *test.mem.backing.ops;
	note(&test, 0, 1);
	ops.punch = fail_punch;
	test.mem.backing.ops = &ops;
	assert_int_equal(split_notes_split(&test.notes[0], &test.queues, &test.space[0], 1,
					   SPLIT_END_SPLIT),
			 -EIO);
	assert_int_equal(test.notes[0].nr_noted, 0);
	assert_int_equal(sum(&test).nr_huge, 0);
	assert_int_equal(sum(&test).nr_freed, 0);
	page_space_read(&test.space[0], &counts);
	assert_int_equal(counts.instantiated, FILE_PAGES);
	tear_down(&test);
}

/* What is known of a huge page stays when its holes were filled, and goes when it goes. */
static void test_knowledge(void **state)
{
	struct split_notes *notes;
	struct split_pick pick;
	struct split_test test;

	set_up(&test, SPLIT_TENANT_NODE);
	notes = &test.notes[0];
	assert_int_equal(split_notes_know(notes, 1), SPLIT_UNKNOWN);
	split_notes_learn(notes, 1, -1);
	split_notes_learn(notes, 2, 1); /* where the counters say 0 */
	/* Nothing is noted, so nothing is queued, whatever is written. */
	split_notes_drop(notes, &test.queues, 0, FILE_PAGES, SPLIT_END_REFILLED);
	assert_int_equal(split_notes_know(notes, 1), SPLIT_BASE);
	assert_int_equal(split_notes_know(notes, 2), SPLIT_WHOLE);
	assert_false(split_notes_have(notes, 2));
	assert_int_equal(sum(&test).nr_deferred, 0);
	note(&test, 0, 2);
	assert_true(split_queue_pick(split_set_queue(notes->set, 1), &pick));
	assert_int_equal(pick.chunk, 2);
	assert_int_equal(pick.node, 1);
	split_notes_drop(notes, &test.queues, 0, FILE_PAGES, SPLIT_END_REFILLED);
	assert_int_equal(split_notes_know(notes, 2), SPLIT_WHOLE);
	assert_int_equal(sum(&test).nr_ended[SPLIT_END_REFILLED], 1);
	/* Base pages may have been collapsed: now and then one has to look. */
	for (int i = 0; i < 1000 && split_notes_know(notes, 1) == SPLIT_BASE; i++)
		;
	split_notes_learn(notes, 1, 0);
	assert_int_equal(split_notes_know(notes, 1), SPLIT_WHOLE);
	split_notes_drop(notes, &test.queues, SPLIT_CHUNK, 2 * SPLIT_CHUNK, SPLIT_END_EMPTIED);
	assert_int_equal(split_notes_know(notes, 1), SPLIT_UNKNOWN);
	assert_int_equal(
		split_notes_split(notes, &test.queues, &test.space[0], 2, SPLIT_END_SETTLED),
		0);
	assert_int_equal(split_notes_know(notes, 2), SPLIT_UNKNOWN);
	tear_down(&test);
}

/* ---- threads: files of their own, in queues that they share ---- */

struct worker {
	struct split_test *test;
	int file;
	uint64_t seed;
};

static void *work(void *data)
{
	struct worker *worker = data;
	struct split_test *test = worker->test;
	struct split_notes *notes = &test->notes[worker->file];
	struct page_space *space = &test->space[worker->file];
	struct split_pick pick;

	for (int i = 0; i < 20000; i++) {
		int64_t chunk = random_below(&worker->seed, NR_CHUNKS);
		int64_t first = chunk * SPLIT_CHUNK;

		if (random_below(&worker->seed, 3)) {
			assert_int_equal(split_notes_add(notes, &test->queues, space, first + 1,
							 first + 11),
					 0);
		} else {
			split_notes_drop(notes, &test->queues, first, first + SPLIT_CHUNK,
					 SPLIT_END_REFILLED);
		}
		/* A name of anybody's, who may be taking it away at this moment. */
		if (split_queue_pick(split_set_queue(notes->set, 0), &pick))
			assert_true(pick.ino >= 10 && pick.ino < 10 + NR_FILES &&
				    pick.chunk >= 0 && pick.chunk < NR_CHUNKS);
	}
	return NULL;
}

static void test_threads(void **state)
{
	struct worker workers[NR_FILES];
	pthread_t threads[NR_FILES];
	uint64_t seed = start_seed();
	struct split_test test;
	int64_t nr;

	for (int mode = SPLIT_GLOBAL; mode <= SPLIT_TENANT_NODE; mode++) {
		set_up(&test, mode);
		for (int i = 0; i < NR_FILES; i++) {
			note(&test, i, 0); /* so that it has a set */
			workers[i] = (struct worker){&test, i, seed + (uint64_t)i};
			assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]),
					 0);
		}
		nr = 0;
		for (int i = 0; i < NR_FILES; i++) {
			pthread_join(threads[i], NULL);
			nr += test.notes[i].nr_noted;
		}
		assert_int_equal(sum(&test).nr_noted, nr);
		tear_down(&test);
	}
}

/* ---- a node's memory ---- */

static void test_node_memory(void **state)
{
	char text[] = "Node 1 MemTotal:       1000 kB\nNode 1 MemFree:        100 kB\n"
		      "Node 1 MemUsed:        900 kB\nNode 1 Active(anon):   500 kB\n"
		      "Node 1 Active(file):   30 kB\nNode 1 Inactive(file): 20 kB\n"
		      "Node 1 SReclaimable:   7 kB\nNode 1 HugePages_Free: 3\n";
	char none[] = "Node 2 MemTotal: 0 kB\nNode 2 MemFree: 0 kB\n",
	     bad[] = "Node 1 MemFree: 5 kB\n";
	struct node_memory memory;

	assert_int_equal(node_memory_parse(text, &memory), 0);
	assert_int_equal(memory.total_kb, 1000);
	assert_int_equal(memory.available_kb, 157);
	assert_int_equal(node_memory_parse(none, &memory), 0);
	assert_int_equal(memory.total_kb, 0);
	assert_int_equal(node_memory_parse(bad, &memory), -EBADMSG);
	assert_int_equal(node_memory_read(POOL_MAX_NODES, &memory), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_queues_by_mode),
		cmocka_unit_test(test_pick_in_turn),
		cmocka_unit_test(test_sets_end_with_tenants),
		cmocka_unit_test(test_pressed),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_punch_fails),
		cmocka_unit_test(test_knowledge),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_node_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
