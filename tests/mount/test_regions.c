/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * .hugefuse/regions: which pages of what are reserved and instantiated; what it says adds up to
 * the counters.
 */
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "fixture.h"
#include "hugefuse.h"

static struct fixture fixture;

/* Whether a line of regions says that [from, to) (pages) of @kind and @path is in @state. */
static bool has_range(const char *kind, long from, long to, const char *state, const char *path)
{
	char *text = fixture_text(&fixture, "regions"), *line, *rest = text;
	char got_kind[16], got_state[16], got_node[16], got_path[256];
	long got_from, got_to, page_kb = (long)(fixture.page_size >> 10);
	bool found = false;

	while (!found && (line = strsep(&rest, "\n"))) {
		if (sscanf(line, "%15s %*u %*d %ld %ld %15s %15s %255s", got_kind, &got_from,
			   &got_to, got_state, got_node, got_path) != 6)
			continue;
		found = strcmp(got_kind, kind) == 0 && strcmp(got_state, state) == 0 &&
			strcmp(got_path, path) == 0 && got_from == from * page_kb &&
			got_to == to * page_kb;
	}
	free(text);
	return found;
}

/* kB of all ranges in @state. */
static long sum(const char *state)
{
	char *text = fixture_text(&fixture, "regions"), *line, *rest = text, got[16];
	long from, to, total = 0;

	while ((line = strsep(&rest, "\n"))) {
		if (sscanf(line, "%*s %*u %*d %ld %ld %15s", &from, &to, got) == 3 &&
		    strcmp(got, state) == 0)
			total += to - from;
	}
	free(text);
	return total;
}

static void expect_sums(void)
{
	long page_kb = (long)(fixture.page_size >> 10);
	struct statvfs st;

	assert_int_equal(sum("instantiated"), (fixture_counter(&fixture, "nr_hugepages") -
					       fixture_counter(&fixture, "free_hugepages")) *
						      page_kb);
	assert_int_equal(statvfs(fixture.dir, &st), 0);
	assert_int_equal(sum("instantiated") + sum("reserved"),
			 (st.f_blocks - st.f_bfree) * (st.f_frsize >> 10));
}

static void test_shared_and_private(void **state)
{
	char *p, *q;
	int fd;

	fixture_mount(&fixture, "size=32M,backing=hugetlb");
	expect_sums();
	fd = fixture_file(&fixture, "a file", O_RDWR | O_CREAT, 8 * PAGE_2M);
	p = hugefuse_mmap(NULL, 8 * PAGE_2M, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	assert_true(has_range("file", 0, 8, "reserved", "/a\\040file"));
	for (int i = 2; i < 6; i++)
		p[i * PAGE_2M] = 1;
	assert_true(has_range("file", 0, 2, "reserved", "/a\\040file"));
	assert_true(has_range("file", 2, 6, "instantiated", "/a\\040file"));
	assert_true(has_range("file", 6, 8, "reserved", "/a\\040file"));
	expect_sums();
	q = hugefuse_mmap(NULL, 3 * PAGE_2M, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	assert_ptr_not_equal(q, MAP_FAILED);
	q[PAGE_2M] = 2;
	assert_true(has_range("mapping", 0, 1, "reserved", "/a\\040file"));
	assert_true(has_range("mapping", 1, 2, "instantiated", "/a\\040file"));
	expect_sums();
	/* A punched page is not even reserved any more. */
	assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				   3 * (off_t)PAGE_2M, PAGE_2M),
			 0);
	assert_true(has_range("file", 2, 3, "instantiated", "/a\\040file"));
	assert_true(has_range("file", 4, 6, "instantiated", "/a\\040file"));
	expect_sums();
	hugefuse_munmap(q, 3 * PAGE_2M);
	hugefuse_munmap(p, 8 * PAGE_2M);
	assert_false(has_range("mapping", 1, 2, "instantiated", "/a\\040file"));
	expect_sums();
	close(fd);
	unlink(fixture_path(&fixture, "a file"));
	fixture_umount(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shared_and_private),
	};

	require_root();
	require_pages(PAGE_2M, 16);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
