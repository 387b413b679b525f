/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Side: the kernel's hugetlbfs and hugefuse behind one set of calls. */
#include "side.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "hugefuse.h"

static void start_kernel(struct side *side, unsigned long page_size)
{
	struct fixture *fixture = &side->fixture;
	char options[80];

	fixture->page_size = page_size;
	fixture->before = kernel_counts_read(page_size);
	kernel_pool_set(page_size, fixture->before.nr + side->nr_pages);
	strcpy(fixture->dir, "/tmp/hugetlbfs-test-XXXXXX");
	snprintf(options, sizeof(options), "pagesize=%luM,size=%luM,min_size=%luM",
		 page_size / MB, (unsigned long)side->nr_pages * page_size / MB,
		 (unsigned long)side->nr_pages * page_size / MB);
	if (!mkdtemp(fixture->dir) ||
	    mount("none", fixture->dir, "hugetlbfs", MS_NOSUID | MS_NODEV, options) < 0) {
		kernel_pool_set(page_size, fixture->before.nr);
		fail_msg("hugetlbfs on %s: %s", fixture->dir, strerror(errno));
	}
}

static bool nothing_is_used(void *data)
{
	const struct side *side = data;

	return side_used(side) == 0;
}

static void stop_kernel(struct side *side)
{
	struct fixture *fixture = &side->fixture;
	struct kernel_counts now;
	bool umounted;

	umounted = umount(fixture->dir) == 0 || umount2(fixture->dir, MNT_DETACH) == 0;
	/* A process that has just exited may hold pages for a moment more. */
	wait_until(nothing_is_used, side, 2000);
	kernel_pool_set(fixture->page_size, fixture->before.nr);
	rmdir(fixture->dir);
	now = kernel_counts_read(fixture->page_size);
	assert_true(umounted);
	assert_memory_equal(&now, &fixture->before, sizeof(now));
}

static void start_hugefuse(struct side *side, const struct side_test *test)
{
	char options[256];

	snprintf(options, sizeof(options), "%ssize=%luM%s%s",
		 test->page_size == PAGE_2M ? "" : "pagesize=1G,",
		 (unsigned long)side->nr_pages * test->page_size / MB,
		 test->options && test->options[0] ? "," : "",
		 test->options ? test->options : "");
	fixture_mount(&side->fixture, options);
}

struct body_run {
	const struct side_test *test;
	struct side *side;
};

static int run_body(void *data)
{
	struct body_run *run = data;

	run->test->body(run->side);
	return 0;
}

void side_test_run(void **state)
{
	const struct side_test *test = *state;
	struct side side = {.kernel = test->kernel, .nr_pages = test->nr_pages};
	int timeout = SIDE_TIMEOUT_MS * (int)test_scale(), r;
	struct body_run run = {test, &side};

	if (test->kernel)
		start_kernel(&side, test->page_size);
	else
		start_hugefuse(&side, test);
	r = reap_child(start_child(run_body, &run, 0), timeout);
	if (test->kernel)
		stop_kernel(&side);
	else
		fixture_umount(&side.fixture);
	if (r == CHILD_TIMED_OUT)
		fail_msg("not done after %d ms", timeout);
	if (r == SKIP_EXIT)
		skip();
	if (r != 0)
		fail_msg("ended with %d", r);
}

void *side_map(const struct side *side, void *addr, size_t length, int prot, int flags, int fd,
	       off_t offset)
{
	return side->kernel ? mmap(addr, length, prot, flags, fd, offset)
			    : hugefuse_mmap(addr, length, prot, flags, fd, offset);
}

int side_unmap(const struct side *side, void *addr, size_t length)
{
	unsigned long mask = side->fixture.page_size - 1;

	return side->kernel ? munmap(addr, (length + mask) & ~mask)
			    : hugefuse_munmap(addr, length);
}

void *side_remap(const struct side *side, void *addr, size_t old_length, size_t new_length,
		 int flags, void *to)
{
	return side->kernel ? mremap(addr, old_length, new_length, flags, to)
			    : hugefuse_mremap(addr, old_length, new_length, flags, to);
}

int side_file(const struct side *side, const char *name, long pages)
{
	return fixture_file(&side->fixture, name, O_RDWR | O_CREAT,
			    pages * (off_t)side->fixture.page_size);
}

char *side_map_pages(const struct side *side, int flags, int fd, long idx, long pages)
{
	unsigned long page_size = side->fixture.page_size;
	char *addr = side_map(side, NULL, (size_t)pages * page_size, PROT_READ | PROT_WRITE,
			      flags, fd, idx * (off_t)page_size);

	if (addr == MAP_FAILED)
		fail_msg("cannot map %ld pages: %s", pages, strerror(errno));
	return addr;
}

long side_used(const struct side *side)
{
	const struct fixture *fixture = &side->fixture;
	struct kernel_counts now;

	if (!side->kernel)
		return fixture_counter(fixture, "nr_hugepages") -
		       fixture_counter(fixture, "free_hugepages");
	now = kernel_counts_read(fixture->page_size);
	return (now.nr - now.free) - (fixture->before.nr - fixture->before.free);
}

/* What is reserved and not used: statfs(2) counts both. */
long side_resv(const struct side *side)
{
	long used = side_used(side);
	struct statfs st;

	if (statfs(side->fixture.dir, &st) < 0)
		fail_msg("statfs: %s", strerror(errno));
	return (long)(st.f_blocks - st.f_bfree) - used;
}

/* resv_hugepages: as all of size= is min_size=, too, whatever is not used is reserved. */
static long counted_resv(const struct side *side)
{
	const struct fixture *fixture = &side->fixture;

	return side->kernel ? kernel_counts_read(fixture->page_size).resv - fixture->before.resv
			    : fixture_counter(fixture, "resv_hugepages");
}

struct side_expectation {
	const struct side *side;
	long used, resv;
};

static bool counters_are(void *data)
{
	const struct side_expectation *expected = data;
	const struct side *side = expected->side;

	return side_used(side) == expected->used && side_resv(side) == expected->resv &&
	       counted_resv(side) == side->nr_pages - expected->used;
}

void side_expect_at(const struct side *side, long used, long resv, const char *file, int line)
{
	struct side_expectation expected = {side, used, resv};

	if (!wait_until(counters_are, &expected, 1000))
		fail_msg("%s:%d: %ld pages used, %ld reserved, resv_hugepages %ld, expected "
			 "%ld, %ld, %ld",
			 file, line, side_used(side), side_resv(side), counted_resv(side), used,
			 resv, side->nr_pages - used);
}

void *shared_memory(size_t length)
{
	void *addr =
		mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (addr == MAP_FAILED)
		fail_msg("no memory to share: %s", strerror(errno));
	return addr;
}

bool is_mapped(const void *addr)
{
	unsigned char residency;

	return mincore((void *)((uintptr_t)addr & ~4095UL), 1, &residency) == 0 ||
	       errno != ENOMEM;
}

uint64_t clock_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}
