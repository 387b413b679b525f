/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Pool: each function with its errors, surplus pages, nodes; then random operations beside the
 * model of pool_model.h; then threads.
 *
 * TEST_SEED in the environment repeats a random run.
 */
#include "fs/pool.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "pool_model.h"

#define ABSURD (INT64_MAX - 1)

static void assert_counts(struct pool *pool, int64_t nr, int64_t free_pages, int64_t resv,
			  int64_t surplus)
{
	struct pool_counts counts;

	pool_read(pool, &counts);
	assert_int_equal(counts.nr, nr);
	assert_int_equal(counts.free, free_pages);
	assert_int_equal(counts.resv, resv);
	assert_int_equal(counts.surplus, surplus);
}

static void assert_node(struct pool *pool, int node, int64_t nr, int64_t free_pages,
			int64_t surplus)
{
	struct pool_counts counts;

	pool_read(pool, &counts);
	assert_int_equal(counts.node[node].nr, nr);
	assert_int_equal(counts.node[node].free, free_pages);
	assert_int_equal(counts.node[node].surplus, surplus);
}

/* Take a page and compare where it came from; returns its node. */
static int take(struct pool *pool, int node, bool reserved, enum pool_source expected)
{
	enum pool_source source;
	int r = pool_take_page(pool, node, reserved, &source);

	assert_true(r >= 0);
	assert_int_equal(source, expected);
	return r;
}

static void assert_exhausted(struct pool *pool, int node)
{
	enum pool_source source = (enum pool_source)77;

	assert_int_equal(pool_take_page(pool, node, false, &source), -ENOMEM);
	assert_int_equal(source, 77);
}

static void test_a_new_pool_is_empty(void **state)
{
	struct pool pool;
	struct pool_counts counts;

	pool_init(&pool, 3, 42);
	pool_read(&pool, &counts);
	assert_int_equal(counts.nr_nodes, 3);
	assert_int_equal(counts.overcommit, 42);
	assert_counts(&pool, 0, 0, 0, 0);
	pool_deinit(&pool);
	pool_deinit(NULL);

	pool_init(&pool, POOL_MAX_NODES, 0);
	assert_int_equal(pool_resize(&pool, POOL_MAX_NODES - 1, 5), 0);
	assert_node(&pool, POOL_MAX_NODES - 1, 5, 5, 0);
	pool_deinit(&pool);
}

static void test_resize(void **state)
{
	struct pool pool;

	pool_init(&pool, 2, 10);
	assert_int_equal(pool_resize(&pool, 0, 8), 0);
	assert_int_equal(pool_resize(&pool, 1, 4), 0);
	assert_int_equal(pool_resize(&pool, 1, 0), 0);
	assert_counts(&pool, 12, 12, 0, 0);

	/* No such node. */
	assert_int_equal(pool_resize(&pool, 2, 1), -EINVAL);
	assert_int_equal(pool_resize(&pool, POOL_ANY_NODE, 1), -EINVAL);

	/* Not more than the node has, though the pool has them. */
	assert_int_equal(pool_resize(&pool, 1, -5), -EBUSY);

	/* Not what is reserved: any two of twelve may go, whichever the node. */
	assert_int_equal(pool_reserve(&pool, 10), 0);
	assert_int_equal(pool_resize(&pool, 0, -3), -EBUSY);
	assert_int_equal(pool_resize(&pool, 1, -3), -EBUSY);
	assert_counts(&pool, 12, 12, 10, 0);
	assert_int_equal(pool_resize(&pool, 1, -2), 0);
	assert_int_equal(pool_resize(&pool, 1, -1), -EBUSY);
	assert_node(&pool, 1, 2, 2, 0);
	pool_unreserve(&pool, 10);

	/* Not what is in use. */
	assert_int_equal(take(&pool, 1, false, POOL_FROM_FREE), 1);
	assert_int_equal(pool_resize(&pool, 1, -2), -EBUSY);
	assert_int_equal(pool_resize(&pool, 1, -1), 0);
	assert_node(&pool, 1, 1, 0, 0);
	pool_put_page(&pool, 1, false);

	assert_int_equal(pool_resize(&pool, 0, -8), 0);
	assert_int_equal(pool_resize(&pool, 1, -1), 0);
	assert_counts(&pool, 0, 0, 0, 0);
	pool_deinit(&pool);
}

static void test_resize_leaves_surplus_pages(void **state)
{
	struct pool pool;

	/* Two surplus pages, one of them in use, and a persistent one. */
	pool_init(&pool, 1, 2);
	assert_int_equal(pool_reserve(&pool, 2), 0);
	assert_int_equal(take(&pool, 0, true, POOL_FROM_RESERVATION), 0);
	assert_int_equal(pool_resize(&pool, 0, 1), 0);
	assert_counts(&pool, 3, 2, 1, 2);
	assert_int_equal(take(&pool, 0, false, POOL_FROM_FREE), 0);
	pool_unreserve(&pool, 1);
	assert_counts(&pool, 2, 0, 0, 1);

	/* One persistent page and one surplus one, in use. */
	assert_int_equal(pool_resize(&pool, 0, -1), -EBUSY);
	pool_put_page(&pool, 0, false);
	assert_counts(&pool, 1, 0, 0, 0);
	pool_put_page(&pool, 0, false);
	assert_counts(&pool, 1, 1, 0, 0);
	assert_int_equal(pool_resize(&pool, 0, -1), 0);
	pool_deinit(&pool);
}

static void test_absurd_numbers(void **state)
{
	struct pool pool;

	pool_init(&pool, 3, INT64_MAX);
	assert_int_equal(pool_resize(&pool, 0, INT64_MIN), -EBUSY);
	assert_int_equal(pool_resize(&pool, 0, -INT64_MAX), -EBUSY);
	assert_int_equal(pool_resize(&pool, 0, 10), 0);
	assert_int_equal(pool_resize(&pool, 1, INT64_MAX - 9), -EOVERFLOW);
	assert_int_equal(pool_resize(&pool, 0, INT64_MAX), -EOVERFLOW);
	assert_int_equal(pool_reserve(&pool, 10), 0);
	assert_int_equal(pool_reserve(&pool, INT64_MAX), -ENOMEM);
	assert_int_equal(pool_reserve(&pool, INT64_MAX - 9), -ENOMEM);
	assert_counts(&pool, 10, 10, 10, 0);

	/* All that there can be, in no time, and shared out evenly. */
	assert_int_equal(pool_reserve(&pool, INT64_MAX - 10), 0);
	assert_counts(&pool, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX - 10);
	assert_node(&pool, 2, INT64_MAX / 3 - 3, INT64_MAX / 3 - 3, INT64_MAX / 3 - 3);
	assert_int_equal(pool_reserve(&pool, 1), -ENOMEM);
	assert_exhausted(&pool, 0);
	assert_int_equal(pool_resize(&pool, 0, 1), -EOVERFLOW);
	pool_unreserve(&pool, INT64_MAX);
	assert_counts(&pool, 10, 10, 0, 0);
	pool_deinit(&pool);

	pool_init(&pool, 1, 0);
	assert_int_equal(pool_resize(&pool, 0, ABSURD), 0);
	assert_int_equal(pool_reserve(&pool, ABSURD), 0);
	assert_int_equal(pool_reserve(&pool, 1), -ENOMEM);
	pool_unreserve(&pool, ABSURD);
	assert_int_equal(pool_resize(&pool, 0, -ABSURD), 0);
	pool_deinit(&pool);
}

static void test_reserve(void **state)
{
	struct pool pool;

	pool_init(&pool, 2, 0);
	assert_int_equal(pool_reserve(&pool, 0), 0);
	assert_int_equal(pool_reserve(&pool, 1), -ENOMEM);
	assert_int_equal(pool_resize(&pool, 0, 3), 0);
	assert_int_equal(pool_resize(&pool, 1, 3), 0);
	assert_int_equal(pool_reserve(&pool, 7), -ENOMEM);
	assert_counts(&pool, 6, 6, 0, 0);
	assert_int_equal(pool_reserve(&pool, 4), 0);
	assert_int_equal(pool_reserve(&pool, 3), -ENOMEM);
	assert_int_equal(pool_reserve(&pool, 2), 0);
	assert_counts(&pool, 6, 6, 6, 0);
	pool_unreserve(&pool, 0);
	pool_unreserve(&pool, 6);
	assert_counts(&pool, 6, 6, 0, 0);
	pool_deinit(&pool);
}

static void test_reserve_makes_surplus_pages(void **state)
{
	struct pool pool;

	pool_init(&pool, 3, 5);
	assert_int_equal(pool_resize(&pool, 1, 2), 0);
	assert_int_equal(pool_reserve(&pool, 8), -ENOMEM);
	assert_counts(&pool, 2, 2, 0, 0);

	/* Two that are there, five that are made: in turn, and the next turn begins after them.
	 */
	assert_int_equal(pool_reserve(&pool, 7), 0);
	assert_counts(&pool, 7, 7, 7, 5);
	assert_node(&pool, 0, 2, 2, 2);
	assert_node(&pool, 1, 4, 4, 2);
	assert_node(&pool, 2, 1, 1, 1);
	assert_int_equal(pool_reserve(&pool, 1), -ENOMEM);

	/* With each reservation a surplus page, as long as there are any. */
	pool_unreserve(&pool, 2);
	assert_counts(&pool, 5, 5, 5, 3);
	assert_node(&pool, 0, 1, 1, 1);
	assert_node(&pool, 1, 3, 3, 1);
	assert_node(&pool, 2, 1, 1, 1);
	pool_unreserve(&pool, 5);
	assert_counts(&pool, 2, 2, 0, 0);
	pool_deinit(&pool);
}

static void test_unreserve_spares_surplus_pages_in_use(void **state)
{
	struct pool pool;

	/* Node 0: two surplus pages, one in use; node 1: two surplus pages. */
	pool_init(&pool, 2, 4);
	assert_int_equal(pool_reserve(&pool, 4), 0);
	assert_int_equal(take(&pool, 0, true, POOL_FROM_RESERVATION), 0);
	pool_unreserve(&pool, 3);
	assert_counts(&pool, 1, 0, 0, 1);
	assert_node(&pool, 0, 1, 0, 1);
	pool_put_page(&pool, 0, false);
	assert_counts(&pool, 0, 0, 0, 0);
	pool_deinit(&pool);
}

static void test_take_free_pages(void **state)
{
	struct pool pool;

	pool_init(&pool, 3, 0);
	assert_exhausted(&pool, POOL_ANY_NODE);
	assert_int_equal(pool_resize(&pool, 0, 2), 0);
	assert_int_equal(pool_resize(&pool, 2, 2), 0);

	/* The asked node, and once it has none the next one that has. */
	assert_int_equal(take(&pool, 2, false, POOL_FROM_FREE), 2);
	assert_int_equal(take(&pool, 1, false, POOL_FROM_FREE), 2);
	assert_int_equal(take(&pool, 1, false, POOL_FROM_FREE), 0);
	assert_int_equal(take(&pool, 2, false, POOL_FROM_FREE), 0);
	assert_counts(&pool, 4, 0, 0, 0);
	for (int node = POOL_ANY_NODE; node < 3; node++)
		assert_exhausted(&pool, node);

	pool_put_page(&pool, 2, false);
	pool_put_page(&pool, 0, false);
	pool_put_page(&pool, 2, false);
	pool_put_page(&pool, 0, false);
	assert_counts(&pool, 4, 4, 0, 0);

	/* Any node: in turn, passing over the empty one. */
	assert_int_equal(take(&pool, POOL_ANY_NODE, false, POOL_FROM_FREE), 0);
	assert_int_equal(take(&pool, POOL_ANY_NODE, false, POOL_FROM_FREE), 2);
	assert_int_equal(take(&pool, POOL_ANY_NODE, false, POOL_FROM_FREE), 0);
	assert_int_equal(take(&pool, POOL_ANY_NODE, false, POOL_FROM_FREE), 2);
	for (int i = 0; i < 4; i++)
		pool_put_page(&pool, i / 2 * 2, false);
	pool_deinit(&pool);
}

static void test_take_leaves_reserved_pages(void **state)
{
	struct pool pool;

	pool_init(&pool, 2, 1);
	assert_int_equal(pool_resize(&pool, 0, 2), 0);
	assert_int_equal(pool_resize(&pool, 1, 1), 0);
	assert_int_equal(pool_reserve(&pool, 2), 0);

	/* Three free, two of them reserved: one may go, then a surplus page is made. */
	assert_int_equal(take(&pool, 0, false, POOL_FROM_FREE), 0);
	assert_counts(&pool, 3, 2, 2, 0);
	assert_int_equal(take(&pool, 1, false, POOL_FROM_SURPLUS), 1);
	assert_counts(&pool, 4, 2, 2, 1);
	assert_node(&pool, 1, 2, 1, 1);
	assert_exhausted(&pool, 0);
	assert_exhausted(&pool, 1);
	assert_counts(&pool, 4, 2, 2, 1);

	/* Who has reserved gets one, from the other node if need be. */
	assert_int_equal(take(&pool, 0, true, POOL_FROM_RESERVATION), 0);
	assert_int_equal(take(&pool, 0, true, POOL_FROM_RESERVATION), 1);
	assert_counts(&pool, 4, 0, 0, 1);

	pool_put_page(&pool, 1, false);
	assert_node(&pool, 1, 1, 0, 0);
	pool_put_page(&pool, 1, false);
	pool_put_page(&pool, 0, false);
	pool_put_page(&pool, 0, false);
	assert_counts(&pool, 3, 3, 0, 0);
	pool_deinit(&pool);
}

static void test_surplus_pages_for_any_node_go_in_turn(void **state)
{
	struct pool pool;

	pool_init(&pool, 3, 7);
	for (int i = 0; i < 7; i++)
		assert_int_equal(take(&pool, POOL_ANY_NODE, false, POOL_FROM_SURPLUS), i % 3);
	assert_exhausted(&pool, POOL_ANY_NODE);
	assert_counts(&pool, 7, 0, 0, 7);
	for (int i = 0; i < 7; i++)
		pool_put_page(&pool, i % 3, false);
	assert_counts(&pool, 0, 0, 0, 0);
	pool_deinit(&pool);
}

static void test_put_restores_a_reservation(void **state)
{
	struct pool pool;

	pool_init(&pool, 1, 1);
	assert_int_equal(pool_resize(&pool, 0, 1), 0);
	assert_int_equal(pool_reserve(&pool, 2), 0);
	take(&pool, 0, true, POOL_FROM_RESERVATION);
	assert_counts(&pool, 2, 1, 1, 1);

	/* The surplus page stays, or there would be a reservation without a page. */
	pool_put_page(&pool, 0, true);
	assert_counts(&pool, 2, 2, 2, 1);

	take(&pool, 0, true, POOL_FROM_RESERVATION);
	pool_put_page(&pool, 0, false);
	assert_counts(&pool, 1, 1, 1, 0);
	take(&pool, 0, true, POOL_FROM_RESERVATION);
	pool_put_page(&pool, 0, true);
	assert_counts(&pool, 1, 1, 1, 0);
	pool_unreserve(&pool, 1);
	pool_deinit(&pool);
}

static void test_move_page(void **state)
{
	struct pool pool;

	pool_init(&pool, 3, 1);
	assert_int_equal(pool_resize(&pool, 0, 2), 0);
	assert_int_equal(pool_resize(&pool, 1, 1), 0);

	/* Node 1 had one: the page of node 0 is still there. */
	take(&pool, 0, false, POOL_FROM_FREE);
	pool_move_page(&pool, 0, 1);
	assert_node(&pool, 0, 2, 2, 0);
	assert_node(&pool, 1, 1, 0, 0);

	/* To where it is already. */
	take(&pool, 0, false, POOL_FROM_FREE);
	pool_move_page(&pool, 0, 0);
	assert_node(&pool, 0, 2, 1, 0);

	/* Node 2 had none: one was made, and node 0 has one less. */
	pool_move_page(&pool, 0, 2);
	assert_node(&pool, 0, 1, 1, 0);
	assert_node(&pool, 2, 1, 0, 0);
	assert_counts(&pool, 3, 1, 0, 0);

	/* A surplus page takes that with it. */
	take(&pool, 0, false, POOL_FROM_FREE);
	take(&pool, 0, false, POOL_FROM_SURPLUS);
	pool_move_page(&pool, 0, 2);
	assert_node(&pool, 0, 1, 0, 0);
	assert_node(&pool, 2, 2, 0, 1);

	pool_put_page(&pool, 2, false);
	pool_put_page(&pool, 2, false);
	pool_put_page(&pool, 1, false);
	pool_put_page(&pool, 0, false);
	assert_counts(&pool, 3, 3, 0, 0);
	pool_deinit(&pool);
}

/* Run @misuse in a child; it has to fail an assertion. */
static void assert_aborts(void (*misuse)(struct pool *pool))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		struct pool pool;

		/* The sanitizers' and cmocka's handlers would turn it into something else. */
		signal(SIGABRT, SIG_DFL);
		close(STDERR_FILENO);
		pool_init(&pool, 2, 1);
		pool_resize(&pool, 0, 1);
		misuse(&pool);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGABRT);
}

static void put_what_was_not_taken(struct pool *pool)
{
	pool_put_page(pool, 0, false);
}

static void put_on_another_node(struct pool *pool)
{
	enum pool_source source;

	pool_take_page(pool, 0, false, &source);
	pool_put_page(pool, 1, false);
}

static void unreserve_what_was_not_reserved(struct pool *pool)
{
	pool_unreserve(pool, 1);
}

static void take_what_was_not_reserved(struct pool *pool)
{
	enum pool_source source;

	pool_take_page(pool, 0, true, &source);
}

static void deinit_in_use(struct pool *pool)
{
	enum pool_source source;

	pool_take_page(pool, 0, false, &source);
	pool_deinit(pool);
}

static void test_misuse_is_caught(void **state)
{
#ifndef NDEBUG
	assert_aborts(put_what_was_not_taken);
	assert_aborts(put_on_another_node);
	assert_aborts(unreserve_what_was_not_reserved);
	assert_aborts(take_what_was_not_reserved);
	assert_aborts(deinit_in_use);
#else
	skip();
#endif
}

static uint32_t random_below(uint64_t *seed, uint32_t limit)
{
	*seed = *seed * 6364136223846793005U + 1442695040888963407U;
	return (uint32_t)(((*seed >> 32) * limit) >> 32);
}

static void random_operation(struct model *model, struct pool *pool, uint64_t *seed)
{
	int node = (int)random_below(seed, (uint32_t)model->nr_nodes);
	int nr_used = model_count(model, node, false) - model_count(model, node, true);
	int nr = (int)random_below(seed, 12);
	enum pool_source source = POOL_FROM_FREE;
	bool flag = random_below(seed, 2);
	int r;

	switch (random_below(seed, 8)) {
	case 0:
		nr = model_count(model, -1, false) < MODEL_PAGES / 2 ? nr - 6 : -nr;
		assert_int_equal(pool_resize(pool, node, nr), model_resize(model, node, nr));
		break;
	case 1:
		assert_int_equal(pool_reserve(pool, nr), model_reserve(model, nr));
		break;
	case 2:
		nr = nr < model->resv ? nr : model->resv;
		pool_unreserve(pool, nr);
		model_unreserve(model, nr);
		break;
	case 3:
	case 4:
		flag = flag && model->resv > 0;
		node = nr < 3 ? POOL_ANY_NODE : node;
		r = pool_take_page(pool, node, flag, &source);
		model_check_take(model, node, flag, r, source);
		break;
	default:
		if (nr_used == 0)
			break;
		flag = flag && nr < 6;
		pool_put_page(pool, node, flag);
		model_put(model, node, flag);
		break;
	}
}

static uint64_t start_seed(void)
{
	const char *text = getenv("TEST_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 0) : (uint64_t)time(NULL);

	print_message("TEST_SEED=%llu\n", (unsigned long long)seed);
	return seed;
}

static void test_random_operations_beside_a_model(void **state)
{
	enum {
		NR_POOLS = 50,
		NR_OPERATIONS = 5000
	};
	static struct model model;
	uint64_t seed = start_seed();

	for (int i = 0; i < NR_POOLS; i++) {
		struct pool pool;

		memset(&model, 0, sizeof(model));
		model.nr_nodes = 1 + i % MODEL_NODES;
		model.overcommit = i % 7 == 0 ? 0 : (int)random_below(&seed, 60);
		pool_init(&pool, model.nr_nodes, model.overcommit);
		for (int j = 0; j < NR_OPERATIONS; j++) {
			random_operation(&model, &pool, &seed);
			model_compare(&model, &pool);
		}

		/* All back: what is left is persistent. */
		for (int node = 0; node < model.nr_nodes; node++) {
			while (model_count(&model, node, false) >
			       model_count(&model, node, true)) {
				pool_put_page(&pool, node, false);
				model_put(&model, node, false);
			}
		}
		pool_unreserve(&pool, model.resv);
		model_unreserve(&model, model.resv);
		model_compare(&model, &pool);
		pool_deinit(&pool);
	}
}

enum {
	NR_THREADS = 4,
	NR_ROUNDS = 20000,
	THREAD_PAGES = 16,
	THREAD_NODES = 4
};

struct hammer {
	struct pool *pool;
	uint64_t seed;
	int nr_resv, nr_pages, page[THREAD_PAGES];
};

static void hammer_once(struct hammer *hammer)
{
	int node = (int)random_below(&hammer->seed, THREAD_NODES + 1) - 1;
	enum pool_source source;
	int r;

	switch (random_below(&hammer->seed, 5)) {
	case 0:
		if (pool_reserve(hammer->pool, 3) == 0)
			hammer->nr_resv += 3;
		break;
	case 1:
		if (hammer->nr_resv > 0) {
			pool_unreserve(hammer->pool, 1);
			hammer->nr_resv--;
		}
		break;
	case 2:
	case 3:
		if (hammer->nr_pages == THREAD_PAGES)
			break;
		r = pool_take_page(hammer->pool, node, hammer->nr_resv > 0, &source);
		/* Who has a reservation gets a page, whatever the others do. */
		assert(r >= 0 || hammer->nr_resv == 0);
		hammer->nr_resv -= hammer->nr_resv > 0;
		if (r >= 0)
			hammer->page[hammer->nr_pages++] = r;
		break;
	default:
		if (hammer->nr_pages > 0) {
			bool restore = node == 0;

			pool_put_page(hammer->pool, hammer->page[--hammer->nr_pages], restore);
			hammer->nr_resv += restore;
		}
		break;
	}
}

static void *hammer_thread(void *data)
{
	struct hammer *hammer = data;
	struct pool_counts counts;

	for (int i = 0; i < NR_ROUNDS; i++) {
		hammer_once(hammer);
		pool_read(hammer->pool, &counts);
		assert(counts.resv >= 0 && counts.resv <= counts.free &&
		       counts.free <= counts.nr);
		assert(counts.surplus <= counts.overcommit);
	}
	while (hammer->nr_pages > 0)
		pool_put_page(hammer->pool, hammer->page[--hammer->nr_pages], false);
	pool_unreserve(hammer->pool, hammer->nr_resv);
	return NULL;
}

static void test_threads(void **state)
{
	struct hammer hammers[NR_THREADS];
	pthread_t threads[NR_THREADS];
	uint64_t seed = start_seed();
	struct pool_counts counts;
	struct pool pool;

	/* Fewer pages than the threads want, so that they meet at the end of them all the time.
	 */
	pool_init(&pool, THREAD_NODES, 10);
	for (int node = 0; node < THREAD_NODES; node++)
		assert_int_equal(pool_resize(&pool, node, 5), 0);
	for (size_t i = 0; i < NR_THREADS; i++) {
		hammers[i] = (struct hammer){.pool = &pool, .seed = seed + i};
		assert_int_equal(pthread_create(&threads[i], NULL, hammer_thread, &hammers[i]),
				 0);
	}
	for (size_t i = 0; i < NR_THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);

	/* A surplus page may be left, as in the kernel; it goes with the next reservation. */
	pool_read(&pool, &counts);
	assert_int_equal(counts.nr - counts.surplus, 20);
	assert_counts(&pool, counts.nr, counts.nr, 0, counts.surplus);
	assert_int_equal(pool_reserve(&pool, counts.nr), 0);
	pool_unreserve(&pool, counts.nr);
	assert_counts(&pool, 20, 20, 0, 0);
	pool_deinit(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_new_pool_is_empty),
		cmocka_unit_test(test_resize),
		cmocka_unit_test(test_resize_leaves_surplus_pages),
		cmocka_unit_test(test_absurd_numbers),
		cmocka_unit_test(test_reserve),
		cmocka_unit_test(test_reserve_makes_surplus_pages),
		cmocka_unit_test(test_unreserve_spares_surplus_pages_in_use),
		cmocka_unit_test(test_take_free_pages),
		cmocka_unit_test(test_take_leaves_reserved_pages),
		cmocka_unit_test(test_surplus_pages_for_any_node_go_in_turn),
		cmocka_unit_test(test_put_restores_a_reservation),
		cmocka_unit_test(test_move_page),
		cmocka_unit_test(test_misuse_is_caught),
		cmocka_unit_test(test_random_operations_beside_a_model),
		cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
