/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The page transaction beside the model in page_model.h: random operations on two spaces, on
 * one node with surplus pages and on two. After each of them all counters, every page and every
 * question are compared. TEST_SEED in the environment repeats a run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "page_util.h"

#include "page_model.h"

enum {
	NR_MODELS = 25,
	NR_OPERATIONS = 2500
};

struct run {
	struct page_test test;
	struct model model;
	struct region_map added[NR_SPACES];
	uint64_t seed;
	int64_t nr_pages_taken, nr_failures;
	int space, from, to; /* of the operation */
};

static void run_init(struct run *run, const struct page_config *config, uint64_t seed)
{
	page_test_init(&run->test, config);
	model_init(&run->model, config);
	run->seed = seed;
	run->nr_pages_taken = run->nr_failures = 0;
	for (int i = 0; i < NR_SPACES; i++)
		region_map_init(&run->added[i], run->test.space[i].lock);
}

static struct page_space *get_space(struct run *run)
{
	return &run->test.space[run->space];
}

static bool one_in(struct run *run, uint32_t nr)
{
	return random_below(&run->seed, nr) == 0;
}

static int any_node(struct run *run)
{
	return (int)random_below(&run->seed, (uint32_t)run->model.nr_nodes + 1) - 1;
}

static void do_reserve(struct run *run)
{
	bool added = one_in(run, 2);
	int expected = model_reserve(&run->model, run->space, run->from, run->to, added);

	assert_int_equal(page_reserve(get_space(run), run->from, run->to,
				      added ? &run->added[run->space] : NULL),
			 expected);
	run->nr_failures += expected < 0;
}

static void do_instantiate(struct run *run)
{
	bool fails = one_in(run, 8);
	int answer = run->model.nr_nodes > 1 && one_in(run, 4)
			     ? (int)random_below(&run->seed, MODEL_NODES)
			     : -1;
	int node = any_node(run);
	int expected =
		model_instantiate(&run->model, run->space, run->from, node, fails, answer);

	run->test.populate_error = fails ? -ENOSPC : 0;
	run->test.answer_node = answer;
	assert_int_equal(page_instantiate(get_space(run), run->from, node), expected);
	run->test.populate_error = 0;
	run->nr_failures += expected < 0;
	run->nr_pages_taken += expected > PAGE_PRESENT;
}

static void do_punch(struct run *run)
{
	assert_int_equal(page_punch(get_space(run), run->from, run->to),
			 model_punch(&run->model, run->space, run->from, run->to));
}

static void do_truncate(struct run *run)
{
	if (run->space != 0)
		return;
	if (run->from < run->model.end[0])
		model_forget(&run->model, 0, run->from, MODEL_PAGES);
	run->model.end[0] = run->from;
	assert_int_equal(page_truncate(get_space(run), run->from), 0);
	/* Most of the time there is a file to work with. */
	if (!one_in(run, 3)) {
		run->model.end[0] = MODEL_PAGES;
		assert_int_equal(page_truncate(get_space(run), MODEL_PAGES), 0);
	}
}

static void backing_punch(struct run *run, int from, int to)
{
	assert_int_equal(run->test.mem_ops->punch(run->test.file[run->space], from, to), 0);
}

static void do_forget(struct run *run)
{
	backing_punch(run, run->from, run->to);
	model_forget(&run->model, run->space, run->from, run->to);
	assert_int_equal(page_forget(get_space(run), run->from, run->to), 0);
}

static void do_unreserve_map(struct run *run)
{
	model_unreserve_map(&run->model, run->space);
	page_unreserve_map(get_space(run), &run->added[run->space]);
	assert_int_equal(region_map_count(&run->added[run->space], 0, REGION_END), 0);
}

static void do_discard(struct run *run)
{
	int *page = &run->model.page[run->space][run->from];
	bool keep = one_in(run, 2);

	backing_punch(run, run->from, run->from + 1);
	if (*page >= 0)
		model_free_page(&run->model, page, keep);
	page_discard(get_space(run), run->from, keep);
}

/* The kernel takes the page, or gives it, or neither. */
static void do_reconcile(struct run *run)
{
	int *page = &run->model.page[run->space][run->from], expected = 0;
	bool keep = one_in(run, 2);

	if (run->from >= run->model.end[run->space])
		return;
	if (*page >= 0 && one_in(run, 2)) {
		backing_punch(run, run->from, run->from + 1);
		model_free_page(&run->model, page, keep);
		expected = 1;
	} else if (*page < 0 && one_in(run, 2)) {
		assert_true(run->test.mem_ops->populate(run->test.file[run->space], run->from,
							0) >= 0);
		expected = model_take(&run->model, page, ANY) < 0 ? -ENOSPC : 1;
	}
	assert_int_equal(page_reconcile(get_space(run), run->from, keep), expected);
	if (expected < 0)
		backing_punch(run, run->from, run->from + 1);
}

static void compare_questions(struct run *run)
{
	const int *page = run->model.page[run->space];
	int64_t nr_resv = 0, nr_inst = 0, resv, inst;
	int next_resv = -1, next_inst = -1, hole = run->from;

	for (int i = run->to - 1; i >= run->from; i--) {
		nr_resv += page[i] == RESERVED;
		nr_inst += page[i] >= 0;
		next_resv = page[i] == RESERVED ? i : next_resv;
		next_inst = page[i] >= 0 ? i : next_inst;
	}
	while (hole < MODEL_PAGES && page[hole] >= 0)
		hole++;
	page_space_count(get_space(run), run->from, run->to, &resv, &inst);
	assert_int_equal(resv, nr_resv);
	assert_int_equal(inst, nr_inst);
	assert_int_equal(page_next_reserved(get_space(run), run->from, run->to), next_resv);
	assert_int_equal(page_next_instantiated(get_space(run), run->from, run->to), next_inst);
	assert_int_equal(page_next_hole(get_space(run), run->from), hole);
}

static void compare_pages(struct run *run)
{
	for (int i = 0; i < NR_SPACES; i++) {
		struct page_space *space = &run->test.space[i];
		int got[MODEL_PAGES];

		rwsem_read_lock(space->lock);
		for (int idx = 0; idx < MODEL_PAGES; idx++) {
			got[idx] = page_inst_node_locked(space, idx);
			if (got[idx] < 0 && !region_map_contains_locked(&space->resv, idx))
				got[idx] = ABSENT;
		}
		rwsem_read_unlock(space->lock);
		assert_memory_equal(got, run->model.page[i], sizeof(got));
	}
}

static void compare(struct run *run)
{
	struct page_counters now = counters(&run->test);
	const struct model *model = &run->model;

	check(&run->test);
	compare_pages(run);
	compare_questions(run);
	assert_int_equal(now.subpool.used, model->used);
	assert_int_equal(now.subpool.resv, model->min_resv);
	assert_int_equal(now.pool.resv, model->pool.resv);
	assert_int_equal(now.pool.surplus, model->pool.surplus);
	for (int node = 0; node < model->nr_nodes; node++) {
		assert_int_equal(now.pool.node[node].nr, model->pool.nr[node]);
		assert_int_equal(now.pool.node[node].free, model->pool.free[node]);
	}
}

/* Each as often as it stands here. */
static void (*const operations[])(struct run *run) = {
	do_reserve,     do_reserve,   do_reserve,       do_instantiate, do_instantiate,
	do_instantiate, do_truncate,  do_instantiate,   do_instantiate, do_instantiate,
	do_punch,       do_forget,    do_unreserve_map, do_discard,     do_discard,
	do_reconcile,   do_reconcile,
};

static void random_operation(struct run *run)
{
	run->space = (int)random_below(&run->seed, NR_SPACES);
	run->from = (int)random_below(&run->seed, MODEL_PAGES);
	run->to = run->from + 1 + (int)random_below(&run->seed, 9);
	if (run->to > MODEL_PAGES)
		run->to = MODEL_PAGES;
	operations[random_below(&run->seed, ARRAY_SIZE(operations))](run);
	compare(run);
}

static void random_config(struct page_config *config, uint64_t *seed, int nr_nodes)
{
	*config = (struct page_config){
		.nr_nodes = nr_nodes,
		.nr_mutexes = 1 << random_below(seed, 8),
		.region_lock_global = random_below(seed, 2),
	};
	for (int node = 0; node < nr_nodes; node++)
		config->nr_pages[node] = 5 + random_below(seed, nr_nodes > 1 ? 10 : 25);
	config->min = random_below(seed, 12);
	if (config->min > config->nr_pages[0] + config->nr_pages[1])
		config->min = config->nr_pages[0] + config->nr_pages[1];
	config->max = config->nr_pages[0] + config->nr_pages[1];
	if (nr_nodes == 1)
		config->max += random_below(seed, 8);
	if (random_below(seed, 4) == 0)
		config->max = NONE;
}

static void check_random(int nr_nodes)
{
	uint64_t seed = start_seed();
	int64_t nr_pages_taken = 0, nr_failures = 0;
	struct page_config config;
	struct run run;

	for (int i = 0; i < NR_MODELS; i++) {
		random_config(&config, &seed, nr_nodes);
		run_init(&run, &config, seed);
		for (int j = 0; j < NR_OPERATIONS; j++)
			random_operation(&run);
		nr_pages_taken += run.nr_pages_taken;
		nr_failures += run.nr_failures;
		for (int space = 0; space < NR_SPACES; space++)
			region_map_deinit(&run.added[space]);
		page_test_deinit(&run.test, &config);
	}
	print_message("%" PRId64 " pages taken, %" PRId64 " failures\n", nr_pages_taken,
		      nr_failures);
	/* The operations hit each other. */
	assert_true(nr_pages_taken > NR_MODELS * NR_OPERATIONS / 20);
	assert_true(nr_failures > NR_MODELS * NR_OPERATIONS / 50);
}

static void test_random_one_node(void **state)
{
	check_random(1);
}

static void test_random_two_nodes(void **state)
{
	check_random(2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_one_node),
		cmocka_unit_test(test_random_two_nodes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
