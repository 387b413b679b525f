/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Without a reservation over somebody else's reserved range: the owner never fails. The thief
 * gets the owner's pages, where the file is the same, and otherwise SIGBUS, or waits.
 *
 * That a thief of another file gets none is in tests/mount/test_exhaustion.c.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "reports.h"

#define POOL  8
#define OWNED 6

struct theft {
	struct side *side;
	char *owned, *stolen;
	pthread_barrier_t start;
	atomic_int nr_sigbus;
};

static void *own_all(void *data)
{
	struct theft *theft = data;

	pthread_barrier_wait(&theft->start);
	for (int i = 0; i < OWNED; i++)
		assert_false(raises_sigbus(page(theft->owned, i), true));
	return NULL;
}

/* From the other end: two pages more than there are. */
static void *steal_all(void *data)
{
	struct theft *theft = data;

	pthread_barrier_wait(&theft->start);
	for (int i = POOL + 1; i >= 0; i--)
		theft->nr_sigbus += raises_sigbus(page(theft->stolen, i), true);
	return NULL;
}

/*
 * Interleaving: owner and thief touch the same range of one file from both ends. The pages of
 * the range are reserved by the file, whoever gets there first; behind it the thief gets what
 * is free, which is two of four pages.
 */
static void same_range(struct side *side)
{
	int fd = side_file(side, "file", POOL + 2);
	pthread_t owner, thief;
	struct theft theft = {side};

	pthread_barrier_init(&theft.start, NULL, 2);
	for (int round = 0; round < 100; round++) {
		theft.owned = side_map_pages(side, MAP_SHARED, fd, 0, OWNED);
		theft.stolen =
			side_map_pages(side, MAP_SHARED | MAP_NORESERVE, fd, 0, POOL + 2);
		theft.nr_sigbus = 0;
		assert_int_equal(pthread_create(&owner, NULL, own_all, &theft), 0);
		assert_int_equal(pthread_create(&thief, NULL, steal_all, &theft), 0);
		pthread_join(owner, NULL);
		pthread_join(thief, NULL);
		assert_int_equal(theft.nr_sigbus, 2);
		if (round % 10 == 0)
			side_expect(side, POOL, 0);
		assert_int_equal(side_unmap(side, theft.owned, OWNED * PAGE_2M), 0);
		assert_int_equal(side_unmap(side, theft.stolen, (POOL + 2) * PAGE_2M), 0);
		assert_int_equal(ftruncate(fd, 0) | ftruncate(fd, (POOL + 2) * PAGE_2M), 0);
	}
	side_expect(side, 0, 0);
}

/* A private thief of the owner's file pays with pages of its own, which there are two of. */
static void private_thief(struct side *side)
{
	int fd = side_file(side, "file", OWNED);
	char *owned = side_map_pages(side, MAP_SHARED, fd, 0, OWNED);
	char *own = side_map_pages(side, MAP_PRIVATE | MAP_NORESERVE, fd, 0, OWNED);
	int nr_sigbus = 0;

	for (int i = 0; i < OWNED; i++)
		nr_sigbus += raises_sigbus(page(own, i), true);
	assert_int_equal(nr_sigbus, OWNED - 2);
	side_expect(side, 2, OWNED);
	for (int i = 0; i < OWNED; i++) {
		assert_false(raises_sigbus(page(owned, i), true));
		*page(owned, i) = 3;
	}
	side_expect(side, POOL, 0);
	assert_int_equal(*own, 0);
	assert_int_equal(*page(own, 2), 3); /* now that the file has it */
	assert_true(raises_sigbus(page(own, 2), true));
	side_expect(side, POOL, 0);
}

struct waiter {
	struct side *side;
	char *at;
};

static int touch(void *data)
{
	struct waiter *waiter = data;
	int fd = side_file(waiter->side, "file", 0);
	char *p = side_map_pages(waiter->side, MAP_SHARED | MAP_NORESERVE, fd, 0, POOL + 2);

	return raises_sigbus(page(p, POOL + 1), true);
}

static bool one_waits(void *data)
{
	struct side *side = data;

	return fixture_fault_stat(&side->fixture, "waiting") >= 1;
}

/* With on_exhausted=wait the thief waits, and the owner passes it. */
static void thief_waits(struct side *side)
{
	int fd = side_file(side, "file", POOL + 2);
	struct waiter waiter = {side, NULL};
	char *owned = side_map_pages(side, MAP_SHARED, fd, 0, POOL);
	pid_t thief = start_child(touch, &waiter, 0);

	assert_true(wait_until(one_waits, side, 5000));
	for (int i = 0; i < POOL; i++)
		assert_false(raises_sigbus(page(owned, i), true));
	side_expect(side, POOL, 0);
	assert_false(child_has_ended(thief));
	punch(fd, 3, 1);
	assert_int_equal(wait_child(thief, 5000), 0);
	side_expect(side, POOL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(same_range, POOL),
		ON_HUGEFUSE(same_range, "fault_mutexes=1", POOL),
		ON_BOTH(private_thief, POOL),
		ON_HUGEFUSE(thief_waits, "on_exhausted=wait", POOL),
	};

	require_root();
	require_pages(PAGE_2M, POOL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
