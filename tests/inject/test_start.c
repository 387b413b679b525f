/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Every single point of failure of a daemon that starts: on nothing, and where another was
 * killed. Each time it serves, or it ends, with an error and a word of it. If it had nothing
 * before, the machine is as it was; if it was to take over, the next one still can, and has all
 * files, data, reservations and clients. $VERBOSE tells of each point,
 * $TEST_NTH begins with one.
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
#include <unistd.h>

#include "expect.h"
#include "hugefuse.h"
#include "restart.h"
#include "schedule.h"
#include "side.h"

#define MAX_POINTS   3000
#define FILE_PAGES   4
#define CLIENT_PAGES 2

static const char *const hugetlb = "backing=hugetlb,size=48M,min_size=48M";
static const char *const thp = "backing=thp,size=48M";
static const char *options; /* one of these */
static struct fixture fixture;
static int nr_points, nr_refused;

/* ---- a daemon that is to fail ---- */

static bool serves(void)
{
	return access(fixture_path(&fixture, ".hugefuse/options"), F_OK) == 0;
}

static bool has_come_or_gone(void *data)
{
	return child_has_ended(fixture.daemon) || serves();
}

static bool has_said_something(void)
{
	struct stat st;

	return stat(fixture.log, &st) == 0 && st.st_size > 0;
}

/* Start a daemon whose @nth call fails; returns whether it serves. */
static bool start_failing(int64_t nth, bool *ret_fired)
{
	int r;

	assert_int_equal(truncate(fixture.log, 0), 0);
	schedule_arm(INJECT_FAILING, nth, 0);
	fixture_start(&fixture, options);
	if (!wait_until(has_come_or_gone, NULL, 10000))
		fail_msg("%s: the daemon neither serves nor ends", schedule_what());
	if (!child_has_ended(fixture.daemon)) {
		*ret_fired = schedule_disarm();
		return true;
	}
	*ret_fired = schedule_disarm();
	r = fixture_wait_end(&fixture);
	if (r == 0 || r >= 1000)
		fail_msg("%s: the daemon ended with %d", schedule_what(), r);
	if (!has_said_something())
		fail_msg("%s: the daemon ended without a word", schedule_what());
	return false;
}

static int64_t first_point(void)
{
	const char *text = getenv("TEST_NTH");

	return text ? strtol(text, NULL, 10) : 1;
}

static void tell(const char *name, bool fired, bool serving)
{
	if (fired && getenv("VERBOSE"))
		printf("  %-8s %-40s %s\n", name, schedule_what(), serving ? "-" : "refused");
	nr_points += fired;
	nr_refused += fired && !serving;
}

/* ---- on nothing ---- */

static long nr_entries(const char *path)
{
	DIR *dir = opendir(path);
	long nr = 0;

	while (dir && readdir(dir))
		nr++;
	if (dir)
		closedir(dir);
	return nr;
}

static long nr_mounts(void)
{
	FILE *file = fopen("/proc/self/mounts", "re");
	long nr = 0;
	int c;

	assert_non_null(file);
	while ((c = fgetc(file)) != EOF)
		nr += c == '\n';
	fclose(file);
	return nr;
}

struct machine {
	struct kernel_counts kernel;
	long nr_mounts, nr_run_dirs;
};

static struct machine machine_now(void)
{
	return (struct machine){kernel_counts_read(PAGE_2M), nr_mounts(),
				nr_entries("/run/hugefuse")};
}

static bool is_as_before(void *data)
{
	struct machine now = machine_now();

	return memcmp(&now, data, sizeof(now)) == 0;
}

static void expect_machine(struct machine *before)
{
	struct machine now;

	if (wait_until(is_as_before, before, 2000))
		return;
	now = machine_now();
	fail_msg("%s: nr %ld free %ld resv %ld, %ld mounts, %ld directories; expected %ld %ld "
		 "%ld, %ld, %ld",
		 schedule_what(), now.kernel.nr, now.kernel.free, now.kernel.resv,
		 now.nr_mounts, now.nr_run_dirs, before->kernel.nr, before->kernel.free,
		 before->kernel.resv, before->nr_mounts, before->nr_run_dirs);
}

static int run_use_thp(void *data)
{
	int fd = fixture_file(&fixture, "file", O_RDWR | O_CREAT, FILE_PAGES * PAGE_2M);
	char *p = mmap(NULL, FILE_PAGES * PAGE_2M, RW, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		return 1;
	for (int i = 0; i < FILE_PAGES; i++) {
		if (raises_sigbus(page(p, i), true))
			return EFAULT;
	}
	return fixture_counter(&fixture, "nr_hugepages") == POOL ? 0 : 2;
}

/* It can do what it is for. */
static void use(void)
{
	int fd = fixture_file(&fixture, "file", O_RDWR | O_CREAT, FILE_PAGES * PAGE_2M);
	char *p = map_file(fd, FILE_PAGES, MAP_SHARED);

	for (int i = 0; i < FILE_PAGES; i++)
		assert_false(raises_sigbus(page(p, i), true));
	assert_int_equal(hugefuse_munmap(p, FILE_PAGES * PAGE_2M), 0);
	close(fd);
	expect(&fixture, FILE_PAGES);
}

static int run_use(void *data)
{
	use();
	return 0;
}

static void test_mount(void **state)
{
	struct machine before;
	bool fired = true, serving;

	options = *state;
	fixture.excused = true;
	fixture_mount(&fixture, options);
	assert_int_equal(run_hugefuse("umount", fixture.dir, NULL), 0);
	assert_int_equal(fixture_wait_end(&fixture), 0);
	before = machine_now();
	for (int64_t nth = first_point(); fired; nth++) {
		assert_true(nth < MAX_POINTS);
		serving = start_failing(nth, &fired);
		tell("mount", fired, serving);
		if (serving) {
			assert_int_equal(
				expect_end(start_child(options == thp ? run_use_thp : run_use,
						       NULL, 0),
					   "use"),
				0);
			assert_int_equal(run_hugefuse("umount", fixture.dir, NULL), 0);
			assert_int_equal(fixture_wait_end(&fixture), 0);
		}
		expect_machine(&before);
	}
	fixture_restart(&fixture, options);
	fixture_umount(&fixture);
}

/* ---- where another was killed ---- */

struct client {
	int ready[2], end[2];
	pid_t pid;
};

static int hold(void *data)
{
	struct client *client = data;
	int fd = fixture_file(&fixture, "held", O_RDWR | O_CREAT, CLIENT_PAGES * PAGE_2M);
	char *shared = map_file(fd, CLIENT_PAGES, MAP_SHARED);
	char *private = map_file(fd, CLIENT_PAGES, MAP_PRIVATE), c;

	shared[0] = 's';
	private[0] = 'p';
	if (write(client->ready[1], "x", 1) != 1)
		return 2;
	close(client->end[1]);
	if (read(client->end[0], &c, 1) != 0)
		return 3;
	/* whoever serves it: what was reserved is there, what was written has stayed */
	if (raises_sigbus(page(shared, 1), true) || raises_sigbus(page(private, 1), true))
		return EFAULT;
	return shared[0] == 's' && private[0] == 'p' ? 0 : 4;
}

static void start_holder(struct client *client)
{
	char c;

	assert_int_equal(pipe2(client->ready, O_CLOEXEC) | pipe2(client->end, O_CLOEXEC), 0);
	client->pid = start_child(hold, client, 0);
	close(client->ready[1]);
	assert_int_equal(read(client->ready[0], &c, 1), 1);
	close(client->ready[0]);
	close(client->end[0]);
}

static void end_holder(struct client *client)
{
	close(client->end[1]);
	assert_int_equal(expect_end(client->pid, "the client"), 0);
}

/* One page written, and FILE_PAGES reserved, with attributes; in a directory. */
static void make_file(void)
{
	int fd;

	assert_int_equal(mkdir(fixture_path(&fixture, "dir"), 0710), 0);
	fd = fixture_file(&fixture, "dir/file", O_RDWR | O_CREAT, FILE_PAGES * PAGE_2M);
	assert_int_equal(hugefuse_reserve(fd, 0, FILE_PAGES * PAGE_2M), FILE_PAGES);
	assert_int_equal(pwrite(fd, "data", 4, PAGE_2M + 5), 4);
	close(fd);
}

static int expect_file(void *data)
{
	char text[5] = "";
	struct stat st;
	int fd;

	fd = fixture_file(&fixture, "dir/file", O_RDONLY, 0);
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size != FILE_PAGES * PAGE_2M ||
	    pread(fd, text, 4, PAGE_2M + 5) != 4 || strcmp(text, "data") != 0)
		return 1;
	return stat(fixture_path(&fixture, "dir"), &st) < 0 || st.st_mode != (S_IFDIR | 0710);
}

/* What is written, and what the client has touched of the shared and the private one. */
#define USED (1 + 1 + 1)

static void expect_all(void)
{
	assert_int_equal(run_child(expect_file, NULL, 0, 10000), 0);
	expect(&fixture, USED);
	assert_int_equal(fixture_nr_mapped(&fixture), 2);
}

static void test_restart(void **state)
{
	struct client client;
	bool fired = true, serving;

	options = hugetlb;
	fixture.excused = true;
	fixture_mount(&fixture, options);
	make_file();
	start_holder(&client);
	expect_all();
	for (int64_t nth = first_point(); fired; nth++) {
		assert_true(nth < MAX_POINTS);
		fixture_kill(&fixture);
		serving = start_failing(nth, &fired);
		tell("restart", fired, serving);
		if (!serving)
			fixture_restart(&fixture, options);
		expect_all();
	}
	end_holder(&client);
	expect(&fixture, 1 + 2);
	assert_int_equal(can_reserve(&fixture), POOL - FILE_PAGES - CLIENT_PAGES);
	fixture_umount(&fixture);
}

/* ---- the same with files that are mapped through FUSE ---- */

struct thp_counts {
	long nr, free, resv;
};

static struct thp_counts thp_counts_now(void)
{
	return (struct thp_counts){
		.nr = fixture_counter(&fixture, "nr_hugepages"),
		.free = fixture_counter(&fixture, "free_hugepages"),
		.resv = fixture_counter(&fixture, "resv_hugepages"),
	};
}

static bool counts_are_as_before(void *data)
{
	struct thp_counts now = thp_counts_now();

	return memcmp(&now, data, sizeof(now)) == 0;
}

/* What is populated ahead is: until then pages move from resv to used. */
static bool is_populated(void *data)
{
	return fixture_counter(&fixture, "nr_hugepages") -
		       fixture_counter(&fixture, "free_hugepages") ==
	       FILE_PAGES;
}

static void test_restart_thp(void **state)
{
	struct thp_counts before, now;
	bool fired = true, serving;
	int fd;

	options = thp;
	fixture.excused = true;
	fixture_mount(&fixture, options);
	assert_int_equal(mkdir(fixture_path(&fixture, "dir"), 0710), 0);
	fd = fixture_file(&fixture, "dir/file", O_RDWR | O_CREAT, FILE_PAGES * PAGE_2M);
	assert_int_equal(pwrite(fd, "data", 4, PAGE_2M + 5), 4);
	assert_int_equal(fallocate(fd, 0, 0, FILE_PAGES * PAGE_2M), 0);
	close(fd);
	assert_true(wait_until(is_populated, NULL, 5000));
	before = thp_counts_now();
	for (int64_t nth = first_point(); fired; nth++) {
		assert_true(nth < MAX_POINTS);
		fixture_kill(&fixture);
		serving = start_failing(nth, &fired);
		tell("restart", fired, serving);
		if (!serving)
			fixture_restart(&fixture, options);
		assert_int_equal(run_child(expect_file, NULL, 0, 10000), 0);
		if (wait_until(counts_are_as_before, &before, 3000))
			continue;
		now = thp_counts_now();
		fail_msg("%s: nr %ld free %ld resv %ld, expected %ld %ld %ld", schedule_what(),
			 now.nr, now.free, now.resv, before.nr, before.free, before.resv);
	}
	fixture_umount(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		{"mount hugetlb", test_mount, NULL, NULL, (void *)hugetlb},
		{"mount thp", test_mount, NULL, NULL, (void *)thp},
		cmocka_unit_test(test_restart),
		cmocka_unit_test(test_restart_thp),
	};
	int r;

	require_root();
	require_pages(PAGE_2M, POOL);
	schedule_init();
	r = cmocka_run_group_tests(tests, NULL, NULL);
	printf("figure: points of failure of a daemon that starts or takes over, each tried "
	       "alone: %d\n"
	       "figure: of those of its start, told by its end: %d\n",
	       nr_points, nr_refused);
	return r;
}
