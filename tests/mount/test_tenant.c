/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Directories with a quota of their own: who is at its limit is refused and nobody else, what
 * min_size= keeps is there when all others have taken what they can, and nothing comes from one
 * tenant to another. On both backings, where it is not about one of them; what hugetlbfs does
 * with the same options is in test_tenant_oracle.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/falloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "fixture.h"
#include "hugefuse.h"

#define KB    1024UL
#define SIZE  "user.hugefuse.size"
#define MIN   "user.hugefuse.min_size"
#define QUOTA "user.hugefuse.quota"
#define OTHER 1000 /* an ordinary user */

#ifndef RENAME_EXCHANGE
#define RENAME_EXCHANGE (1 << 1)
#endif

static struct fixture fixture;

static void mount_it(const char *backing, const char *options)
{
	char list[128];

	snprintf(list, sizeof(list), "backing=%s,size=32M%s", backing, options);
	fixture_mount(&fixture, list);
}

static const char *path(const char *name)
{
	static char paths[4][128];
	static int next;

	next = (next + 1) % 4;
	snprintf(paths[next], sizeof(paths[0]), "%s/%s", fixture.dir, name);
	return paths[next];
}

static int set_quota(const char *dir, const char *value)
{
	return setxattr(path(dir), QUOTA, value, strlen(value), 0) < 0 ? -errno : 0;
}

static void make_tenant(const char *dir, const char *quota)
{
	assert_int_equal(mkdir(path(dir), 0755), 0);
	assert_int_equal(set_quota(dir, quota), 0);
}

/* A number of QUOTA, in bytes. */
static long quota_value(const char *dir, const char *name)
{
	char text[256], key[32];
	ssize_t len = getxattr(path(dir), QUOTA, text + 1, sizeof(text) - 2);
	char *at;

	assert_true(len > 0);
	text[0] = ',';
	text[len + 1] = '\0';
	snprintf(key, sizeof(key), ",%s=", name);
	at = strstr(text, key);
	assert_non_null(at);
	return atol(at + strlen(key));
}

static long used(const char *dir)
{
	return quota_value(dir, "used");
}

static void expect_space(const char *name, unsigned long size, unsigned long free)
{
	struct statvfs st;

	assert_int_equal(statvfs(path(name), &st), 0);
	assert_int_equal(st.f_blocks * st.f_frsize, size);
	assert_int_equal(st.f_bfree * st.f_frsize, free);
	assert_int_equal(st.f_bavail, st.f_bfree);
}

static void expect_error(long r, int error)
{
	assert_int_equal(r, -1);
	assert_int_equal(errno, error);
}

static int file(const char *name, off_t size)
{
	return fixture_file(&fixture, name, O_RDWR | O_CREAT, size);
}

static void make_file(const char *name, off_t size)
{
	close(file(name, size));
}

struct expected_use {
	const char *dir;
	long bytes;
};

static bool is_used(void *data)
{
	const struct expected_use *expected = data;

	return used(expected->dir) == expected->bytes;
}

static void wait_used(const char *dir, long bytes)
{
	struct expected_use expected = {dir, bytes};

	if (!wait_until(is_used, &expected, 2000))
		fail_msg("%s uses %ld, expected %ld", dir, used(dir), bytes);
}

static void unmount_it(const char *const *names)
{
	for (; *names; names++)
		assert_int_equal(remove(path(*names)), 0);
	wait_used("", 0);
	fixture_umount(&fixture);
}

#define unmount_without(...) unmount_it((const char *const[]){__VA_ARGS__, NULL})

/* ---- limits ---- */

static void test_full_on_thp(void **state)
{
	char *bytes = calloc(1, 8 * PAGE_2M);
	struct stat st;
	int fd, other;

	mount_it("thp", "");
	make_tenant("a", "size=8M");
	make_tenant("b", "size=16M");
	fd = file("a/file", 5 * MB);
	expect_error(ftruncate(fd, 9 * MB), ENOSPC);
	expect_error(fallocate(fd, 0, 6 * MB, 4 * MB), ENOSPC);
	expect_error(fallocate(fd, FALLOC_FL_KEEP_SIZE, 6 * MB, 4 * MB), ENOSPC);
	expect_error(pwrite(fd, "x", 1, 9 * MB), ENOSPC);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 5 * MB);
	assert_int_equal(used("a"), 5 * MB);
	assert_int_equal(quota_value("a", "refused"), 4);
	/* As many bytes as there is room for, to the page. */
	assert_int_equal(pwrite(fd, bytes, 8 * PAGE_2M, 5 * MB), 3 * MB);
	expect_error(pwrite(fd, "x", 1, 8 * MB), ENOSPC);
	expect_space("a", 8 * MB, 0);
	expect_space("a/file", 8 * MB, 0);
	expect_error(open(path("a/none"), O_RDONLY), ENOENT);
	assert_int_equal(quota_value("a", "files"), 1);
	/* Nobody else is at a limit. */
	other = file("b/file", 0);
	assert_int_equal(pwrite(other, bytes, 16 * MB, 0), 16 * MB);
	expect_error(pwrite(other, "x", 1, 16 * MB), ENOSPC);
	make_file("rest", 8 * MB);
	expect_space("", 32 * MB, 0);
	assert_int_equal(quota_value("b", "refused"), 1);
	/* What is freed is to be had again. */
	assert_int_equal(ftruncate(fd, 4096), 0);
	assert_int_equal(pwrite(fd, bytes, 4096, 4096), 4096);
	assert_int_equal(used("a"), 8192);
	close(fd);
	close(other);
	free(bytes);
	unmount_without("a/file", "b/file", "rest", "a", "b");
}

static void test_full_on_hugetlb(void **state)
{
	int fd, other;
	char *map;

	mount_it("hugetlb", "");
	make_tenant("a", "size=8M");
	make_tenant("b", "size=16M,min_size=16M");
	fd = file("a/file", 16 * MB);
	expect_error((long)hugefuse_mmap(NULL, 10 * MB, PROT_READ, MAP_SHARED, fd, 0), ENOMEM);
	map = hugefuse_mmap(NULL, 6 * MB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	memset(map, 1, 6 * MB);
	assert_int_equal(pwrite(fd, map, 2 * MB, 6 * MB), 2 * MB);
	expect_error(pwrite(fd, "x", 1, 8 * MB), ENOSPC);
	expect_error(fallocate(fd, 0, 8 * MB, 2 * MB), ENOSPC);
	expect_error(hugefuse_reserve(fd, 8 * MB, 2 * MB), ENOMEM);
	expect_space("a", 8 * MB, 0);
	assert_int_equal(quota_value("a", "refused"), 4);
	other = file("b/file", 0);
	assert_int_equal(fallocate(other, 0, 0, 16 * MB), 0);
	assert_int_equal(used("b"), 16 * MB);
	assert_int_equal(used(""), 24 * MB);
	hugefuse_munmap(map, 6 * MB);
	close(fd);
	close(other);
	unmount_without("a/file", "b/file", "a", "b");
}

/* A page without reservation, beyond the size: waits until the tenant has one. */
static int touch_third(void *data)
{
	int fd = open(path("a/file"), O_RDWR);
	char *map = hugefuse_mmap(NULL, 6 * MB, PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_NORESERVE, fd, 0);

	for (int i = 0; i < 3; i++)
		map[i * PAGE_2M] = 1;
	return 0;
}

static bool somebody_waits(void *data)
{
	return fixture_fault_stat(&fixture, "waiting") > 0;
}

static void test_waits_for_its_own_limit(void **state)
{
	pid_t child;

	mount_it("hugetlb", ",on_exhausted=wait");
	make_tenant("a", "size=4M");
	make_file("a/file", 6 * MB);
	child = start_child(touch_third, NULL, 0);
	assert_true(wait_until(somebody_waits, NULL, 5000));
	assert_false(child_has_ended(child));
	assert_int_equal(used("a"), 4 * MB);
	assert_int_equal(set_quota("a", "size=6M"), 0);
	assert_int_equal(wait_child(child, 5000), 0);
	assert_int_equal(used("a"), 6 * MB);
	unmount_without("a/file", "a");
}

/* All that others can take they have taken. */
static void check_min_size(const char *backing)
{
	int fd, i;

	mount_it(backing, "");
	make_tenant("a", "size=16M,min_size=8M");
	make_tenant("b", "size=32M");
	expect_space("", 32 * MB, 24 * MB);
	fd = file("file", 0);
	for (i = 0; fallocate(fd, 0, 0, (i + 1) * (off_t)PAGE_2M) == 0; i++)
		;
	assert_int_equal(errno, ENOSPC);
	assert_int_equal(i, 12);
	make_file("b/file", 0);
	expect_error(pwrite(fd, "x", 1, 24 * MB), ENOSPC);
	assert_int_equal(set_quota("b", "min_size=2M"), -ENOSPC);
	assert_int_equal(quota_value("b", "min_size"), 0);
	close(fd);
	fd = file("a/file", 0);
	assert_int_equal(fallocate(fd, 0, 0, 8 * MB), 0);
	expect_error(fallocate(fd, 0, 8 * MB, PAGE_2M), ENOSPC);
	assert_int_equal(quota_value("a", "reserved"), 0);
	/* and it is kept again. */
	assert_int_equal(ftruncate(fd, 2 * MB), 0);
	assert_int_equal(quota_value("a", "reserved"), 6 * MB);
	expect_space("", 32 * MB, 0);
	close(fd);
	unmount_without("file", "a/file", "b/file", "a", "b");
}

static void test_min_size_is_kept(void **state)
{
	check_min_size("hugetlb");
	check_min_size("thp");
}

static void test_inside_one_another(void **state)
{
	mount_it("thp", "");
	make_tenant("a", "size=16M");
	make_tenant("a/in", "size=12M,min_size=4M");
	assert_int_equal(used("a"), 4 * MB);
	assert_int_equal(mkdir(path("a/in/dir"), 0755), 0);
	make_file("a/in/dir/file", 10 * MB);
	assert_int_equal(used("a"), 10 * MB);
	expect_space("a/in/dir", 12 * MB, 2 * MB);
	assert_int_equal(truncate(path("a/in/dir/file"), 13 * MB), -1);
	make_file("a/file", 5 * MB);
	/* Its own size has room, but not the one around it. */
	expect_error(truncate(path("a/in/dir/file"), 12 * MB), ENOSPC);
	expect_error(rename(path("a/file"), path("a/in/file")), EXDEV);
	assert_int_equal(set_quota("a", "size=none"), 0);
	assert_int_equal(truncate(path("a/in/dir/file"), 12 * MB), 0);
	expect_space("a", 32 * MB, 15 * MB);
	assert_int_equal(set_quota("a/in", "size=none,min_size=none"), 0);
	assert_int_equal(rename(path("a/in/dir/file"), path("file")), 0);
	assert_int_equal(used(""), 17 * MB);
	unmount_without("a/in/dir", "a/in", "a/file", "a", "file");
}

/* ---- names ---- */

static void test_names_stay_in(void **state)
{
	mount_it("thp", "");
	make_tenant("a", "size=8M");
	make_tenant("b", "size=8M");
	assert_int_equal(mkdir(path("a/dir"), 0755), 0);
	assert_int_equal(mkdir(path("dir"), 0755), 0);
	make_file("a/file", 4096);
	make_file("file", 4096);
	assert_int_equal(symlink("file", path("a/symlink")), 0);
	expect_error(rename(path("a/file"), path("b/file")), EXDEV);
	expect_error(rename(path("a/file"), path("other")), EXDEV);
	expect_error(rename(path("file"), path("a/dir/other")), EXDEV);
	expect_error(rename(path("a/dir"), path("b/dir")), EXDEV);
	expect_error(rename(path("dir"), path("a/other")), EXDEV);
	expect_error(rename(path("a/symlink"), path("symlink")), EXDEV);
	expect_error(
		renameat2(AT_FDCWD, path("a/file"), AT_FDCWD, path("file"), RENAME_EXCHANGE),
		EXDEV);
	expect_error(link(path("a/file"), path("link")), EXDEV);
	expect_error(link(path("file"), path("a/dir/link")), EXDEV);
	expect_error(link(path("a/file"), path("b/link")), EXDEV);
	/* Inside it, all is as ever; and the directory itself is its parent's. */
	assert_int_equal(rename(path("a/file"), path("a/dir/file")), 0);
	assert_int_equal(link(path("a/dir/file"), path("a/link")), 0);
	assert_int_equal(rename(path("a"), path("dir/a")), 0);
	expect_space("dir/a/dir", 8 * MB, 8 * MB - 4096);
	expect_error(link(path("dir/a/link"), path("dir/link")), EXDEV);
	assert_int_equal(rename(path("dir/a"), path("a")), 0);
	assert_int_equal(used("a"), 4096);
	/* A directory that takes the place of one with a quota. */
	assert_int_equal(set_quota("b", "min_size=8M"), 0);
	assert_int_equal(used(""), 8 * MB + 2 * 4096);
	assert_int_equal(rename(path("dir"), path("b")), 0);
	expect_error(getxattr(path("b"), QUOTA, NULL, 0), ENODATA);
	assert_int_equal(used(""), 2 * 4096);
	unmount_without("a/link", "a/dir/file", "a/dir", "a/symlink", "a", "b", "file");
}

/* ---- what outlives its name, its process, its quota ---- */

/* Map it, close it and remove it; then hold it until the parent is done. */
static int hold_removed(void *data)
{
	int fd = file("a/file", 6 * MB);
	char *map = mmap(NULL, 6 * MB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		return 1;
	memset(map, 1, 6 * MB);
	close(fd);
	if (unlink(path("a/file")) < 0)
		return 2;
	raise(SIGSTOP);
	return 0;
}

static void test_removed_and_mapped(void **state)
{
	int status, fd;
	pid_t child;

	mount_it("thp", "");
	make_tenant("a", "size=8M");
	child = start_child(hold_removed, NULL, 0);
	assert_int_equal(waitpid(child, &status, WUNTRACED), child);
	assert_true(WIFSTOPPED(status));
	assert_int_equal(used("a"), 6 * MB);
	assert_int_equal(quota_value("a", "files"), 1);
	fd = file("a/other", 2 * MB);
	expect_error(ftruncate(fd, 4 * MB), ENOSPC);
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, &status, 0), child);
	wait_used("a", 2 * MB);
	assert_int_equal(ftruncate(fd, 8 * MB), 0);
	close(fd);
	unmount_without("a/other", "a");
}

static void check_changes(const char *backing)
{
	int fd, unlinked;

	mount_it(backing, "");
	make_tenant("a", "size=8M,min_size=4M");
	fd = file("a/file", 0);
	unlinked = file("a/unlinked", 0);
	assert_int_equal(fallocate(fd, 0, 0, 6 * MB), 0);
	assert_int_equal(fallocate(unlinked, 0, 0, 2 * MB), 0);
	assert_int_equal(unlink(path("a/unlinked")), 0);
	/* Below its use: nothing more, until it is less. */
	assert_int_equal(set_quota("a", "size=4M"), 0);
	expect_space("a", 4 * MB, 0);
	expect_error(fallocate(fd, 0, 6 * MB, 2 * MB), ENOSPC);
	assert_int_equal(ftruncate(fd, 4 * MB), 0);
	expect_error(fallocate(fd, 0, 4 * MB, 2 * MB), ENOSPC);
	assert_int_equal(set_quota("a", "size=8M"), 0);
	assert_int_equal(fallocate(fd, 0, 4 * MB, 2 * MB), 0);
	/* Without a quota its files are the mount's, */
	assert_int_equal(set_quota("a", "size=none,min_size=0"), 0);
	expect_error(getxattr(path("a"), SIZE, NULL, 0), ENODATA);
	assert_int_equal(fallocate(fd, 0, 6 * MB, 4 * MB), 0);
	expect_space("a", 32 * MB, 20 * MB);
	assert_int_equal(rename(path("a/file"), path("file")), 0);
	/* also those that are not in it when it gets another one. */
	assert_int_equal(set_quota("a", "size=2M"), 0);
	assert_int_equal(used("a"), 0);
	assert_int_equal(fallocate(fd, 0, 0, 12 * MB), 0);
	assert_int_equal(fallocate(unlinked, 0, 0, 4 * MB), 0);
	assert_int_equal(used("a"), 0);
	assert_int_equal(set_quota("a", "min_size=2M"), 0);
	assert_int_equal(rmdir(path("a")), 0);
	assert_int_equal(used(""), 16 * MB);
	close(fd);
	close(unlinked);
	unmount_without("file");
}

static void test_changes(void **state)
{
	check_changes("hugetlb");
	check_changes("thp");
}

static void test_not_empty(void **state)
{
	int fd;

	mount_it("thp", "");
	assert_int_equal(mkdir(path("a"), 0755), 0);
	assert_int_equal(mkdir(path("a/dir"), 0755), 0);
	assert_int_equal(set_quota("a", "size=8M"), -ENOTEMPTY);
	assert_int_equal(set_quota("a", "size=none"), 0);
	fd = open(path("a/dir"), O_RDONLY | O_DIRECTORY);
	assert_int_equal(rmdir(path("a/dir")), 0);
	expect_error(fsetxattr(fd, SIZE, "8M", 2, 0), ENOENT);
	close(fd);
	assert_int_equal(set_quota("a", "size=8M"), 0);
	make_file("a/file", 0);
	assert_int_equal(set_quota("a", "size=4M"), 0);
	make_file("file", 0);
	assert_int_equal(set_quota("file", "size=4M"), -ENOTDIR);
	assert_int_equal(set_quota("", "size=4M"), -EOPNOTSUPP);
	unmount_without("a/file", "a", "file");
}

static void test_gone_with_the_mount(void **state)
{
	mount_it("thp", "");
	make_tenant("a", "size=8M,min_size=4M");
	make_file("a/file", 8 * MB);
	fixture_umount(&fixture);
	mount_it("thp", "");
	assert_int_equal(used(""), 0);
	assert_int_equal(mkdir(path("a"), 0755), 0);
	expect_error(getxattr(path("a"), SIZE, NULL, 0), ENODATA);
	make_file("a/file", 32 * MB);
	unmount_without("a/file", "a");
}

/* ---- values ---- */

static void expect_xattr(const char *name, const char *expected)
{
	char value[256] = "";

	assert_true(getxattr(path("a"), name, value, sizeof(value) - 1) > 0);
	assert_string_equal(value, expected);
}

static void test_values(void **state)
{
	static const char *const bad[] = {"",
					  "size",
					  "size=",
					  "size=4X",
					  "size=-1",
					  "size=101%",
					  "size=0",
					  "size=4095",
					  "size=8M,size=8M",
					  "size=4M,min_size=8M",
					  "min_size=16M",
					  "used=0",
					  "size=8M,files=1",
					  "size=18446744073709551616",
					  "min_size=1"};
	char list[64], buf[4];
	ssize_t len;

	mount_it("thp", "");
	make_tenant("a", "min_size=1M,size=8M");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (set_quota("a", bad[i]) != -EINVAL)
			fail_msg("\"%s\" is taken", bad[i]);
	}
	expect_error(setxattr(path("a"), SIZE, "8M\0M", 4, 0), EINVAL);
	expect_error(setxattr(path("a"), "user.hugefuse.other", "8M", 2, 0), EOPNOTSUPP);
	expect_error(getxattr(path("a"), "user.hugefuse.other", buf, 4), ENODATA);
	expect_xattr(SIZE, "8M");
	expect_xattr(MIN, "1M");
	expect_xattr(QUOTA, "size=8388608,min_size=1048576,used=0,reserved=1048576,files=0,"
			    "refused=0");
	len = listxattr(path("a"), list, sizeof(list));
	assert_int_equal(len, sizeof(SIZE) + sizeof(MIN));
	assert_memory_equal(list, SIZE "\0" MIN, len);
	assert_int_equal(setxattr(path("a"), SIZE, "50%", 3, XATTR_REPLACE), 0);
	expect_xattr(SIZE, "16M");
	expect_error(setxattr(path("a"), SIZE, "8M", 2, XATTR_CREATE), EEXIST);
	assert_int_equal(setxattr(path("a"), SIZE, "0x300000", 8, 0), 0);
	expect_xattr(SIZE, "3M");
	assert_int_equal(removexattr(path("a"), MIN), 0);
	expect_error(removexattr(path("a"), MIN), ENODATA);
	expect_error(setxattr(path("a"), MIN, "1M", 2, XATTR_REPLACE), ENODATA);
	assert_int_equal(removexattr(path("a"), SIZE), 0);
	assert_int_equal(listxattr(path("a"), list, sizeof(list)), 0);
	expect_error(removexattr(path("a"), QUOTA), ENODATA);
	/* Less than a huge page will do, where base pages are counted. */
	assert_int_equal(setxattr(path("a"), SIZE, "12K", 3, 0), 0);
	expect_space("a", 12 * KB, 12 * KB);
	unmount_without("a");
}

static void test_verb(void **state)
{
	mount_it("thp", "");
	assert_int_equal(mkdir(path("a"), 0755), 0);
	assert_int_equal(run_hugefuse("quota", path("a"), NULL), 1);
	assert_int_equal(run_hugefuse("quota", path("a"), "size=8M,min_size=25%", NULL), 0);
	expect_xattr(SIZE, "8M");
	expect_xattr(MIN, "8M");
	assert_int_equal(run_hugefuse("quota", path("a"), "size=4M", NULL), 1);
	assert_int_equal(run_hugefuse("quota", path("a"), "size=4M,min_size=none", NULL), 0);
	expect_xattr(SIZE, "4M");
	assert_int_equal(run_hugefuse("quota", path("a"), NULL), 0);
	assert_int_equal(run_hugefuse("quota", "--json", path("a"), NULL), 0);
	assert_int_equal(run_hugefuse("quota", fixture.dir, NULL), 0);
	assert_int_equal(run_hugefuse("quota", fixture.dir, "size=4M", NULL), 1);
	assert_int_equal(run_hugefuse("quota", "/tmp", "size=4M", NULL), 1);
	assert_int_equal(run_hugefuse("quota", NULL), 2);
	assert_int_equal(run_hugefuse("quota", path("a"), "size=4M", "more", NULL), 2);
	assert_int_equal(run_hugefuse("stat", fixture.dir, NULL), 0);
	unmount_without("a");
}

/* ---- who may ---- */

static int set_and_read(void *data)
{
	char value[256];

	if (getxattr(path("a"), QUOTA, value, sizeof(value)) < 0)
		return 100;
	return setxattr(path("a"), SIZE, "8M", 2, 0) < 0 ? errno : 0;
}

/* The same as an ordinary user with one capability. */
static int set_with_capability(void *data)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[2] = {{0}};

	caps[0].effective = caps[0].permitted = 1U << *(int *)data;
	if (prctl(PR_SET_KEEPCAPS, 1) < 0 || setresuid(OTHER, OTHER, OTHER) < 0 ||
	    syscall(SYS_capset, &header, caps) < 0)
		return 101;
	return set_and_read(NULL);
}

static int read_secret(void *data)
{
	return getxattr(path("a"), QUOTA, NULL, 0) < 0 ? errno : 0;
}

static void test_who_may(void **state)
{
	int resource = CAP_SYS_RESOURCE, other = CAP_NET_RAW;

	mount_it("thp", ",mode=0777");
	make_tenant("a", "size=4M");
	/* The kernel itself asks for the right to write to it. */
	assert_int_equal(run_child(set_and_read, NULL, OTHER, 5000), EACCES);
	assert_int_equal(chmod(path("a"), 0777), 0);
	assert_int_equal(run_child(set_and_read, NULL, OTHER, 5000), EPERM);
	assert_int_equal(run_child(set_with_capability, &other, 0, 5000), EPERM);
	expect_xattr(SIZE, "4M");
	/* Root in a container may be without it. */
	if (prctl(PR_CAPBSET_READ, CAP_SYS_RESOURCE) == 1) {
		assert_int_equal(run_child(set_with_capability, &resource, 0, 5000), 0);
		expect_xattr(SIZE, "8M");
	}
	assert_int_equal(chmod(path("a"), 0700), 0);
	assert_int_equal(run_child(read_secret, NULL, OTHER, 5000), EACCES);
	unmount_without("a");

	mount_it("thp", ",uid=1000");
	make_tenant("a", "size=4M");
	assert_int_equal(chown(path("a"), OTHER, OTHER), 0);
	assert_int_equal(run_child(set_and_read, NULL, OTHER, 5000), 0);
	unmount_without("a");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_full_on_thp),
		cmocka_unit_test(test_full_on_hugetlb),
		cmocka_unit_test(test_waits_for_its_own_limit),
		cmocka_unit_test(test_min_size_is_kept),
		cmocka_unit_test(test_inside_one_another),
		cmocka_unit_test(test_names_stay_in),
		cmocka_unit_test(test_removed_and_mapped),
		cmocka_unit_test(test_changes),
		cmocka_unit_test(test_not_empty),
		cmocka_unit_test(test_gone_with_the_mount),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_verb),
		cmocka_unit_test(test_who_may),
	};

	require_root();
	require_pages(PAGE_2M, 16);
	cmocka_set_test_filter(getenv("TEST_FILTER"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
