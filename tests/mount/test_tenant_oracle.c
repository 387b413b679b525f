/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A directory with size= and min_size= is what a hugetlbfs mounted with them is: the same steps
 * on both, and after each the same errno, the same statfs(2), and the same number of pages that
 * are used or kept. The kernel goes first, and what it did is what is expected.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "fixture.h"
#include "side.h"

#define PAGE      ((off_t)PAGE_2M)
#define NR_PAGES  16 /* of the pool that either is in */
#define MAX_STEPS 64
#define RW        (PROT_READ | PROT_WRITE)

struct observation {
	int line;
	long error;        /* 0, or errno of what was done */
	long blocks, free; /* of statfs(2) */
	long held;         /* pages that are used, reserved, or kept by min_size= */
};

/* In shared memory: what the kernel did, and how far a run has come. */
struct record {
	struct observation steps[MAX_STEPS];
	int nr;
};

struct place {
	struct side side; /* its fixture's directory is the tenant's */
	const struct kernel_counts *before;
	bool has_size;
	struct record *kernel;
	int step;
};

static long value_of(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	assert_non_null(at);
	return atol(at + strlen(name)) / (long)PAGE_2M;
}

static long held(const struct place *place)
{
	struct kernel_counts now;
	char text[256] = "";

	if (place->side.kernel) {
		now = kernel_counts_read(PAGE_2M);
		return (now.nr - now.free + now.resv) -
		       (place->before->nr - place->before->free + place->before->resv);
	}
	assert_true(getxattr(place->side.fixture.dir, "user.hugefuse.quota", text,
			     sizeof(text) - 1) > 0);
	return value_of(text, ",used=") + value_of(text, ",reserved=");
}

static struct observation observe_now(const struct place *place)
{
	struct observation now = {0};
	struct statfs st;

	assert_int_equal(statfs(place->side.fixture.dir, &st), 0);
	now.held = held(place);
	/* A hugetlbfs without size= says nothing. */
	if (place->has_size) {
		assert_int_equal(st.f_bsize, PAGE_2M);
		assert_int_equal(st.f_bfree, st.f_bavail);
		now.blocks = (long)st.f_blocks;
		now.free = (long)st.f_bfree;
	}
	return now;
}

static bool is_as_expected(void *data)
{
	const struct place *place = data;
	const struct observation *expected = &place->kernel->steps[place->step];
	struct observation now = observe_now(place);

	return now.blocks == expected->blocks && now.free == expected->free &&
	       now.held == expected->held;
}

/* After a step that returned @error. What the daemon is told late, it has a second for. */
static void observe(struct place *place, int line, long error)
{
	struct observation *step = &place->kernel->steps[place->step], now;

	assert_true(place->step < MAX_STEPS);
	if (place->side.kernel) {
		*step = observe_now(place);
		step->line = line;
		step->error = error;
		place->kernel->nr = ++place->step;
		return;
	}
	assert_int_equal(step->line, line);
	if (error != step->error)
		fail_msg("line %d: hugetlbfs: %s, tenant: %s", line, strerror((int)step->error),
			 strerror((int)error));
	if (!wait_until(is_as_expected, place, 1000)) {
		now = observe_now(place);
		fail_msg("line %d: hugetlbfs: %ld blocks, %ld free, %ld held; tenant: %ld, "
			 "%ld, %ld",
			 line, step->blocks, step->free, step->held, now.blocks, now.free,
			 now.held);
	}
	place->step++;
}

#define did(place, expression)                                                  \
	do {                                                                    \
		errno = 0;                                                      \
		observe(place, __LINE__, (long)(expression) == -1 ? errno : 0); \
	} while (0)

static void *map(struct place *place, int flags, int fd, long pages)
{
	return side_map(&place->side, NULL, (size_t)(pages * PAGE), RW, flags, fd, 0);
}

static int unmap(struct place *place, void *addr, long pages)
{
	return side_unmap(&place->side, addr, (size_t)(pages * PAGE));
}

static int touch(char *addr, long from, long to)
{
	for (long idx = from; idx < to; idx++)
		addr[idx * PAGE] = 1;
	return 0;
}

static int remove_file(struct place *place, const char *name)
{
	return unlink(fixture_path(&place->side.fixture, name));
}

/*
 * ---- what is done ----
 *
 * Where the use falls across min_size=, what is kept depends on how many pages come back at
 * once, which for private mappings differs: there it falls to min_size exactly.
 */

static void shared(struct place *place)
{
	int one = side_file(&place->side, "one", 5), two = side_file(&place->side, "two", 9);
	char *a, *b;

	did(place, 0);
	did(place, a = map(place, MAP_SHARED, one, 5));
	did(place, map(place, MAP_SHARED, two, 4)); /* with size=: one more than is left */
	did(place, b = map(place, MAP_SHARED, two, 3));
	did(place, touch(a, 0, 5));
	did(place, map(place, MAP_PRIVATE, one, 1));
	did(place, touch(b, 1, 3));
	did(place, unmap(place, a, 5));
	did(place, ftruncate(one, 2 * PAGE));
	did(place, fallocate(two, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, PAGE, PAGE));
	did(place, touch(b, 0, 3));
	/* Without a name, and mapped. */
	did(place, remove_file(place, "two"));
	did(place, close(two));
	did(place, unmap(place, b, 3));
	did(place, close(one));
	did(place, remove_file(place, "one"));
}

static void private(struct place *place)
{
	int fd = side_file(&place->side, "file", 8);
	char *a, *b;

	did(place, a = map(place, MAP_PRIVATE, fd, 4));
	did(place, touch(a, 0, 3));
	did(place, map(place, MAP_PRIVATE, fd, 5));
	did(place, b = map(place, MAP_PRIVATE, fd, 4));
	did(place, unmap(place, a, 4));
	did(place, touch(b, 0, 2));
	did(place, unmap(place, b, 4));
	did(place, close(fd));
	did(place, remove_file(place, "file"));
}

/* Without a reservation: SIGBUS at the size, and not before. */
static void noreserve(struct place *place)
{
	int fd = side_file(&place->side, "file", 12), other;
	char *a = map(place, MAP_SHARED | MAP_NORESERVE, fd, 12);
	long idx;

	did(place, 0);
	for (idx = 0; idx < 6; idx++)
		did(place, raises_sigbus(a + idx * PAGE, true) ? (errno = EFAULT, -1) : 0);
	other = side_file(&place->side, "other", 1);
	did(place, map(place, MAP_SHARED, other, 1));
	did(place, map(place, MAP_SHARED, other, 3));
	for (; idx < 9; idx++)
		did(place, raises_sigbus(a + idx * PAGE, true) ? (errno = EFAULT, -1) : 0);
	did(place, fallocate(fd, 0, 10 * PAGE, PAGE));
	close(other);
	did(place, remove_file(place, "other"));
	did(place, unmap(place, a, 12));
	did(place, ftruncate(fd, 4 * PAGE));
	did(place, ftruncate(fd, 0));
	close(fd);
	did(place, remove_file(place, "file"));
}

static int hold_and_wait(void *data)
{
	struct place *place = data;
	int fd = side_file(&place->side, "file", 8);
	char *a = map(place, MAP_PRIVATE, fd, 4), *b = map(place, MAP_SHARED, fd, 4);

	if (a == MAP_FAILED || b == MAP_FAILED)
		return 1;
	touch(a, 0, 2);
	touch(b, 0, 1);
	raise(SIGSTOP);
	return 0;
}

/* A process that is killed gives back what was its own. */
static void killed(struct place *place)
{
	pid_t child = start_child(hold_and_wait, place, 0);
	int status;

	assert_int_equal(waitpid(child, &status, WUNTRACED), child);
	assert_true(WIFSTOPPED(status));
	did(place, 0);
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, &status, 0), child);
	did(place, 0);
	did(place, remove_file(place, "file"));
}

/* ---- setting up and taking down ---- */

struct test {
	void (*body)(struct place *place);
	const char *options;
};

struct run {
	const struct test *test;
	struct place *place;
};

static int run_body(void *data)
{
	struct run *run = data;

	run->test->body(run->place);
	return 0;
}

static void run_in_child(const struct test *test, struct place *place)
{
	struct run run = {test, place};

	assert_int_equal(run_child(run_body, &run, 0, 30000), 0);
}

static bool kernel_is_back(void *data)
{
	const struct kernel_counts *before = data;
	struct kernel_counts now = kernel_counts_read(PAGE_2M);

	return now.free - now.nr == before->free - before->nr && now.resv == before->resv;
}

static void run_on_kernel(const struct test *test, struct record *record)
{
	struct kernel_counts before = kernel_counts_read(PAGE_2M);
	struct place place = {.before = &before, .kernel = record};
	char options[80];
	bool umounted;

	kernel_pool_set(PAGE_2M, before.nr + NR_PAGES);
	place.side = (struct side){.kernel = true, .fixture = {.page_size = PAGE_2M}};
	place.has_size = strncmp(test->options, "size=", 5) == 0;
	strcpy(place.side.fixture.dir, "/tmp/hugetlbfs-test-XXXXXX");
	assert_non_null(mkdtemp(place.side.fixture.dir));
	snprintf(options, sizeof(options), "pagesize=2M,%s", test->options);
	assert_int_equal(mount("none", place.side.fixture.dir, "hugetlbfs", 0, options), 0);
	run_in_child(test, &place);
	umounted = umount(place.side.fixture.dir) == 0;
	rmdir(place.side.fixture.dir);
	wait_until(kernel_is_back, &before, 2000);
	kernel_pool_set(PAGE_2M, before.nr);
	assert_true(umounted);
}

static void run_on_tenant(const struct test *test, struct record *record)
{
	struct place place = {.kernel = record};
	struct fixture fixture = {0};
	char dir[80];

	fixture_mount(&fixture, "backing=hugetlb,size=32M");
	snprintf(dir, sizeof(dir), "%s/t", fixture.dir);
	assert_int_equal(mkdir(dir, 0700), 0);
	assert_int_equal(
		setxattr(dir, "user.hugefuse.quota", test->options, strlen(test->options), 0),
		0);
	place.side.fixture = fixture;
	assert_true(strlen(dir) < sizeof(place.side.fixture.dir));
	strcpy(place.side.fixture.dir, dir);
	place.has_size = strncmp(test->options, "size=", 5) == 0;
	run_in_child(test, &place);
	/* What is not used any more is with the mount again. */
	assert_int_equal(rmdir(dir), 0);
	fixture_expect_counter(&fixture, "resv_hugepages", NR_PAGES);
	fixture_expect_counter(&fixture, "free_hugepages", NR_PAGES);
	fixture_umount(&fixture);
}

static void test_as_hugetlbfs(void **state)
{
	const struct test *test = *state;
	struct record *record = shared_memory(sizeof(*record));

	run_on_kernel(test, record);
	assert_true(record->nr > 2);
	run_on_tenant(test, record);
	munmap(record, sizeof(*record));
}

#define WITH(name, quota)                                                           \
	{                                                                           \
#name " with " quota, test_as_hugetlbfs, NULL, NULL, &(struct test) \
		{                                                                   \
			name, quota                                                 \
		}                                                                   \
	}
#define WITH_ALL(name)                                              \
	WITH(name, "size=16M"), WITH(name, "size=16M,min_size=8M"), \
		WITH(name, "size=16M,min_size=16M"), WITH(name, "min_size=8M")

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_ALL(shared),
		WITH_ALL(private),
		WITH_ALL(noreserve),
		WITH_ALL(killed),
	};

	require_root();
	require_pages(PAGE_2M, NR_PAGES);
	cmocka_set_test_filter(getenv("TEST_FILTER"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
