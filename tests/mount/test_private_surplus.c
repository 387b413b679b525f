/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reservations of a private mapping that are surplus pages, beyond min_size.
 *
 *	daemon: UFFDIO_COPY takes a page	kernel: resv - 1, free - 1
 *	        the source is not mapped	kernel: resv + 1, but the page, a surplus one,
 *						leaves instead of becoming free again
 *	        a second copy takes another
 *
 * Then the kernel has fewer free pages than reservations, and who comes last gets SIGBUS.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ballast.h"
#include "fixture.h"
#include "hugefuse.h"

#define PAGES 4

static void test_free_pages_cover_reservations(void **state)
{
	struct kernel_counts before, now;
	struct ballast ballast;
	struct fixture fixture = {0};
	char *p;
	int fd;

	ballast_take(&ballast, PAGE_2M);
	before = kernel_counts_read(PAGE_2M);
	fixture_mount(&fixture, "size=32M,min_size=2M");
	fd = fixture_file(&fixture, "data", O_RDWR | O_CREAT, PAGES * PAGE_2M);
	p = hugefuse_mmap(NULL, PAGES * PAGE_2M, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	for (int i = 0; i < PAGES; i++) {
		assert_false(raises_sigbus(p + i * PAGE_2M, true));
		now = kernel_counts_read(PAGE_2M);
		assert_true(now.free >= now.resv);
		assert_int_equal(now.resv - before.resv, PAGES - i - 1);
		assert_int_equal(now.free - before.free, PAGES - i - 1);
	}
	assert_int_equal(hugefuse_munmap(p, PAGES * PAGE_2M), 0);
	close(fd);
	assert_int_equal(unlink(fixture_path(&fixture, "data")), 0);
	fixture_umount(&fixture);
	ballast_drop(&ballast);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_free_pages_cover_reservations),
	};

	require_root();
	require_pages(PAGE_2M, PAGES);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
