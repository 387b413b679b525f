/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The mutex, the reader-writer semaphore and the event count. The counters and the order check
 * have tests of their own, test_lock_stat.c and test_lock_check.c.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "fs/lock.h"
#include "lock_threads.h"

#define NR_THREADS 4
#define NR_ROUNDS  20000

/* What the tests' threads share. Plain fields are guarded by the lock under test. */
struct fixture {
	struct mutex mutex;
	struct rwsem sem;
	struct waitqueue queue;
	sem_t ready, go;
	long a, b;
	_Atomic long nr_reads, nr_writes, nr_errors;
	_Atomic bool stop, flag;
};

static int setup(void **state)
{
	struct fixture *fixture = aligned_alloc(64, sizeof(*fixture));

	if (!fixture)
		return -1;
	memset(fixture, 0, sizeof(*fixture));
	mutex_init(&fixture->mutex, LOCK_RANK_FAULT_MUTEX);
	rwsem_init(&fixture->sem, LOCK_RANK_REGION_MAP);
	sem_init(&fixture->ready, 0, 0);
	sem_init(&fixture->go, 0, 0);
	*state = fixture;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;

	mutex_deinit(&fixture->mutex);
	rwsem_deinit(&fixture->sem);
	sem_destroy(&fixture->ready);
	sem_destroy(&fixture->go);
	free(fixture);
	return 0;
}

static void wait_count(_Atomic long *count, long minimum)
{
	uint64_t start = now_ns();

	while (*count < minimum) {
		if (now_ns() - start > TIMEOUT_S * 1000000000ull)
			give_up("a count");
		sched_yield();
	}
}

/* Mutex */

static void add_under_mutex(void *data)
{
	struct fixture *fixture = data;

	for (int i = 0; i < NR_ROUNDS; i++) {
		long a;

		if (i % 4)
			mutex_lock(&fixture->mutex);
		else
			while (!mutex_trylock(&fixture->mutex))
				sched_yield();
		a = fixture->a;
		if (i % 512 == 0)
			sched_yield();
		fixture->a = a + 1;
		mutex_unlock(&fixture->mutex);
	}
}

/* A reads the sum; B, let in by mistake, reads it too; A writes; B writes: one addition is
 * lost. */
static void test_mutex_excludes(void **state)
{
	struct fixture *fixture = *state;
	struct test_thread threads[NR_THREADS];

	for (int i = 0; i < NR_THREADS; i++)
		start_thread(&threads[i], add_under_mutex, fixture);
	for (int i = 0; i < NR_THREADS; i++)
		join_thread(&threads[i]);
	assert_int_equal(fixture->a, (long)NR_THREADS * NR_ROUNDS);
}

static void try_mutex(void *data)
{
	struct fixture *fixture = data;

	fixture->flag = mutex_trylock(&fixture->mutex);
	if (fixture->flag)
		mutex_unlock(&fixture->mutex);
}

static void test_mutex_trylock(void **state)
{
	struct fixture *fixture = *state;
	struct test_thread thread;

	assert_true(mutex_trylock(&fixture->mutex));
	start_thread(&thread, try_mutex, fixture);
	join_thread(&thread);
	assert_false(fixture->flag);
	mutex_unlock(&fixture->mutex);
	start_thread(&thread, try_mutex, fixture);
	join_thread(&thread);
	assert_true(fixture->flag);
}

static void add_once(void *data)
{
	struct fixture *fixture = data;

	mutex_lock(&fixture->mutex);
	fixture->a++;
	mutex_unlock(&fixture->mutex);
}

/*
 * A holds; B, C and D go to sleep; A unlocks and wakes one; that one must remember that others
 * sleep, although the word was free when it came.
 */
static void test_mutex_wakes_all_sleepers(void **state)
{
	struct fixture *fixture = *state;
	struct test_thread threads[3];

	mutex_lock(&fixture->mutex);
	for (int i = 0; i < 3; i++)
		start_thread(&threads[i], add_once, fixture);
	for (int i = 0; i < 3; i++)
		WAIT_ASLEEP(&threads[i], &fixture->mutex);
	assert_int_equal(fixture->a, 0);
	mutex_unlock(&fixture->mutex);
	for (int i = 0; i < 3; i++)
		join_thread(&threads[i]);
	assert_int_equal(fixture->a, 3);
}

/* Reader-writer semaphore */

static void read_together(void *data)
{
	struct fixture *fixture = data;

	rwsem_read_lock(&fixture->sem);
	sem_post(&fixture->ready);
	wait_event(&fixture->go);
	rwsem_read_unlock(&fixture->sem);
}

static void test_rwsem_readers_share(void **state)
{
	struct fixture *fixture = *state;
	struct test_thread threads[NR_THREADS];

	for (int i = 0; i < NR_THREADS; i++)
		start_thread(&threads[i], read_together, fixture);
	/* All are in at once: none leaves before the last has come. */
	for (int i = 0; i < NR_THREADS; i++)
		wait_event(&fixture->ready);
	assert_true(rwsem_read_trylock(&fixture->sem));
	rwsem_read_unlock(&fixture->sem);
	assert_false(rwsem_write_trylock(&fixture->sem));
	for (int i = 0; i < NR_THREADS; i++)
		sem_post(&fixture->go);
	for (int i = 0; i < NR_THREADS; i++)
		join_thread(&threads[i]);
	assert_true(rwsem_write_trylock(&fixture->sem));
	rwsem_write_unlock(&fixture->sem);
}

static void try_rwsem(void *data)
{
	struct fixture *fixture = data;

	if (rwsem_read_trylock(&fixture->sem)) {
		fixture->nr_reads++;
		rwsem_read_unlock(&fixture->sem);
	}
	if (rwsem_write_trylock(&fixture->sem)) {
		fixture->nr_writes++;
		rwsem_write_unlock(&fixture->sem);
	}
}

static void test_rwsem_trylock(void **state)
{
	struct fixture *fixture = *state;
	struct test_thread thread;

	assert_true(rwsem_write_trylock(&fixture->sem));
	start_thread(&thread, try_rwsem, fixture);
	join_thread(&thread);
	assert_int_equal(fixture->nr_reads, 0);
	assert_int_equal(fixture->nr_writes, 0);
	rwsem_downgrade(&fixture->sem);
	start_thread(&thread, try_rwsem, fixture);
	join_thread(&thread);
	assert_int_equal(fixture->nr_reads, 1);
	assert_int_equal(fixture->nr_writes, 0);
	rwsem_read_unlock(&fixture->sem);
	start_thread(&thread, try_rwsem, fixture);
	join_thread(&thread);
	assert_int_equal(fixture->nr_reads, 2);
	assert_int_equal(fixture->nr_writes, 1);
}

/* Write both numbers, then downgrade and see that they stay. */
static void write_pair(struct fixture *fixture, int round)
{
	long mine;

	rwsem_write_lock(&fixture->sem);
	mine = ++fixture->a;
	if (round % 512 == 0)
		sched_yield();
	fixture->b = mine;
	if (round % 8) {
		rwsem_write_unlock(&fixture->sem);
		return;
	}
	rwsem_downgrade(&fixture->sem);
	if (round % 512 == 0)
		sched_yield();
	if (fixture->a != mine || fixture->b != mine)
		fixture->nr_errors++;
	rwsem_read_unlock(&fixture->sem);
}

static void read_and_write_pairs(void *data)
{
	struct fixture *fixture = data;

	for (int i = 0; i < NR_ROUNDS; i++) {
		if (i % 4 == 0) {
			write_pair(fixture, i);
			continue;
		}
		rwsem_read_lock(&fixture->sem);
		if (fixture->a != fixture->b)
			fixture->nr_errors++;
		rwsem_read_unlock(&fixture->sem);
	}
}

/*
 * A writes one of two numbers; B, let in by mistake, reads both; A writes the other. And: A
 * downgrades; B, let in by mistake, writes; A reads.
 */
static void test_rwsem_writer_excludes(void **state)
{
	struct fixture *fixture = *state;
	struct test_thread threads[NR_THREADS];

	for (int i = 0; i < NR_THREADS; i++)
		start_thread(&threads[i], read_and_write_pairs, fixture);
	for (int i = 0; i < NR_THREADS; i++)
		join_thread(&threads[i]);
	assert_int_equal(fixture->nr_errors, 0);
	assert_int_equal(fixture->a, (long)NR_THREADS * NR_ROUNDS / 4);
}

static void read_until_stop(void *data)
{
	struct fixture *fixture = data;

	while (!fixture->stop) {
		rwsem_read_lock(&fixture->sem);
		fixture->nr_reads++;
		rwsem_read_unlock(&fixture->sem);
	}
}

/* Leaves in fixture->a how many reads there were before it. */
static void write_once(void *data)
{
	struct fixture *fixture = data;

	rwsem_write_lock(&fixture->sem);
	fixture->a = fixture->nr_reads;
	fixture->nr_writes++;
	rwsem_write_unlock(&fixture->sem);
	sem_post(&fixture->ready);
}

/*
 * A reads; W wants to write and waits; B, C and D come to read again and again. If they were
 * let in because A reads, W would wait for ever. From the moment that W waits, the generations
 * of readers before it are those that were in already, one per thread at most.
 */
static void test_rwsem_writer_not_starved(void **state)
{
	struct fixture *fixture = *state;
	struct test_thread readers[3], writer;
	long nr_before;

	rwsem_read_lock(&fixture->sem);
	for (int i = 0; i < 3; i++)
		start_thread(&readers[i], read_until_stop, fixture);
	wait_count(&fixture->nr_reads, 100);
	start_thread(&writer, write_once, fixture);
	WAIT_ASLEEP(&writer, &fixture->sem);
	nr_before = fixture->nr_reads;
	for (int i = 0; i < 3; i++)
		WAIT_ASLEEP(&readers[i], &fixture->sem);
	assert_int_equal(fixture->nr_writes, 0);
	rwsem_read_unlock(&fixture->sem);
	wait_event(&fixture->ready);
	fixture->stop = true;
	join_thread(&writer);
	for (int i = 0; i < 3; i++)
		join_thread(&readers[i]);
	assert_in_range(fixture->a - nr_before, 0, 3);
}

static void write_until_stop(void *data)
{
	struct fixture *fixture = data;

	while (!fixture->stop) {
		rwsem_write_lock(&fixture->sem);
		fixture->nr_writes++;
		rwsem_write_unlock(&fixture->sem);
	}
}

/* Leaves in fixture->nr_reads how many writes there were before it. */
static void read_once(void *data)
{
	struct fixture *fixture = data;

	rwsem_read_lock(&fixture->sem);
	fixture->nr_reads = fixture->nr_writes;
	sem_post(&fixture->ready);
	wait_event(&fixture->go);
	rwsem_read_unlock(&fixture->sem);
}

/*
 * A writes; B and C, who write again and again, wait, and then R waits to read; A leaves. If B
 * and C handed the lock to each other, R would wait for ever; it must be next, before both.
 */
static void test_rwsem_reader_not_starved(void **state)
{
	struct fixture *fixture = *state;
	struct test_thread writers[2], reader;

	for (int round = 0; round < 50; round++) {
		long nr_before;

		fixture->stop = false;
		rwsem_write_lock(&fixture->sem);
		for (int i = 0; i < 2; i++)
			start_thread(&writers[i], write_until_stop, fixture);
		for (int i = 0; i < 2; i++)
			WAIT_ASLEEP(&writers[i], &fixture->sem);
		start_thread(&reader, read_once, fixture);
		WAIT_ASLEEP(&reader, &fixture->sem);
		nr_before = fixture->nr_writes;
		rwsem_write_unlock(&fixture->sem);
		wait_event(&fixture->ready);
		assert_int_equal(fixture->nr_reads, nr_before);
		sem_post(&fixture->go);
		join_thread(&reader);
		fixture->stop = true;
		for (int i = 0; i < 2; i++)
			join_thread(&writers[i]);
	}
}

/*
 * The last reader leaves while W, woken, is not yet running; R comes and waits for W; another
 * writer takes the free lock before W. Whoever writes next has to let R in and to wake W: any
 * wake that is lost leaves a thread asleep and the test in its timeout.
 */
static void test_rwsem_no_wake_lost(void **state)
{
	struct fixture *fixture = *state;
	struct test_thread readers[2], writers[2];

	for (int i = 0; i < 2; i++) {
		start_thread(&writers[i], write_until_stop, fixture);
		start_thread(&readers[i], read_until_stop, fixture);
	}
	wait_count(&fixture->nr_reads, NR_ROUNDS);
	wait_count(&fixture->nr_writes, NR_ROUNDS);
	fixture->stop = true;
	for (int i = 0; i < 2; i++) {
		join_thread(&writers[i]);
		join_thread(&readers[i]);
	}
}

/*
 * A writes; R waits to read and W to write; A downgrades. R comes in while A still reads; W
 * stays out until both have left.
 */
static void test_rwsem_downgrade(void **state)
{
	struct fixture *fixture = *state;
	struct test_thread reader, writer;

	rwsem_write_lock(&fixture->sem);
	start_thread(&writer, write_once, fixture);
	WAIT_ASLEEP(&writer, &fixture->sem);
	start_thread(&reader, read_once, fixture);
	WAIT_ASLEEP(&reader, &fixture->sem);
	fixture->a = -1;
	rwsem_downgrade(&fixture->sem);
	wait_event(&fixture->ready); /* R is in */
	assert_int_equal(fixture->nr_writes, 0);
	assert_int_equal(fixture->a, -1);
	rwsem_read_unlock(&fixture->sem);
	WAIT_ASLEEP(&writer, &fixture->sem); /* R still reads */
	assert_int_equal(fixture->nr_writes, 0);
	sem_post(&fixture->go);
	wait_event(&fixture->ready);
	join_thread(&reader);
	join_thread(&writer);
	assert_int_equal(fixture->nr_writes, 1);
}

/* Event count */

static void test_waitqueue_timeout(void **state)
{
	struct fixture *fixture = *state;
	uint32_t count = waitqueue_read(&fixture->queue);
	uint64_t start = now_ns();

	assert_int_equal(waitqueue_wait(&fixture->queue, count, 2000000), -ETIMEDOUT);
	assert_in_range(now_ns() - start, 2000000, UINT64_MAX);
	assert_int_equal(waitqueue_wait(&fixture->queue, count, 0), -ETIMEDOUT);
	waitqueue_wake_all(&fixture->queue);
	assert_int_equal(waitqueue_wait(&fixture->queue, count, UINT64_MAX), 0);
	assert_int_equal(fixture->queue.nr_waiters, 0);
}

static void wait_for_flag(void *data)
{
	struct fixture *fixture = data;

	for (;;) {
		uint32_t count = waitqueue_read(&fixture->queue);

		if (fixture->flag)
			return;
		if (waitqueue_wait(&fixture->queue, count, UINT64_MAX))
			fixture->nr_errors++;
	}
}

static void test_waitqueue_wakes_all(void **state)
{
	struct fixture *fixture = *state;
	struct test_thread threads[NR_THREADS];

	for (int i = 0; i < NR_THREADS; i++)
		start_thread(&threads[i], wait_for_flag, fixture);
	for (int i = 0; i < NR_THREADS; i++)
		WAIT_ASLEEP(&threads[i], &fixture->queue);
	fixture->flag = true;
	waitqueue_wake_all(&fixture->queue);
	for (int i = 0; i < NR_THREADS; i++)
		join_thread(&threads[i]);
	assert_int_equal(fixture->nr_errors, 0);
}

/* Take turns: @odd says whose. */
static void take_turns(struct fixture *fixture, bool odd)
{
	for (int i = 0; i < NR_ROUNDS; i++) {
		for (;;) {
			uint32_t count = waitqueue_read(&fixture->queue);

			if ((fixture->nr_reads & 1) == odd)
				break;
			if (waitqueue_wait(&fixture->queue, count, TIMEOUT_S * 1000000000ull))
				fixture->nr_errors++;
		}
		fixture->nr_reads++;
		waitqueue_wake_all(&fixture->queue);
	}
}

static void take_odd_turns(void *data)
{
	take_turns(data, true);
}

/*
 * A reads the count and looks at the condition; B changes it and wakes, and sees no waiter;
 * A goes to sleep. A must not sleep, or both wait for each other until the timeout.
 */
static void test_waitqueue_no_wake_lost(void **state)
{
	struct fixture *fixture = *state;
	struct test_thread thread;

	start_thread(&thread, take_odd_turns, fixture);
	take_turns(fixture, false);
	join_thread(&thread);
	assert_int_equal(fixture->nr_reads, 2 * NR_ROUNDS);
	assert_int_equal(fixture->nr_errors, 0);
	assert_int_equal(fixture->queue.nr_waiters, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_mutex_excludes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_mutex_trylock, setup, teardown),
		cmocka_unit_test_setup_teardown(test_mutex_wakes_all_sleepers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_rwsem_readers_share, setup, teardown),
		cmocka_unit_test_setup_teardown(test_rwsem_trylock, setup, teardown),
		cmocka_unit_test_setup_teardown(test_rwsem_writer_excludes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_rwsem_writer_not_starved, setup, teardown),
		cmocka_unit_test_setup_teardown(test_rwsem_reader_not_starved, setup, teardown),
		cmocka_unit_test_setup_teardown(test_rwsem_no_wake_lost, setup, teardown),
		cmocka_unit_test_setup_teardown(test_rwsem_downgrade, setup, teardown),
		cmocka_unit_test_setup_teardown(test_waitqueue_timeout, setup, teardown),
		cmocka_unit_test_setup_teardown(test_waitqueue_wakes_all, setup, teardown),
		cmocka_unit_test_setup_teardown(test_waitqueue_no_wake_lost, setup, teardown),
	};

	return cmocka_run_group_tests_name("lock", tests, NULL, NULL);
}
