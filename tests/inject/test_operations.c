/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Every single point of failure of what a mounted daemon does. An operation is done again and
 * again, each time with the next of the daemon's allocations, system calls and messages
 * failing, until it is done before its turn comes. Each time it succeeds or its caller is told,
 * and then the counters are the kernel's, no descriptor and no mapping is left, and it can be
 * done. $VERBOSE tells of each point.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "expect.h"
#include "fixture.h"
#include "hugefuse.h"
#include "schedule.h"

#define MAX_POINTS 1000 /* an operation that never ends is not one */
#define NR_PAGES   4
#define SIZE       (NR_PAGES * PAGE_2M)
#define POOL_PAGES 12
#define QUOTA      "user.hugefuse.quota"

/* What the operation runs with: in a child of its own. */
struct turn {
	const struct operation *operation;
	int64_t nth; /* the call that fails; 0: none */
	uint32_t kinds, stall_ms;
};

struct operation {
	const char *name;
	int (*run)(const struct turn *turn); /* 0 or errno */
	bool needs_direct;                   /* not on thp */
};

static struct fixture fixture;
static int nr_points, nr_refused;

/* From here on it fails. */
static void begin(const struct turn *turn)
{
	if (turn->nth > 0)
		schedule_arm(turn->kinds, turn->nth, turn->stall_ms);
}

static const char *path_of(const char *name)
{
	return fixture_path(&fixture, name);
}

/* ---- what is done ---- */

static int result(long r)
{
	return r < 0 ? errno : 0;
}

static int do_create(const struct turn *turn)
{
	int fd;

	begin(turn);
	fd = open(path_of("file"), O_RDWR | O_CREAT | O_EXCL, 0600);
	return result(fd);
}

static int do_names(const struct turn *turn)
{
	char target[16], other[128];
	struct stat st;

	close(open(path_of("file"), O_RDWR | O_CREAT, 0600));
	snprintf(other, sizeof(other), "%s", path_of("other"));
	begin(turn);
	if (link(path_of("file"), other) < 0 || rename(other, path_of("new")) < 0 ||
	    mkdir(path_of("dir"), 0700) < 0 || symlink("file", path_of("link")) < 0 ||
	    readlink(path_of("link"), target, sizeof(target)) < 0 ||
	    mknod(path_of("fifo"), S_IFIFO | 0600, 0) < 0 || stat(path_of("new"), &st) < 0 ||
	    chmod(path_of("file"), 0640) < 0 || unlink(path_of("file")) < 0 ||
	    rmdir(path_of("dir")) < 0)
		return errno;
	return 0;
}

static int do_attributes(const struct turn *turn)
{
	char value[16];

	close(open(path_of("file"), O_RDWR | O_CREAT, 0600));
	begin(turn);
	if (setxattr(path_of("file"), "user.test", "value", 5, 0) < 0 ||
	    getxattr(path_of("file"), "user.test", value, sizeof(value)) < 0 ||
	    listxattr(path_of("file"), value, sizeof(value)) < 0 ||
	    removexattr(path_of("file"), "user.test") < 0)
		return errno;
	return 0;
}

static int do_list(const struct turn *turn)
{
	struct dirent *entry;
	DIR *dir;
	int r;

	close(open(path_of("file"), O_RDWR | O_CREAT, 0600));
	begin(turn);
	dir = opendir(fixture.dir);
	if (!dir)
		return errno;
	do {
		errno = 0;
		entry = readdir(dir);
	} while (entry);
	r = errno;
	closedir(dir);
	return r;
}

static int read_all(const char *name)
{
	char buf[4096];
	int fd = open(path_of(name), O_RDONLY);
	ssize_t n = fd;

	while (fd >= 0 && (n = read(fd, buf, sizeof(buf))) > 0)
		;
	return result(n);
}

static int do_statistics(const struct turn *turn)
{
	static const char *const names[] = {
		".hugefuse/files",
		".hugefuse/maps",
		".hugefuse/regions",
		".hugefuse/fault_stat",
		".hugefuse/lock_stat",
		".hugefuse/options",
		".hugefuse/hugepages-2048kB/free_hugepages",
	};
	int fd = open(path_of("file"), O_RDWR | O_CREAT, 0600), r = result(ftruncate(fd, SIZE));

	begin(turn);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && r == 0; i++)
		r = read_all(names[i]);
	return r;
}

static int do_resize(const struct turn *turn)
{
	int fd = open(path_of("file"), O_RDWR | O_CREAT, 0600);

	begin(turn);
	if (ftruncate(fd, SIZE) < 0 || ftruncate(fd, PAGE_2M) < 0 || ftruncate(fd, 0) < 0)
		return errno;
	return 0;
}

/* What state/ has to hold besides mappings: reservations, the pool's size, quotas. */
static int do_reserve(const struct turn *turn)
{
	int fd = open(path_of("file"), O_RDWR | O_CREAT, 0600);

	begin(turn);
	return result(hugefuse_reserve(fd, 0, SIZE));
}

static int write_pool(int nr)
{
	int fd = open(path_of(".hugefuse/hugepages-2048kB/nr_hugepages"), O_WRONLY);
	int r = fd < 0 || dprintf(fd, "%d\n", nr) < 0 ? errno : 0;

	if (fd >= 0)
		close(fd);
	return r;
}

/* It grows and shrinks; where it fails half-way, it is put right before anybody looks. */
static int do_pool(const struct turn *turn)
{
	int r, again = 0;

	begin(turn);
	r = write_pool(POOL_PAGES + 2);
	if (r == 0)
		r = write_pool(POOL_PAGES);
	if (r) {
		schedule_disarm();
		again = write_pool(POOL_PAGES);
	}
	return again ? EIO : r;
}

static int do_quota(const struct turn *turn)
{
	int r;

	r = result(mkdir(path_of("dir"), 0700));
	begin(turn);
	if (r == 0)
		r = result(setxattr(path_of("dir"), QUOTA, "size=4M", 7, 0));
	if (r == 0)
		r = result(setxattr(path_of("dir"), QUOTA, "size=6M,min_size=2M", 19, 0));
	return r;
}

static int do_fallocate(const struct turn *turn)
{
	int fd = open(path_of("file"), O_RDWR | O_CREAT, 0600);

	begin(turn);
	if (fallocate(fd, 0, 0, SIZE) < 0 ||
	    fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, PAGE_2M, PAGE_2M) < 0)
		return errno;
	return 0;
}

static int do_write(const struct turn *turn)
{
	static char buf[3 * MB];
	int fd = open(path_of("file"), O_RDWR | O_CREAT, 0600);

	memset(buf, 'x', sizeof(buf));
	begin(turn);
	if (pwrite(fd, buf, sizeof(buf), 4096) < 0 || pread(fd, buf, MB, 0) < 0)
		return errno;
	return 0;
}

static char *map(int flags, int fd)
{
	char *addr = hugefuse_mmap(NULL, SIZE, PROT_READ | PROT_WRITE, flags, fd, 0);

	return addr == MAP_FAILED ? NULL : addr;
}

static int do_map(const struct turn *turn)
{
	int fd = open(path_of("file"), O_RDWR | O_CREAT, 0600);
	char *addr;

	begin(turn);
	addr = map(MAP_SHARED, fd);
	if (!addr)
		return errno;
	return result(hugefuse_munmap(addr, SIZE));
}

/* What is mapped is reserved: whatever fails in the daemon, it must not be a SIGBUS. */
static int touch(char *addr)
{
	for (size_t i = 0; i < NR_PAGES; i++) {
		if (raises_sigbus(addr + i * PAGE_2M, true))
			return EFAULT;
	}
	return 0;
}

/* A file that is mapped, shared, with all of its pages. */
static int map_touched(int *ret_fd, char **ret_addr)
{
	*ret_fd = open(path_of("file"), O_RDWR | O_CREAT, 0600);
	*ret_addr = map(MAP_SHARED, *ret_fd);
	return *ret_addr ? touch(*ret_addr) : errno;
}

static int touch_mapped(const struct turn *turn, int flags)
{
	int fd = open(path_of("file"), O_RDWR | O_CREAT, 0600);
	char *addr = map(flags, fd);

	if (!addr)
		return errno;
	begin(turn);
	return touch(addr);
}

static int do_fault(const struct turn *turn)
{
	return touch_mapped(turn, MAP_SHARED);
}

static int do_fault_private(const struct turn *turn)
{
	return touch_mapped(turn, MAP_PRIVATE);
}

static int do_populate(const struct turn *turn)
{
	int fd = open(path_of("file"), O_RDWR | O_CREAT, 0600);

	begin(turn);
	return map(MAP_SHARED | MAP_POPULATE, fd) ? 0 : errno;
}

static int do_punch_mapped(const struct turn *turn)
{
	char *addr;
	int fd, r = map_touched(&fd, &addr);

	if (r)
		return r;
	begin(turn);
	r = result(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 2 * PAGE_2M));
	return r ? r : touch(addr);
}

static int do_truncate_mapped(const struct turn *turn)
{
	char *addr;
	int fd, r = map_touched(&fd, &addr);

	if (r)
		return r;
	begin(turn);
	return result(ftruncate(fd, PAGE_2M));
}

static int do_fork(const struct turn *turn)
{
	int fd = open(path_of("file"), O_RDWR | O_CREAT, 0600), status;
	char *addr = map(MAP_SHARED, fd);
	pid_t child;

	if (!addr)
		return errno;
	begin(turn);
	child = fork();
	if (child == 0)
		_exit(touch(addr));
	if (child < 0 || waitpid(child, &status, 0) != child)
		return errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EFAULT;
}

/* The daemon cleans up behind a client that dies. */
static int do_exit(const struct turn *turn)
{
	int fd = open(path_of("file"), O_RDWR | O_CREAT, 0600);
	char *shared = map(MAP_SHARED, fd), *private = map(MAP_PRIVATE, fd);
	int r;

	if (!shared || !private)
		return errno;
	r = touch(private);
	begin(turn);
	return r;
}

static const struct operation operations[] = {
	{"create", do_create, false},
	{"names", do_names, false},
	{"attributes", do_attributes, false},
	{"list", do_list, false},
	{"statistics", do_statistics, false},
	{"resize", do_resize, false},
	{"fallocate", do_fallocate, false},
	{"write", do_write, false},
	{"map", do_map, true},
	{"fault", do_fault, true},
	{"fault_private", do_fault_private, true},
	{"populate", do_populate, true},
	{"punch_mapped", do_punch_mapped, true},
	{"truncate_mapped", do_truncate_mapped, true},
	{"fork", do_fork, true},
	{"exit", do_exit, true},
	{"reserve", do_reserve, true},
	{"quota", do_quota, false},
	{"pool", do_pool, true}, /* last: from then on size= is no limit */
};
#define NR_OPERATIONS (sizeof(operations) / sizeof(operations[0]))

/* ---- what must hold ---- */

static int run_turn(void *data)
{
	const struct turn *turn = data;

	return turn->operation->run(turn);
}

static bool kernel_is_as_before(void *data)
{
	const struct expectation *before = data;
	struct kernel_counts now = kernel_counts_read(PAGE_2M);

	return memcmp(&now, &before->kernel, sizeof(now)) == 0;
}

static int run_once(struct turn *turn, const char *name)
{
	return expect_end(start_child(run_turn, turn, 0), name);
}

static int fail_at(const struct operation *operation, int64_t nth, uint32_t stall_ms,
		   struct expectation *before, bool *ret_fired)
{
	struct turn turn = {operation, nth, stall_ms ? INJECT_ALL : INJECT_FAILING, stall_ms};
	struct turn again = {operation, 0, 0, 0};
	int r = run_once(&turn, operation->name);

	/* what is at work behind it is still to fail, and looking through the mount would, too
	 */
	if (operation->run == do_exit)
		wait_until(kernel_is_as_before, before, 100);
	*ret_fired = schedule_disarm();
	remove_files(&fixture);
	expect_as_before(&fixture, before, operation->name);
	if (r != 0 && !*ret_fired)
		fail_msg("%s fails by itself: %s", operation->name, strerror(r));
	if (*ret_fired && run_once(&again, operation->name) != 0)
		fail_msg("%s: it cannot be done after %s", operation->name, schedule_what());
	remove_files(&fixture);
	return r;
}

static bool nothing_is_mapped(void *data)
{
	return fixture_nr_mapped(&fixture) == 0 &&
	       fixture_counter(&fixture, "free_hugepages") ==
		       fixture_counter(&fixture, "nr_hugepages");
}

/* The daemon has done with the clients that have ended. */
static void settle(void)
{
	if (!wait_until(nothing_is_mapped, NULL, 2000))
		fail_msg("pages are in use after the first time");
}

static void try_operation(const struct operation *operation, uint32_t stall_ms)
{
	struct turn warm_up = {operation, 0, 0, 0};
	struct expectation before;
	bool fired = true;
	int64_t nth;
	int refused = 0, r;

	/* what is made once and kept is there after the first time */
	for (int i = 0; i < 2; i++) {
		r = run_once(&warm_up, operation->name);
		if (r != 0)
			fail_msg("%s: %s", operation->name, strerror(r));
		remove_files(&fixture);
	}
	settle();
	before = expectation_now(&fixture);
	for (nth = 1; fired; nth++) {
		if (nth > MAX_POINTS)
			fail_msg("%s goes on for ever", operation->name);
		r = fail_at(operation, nth, stall_ms, &before, &fired);
		if (fired && getenv("VERBOSE"))
			printf("  %-16s %-40s %s\n", operation->name, schedule_what(),
			       r ? strerror(r) : "-");
		refused += r != 0;
		if (stall_ms && r != 0)
			fail_msg("%s: waiting is no reason for %s", operation->name,
				 strerror(r));
	}
	printf("%-16s %3d points, %3d told the caller\n", operation->name, (int)nth - 2,
	       refused);
	nr_points += (int)nth - 2;
	nr_refused += refused;
}

/* $TEST_OPERATION chooses one. */
static bool is_chosen(const struct operation *operation)
{
	const char *name = getenv("TEST_OPERATION");

	return !name || strcmp(name, operation->name) == 0;
}

static void try_operations(const char *options, bool direct, uint32_t stall_ms)
{
	fixture.excused = true;
	fixture_mount(&fixture, options);
	for (size_t i = 0; i < NR_OPERATIONS; i++) {
		if (is_chosen(&operations[i]) && (direct || !operations[i].needs_direct))
			try_operation(&operations[i], stall_ms);
	}
	fixture_umount(&fixture);
}

static void hugetlb(void **state)
{
	try_operations("backing=hugetlb,size=24M", true, 0);
}

static void thp(void **state)
{
	try_operations("backing=thp,size=24M", false, 0);
}

/* Each of them, and each taking of a lock, lasts 20 ms, and what is beside it goes on. */
static void stalls(void **state)
{
	try_operations("backing=hugetlb,size=24M", true, 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hugetlb),
		cmocka_unit_test(thp),
		cmocka_unit_test(stalls),
	};
	int r;

	require_root();
	require_pages(PAGE_2M, 12);
	schedule_init();
	r = cmocka_run_group_tests(tests, NULL, NULL);
	printf("%d points of failure, %d told the caller\n", nr_points, nr_refused);
	printf("figure: points of failure and waiting of a mounted daemon, each tried alone: %d\n"
	       "figure: of these, told to the caller: %d\n",
	       nr_points, nr_refused);
	return r;
}
