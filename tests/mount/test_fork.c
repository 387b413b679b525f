/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Forking: what a child has of its parent's mappings; beside the kernel's hugetlbfs. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "side.h"

#define POOL 24
#define WAIT 20000 /* ms for a child */

extern char **environ;

static char *page(char *p, long idx)
{
	return p + idx * (long)PAGE_2M;
}

/* What parent and child share of a test; in shared_memory(). */
struct family {
	struct side *side;
	char *shared, *own;
	int fd, parent_pidfd;
	int to_child[2], to_parent[2];
};

static struct family family_new(struct side *side, long pages)
{
	struct family family = {side, .fd = side_file(side, "file", pages)};

	family.shared = side_map_pages(side, MAP_SHARED, family.fd, 0, pages);
	family.own = side_map_pages(side, MAP_PRIVATE, family.fd, 0, pages);
	assert_int_equal(pipe(family.to_child), 0);
	assert_int_equal(pipe(family.to_parent), 0);
	return family;
}

static void tell(const int pipes[2])
{
	assert_int_equal(write(pipes[1], "", 1), 1);
}

static void listen_to(const int pipes[2])
{
	char byte;

	assert_int_equal(read(pipes[0], &byte, 1), 1);
}

static int shared_child(void *data)
{
	struct family *family = data;

	assert_int_equal(*family->shared, 1);
	*page(family->shared, 1) = 2;
	tell(family->to_parent);
	listen_to(family->to_child);
	assert_int_equal(*page(family->shared, 2), 3);
	*page(family->shared, 3) = 4;
	return 0;
}

static void shared(struct side *side)
{
	struct family family = family_new(side, 4);
	pid_t child;

	*family.shared = 1;
	child = start_child(shared_child, &family, 0);
	listen_to(family.to_parent);
	assert_int_equal(*page(family.shared, 1), 2);
	side_expect(side, 2, 6);
	*page(family.shared, 2) = 3;
	tell(family.to_child);
	assert_int_equal(wait_child(child, WAIT), 0);
	assert_int_equal(*page(family.shared, 3), 4);
	side_expect(side, 4, 4);
}

static int private_child(void *data)
{
	struct family *family = data;

	assert_int_equal(*family->own, 1);
	assert_int_equal(family->own[1], 2);
	*family->own = 11;                          /* a copy of the parent's page */
	*page(family->own, 1) = 12;                 /* the parent has none there */
	assert_int_equal(*page(family->own, 2), 7); /* the file's */
	*page(family->own, 2) = 13;
	tell(family->to_parent);
	listen_to(family->to_child);
	assert_int_equal(*family->own, 11);
	assert_int_equal(family->own[1], 2);
	assert_int_equal(*page(family->own, 1), 12);
	assert_int_equal(*page(family->own, 2), 13);
	assert_int_equal(*page(family->own, 3), 0);
	return 0;
}

/*
 * A child's pages are not reserved for it: it takes what is free. The parent's reservations
 * stay the parent's.
 */
static void private(struct side *side)
{
	struct family family = family_new(side, 4);
	pid_t child;

	*page(family.shared, 2) = 7;
	*family.own = 1;
	family.own[1] = 2;
	side_expect(side, 2, 6);
	child = start_child(private_child, &family, 0);
	listen_to(family.to_parent);
	side_expect(side, 5, 6);
	assert_int_equal(*family.own, 1);
	*family.own = 21;
	*page(family.own, 1) = 22;
	assert_int_equal(*page(family.own, 2), 7);
	*page(family.own, 2) = 23;
	*page(family.own, 3) = 24;
	side_expect(side, 8, 3);
	tell(family.to_child);
	assert_int_equal(wait_child(child, WAIT), 0);
	side_expect(side, 5, 3);
	assert_int_equal(*family.own, 21);
	assert_int_equal(*page(family.own, 1), 22);
	assert_int_equal(*page(family.shared, 2), 7);
	assert_int_equal(side_unmap(side, family.own, 4 * PAGE_2M), 0);
	side_expect(side, 1, 3);
}

static int no_child(void *data)
{
	return 0;
}

/* The parent writes while the child shares its page: one of both gets a copy. */
static int still_child(void *data)
{
	struct family *family = data;

	tell(family->to_parent);
	listen_to(family->to_child);
	assert_int_equal(*family->own, 1);
	tell(family->to_parent);
	listen_to(family->to_child);
	return 0;
}

static void parent_copies(struct side *side)
{
	struct family family = family_new(side, 2);
	pid_t child;

	*family.own = 1;
	child = start_child(still_child, &family, 0);
	listen_to(family.to_parent);
	side_expect(side, 1, 3);
	*family.own = 2;
	side_expect(side, 2, 3);
	tell(family.to_child);
	listen_to(family.to_parent);
	assert_int_equal(*family.own, 2);
	tell(family.to_child);
	assert_int_equal(wait_child(child, WAIT), 0);
	side_expect(side, 1, 3);
}

/* Children that do nothing change nothing. */
static void child_exits(struct side *side)
{
	struct family family = family_new(side, 2);

	*family.shared = *family.own = 1;
	side_expect(side, 2, 2);
	for (int i = 0; i < 20; i++)
		assert_int_equal(run_child(no_child, NULL, 0, WAIT), 0);
	side_expect(side, 2, 2);
	*page(family.shared, 1) = *page(family.own, 1) = 2;
	side_expect(side, 4, 0);
}

static int grandchild(void *data)
{
	struct family *family = data;
	struct pollfd parent = {.fd = family->parent_pidfd, .events = POLLIN};

	prctl(PR_SET_PDEATHSIG, 0);
	alarm(WAIT / 1000);
	tell(family->to_parent);
	assert_int_equal(poll(&parent, 1, WAIT), 1);
	tell(family->to_parent);
	listen_to(family->to_child);
	assert_int_equal(*family->own, 1);
	assert_int_equal(*family->shared, 2);
	*page(family->own, 1) = 3;
	*page(family->shared, 1) = 4;
	*family->own = 5;
	tell(family->to_parent);
	listen_to(family->to_child);
	assert_int_equal(*page(family->own, 1), 3);
	tell(family->to_parent);
	return 0;
}

static int parent_of_grandchild(void *data)
{
	struct family *family = data, own;

	own = family_new(family->side, 2);
	memcpy(own.to_child, family->to_child, sizeof(own.to_child));
	memcpy(own.to_parent, family->to_parent, sizeof(own.to_parent));
	*own.own = 1;
	*own.shared = 2;
	own.parent_pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	start_child(grandchild, &own, 0);
	listen_to(own.to_child);
	return 0;
}

/*
 * Not on the kernel's own: since 6.11 it takes the page that the child still has for reserved
 * again when the parent ends, and gives that back, so that a page is counted too few.
 */
static void parent_exits_first(struct side *side)
{
	struct family family = {side};
	pid_t parent;

	assert_int_equal(pipe(family.to_child), 0);
	assert_int_equal(pipe(family.to_parent), 0);
	parent = start_child(parent_of_grandchild, &family, 0);
	listen_to(family.to_parent);
	tell(family.to_child);
	assert_int_equal(wait_child(parent, WAIT), 0);
	listen_to(family.to_parent);
	/* The parent's reservation has gone with it, its page is the child's now. */
	side_expect(side, 2, 1);
	tell(family.to_child);
	listen_to(family.to_parent);
	side_expect(side, 4, 0);
	tell(family.to_child);
	listen_to(family.to_parent);
	side_expect(side, 2, 0);
}

static int child_goes_on(void *data)
{
	struct family *family = data;

	listen_to(family->to_child);
	*page(family->own, 1) = 2;
	assert_int_equal(*family->own, 1);
	tell(family->to_parent);
	listen_to(family->to_child);
	return 0;
}

/*
 * Interleaving: the parent unmaps at once when fork(2) returns, while the child has perhaps not
 * run yet. What it holds must be counted all the same.
 */
static void parent_unmaps_at_once(struct side *side)
{
	struct family family = family_new(side, 2);
	pid_t child;

	assert_int_equal(side_unmap(side, family.shared, 2 * PAGE_2M), 0);
	assert_int_equal(ftruncate(family.fd, 0) | ftruncate(family.fd, 2 * PAGE_2M), 0);
	*family.own = 1;
	for (int i = 0; i < 10; i++) {
		child = start_child(child_goes_on, &family, 0);
		assert_int_equal(munmap(family.own, 2 * PAGE_2M), 0);
		side_expect(side, 1, 0);
		tell(family.to_child);
		listen_to(family.to_parent);
		side_expect(side, 2, 0);
		tell(family.to_child);
		assert_int_equal(wait_child(child, WAIT), 0);
		side_expect(side, 0, 0);
		family.own = side_map_pages(side, MAP_PRIVATE, family.fd, 0, 2);
		*family.own = 1;
	}
}

static int without_mapping(void *data)
{
	struct family *family = data;
	char *p;

	assert_false(is_mapped(family->own));
	assert_true(is_mapped(family->shared));
	*page(family->shared, 1) = 9;
	/* One of its own, where the parent's is. */
	p = side_map(family->side, family->own, PAGE_2M, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_FIXED, family->fd, 0);
	assert_ptr_equal(p, family->own);
	*p = 8;
	return 0;
}

static void dontfork(struct side *side)
{
	struct family family = family_new(side, 2);

	*family.own = 1;
	assert_int_equal(madvise(family.own, 2 * PAGE_2M, MADV_DONTFORK), 0);
	assert_int_equal(run_child(without_mapping, &family, 0, WAIT), 0);
	side_expect(side, 2, 2);
	*page(family.own, 1) = 2;
	assert_int_equal(*family.own, 1);
	assert_int_equal(*page(family.shared, 1), 9);
	side_expect(side, 3, 1);
}

static int unmapping_child(void *data)
{
	struct family *family = data;

	assert_int_equal(side_unmap(family->side, page(family->own, 1), PAGE_2M), 0);
	assert_int_equal(side_unmap(family->side, family->shared, 4 * PAGE_2M), 0);
	*page(family->own, 3) = 6;
	*page(family->own, 0) = 5;
	assert_int_equal(madvise(family->own, PAGE_2M, MADV_DONTNEED), 0);
	assert_int_equal(*family->own, 0);
	assert_int_equal(*page(family->own, 3), 6);
	return 0;
}

static void child_unmaps(struct side *side)
{
	struct family family = family_new(side, 4);

	*family.own = *page(family.own, 1) = 1;
	assert_int_equal(run_child(unmapping_child, &family, 0, WAIT), 0);
	side_expect(side, 2, 6);
	assert_int_equal(*family.own, 1);
	assert_int_equal(*page(family.own, 1), 1);
	*page(family.own, 3) = *page(family.shared, 3) = 2;
	side_expect(side, 4, 4);
}

static int second_generation(void *data)
{
	struct family *family = data;

	assert_int_equal(*family->own, 2);
	assert_int_equal(*page(family->own, 1), 3);
	*family->own = 4;
	*page(family->own, 2) = 5;
	*page(family->shared, 3) = 6;
	return 0;
}

static int first_generation(void *data)
{
	struct family *family = data;

	*family->own = 2;
	*page(family->own, 1) = 3;
	assert_int_equal(run_child(second_generation, family, 0, WAIT), 0);
	assert_int_equal(*family->own, 2);
	assert_int_equal(*page(family->own, 2), 0);
	return 0;
}

static void generations(struct side *side)
{
	struct family family = family_new(side, 4);

	*family.own = 1;
	assert_int_equal(run_child(first_generation, &family, 0, WAIT), 0);
	assert_int_equal(*family.own, 1);
	assert_int_equal(*page(family.own, 1), 0);
	assert_int_equal(*page(family.shared, 3), 6);
	side_expect(side, 3, 5);
}

/* A child that does not run the fork handlers, and is another program soon. */
static void spawn(struct side *side)
{
	struct family family = family_new(side, 2);
	char *const argv[] = {(char *)"true", NULL};
	pid_t child;
	int status;

	*family.own = 1;
	for (int i = 0; i < 5; i++) {
		assert_int_equal(posix_spawn(&child, "/bin/true", NULL, NULL, argv, environ),
				 0);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
	}
	*page(family.own, 1) = *family.shared = 2;
	side_expect(side, 3, 1);
}

#define TREE_PAGES 8
#define NR_THREADS 3

struct crowd {
	struct family family;
	atomic_bool stop;
	atomic_int round[NR_THREADS];
};

/* Map, fault and unmap, over and over, while others fork. */
static void *fault_over_and_over(void *data)
{
	static atomic_int next;
	struct crowd *crowd = data;
	int number = next++ % NR_THREADS;

	while (!crowd->stop) {
		char *p = side_map_pages(crowd->family.side, MAP_PRIVATE, crowd->family.fd,
					 number, 1);

		assert_int_equal(p[1], number + 1);
		*p = 1;
		assert_int_equal(side_unmap(crowd->family.side, p, PAGE_2M), 0);
		crowd->round[number]++;
	}
	return NULL;
}

static int child_of_crowd(void *data)
{
	struct crowd *crowd = data;
	struct family *family = &crowd->family;
	char *p;

	for (int i = 0; i < TREE_PAGES; i++)
		assert_int_equal(page(family->shared, i)[1], i < NR_THREADS ? i + 1 : 0);
	*family->own = 5;
	/* The library's lock is free. */
	p = side_map_pages(family->side, MAP_PRIVATE | MAP_NORESERVE, family->fd, 0, 1);
	*p = 6;
	assert_int_equal(*family->own, 5);
	assert_int_equal(side_unmap(family->side, p, PAGE_2M), 0);
	return 0;
}

/*
 * Interleaving: one thread forks while others are inside the library, and waiting for pages.
 * The child has none of them, and must find the library's lock free and its list in order.
 */
static void threads(struct side *side)
{
	static struct crowd crowd;
	pthread_t thread[NR_THREADS];

	crowd.family = family_new(side, TREE_PAGES);
	for (int i = 0; i < NR_THREADS; i++) {
		page(crowd.family.shared, i)[1] = (char)(i + 1);
		assert_int_equal(pthread_create(&thread[i], NULL, fault_over_and_over, &crowd),
				 0);
	}
	*crowd.family.own = 1;
	for (int i = 0; i < 40; i++)
		assert_int_equal(run_child(child_of_crowd, &crowd, 0, WAIT), 0);
	crowd.stop = true;
	for (int i = 0; i < NR_THREADS; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < NR_THREADS; i++)
		assert_true(crowd.round[i] > 0);
	assert_int_equal(*crowd.family.own, 1);
	side_expect(side, TREE_PAGES + 1, TREE_PAGES - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(shared, POOL),
		ON_BOTH(private, POOL),
		ON_BOTH(parent_copies, POOL),
		ON_BOTH(child_exits, POOL),
		ON_HUGEFUSE(parent_exits_first, "", POOL),
		ON_HUGEFUSE(parent_unmaps_at_once, "", POOL),
		ON_BOTH(dontfork, POOL),
		ON_BOTH(child_unmaps, POOL),
		ON_BOTH(generations, POOL),
		ON_BOTH(spawn, POOL),
		ON_BOTH(threads, POOL),
	};

	require_root();
	require_pages(PAGE_2M, POOL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
