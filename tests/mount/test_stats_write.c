/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The files of .hugefuse that can be written take, refuse and mean what the kernel's own do,
 * which are written the same in the same test.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fixture.h"
#include "hugefuse.h"

#define SYSFS      "/sys/kernel/mm/hugepages/hugepages-2048kB"
#define SYSFS_NODE "/sys/devices/system/node/node0/hugepages/hugepages-2048kB"

static struct fixture fixture;

/* Write @len bytes: 0 or errno. */
static int write_to(const char *path, const char *text, size_t len)
{
	int fd = open(path, O_WRONLY), r = 0;

	if (fd < 0)
		return errno;
	if (write(fd, text, len) != (ssize_t)len)
		r = errno;
	close(fd);
	return r;
}

static long read_from(const char *path)
{
	long value = -1;
	FILE *file = fopen(path, "re");

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%ld", &value), 1);
	fclose(file);
	return value;
}

static const char *stats_path(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/.hugefuse/%s", fixture.dir, name);
	return path;
}

struct pair {
	const char *kernel, *name;
};

static const struct pair pairs[] = {
	{SYSFS "/nr_hugepages", "hugepages-2048kB/nr_hugepages"},
	{SYSFS_NODE "/nr_hugepages", "node/node0/hugepages-2048kB/nr_hugepages"},
	{SYSFS "/nr_overcommit_hugepages", "hugepages-2048kB/nr_overcommit_hugepages"},
};

#define NR_PAIRS (sizeof(pairs) / sizeof(pairs[0]))

/* %ld: the number that it has, so that nothing changes where it is taken. */
static const char *const formats[] = {
	"%ld",     "%ld\n",
	"+%ld\n",  "0%ld",
	"%ld\n\n", " %ld",
	"%ld ",    "\t%ld",
	"-%ld",    "--%ld",
	"++%ld",   "0x%lx",
	"%ldx",    "%ldk",
	"%ld %ld", "%ld,5",
	"\n",      "+",
	"-",       "x",
	"-1",      "18446744073709551616",
	"+\n",     "99999999999999999999999999999999999999",
	"%ld.0",   "1e1",
};

static void check_formats(const struct pair *pair)
{
	char kernel[64], hugefuse[64], path[256];
	long had = read_from(pair->kernel), has;
	int expected, got;

	strcpy(path, stats_path(pair->name));
	has = read_from(path);
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		/* NOLINTNEXTLINE */
		snprintf(kernel, sizeof(kernel), formats[i], had, had);
		snprintf(hugefuse, sizeof(hugefuse), formats[i], has, has);
		expected = write_to(pair->kernel, kernel, strlen(kernel));
		got = write_to(path, hugefuse, strlen(hugefuse));
		if (got != expected)
			fail_msg("%s: '%s': %s, the kernel: %s", pair->name, hugefuse,
				 strerror(got), strerror(expected));
		assert_int_equal(read_from(pair->kernel), had);
		assert_int_equal(read_from(path), has);
	}
	/* A string ends at a NUL byte. */
	snprintf(kernel, sizeof(kernel), "%ld%cjunk", had, 0);
	snprintf(hugefuse, sizeof(hugefuse), "%ld%cjunk", has, 0);
	assert_int_equal(write_to(path, hugefuse, 12), write_to(pair->kernel, kernel, 12));
}

static void test_what_is_taken(void **state)
{
	fixture_mount(&fixture, "size=16M,max_size=32M,backing=hugetlb");
	for (size_t i = 0; i < NR_PAIRS; i++)
		check_formats(&pairs[i]);
	fixture_umount(&fixture);
}

static int open_for_writing(void *data)
{
	for (size_t i = 0; i < NR_PAIRS; i++) {
		int kernel = open(pairs[i].kernel, O_WRONLY) < 0 ? errno : 0;
		int fd = open(stats_path(pairs[i].name), O_WRONLY);

		if (fd >= 0 || errno != kernel)
			return 1;
	}
	return 0;
}

static void test_only_root(void **state)
{
	fixture_mount(&fixture, "size=16M,backing=hugetlb");
	assert_int_equal(run_child(open_for_writing, NULL, 65534, 5000), 0);
	fixture_umount(&fixture);
}

static void set(const char *name, const char *text)
{
	assert_int_equal(write_to(stats_path(name), text, strlen(text)), 0);
}

/* The largest number there is comes to what the mount may have, as in the kernel to what there
 * is memory for. */
static void test_as_much_as_there_is(void **state)
{
	struct kernel_counts before;
	long pages = 12;

	fixture_mount(&fixture, "size=16M,max_size=24M,backing=hugetlb");
	before = kernel_counts_read(PAGE_2M);
	for (int i = 0; i < 2; i++) {
		set(pairs[i].name, "18446744073709551615");
		assert_int_equal(fixture_counter(&fixture, "nr_hugepages"), pages);
		assert_int_equal(read_from(stats_path(pairs[1].name)), pages);
		assert_int_equal(kernel_counts_read(PAGE_2M).nr - before.nr, pages - 8);
		set(pairs[i].name, "2\n");
		assert_int_equal(fixture_counter(&fixture, "nr_hugepages"), 2);
		assert_int_equal(read_from(stats_path(pairs[1].name)), 2);
	}
	set(pairs[2].name, "18446744073709551615");
	assert_int_equal(fixture_counter(&fixture, "nr_overcommit_hugepages"), pages - 2);
	set(pairs[2].name, "3");
	assert_int_equal(fixture_counter(&fixture, "nr_overcommit_hugepages"), 3);
	fixture_umount(&fixture);
}

/* As set_max_huge_pages(): what is in use stays, as surplus, and goes when it is freed. */
static void test_pages_in_use_stay(void **state)
{
	char *p;
	int fd;

	for (int i = 0; i < 2; i++) {
		fixture_mount(&fixture, "size=16M,backing=hugetlb");
		fd = fixture_file(&fixture, "file", O_RDWR | O_CREAT, 5 * PAGE_2M);
		p = hugefuse_mmap(NULL, 5 * PAGE_2M, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		assert_ptr_not_equal(p, MAP_FAILED);
		for (int j = 0; j < 3; j++)
			p[j * PAGE_2M] = 1;
		set(pairs[i].name, "1");
		/* three in use, two reserved */
		assert_int_equal(fixture_counter(&fixture, "nr_hugepages"), 5);
		assert_int_equal(fixture_counter(&fixture, "surplus_hugepages"), 4);
		assert_int_equal(fixture_counter(&fixture, "free_hugepages"), 2);
		assert_int_equal(fixture_counter(&fixture, "resv_hugepages"), 2);
		p[4 * PAGE_2M] = 1;
		hugefuse_munmap(p, 5 * PAGE_2M);
		close(fd);
		unlink(fixture_path(&fixture, "file"));
		fixture_expect_counter(&fixture, "nr_hugepages", 1);
		fixture_expect_counter(&fixture, "surplus_hugepages", 0);
		fixture_umount(&fixture);
	}
}

static void test_zero_clears(void **state)
{
	char *p;
	int fd;

	fixture_mount(&fixture, "size=16M,backing=hugetlb");
	fd = fixture_file(&fixture, "file", O_RDWR | O_CREAT, 4 * PAGE_2M);
	p = hugefuse_mmap(NULL, 4 * PAGE_2M, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	p[0] = p[PAGE_2M] = 1;
	assert_int_equal(fixture_fault_stat(&fixture, "faults"), 2);
	assert_true(fixture_fault_stat(&fixture, "latency_ns_max") > 0);
	assert_int_equal(write_to(stats_path("fault_stat"), "1", 1), EINVAL);
	assert_int_equal(write_to(stats_path("fault_stat"), "00", 2), EINVAL);
	assert_int_equal(fixture_fault_stat(&fixture, "faults"), 2);
	set("fault_stat", "0\n");
	assert_int_equal(fixture_fault_stat(&fixture, "faults"), 0);
	assert_int_equal(fixture_fault_stat(&fixture, "latency_ns_max"), 0);
	assert_int_equal(fixture_fault_stat(&fixture, "latency_ns_sum"), 0);
	p[2 * PAGE_2M] = 1;
	assert_int_equal(fixture_fault_stat(&fixture, "node0_outcome_reservation"), 1);
	assert_int_equal(fixture_fault_stat(&fixture, "latency_ns_max"),
			 fixture_fault_stat(&fixture, "latency_ns_sum"));
	hugefuse_munmap(p, 4 * PAGE_2M);
	close(fd);
	unlink(fixture_path(&fixture, "file"));
	fixture_umount(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_taken),
		cmocka_unit_test(test_only_root),
		cmocka_unit_test(test_as_much_as_there_is),
		cmocka_unit_test(test_pages_in_use_stay),
		cmocka_unit_test(test_zero_clears),
	};

	require_root();
	require_pages(PAGE_2M, 24);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
