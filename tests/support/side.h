/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Side: the same test on the kernel's own hugetlbfs and on hugefuse. The kernel is the oracle:
 * what a test expects of hugefuse must hold there first, counters included.
 *
 * The body of a test runs in a process of its own, so that whatever it leaves mapped ends with
 * it, and then the side is taken down and the machine must be as before. In there cmocka's
 * assertions work in every thread and child: they abort the process.
 */
#pragma once

#include "fixture.h"

struct side {
	bool kernel;            /* the kernel's hugetlbfs, not hugefuse */
	struct fixture fixture; /* of the kernel: dir, page_size and before alone */
	long nr_pages;          /* of the pool */
};

struct side_test {
	void (*body)(struct side *side);
	bool kernel;
	const char *options; /* of hugefuse, behind size=; may be NULL */
	unsigned long page_size;
	long nr_pages;
};

#define SIDE_TIMEOUT_MS 30000 /* times test_scale() */

/* A cmocka test of one side, and of both. The options are hugefuse's alone. */
#define SIDE_TEST_PAGES(body, kernel, side_name, options, page_size, nr_pages)         \
	{                                                                              \
#body " on " side_name, side_test_run, NULL, NULL, &(struct side_test) \
		{                                                                      \
			body, kernel, options, page_size, nr_pages                     \
		}                                                                      \
	}
#define ON_KERNEL(body, nr_pages) \
	SIDE_TEST_PAGES(body, true, "hugetlbfs", NULL, PAGE_2M, nr_pages)
#define ON_HUGEFUSE(body, options, nr_pages) \
	SIDE_TEST_PAGES(body, false, "hugefuse " options, options, PAGE_2M, nr_pages)
#define ON_BOTH(body, nr_pages) ON_KERNEL(body, nr_pages), ON_HUGEFUSE(body, "", nr_pages)

void side_test_run(void **state);

/* What is called differently: the library's functions, or the system calls. */
void *side_map(const struct side *side, void *addr, size_t length, int prot, int flags, int fd,
	       off_t offset);
/* @length is rounded up, which munmap(2) itself does not do for huge pages. */
int side_unmap(const struct side *side, void *addr, size_t length);
void *side_remap(const struct side *side, void *addr, size_t old_length, size_t new_length,
		 int flags, void *to);

/* A new or old file of @pages pages, open for reading and writing. */
int side_file(const struct side *side, const char *name, long pages);
/* Map @pages pages of @fd from page @idx on for reading and writing, or fail the test. */
char *side_map_pages(const struct side *side, int flags, int fd, long idx, long pages);

/*
 * Assert that of the pool @used pages are in use and @resv reserved. Waits for it a second at
 * most: what the other process has just done may take a moment to arrive.
 */
#define side_expect(side, used, resv) side_expect_at(side, used, resv, __FILE__, __LINE__)
void side_expect_at(const struct side *side, long used, long resv, const char *file, int line);
long side_used(const struct side *side);
long side_resv(const struct side *side);

/* Memory that a fork shares. */
void *shared_memory(size_t length);
/* Whether something is mapped at @addr. */
bool is_mapped(const void *addr);
/* Milliseconds of a clock that only goes forward. */
uint64_t clock_ms(void);
