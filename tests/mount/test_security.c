/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Security: what users may not see and not do to each other. All as real users, in children.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "fixture.h"
#include "hugefuse.h"
#include "raw_client.h"

#define ALICE    12345
#define BOB      23456
#define GROUP    34567
#define PAGES    16
#define PATTERN  0xa5
#define CHILD_MS 20000

static struct fixture fixture;

static void mount_it(void)
{
	memset(&fixture, 0, sizeof(fixture));
	fixture_mount(&fixture, "size=32M,mode=1777");
}

static int open_file(const char *name, int flags)
{
	return open(fixture_path(&fixture, name), flags | O_CLOEXEC, 0666);
}

static void assert_child(int (*function)(void *data), void *data, uid_t uid)
{
	assert_int_equal(run_child(function, data, uid, CHILD_MS), 0);
}

/* The first byte that is not zero, or -1. */
static ssize_t find_nonzero(const char *bytes, size_t len)
{
	static const char zeroes[4096];

	for (size_t at = 0; at < len; at += sizeof(zeroes)) {
		if (memcmp(bytes + at, zeroes, sizeof(zeroes)) != 0)
			return (ssize_t)at;
	}
	return -1;
}

/* Ways to leave a secret in the pages of the mount and free them. */

static int fill_shared(const char *name, int *ret_fd)
{
	int fd = open_file(name, O_RDWR | O_CREAT);
	char *p;

	child_check(fd >= 0);
	child_check(fchmod(fd, 0666) == 0);
	p = hugefuse_mmap(NULL, PAGES * PAGE_2M, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	child_check(p != MAP_FAILED);
	memset(p, PATTERN, PAGES * PAGE_2M);
	child_check(hugefuse_munmap(p, PAGES * PAGE_2M) == 0);
	*ret_fd = fd;
	return 0;
}

static int leave_by_unlink(void *data)
{
	int fd, r = fill_shared("secret", &fd);

	if (r == 0) {
		close(fd);
		child_check(unlink(fixture_path(&fixture, "secret")) == 0);
	}
	return r;
}

static int leave_by_truncate(void *data)
{
	int fd, r = fill_shared("secret", &fd);

	if (r == 0)
		child_check(ftruncate(fd, 0) == 0);
	return r;
}

static int leave_by_punch(void *data)
{
	int fd, r = fill_shared("secret", &fd);

	if (r == 0)
		child_check(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
				      PAGES * PAGE_2M) == 0);
	return r;
}

static int leave_by_write(void *data)
{
	int fd = open_file("secret", O_RDWR | O_CREAT);
	char *bytes = malloc(PAGE_2M);

	child_check(fd >= 0 && bytes);
	memset(bytes, PATTERN, PAGE_2M);
	for (int i = 0; i < PAGES; i++)
		child_check(write(fd, bytes, PAGE_2M) == (ssize_t)PAGE_2M);
	child_check(unlink(fixture_path(&fixture, "secret")) == 0);
	return 0;
}

static int leave_by_private(void *data)
{
	int fd = open_file("private", O_RDWR | O_CREAT);
	char *p;

	child_check(fd >= 0);
	p = hugefuse_mmap(NULL, PAGES * PAGE_2M, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	child_check(p != MAP_FAILED);
	memset(p, PATTERN, PAGES * PAGE_2M);
	child_check(unlink(fixture_path(&fixture, "private")) == 0);
	return 0; /* freed by exiting */
}

/* Ways to look for it. */

static int look_in_mapping(int flags)
{
	int fd = open_file("looking", O_RDWR | O_CREAT);
	char *p;

	child_check(fd >= 0);
	child_check(ftruncate(fd, PAGES * PAGE_2M) == 0);
	p = hugefuse_mmap(NULL, PAGES * PAGE_2M, PROT_READ | PROT_WRITE, flags, fd, 0);
	child_check(p != MAP_FAILED);
	for (int i = 0; i < PAGES; i++)
		*(volatile char *)(p + i * PAGE_2M + 4095) = 0; /* a page of one's own */
	child_check(find_nonzero(p, PAGES * PAGE_2M) == -1);
	child_check(unlink(fixture_path(&fixture, "looking")) == 0);
	return 0;
}

static int look_in_shared(void *data)
{
	return look_in_mapping(MAP_SHARED);
}

static int look_in_private(void *data)
{
	return look_in_mapping(MAP_PRIVATE);
}

/* A byte written to each page instantiates it; the rest of it is read. */
static int look_by_read(void *data)
{
	int fd = open_file("looking", O_RDWR | O_CREAT);
	char *bytes = malloc(PAGE_2M);

	child_check(fd >= 0 && bytes);
	for (int i = 0; i < PAGES; i++)
		child_check(pwrite(fd, "", 1, (i + 1) * PAGE_2M - 1) == 1);
	for (int i = 0; i < PAGES; i++) {
		memset(bytes, PATTERN, PAGE_2M);
		child_check(pread(fd, bytes, PAGE_2M, i * PAGE_2M) == (ssize_t)PAGE_2M);
		child_check(find_nonzero(bytes, PAGE_2M) == -1);
	}
	child_check(unlink(fixture_path(&fixture, "looking")) == 0);
	return 0;
}

static int look_by_fallocate(void *data)
{
	int fd = open_file("looking", O_RDWR | O_CREAT);
	char *bytes = malloc(PAGE_2M);

	child_check(fd >= 0 && bytes);
	child_check(fallocate(fd, 0, 0, PAGES * PAGE_2M) == 0);
	for (int i = 0; i < PAGES; i++) {
		child_check(pread(fd, bytes, PAGE_2M, i * PAGE_2M) == (ssize_t)PAGE_2M);
		child_check(find_nonzero(bytes, PAGE_2M) == -1);
	}
	child_check(unlink(fixture_path(&fixture, "looking")) == 0);
	return 0;
}

static void test_freed_pages_show_nothing(void **state)
{
	int (*const leave[])(void *) = {leave_by_unlink, leave_by_truncate, leave_by_punch,
					leave_by_write, leave_by_private};
	int (*const look[])(void *) = {look_in_shared, look_in_private, look_by_read,
				       look_by_fallocate};

	mount_it();
	for (size_t i = 0; i < sizeof(leave) / sizeof(leave[0]); i++) {
		for (size_t j = 0; j < sizeof(look) / sizeof(look[0]); j++) {
			assert_child(leave[i], NULL, ALICE);
			fixture_expect_counter(&fixture, "free_hugepages", PAGES);
			fixture_expect_counter(&fixture, "resv_hugepages", PAGES);
			assert_child(look[j], NULL, BOB);
			unlink(fixture_path(&fixture, "secret"));
			fixture_expect_counter(&fixture, "free_hugepages", PAGES);
		}
	}
	fixture_umount(&fixture);
}

/*
 * A page that is counted as free is to be had. The client dies with the last references to a
 * file that was unlinked: its memory goes first, then its connection, and the file a moment
 * later.
 */
static int map_unlink_and_die(void *data)
{
	int fd;

	child_check(fill_shared("dying", &fd) == 0);
	child_check(hugefuse_mmap(NULL, PAGES * PAGE_2M, PROT_READ, MAP_SHARED, fd, 0) !=
		    MAP_FAILED);
	child_check(unlink(fixture_path(&fixture, "dying")) == 0);
	kill(getpid(), SIGKILL);
	return 1;
}

static void test_counted_free_is_free(void **state)
{
	char *p;
	int fd;

	mount_it();
	fd = fixture_file(&fixture, "next", O_RDWR | O_CREAT, PAGES * PAGE_2M);
	for (int i = 0; i < 100; i++) {
		pid_t child = start_child(map_unlink_and_die, NULL, i % 2 ? ALICE : 0);
		struct statfs st;

		do
			assert_int_equal(statfs(fixture.dir, &st), 0);
		while (st.f_bfree == PAGES && !child_has_ended(child)); /* until it has begun */
		do
			assert_int_equal(statfs(fixture.dir, &st), 0);
		while (st.f_bfree != PAGES);
		p = hugefuse_mmap(NULL, PAGES * PAGE_2M, PROT_READ,
				  i % 4 < 2 ? MAP_SHARED : MAP_PRIVATE, fd, 0);
		if (p == MAP_FAILED)
			fail_msg("round %d: %s", i, strerror(errno));
		assert_int_equal(hugefuse_munmap(p, PAGES * PAGE_2M), 0);
		/* A shared mapping's reservation stays with the file. */
		assert_int_equal(ftruncate(fd, 0), 0);
		assert_int_equal(ftruncate(fd, PAGES * PAGE_2M), 0);
		assert_int_equal(wait_child(child, CHILD_MS), 1000 + SIGKILL);
	}
	close(fd);
	unlink(fixture_path(&fixture, "next"));
	fixture_umount(&fixture);
}

/* What was written behind the end of the file through a mapping is not the file's. */
static int write_behind_the_end(void *data)
{
	int fd = open_file("tail", O_RDWR | O_CREAT);
	char *p;

	child_check(fd >= 0 && fchmod(fd, 0666) == 0 && ftruncate(fd, 100) == 0);
	p = hugefuse_mmap(NULL, PAGE_2M, PROT_READ, MAP_SHARED, fd, 0);
	child_check(p != MAP_FAILED);
	child_check(mprotect(p, PAGE_2M, PROT_READ | PROT_WRITE) == 0);
	memset(p, PATTERN, PAGE_2M);
	return 0;
}

static int read_behind_the_end(void *data)
{
	char *bytes = calloc(1, PAGE_2M);
	int fd = open_file("tail", O_RDWR);

	child_check(fd >= 0 && bytes);
	child_check(pread(fd, bytes, PAGE_2M, 0) == 100);
	switch (*(int *)data) {
	case 0:
		child_check(ftruncate(fd, PAGE_2M) == 0);
		break;
	case 1:
		child_check(pwrite(fd, "", 1, PAGE_2M - 1) == 1);
		break;
	case 2:
		child_check(fallocate(fd, 0, 0, PAGE_2M) == 0);
		break;
	}
	child_check(pread(fd, bytes, PAGE_2M, 0) == (ssize_t)PAGE_2M);
	child_check(bytes[99] == (char)PATTERN && bytes[100] == 0);
	memset(bytes, 0, 4096);
	child_check(find_nonzero(bytes, PAGE_2M) == -1);
	child_check(unlink(fixture_path(&fixture, "tail")) == 0);
	return 0;
}

static void test_bytes_behind_the_end(void **state)
{
	mount_it();
	chmod(fixture.dir, 0777);
	for (int way = 0; way < 3; way++) {
		assert_child(write_behind_the_end, NULL, ALICE);
		assert_child(read_behind_the_end, &way, BOB);
	}
	fixture_umount(&fixture);
}

/* Read-only descriptors. */

static int make_readable(void *data)
{
	int fd = open_file("readable", O_RDWR | O_CREAT | O_TRUNC);

	child_check(fd >= 0 && fchmod(fd, 0644) == 0);
	child_check(pwrite(fd, "original", 8, 0) == 8);
	child_check(ftruncate(fd, 2 * PAGE_2M) == 0);
	return 0;
}

static int still_original(void)
{
	int fd = open_file("readable", O_RDONLY);
	char bytes[8];
	struct stat st;

	child_check(pread(fd, bytes, 8, 0) == 8 && memcmp(bytes, "original", 8) == 0);
	child_check(fstat(fd, &st) == 0 && st.st_size == (off_t)(2 * PAGE_2M));
	close(fd);
	return 0;
}

static int write_by_the_library(void *data)
{
	int fd = open_file("readable", O_RDONLY);
	char *p;

	child_check(fd >= 0);
	child_check(open_file("readable", O_RDWR) < 0 && errno == EACCES);
	child_check(hugefuse_mmap(NULL, PAGE_2M, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) ==
			    MAP_FAILED &&
		    errno == EACCES);
	p = hugefuse_mmap(NULL, PAGE_2M, PROT_READ, MAP_SHARED, fd, 0);
	child_check(p != MAP_FAILED && memcmp(p, "original", 8) == 0);
	child_check(mprotect(p, PAGE_2M, PROT_READ | PROT_WRITE) < 0 && errno == EACCES);
	/* A private copy may be changed, and is a copy. */
	p = hugefuse_mmap(NULL, PAGE_2M, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	child_check(p != MAP_FAILED && memcmp(p, "original", 8) == 0);
	memcpy(p, "changed!", 8);
	child_check(hugefuse_reserve(fd, 0, PAGE_2M) < 0 && errno == EBADF);
	return still_original();
}

/* No way from a descriptor for reading to one for writing. */
static int check_read_only(int fd)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	child_check((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY);
	child_check(open(path, O_RDWR | O_CLOEXEC) < 0 && errno == EACCES);
	child_check(open(path, O_WRONLY | O_CLOEXEC) < 0 && errno == EACCES);
	child_check(open(path, O_RDONLY | O_TRUNC | O_CLOEXEC) < 0);
	child_check(truncate(path, 0) < 0);
	child_check(mmap(NULL, PAGE_2M, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) ==
		    MAP_FAILED);
	child_check(ftruncate(fd, 0) < 0);
	child_check(fallocate(fd, 0, 0, PAGE_2M) < 0 && errno == EBADF);
	child_check(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE_2M) < 0 &&
		    errno == EBADF);
	child_check(write(fd, "x", 1) < 0);
	child_check(fchmod(fd, 0666) < 0 && errno == EPERM);
	child_check(fchown(fd, getuid(), getgid()) < 0 && errno == EPERM);
	child_check(futimens(fd, NULL) < 0);
	child_check(fsetxattr(fd, "user.x", "x", 1, 0) < 0);
	child_check(linkat(AT_FDCWD, path, AT_FDCWD, fixture_path(&fixture, "stolen"),
			   AT_SYMLINK_FOLLOW) < 0);
	return 0;
}

static int write_by_the_protocol(void *data)
{
	struct hugefuse_ioc_map map;
	struct raw_mapping mapping;
	int fd = open_file("readable", O_RDONLY);
	char *p;

	child_check(fd >= 0);
	child_check(raw_request(fd, HUGEFUSE_MAP_WRITE, 0, PAGE_2M, &map) == -EACCES);
	child_check(raw_request(fd, HUGEFUSE_MAP_WRITE | HUGEFUSE_MAP_NORESERVE, 0, PAGE_2M,
				&map) == -EACCES);
	for (uint32_t flags = 0; flags < 8; flags++) {
		if (flags & HUGEFUSE_MAP_WRITE && !(flags & HUGEFUSE_MAP_PRIVATE))
			continue;
		child_check(raw_mapping_attach(&mapping, fd, flags, 0, 2 * PAGE_2M) == 0);
		child_check(check_read_only(mapping.backing) == 0);
		p = mmap(NULL, PAGE_2M, PROT_READ, MAP_SHARED, mapping.backing, 0);
		child_check(p != MAP_FAILED && memcmp(p, "original", 8) == 0);
		child_check(mprotect(p, PAGE_2M, PROT_READ | PROT_WRITE) < 0);
		munmap(p, PAGE_2M);
		raw_mapping_close(&mapping);
	}
	/* It does not grow the file either. */
	child_check(raw_mapping_attach(&mapping, fd, 0, 0, 3 * PAGE_2M) == 0);
	return still_original();
}

/* Open for neither reading nor writing, or for writing alone: there is nothing to map. */
static int map_other_modes(void *data)
{
	struct hugefuse_ioc_map map;
	int fd;

	fd = open_file("readable", O_WRONLY);
	child_check(fd >= 0);
	child_check(raw_request(fd, 0, 0, PAGE_2M, &map) == -EACCES);
	child_check(raw_request(fd, HUGEFUSE_MAP_WRITE, 0, PAGE_2M, &map) == -EACCES);
	child_check(raw_request(fd, HUGEFUSE_MAP_PRIVATE, 0, PAGE_2M, &map) == -EACCES);
	fd = open_file("readable", O_PATH);
	child_check(raw_request(fd, 0, 0, PAGE_2M, &map) == -EBADF);
	/* Access mode 3 gives ioctl(2) only. */
	fd = open_file("readable", O_ACCMODE);
	child_check(fd >= 0);
	child_check(raw_request(fd, HUGEFUSE_MAP_WRITE, 0, PAGE_2M, &map) < 0);
	child_check(raw_request(fd, 0, 0, PAGE_2M, &map) < 0);
	return 0;
}

/* The owner gets a descriptor for writing, and no more than that: the file itself is root's. */
static int owner_of_the_file_only(void *data)
{
	struct raw_mapping mapping;
	struct stat st;
	int fd = open_file("readable", O_RDWR);

	child_check(fd >= 0);
	child_check(raw_mapping_attach(&mapping, fd, HUGEFUSE_MAP_WRITE, 0, PAGE_2M) == 0);
	child_check((fcntl(mapping.backing, F_GETFL) & O_ACCMODE) == O_RDWR);
	child_check(fstat(mapping.backing, &st) == 0 && st.st_uid == 0 &&
		    (st.st_mode & 0777) == 0600);
	child_check(fchmod(mapping.backing, 0666) < 0 && errno == EPERM);
	child_check(fchown(mapping.backing, getuid(), -1) < 0 && errno == EPERM);
	return 0;
}

static void test_read_only_descriptor(void **state)
{
	mount_it();
	assert_child(make_readable, NULL, ALICE);
	assert_child(write_by_the_library, NULL, BOB);
	assert_child(write_by_the_protocol, NULL, BOB);
	assert_child(map_other_modes, NULL, ALICE);
	assert_child(owner_of_the_file_only, NULL, ALICE);
	unlink(fixture_path(&fixture, "readable"));
	fixture_umount(&fixture);
}

/* Permissions. */

static int make_files_of_alice(void *data)
{
	struct stat st;
	int fd;

	umask(077);
	fd = open_file("alices", O_RDWR | O_CREAT);
	child_check(fd >= 0 && fstat(fd, &st) == 0);
	child_check(st.st_uid == ALICE && st.st_gid == ALICE && (st.st_mode & 07777) == 0600);
	umask(027);
	child_check(mkdir(fixture_path(&fixture, "alices.dir"), 0777) == 0);
	child_check(stat(fixture_path(&fixture, "alices.dir"), &st) == 0);
	child_check(st.st_uid == ALICE && st.st_gid == ALICE && (st.st_mode & 07777) == 0750);
	umask(0);
	child_check(mknod(fixture_path(&fixture, "alices.fifo"), S_IFIFO | 0666, 0) == 0);
	child_check(lstat(fixture_path(&fixture, "alices.fifo"), &st) == 0);
	child_check(st.st_uid == ALICE && (st.st_mode & 07777) == 0666);
	child_check(symlink("/etc/passwd", fixture_path(&fixture, "alices.link")) == 0);
	child_check(lstat(fixture_path(&fixture, "alices.link"), &st) == 0);
	child_check(st.st_uid == ALICE && st.st_gid == ALICE);
	child_check(mknod(fixture_path(&fixture, "null"), S_IFCHR | 0666, 0x103) < 0 &&
		    errno == EPERM);
	fd = open_file("alices.dir/inside", O_RDWR | O_CREAT);
	child_check(fd >= 0);
	return 0;
}

static int fails(int result, int expected)
{
	return result < 0 && errno == expected;
}

static int touch_files_of_alice(void *data)
{
	char path[PATH_MAX];

	strcpy(path, fixture_path(&fixture, "alices"));
	child_check(fails(open(path, O_RDONLY), EACCES));
	child_check(fails(open(path, O_WRONLY | O_TRUNC), EACCES));
	child_check(fails(open(path, O_RDWR | O_CREAT, 0666), EACCES));
	child_check(fails(truncate(path, 0), EACCES));
	child_check(fails(unlink(path), EPERM)); /* sticky */
	child_check(fails(rename(path, fixture_path(&fixture, "bobs")), EPERM));
	child_check(fails(chmod(path, 0666), EPERM));
	child_check(fails(chown(path, BOB, -1), EPERM));
	child_check(fails(utimensat(AT_FDCWD, path, NULL, 0), EACCES));
	child_check(fails(setxattr(path, "user.x", "x", 1, 0), EACCES));
	child_check(fails((int)getxattr(path, "user.x", NULL, 0), EACCES));
	child_check(fails(open_file("alices.dir", O_RDONLY), EACCES));
	child_check(fails(open_file("alices.dir/inside", O_RDONLY), EACCES));
	child_check(fails(open_file("alices.dir/new", O_RDWR | O_CREAT), EACCES));
	child_check(fails(mkdir(fixture_path(&fixture, "alices.dir/new"), 0777), EACCES));
	child_check(fails(unlink(fixture_path(&fixture, "alices.dir/inside")), EACCES));
	child_check(fails(rmdir(fixture_path(&fixture, "alices.dir")), EPERM));
	child_check(fails(chmod(fixture.dir, 0777), EPERM));
	return 0;
}

static int use_setgid_dir(void *data)
{
	struct stat st;
	int fd;

	umask(0);
	fd = open_file("shared.dir/file", O_RDWR | O_CREAT);
	child_check(fd >= 0 && fstat(fd, &st) == 0);
	child_check(st.st_uid == ALICE && st.st_gid == GROUP);
	child_check(mkdir(fixture_path(&fixture, "shared.dir/dir"), 0777) == 0);
	child_check(stat(fixture_path(&fixture, "shared.dir/dir"), &st) == 0);
	child_check(st.st_uid == ALICE && st.st_gid == GROUP && st.st_mode & S_ISGID);
	/* Who is not in the group cannot make a file that runs as the group. */
	fd = open(fixture_path(&fixture, "shared.dir/run"), O_RDWR | O_CREAT, 02777);
	child_check(fd >= 0 && fstat(fd, &st) == 0 && !(st.st_mode & S_ISGID));
	child_check(fchmod(fd, 02777) == 0 && fstat(fd, &st) == 0 && !(st.st_mode & S_ISGID));
	return 0;
}

/* Writing to a set-user-id file of another makes it an ordinary one. */
static int write_setuid(void *data)
{
	struct stat st;
	int fd = open_file("setuid", O_WRONLY);

	child_check(fd >= 0 && fstat(fd, &st) == 0 && st.st_mode & S_ISUID);
	child_check(write(fd, "x", 1) == 1);
	child_check(fstat(fd, &st) == 0 && !(st.st_mode & (S_ISUID | S_ISGID)));
	return 0;
}

/* The names alone tell what root has noted about a file. */
static int list_trusted(void *data)
{
	char names[256];

	child_check(listxattr(fixture_path(&fixture, "trusted"), names, sizeof(names)) ==
		    sizeof("user.seen"));
	child_check(strcmp(names, "user.seen") == 0);
	child_check(listxattr(fixture_path(&fixture, "trusted"), NULL, 0) ==
		    sizeof("user.seen"));
	child_check(fails((int)getxattr(fixture_path(&fixture, "trusted"), "trusted.hidden",
					names, sizeof(names)),
			  ENODATA));
	return 0;
}

static void test_permissions(void **state)
{
	char path[PATH_MAX];
	int fd;

	mount_it();
	assert_child(make_files_of_alice, NULL, ALICE);
	assert_child(touch_files_of_alice, NULL, BOB);
	strcpy(path, fixture_path(&fixture, "shared.dir"));
	assert_int_equal(mkdir(path, 0777), 0);
	assert_int_equal(chown(path, 0, GROUP), 0);
	assert_int_equal(chmod(path, 02777), 0);
	assert_child(use_setgid_dir, NULL, ALICE);
	fd = fixture_file(&fixture, "setuid", O_RDWR | O_CREAT, 10);
	assert_int_equal(fchmod(fd, 06777), 0);
	close(fd);
	assert_child(write_setuid, NULL, BOB);
	fd = fixture_file(&fixture, "trusted", O_RDWR | O_CREAT, 10);
	assert_int_equal(fsetxattr(fd, "trusted.hidden", "x", 1, 0), 0);
	assert_int_equal(fsetxattr(fd, "user.seen", "x", 1, 0), 0);
	close(fd);
	assert_child(list_trusted, NULL, BOB);
	fixture_umount(&fixture);
}

/* What is not the users' at all. */

static const char *run_path(const char *name)
{
	static char path[PATH_MAX];
	size_t len = (size_t)snprintf(path, sizeof(path), "/run/hugefuse/");

	for (const char *c = fixture.dir + 1; *c; c++)
		len += (size_t)snprintf(path + len, sizeof(path) - len,
					*c == '/'   ? "-"
					: *c == '-' ? "\\x2d"
						    : "%c",
					*c);
	snprintf(path + len, sizeof(path) - len, "%s", name);
	return path;
}

static int use_run_dir(void *data)
{
	child_check(fails(open("/run/hugefuse", O_RDONLY), EACCES));
	child_check(fails(open(run_path(""), O_RDONLY), EACCES));
	child_check(fails(open(run_path("/names"), O_RDONLY), EACCES));
	child_check(fails(open(run_path("/data"), O_RDONLY), EACCES));
	child_check(fails(open(run_path("/state/pid"), O_RDONLY), EACCES));
	child_check(fails(open("/run/hugefuse/mine", O_RDWR | O_CREAT, 0666), EACCES));
	return 0;
}

static int write_stats(void *data)
{
	static const char *const files[] = {"lock_stat", "fault_stat",
					    "options",   "files",
					    "maps",      "hugepages-2048kB/nr_hugepages"};
	char path[PATH_MAX], dir[PATH_MAX];
	int fd;

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(path, sizeof(path), "%s/.hugefuse/%s", fixture.dir, files[i]);
		child_check(fails(open(path, O_WRONLY), EACCES));
		child_check(fails(open(path, O_RDWR), EACCES));
		child_check(fails(open(path, O_WRONLY | O_TRUNC), EACCES));
		child_check(fails(truncate(path, 0), EACCES));
		child_check(unlink(path) < 0 && chmod(path, 0777) < 0);
		child_check(rename(path, fixture_path(&fixture, "taken")) < 0);
		child_check(link(path, fixture_path(&fixture, "taken")) < 0);
	}
	strcpy(dir, fixture_path(&fixture, ".hugefuse"));
	strcpy(path, fixture_path(&fixture, ".hugefuse/mine"));
	child_check(open(path, O_RDWR | O_CREAT, 0666) < 0 && mkdir(path, 0777) < 0);
	child_check(rmdir(dir) < 0 && rename(dir, fixture_path(&fixture, "taken")) < 0);
	child_check(fails(mkdir(dir, 0777), EEXIST));
	fd = open_file("file", O_RDWR | O_CREAT);
	child_check(fd >= 0);
	child_check(rename(fixture_path(&fixture, "file"), dir) < 0);
	child_check(link(fixture_path(&fixture, "file"), dir) < 0);
	child_check(unlink(fixture_path(&fixture, "file")) == 0);
	return 0;
}

/* Addresses of others' memory, and names in directories that are closed to all. */
static int read_what_others_do(void *data)
{
	child_check(fails(open_file(".hugefuse/maps", O_RDONLY), EACCES));
	child_check(fails(open_file(".hugefuse/files", O_RDONLY), EACCES));
	return 0;
}

static void test_not_the_users(void **state)
{
	char path[PATH_MAX];
	struct stat st;

	mount_it();
	assert_int_equal(stat(run_path("/names"), &st), 0); /* that it is the right path */
	assert_child(use_run_dir, NULL, ALICE);
	assert_child(write_stats, NULL, ALICE);
	assert_child(read_what_others_do, NULL, ALICE);
	/* Root may clear statistics, and else as little. */
	assert_int_equal(stat(fixture_path(&fixture, ".hugefuse"), &st), 0);
	assert_int_equal(st.st_uid, 0);
	assert_true(mkdir(fixture_path(&fixture, ".hugefuse/mine"), 0777) < 0);
	assert_true(rmdir(fixture_path(&fixture, ".hugefuse")) < 0);
	strcpy(path, fixture_path(&fixture, ".hugefuse"));
	assert_true(rename(path, fixture_path(&fixture, "taken")) < 0);
	fixture_umount(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_freed_pages_show_nothing),
		cmocka_unit_test(test_counted_free_is_free),
		cmocka_unit_test(test_bytes_behind_the_end),
		cmocka_unit_test(test_read_only_descriptor),
		cmocka_unit_test(test_permissions),
		cmocka_unit_test(test_not_the_users),
	};

	require_root();
	require_pages(PAGE_2M, PAGES);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
