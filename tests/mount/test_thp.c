/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Files of transparent huge pages, mapped by processes that know nothing of hugefuse: what is
 * sized is reserved to the byte, and everything else is as on a tmpfs, which is asked in the
 * same test.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "beside.h"
#include "fixture.h"
#include "hugefuse.h"

#define KB 1024UL

static struct fixture fixture;

static void mount_it(const char *size)
{
	char options[64];

	snprintf(options, sizeof(options), "backing=thp,size=%s", size);
	fixture_mount(&fixture, options);
}

/* Bytes that statfs(2) says are used. */
static unsigned long used(void)
{
	struct statvfs st;

	assert_int_equal(statvfs(fixture.dir, &st), 0);
	return (st.f_blocks - st.f_bfree) * st.f_frsize;
}

static bool nothing_is_used(void *data)
{
	return used() == 0;
}

static void expect_error(long r, int error)
{
	assert_int_equal(r, -1);
	assert_int_equal(errno, error);
}

/* ---- sizes ---- */

static void test_sizes_are_exact(void **state)
{
	static const off_t sizes[] = {1,
				      4096,
				      4097,
				      PAGE_2M - 1,
				      PAGE_2M,
				      PAGE_2M + 1,
				      3 * PAGE_2M,
				      5 * PAGE_2M + 1,
				      7 * PAGE_2M + 4096};
	struct stat st;
	int fd;

	mount_it("32M");
	fd = fixture_file(&fixture, "file", O_RDWR | O_CREAT, 0);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		unsigned long pages = ((unsigned long)sizes[i] + 4095) / 4096;

		assert_int_equal(ftruncate(fd, sizes[i]), 0);
		assert_int_equal(used(), pages * 4096);
		assert_int_equal(fstat(fd, &st), 0);
		assert_int_equal(st.st_size, sizes[i]);
		assert_int_equal(st.st_blocks, pages * 8);
		if (i % 2)
			assert_int_equal(ftruncate(fd, 0), 0);
		else
			assert_int_equal(fallocate(fd, 0, 0, sizes[i]), 0);
	}
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(used(), 0);
	close(fd);
	unlink(fixture_path(&fixture, "file"));
	fixture_umount(&fixture);
}

static void test_no_space(void **state)
{
	const off_t all = 8 * PAGE_2M;
	char *bytes = calloc(1, PAGE_2M);
	struct stat st;
	int fd, other;

	mount_it("16M");
	fd = fixture_file(&fixture, "file", O_RDWR | O_CREAT, 3 * PAGE_2M);
	other = fixture_file(&fixture, "other", O_RDWR | O_CREAT, 4096);
	expect_error(ftruncate(fd, all), ENOSPC);
	expect_error(fallocate(fd, 0, PAGE_2M, all), ENOSPC);
	expect_error(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, all), ENOSPC);
	expect_error(pwrite(fd, "x", 1, all), ENOSPC);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 3 * PAGE_2M);
	assert_int_equal(used(), 3 * PAGE_2M + 4096);
	/* As much as there is room for. */
	assert_int_equal(ftruncate(fd, all - PAGE_2M), 0);
	assert_int_equal(pwrite(fd, bytes, PAGE_2M, all - PAGE_2M), PAGE_2M - 4096);
	expect_error(pwrite(other, "x", 1, 4096), ENOSPC);
	assert_int_equal(used(), all);
	assert_int_equal(unlink(fixture_path(&fixture, "other")), 0);
	close(other);
	assert_int_equal(pwrite(fd, bytes, 4096, all - 4096), 4096);
	assert_int_equal(unlink(fixture_path(&fixture, "file")), 0);
	close(fd);
	assert_true(wait_until(nothing_is_used, NULL, 2000));
	free(bytes);
	fixture_umount(&fixture);
}

/* ---- huge pages ---- */

/* kB of the mapping at @addr that are mapped by huge page table entries. */
static long huge_kb(const void *addr)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	unsigned long start, end;
	bool inside = false;
	char line[512];
	long kb = -1;

	assert_non_null(file);
	while (kb < 0 && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			inside = start == (unsigned long)addr;
		else if (inside)
			sscanf(line, "ShmemPmdMapped: %ld", &kb);
	}
	fclose(file);
	return kb;
}

static void expect_huge(int fd, size_t length)
{
	char *p = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	for (size_t at = 0; at < length; at += 4096)
		p[at]++;
	assert_int_equal(huge_kb(p), length / PAGE_2M * (PAGE_2M / KB));
	munmap(p, length);
}

static void test_pages_are_huge(void **state)
{
	char piece[70000];
	int fd;

	mount_it("64M");
	fd = fixture_file(&fixture, "sized", O_RDWR | O_CREAT, 16 * PAGE_2M + 12345);
	expect_huge(fd, 16 * PAGE_2M + 12345);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(fallocate(fd, 0, 0, 5 * PAGE_2M), 0);
	expect_huge(fd, 5 * PAGE_2M);
	close(fd);
	/* and of a file that was written bit by bit */
	memset(piece, 'p', sizeof(piece));
	fd = fixture_file(&fixture, "written", O_RDWR | O_CREAT, 0);
	for (size_t done = 0; done < 4 * PAGE_2M; done += sizeof(piece))
		assert_int_equal(write(fd, piece, sizeof(piece)), sizeof(piece));
	expect_huge(fd, 4 * PAGE_2M);
	close(fd);
	assert_int_equal(unlink(fixture_path(&fixture, "sized")), 0);
	assert_int_equal(unlink(fixture_path(&fixture, "written")), 0);
	assert_true(wait_until(nothing_is_used, NULL, 2000));
	fixture_umount(&fixture);
}

static bool is_used(void *data)
{
	return used() == *(unsigned long *)data;
}

/* What is allocated ahead of a file that is being written goes when nobody writes any more. */
static void test_trimmed_when_closed(void **state)
{
	unsigned long expected = PAGE_2M + PAGE_2M / 2 + 4096;
	char *bytes = calloc(1, expected);
	int fd;

	mount_it("16M");
	fd = fixture_file(&fixture, "file", O_RDWR | O_CREAT, 0);
	for (unsigned long done = 0; done < expected; done += PAGE_2M / 4) {
		unsigned long part = expected - done < PAGE_2M / 4 ? expected - done
								   : PAGE_2M / 4;

		assert_int_equal(write(fd, bytes + done, part), part);
	}
	close(fd);
	assert_true(wait_until(is_used, &expected, 2000));
	/* What was asked for stays. */
	fd = fixture_file(&fixture, "file", O_RDWR, 0);
	assert_int_equal(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 4 * PAGE_2M), 0);
	close(fd);
	expected = 4 * PAGE_2M;
	assert_int_equal(used(), expected);
	unlink(fixture_path(&fixture, "file"));
	free(bytes);
	fixture_umount(&fixture);
}

/* ---- coherence ---- */

static int look_and_write(void *data)
{
	int fd = open(fixture_path(&fixture, "file"), O_RDWR | O_CLOEXEC);
	char *p = mmap(NULL, 2 * PAGE_2M, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), byte;

	if (p == MAP_FAILED || p[PAGE_2M] != 'm' || p[1] != 'w')
		return 1;
	p[2] = 'c';
	return pread(fd, &byte, 1, PAGE_2M) == 1 && byte == 'm' ? 0 : 2;
}

static void test_coherent(void **state)
{
	char *p, *q, byte;
	int fd, ro;

	mount_it("16M");
	fd = fixture_file(&fixture, "file", O_RDWR | O_CREAT, 2 * PAGE_2M);
	ro = fixture_file(&fixture, "file", O_RDONLY, 0);
	p = mmap(NULL, 2 * PAGE_2M, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	p[PAGE_2M] = 'm';
	assert_int_equal(pwrite(fd, "w", 1, 1), 1);
	assert_int_equal(p[1], 'w');
	assert_int_equal(run_child(look_and_write, NULL, 0, 5000), 0);
	assert_int_equal(p[2], 'c');
	assert_int_equal(pread(ro, &byte, 1, 2), 1);
	assert_int_equal(byte, 'c');
	p[2] = 'd';
	assert_int_equal(pread(ro, &byte, 1, 2), 1);
	assert_int_equal(byte, 'd');
	assert_ptr_equal(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, ro, 0), MAP_FAILED);
	assert_int_equal(errno, EACCES);
	/* A private mapping sees what it has not written to. */
	q = mmap(NULL, PAGE_2M, PROT_READ | PROT_WRITE, MAP_PRIVATE, ro, 0);
	assert_ptr_not_equal(q, MAP_FAILED);
	q[1] = 'q';
	assert_int_equal(p[1], 'w');
	munmap(q, PAGE_2M);
	/* The library's mapping is the same. */
	q = hugefuse_mmap(NULL, 3 * PAGE_2M, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(q, MAP_FAILED);
	assert_int_equal(q[PAGE_2M], 'm');
	q[2 * PAGE_2M] = 'l'; /* it has made the file longer */
	assert_int_equal(pread(fd, &byte, 1, 2 * PAGE_2M), 1);
	assert_int_equal(byte, 'l');
	assert_int_equal(hugefuse_munmap(q, 3 * PAGE_2M), 0);
	munmap(p, 2 * PAGE_2M);
	close(ro);
	close(fd);
	unlink(fixture_path(&fixture, "file"));
	fixture_umount(&fixture);
}

/* ---- the life of pages ---- */

static void test_punched_is_reserved(void **state)
{
	unsigned long all = 8 * PAGE_2M;
	struct stat st;
	int fd, other;
	char *p;

	mount_it("16M");
	fd = fixture_file(&fixture, "file", O_RDWR | O_CREAT, (off_t)all);
	p = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	memset(p, 'x', all);
	assert_int_equal(
		fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, PAGE_2M, 2 * PAGE_2M),
		0);
	assert_int_equal(madvise(p + 5 * PAGE_2M, PAGE_2M, MADV_REMOVE), 0);
	assert_int_equal(p[PAGE_2M - 1], 'x');
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_blocks, (all - 3 * PAGE_2M) / 512);
	/* Nobody else gets the room. */
	assert_int_equal(used(), all);
	other = fixture_file(&fixture, "other", O_RDWR | O_CREAT, 0);
	expect_error(pwrite(other, "x", 1, 0), ENOSPC);
	for (unsigned long at = 0; at < all; at += 4096)
		assert_false(raises_sigbus(p + at, true));
	assert_int_equal(p[PAGE_2M], 0);
	assert_int_equal(p[5 * PAGE_2M + 4096], 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_blocks, all / 512);
	/* Beyond the end there is nothing. */
	assert_int_equal(ftruncate(fd, PAGE_2M + 4096), 0);
	assert_false(raises_sigbus(p + PAGE_2M, true));
	assert_true(raises_sigbus(p + PAGE_2M + 4096, false));
	assert_int_equal(used(), PAGE_2M + 4096);
	munmap(p, all);
	close(other);
	close(fd);
	unlink(fixture_path(&fixture, "file"));
	unlink(fixture_path(&fixture, "other"));
	fixture_umount(&fixture);
}

static bool can_take_all(void *data)
{
	return ftruncate(*(int *)data, 8 * PAGE_2M) == 0;
}

/* A file without a name that is closed, and mapped: FUSE tells nothing of that. */
static void test_mapped_after_all(void **state)
{
	int fd, other;
	char *p;

	mount_it("16M");
	fd = fixture_file(&fixture, "file", O_RDWR | O_CREAT, 6 * PAGE_2M);
	p = mmap(NULL, 6 * PAGE_2M, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	memset(p, 'd', 3 * PAGE_2M);
	close(fd);
	assert_int_equal(unlink(fixture_path(&fixture, "file")), 0);
	other = fixture_file(&fixture, "other", O_RDWR | O_CREAT, 2 * PAGE_2M);
	expect_error(ftruncate(other, 3 * PAGE_2M), ENOSPC);
	assert_int_equal(used(), 8 * PAGE_2M);
	for (unsigned long at = 0; at < 6 * PAGE_2M; at += 4096)
		assert_false(raises_sigbus(p + at, true));
	assert_int_equal(p[3 * PAGE_2M - 1], 'd');
	munmap(p, 6 * PAGE_2M);
	assert_true(wait_until(can_take_all, &other, 1000));
	close(other);
	unlink(fixture_path(&fixture, "other"));
	fixture_umount(&fixture);
}

/* Its pages are there at once when the only name goes. */
static void test_unlink_frees(void **state)
{
	int fd;

	mount_it("16M");
	for (int i = 0; i < 50; i++) {
		fd = fixture_file(&fixture, "file", O_RDWR | O_CREAT, 8 * PAGE_2M);
		close(fd);
		assert_int_equal(unlink(fixture_path(&fixture, "file")), 0);
		assert_int_equal(mkdir(fixture_path(&fixture, "file"), 0700), 0);
		assert_int_equal(rmdir(fixture_path(&fixture, "file")), 0);
	}
	fixture_umount(&fixture);
}

static void test_daemon_dies(void **state)
{
	char *p, *q;
	int fd;

	mount_it("16M");
	fd = fixture_file(&fixture, "file", O_RDWR | O_CREAT, 4 * PAGE_2M);
	p = mmap(NULL, 4 * PAGE_2M, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	q = mmap(NULL, 4 * PAGE_2M, PROT_READ, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	assert_ptr_not_equal(q, MAP_FAILED);
	memset(p, 'k', 2 * PAGE_2M);
	fixture_kill(&fixture);
	for (unsigned long at = 0; at < 2 * PAGE_2M; at += 4096)
		assert_int_equal(q[at], 'k');
	for (unsigned long at = 2 * PAGE_2M; at < 4 * PAGE_2M; at += 4096)
		assert_false(raises_sigbus(p + at, true));
	munmap(p, 4 * PAGE_2M);
	munmap(q, 4 * PAGE_2M);
	close(fd);
	fixture_umount(&fixture);
}

/* ---- base pages in the place of huge ones ---- */

static void test_fallback_is_counted(void **state)
{
	char names[256], dir[128], *escaped = dir;
	int fd;

	mount_it("16M");
	/* as fs/run_dir.c makes the name of the mount point's directory */
	for (const char *c = fixture.dir + 1; *c; c++)
		escaped += sprintf(escaped, *c == '-' ? "\\x2d" : "%c", *c == '/' ? '-' : *c);
	snprintf(names, sizeof(names), "/run/hugefuse/%s/names", dir);
	assert_int_equal(
		mount("none", names, "tmpfs", MS_REMOUNT | MS_NOSUID | MS_NODEV, "huge=never"),
		0);
	assert_int_equal(fixture_fault_stat(&fixture, "base_fallback"), 0);
	fd = fixture_file(&fixture, "file", O_RDWR | O_CREAT, 3 * PAGE_2M);
	assert_int_equal(fixture_fault_stat(&fixture, "base_fallback"), 3);
	assert_int_equal(used(), 3 * PAGE_2M);
	assert_int_equal(pwrite(fd, "x", 1, PAGE_2M), 1);
	close(fd);
	unlink(fixture_path(&fixture, "file"));
	fixture.expected = "base pages were taken";
	fixture_umount(&fixture);
	fixture.expected = NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes_are_exact),
		cmocka_unit_test(test_no_space),
		cmocka_unit_test(test_pages_are_huge),
		cmocka_unit_test(test_trimmed_when_closed),
		cmocka_unit_test(test_coherent),
		cmocka_unit_test(test_punched_is_reserved),
		cmocka_unit_test(test_mapped_after_all),
		cmocka_unit_test(test_unlink_frees),
		cmocka_unit_test(test_daemon_dies),
		cmocka_unit_test(test_fallback_is_counted),
	};

	require_root();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
