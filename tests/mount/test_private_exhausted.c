/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Populating a private mapping when the last page goes to a copy on write.
 *
 *	client: writes to page 1, which the file has	kernel: copies, nobody is asked; that
 *was the last page client: writes to page 2			daemon: believes that there is a
 *page UFFDIO_COPY: EEXIST, though there is none
 *
 * Taken for success, it left the client waiting for ever.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fixture.h"
#include "hugefuse.h"

#define MOUNT_PAGES 5
#define MAP_PAGES   4

static int map_and_populate(void *data)
{
	const struct fixture *fixture = data;
	int fd = open(fixture_path(fixture, "data"), O_RDWR | O_CLOEXEC);
	char *p = hugefuse_mmap(NULL, MAP_PAGES * PAGE_2M, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_NORESERVE | MAP_POPULATE, fd, 0);

	if (p == MAP_FAILED)
		return 1;
	if (raises_sigbus(p, true) || raises_sigbus(p + PAGE_2M, true))
		return 2;
	return raises_sigbus(p + 2 * PAGE_2M, true) ? 0 : 3;
}

static void test_populate_to_the_end(void **state)
{
	struct fixture fixture = {0};
	int fd;

	fixture_mount(&fixture, "size=10M,min_size=2M");
	fd = fixture_file(&fixture, "data", O_RDWR | O_CREAT, 8 * PAGE_2M);
	/* Three pages are the file's, and one of those is in what is mapped. */
	assert_int_equal(pwrite(fd, "x", 1, PAGE_2M), 1);
	assert_int_equal(pwrite(fd, "x", 1, 6 * PAGE_2M), 1);
	assert_int_equal(pwrite(fd, "x", 1, 7 * PAGE_2M), 1);
	assert_int_equal(run_child(map_and_populate, &fixture, 0, 10000), 0);
	close(fd);
	assert_int_equal(unlink(fixture_path(&fixture, "data")), 0);
	fixture_expect_counter(&fixture, "nr_hugepages", 1);
	fixture_umount(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_populate_to_the_end),
	};

	require_root();
	require_pages(PAGE_2M, MOUNT_PAGES);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
