/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Exhaustion: what happens when there is no page; beside the kernel's hugetlbfs. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hugefuse.h"
#include "side.h"

#define POOL 8
#define RW   (PROT_READ | PROT_WRITE)

static char *page(char *p, long idx)
{
	return p + idx * (long)PAGE_2M;
}

static void punch(int fd, long idx, long pages)
{
	assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				   idx * (long)PAGE_2M, pages * (long)PAGE_2M),
			 0);
}

/* All that can be seen of the state. */
struct picture {
	char *files, *maps;
	struct kernel_counts kernel;
	long free, used, resv;
};

static struct picture picture_take(struct side *side)
{
	struct picture picture = {
		.kernel = kernel_counts_read(PAGE_2M),
		.used = side_used(side),
		.resv = side_resv(side),
	};

	if (!side->kernel) {
		picture.files = fixture_text(&side->fixture, "files");
		picture.maps = fixture_text(&side->fixture, "maps");
	}
	return picture;
}

static void assert_unchanged(struct side *side, const struct picture *before)
{
	struct picture now = picture_take(side);

	assert_int_equal(now.used, before->used);
	assert_int_equal(now.resv, before->resv);
	assert_memory_equal(&now.kernel, &before->kernel, sizeof(now.kernel));
	if (side->kernel)
		return;
	assert_string_equal(now.files, before->files);
	assert_string_equal(now.maps, before->maps);
	free(now.files);
	free(now.maps);
}

/* Mapping @pages pages fails, and changes nothing. */
static void assert_too_many(struct side *side, int flags, int fd, long pages)
{
	struct picture before = picture_take(side);

	errno = 0;
	assert_ptr_equal(side_map(side, NULL, (size_t)pages * PAGE_2M, RW, flags, fd, 0),
			 MAP_FAILED);
	assert_int_equal(errno, ENOMEM);
	assert_unchanged(side, &before);
	free(before.files);
	free(before.maps);
}

static void one_page_too_many(struct side *side)
{
	int fd = side_file(side, "file", 1), other = side_file(side, "other", 4);
	struct stat st;
	char *p;

	assert_too_many(side, MAP_SHARED, fd, POOL + 1);
	assert_too_many(side, MAP_PRIVATE, fd, POOL + 1);
	p = side_map_pages(side, MAP_SHARED, other, 0, 4);
	*p = 1;
	assert_too_many(side, MAP_SHARED, fd, POOL - 3);
	assert_too_many(side, MAP_PRIVATE, fd, POOL - 3);
	assert_too_many(side, MAP_SHARED | MAP_POPULATE, fd, POOL - 3);
	assert_too_many(side, MAP_PRIVATE | MAP_POPULATE, fd, POOL - 3);
	/* Half of it is reserved already. */
	assert_too_many(side, MAP_SHARED, other, POOL + 1);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, PAGE_2M);
	/* As many as there are. */
	assert_ptr_not_equal(side_map_pages(side, MAP_PRIVATE, fd, 0, POOL - 4), NULL);
	side_expect(side, 1, POOL - 1);
	assert_too_many(side, MAP_PRIVATE, fd, 1);
	assert_too_many(side, MAP_SHARED, fd, 1);
}

/* What only hugefuse has, and promises more for. */
static void one_page_too_many_otherwise(struct side *side)
{
	int fd = side_file(side, "file", POOL + 1);
	char *p = side_map_pages(side, MAP_PRIVATE, fd, 0, 4);
	struct picture before;

	*p = 1;
	before = picture_take(side);
	assert_int_equal(hugefuse_reserve(fd, 0, (POOL - 3) * PAGE_2M), -1);
	assert_int_equal(errno, ENOMEM);
	assert_unchanged(side, &before);
	/* What is mapped stays where it cannot be replaced. */
	assert_ptr_equal(side_map(side, p, 5 * PAGE_2M, RW, MAP_PRIVATE | MAP_FIXED, fd, 0),
			 MAP_FAILED);
	assert_int_equal(errno, ENOMEM);
	assert_unchanged(side, &before);
	assert_int_equal(*p, 1);
	*page(p, 3) = 2;
	assert_int_equal(fallocate(fd, 0, 0, (POOL - 3) * PAGE_2M), -1);
	assert_int_equal(errno, ENOSPC);
	side_expect(side, 2, 2);
}

static void noreserve_gets_sigbus(struct side *side)
{
	int fd = side_file(side, "file", POOL), other = side_file(side, "other", POOL);
	char *held = side_map_pages(side, MAP_SHARED, fd, 0, 6);
	char *p = side_map_pages(side, MAP_SHARED | MAP_NORESERVE, other, 0, POOL);
	char *own = side_map_pages(side, MAP_PRIVATE | MAP_NORESERVE, other, 0, POOL);

	*p = *page(p, 1) = 1;
	side_expect(side, 2, 6);
	for (int i = 2; i < 5; i++) {
		assert_true(raises_sigbus(page(p, i), true));
		assert_true(raises_sigbus(page(own, i), true));
	}
	assert_true(raises_sigbus(page(p, 2), true)); /* and again */
	assert_false(raises_sigbus(own, false));
	side_expect(side, 2, 6);
	for (int i = 0; i < 6; i++)
		*page(held, i) = 2;
	side_expect(side, 8, 0);
	punch(fd, 0, 2);
	assert_false(raises_sigbus(page(p, 2), true));
	assert_false(raises_sigbus(page(own, 3), true));
	assert_true(raises_sigbus(page(own, 4), true));
	side_expect(side, 8, 0);
	assert_int_equal(side_unmap(side, own, POOL * PAGE_2M), 0);
	assert_false(raises_sigbus(page(p, 3), true));
	assert_int_equal(*page(p, 3), 0);
	side_expect(side, 8, 0);
	for (int i = 2; i < 6; i++)
		assert_int_equal(*page(held, i), 2);
}

struct replaced {
	struct side *side;
	char *end;
};

/* The mapping of other ends before what was replaced. */
static bool replaced_is_forgotten(void *data)
{
	const struct replaced *replaced = data;
	char *text = fixture_text(&replaced->side->fixture, "maps"), end[32];
	bool forgotten;

	snprintf(end, sizeof(end), " %lx ", (unsigned long)replaced->end);
	forgotten = strstr(text, end) != NULL;
	free(text);
	return forgotten;
}

/*
 *	client				daemon
 *					refuses pages, does not watch them
 *	unmaps them by munmap(2)
 *	maps others in their place
 *					a page is free: watches the mapping again
 *	touches the others		their faults are none of its business
 */
static void replaced_is_not_watched(struct side *side)
{
	int fd = side_file(side, "file", POOL), other = side_file(side, "other", 4);
	char *p = side_map_pages(side, MAP_SHARED | MAP_NORESERVE, other, 0, 4);
	struct replaced replaced = {side, page(p, 2)};

	side_map_pages(side, MAP_SHARED | MAP_POPULATE, fd, 0, POOL);
	for (int i = 0; i < 4; i++)
		assert_true(raises_sigbus(page(p, i), true));
	assert_int_equal(munmap(page(p, 2), 2 * PAGE_2M), 0);
	assert_ptr_equal(
		mmap(page(p, 2), PAGE_2M, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
		page(p, 2));
	assert_ptr_equal(
		mmap(page(p, 3), PAGE_2M, RW,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_NORESERVE | MAP_FIXED, -1,
		     0),
		page(p, 3));
	punch(fd, 0, 1);
	assert_true(wait_until(replaced_is_forgotten, &replaced, 2000));
	side_expect(side, POOL - 1, 0);
	*page(p, 2) = 1;
	/* There is no page for it, or there is: the kernel knows. */
	raises_sigbus(page(p, 3), false);
	side_expect(side, POOL - 1, 0);
	*p = 1;
	side_expect(side, POOL, 0);
}

struct theft {
	struct side *side;
	char *held, *stolen;
	atomic_int nr_stolen, next;
	pthread_barrier_t start;
};

static void *hold(void *data)
{
	struct theft *theft = data;

	pthread_barrier_wait(&theft->start);
	for (int i = 0; i < 5; i++) {
		assert_false(raises_sigbus(page(theft->held, i), true));
		*page(theft->held, i) = 1;
	}
	return NULL;
}

static void *steal(void *data)
{
	struct theft *theft = data;
	int idx;

	pthread_barrier_wait(&theft->start);
	while ((idx = theft->next++) < POOL)
		theft->nr_stolen += !raises_sigbus(page(theft->stolen, idx), true);
	return NULL;
}

/*
 * Interleaving: a holder of reservations and two thieves without fault at the same time, while
 * there is one free page too few for each of the thieves. The free ones may go in any order,
 * the reserved ones to their holder alone.
 */
static void reservation_is_kept(struct side *side)
{
	static struct theft theft;
	int fd = side_file(side, "file", 5), other = side_file(side, "other", POOL);
	pthread_t thread[3];

	theft.side = side;
	pthread_barrier_init(&theft.start, NULL, 3);
	for (int round = 0; round < 100; round++) {
		int flags = round % 2 ? MAP_PRIVATE : MAP_SHARED;

		theft.held = side_map_pages(side, flags, fd, 0, 5);
		theft.stolen = side_map_pages(side, MAP_SHARED | MAP_NORESERVE, other, 0, POOL);
		theft.nr_stolen = theft.next = 0;
		for (int i = 0; i < 3; i++)
			assert_int_equal(
				pthread_create(&thread[i], NULL, i ? steal : hold, &theft), 0);
		for (int i = 0; i < 3; i++)
			pthread_join(thread[i], NULL);
		assert_int_equal(theft.nr_stolen, 3);
		assert_int_equal(side_unmap(side, theft.held, 5 * PAGE_2M), 0);
		assert_int_equal(side_unmap(side, theft.stolen, POOL * PAGE_2M), 0);
		assert_int_equal(ftruncate(fd, 0) | ftruncate(other, 0), 0);
		assert_int_equal(ftruncate(fd, 5 * PAGE_2M), 0);
		assert_int_equal(ftruncate(other, POOL * PAGE_2M), 0);
	}
	side_expect(side, 0, 0);
}

struct waiter {
	struct side *side;
	const char *file;
	int flags;
	long idx;
};

/* 0: it got a page; 1: SIGBUS. */
static int touch_in_child(void *data)
{
	struct waiter *waiter = data;
	int fd = side_file(waiter->side, waiter->file, 0);
	char *p =
		side_map_pages(waiter->side, waiter->flags | MAP_NORESERVE, fd, waiter->idx, 1);

	return raises_sigbus(p, true);
}

struct count {
	struct side *side;
	const char *name;
	long least;
};

static bool fault_stat_is(void *data)
{
	struct count *count = data;

	return fixture_fault_stat(&count->side->fixture, count->name) >= count->least;
}

static void wait_for_waiters(struct side *side, long nr)
{
	struct count count = {side, "waiting", nr};

	assert_true(wait_until(fault_stat_is, &count, 5000));
}

static int nr_ended(pid_t *children, int nr)
{
	int ended = 0;

	for (int i = 0; i < nr; i++) {
		siginfo_t info = {0};

		assert_int_equal(waitid(P_PID, children[i], &info, WEXITED | WNOHANG | WNOWAIT),
				 0);
		ended += info.si_pid == children[i];
	}
	return ended;
}

struct ended {
	pid_t *children;
	int nr, least;
};

static bool enough_ended(void *data)
{
	struct ended *ended = data;

	return nr_ended(ended->children, ended->nr) >= ended->least;
}

static void waits_for_a_page(struct side *side)
{
	int fd = side_file(side, "file", POOL);
	char *p = side_map_pages(side, MAP_SHARED | MAP_POPULATE, fd, 0, POOL);
	struct waiter waiters[2] = {{side, "other", MAP_SHARED, 0},
				    {side, "other", MAP_PRIVATE, 1}};
	struct ended ended = {(pid_t[2]){0}, 2, 1};

	side_file(side, "other", 2);
	*p = 1;
	for (int i = 0; i < 2; i++)
		ended.children[i] = start_child(touch_in_child, &waiters[i], 0);
	wait_for_waiters(side, 2);
	assert_int_equal(nr_ended(ended.children, 2), 0);
	/* A page that is freed goes to one of them; that of the private one is free soon after.
	 */
	punch(fd, 1, 1);
	assert_true(wait_until(enough_ended, &ended, 2000));
	punch(fd, 2, 1);
	for (int i = 0; i < 2; i++)
		assert_int_equal(wait_child(ended.children[i], 2000), 0);
	assert_int_equal(*p, 1);
	side_expect(side, POOL - 1, 0);
}

/* Freed by the end of another process. */
static int hold_a_page(void *data)
{
	int *pipes = data;

	return read(pipes[0], (char[1]){0}, 1) != 0;
}

static void waits_for_a_process(struct side *side)
{
	int fd = side_file(side, "file", POOL), pipes[2];
	struct waiter waiter = {side, "other", MAP_SHARED, 0};
	pid_t holder, child;
	char *own;

	side_file(side, "other", 1);
	own = side_map_pages(side, MAP_PRIVATE | MAP_POPULATE, fd, 0, POOL);
	assert_int_equal(pipe(pipes), 0);
	holder = start_child(hold_a_page, pipes, 0);
	/* The child has what was the parent's. */
	assert_int_equal(munmap(own, POOL * PAGE_2M), 0);
	close(pipes[0]);
	side_expect(side, POOL, 0);
	child = start_child(touch_in_child, &waiter, 0);
	wait_for_waiters(side, 1);
	assert_int_equal(nr_ended(&child, 1), 0);
	kill(holder, SIGKILL);
	assert_int_equal(wait_child(child, 2000), 0);
	assert_int_equal(wait_child(holder, 2000), 1000 + SIGKILL);
	side_expect(side, 1, 0);
}

/* There is one mapping left. */
static bool child_is_forgotten(void *data)
{
	struct side *side = data;
	char *text = fixture_text(&side->fixture, "maps"), *second;
	bool forgotten;

	second = strchr(strchr(text, '\n') + 1, '\n') + 1;
	forgotten = *second == '\0';
	free(text);
	return forgotten;
}

static void waiter_is_killed(struct side *side)
{
	int fd = side_file(side, "file", POOL);
	struct waiter waiter = {side, "other", MAP_SHARED, 0};
	pid_t child;
	char *p;

	side_file(side, "other", 1);
	p = side_map_pages(side, MAP_SHARED | MAP_POPULATE, fd, 0, POOL);
	child = start_child(touch_in_child, &waiter, 0);
	wait_for_waiters(side, 1);
	kill(child, SIGKILL);
	assert_int_equal(wait_child(child, 2000), 1000 + SIGKILL);
	assert_true(wait_until(child_is_forgotten, side, 1000));
	punch(fd, 0, 1);
	side_expect(side, POOL - 1, 0);
	*p = 1;
	side_expect(side, POOL, 0);
}

static void waits_for_a_second(struct side *side)
{
	int fd = side_file(side, "file", POOL);
	struct waiter waiter = {side, "other", MAP_SHARED, 0};
	uint64_t start, took;

	side_file(side, "other", 1);
	side_map_pages(side, MAP_SHARED | MAP_POPULATE, fd, 0, POOL);
	start = clock_ms();
	assert_int_equal(run_child(touch_in_child, &waiter, 0, 5000), 1);
	took = clock_ms() - start;
	assert_in_range(took, 1000, 1900);
	side_expect(side, POOL, 0);
	punch(fd, 0, 1);
	assert_int_equal(run_child(touch_in_child, &waiter, 0, 5000), 0);
	side_expect(side, POOL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(one_page_too_many, POOL),
		ON_HUGEFUSE(one_page_too_many_otherwise, "", POOL),
		ON_BOTH(noreserve_gets_sigbus, POOL),
		ON_HUGEFUSE(replaced_is_not_watched, "", POOL),
		ON_BOTH(reservation_is_kept, POOL),
		ON_HUGEFUSE(reservation_is_kept, "fault_mutexes=1", POOL),
		ON_HUGEFUSE(waits_for_a_page, "on_exhausted=wait", POOL),
		ON_HUGEFUSE(waits_for_a_process, "on_exhausted=wait", POOL),
		ON_HUGEFUSE(waiter_is_killed, "on_exhausted=wait", POOL),
		ON_HUGEFUSE(waits_for_a_second, "on_exhausted=wait=1", POOL),
	};

	require_root();
	require_pages(PAGE_2M, POOL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
