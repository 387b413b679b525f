/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The namespace, operation by operation beside a tmpfs, as root and as users. */
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "beside.h"

#define USER  12345
#define OTHER 23456

/* Directed cases. */

static void check_creating(bool is_root)
{
	both_give(0, make_file(at, "c/file"));
	both_give(EEXIST, openat(at, "c/file", O_CREAT | O_EXCL | O_RDWR, 0666));
	both_give(ENOENT, openat(at, "c/none", O_RDWR));
	both_give(ENOENT, make_file(at, "c/none/file"));
	both_give(ENOTDIR, make_file(at, "c/file/file"));
	both_give(ENOTDIR, openat(at, "c/file", O_RDONLY | O_DIRECTORY));
	both_give(ENOTDIR, openat(at, "c/file/", O_RDONLY));
	both_give(EISDIR, openat(at, "c", O_RDWR));
	both_give(EISDIR, openat(at, "c", O_RDWR | O_CREAT, 0666));
	both_give(EISDIR, openat(at, "c/none/", O_RDWR | O_CREAT, 0666));
	both_give(EEXIST, mkdirat(at, "c/file", 0777));
	both_give(0, mkdirat(at, "c/dir", 0751));
	both_give(EEXIST, mkdirat(at, "c/dir", 0777));
	both_give(0, mkdirat(at, "c/dir/slash/", 01777));
	both_give(0, mknodat(at, "c/fifo", S_IFIFO | 0642, 0));
	both_give(0, mknodat(at, "c/socket", S_IFSOCK | 0600, 0));
	both_give(0, mknodat(at, "c/regular", S_IFREG | 06755, 0));
	both_give(0, mknodat(at, "c/no-type", 0644, 0));
	both_give(EPERM, mknodat(at, "c/directory", S_IFDIR | 0755, 0));
	both_give(EINVAL, mknodat(at, "c/link", S_IFLNK | 0755, 0));
	both_give(is_root ? 0 : EPERM, mknodat(at, "c/char", S_IFCHR | 0666, makedev(1, 3)));
	both_give(is_root ? 0 : EPERM,
		  mknodat(at, "c/block", S_IFBLK | 0600, makedev(259, 1048575)));
	both_give(is_root ? EACCES : ENOENT, openat(at, "c/char", O_RDWR)); /* nodev */
	umask(027);
	both_give(0, mkdirat(at, "c/umask", 0777));
	both_give(0, mknodat(at, "c/umask-node", S_IFREG | 0777, 0));
	both_give(0, close_after(openat(at, "c/umask-file", O_CREAT | O_RDWR, 0777)));
	umask(0);
	both_give(0, close_after(openat(at, "c/mode", O_CREAT | O_RDWR, 07777)));
	/* Written through a descriptor that the mode would not allow a second time. */
	both_give(0, close_after(openat(at, "c/none-mode", O_CREAT | O_RDWR, 0)));
	both(close_after(openat(at, "c/none-mode", O_RDWR)));
	compare_tree("c", true);
}

static void check_symlinks(void)
{
	char target[PATH_MAX];

	both_give(0, symlinkat("file", at, "s/link"));
	both_give(EEXIST, symlinkat("file", at, "s/link"));
	both_give(ENOENT, symlinkat("", at, "s/empty"));
	both_give(ENOENT, openat(at, "s/link", O_RDWR));
	both_give(0, make_file(at, "s/file"));
	both_give(0, close_after(openat(at, "s/link", O_RDWR)));
	both_give(ELOOP, openat(at, "s/link", O_RDWR | O_NOFOLLOW));
	both_give(EEXIST, openat(at, "s/link", O_RDWR | O_CREAT | O_EXCL, 0666));
	both_give(0, symlinkat("created-through", at, "s/dangling"));
	both_give(0, make_file(at, "s/dangling"));
	both_give(0, symlinkat("loop", at, "s/loop"));
	both_give(ELOOP, openat(at, "s/loop", O_RDONLY));
	both_give(ENOTDIR, openat(at, "s/link/x", O_RDONLY));
	memset(target, 'x', sizeof(target));
	target[PATH_MAX - 1] = '\0';
	both_give(0, symlinkat(target, at, "s/longest"));
	target[127] = '\0';
	both_give(0, symlinkat(target, at, "s/shorter"));
	both_give(EINVAL, readlinkat(at, "s/file", target, sizeof(target)));
	both_equal(readlinkat(at, "s/shorter", target, 5));
	both_give(0, linkat(at, "s/link", at, "s/link-of-link", 0));
	both_give(0, unlinkat(at, "s/link", 0));
	compare_tree("s", true);
}

static void check_links(void)
{
	int fd[2];

	both_give(0, make_file(at, "l/file"));
	for (int i = 0; i < 20; i++) {
		char name[24];

		snprintf(name, sizeof(name), "l/link%d", i);
		both_give(0, linkat(at, "l/file", at, name, 0));
		compare_name("l/file");
	}
	both_give(EEXIST, linkat(at, "l/file", at, "l/link0", 0));
	both_give(ENOENT, linkat(at, "l/none", at, "l/new", 0));
	both_give(0, mkdirat(at, "l/dir", 0777));
	both_give(EPERM, linkat(at, "l/dir", at, "l/dir2", 0));
	both_give(0, linkat(at, "l/file", at, "l/dir/link", 0));
	both_give(ENOTDIR, linkat(at, "l/file", at, "l/file/link", 0));
	both_give(0, fchmodat(at, "l/link3", 0640, 0));
	both_give(0, unlinkat(at, "l/file", 0));
	for (int i = 0; i < 20; i++) {
		char name[24];

		snprintf(name, sizeof(name), "l/link%d", i);
		compare_name(name);
		both_give(0, unlinkat(at, name, 0));
	}
	both((fd[side] = openat(at, "l/dir/link", O_RDWR | O_CLOEXEC)));
	both_give(0, unlinkat(at, "l/dir/link", 0));
	for (int i = 0; i < 2; i++) {
		struct stat st;

		if (fstat(fd[i], &st) < 0 || st.st_nlink != 0)
			differ("%s: nlink %u of an unlinked file", beside_name[i],
			       (unsigned int)st.st_nlink);
	}
	/* Nothing brings it back. */
	both_give(ENOENT, linkat(fd[side], "", at, "l/back", AT_EMPTY_PATH));
	both_give(0, fchmod(fd[side], 0600));
	both_give(0, ftruncate(fd[side], 10));
	both_equal(pwrite(fd[side], "0123456789abc", 13, 5));
	both_give(0, close(fd[side]));
	compare_tree("l", true);
}

static void check_renaming(void)
{
	int fd[2];
	char byte;

	both_give(0, make_file(at, "r/a"));
	both_give(0, make_file(at, "r/b"));
	both_give(0, mkdirat(at, "r/dir", 0777));
	both_give(0, mkdirat(at, "r/full", 0777));
	both_give(0, make_file(at, "r/full/x"));
	both_give(0, renameat(at, "r/a", at, "r/c"));
	both_give(ENOENT, renameat(at, "r/a", at, "r/d"));
	both_give(EEXIST, renameat2(at, "r/c", at, "r/b", RENAME_NOREPLACE));
	both_give(0, renameat2(at, "r/c", at, "r/new", RENAME_NOREPLACE));
	both_give(0, renameat2(at, "r/new", at, "r/b", RENAME_EXCHANGE));
	both_give(ENOENT, renameat2(at, "r/new", at, "r/none", RENAME_EXCHANGE));
	both_give(0, renameat2(at, "r/new", at, "r/dir", RENAME_EXCHANGE));
	both_give(0, renameat2(at, "r/new", at, "r/dir", RENAME_EXCHANGE));
	both_give(EINVAL,
		  renameat2(at, "r/new", at, "r/dir", RENAME_EXCHANGE | RENAME_NOREPLACE));
	both_give(EINVAL, renameat2(at, "r/new", at, "r/dir", 1U << 20));
	both_give(EISDIR, renameat(at, "r/new", at, "r/dir"));
	both_give(ENOTDIR, renameat(at, "r/dir", at, "r/new"));
	both_give(ENOTEMPTY, renameat(at, "r/dir", at, "r/full"));
	both_give(0, renameat(at, "r/full", at, "r/dir"));
	both_give(EINVAL, renameat(at, "r/dir", at, "r/dir/inside"));
	both_give(0, mkdirat(at, "r/dir/deep", 0777));
	both_give(EINVAL, renameat(at, "r/dir", at, "r/dir/deep/inside"));
	both_give(ENOTEMPTY, renameat(at, "r/dir/deep", at, "r/dir"));
	both_give(EINVAL, renameat2(at, "r/dir", at, "r/dir/deep", RENAME_EXCHANGE));
	both_give(0, renameat(at, "r/new", at, "r/new"));
	both_give(0, linkat(at, "r/new", at, "r/new2", 0));
	both_give(0, renameat(at, "r/new", at, "r/new2")); /* the same file: nothing */
	both_give(EBUSY, renameat(at, "r/dir/.", at, "r/e"));
	/* Over an open file: it goes on without a name. */
	both((fd[side] = openat(at, "r/b", O_RDWR | O_CLOEXEC)));
	both_equal(write(fd[side], "old", 3));
	both_give(0, renameat(at, "r/new", at, "r/b"));
	both_equal(pread(fd[side], &byte, 1, 2));
	if (byte != 'd')
		differ("the file that was replaced lost its content");
	both_give(0, ftruncate(fd[side], 1));
	both_give(0, close(fd[side]));
	/* A directory that is open is moved elsewhere. */
	both((fd[side] = openat(at, "r/dir", O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
	both_give(0, renameat(at, "r/dir", at, "r/moved"));
	both_give(0, make_file(fd[side], "made-in-moved"));
	both_give(0, make_file(at, "r/moved/../found"));
	both_give(0, close(fd[side]));
	compare_tree("r", true);
}

static void check_removing(void)
{
	int fd[2];

	both_give(0, make_file(at, "u/file"));
	both_give(0, mkdirat(at, "u/dir", 0777));
	both_give(0, mkdirat(at, "u/dir/sub", 0777));
	both_give(ENOTDIR, unlinkat(at, "u/file", AT_REMOVEDIR));
	both_give(EISDIR, unlinkat(at, "u/dir", 0));
	both_give(ENOTEMPTY, unlinkat(at, "u/dir", AT_REMOVEDIR));
	both_give(EINVAL, unlinkat(at, "u/dir/.", AT_REMOVEDIR));
	both_give(ENOTEMPTY, unlinkat(at, "u/dir/sub/..", AT_REMOVEDIR));
	both_give(0, unlinkat(at, "u/file", 0));
	both_give(ENOENT, unlinkat(at, "u/file", 0));
	both((fd[side] = openat(at, "u/dir/sub", O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
	both_give(0, unlinkat(at, "u/dir/sub", AT_REMOVEDIR));
	both_give(ENOENT, make_file(fd[side], "in-removed"));
	both_give(ENOENT, mkdirat(fd[side], "in-removed", 0777));
	both_give(0, close(fd[side]));
	both_give(0, unlinkat(at, "u/dir", AT_REMOVEDIR));
	/* The name is free for something else. */
	both_give(0, make_file(at, "u/dir"));
	both_give(0, unlinkat(at, "u/dir", 0));
	both_give(0, symlinkat("x", at, "u/dir"));
	compare_tree("u", true);
}

static void check_attributes(bool is_root)
{
	struct timespec times[2] = {{1000000000, 123456789}, {2000000000, 987654321}};
	struct stat st[2];
	int not_root = is_root ? 0 : EPERM;

	both_give(0, make_file(at, "a/file"));
	both_give(0, mkdirat(at, "a/dir", 0777));
	both_give(0, symlinkat("file", at, "a/link"));
	for (mode_t mode = 0; mode < 010000; mode = mode * 3 + 1) {
		both_give(0, fchmodat(at, "a/file", mode, 0));
		compare_name("a/file");
		both_give(0, fchmodat(at, "a/dir", mode | 0700, 0));
		compare_name("a/dir");
	}
	both_give(0, fchmodat(at, "a/file", 06755, 0));
	both_give(not_root, fchownat(at, "a/file", 1, 1, 0));
	compare_name("a/file"); /* no longer set-user-id */
	both_give(not_root, fchownat(at, "a/link", 2, 3, AT_SYMLINK_NOFOLLOW));
	compare_name("a/link");
	both(fchownat(at, "a/file", geteuid(), getegid(), 0));
	both(fchownat(at, "a/file", (uid_t)-1, (gid_t)-1, 0));
	both_give(not_root, fchownat(at, "a/file", (uid_t)-1, 77, 0));
	compare_name("a/file");
	both(fchownat(at, "a/file", geteuid(), getegid(), 0));
	both_give(0, utimensat(at, "a/file", times, 0));
	for (int i = 0; i < 2; i++) {
		fstatat(beside_root[i], "a/file", &st[i], 0);
		if (memcmp(&st[i].st_atim, &times[0], sizeof(times[0])) ||
		    memcmp(&st[i].st_mtim, &times[1], sizeof(times[1])))
			differ("%s: other times than were set", beside_name[i]);
	}
	times[0].tv_nsec = UTIME_OMIT;
	times[1].tv_sec = 5;
	times[1].tv_nsec = 5;
	both_give(0, utimensat(at, "a/link", times, AT_SYMLINK_NOFOLLOW));
	both_give(0, utimensat(at, "a/file", times, 0));
	for (int i = 0; i < 2; i++) {
		fstatat(beside_root[i], "a/file", &st[i], 0);
		if (st[i].st_atim.tv_sec != 1000000000 || st[i].st_mtim.tv_sec != 5)
			differ("%s: UTIME_OMIT changed what was omitted", beside_name[i]);
	}
	times[1].tv_nsec = 1000000000;
	both_give(EINVAL, utimensat(at, "a/file", times, 0));
	both_give(0, fchmodat(at, "a/file", 0, 0));
	both_give(0, utimensat(at, "a/file", NULL, 0)); /* the owner may */
	both_give(0, fchmodat(at, "a/file", 0644, 0));
	compare_tree("a", true);
}

static void check_content(void)
{
	char bytes[64];
	int fd[2];

	both((fd[side] = openat(at, "w/file", O_RDWR | O_CREAT | O_CLOEXEC, 06777)));
	both_equal(write(fd[side], "0123456789", 10));
	compare_name("w/file"); /* set-user-id bits */
	both_equal(pwrite(fd[side], "x", 1, 4096));
	both_equal(pwrite(fd[side], "", 0, 100000));
	compare_content("w/file", 4097);
	both_equal(read(fd[side], bytes, 64));
	both_equal(pread(fd[side], bytes, 64, 4090));
	both_equal(pread(fd[side], bytes, 64, 1 << 20));
	both_give(EINVAL, pread(fd[side], bytes, 64, -1));
	both_give(EINVAL, pwrite(fd[side], bytes, 64, -1));
	both_give(0, ftruncate(fd[side], 3));
	both_give(0, ftruncate(fd[side], 30));
	compare_content("w/file", 30);
	both_give(EINVAL, ftruncate(fd[side], -1));
	both_give(0, truncate_at(at, "w/file", 5));
	both_equal(lseek(fd[side], 0, SEEK_END));
	both_give(EINVAL, lseek(fd[side], -6, SEEK_END));
	both_give(0, close(fd[side]));

	both((fd[side] = openat(at, "w/file", O_WRONLY | O_APPEND | O_CLOEXEC)));
	both_equal(write(fd[side], "appended", 8));
	both_give(0, truncate_at(at, "w/file", 2));
	both_equal(write(fd[side], "again", 5));
	both_equal(pwrite(fd[side], "!", 1, 0)); /* at the end, as Linux does it */
	both_equal(lseek(fd[side], 0, SEEK_CUR));
	both_give(EBADF, read(fd[side], bytes, 1));
	both_give(0, fcntl(fd[side], F_SETFL, 0));
	both_equal(pwrite(fd[side], "#", 1, 0));
	both_give(0, fcntl(fd[side], F_SETFL, O_APPEND));
	both_equal(write(fd[side], "end", 3));
	both_give(0, close(fd[side]));
	compare_content("w/file", 64);

	both((fd[side] = openat(at, "w/file", O_RDONLY | O_CLOEXEC)));
	both_give(EBADF, write(fd[side], "x", 1));
	both_give(EINVAL, ftruncate(fd[side], 0));
	both_give(EBADF, fallocate(fd[side], 0, 0, 10));
	both_give(0, close(fd[side]));
	both_give(0, close_after(openat(at, "w/file", O_WRONLY | O_TRUNC | O_CLOEXEC)));
	compare_name("w/file");

	both((fd[side] = openat(at, "w/fallocate", O_RDWR | O_CREAT | O_CLOEXEC, 0666)));
	both_give(0, fallocate(fd[side], 0, 100, 900));
	compare_name("w/fallocate");
	both_give(0, fallocate(fd[side], FALLOC_FL_KEEP_SIZE, 0, 5000));
	compare_name("w/fallocate");
	both_equal(pwrite(fd[side], "0123456789", 10, 495));
	both_give(0, fallocate(fd[side], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 500, 3));
	both_give(0,
		  fallocate(fd[side], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 900, 9999));
	compare_content("w/fallocate", 1000);
	both_give(EINVAL, fallocate(fd[side], 0, 0, 0));
	both_give(EINVAL, fallocate(fd[side], 0, -1, 1));
	both_give(EINVAL, fallocate(fd[side], 0, 0, -1));
	both_give(EOPNOTSUPP, fallocate(fd[side], FALLOC_FL_PUNCH_HOLE, 0, 10));
	both_give(EOPNOTSUPP, fallocate(fd[side], FALLOC_FL_COLLAPSE_RANGE, 0, 4096));
	both_give(EOPNOTSUPP, fallocate(fd[side], FALLOC_FL_INSERT_RANGE, 0, 4096));
	both_give(EFBIG, fallocate(fd[side], 0, INT64_MAX - 10, 100));
	both_give(0, close(fd[side]));
	compare_tree("w", true);
}

static void check_xattrs(bool is_root)
{
	char value[256], big[65536];

	memset(big, 'b', sizeof(big));
	both_give(0, make_file(at, "x/file"));
	both_give(0, symlinkat("file", at, "x/link"));
	both_give(0, mkdirat(at, "x/dir", 0777));
	for (int i = 0; i < 2; i++) {
		const char *name = i ? "x/dir" : "x/file";
		int fd[2];

		both((fd[side] = openat(at, name, O_RDONLY | O_CLOEXEC)));
		both_give(ENODATA, fgetxattr(fd[side], "user.a", value, 256));
		both_give(0, fsetxattr(fd[side], "user.a", "one", 3, XATTR_CREATE));
		both_give(EEXIST, fsetxattr(fd[side], "user.a", "two", 3, XATTR_CREATE));
		both_give(ENODATA, fsetxattr(fd[side], "user.b", "two", 3, XATTR_REPLACE));
		both_give(0, fsetxattr(fd[side], "user.a", "three", 5, XATTR_REPLACE));
		both_give(0, fsetxattr(fd[side], "user.empty", "", 0, 0));
		both_equal(fgetxattr(fd[side], "user.a", value, 256));
		both_equal(fgetxattr(fd[side], "user.a", NULL, 0));
		both_give(ERANGE, fgetxattr(fd[side], "user.a", value, 2));
		both_equal(fgetxattr(fd[side], "user.empty", value, 256));
		both_equal(flistxattr(fd[side], value, 256));
		both_equal(flistxattr(fd[side], NULL, 0));
		both_give(ERANGE, flistxattr(fd[side], value, 3));
		both_give(EOPNOTSUPP, fsetxattr(fd[side], "nonsense.a", "x", 1, 0));
		both(fsetxattr(fd[side], "user.", "x", 1, 0));
		both(fsetxattr(fd[side], "trusted.t", "x", 1, 0));
		both(fgetxattr(fd[side], "trusted.t", value, 256));
		both_equal(flistxattr(fd[side], NULL, 0));
		both_give(is_root ? 0 : EPERM, fremovexattr(fd[side], "trusted.t"));
		both_give(0, fremovexattr(fd[side], "user.a"));
		both_give(ENODATA, fremovexattr(fd[side], "user.a"));
		both_equal(flistxattr(fd[side], NULL, 0));
		both_give(0, close(fd[side]));
	}
}

static void check_names(void)
{
	char name[300];

	memset(name, 'n', sizeof(name));
	strcpy(name, "n/");
	name[2] = 'n';
	for (int len = 254; len <= 257; len++) {
		name[2 + len] = '\0';
		both(make_file(at, name));
		both(mkdirat(at, name, 0777));
		both(unlinkat(at, name, 0));
		both(mkdirat(at, name, 0777));
		both(symlinkat("x", at, name));
		both(renameat(at, name, at, "n/short"));
		both(renameat(at, "n/short", at, name));
		both(linkat(at, "n/file", at, name, 0));
		both(faccessat(at, name, F_OK, 0));
		name[2 + len] = 'n';
	}
	both_give(0, make_file(at, "n/ leading, \n\t\\ \"*?\x01\xff and \xc3\xa9"));
	both_give(0, make_file(at, "n/..."));
	both_give(0, make_file(at, "n/.hugefuse"));
	both_give(0, make_file(at, "n/-"));
	compare_tree("n", true);
}

static const char *const areas[] = {"c", "s", "l", "r", "u", "a", "w", "x", "n"};

static int run_directed(void *data)
{
	bool is_root = geteuid() == 0;

	beside_open();
	umask(0);
	for (size_t i = 0; i < sizeof(areas) / sizeof(areas[0]); i++)
		both_give(0, mkdirat(at, areas[i], 0777));
	check_creating(is_root);
	check_symlinks();
	check_links();
	check_renaming();
	check_removing();
	check_attributes(is_root);
	check_content();
	check_xattrs(is_root);
	check_names();
	compare_tree(".", true);
	return 0;
}

static void test_directed(void **state)
{
	beside_mount("size=64M,mode=1777,nosuid,nodev");
	beside_run(run_directed, NULL, 0);
	beside_empty();
	beside_run(run_directed, NULL, USER);
	beside_empty();
	beside_umount();
}

/* What a user may do in directories and to files of others. */
static int run_as_others(void *data)
{
	beside_open();
	both_give(EPERM, unlinkat(at, "sticky/file", 0));
	both_give(EPERM, renameat(at, "sticky/file", at, "sticky/taken"));
	both_give(0, make_file(at, "sticky/mine"));
	both_give(EPERM, renameat(at, "sticky/mine", at, "sticky/file"));
	both_give(EPERM, renameat2(at, "sticky/mine", at, "sticky/file", RENAME_EXCHANGE));
	both_give(EACCES, make_file(at, "closed/file"));
	both_give(EACCES, mkdirat(at, "closed/dir", 0777));
	both_give(EACCES, unlinkat(at, "closed/file", 0));
	both_give(EACCES, openat(at, "closed/file", O_RDWR));
	both_give(0, close_after(openat(at, "closed/file", O_RDONLY)));
	both_give(EACCES, openat(at, "unsearchable/file", O_RDONLY));
	both_give(EACCES, openat(at, "unreadable", O_RDONLY | O_DIRECTORY));
	both_give(0, close_after(openat(at, "unreadable/file", O_RDONLY)));
	both_give(EPERM, fchmodat(at, "closed/file", 0777, 0));
	both_give(EPERM, fchownat(at, "closed/file", getuid(), getgid(), 0));
	both_give(EPERM, fchownat(at, "sticky/mine", 1, (gid_t)-1, 0));
	both_give(EPERM, fchownat(at, "sticky/mine", (uid_t)-1, 1, 0));
	both_give(EACCES, utimensat(at, "closed/file", NULL, 0));
	both_give(EACCES, truncate_at(at, "closed/file", 0));
	both_give(0, make_file(at, "setgid/file"));
	both_give(0, mkdirat(at, "setgid/dir", 0777));
	both_give(0, mknodat(at, "setgid/node", S_IFREG | 02775, 0));
	both_give(0, symlinkat("x", at, "setgid/link"));
	both_give(0, fchmodat(at, "setgid/file", 02775, 0));
	both_give(0, close_after(openat(at, "writable", O_WRONLY | O_TRUNC)));
	compare_name("writable");
	both_give(0, unlinkat(at, "setgid/link", 0));
	compare_tree("setgid", true);
	compare_tree("sticky", true);
	return 0;
}

static int prepare_others(void *data)
{
	static const char *const dirs[] = {"sticky", "closed", "unsearchable", "unreadable",
					   "setgid"};
	static const mode_t modes[] = {01777, 0755, 0644, 0711, 02777};
	char name[64];

	beside_open();
	for (int i = 0; i < 5; i++) {
		both_give(0, mkdirat(at, dirs[i], 0777));
		snprintf(name, sizeof(name), "%s/%s", dirs[i], i < 4 ? "file" : "roots");
		both_give(0, make_file(at, name));
		both_give(0, fchmodat(at, name, 0644, 0));
		both_give(0, fchownat(at, dirs[i], OTHER, OTHER, 0));
		both_give(0, fchmodat(at, dirs[i], modes[i], 0));
	}
	both_give(0, make_file(at, "writable"));
	both_give(0, fchmodat(at, "writable", 06777, 0));
	return 0;
}

static void test_as_others(void **state)
{
	beside_mount("size=32M,mode=1777,nosuid,nodev");
	beside_run(prepare_others, NULL, 0);
	beside_run(run_as_others, NULL, USER);
	beside_empty();
	beside_umount();
}

/* Times. */

static void next_tick(void)
{
	struct timespec before, now;

	clock_gettime(CLOCK_REALTIME_COARSE, &before);
	do {
		sched_yield();
		clock_gettime(CLOCK_REALTIME_COARSE, &now);
	} while (now.tv_nsec == before.tv_nsec && now.tv_sec == before.tv_sec);
}

static const char *const watched[] = {"t", "t/file", "t/dir", "t/dir2", "t/link", "t/other"};
#define NR_WATCHED 6

static bool is_later(struct timespec a, struct timespec b)
{
	return a.tv_sec != b.tv_sec || a.tv_nsec != b.tv_nsec;
}

/* Do something on both, and compare whose times of change have changed. */
#define both_touch(expression)                                                                \
	do {                                                                                  \
		struct stat before_[2][NR_WATCHED], after_[2][NR_WATCHED];                    \
		int there_[2][NR_WATCHED];                                                    \
		next_tick();                                                                  \
		for (int i = 0; i < 2 * NR_WATCHED; i++)                                      \
			there_[i % 2][i / 2] = fstatat(beside_root[i % 2], watched[i / 2],    \
						       &before_[i % 2][i / 2],                \
						       AT_SYMLINK_NOFOLLOW);                  \
		next_tick();                                                                  \
		both(expression);                                                             \
		for (int i = 0; i < NR_WATCHED; i++) {                                        \
			int changed_[2] = {0, 0};                                             \
			for (int s = 0; s < 2; s++) {                                         \
				if (there_[s][i] < 0 ||                                       \
				    fstatat(beside_root[s], watched[i], &after_[s][i],        \
					    AT_SYMLINK_NOFOLLOW) < 0)                         \
					continue;                                             \
				changed_[s] =                                                 \
					is_later(after_[s][i].st_mtim,                        \
						 before_[s][i].st_mtim) |                     \
					is_later(after_[s][i].st_ctim, before_[s][i].st_ctim) \
						<< 1;                                         \
			}                                                                     \
			if (changed_[0] != changed_[1])                                       \
				differ("of '%s' changed (1 mtime, 2 ctime): %d on "           \
				       "hugefuse, %d on the tmpfs",                           \
				       watched[i], changed_[0], changed_[1]);                 \
		}                                                                             \
	} while (0)

static int run_times(void *data)
{
	char bytes[10];
	int fd[2];

	beside_open();
	both_give(0, mkdirat(at, "t", 0777));
	both_touch(make_file(at, "t/file"));
	both_touch(mkdirat(at, "t/dir", 0777));
	both_touch(mkdirat(at, "t/dir2", 0777));
	both_touch(symlinkat("file", at, "t/link"));
	both_touch(fchmodat(at, "t/file", 0600, 0));
	both_touch(fchmodat(at, "t/dir", 0700, 0));
	both_touch(linkat(at, "t/file", at, "t/dir/link", 0));
	both_touch(linkat(at, "t/link", at, "t/dir/link2", 0));
	both_touch(unlinkat(at, "t/dir/link2", 0));
	both_touch(renameat(at, "t/dir/link", at, "t/dir2/link"));
	both_touch(renameat2(at, "t/dir2/link", at, "t/dir", RENAME_EXCHANGE));
	both_touch(renameat2(at, "t/dir2/link", at, "t/dir", RENAME_EXCHANGE));
	both_touch(unlinkat(at, "t/dir2/link", 0));
	both((fd[side] = openat(at, "t/file", O_RDWR | O_CLOEXEC)));
	both_touch(write(fd[side], "0123456789", 10));
	both_touch(write(fd[side], "", 0));
	both_touch(pread(fd[side], bytes, 10, 0));
	both_touch(ftruncate(fd[side], 5));
	both_touch(ftruncate(fd[side], 5));
	both_touch(ftruncate(fd[side], 50));
	both_touch(truncate_at(at, "t/file", 50));
	both_touch(fallocate(fd[side], 0, 0, 100));
	both_touch(fallocate(fd[side], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 10));
	both_touch(fsetxattr(fd[side], "user.a", "x", 1, 0));
	both_touch(fremovexattr(fd[side], "user.a"));
	both_touch(fchown(fd[side], (uid_t)-1, getegid()));
	both_touch(fchown(fd[side], (uid_t)-1, (gid_t)-1));
	both_touch(futimens(fd[side], NULL));
	both_touch(close_after(openat(at, "t/file", O_RDONLY)));
	both_touch(close_after(openat(at, "t/file", O_RDWR | O_TRUNC)));
	both_touch(close_after(openat(at, "t/file", O_RDWR | O_TRUNC)));
	both_touch(close_after(openat(at, "t/file", O_RDWR | O_CREAT, 0666)));
	both_touch(renameat(at, "t/file", at, "t/other"));
	both_touch(renameat(at, "t/dir", at, "t/dir2/dir"));
	both_touch(renameat(at, "t/dir2/dir", at, "t/dir"));
	both_touch(unlinkat(at, "t/dir", AT_REMOVEDIR));
	both_touch(unlinkat(at, "t/other", 0));
	both_touch(mknodat(at, "t/file", S_IFIFO | 0666, 0));
	return 0;
}

static void test_times(void **state)
{
	beside_mount("size=32M,mode=1777,nosuid,nodev");
	beside_run(run_times, NULL, 0);
	beside_empty();
	beside_run(run_times, NULL, USER);
	beside_empty();
	beside_umount();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_directed),
		cmocka_unit_test(test_as_others),
		cmocka_unit_test(test_times),
	};

	require_root();
	require_pages(PAGE_2M, 32);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
