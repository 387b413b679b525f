/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Deferred split: holes that cover part of a huge page are noted, and to whoever asks the file
 * is as one on a tmpfs without huge pages. Punching for want of memory, for one tenant or for
 * what somebody else needs, and never where a store could be lost.
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
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "beside.h"
#include "fixture.h"
#include "hugefuse.h"
#include "split.h"

/* How much of a read-only mapping of the file is mapped by huge page table entries. */
static long pmd_mapped_kb(const char *name, size_t length)
{
	int fd = open(fixture_path(&fixture, name), O_RDONLY | O_CLOEXEC);
	volatile char *p = mmap(NULL, length, PROT_READ, MAP_SHARED, fd, 0);
	char line[512], range[32];
	long kb = -1, found;
	bool here = false;
	FILE *smaps;

	assert_ptr_not_equal(p, MAP_FAILED);
	for (size_t at = 0; at < length; at += 4096)
		(void)p[at];
	snprintf(range, sizeof(range), "%lx-", (unsigned long)p);
	smaps = fopen("/proc/self/smaps", "re");
	while (fgets(line, sizeof(line), smaps)) {
		if (strncmp(line, range, strlen(range)) == 0)
			here = true;
		if (here && sscanf(line, "ShmemPmdMapped: %ld", &found) == 1) {
			kb = found;
			break;
		}
	}
	fclose(smaps);
	munmap((void *)p, length);
	close(fd);
	return kb;
}

/* ---- what becomes of one huge page ---- */

static void test_stays_whole(void **state)
{
	int fd;

	fixture_mount(&fixture, DEFER ",split_marks=0:0,size=16M");
	fd = full_file("file", 2, 'x');
	assert_int_equal(pmd_mapped_kb("file", 2 * PAGE_2M), 4096);
	punch(fd, 4096, 1024 * KB);
	expect_bytes("file", 0, 4096, 'x');
	expect_bytes("file", 4096, 1024 * KB, 0);
	expect_bytes("file", 4096 + 1024 * KB, PAGE_2M, 'x');
	assert_int_equal(kb_of(fd), 3 * 1024);
	assert_int_equal(column("could_free_kb"), 1024);
	assert_int_equal(column("queued"), 1);
	assert_int_equal(pmd_mapped_kb("file", 2 * PAGE_2M), 4096);
	/* In part: what was written leaves the hole. */
	write_all(fd, 8192 + 100, 10, 'y');
	assert_int_equal(column("could_free_kb"), 1020);
	assert_int_equal(kb_of(fd), 3 * 1024 + 4);
	expect_bytes("file", 8192, 100, 0);
	expect_bytes("file", 8192 + 100, 10, 'y');
	/* All of it: the page leaves the queue, whole as it was. */
	write_all(fd, 4096, 1024 * KB, 'z');
	assert_int_equal(column("queued"), 0);
	assert_int_equal(column("refilled"), 1);
	assert_int_equal(kb_of(fd), 4 * 1024);
	assert_int_equal(pmd_mapped_kb("file", 2 * PAGE_2M), 4096);
	/* fallocate(2) wants the pages to stay. */
	punch(fd, 0, 512 * KB);
	assert_int_equal(fallocate(fd, 0, 0, PAGE_2M), 0);
	assert_int_equal(column("refilled"), 2);
	assert_int_equal(kb_of(fd), 4 * 1024);
	/* Punched by and by: at the end it is freed as a whole. */
	for (long at = 0; at < 2048 * KB; at += 256 * KB)
		punch(fd, at, 256 * KB);
	assert_int_equal(column("queued"), 0);
	assert_int_equal(column("emptied"), 1);
	assert_int_equal(kb_of(fd), 2 * 1024);
	assert_int_equal(column("split") + column("settled") + column("elsewhere"), 0);
	remove_and_umount("file", fd);
}

static void test_end_of_file(void **state)
{
	int fd;

	fixture_mount(&fixture, DEFER ",split_marks=0:0,size=16M");
	fd = full_file("file", 3, 'x');
	punch(fd, 4096, 1024 * KB);
	punch(fd, (off_t)PAGE_2M + 4096, 1024 * KB);
	punch(fd, 2 * (off_t)PAGE_2M + 4096, 1024 * KB);
	assert_int_equal(column("queued"), 3);
	assert_int_equal(ftruncate(fd, (off_t)PAGE_2M + 512 * KB), 0);
	assert_int_equal(column("queued"), 1);
	assert_int_equal(column("cut"), 2);
	assert_int_equal(kb_of(fd), 1024 + 4);
	assert_int_equal(ftruncate(fd, 3 * (off_t)PAGE_2M), 0);
	expect_bytes("file", (off_t)PAGE_2M, 4096, 'x');
	expect_bytes("file", (off_t)PAGE_2M + 4096, 2 * PAGE_2M - 4096, 0);
	expect_bytes("file", 4096, 1024 * KB, 0);
	/* The rest goes with the file, and no queue keeps it. */
	punch(fd, 2 * (off_t)PAGE_2M + 4096, 512 * KB);
	close(fd);
	assert_int_equal(unlink(fixture_path(&fixture, "file")), 0);
	assert_true(wait_until(nothing_is_used, NULL, 2000));
	assert_int_equal(column("queued"), 0);
	assert_int_equal(column("could_free_kb"), 0);
	fixture_umount(&fixture);
}

/* ---- nothing is deferred where a store could be lost ---- */

static void test_writable_mappings(void **state)
{
	int fd, rw;
	char *p;

	fixture_mount(&fixture, DEFER ",split_marks=100:100,size=16M");
	/* Open for reading and writing: it may be mapped. */
	rw = fixture_file(&fixture, "file", O_RDWR | O_CREAT, 2 * (off_t)PAGE_2M);
	write_all(rw, 0, 2 * PAGE_2M, 'x');
	punch(rw, 0, 1024 * KB);
	assert_int_equal(kb_of(rw), 3 * 1024);
	assert_int_equal(column("deferred"), 0);
	/* Mapped, and closed, of which nobody tells. */
	p = mmap(NULL, 2 * PAGE_2M, PROT_READ | PROT_WRITE, MAP_SHARED, rw, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	close(rw);
	fd = open(fixture_path(&fixture, "file"), O_WRONLY | O_CLOEXEC);
	punch(fd, (off_t)PAGE_2M, 1024 * KB);
	assert_int_equal(column("deferred"), 0);
	memset(p + PAGE_2M, 'm', 1024 * KB);
	expect_bytes("file", (off_t)PAGE_2M, 1024 * KB, 'm');
	munmap(p, 2 * PAGE_2M);
	close(fd);
	/* It has gone: the next one who opens it for writing alone is alone. */
	fd = full_file("file", 2, 'x');
	fd = (close(fd), open(fixture_path(&fixture, "file"), O_WRONLY | O_CLOEXEC));
	punch(fd, 4096, 1020 * KB);
	assert_true(column("deferred") <= 1);
	remove_and_umount("file", fd);
}

static void test_settled_before_it_can_be_mapped(void **state)
{
	int fd, ro, rw;
	char *p;

	fixture_mount(&fixture, DEFER ",split_marks=0:0,size=16M");
	fd = full_file("file", 2, 'x');
	punch(fd, 4096, 1024 * KB);
	punch(fd, (off_t)PAGE_2M, 1024 * KB);
	ro = open(fixture_path(&fixture, "file"), O_RDONLY | O_CLOEXEC);
	p = mmap(NULL, 2 * PAGE_2M, PROT_READ, MAP_SHARED, ro, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_equal(column("queued"), 2); /* who only reads does no harm */
	assert_int_equal(mprotect(p, PAGE_2M, PROT_READ | PROT_WRITE), -1);
	rw = open(fixture_path(&fixture, "file"), O_RDWR | O_CLOEXEC);
	assert_true(rw >= 0);
	assert_int_equal(column("queued"), 0);
	assert_int_equal(column("settled"), 2);
	assert_int_equal(column("freed_kb"), 2048);
	assert_int_equal(kb_of(fd), 2 * 1024);
	assert_int_equal(fixture_counter(&fixture, "free_hugepages"), 7);
	/* And nothing is deferred until all have gone. */
	punch(fd, 1536 * KB, 256 * KB);
	assert_int_equal(column("queued"), 0);
	munmap(p, 2 * PAGE_2M);
	close(ro);
	close(rw);
	close(fd);
	remove_and_umount("file", open(fixture_path(&fixture, "file"), O_WRONLY));
}

/* Copies in the page cache come back as writes: all stores are seen, however it is open. */
static void test_cached_mapping(void **state)
{
	int fd;
	char *p;

	fixture_mount(&fixture, DEFER ",split_marks=0:0,size=16M,plain=cached");
	fd = fixture_file(&fixture, "file", O_RDWR | O_CREAT, PAGE_2M);
	write_all(fd, 0, PAGE_2M, 'x');
	p = mmap(NULL, PAGE_2M, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_equal(p[4096], 'x');
	punch(fd, 0, 1024 * KB);
	assert_int_equal(column("could_free_kb"), 1024);
	assert_int_equal(p[4096], 0);
	memset(p + 4096, 'm', 4096);
	assert_int_equal(msync(p, PAGE_2M, MS_SYNC), 0);
	assert_int_equal(column("could_free_kb"), 1020);
	expect_bytes("file", 4096, 4096, 'm');
	expect_bytes("file", 0, 4096, 0);
	munmap(p, PAGE_2M);
	remove_and_umount("file", fd);
}

/* Without passthrough the library gets the descriptor of the pages themselves. */
static void test_library_mapping(void **state)
{
	int fd;
	char *p;

	fixture_mount(&fixture, DEFER ",split_marks=0:0,size=16M,plain=deny");
	fd = fixture_file(&fixture, "file", O_RDWR | O_CREAT, 3 * (off_t)PAGE_2M);
	write_all(fd, 0, 3 * PAGE_2M, 'x');
	punch(fd, 0, 1024 * KB);
	assert_int_equal(column("queued"), 1);
	p = hugefuse_mmap(NULL, 3 * PAGE_2M, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_equal(column("queued"), 0);
	assert_int_equal(column("settled"), 1);
	punch(fd, (off_t)PAGE_2M, 1024 * KB);
	assert_int_equal(column("queued"), 0);
	memset(p, 'm', 3 * PAGE_2M);
	punch(fd, 0, 1024 * KB);
	assert_int_equal(column("deferred"), 1);
	expect_bytes("file", (off_t)PAGE_2M, PAGE_2M, 'm');
	assert_int_equal(hugefuse_munmap(p, 3 * PAGE_2M), 0);
	/* It has given all of it up: the page that is still whole can be noted. */
	punch(fd, 2 * (off_t)PAGE_2M, 512 * KB);
	assert_int_equal(column("deferred"), 2);
	remove_and_umount("file", fd);
}

/* The notes die with the daemon: what was noted is there, and zero, and counted. */
static void test_daemon_killed(void **state)
{
	static const char options[] = DEFER ",split_marks=0:0,size=16M";
	int fd;

	fixture_mount(&fixture, options);
	fd = full_file("file", 2, 'x');
	punch(fd, 0, 1024 * KB);
	assert_int_equal(kb_of(fd), 3 * 1024);
	fixture_kill(&fixture);
	close(fd);
	fixture_restart(&fixture, options);
	fd = open(fixture_path(&fixture, "file"), O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(column("queued"), 0);
	assert_int_equal(kb_of(fd), 4 * 1024);
	assert_int_equal(fixture_counter(&fixture, "free_hugepages"), 6);
	expect_bytes("file", 0, 1024 * KB, 0);
	expect_bytes("file", 1024 * KB, 3 * 1024 * KB, 'x');
	/* And it can be noted again. */
	punch(fd, 0, 1024 * KB);
	assert_int_equal(column("could_free_kb"), 1024);
	assert_int_equal(kb_of(fd), 3 * 1024);
	remove_and_umount("file", fd);
}

/* ---- as on a tmpfs without huge pages: sizes, holes and content ---- */

#define SCRIPT_PAGES 4
#define SCRIPT_SIZE  (SCRIPT_PAGES * (off_t)PAGE_2M)
#define SCRIPT_STEPS 300

struct script {
	unsigned int seed;
	bool exact; /* nothing is split meanwhile, which may leave more behind than base pages
		     */
};

static void compare_holes(int fds[2])
{
	off_t at_byte = 0;
	long blocks[2];
	struct stat st;

	both_give(0, fstat(fds[side], &st) < 0 ? -1 : (blocks[side] = st.st_blocks, 0));
	compare_number("file", "st_blocks", blocks[0], blocks[1]);
	for (int whence = SEEK_DATA; at_byte < SCRIPT_SIZE;
	     whence = whence == SEEK_DATA ? SEEK_HOLE : SEEK_DATA) {
		both_equal(lseek(fds[side], at_byte, whence));
		at_byte = lseek(fds[0], at_byte, whence);
		if (at_byte < 0)
			break;
	}
}

/* The last base page of each huge page stays, so that none is freed and made anew. */
static void script_step(int fds[2], unsigned int *seed)
{
	off_t first = (off_t)(rand_r(seed) % SCRIPT_PAGES) * (off_t)PAGE_2M;
	off_t offset = (off_t)rand_r(seed) % ((off_t)PAGE_2M - 4096);
	off_t len = 1 + (off_t)rand_r(seed) % ((off_t)PAGE_2M - 4096 - offset);
	char value = (char)rand_r(seed), *bytes;

	if (rand_r(seed) % 2)
		offset = offset / 4096 * 4096;
	if (rand_r(seed) % 3) {
		both_give(0, fallocate(fds[side], PUNCH, first + offset, len));
		return;
	}
	if (rand_r(seed) % 2)
		len = 1 + len % 20000;
	bytes = malloc((size_t)len);
	memset(bytes, value, (size_t)len);
	both_equal(pwrite(fds[side], bytes, (size_t)len, first + offset));
	free(bytes);
}

static int run_script(void *data)
{
	struct script *script = data;
	char *bytes = malloc(SCRIPT_SIZE);
	int fds[2];

	memset(bytes, 'x', SCRIPT_SIZE);
	beside_open();
	both_give(0,
		  (fds[side] = openat(at, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600)) < 0);
	both_equal(pwrite(fds[side], bytes, SCRIPT_SIZE, 0));
	for (int i = 0; i < SCRIPT_STEPS; i++) {
		script_step(fds, &script->seed);
		if (script->exact)
			compare_holes(fds);
		if (i % 20 == 0)
			compare_content("file", SCRIPT_SIZE);
	}
	compare_content("file", SCRIPT_SIZE);
	both_give(0, close(fds[side]));
	both_give(0, unlinkat(at, "file", 0));
	free(bytes);
	return 0;
}

static void run_beside(const char *options, bool exact)
{
	const char *given = getenv("SEED");
	struct script script = {.exact = exact};

	script.seed = given ? (unsigned int)strtoul(given, NULL, 10) : (unsigned int)time(NULL);
	beside_mount_with(options, "size=32M,huge=never");
	for (int i = 0; i < 3; i++, script.seed++) {
		printf("SEED=%u\n", script.seed);
		beside_run(run_script, &script, 0);
	}
	fixture = beside_fixture;
	assert_true(column("deferred") > 0);
	assert_true(exact ? column("split") == 0 : column("split") > 0);
	assert_int_equal(column("queued"), 0);
	assert_true(wait_until(nothing_is_used, NULL, 2000));
	beside_umount();
}

static void test_beside_tmpfs(void **state)
{
	run_beside(DEFER ",split_marks=0:0,size=32M", true);
}

static void test_beside_tmpfs_shrinking(void **state)
{
	run_beside(DEFER ",split_marks=100:100,size=32M", false);
}

/* ---- for want of memory ---- */

static bool queue_is_empty(void *data)
{
	return column("queued") == 0;
}

static void test_low_mark(void **state)
{
	int fd, other;

	/* 16 huge pages: below 8 free ones it begins. */
	fixture_mount(&fixture, DEFER ",split_marks=50:51,size=32M");
	fd = full_file("file", 4, 'x');
	for (long i = 0; i < 4; i++)
		punch(fd, i * (off_t)PAGE_2M, 1024 * KB);
	assert_int_equal(column("queued"), 4);
	assert_int_equal(fixture_counter(&fixture, "free_hugepages"), 12);
	other = full_file("other", 4, 'o');
	assert_int_equal(column("split"), 0);
	assert_int_equal(ftruncate(other, 5 * (off_t)PAGE_2M), 0);
	assert_true(wait_until(queue_is_empty, NULL, 2000) || column("split") > 0);
	/* 9 of 16 were in use; up to the high mark, 8.16, one of these gives 1/2 page. */
	assert_int_equal(column("split") * 1024, column("freed_kb"));
	assert_true(column("split") >= 2 && column("split") < 4);
	assert_int_equal(kb_of(fd), 4 * 1024);
	for (long i = 0; i < 4; i++) {
		expect_bytes("file", i * (off_t)PAGE_2M, 1024 * KB, 0);
		expect_bytes("file", i * (off_t)PAGE_2M + 1024 * KB, 1024 * KB, 'x');
	}
	close(other);
	assert_int_equal(unlink(fixture_path(&fixture, "other")), 0);
	remove_and_umount("file", fd);
}

static bool tenant_was_split(void *data)
{
	return split_column("split", data) > 0;
}

/* Two tenants whose files have holes in each of their huge pages, of which the first is refused
 * another page. */
static void begin_tenants(const char *mode, int fds[2])
{
	char options[96];

	snprintf(options, sizeof(options),
		 "backing=thp,split_queue=%s,split_marks=0:100,size=64M", mode);
	fixture_mount(&fixture, options);
	for (int i = 0; i < 2; i++) {
		const char *dir = i ? "two" : "one";

		assert_int_equal(mkdir(fixture_path(&fixture, dir), 0755), 0);
		assert_int_equal(setxattr(fixture_path(&fixture, dir), "user.hugefuse.quota",
					  "size=8M", 7, 0),
				 0);
		fds[i] = full_file(i ? "two/file" : "one/file", 4, 'x');
		for (long page = 0; page < 4; page++)
			punch(fds[i], page * (off_t)PAGE_2M, 512 * KB);
	}
	/* Its quota is what its files are long, holes or not. But its holes are given back. */
	assert_int_equal(ftruncate(fds[0], 5 * (off_t)PAGE_2M), -1);
	assert_int_equal(errno, ENOSPC);
}

static void end_tenants(int fds[2])
{
	for (int i = 0; i < 2; i++) {
		close(fds[i]);
		assert_int_equal(unlink(fixture_path(&fixture, i ? "two/file" : "one/file")),
				 0);
	}
	assert_true(wait_until(nothing_is_used, NULL, 2000));
	assert_int_equal(rmdir(fixture_path(&fixture, "one")), 0);
	assert_int_equal(rmdir(fixture_path(&fixture, "two")), 0);
	fixture_umount(&fixture);
}

static void test_tenants(void **state)
{
	int fds[2];

	begin_tenants("tenant-node", fds);
	assert_true(wait_until(tenant_was_split, (char *)"/one", 2000));
	assert_int_equal(split_column("deferred", "/one"), 4);
	assert_int_equal(split_column("queued", "/two"), 4);
	assert_int_equal(split_column("split", "/two"), 0);
	assert_int_equal(split_column("elsewhere", "/one"), 0);
	assert_int_equal(kb_of(fds[0]), 4 * 1536);
	end_tenants(fds);
}

static bool all_is_split(void *data)
{
	return split_column("split", "-") == 8;
}

/* With one queue for all the others' pages are split as well. */
static void test_tenants_share_a_queue(void **state)
{
	int fds[2];

	begin_tenants("global", fds);
	assert_true(wait_until(all_is_split, NULL, 2000));
	assert_int_equal(split_column("elsewhere", "-"), 4);
	assert_int_equal(kb_of(fds[1]), 4 * 1536);
	end_tenants(fds);
}

/* Take memory from the tmpfs that it should have: what is reserved cannot be had there. */
static void limit_tmpfs(long kb)
{
	char names[256], dir[128], options[64], *escaped = dir;

	/* as fs/run_dir.c makes the name of the mount point's directory */
	for (const char *c = fixture.dir + 1; *c; c++)
		escaped += sprintf(escaped, *c == '-' ? "\\x2d" : "%c", *c == '/' ? '-' : *c);
	snprintf(names, sizeof(names), "/run/hugefuse/%s/names", dir);
	snprintf(options, sizeof(options), "size=%ldk", kb);
	assert_int_equal(
		mount("none", names, "tmpfs", MS_REMOUNT | MS_NOSUID | MS_NODEV, options), 0);
}

static void test_shortage(void **state)
{
	int fd, other;

	fixture_mount(&fixture, DEFER ",split_marks=0:0,size=32M");
	fd = full_file("file", 4, 'x');
	for (long i = 0; i < 4; i++)
		punch(fd, i * (off_t)PAGE_2M, 1024 * KB);
	/* Pages that are reserved, and have no memory but 1 MB and what the holes have: 4 MB.
	 */
	other = full_file("other", 3, 'o');
	punch(other, 0, 3 * (off_t)PAGE_2M);
	limit_tmpfs(32 * KB - 5 * KB);
	assert_int_equal(fallocate(other, 0, 0, 2 * (off_t)PAGE_2M), 0);
	assert_true(column("split") > 0);
	write_all(other, 2 * (off_t)PAGE_2M, 512 * KB, 'w');
	expect_bytes("other", 2 * (off_t)PAGE_2M, 512 * KB, 'w');
	expect_bytes("other", 0, 2 * PAGE_2M, 0);
	assert_int_equal(kb_of(fd), 4 * 1024);
	for (long i = 0; i < 4; i++) {
		expect_bytes("file", i * (off_t)PAGE_2M, 1024 * KB, 0);
		expect_bytes("file", i * (off_t)PAGE_2M + 1024 * KB, 1024 * KB, 'x');
	}
	limit_tmpfs(200 * KB);
	close(other);
	assert_int_equal(unlink(fixture_path(&fixture, "other")), 0);
	remove_and_umount("file", fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stays_whole),
		cmocka_unit_test(test_end_of_file),
		cmocka_unit_test(test_writable_mappings),
		cmocka_unit_test(test_settled_before_it_can_be_mapped),
		cmocka_unit_test(test_cached_mapping),
		cmocka_unit_test(test_library_mapping),
		cmocka_unit_test(test_daemon_killed),
		cmocka_unit_test(test_beside_tmpfs),
		cmocka_unit_test(test_beside_tmpfs_shrinking),
		cmocka_unit_test(test_low_mark),
		cmocka_unit_test(test_tenants),
		cmocka_unit_test(test_tenants_share_a_queue),
		cmocka_unit_test(test_shortage),
	};

	require_root();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
