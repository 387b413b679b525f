/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Mounts of a user who is not root, on a directory of hugetlbfs or tmpfs: what works, with the
 * kernel's own tmpfs and counters as the oracle, and that nothing is left, whatever ends the
 * daemon.
 *
 * All of it is in a mount namespace of its own, with /dev/fuse, /dev/shm and /etc/fuse.conf as
 * the test wants them.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "fixture.h"
#include "hugefuse.h"
#include "user.h"

#define CHILD_MS 10000

static char by_kernel[] = " kernel ", directly[] = " direct ", hugetlb[] = "hugetlb";
static char file_name[] = "mnt/file", shm_dir[] = "/dev/shm/hugefuse-65534";

/* ---- what works ---- */

static FILE *transcript;
static int at; /* the directory that the operations are on */

static void note(const char *what, long r)
{
	fprintf(transcript, "%s: %ld %s\n", what, r, r < 0 ? strerrorname_np(errno) : "");
}

static void note_stat(const char *name)
{
	struct stat st;
	int r = fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW);

	note(name, r);
	if (r == 0)
		fprintf(transcript, "%o %lu %u:%u %ld\n", st.st_mode,
			(unsigned long)st.st_nlink, st.st_uid, st.st_gid,
			S_ISDIR(st.st_mode) ? 0 : (long)st.st_size);
}

static void note_content(const char *name)
{
	char text[64] = "";
	int fd = openat(at, name, O_RDONLY);

	note("open", fd < 0 ? -1 : 0);
	if (fd < 0)
		return;
	note("read", read(fd, text, sizeof(text) - 1));
	fprintf(transcript, "%s\n", text);
	close(fd);
}

static int open_mode(const char *name, int flags, mode_t mode)
{
	int fd = openat(at, name, flags, mode);

	note(name, fd < 0 ? -1 : 0);
	return fd;
}

/* A mode that denies it to its owner does not matter to who has it open. */
static void write_denied(void)
{
	int fd = open_mode("denied", O_RDWR | O_CREAT | O_EXCL, 0);

	note("write", write(fd, "secret", 6));
	note("truncate", ftruncate(fd, 3));
	note("allocate", fallocate(fd, 0, 0, 10000));
	note("write", pwrite(fd, "end", 3, 5 * (off_t)MB));
	note_stat("denied");
	close(fd);
	note_content("denied");
	note("chmod", fchmodat(at, "denied", 0444, 0));
	open_mode("denied", O_RDWR, 0);
	note_stat("denied");
	fd = open_mode("other", O_RDWR | O_CREAT | O_EXCL, 0444);
	note("write", write(fd, "text", 4));
	note("chmod", fchmod(fd, 0));
	note("truncate", ftruncate(fd, 100));
	note_stat("other");
	close(fd);
}

static void change_names(void)
{
	close(open_mode("a", O_RDWR | O_CREAT, 0640));
	note("link", linkat(at, "a", at, "b", 0));
	note("symlink", symlinkat("a", at, "s"));
	note("link a symlink", linkat(at, "s", at, "t", 0));
	note("mkdir", mkdirat(at, "d", 0755));
	note("rename", renameat(at, "b", at, "d/b"));
	note("rmdir", unlinkat(at, "d", AT_REMOVEDIR));
	note("exchange", renameat2(at, "a", at, "s", RENAME_EXCHANGE));
	note("fifo", mknodat(at, "fifo", S_IFIFO | 0600, 0));
	note("device", mknodat(at, "device", S_IFCHR | 0600, makedev(1, 3)));
	note("chown", fchownat(at, "s", 0, (gid_t)-1, 0));
	note("chown", fchownat(at, "s", USER_ID, USER_ID, 0));
	note("group", fchownat(at, "s", (uid_t)-1, OTHER_GROUP, 0));
	note("set-user-id", fchmodat(at, "s", 04755, 0));
	note("unlink", unlinkat(at, "t", 0));
	for (const char *name = "a\0s\0d\0d/b\0fifo\0t\0"; *name; name += strlen(name) + 1)
		note_stat(name);
	note("closed directory", mkdirat(at, "closed", 0));
	open_mode("closed/x", O_RDWR | O_CREAT, 0600);
	note("mode", fchmodat(at, "closed", 0755, 0));
	note("set-group-id", mkdirat(at, "shared", 0755));
	note("group", fchownat(at, "shared", (uid_t)-1, OTHER_GROUP, 0));
	note("mode", fchmodat(at, "shared", 02775, 0));
	close(open_mode("shared/x", O_RDWR | O_CREAT, 0660));
	note_stat("shared/x");
}

static int run_operations(void *data)
{
	at = open(data, O_RDONLY | O_DIRECTORY);
	child_check(at >= 0);
	write_denied();
	change_names();
	fflush(transcript);
	return 0;
}

static char *operations_in(const char *dir, const char *output)
{
	static char text[16384];
	size_t len;

	transcript = fopen(output, "w+e");
	assert_non_null(transcript);
	assert_int_equal(user_run(run_operations, (void *)dir, CHILD_MS), 0);
	rewind(transcript);
	len = fread(text, 1, sizeof(text) - 1, transcript);
	text[len] = '\0';
	fclose(transcript);
	return text;
}

static void compare_with_tmpfs(void)
{
	static char *expected;

	if (!expected)
		expected = strdup(operations_in(user_path("plain"), user_path("out")));
	assert_non_null(strstr(expected, "shared/x"));
	assert_string_equal(operations_in(user_path("mnt"), user_path("out")), expected);
}

/* Twice the same: what it has written before is still there, and the memory is the file. */
static int use_plain(void *data)
{
	int fd = open(user_path("mnt/mapped"), O_RDWR | O_CREAT, 0600);
	struct statvfs before, after;
	char *p, byte;

	child_check(fd >= 0 && statvfs(user_path("mnt"), &before) == 0);
	child_check(ftruncate(fd, 8 * (off_t)MB) == 0);
	child_check(statvfs(user_path("mnt"), &after) == 0);
	child_check((before.f_bfree - after.f_bfree) * after.f_frsize == 8 * MB);
	p = mmap(NULL, 8 * MB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	child_check(p != MAP_FAILED && p[5 * MB] == 0);
	memset(p, 'm', 8 * MB);
	child_check(pread(fd, &byte, 1, 7 * MB) == 1 && byte == 'm');
	child_check(pwrite(fd, "w", 1, MB) == 1 && p[MB] == 'w');
	munmap(p, 8 * MB);
	close(fd);
	fd = open(user_path("mnt/mapped"), O_RDONLY);
	child_check(pread(fd, &byte, 1, 8 * MB - 1) == 1 && byte == 'm');
	child_check(unlink(user_path("mnt/mapped")) == 0);
	/* All that is left can be had, and not a byte more. */
	close(fd);
	fd = open(user_path("mnt/rest"), O_RDWR | O_CREAT, 0600);
	child_check(ftruncate(fd, 65 * (off_t)MB) < 0 && errno == ENOSPC);
	close(fd);
	return unlink(user_path("mnt/rest"));
}

static void test_tmpfs(void **state)
{
	user_mount("source=/dev/shm,size=64M");
	assert_string_equal(user_option("backing="), "thp");
	assert_int_equal(user_run(use_plain, NULL, CHILD_MS), 0);
	compare_with_tmpfs();
	user_umount();
}

static int fill_rest(void *data)
{
	int fd = open(user_path("mnt/file"), O_RDWR | O_CREAT, 0600);

	child_check(ftruncate(fd, 8 * (off_t)MB) < 0 && errno == ENOSPC);
	child_check(user_counter("resv_hugepages") == 0);
	return ftruncate(fd, 2 * (off_t)MB);
}

/* Beside others that use the same tmpfs: what they take cannot be had, and is not promised. */
static void test_full_tmpfs(void **state)
{
	int fd;

	user_mount("source=/dev/shm,size=64M,min_size=0");
	fd = open("/dev/shm/others", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(posix_fallocate(fd, 0, SHM_BYTES - 4 * (off_t)MB), 0);
	close(fd);
	assert_int_equal(user_run(fill_rest, NULL, CHILD_MS), 0);
	unlink("/dev/shm/others");
	user_umount();
}

static int map_directly(void *data)
{
	const char *way = data;
	int fd = open(user_path("mnt/file"), O_RDWR | O_CREAT, 0600);
	char *p, *q, byte;

	child_check(fd >= 0);
	child_check(mmap(NULL, 2 * MB, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED &&
		    errno == ENODEV);
	p = hugefuse_mmap(NULL, 8 * MB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	child_check(p != MAP_FAILED);
	child_check(user_counter("resv_hugepages") == 4);
	memset(p, 'd', 3 * MB);
	child_check(user_counter("resv_hugepages") == 2);
	child_check(user_kernel_page_size(p) == PAGE_2M);
	child_check(pread(fd, &byte, 1, 2 * MB + 5) == 1 && byte == 'd');
	child_check(pwrite(fd, "w", 1, 5 * MB) == 1 && p[5 * MB] == 'w');
	child_check(user_has_line("mnt/.hugefuse/maps", way));
	q = hugefuse_mmap(NULL, 2 * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	child_check(q != MAP_FAILED && q[7] == 'd');
	q[7] = 'q';
	child_check(p[7] == 'd' && user_counter("free_hugepages") == USER_PAGES - 4);
	child_check(hugefuse_munmap(q, 2 * MB) == 0);
	child_check(hugefuse_mmap(NULL, 64 * MB, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED &&
		    errno == ENOMEM);
	child_check(user_counter("free_hugepages") == USER_PAGES - 3);
	return 0;
}

/* The pages are the kernel's own, and so is what is free and reserved. */
static void expect_kernels(const struct kernel_counts *before)
{
	struct kernel_counts now = kernel_counts_read(PAGE_2M);

	assert_int_equal(USER_PAGES - user_counter("free_hugepages"), before->free - now.free);
	assert_int_equal(user_counter("resv_hugepages"), now.resv - before->resv);
	assert_int_equal(now.nr, before->nr);
	assert_int_equal(now.overcommit, before->overcommit);
}

static int allocate(void *data)
{
	int fd = open(user_path("mnt/other"), O_RDWR | O_CREAT, 0600);

	child_check(fd >= 0);
	if (fallocate(fd, 0, 0, *(off_t *)data) == 0)
		return 0;
	return errno == ENOSPC ? 2 : 3;
}

static void test_hugetlb(void **state)
{
	struct kernel_counts before = kernel_counts_read(PAGE_2M);
	char size[64];

	snprintf(size, sizeof(size), "source=%%s/huge,size=%luM", 2UL * USER_PAGES);
	user_mount(size);
	assert_string_equal(user_option("backing="), "hugetlb");
	expect_kernels(&before);
	assert_int_equal(user_run(map_directly, by_kernel, CHILD_MS), 0);
	expect_kernels(&before);
	assert_int_equal(user_run(allocate, (off_t[]){6 * (off_t)MB}, CHILD_MS), 0);
	expect_kernels(&before);
	assert_int_equal(user_run(allocate, (off_t[]){128 * (off_t)MB}, CHILD_MS), 2);
	expect_kernels(&before);
	user_umount();
	/* With a userfaultfd the daemon answers the faults. */
	user_set_device("/dev/userfaultfd", 0666);
	user_mount(size);
	assert_int_equal(user_run(map_directly, directly, CHILD_MS), 0);
	expect_kernels(&before);
	compare_with_tmpfs();
	user_umount();
	user_unset("/dev/userfaultfd");
}

static int fail_to_map(void *data)
{
	int fd = open(user_path("mnt/file"), O_RDWR | O_CREAT, 0600);
	char *p;

	child_check(hugefuse_mmap(NULL, 8 * MB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) ==
		    MAP_FAILED);
	child_check(errno == ENOMEM);
	child_check(fallocate(fd, 0, 0, 8 * (off_t)MB) < 0 && errno == ENOSPC);
	p = hugefuse_mmap(NULL, 2 * MB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	child_check(p != MAP_FAILED);
	memset(p, 1, 2 * MB);
	return 0;
}

/* Somebody else takes pages of the kernel's pool meanwhile: they are not promised. */
static void test_taken_pages(void **state)
{
	long unused;
	char *taken;

	user_mount("source=%s/huge");
	unused = kernel_counts_read(PAGE_2M).free - kernel_counts_read(PAGE_2M).resv;
	taken = mmap(NULL, (unsigned long)(unused - 2) * PAGE_2M, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	assert_ptr_not_equal(taken, MAP_FAILED);
	assert_int_equal(user_run(fail_to_map, NULL, CHILD_MS), 0);
	munmap(taken, (unsigned long)(unused - 2) * PAGE_2M);
	user_umount();
}

static int map_and_exec(void *data)
{
	int fd = open(user_path("mnt/file"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	child_check(hugefuse_mmap(NULL, 2 * MB, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED);
	execlp("sleep", "sleep", "60", NULL);
	return 1;
}

static bool is_mapped_by(void *data)
{
	return user_has_line("mnt/.hugefuse/maps", data);
}

static bool is_not_mapped_by(void *data)
{
	return !is_mapped_by(data);
}

static void test_exec(void **state)
{
	pid_t child;

	user_mount("source=%s/huge");
	child = user_start(map_and_exec, NULL);
	assert_true(wait_until(is_mapped_by, by_kernel, CHILD_MS));
	assert_true(wait_until(is_not_mapped_by, by_kernel, CHILD_MS));
	assert_false(child_has_ended(child));
	kill(child, SIGKILL);
	wait_child(child, CHILD_MS);
	user_umount();
}

#define expect_output(text, ...)                                         \
	do {                                                             \
		int r_ = user_hugefuse(__VA_ARGS__, NULL);               \
		if (r_ != 0 || !strstr(user_output(), text))             \
			fail_msg("exit code %d: %s", r_, user_output()); \
	} while (0)

static void test_tools(void **state)
{
	user_mount("source=%s/huge");
	user_touch("mnt/a-file");
	expect_output("source=", "stat", user_path("mnt"));
	expect_output("a-file", "ls", user_path("mnt"));
	expect_output("COMMAND", "maps", user_path("mnt"));
	expect_output("", "lockstat", "--reset", user_path("mnt"));
	expect_output("HUGEFUSE_MOUNT", "run", "-m", user_path("mnt"), "--", "env");
	user_umount();
}

/* ---- how it ends ---- */

static void test_signal(void **state)
{
	user_mount("source=/dev/shm,size=8M");
	user_touch("mnt/file");
	user_signal(SIGTERM);
	user_expect_nothing_left();
	user_mount("source=%s/huge");
	user_touch("mnt/file");
	user_signal(SIGTERM);
	user_expect_nothing_left();
}

static void kill_and_go_on(const char *options)
{
	/* by umount */
	user_mount(options);
	user_touch("mnt/file");
	user_signal(SIGKILL);
	user_refused("a daemon that died", options);
	user_umount();
	/* by the next mount, once it is unmounted by hand */
	user_mount(options);
	user_touch("mnt/file");
	user_signal(SIGKILL);
	assert_int_equal(user_exec(user_fusermount, "-u", user_path("mnt"), NULL), 0);
	user_mount(options);
	user_umount();
	/* by the next mount in the same directory, when nothing tells of it any more */
	user_mount(options);
	user_touch("mnt/file");
	user_signal(SIGKILL);
	assert_int_equal(user_exec(user_fusermount, "-u", user_path("mnt"), NULL), 0);
	assert_int_equal(user_exec("rm", "-r", user_path("run/hugefuse"), NULL), 0);
	user_mount(options);
	user_umount();
}

static void test_killed(void **state)
{
	kill_and_go_on("source=/dev/shm,size=8M");
	kill_and_go_on("source=%s/huge");
}

static int hold_file(void *data)
{
	int fd = open(user_path("mnt/file"), O_RDWR | O_CREAT | O_EXCL, 0600);

	child_check(fd >= 0 && write(fd, "x", 1) == 1);
	pause();
	return 1;
}

static bool is_there(void *data)
{
	return user_has_line(data, "x");
}

static void test_busy(void **state)
{
	pid_t child;

	user_mount("source=/dev/shm,size=8M");
	child = user_start(hold_file, NULL);
	assert_true(wait_until(is_there, file_name, CHILD_MS));
	assert_int_equal(user_hugefuse("umount", user_path("mnt"), NULL), 1);
	assert_non_null(strstr(user_output(), "in use; end what uses them, or use --force"));
	kill(child, SIGKILL);
	wait_child(child, CHILD_MS);
	user_umount();
	/* Root takes it down as well, and leaves as little. */
	user_mount("source=%s/huge");
	user_touch("mnt/file");
	assert_int_equal(run_hugefuse("umount", user_path("mnt"), NULL), 0);
	user_expect_nothing_left();
}

/* ---- others ---- */

static int be_refused(void *data)
{
	struct stat st;

	child_check(stat(user_path("mnt/file"), &st) < 0 && errno == EACCES);
	child_check(open(user_path("mnt/x"), O_RDWR | O_CREAT, 0600) < 0 && errno == EACCES);
	return 0;
}

/* What the modes allow, and nothing that would be made in another's name. */
static int be_allowed(void *data)
{
	int fd = open(user_path("mnt/file"), O_RDONLY);
	char byte;

	child_check(fd >= 0 && read(fd, &byte, 1) == 1 && byte == 'x');
	if (data)
		child_check(hugefuse_mmap(NULL, 2 * MB, PROT_READ, MAP_SHARED, fd, 0) ==
				    MAP_FAILED &&
			    errno == EACCES);
	child_check(open(user_path("mnt/file"), O_RDWR) < 0 && errno == EACCES);
	child_check(open(user_path("mnt/secret"), O_RDONLY) < 0 && errno == EACCES);
	child_check(open(user_path("mnt/sticky/new"), O_RDWR | O_CREAT, 0600) < 0 &&
		    errno == EPERM);
	child_check(mkdir(user_path("mnt/sticky/new"), 0700) < 0 && errno == EPERM);
	child_check(unlink(user_path("mnt/sticky/file")) < 0 && errno == EPERM);
	child_check(rename(user_path("mnt/sticky/file"), user_path("mnt/sticky/x")) < 0 &&
		    errno == EPERM);
	child_check(chmod(user_path("mnt/file"), 0777) < 0 && errno == EPERM);
	return 0;
}

static int make_files(void *data)
{
	int fd = open(user_path("mnt/file"), O_RDWR | O_CREAT, 0644);

	child_check(fd >= 0 && write(fd, "x", 1) == 1);
	child_check(open(user_path("mnt/secret"), O_RDWR | O_CREAT, 0600) >= 0);
	child_check(mkdir(user_path("mnt/sticky"), 0700) == 0);
	child_check(chmod(user_path("mnt/sticky"), 01777) == 0);
	child_check(open(user_path("mnt/sticky/file"), O_RDWR | O_CREAT, 0666) >= 0);
	return 0;
}

static void test_others(void **state)
{
	user_mount("source=/dev/shm,size=8M");
	assert_int_equal(user_run(make_files, NULL, CHILD_MS), 0);
	assert_int_equal(run_child(be_refused, NULL, OTHER_ID, CHILD_MS), 0);
	assert_int_equal(run_child(be_refused, NULL, 0, CHILD_MS), 0);
	user_umount();

	user_write("fuse.conf", "user_allow_other\n");
	user_cover(user_path("fuse.conf"), "/etc/fuse.conf");
	user_mount("source=/dev/shm,size=8M,allow_other");
	assert_int_equal(user_run(make_files, NULL, CHILD_MS), 0);
	assert_int_equal(run_child(be_allowed, NULL, OTHER_ID, CHILD_MS), 0);
	assert_int_equal(open(user_path("mnt/root"), O_RDWR | O_CREAT, 0600), -1);
	assert_int_equal(errno, EPERM);
	user_umount();
	user_mount("source=%s/huge,allow_other");
	assert_int_equal(user_run(make_files, NULL, CHILD_MS), 0);
	assert_int_equal(run_child(be_allowed, hugetlb, OTHER_ID, CHILD_MS), 0);
	user_umount();
	user_unset("/etc/fuse.conf");
}

/* Nobody but the user sees what is in the directories; and what others do there is no matter.
 */
static int look_inside(void *data)
{
	child_check(access(data, F_OK) == 0);
	child_check(open(data, O_RDONLY | O_DIRECTORY) < 0 && errno == EACCES);
	return 0;
}

static void test_hidden(void **state)
{
	char path[256];

	user_runtime_dir = NULL;
	user_mount("source=/dev/shm,size=8M");
	user_find("/dev/shm", ".hugefuse-", path, sizeof(path));
	assert_int_equal(run_child(look_inside, path, OTHER_ID, CHILD_MS), 0);
	assert_int_equal(run_child(look_inside, shm_dir, OTHER_ID, CHILD_MS), 0);
	user_umount();
}

/* Root has its own filesystems otherwise, but may use a directory as well. */
static void test_root(void **state)
{
	static struct fixture fixture;
	char options[128], *p;
	int fd;

	fixture.expected = "no huge page was to be had"; /* without huge= */
	fixture_mount(&fixture, "backing=thp,source=/dev/shm,size=8M");
	fd = fixture_file(&fixture, "file", O_RDWR | O_CREAT, 4 * MB);
	p = mmap(NULL, 4 * MB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	memset(p, 1, 4 * MB);
	munmap(p, 4 * MB);
	close(fd);
	fixture_umount(&fixture);
	fixture.expected = NULL;
	snprintf(options, sizeof(options), "source=%s", user_path("huge"));
	fixture_mount(&fixture, options);
	fd = fixture_file(&fixture, "file", O_RDWR | O_CREAT, 4 * MB);
	p = hugefuse_mmap(NULL, 4 * MB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	memset(p, 1, 4 * MB);
	hugefuse_munmap(p, 4 * MB);
	close(fd);
	fixture_umount(&fixture);
	user_expect_nothing_left();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_tmpfs, user_end_test),
		cmocka_unit_test_teardown(test_full_tmpfs, user_end_test),
		cmocka_unit_test_teardown(test_hugetlb, user_end_test),
		cmocka_unit_test_teardown(test_taken_pages, user_end_test),
		cmocka_unit_test_teardown(test_exec, user_end_test),
		cmocka_unit_test_teardown(test_tools, user_end_test),
		cmocka_unit_test_teardown(test_signal, user_end_test),
		cmocka_unit_test_teardown(test_killed, user_end_test),
		cmocka_unit_test_teardown(test_busy, user_end_test),
		cmocka_unit_test_teardown(test_others, user_end_test),
		cmocka_unit_test_teardown(test_hidden, user_end_test),
		cmocka_unit_test_teardown(test_root, user_end_test),
	};

	require_root();
	require_pages(PAGE_2M, USER_PAGES);
	return cmocka_run_group_tests(tests, user_begin, user_end);
}
