/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Address ranges: what munmap, mremap, madvise and MAP_FIXED do to a mapping and to the pages
 * behind it; beside the kernel's hugetlbfs.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hugefuse.h"
#include "side.h"

#define POOL 16
#define RW   (PROT_READ | PROT_WRITE)

#ifndef MADV_REMOVE
#define MADV_REMOVE 9
#endif

/* Page @idx at @p. */
static char *page(char *p, long idx)
{
	return p + idx * (long)PAGE_2M;
}

/* An address range of @pages pages that is free and aligned. */
static char *free_range(long pages)
{
	size_t length = (size_t)(pages + 1) * PAGE_2M;
	uintptr_t p = (uintptr_t)mmap(NULL, length, PROT_NONE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_int_not_equal(p, (uintptr_t)MAP_FAILED);
	munmap((void *)p, length);
	return (char *)((p + PAGE_2M - 1) & ~(PAGE_2M - 1));
}

/* How many lines of .hugefuse/maps there are, less the heading. */
static int nr_map_lines(struct side *side)
{
	char *text = fixture_text(&side->fixture, "maps");
	int nr = -1;

	for (char *c = text; *c; c++)
		nr += *c == '\n';
	free(text);
	return nr;
}

static void expect_map_lines(struct side *side, int nr)
{
	if (!side->kernel)
		assert_int_equal(nr_map_lines(side), nr);
}

typedef int (*unmap_function)(const struct side *side, void *addr, size_t length);

static int plain_munmap(const struct side *side, void *addr, size_t length)
{
	return munmap(addr, length);
}

static void unmap_middle(struct side *side, unmap_function unmap)
{
	int fd = side_file(side, "file", 6);
	char *p = side_map_pages(side, MAP_SHARED, fd, 0, 6);
	char *own = side_map_pages(side, MAP_PRIVATE, fd, 0, 6);

	*page(p, 2) = 3;
	*page(own, 3) = 4;
	side_expect(side, 2, 10);
	expect_map_lines(side, 2);
	assert_int_equal(unmap(side, page(p, 2), 2 * PAGE_2M), 0);
	side_expect(side, 2, 10); /* they are the file's */
	expect_map_lines(side, 3);
	assert_int_equal(unmap(side, page(own, 2), 2 * PAGE_2M), 0);
	side_expect(side, 1, 9);
	expect_map_lines(side, 4);
	assert_false(is_mapped(page(p, 2)) || is_mapped(page(own, 3)));
	for (int i = 0; i < 6; i++) {
		if (i == 2 || i == 3)
			continue;
		*page(p, i) = (char)(10 + i);
		*page(own, i) = (char)(20 + i);
	}
	for (int i = 0; i < 6; i++) {
		if (i == 2 || i == 3)
			continue;
		assert_int_equal(*page(p, i), 10 + i);
		assert_int_equal(*page(own, i), 20 + i);
	}
	side_expect(side, 9, 1);
	assert_int_equal(unmap(side, page(own, 4), 2 * PAGE_2M), 0);
	assert_int_equal(unmap(side, page(own, 0), 2 * PAGE_2M), 0);
	side_expect(side, 5, 1);
	expect_map_lines(side, 2);
	assert_int_equal(unmap(side, p, 2 * PAGE_2M), 0);
	assert_int_equal(unmap(side, page(p, 4), 2 * PAGE_2M), 0);
	side_expect(side, 5, 1);
	expect_map_lines(side, 0);
}

static void unmap_middle_by_library(struct side *side)
{
	unmap_middle(side, side_unmap);
}

static void unmap_middle_by_munmap(struct side *side)
{
	unmap_middle(side, plain_munmap);
}

/* A range over several mappings, and with a gap. */
static void unmap_across(struct side *side)
{
	int fd = side_file(side, "file", 4);
	char *at = free_range(5), *p, *q;

	p = side_map(side, at, 2 * PAGE_2M, RW, MAP_PRIVATE | MAP_FIXED, fd, 0);
	q = side_map(side, page(at, 3), 2 * PAGE_2M, RW, MAP_PRIVATE | MAP_FIXED, fd, 0);
	assert_ptr_equal(p, at);
	assert_ptr_equal(q, page(at, 3));
	*page(p, 1) = *q = 1;
	side_expect(side, 2, 2);
	assert_int_equal(side_unmap(side, page(at, 1), 3 * PAGE_2M), 0);
	side_expect(side, 0, 2);
	*p = *page(q, 1) = 2;
	side_expect(side, 2, 0);
}

static void unmap_by_munmap_and_map_again(struct side *side)
{
	int fd = side_file(side, "file", 2);
	char *p = side_map_pages(side, MAP_PRIVATE, fd, 0, 2), *q;

	*p = 1;
	assert_int_equal(munmap(p, 2 * PAGE_2M), 0);
	side_expect(side, 0, 0);
	q = side_map(side, p, 2 * PAGE_2M, RW, MAP_PRIVATE | MAP_FIXED, fd, 0);
	assert_ptr_equal(q, p);
	assert_int_equal(*q, 0);
	*page(q, 1) = 1;
	side_expect(side, 2, 0);
	/* The library does not know of munmap(2); the daemon does. */
	assert_int_equal(munmap(q, 2 * PAGE_2M), 0);
	side_expect(side, 0, 0);
}

static void unmap_errors(struct side *side)
{
	int fd = side_file(side, "file", 2);
	char *p = side_map_pages(side, MAP_SHARED, fd, 0, 2);

	assert_int_equal(hugefuse_munmap(p + 4096, PAGE_2M), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(hugefuse_munmap(p, 0), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(hugefuse_munmap(side, PAGE_2M), -1); /* not ours */
	assert_int_equal(errno, EINVAL);
	*p = 1;
	assert_int_equal(hugefuse_munmap(p, 2 * PAGE_2M), 0);
	assert_int_equal(hugefuse_munmap(p, 2 * PAGE_2M), -1);
	assert_int_equal(errno, EINVAL);
}

static void dontneed(struct side *side)
{
	int fd = side_file(side, "file", 4);
	char *p = side_map_pages(side, MAP_SHARED, fd, 0, 2);
	char *own = side_map_pages(side, MAP_PRIVATE, fd, 0, 4);

	*p = 1;
	assert_int_equal(*own, 1);
	*own = *page(own, 2) = 2;
	side_expect(side, 3, 3);
	assert_int_equal(madvise(p, 2 * PAGE_2M, MADV_DONTNEED), 0);
	side_expect(side, 3, 3);
	assert_int_equal(*p, 1);
	assert_int_equal(madvise(own, 4 * PAGE_2M, MADV_DONTNEED), 0);
	/* Its pages are free, and reserved for it again. */
	side_expect(side, 1, 5);
	assert_int_equal(*own, 1);
	assert_int_equal(*page(own, 2), 0);
	for (int i = 0; i < 4; i++)
		*page(own, i) = 3;
	side_expect(side, 5, 1);
	for (int i = 0; i < 4; i++)
		assert_int_equal(*page(own, i), 3);
	assert_int_equal(*p, 1);
}

/* Nobody looks at any counter in between. */
static void dontneed_in_turns(struct side *side)
{
	int fd = side_file(side, "file", 4);
	char *own = side_map_pages(side, MAP_PRIVATE, fd, 0, 4);

	for (int round = 0; round < 200; round++) {
		for (int i = 0; i < 4; i++) {
			assert_int_equal(*page(own, i), 0);
			*page(own, i) = 1;
		}
		assert_int_equal(madvise(own, 4 * PAGE_2M, MADV_DONTNEED), 0);
	}
	side_expect(side, 0, 4);
}

/* Kernel: madvise_remove() is hole punching: the page goes, and with it its reservation. */
static void remove_pages(struct side *side)
{
	int fd = side_file(side, "file", 4);
	char *p = side_map_pages(side, MAP_SHARED, fd, 0, 4);
	char *own = side_map_pages(side, MAP_PRIVATE, fd, 0, 1);

	*p = *page(p, 1) = 1;
	side_expect(side, 2, 3);
	assert_int_equal(madvise(own, PAGE_2M, MADV_REMOVE), -1);
	assert_int_equal(errno, EACCES);
	assert_int_equal(madvise(page(p, 1), 2 * PAGE_2M, MADV_REMOVE), 0);
	side_expect(side, 1, 3);
	assert_int_equal(*page(p, 1), 0);
	assert_int_equal(*p, 1);
	*page(p, 1) = 2;
	side_expect(side, 2, 3);
}

/* The counters are not looked at in between: the daemon has to find out by itself. */
static void remove_in_turns(struct side *side)
{
	int fd = side_file(side, "file", 4);
	char *p = side_map_pages(side, MAP_SHARED, fd, 0, 4);

	for (int round = 0; round < 100; round++) {
		for (int i = 0; i < 4; i++) {
			assert_int_equal(*page(p, i), 0);
			*page(p, i) = 1;
		}
		assert_int_equal(madvise(p, 4 * PAGE_2M, MADV_REMOVE), 0);
	}
	side_expect(side, 0, 0);
}

static void shrink(struct side *side)
{
	int fd = side_file(side, "file", 4);
	char *own = side_map_pages(side, MAP_PRIVATE, fd, 0, 4);

	*own = *page(own, 3) = 1;
	side_expect(side, 2, 2);
	assert_ptr_equal(side_remap(side, own, 4 * PAGE_2M, 2 * PAGE_2M, 0, NULL), own);
	side_expect(side, 1, 1);
	assert_false(is_mapped(page(own, 2)));
	*page(own, 1) = 2;
	assert_int_equal(*own, 1);
	side_expect(side, 2, 0);
	assert_ptr_equal(side_remap(side, own, 2 * PAGE_2M, 2 * PAGE_2M, 0, NULL), own);
}

static void assert_remap_fails(struct side *side, char *addr, size_t old_length,
			       size_t new_length, int flags, void *to, int error)
{
	errno = 0;
	assert_ptr_equal(side_remap(side, addr, old_length, new_length, flags, to), MAP_FAILED);
	assert_int_equal(errno, error);
}

static void remap_errors(struct side *side)
{
	int fd = side_file(side, "file", 4);
	char *p = side_map_pages(side, MAP_SHARED, fd, 0, 2);

	assert_remap_fails(side, p, 2 * PAGE_2M, 3 * PAGE_2M, 0, NULL, EINVAL);
	assert_remap_fails(side, p, 2 * PAGE_2M, 3 * PAGE_2M, MREMAP_MAYMOVE, NULL, EINVAL);
	assert_remap_fails(side, p + 4096, PAGE_2M, PAGE_2M, 0, NULL, EINVAL);
	assert_remap_fails(side, p, PAGE_2M, 0, 0, NULL, EINVAL);
	assert_remap_fails(side, p, 2 * PAGE_2M, 2 * PAGE_2M, MREMAP_FIXED, free_range(2),
			   EINVAL);
	assert_remap_fails(side, p, 2 * PAGE_2M, 2 * PAGE_2M, MREMAP_MAYMOVE | MREMAP_FIXED,
			   page(p, 1), EINVAL);
	assert_remap_fails(side, p, 2 * PAGE_2M, 2 * PAGE_2M, MREMAP_MAYMOVE | MREMAP_FIXED,
			   free_range(2) + 4096, EINVAL);
	*p = *page(p, 1) = 1;
	side_expect(side, 2, 0);
}

static void move(struct side *side)
{
	int fd = side_file(side, "file", 8);
	char *p = side_map_pages(side, MAP_SHARED, fd, 0, 4);
	char *own = side_map_pages(side, MAP_PRIVATE, fd, 4, 4), *to = free_range(4), *r;

	*p = 1;
	*own = 2;
	side_expect(side, 2, 6);
	r = side_remap(side, p, 4 * PAGE_2M, 4 * PAGE_2M, MREMAP_MAYMOVE | MREMAP_FIXED, to);
	assert_ptr_equal(r, to);
	assert_false(is_mapped(p));
	assert_int_equal(*to, 1);
	for (int i = 0; i < 4; i++)
		*page(to, i) = (char)(i + 1);
	side_expect(side, 5, 3);
	/* Over a mapping, which goes. */
	r = side_remap(side, own, 4 * PAGE_2M, 4 * PAGE_2M, MREMAP_MAYMOVE | MREMAP_FIXED, to);
	assert_ptr_equal(r, to);
	assert_int_equal(*to, 2);
	for (int i = 0; i < 4; i++)
		*page(to, i) = 5;
	side_expect(side, 8, 0);
	expect_map_lines(side, 1);
	p = side_map_pages(side, MAP_SHARED, fd, 0, 4);
	for (int i = 0; i < 4; i++)
		assert_int_equal(*page(p, i), i + 1);
	assert_int_equal(side_unmap(side, to, 4 * PAGE_2M), 0);
	side_expect(side, 4, 0);
}

/*
 * Not on the kernel's own: up to 6.18 it forgets the reservations of what stays of a private
 * mapping that is moved in part, and never gives them back.
 */
static void move_part(struct side *side)
{
	int fd = side_file(side, "file", 6);
	char *own = side_map_pages(side, MAP_PRIVATE, fd, 0, 6), *to = free_range(1), *r;

	*page(own, 2) = 2;
	*page(own, 4) = 4;
	/* Two pages, of which one arrives. */
	r = side_remap(side, page(own, 2), 2 * PAGE_2M, PAGE_2M, MREMAP_MAYMOVE | MREMAP_FIXED,
		       to);
	assert_ptr_equal(r, to);
	side_expect(side, 2, 3);
	assert_int_equal(*to, 2);
	assert_false(is_mapped(page(own, 2)) || is_mapped(page(own, 3)));
	*own = *page(own, 1) = *page(own, 5) = 1;
	assert_int_equal(*page(own, 4), 4);
	side_expect(side, 5, 0);
	assert_int_equal(side_unmap(side, to, PAGE_2M), 0);
	side_expect(side, 4, 0);
}

/* The library does not see mremap(2), but the daemon does. */
static void move_by_mremap(struct side *side)
{
	int fd = side_file(side, "file", 4);
	char *p = side_map_pages(side, MAP_SHARED, fd, 0, 2);
	char *own = side_map_pages(side, MAP_PRIVATE, fd, 2, 2), *to = free_range(4);

	*p = 1;
	*own = 2;
	assert_ptr_equal(mremap(p, 2 * PAGE_2M, 2 * PAGE_2M, MREMAP_MAYMOVE | MREMAP_FIXED, to),
			 to);
	assert_ptr_equal(mremap(own, 2 * PAGE_2M, 2 * PAGE_2M, MREMAP_MAYMOVE | MREMAP_FIXED,
				page(to, 2)),
			 page(to, 2));
	*page(to, 1) = *page(to, 3) = 3;
	assert_int_equal(*to, 1);
	assert_int_equal(*page(to, 2), 2);
	side_expect(side, 4, 0);
	assert_int_equal(munmap(to, 4 * PAGE_2M), 0);
	side_expect(side, 2, 0);
}

static void fixed(struct side *side)
{
	int fd = side_file(side, "file", 4), other = side_file(side, "other", 4);
	char *own = side_map_pages(side, MAP_PRIVATE, fd, 0, 4), *p;

	*page(own, 1) = *page(own, 3) = 1;
	side_expect(side, 2, 2);
	p = side_map(side, page(own, 1), 2 * PAGE_2M, RW, MAP_SHARED | MAP_FIXED, other, 0);
	assert_ptr_equal(p, page(own, 1));
	side_expect(side, 1, 3);
	assert_int_equal(*p, 0);
	*p = *page(p, 1) = 2;
	*own = 3;
	assert_int_equal(*page(own, 3), 1);
	side_expect(side, 4, 0);
	assert_int_equal(side_unmap(side, own, 4 * PAGE_2M), 0);
	side_expect(side, 2, 0);
	assert_int_equal(ftruncate(other, 0), 0);
	side_expect(side, 0, 0);
}

/* A mapping that the kernel refuses to make costs nothing, of a shared one neither. */
static void fixed_refused(struct side *side)
{
	int fd = side_file(side, "file", 2);
	char *p = mmap(NULL, 2 * PAGE_2M, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *at;

	at = (char *)(((uintptr_t)p + PAGE_2M - 1) & ~(PAGE_2M - 1));
	for (int i = 0; i < 2; i++) {
		int flags = (i ? MAP_PRIVATE : MAP_SHARED) | MAP_FIXED_NOREPLACE;

		assert_ptr_equal(side_map(side, at, PAGE_2M, RW, flags, fd, 0), MAP_FAILED);
		assert_int_equal(errno, EEXIST);
		side_expect(side, 0, 0);
		flags = (i ? MAP_PRIVATE : MAP_SHARED) | MAP_FIXED;
		assert_ptr_equal(side_map(side, at + 4096, PAGE_2M, RW, flags, fd, 0),
				 MAP_FAILED);
		assert_int_equal(errno, EINVAL);
		side_expect(side, 0, 0);
	}
	assert_int_equal(*p, 0);
}

static void dontfork_normal_advice(struct side *side)
{
	int fd = side_file(side, "file", 2);
	char *p = side_map_pages(side, MAP_SHARED, fd, 0, 2);

	/* Advice of no consequence. */
	assert_int_equal(madvise(p, 2 * PAGE_2M, MADV_DONTFORK), 0);
	assert_int_equal(madvise(p, 2 * PAGE_2M, MADV_DOFORK), 0);
	assert_int_equal(madvise(p, 2 * PAGE_2M, MADV_DONTDUMP), 0);
	*p = *page(p, 1) = 1;
	side_expect(side, 2, 0);
}

/* System calls on pages that were never touched. */
static void system_calls(struct side *side)
{
	int fd = side_file(side, "file", 4), pipes[2];
	char *p = side_map_pages(side, MAP_SHARED, fd, 0, 4);

	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(write(pipes[1], p, 10), 10);
	assert_int_equal(read(pipes[0], page(p, 1), 10), 10);
	assert_int_equal(pread(fd, page(p, 3) - 5, 10, 0), 10);
	side_expect(side, 4, 0);
	assert_int_equal(mlock(p, 4 * PAGE_2M), 0);
	side_expect(side, 4, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(unmap_middle_by_library, POOL),
		ON_BOTH(unmap_middle_by_munmap, POOL),
		ON_BOTH(unmap_across, POOL),
		ON_BOTH(unmap_by_munmap_and_map_again, POOL),
		ON_HUGEFUSE(unmap_errors, "", POOL),
		ON_BOTH(dontneed, POOL),
		ON_BOTH(dontneed_in_turns, POOL),
		ON_BOTH(remove_pages, POOL),
		ON_BOTH(remove_in_turns, POOL),
		ON_BOTH(shrink, POOL),
		ON_BOTH(remap_errors, POOL),
		ON_BOTH(move, POOL),
		ON_HUGEFUSE(move_part, "", POOL),
		ON_BOTH(move_by_mremap, POOL),
		ON_BOTH(fixed, POOL),
		ON_BOTH(fixed_refused, POOL),
		ON_BOTH(dontfork_normal_advice, POOL),
		ON_BOTH(system_calls, POOL),
	};

	require_root();
	require_pages(PAGE_2M, POOL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
