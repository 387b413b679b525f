/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fork(2) with a pool that has exactly the pages that the parent has: its copy on write never
 * fails, only the child may, by SIGBUS. And what a child does to a shared file never makes it
 * shorter for the other.
 *
 * That parent and child have independent contents, and MADV_DONTFORK, is in
 * tests/mount/test_fork.c.
 */
#include <unistd.h>

#include "reports.h"

#define POOL 4
#define WAIT 20000 /* ms for a child */

struct family {
	struct side *side;
	char *shared, *own;
	int fd, to_child[2], to_parent[2];
};

static struct family family_new(struct side *side, long shared, long own)
{
	struct family family = {side, .fd = side_file(side, "file", POOL)};

	if (shared)
		family.shared = side_map_pages(side, MAP_SHARED, family.fd, 0, shared);
	if (own)
		family.own = side_map_pages(side, MAP_PRIVATE, family.fd, 0, own);
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

/* It reads what was the parent's; there is no page for it to write to. */
static int writing_child(void *data)
{
	struct family *family = data;

	for (int i = 0; i < POOL; i++) {
		assert_int_equal(*page(family->own, i), i + 1);
		assert_true(raises_sigbus(page(family->own, i), true));
		assert_int_equal(*page(family->own, i), i + 1);
	}
	return 0;
}

static void child_writes(struct side *side)
{
	struct family family = family_new(side, 0, POOL);

	for (int i = 0; i < POOL; i++)
		*page(family.own, i) = (char)(i + 1);
	side_expect(side, POOL, 0);
	for (int round = 0; round < 5; round++)
		assert_int_equal(run_child(writing_child, &family, 0, WAIT), 0);
	side_expect(side, POOL, 0);
	for (int i = 0; i < POOL; i++) {
		assert_int_equal(*page(family.own, i), i + 1);
		assert_false(raises_sigbus(page(family.own, i), true));
	}
	side_expect(side, POOL, 0);
}

/* The parent writes: there is no page for a copy, so it keeps the page and the child loses it.
 */
static int losing_child(void *data)
{
	struct family *family = data;

	assert_int_equal(*family->own, 1);
	tell(family->to_parent);
	listen_to(family->to_child);
	assert_true(raises_sigbus(family->own, false));
	assert_true(raises_sigbus(family->own, true));
	tell(family->to_parent);
	listen_to(family->to_child);
	return 0;
}

static void parent_writes(struct side *side)
{
	struct family family = family_new(side, 0, POOL);
	pid_t child;

	for (int i = 0; i < POOL; i++)
		*page(family.own, i) = (char)(i + 1);
	child = start_child(losing_child, &family, 0);
	listen_to(family.to_parent);
	for (int i = 0; i < POOL; i++) {
		assert_false(raises_sigbus(page(family.own, i), true));
		*page(family.own, i) = (char)(i + 10);
	}
	side_expect(side, POOL, 0);
	tell(family.to_child);
	listen_to(family.to_parent);
	tell(family.to_child);
	assert_int_equal(wait_child(child, WAIT), 0);
	for (int i = 0; i < POOL; i++)
		assert_int_equal(*page(family.own, i), i + 10);
	side_expect(side, POOL, 0);
	assert_int_equal(side_unmap(side, family.own, POOL * PAGE_2M), 0);
	side_expect(side, 0, 0);
}

/* The parent has reserved what it has not touched: that is not the child's. */
static int greedy_child(void *data)
{
	struct family *family = data;

	for (int i = 1; i < POOL; i++)
		assert_true(raises_sigbus(page(family->own, i), true));
	return 0;
}

static void reservation_is_the_parents(struct side *side)
{
	struct family family = family_new(side, 0, POOL);

	*family.own = 1;
	side_expect(side, 1, POOL - 1);
	assert_int_equal(run_child(greedy_child, &family, 0, WAIT), 0);
	side_expect(side, 1, POOL - 1);
	for (int i = 0; i < POOL; i++)
		assert_false(raises_sigbus(page(family.own, i), true));
	side_expect(side, POOL, 0);
}

/* It unmaps, maps again, advises and exits; the file and the parent's mapping stay. */
static int meddling_child(void *data)
{
	struct family *family = data;
	char *p;

	*page(family->shared, 1) = 2;
	assert_int_equal(side_unmap(family->side, page(family->shared, 2), 2 * PAGE_2M), 0);
	p = side_map_pages(family->side, MAP_SHARED, family->fd, 2, 1);
	*p = 3;
	assert_int_equal(madvise(family->shared, 2 * PAGE_2M, MADV_DONTNEED), 0);
	assert_int_equal(*family->shared, 1);
	return 0;
}

static void file_is_not_shrunk(struct side *side)
{
	struct family family = family_new(side, POOL, 0);
	struct stat st;

	*family.shared = 1;
	for (int round = 0; round < 5; round++) {
		assert_int_equal(run_child(meddling_child, &family, 0, WAIT), 0);
		assert_int_equal(fstat(family.fd, &st), 0);
		assert_int_equal(st.st_size, POOL * PAGE_2M);
		assert_int_equal(*family.shared, 1);
		assert_int_equal(*page(family.shared, 1), 2);
		assert_int_equal(*page(family.shared, 2), 3);
		side_expect(side, 3, 1);
	}
	assert_false(raises_sigbus(page(family.shared, 3), true));
	side_expect(side, POOL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(child_writes, POOL),
		ON_BOTH(parent_writes, POOL),
		ON_BOTH(reservation_is_the_parents, POOL),
		ON_BOTH(file_is_not_shrunk, POOL),
	};

	require_root();
	require_pages(PAGE_2M, POOL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
