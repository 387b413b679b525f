/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who holds a reservation never gets SIGBUS.
 *
 * Interleaving: the pool is exactly as large as what all reserve at most. Each actor has a file
 * or a private mapping and a share of the pool: it reserves the share, faults on all of it with
 * two threads, and gives it up in its own way, over and over, while the others do the same. A
 * page that is counted as free too early or too late, be it for a moment, is missing to
 * another: then a mapping fails or a fault gets SIGBUS.
 *
 * Punching a page drops its reservation in hugetlbfs, so the puncher maps anew before it
 * touches.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "side.h"

#define SHARE     5 /* pages of each actor */
#define NR_ACTORS 5
#define POOL      (SHARE * NR_ACTORS)
#define NR_ROUNDS 150

struct actor {
	struct side *side;
	const char *name;
	void (*round)(struct actor *actor);
	int fd;
	char *p;
	atomic_int next; /* page to touch */
	long nr_pages;   /* to touch now */
	int number;      /* of the round */
};

static void *touch_pages(void *data)
{
	struct actor *actor = data;
	int idx;

	while ((idx = actor->next++) < actor->nr_pages) {
		volatile char *at = actor->p + idx * (long)PAGE_2M;

		if (raises_sigbus(at, true))
			fail_msg("%s: SIGBUS on page %d in round %d", actor->name, idx,
				 actor->number);
		if (*at != 0)
			fail_msg("%s: page %d has old content in round %d", actor->name, idx,
				 actor->number);
		*at = (char)(idx + 1);
	}
	return NULL;
}

/* Two threads touch the first @pages pages, which are new. */
static void touch(struct actor *actor, long pages)
{
	pthread_t other;

	actor->next = 0;
	actor->nr_pages = pages;
	assert_int_equal(pthread_create(&other, NULL, touch_pages, actor), 0);
	touch_pages(actor);
	pthread_join(other, NULL);
	for (int i = 0; i < pages; i++)
		assert_int_equal(actor->p[i * (long)PAGE_2M], i + 1);
}

static void map(struct actor *actor, int flags)
{
	actor->p = side_map_pages(actor->side, flags, actor->fd, 0, SHARE);
}

static void unmap(struct actor *actor)
{
	assert_int_equal(side_unmap(actor->side, actor->p, SHARE * PAGE_2M), 0);
}

static void truncating(struct actor *actor)
{
	map(actor, MAP_SHARED);
	touch(actor, SHARE);
	assert_int_equal(ftruncate(actor->fd, 2 * PAGE_2M), 0);
	assert_true(raises_sigbus(actor->p + 2 * PAGE_2M, true)); /* behind the end */
	assert_int_equal(actor->p[PAGE_2M], 2);
	unmap(actor);
	assert_int_equal(ftruncate(actor->fd, 0), 0);
	assert_int_equal(ftruncate(actor->fd, SHARE * PAGE_2M), 0);
}

static void punching(struct actor *actor)
{
	map(actor, MAP_SHARED);
	touch(actor, SHARE);
	for (int i = 0; i < SHARE; i++)
		assert_int_equal(fallocate(actor->fd,
					   FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					   i * (off_t)PAGE_2M, PAGE_2M),
				 0);
	unmap(actor);
}

static void removing(struct actor *actor)
{
	map(actor, MAP_SHARED);
	touch(actor, SHARE);
	assert_int_equal(madvise(actor->p, SHARE * PAGE_2M, MADV_REMOVE), 0);
	unmap(actor);
}

static void dropping(struct actor *actor)
{
	map(actor, MAP_PRIVATE);
	touch(actor, SHARE);
	assert_int_equal(madvise(actor->p, SHARE * PAGE_2M, MADV_DONTNEED), 0);
	touch(actor, SHARE);
	unmap(actor);
}

static void unlinking(struct actor *actor)
{
	map(actor, MAP_SHARED | (actor->number % 2 ? MAP_POPULATE : 0));
	touch(actor, SHARE);
	unlink(fixture_path(&actor->side->fixture, actor->name));
	unmap(actor);
	/* FUSE tells of a close(2) after it has returned; the pages are to be free before. */
	assert_int_equal(ftruncate(actor->fd, 0), 0);
	close(actor->fd);
	actor->fd = side_file(actor->side, actor->name, SHARE);
}

static int act(void *data)
{
	struct actor *actor = data;

	actor->fd = side_file(actor->side, actor->name, SHARE);
	for (actor->number = 0; actor->number < NR_ROUNDS; actor->number++)
		actor->round(actor);
	return 0;
}

static void nobody_fails(struct side *side)
{
	struct actor actors[NR_ACTORS] = {
		{side, "truncating", truncating}, {side, "punching", punching},
		{side, "removing", removing},     {side, "dropping", dropping},
		{side, "unlinking", unlinking},
	};
	pid_t process[NR_ACTORS];

	for (int i = 0; i < NR_ACTORS; i++)
		process[i] = start_child(act, &actors[i], 0);
	for (int i = 0; i < NR_ACTORS; i++)
		assert_int_equal(wait_child(process[i], 28000), 0);
	side_expect(side, 0, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(nobody_fails, POOL),
		ON_HUGEFUSE(nobody_fails, "fault_mutexes=1,region_lock=global", POOL),
		ON_HUGEFUSE(nobody_fails, "ahead=16M,fault_threads=4", POOL),
	};

	require_root();
	require_pages(PAGE_2M, POOL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
