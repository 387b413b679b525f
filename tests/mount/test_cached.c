/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Plain shared mappings with plain=cached: they work like on any filesystem, and a file is
 * never both cached and mapped directly.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixture.h"
#include "hugefuse.h"

#define CHILD_MS 5000

static struct fixture fixture;
static char file_name[] = "file";

static int open_file(const char *name, int flags)
{
	int fd = open(fixture_path(&fixture, name), flags | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	return fd;
}

static char *map_plain(int fd, size_t length, int prot)
{
	char *p = mmap(NULL, length, prot, MAP_SHARED, fd, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static int read_in_child(void *data)
{
	int fd = open(fixture_path(&fixture, data), O_RDONLY | O_CLOEXEC);
	char *p = mmap(NULL, 4 * MB, PROT_READ, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		return 1;
	return p[3 * MB] == 'x' && p[0] == 0 ? 0 : 2;
}

static void test_plain_works(void **state)
{
	char *p, *q, byte;
	int fd;

	fixture_mount(&fixture, "size=16M,plain=cached");
	fd = fixture_file(&fixture, "file", O_RDWR | O_CREAT, 4 * MB);
	p = map_plain(fd, 4 * MB, PROT_READ | PROT_WRITE);
	p[3 * MB] = 'x';
	/* by another process, by read(2), and by a direct mapping when all are gone */
	assert_int_equal(run_child(read_in_child, file_name, 0, CHILD_MS), 0);
	assert_int_equal(pread(fd, &byte, 1, 3 * MB), 1);
	assert_int_equal(byte, 'x');
	assert_int_equal(pwrite(fd, "y", 1, MB), 1);
	assert_int_equal(p[MB], 'y');
	munmap(p, 4 * MB);
	close(fd);
	fd = open_file("file", O_RDWR);
	q = hugefuse_mmap(NULL, 4 * MB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(q, MAP_FAILED);
	assert_int_equal(q[3 * MB], 'x');
	assert_int_equal(q[MB], 'y');
	hugefuse_munmap(q, 4 * MB);
	close(fd);
	unlink(fixture_path(&fixture, "file"));
	fixture_umount(&fixture);
}

static int map_while_direct(void *data)
{
	int fd = open(fixture_path(&fixture, data), O_RDWR | O_CLOEXEC);
	char byte;

	if (mmap(NULL, MB, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED || errno != ENODEV)
		return 1;
	if (pread(fd, &byte, 1, 5) != 1 || byte != 'd')
		return 2;
	return pwrite(fd, "c", 1, 6) == 1 ? 0 : 3;
}

static void test_denied_while_direct(void **state)
{
	int fd, other;
	char *p;

	fixture_mount(&fixture, "size=16M,plain=cached");
	fd = fixture_file(&fixture, "file", O_RDWR | O_CREAT, 4 * MB);
	p = hugefuse_mmap(NULL, 4 * MB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	p[5] = 'd';
	assert_int_equal(run_child(map_while_direct, file_name, 0, CHILD_MS), 0);
	assert_int_equal(p[6], 'c');
	hugefuse_munmap(p, 4 * MB);
	close(fd);
	/* And again plainly, from here on. */
	other = open_file("file", O_RDWR);
	p = map_plain(other, 4 * MB, PROT_READ);
	assert_int_equal(p[5], 'd');
	munmap(p, 4 * MB);
	close(other);
	unlink(fixture_path(&fixture, "file"));
	fixture_umount(&fixture);
}

static void test_busy_while_cached(void **state)
{
	int fd, other;
	char *p;

	fixture_mount(&fixture, "size=16M,plain=cached");
	fd = fixture_file(&fixture, "file", O_RDWR | O_CREAT, 4 * MB);
	for (int i = 0; i < 2; i++) {
		other = open_file("file", i == 0 ? O_RDWR : O_RDONLY);
		p = map_plain(other, 4 * MB, PROT_READ);
		assert_ptr_equal(hugefuse_mmap(NULL, 4 * MB, PROT_READ, MAP_SHARED, fd, 0),
				 MAP_FAILED);
		assert_int_equal(errno, EBUSY);
		assert_int_equal(fixture_nr_mapped(&fixture), 0);
		close(other);
		/* The mapping keeps the file open. */
		assert_ptr_equal(hugefuse_mmap(NULL, 4 * MB, PROT_READ, MAP_SHARED, fd, 0),
				 MAP_FAILED);
		assert_int_equal(errno, EBUSY);
		munmap(p, 4 * MB);
	}
	close(fd);
	unlink(fixture_path(&fixture, "file"));
	fixture_umount(&fixture);
}

static bool can_map_directly(void *data)
{
	int fd = *(int *)data;
	char *p = hugefuse_mmap(NULL, 4 * MB, PROT_READ, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		return false;
	hugefuse_munmap(p, 4 * MB);
	return true;
}

/* close(2) tells the daemon in its own time. */
static void test_free_after_close(void **state)
{
	int fd, other;

	fixture_mount(&fixture, "size=16M,plain=cached");
	fd = fixture_file(&fixture, "file", O_RDWR | O_CREAT, 4 * MB);
	other = open_file("file", O_RDWR);
	assert_false(can_map_directly(&fd));
	close(other);
	assert_true(wait_until(can_map_directly, &fd, 2000));
	close(fd);
	unlink(fixture_path(&fixture, "file"));
	fixture_umount(&fixture);
}

/* The descriptor that was used plainly before is mapped directly: nothing is lost or old. */
static void test_own_descriptor(void **state)
{
	char *p, *q, byte;
	int fd;

	fixture_mount(&fixture, "size=16M,plain=cached");
	fd = fixture_file(&fixture, "file", O_RDWR | O_CREAT, 4 * MB);
	p = map_plain(fd, 4 * MB, PROT_READ | PROT_WRITE);
	p[MB] = 'p';
	munmap(p, 4 * MB);
	q = hugefuse_mmap(NULL, 4 * MB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(q, MAP_FAILED);
	assert_int_equal(q[MB], 'p');
	for (char c = 'a'; c <= 'z'; c++) {
		q[MB] = c;
		assert_int_equal(pread(fd, &byte, 1, MB), 1);
		assert_int_equal(byte, c);
	}
	assert_int_equal(pwrite(fd, "w", 1, MB), 1);
	assert_int_equal(q[MB], 'w');
	hugefuse_munmap(q, 4 * MB);
	close(fd);
	unlink(fixture_path(&fixture, "file"));
	fixture_umount(&fixture);
}

/* What is written to a copy must have a page to go to. */
static void test_reserved(void **state)
{
	struct stat st;
	int fd, other;

	fixture_mount(&fixture, "size=8M,plain=cached");
	fd = fixture_file(&fixture, "file", O_RDWR | O_CREAT, 8 * MB);
	assert_int_equal(ftruncate(fd, 10 * MB), -1);
	assert_int_equal(errno, ENOSPC);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 8 * MB);
	other = open_file("other", O_RDWR | O_CREAT);
	assert_int_equal(ftruncate(other, MB), -1);
	assert_int_equal(errno, ENOSPC);
	close(other);
	close(fd);
	unlink(fixture_path(&fixture, "file"));
	fixture_umount(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain_works),
		cmocka_unit_test(test_denied_while_direct),
		cmocka_unit_test(test_busy_while_cached),
		cmocka_unit_test(test_free_after_close),
		cmocka_unit_test(test_own_descriptor),
		cmocka_unit_test(test_reserved),
	};

	require_root();
	require_pages(PAGE_2M, 8);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
