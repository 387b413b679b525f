/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The main job: mount, map, touch, see it, unmount. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fixture.h"
#include "hugefuse.h"

#define PAGES 16

static void test_map_and_touch(void **state)
{
	struct fixture fixture = {0};
	struct hugefuse_info info;
	char *p;
	int fd;

	fixture_mount(&fixture, "size=32M");
	fd = fixture_file(&fixture, "data", O_RDWR | O_CREAT, PAGES * PAGE_2M);
	p = hugefuse_mmap(NULL, PAGES * PAGE_2M, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_equal(hugefuse_query(fd, &info), 0);
	assert_int_equal(info.page_size, PAGE_2M);
	assert_int_equal(info.file_reserved, PAGES);
	assert_int_equal(info.file_instantiated, 0);
	for (int i = 0; i < PAGES; i++) {
		assert_int_equal(p[i * PAGE_2M], 0);
		memset(p + i * PAGE_2M, i + 1, 100);
	}
	assert_int_equal(fixture_counter(&fixture, "free_hugepages"), 0);
	assert_int_equal(fixture_fault_stat(&fixture, "faults_missing"), PAGES);
	assert_int_equal(fixture_fault_stat(&fixture, "outcome_reservation"), PAGES);
	assert_int_equal(hugefuse_munmap(p, PAGES * PAGE_2M), 0);
	/* The data is the file's. */
	for (int i = 0; i < PAGES; i++) {
		char byte;

		assert_int_equal(pread(fd, &byte, 1, i * PAGE_2M + 99), 1);
		assert_int_equal(byte, i + 1);
	}
	close(fd);
	assert_int_equal(unlink(fixture_path(&fixture, "data")), 0);
	fixture_expect_counter(&fixture, "free_hugepages", PAGES);
	fixture_umount(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_map_and_touch),
	};

	require_root();
	require_pages(PAGE_2M, PAGES);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
