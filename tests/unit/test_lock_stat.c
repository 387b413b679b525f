/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The lock_stat counters: what they say against what the test did and what its own clock says.
 * Classes are counted for the whole process, so each test begins with a clear.
 */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "fs/lock.h"
#include "fs/lock_stat.h"
#include "lock_threads.h"

#define NR_THREADS 4
#define NR_ROUNDS  5000
#define RANK       LOCK_RANK_FAULT_MUTEX /* its waiters sleep at once */

/* The two clocks may drift apart by this much: a rate found over 5 ms, and reading it. */
#define SLACK_NS(ns) ((ns) / 1000 + 2000)

struct fixture {
	struct mutex mutex, own[NR_THREADS];
	struct rwsem sem;
	sem_t ready, go;
	_Atomic int nr_started;
	_Atomic bool stop;
	uint64_t wait_ns; /* by the waiter's clock, lock call included */
};

static int setup(void **state)
{
	struct fixture *fixture = aligned_alloc(64, sizeof(*fixture));

	if (!fixture)
		return -1;
	memset(fixture, 0, sizeof(*fixture));
	mutex_init(&fixture->mutex, RANK);
	for (int i = 0; i < NR_THREADS; i++)
		mutex_init(&fixture->own[i], RANK);
	rwsem_init(&fixture->sem, RANK);
	sem_init(&fixture->ready, 0, 0);
	sem_init(&fixture->go, 0, 0);
	lock_stat_clear();
	*state = fixture;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;

	mutex_deinit(&fixture->mutex);
	for (int i = 0; i < NR_THREADS; i++)
		mutex_deinit(&fixture->own[i]);
	rwsem_deinit(&fixture->sem);
	sem_destroy(&fixture->ready);
	sem_destroy(&fixture->go);
	free(fixture);
	lock_stat_enable(true);
	return 0;
}

static struct lock_class_stat read_stat(void)
{
	struct lock_class_stat stat;

	lock_stat_read(RANK, &stat);
	return stat;
}

static void assert_plausible(const struct lock_counts *counts)
{
	assert_true(counts->nr_contentions <= counts->nr_acquisitions);
	assert_true(counts->nr_bounces <= counts->nr_acquisitions);
	assert_true(counts->nr_wait_bounces <= counts->nr_bounces);
	assert_true(counts->nr_wait_bounces <= counts->nr_contentions);
	if (counts->nr_acquisitions) {
		uint64_t average = counts->hold_total_ns / counts->nr_acquisitions;

		assert_in_range(average, counts->hold_min_ns, counts->hold_max_ns);
	}
	if (counts->nr_contentions) {
		uint64_t average = counts->wait_total_ns / counts->nr_contentions;

		assert_in_range(average, counts->wait_min_ns, counts->wait_max_ns);
	} else {
		assert_int_equal(counts->wait_total_ns, 0);
		assert_int_equal(counts->wait_min_ns, 0);
		assert_int_equal(counts->wait_max_ns, 0);
	}
}

static void assert_zero(const struct lock_counts *counts)
{
	const struct lock_counts zero = {0};

	assert_memory_equal(counts, &zero, sizeof(zero));
}

/* Something to measure: keep the CPU until @ns have gone by. */
static void spend(uint64_t ns)
{
	uint64_t start = now_ns();

	while (now_ns() - start < ns)
		;
}

static void lock_shared_and_own(void *data)
{
	struct fixture *fixture = data;
	struct mutex *own = &fixture->own[fixture->nr_started++];

	for (int i = 0; i < NR_ROUNDS; i++) {
		mutex_lock(&fixture->mutex);
		mutex_unlock(&fixture->mutex);
		if (mutex_trylock(own))
			mutex_unlock(own);
	}
	sem_post(&fixture->ready);
	wait_event(&fixture->go);
}

/*
 * A reads the counters while B ends: B's must not be missing because they are no longer on the
 * list, nor counted twice because they are already in the sum of those that ended.
 */
static void test_counts_are_exact(void **state)
{
	struct fixture *fixture = *state;
	struct test_thread threads[NR_THREADS];
	struct lock_class_stat alive, now;
	uint64_t nr_contentions = 0;

	for (int i = 0; i < NR_THREADS; i++)
		start_thread(&threads[i], lock_shared_and_own, fixture);
	for (int i = 0; i < NR_THREADS; i++)
		wait_event(&fixture->ready);
	alive = read_stat();
	assert_int_equal(alive.exclusive.nr_acquisitions, 2 * NR_THREADS * NR_ROUNDS);
	assert_plausible(&alive.exclusive);
	assert_zero(&alive.shared);
	for (int i = 0; i < NR_THREADS; i++)
		sem_post(&fixture->go);
	for (int i = 0; i < NR_ROUNDS; i++) {
		now = read_stat();
		assert_memory_equal(&now, &alive, sizeof(now));
	}
	for (int i = 0; i < NR_THREADS; i++)
		join_thread(&threads[i]);
	now = read_stat();
	assert_memory_equal(&now, &alive, sizeof(now));
	/* The locks' own counters add up to the class's. */
	assert_int_equal(fixture->mutex.nr_acquisitions, NR_THREADS * NR_ROUNDS);
	for (int i = 0; i < NR_THREADS; i++) {
		assert_int_equal(fixture->own[i].nr_acquisitions, NR_ROUNDS);
		nr_contentions += fixture->own[i].nr_contentions;
	}
	assert_int_equal(nr_contentions, 0);
	assert_int_equal(fixture->mutex.nr_contentions, now.exclusive.nr_contentions);
}

static void lock_and_time(void *data)
{
	struct fixture *fixture = data;
	uint64_t start = now_ns();

	mutex_lock(&fixture->mutex);
	fixture->wait_ns = now_ns() - start;
	mutex_unlock(&fixture->mutex);
}

/* A holds; B comes and sleeps: contended, for as long as B's clock says. */
static void test_wait_is_measured(void **state)
{
	struct fixture *fixture = *state;
	struct test_thread thread;
	struct lock_counts counts;
	uint64_t asleep;

	mutex_lock(&fixture->mutex);
	start_thread(&thread, lock_and_time, fixture);
	WAIT_ASLEEP(&thread, &fixture->mutex);
	asleep = now_ns();
	spend(5000000);
	asleep = now_ns() - asleep;
	assert_int_equal(read_stat().exclusive.nr_contentions, 0);
	mutex_unlock(&fixture->mutex);
	join_thread(&thread);
	counts = read_stat().exclusive;
	assert_int_equal(counts.nr_acquisitions, 2);
	assert_int_equal(counts.nr_contentions, 1);
	assert_int_equal(fixture->mutex.nr_contentions, 1);
	assert_in_range(counts.wait_total_ns, asleep - SLACK_NS(asleep),
			fixture->wait_ns + SLACK_NS(fixture->wait_ns));
	assert_int_equal(counts.wait_min_ns, counts.wait_total_ns);
	assert_int_equal(counts.wait_max_ns, counts.wait_total_ns);
	assert_plausible(&counts);
}

static void read_when_let_in(void *data)
{
	struct fixture *fixture = data;

	rwsem_read_lock(&fixture->sem);
	rwsem_read_unlock(&fixture->sem);
}

/* A writes, B waits to read; A downgrades, which is another acquisition. */
static void test_shared_and_exclusive(void **state)
{
	struct fixture *fixture = *state;
	struct test_thread thread;
	struct lock_class_stat stat;

	rwsem_write_lock(&fixture->sem);
	start_thread(&thread, read_when_let_in, fixture);
	WAIT_ASLEEP(&thread, &fixture->sem);
	rwsem_downgrade(&fixture->sem);
	join_thread(&thread);
	rwsem_read_unlock(&fixture->sem);
	assert_true(rwsem_write_trylock(&fixture->sem));
	rwsem_write_unlock(&fixture->sem);
	stat = read_stat();
	assert_int_equal(stat.exclusive.nr_acquisitions, 2);
	assert_int_equal(stat.exclusive.nr_contentions, 0);
	assert_int_equal(stat.shared.nr_acquisitions, 2);
	assert_int_equal(stat.shared.nr_contentions, 1);
	assert_plausible(&stat.exclusive);
	assert_plausible(&stat.shared);
}

static void test_hold_is_measured(void **state)
{
	struct fixture *fixture = *state;
	struct lock_class_stat stat;
	uint64_t outer = now_ns(), inner;

	mutex_lock(&fixture->mutex);
	inner = now_ns();
	spend(5000000);
	inner = now_ns() - inner;
	mutex_unlock(&fixture->mutex);
	outer = now_ns() - outer;
	stat = read_stat();
	assert_in_range(stat.exclusive.hold_total_ns, inner - SLACK_NS(inner),
			outer + SLACK_NS(outer));
	assert_int_equal(stat.exclusive.hold_max_ns, stat.exclusive.hold_total_ns);
	assert_int_equal(stat.exclusive.hold_min_ns, stat.exclusive.hold_total_ns);

	outer = now_ns();
	rwsem_read_lock(&fixture->sem);
	inner = now_ns();
	spend(5000000);
	inner = now_ns() - inner;
	rwsem_read_unlock(&fixture->sem);
	outer = now_ns() - outer;
	stat = read_stat();
	assert_in_range(stat.shared.hold_total_ns, inner - SLACK_NS(inner),
			outer + SLACK_NS(outer));
	assert_int_equal(stat.exclusive.nr_acquisitions, 1);
}

/* Also where only some holds are measured, the total stands for all. */
static void test_hold_total_is_of_all(void **state)
{
	struct fixture *fixture = *state;
	const uint64_t ns = 20000;

	for (int i = 0; i < 10 * LOCK_STAT_SAMPLE; i++) {
		mutex_lock(&fixture->mutex);
		spend(ns);
		mutex_unlock(&fixture->mutex);
	}
	assert_in_range(read_stat().exclusive.hold_total_ns,
			10 * LOCK_STAT_SAMPLE * (ns - SLACK_NS(ns)), UINT64_MAX);
	assert_in_range(read_stat().exclusive.hold_min_ns, ns - SLACK_NS(ns), UINT64_MAX);
}

static void lock_often(void *data)
{
	struct fixture *fixture = data;

	for (int i = 0; i < NR_ROUNDS; i++) {
		mutex_lock(&fixture->mutex);
		mutex_unlock(&fixture->mutex);
	}
}

/* Counters of this thread, of one that has ended, and extremes are all forgotten. */
static void test_clear(void **state)
{
	struct fixture *fixture = *state;
	struct test_thread thread;
	struct lock_class_stat stat;
	uint64_t outer;

	start_thread(&thread, lock_often, fixture);
	join_thread(&thread);
	mutex_lock(&fixture->mutex);
	spend(20000000);
	mutex_unlock(&fixture->mutex);
	assert_in_range(read_stat().exclusive.hold_max_ns, 19000000, UINT64_MAX);

	/* What is held across a clear belongs to neither side of it. */
	mutex_lock(&fixture->mutex);
	lock_stat_clear();
	mutex_unlock(&fixture->mutex);
	stat = read_stat();
	assert_zero(&stat.exclusive);
	assert_zero(&stat.shared);

	outer = now_ns();
	mutex_lock(&fixture->mutex);
	mutex_unlock(&fixture->mutex);
	outer = now_ns() - outer;
	stat = read_stat();
	assert_int_equal(stat.exclusive.nr_acquisitions, 1);
	assert_in_range(stat.exclusive.hold_max_ns, 0, outer + SLACK_NS(outer));
	assert_plausible(&stat.exclusive);
}

static void test_enable(void **state)
{
	struct fixture *fixture = *state;

	assert_true(lock_stat_enabled());
	mutex_lock(&fixture->mutex);
	lock_stat_enable(false);
	assert_false(lock_stat_enabled());
	mutex_unlock(&fixture->mutex);
	/* Counted when it began, and therefore when it ended. */
	assert_int_equal(read_stat().exclusive.nr_acquisitions, 1);
	assert_in_range(read_stat().exclusive.hold_total_ns, 1, UINT64_MAX);

	lock_stat_clear();
	lock_often(fixture);
	mutex_lock(&fixture->mutex);
	lock_stat_enable(true);
	mutex_unlock(&fixture->mutex);
	assert_int_equal(read_stat().exclusive.nr_acquisitions, 0);
	assert_int_equal(read_stat().exclusive.hold_total_ns, 0);
	lock_often(fixture);
	assert_int_equal(read_stat().exclusive.nr_acquisitions, NR_ROUNDS);
}

static void run_on(const cpu_set_t *allowed, int idx)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, allowed) && idx-- == 0)
			CPU_SET(cpu, &one);
	}
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
}

/* Inherits its affinity from the thread that starts it. */
static void lock_once(void *data)
{
	struct fixture *fixture = data;

	mutex_lock(&fixture->mutex);
	mutex_unlock(&fixture->mutex);
}

static void test_bounces(void **state)
{
	struct fixture *fixture = *state;
	struct test_thread thread;
	cpu_set_t allowed;

	assert_int_equal(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
	if (CPU_COUNT(&allowed) < 2)
		skip();
	run_on(&allowed, 0);
	lock_once(fixture);
	lock_once(fixture);
	assert_int_equal(read_stat().exclusive.nr_bounces, 0);
	run_on(&allowed, 1);
	lock_once(fixture);
	lock_once(fixture);
	assert_int_equal(read_stat().exclusive.nr_bounces, 1);
	assert_int_equal(read_stat().exclusive.nr_wait_bounces, 0);

	/* Held on the second CPU, waited for on the first. */
	mutex_lock(&fixture->mutex);
	run_on(&allowed, 0);
	start_thread(&thread, lock_once, fixture);
	WAIT_ASLEEP(&thread, &fixture->mutex);
	mutex_unlock(&fixture->mutex);
	join_thread(&thread);
	assert_int_equal(read_stat().exclusive.nr_bounces, 2);
	assert_int_equal(read_stat().exclusive.nr_wait_bounces, 1);

	/* Readers write nothing to the lock: they bounce off the last writer. */
	rwsem_write_lock(&fixture->sem);
	rwsem_write_unlock(&fixture->sem);
	for (int i = 0; i < 3; i++) {
		rwsem_read_lock(&fixture->sem);
		rwsem_read_unlock(&fixture->sem);
	}
	run_on(&allowed, 1);
	rwsem_read_lock(&fixture->sem);
	rwsem_read_unlock(&fixture->sem);
	assert_int_equal(read_stat().shared.nr_bounces, 1);
	assert_int_equal(sched_setaffinity(0, sizeof(allowed), &allowed), 0);
}

static void lock_until_stop(void *data)
{
	struct fixture *fixture = data;

	do {
		rwsem_read_lock(&fixture->sem);
		rwsem_read_unlock(&fixture->sem);
		rwsem_write_lock(&fixture->sem);
		rwsem_write_unlock(&fixture->sem);
	} while (!fixture->stop);
}

/*
 * A counts into its block; B clears and reads; A finds the new epoch and starts from zero; B
 * reads. B must never see the counters of before together with the new epoch: what it sees
 * grows from one read to the next and stays below what was counted in all.
 */
static void test_clear_while_counting(void **state)
{
	struct fixture *fixture = *state;
	struct test_thread threads[2];
	uint64_t nr_last = 0;

	for (int i = 0; i < 2; i++)
		start_thread(&threads[i], lock_until_stop, fixture);
	for (int i = 0; i < 20000; i++) {
		struct lock_class_stat stat;

		if (i % 4 == 0) {
			lock_stat_clear();
			nr_last = 0;
		}
		rwsem_read_lock(&fixture->sem);
		rwsem_read_unlock(&fixture->sem);
		stat = read_stat();
		assert_true(stat.shared.nr_acquisitions > nr_last);
		assert_true(stat.shared.hold_min_ns <= stat.shared.hold_max_ns);
		nr_last = stat.shared.nr_acquisitions;
	}
	fixture->stop = true;
	for (int i = 0; i < 2; i++)
		join_thread(&threads[i]);
}

static void test_compiled_out(void **state)
{
	struct fixture *fixture = *state;
	struct lock_class_stat stat;

	lock_stat_enable(true);
	assert_false(lock_stat_enabled());
	lock_often(fixture);
	memset(&stat, 1, sizeof(stat));
	lock_stat_read(RANK, &stat);
	assert_zero(&stat.exclusive);
	assert_zero(&stat.shared);
	lock_stat_clear();
}

static int use_slow_clock(void **state)
{
	lock_stat_choose_clock(false);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_counts_are_exact, setup, teardown),
		cmocka_unit_test_setup_teardown(test_wait_is_measured, setup, teardown),
		cmocka_unit_test_setup_teardown(test_shared_and_exclusive, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hold_is_measured, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hold_total_is_of_all, setup, teardown),
		cmocka_unit_test_setup_teardown(test_clear, setup, teardown),
		cmocka_unit_test_setup_teardown(test_enable, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bounces, setup, teardown),
		cmocka_unit_test_setup_teardown(test_clear_while_counting, setup, teardown),
	};
	const struct CMUnitTest compiled_out_tests[] = {
		cmocka_unit_test_setup_teardown(test_compiled_out, setup, teardown),
	};

	if (!HF_LOCK_STAT)
		return cmocka_run_group_tests_name("lock_stat", compiled_out_tests, NULL, NULL);
	return cmocka_run_group_tests_name("lock_stat", tests, NULL, NULL) +
	       cmocka_run_group_tests_name("lock_stat without a cheap clock", tests,
					   use_slow_clock, NULL);
}
