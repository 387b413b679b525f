/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The same mappings under every option that changes how faults are served. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hugefuse.h"
#include "side.h"

#define PAGES      64 /* four userfaultfds, of 16 pages each, with four fault threads */
#define POOL       (2 * PAGES)
#define NR_THREADS 4
#define RW         (PROT_READ | PROT_WRITE)

static char *page(char *p, long idx)
{
	return p + idx * (long)PAGE_2M;
}

struct touching {
	char *p;
	long nr_pages, step;
	atomic_long next;
	int value;
};

static void *touch_next(void *data)
{
	struct touching *touching = data;
	long number, idx;

	while ((number = touching->next++) < touching->nr_pages) {
		idx = number * touching->step % touching->nr_pages;
		assert_int_equal(*page(touching->p, idx), 0);
		*page(touching->p, idx) = (char)(idx + touching->value);
	}
	return NULL;
}

/* Threads touch all pages, in order or, with a step that is no divisor, across. */
static void touch_all(char *p, long nr_pages, long step, int value)
{
	struct touching touching = {p, nr_pages, step, 0, value};
	pthread_t thread[NR_THREADS];

	for (int i = 0; i < NR_THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, touch_next, &touching), 0);
	for (int i = 0; i < NR_THREADS; i++)
		pthread_join(thread[i], NULL);
}

static void assert_pages(char *p, long from, long to, int value)
{
	for (long i = from; i < to; i++)
		assert_int_equal(*page(p, i), (char)(i + value));
}

struct family {
	char *shared, *own;
};

static int child_of_all(void *data)
{
	struct family *family = data;

	assert_pages(family->shared, 0, PAGES, 1);
	assert_pages(family->own, 0, PAGES / 2, 10);
	return 0;
}

static void mapping(struct side *side)
{
	int fd = side_file(side, "file", PAGES);
	struct family family = {.shared = side_map_pages(side, MAP_SHARED, fd, 0, PAGES)};

	side_expect(side, 0, PAGES);
	touch_all(family.shared, PAGES, 1, 1);
	assert_pages(family.shared, 0, PAGES, 1);
	side_expect(side, PAGES, 0);
	assert_int_equal(ftruncate(fd, 0) | ftruncate(fd, PAGES * PAGE_2M), 0);
	side_expect(side, 0, 0);
	/* Mapped still, but not reserved any more. */
	touch_all(family.shared, PAGES, 7, 1);
	assert_pages(family.shared, 0, PAGES, 1);
	side_expect(side, PAGES, 0);
	close(fd);
	fd = side_file(side, "other", PAGES / 2);
	family.own = side_map_pages(side, MAP_PRIVATE, fd, 0, PAGES / 2);
	side_expect(side, PAGES, PAGES / 2);
	touch_all(family.own, PAGES / 2, 3, 10);
	assert_pages(family.own, 0, PAGES / 2, 10);
	side_expect(side, PAGES + PAGES / 2, 0);
	assert_int_equal(run_child(child_of_all, &family, 0, 20000), 0);
	assert_int_equal(madvise(family.own, PAGES / 2 * PAGE_2M, MADV_DONTNEED), 0);
	side_expect(side, PAGES, PAGES / 2);
	assert_int_equal(side_unmap(side, family.own, PAGES / 2 * PAGE_2M), 0);
	assert_int_equal(side_unmap(side, family.shared, PAGES * PAGE_2M), 0);
	side_expect(side, PAGES, 0);
}

/* Parts that lie across the border between two userfaultfds, at page 16. */
static void across_shards(struct side *side)
{
	int fd = side_file(side, "file", PAGES);
	char *own = side_map_pages(side, MAP_PRIVATE, fd, 0, PAGES), *p, *to;

	*page(own, 15) = 25;
	*page(own, 16) = 26;
	assert_int_equal(madvise(page(own, 15), 2 * PAGE_2M, MADV_DONTNEED), 0);
	side_expect(side, 0, PAGES);
	assert_int_equal(*page(own, 15) | *page(own, 16), 0);
	assert_int_equal(mprotect(page(own, 14), 4 * PAGE_2M, PROT_READ), 0);
	assert_int_equal(*page(own, 17), 0);
	assert_int_equal(mprotect(page(own, 14), 4 * PAGE_2M, RW), 0);
	side_expect(side, 3, PAGES - 3);
	assert_int_equal(side_unmap(side, page(own, 14), 4 * PAGE_2M), 0);
	side_expect(side, 0, PAGES - 4);
	*page(own, 13) = *page(own, 18) = 1;
	side_expect(side, 2, PAGES - 6);
	assert_int_equal(side_unmap(side, own, PAGES * PAGE_2M), 0);
	side_expect(side, 0, 0);
	p = side_map_pages(side, MAP_SHARED, fd, 0, PAGES);
	touch_all(p, 20, 1, 5);
	to = side_map_pages(side, MAP_SHARED, fd, 0, PAGES); /* an address to move to */
	assert_int_equal(side_unmap(side, to, PAGES * PAGE_2M), 0);
	assert_ptr_equal(side_remap(side, p, PAGES * PAGE_2M, PAGES * PAGE_2M,
				    MREMAP_MAYMOVE | MREMAP_FIXED, to),
			 to);
	assert_pages(to, 0, 20, 5);
	touch_all(page(to, 20), PAGES - 20, 1, 25);
	assert_pages(to, 0, PAGES, 5);
	side_expect(side, PAGES, 0);
	assert_int_equal(side_unmap(side, to, PAGES * PAGE_2M), 0);
	assert_false(is_mapped(to) || is_mapped(page(to, PAGES - 1)));
}

static void gigabyte_pages(struct side *side)
{
	const unsigned long page_size = side->fixture.page_size;
	int fd = side_file(side, "file", 1);
	char *p = side_map_pages(side, MAP_SHARED, fd, 0, 1), *own;

	assert_int_equal(page_size, 1UL << 30);
	side_expect(side, 0, 1);
	p[page_size - 1] = 1;
	side_expect(side, 1, 0);
	own = side_map(side, NULL, page_size / 2, RW, MAP_PRIVATE, fd, 0);
	assert_ptr_not_equal(own, MAP_FAILED);
	side_expect(side, 1, 1);
	assert_int_equal(own[page_size - 1], 1);
	own[page_size - 1] = 2;
	assert_int_equal(p[page_size - 1], 1);
	side_expect(side, 2, 0);
	assert_ptr_equal(side_map(side, NULL, page_size, RW, MAP_PRIVATE, fd, 0), MAP_FAILED);
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(side_unmap(side, own, page_size / 2), 0);
	side_expect(side, 1, 0);
	assert_ptr_equal(side_map(side, NULL, page_size, RW, MAP_SHARED, fd, (off_t)PAGE_2M),
			 MAP_FAILED);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ftruncate(fd, 0) | ftruncate(fd, (off_t)page_size), 0);
	side_expect(side, 0, 0);
	own = side_map_pages(side, MAP_PRIVATE, fd, 0, 1);
	own[5] = 3; /* nothing to copy: zeroes */
	assert_int_equal(own[page_size - 1], 0);
	side_expect(side, 1, 0);
}

#define ON_1G(kernel, side_name) \
	SIDE_TEST_PAGES(gigabyte_pages, kernel, side_name, "", 1UL << 30, 2)

static int run_1g(void)
{
	const struct CMUnitTest tests[] = {ON_1G(true, "hugetlbfs"), ON_1G(false, "hugefuse")};

	if (!pages_are_to_be_had(1UL << 30, 2)) {
		printf("without the tests of 1 GB pages: there are none to be had\n");
		return 0;
	}
	return cmocka_run_group_tests_name("1 GB pages", tests, NULL, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(mapping, POOL),
		ON_HUGEFUSE(mapping, "region_lock=global", POOL),
		ON_HUGEFUSE(mapping, "fault_mutexes=1", POOL),
		ON_HUGEFUSE(mapping, "ahead=off", POOL),
		ON_HUGEFUSE(mapping, "ahead=16M", POOL),
		ON_HUGEFUSE(mapping, "fault_threads=1", POOL),
		ON_HUGEFUSE(mapping, "fault_threads=2", POOL),
		ON_HUGEFUSE(mapping, "fault_threads=3", POOL),
		ON_HUGEFUSE(mapping, "fault_threads=4", POOL),
		ON_HUGEFUSE(across_shards, "fault_threads=4,ahead=off", POOL),
		ON_HUGEFUSE(across_shards, "fault_threads=4,region_lock=global,ahead=off",
			    POOL),
		ON_KERNEL(across_shards, POOL),
	};
	int failed;

	require_root();
	require_pages(PAGE_2M, POOL);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	return failed + run_1g();
}
