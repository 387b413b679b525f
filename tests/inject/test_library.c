/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Every single point of failure of the library's own calls, in a client of its own each time.
 * The call succeeds, or says why not and leaves nothing: no mapping, no descriptor; and it can
 * be made again. When the client has ended, the counters are the kernel's. The daemon fails
 * nowhere. $VERBOSE tells of each point.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"
#include "hugefuse.h"
#include "schedule.h"

#define MAX_POINTS 1000
#define NR_PAGES   4
#define SIZE       (NR_PAGES * PAGE_2M)
#define RW         (PROT_READ | PROT_WRITE)

struct client {
	int fd;        /* of the file */
	char *mapped;  /* SIZE bytes, shared, all touched; for those that want it */
	char *claimed; /* SIZE bytes of addresses where nothing is */
};

struct operation {
	const char *name;
	int (*run)(struct client *client); /* 0 or errno; what it makes stays */
	bool needs_mapped;
	long nr_mapped; /* pages more (or less) that are mapped afterwards */
	long nr_failed; /* the same where it has failed */
};

struct turn {
	const struct operation *operation;
	int64_t nth;
};

static struct fixture fixture;
static int nr_points, nr_refused;

/* ---- what is done ---- */

static int map(char *addr, int flags, int fd)
{
	char *mapped = hugefuse_mmap(addr, SIZE, RW, flags, fd, 0);

	if (mapped == MAP_FAILED)
		return errno;
	return addr && mapped != addr ? EADDRINUSE : 0;
}

static int do_map_shared(struct client *client)
{
	return map(NULL, MAP_SHARED, client->fd);
}

static int do_map_private(struct client *client)
{
	return map(NULL, MAP_PRIVATE, client->fd);
}

static int do_map_noreserve(struct client *client)
{
	return map(NULL, MAP_SHARED | MAP_NORESERVE, client->fd);
}

static int do_populate(struct client *client)
{
	return map(NULL, MAP_SHARED | MAP_POPULATE, client->fd);
}

static int do_map_fixed(struct client *client)
{
	return map(client->claimed, MAP_SHARED | MAP_FIXED, client->fd);
}

static int do_map_noreplace(struct client *client)
{
	return map(client->claimed, MAP_SHARED | MAP_FIXED_NOREPLACE, client->fd);
}

/* Over what is mapped. If it fails, that may be there still or not, as with mmap(2). */
static int do_map_over(struct client *client)
{
	char *addr = client->mapped ? client->mapped : client->claimed;
	int r = map(addr, MAP_SHARED | MAP_FIXED, client->fd);

	if (r) {
		hugefuse_munmap(addr, SIZE);
		client->claimed = addr;
		client->mapped = NULL;
	}
	return r;
}

static int do_reserve(struct client *client)
{
	return hugefuse_reserve(client->fd, 0, SIZE) < 0 ? errno : 0;
}

static int do_query(struct client *client)
{
	struct hugefuse_info info;

	return hugefuse_query(client->fd, &info) < 0 ? errno : 0;
}

static int do_unmap(struct client *client)
{
	return hugefuse_munmap(client->mapped, SIZE) < 0 ? errno : 0;
}

static int do_unmap_middle(struct client *client)
{
	return hugefuse_munmap(client->mapped + PAGE_2M, PAGE_2M) < 0 ? errno : 0;
}

static int do_move(struct client *client)
{
	return hugefuse_mremap(client->mapped, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED,
			       client->claimed) == MAP_FAILED
		       ? errno
		       : 0;
}

static int do_shrink(struct client *client)
{
	return hugefuse_mremap(client->mapped, SIZE, PAGE_2M, MREMAP_MAYMOVE) == MAP_FAILED
		       ? errno
		       : 0;
}

/* Whoever serves the child, it has the pages. */
static int do_fork(struct client *client)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		inject_use(NULL); /* what is to fail is the library's, in fork(2) */
		for (int i = 0; i < NR_PAGES; i++) {
			if (raises_sigbus(client->mapped + (size_t)i * PAGE_2M, true))
				_exit(EFAULT);
		}
		_exit(0);
	}
	if (child < 0)
		return errno;
	if (waitpid(child, &status, 0) != child)
		return ECHILD;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EFAULT;
}

static const struct operation operations[] = {
	{"map_shared", do_map_shared, false, NR_PAGES},
	{"map_private", do_map_private, false, NR_PAGES},
	{"map_noreserve", do_map_noreserve, false, NR_PAGES},
	{"populate", do_populate, false, NR_PAGES},
	{"map_fixed", do_map_fixed, false, NR_PAGES},
	{"map_noreplace", do_map_noreplace, false, NR_PAGES},
	{"map_over", do_map_over, true, 0, -NR_PAGES},
	{"reserve", do_reserve, false, 0},
	{"query", do_query, false, 0},
	{"unmap", do_unmap, true, -NR_PAGES},
	{"unmap_middle", do_unmap_middle, true, -1},
	{"move", do_move, true, 0},
	{"shrink", do_shrink, true, 1 - NR_PAGES},
	{"fork", do_fork, true, 0},
};
#define NR_OPERATIONS (sizeof(operations) / sizeof(operations[0]))

/* ---- what a client has ---- */

static int nr_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int nr = 0;

	while (dir && readdir(dir))
		nr++;
	if (dir)
		closedir(dir);
	return nr;
}

/* Pages of the mount, by the pages of 2 MB that are mapped. */
static long nr_pages_mapped(void)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	unsigned long from = 0, to = 0, start, end, kb;
	char line[512];
	long nr = 0;

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2) {
			from = start;
			to = end;
		} else if (sscanf(line, "KernelPageSize: %lu kB", &kb) == 1 &&
			   kb == PAGE_2M / 1024) {
			nr += (long)((to - from) / PAGE_2M);
		}
	}
	if (file)
		fclose(file);
	return nr;
}

static int complain(const char *name, const char *what, long is, long expected)
{
	fprintf(stderr, "%s, %s: %s %ld, expected %ld\n", name, schedule_what(), what, is,
		expected);
	return 1;
}

/* What is made once and kept: a connection, and room for regions. */
static int warm_up(struct client *client)
{
	char *addr;

	client->fd = open(fixture_path(&fixture, "file"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	addr = hugefuse_mmap(NULL, SIZE, RW, MAP_SHARED, client->fd, 0);
	if (addr == MAP_FAILED || hugefuse_munmap(addr + PAGE_2M, PAGE_2M) < 0 ||
	    hugefuse_munmap(addr, SIZE) < 0)
		return errno;
	return 0;
}

/* Aligned addresses where nothing is. */
static int find_addresses(struct client *client)
{
	char *addr;

	addr = mmap(NULL, SIZE + PAGE_2M, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (addr == MAP_FAILED || munmap(addr, SIZE + PAGE_2M) < 0)
		return errno;
	client->claimed = (char *)(((uintptr_t)addr + PAGE_2M - 1) / PAGE_2M * PAGE_2M);
	return 0;
}

static int map_all(struct client *client)
{
	client->mapped = hugefuse_mmap(NULL, SIZE, RW, MAP_SHARED, client->fd, 0);
	if (client->mapped == MAP_FAILED)
		return errno;
	for (int i = 0; i < NR_PAGES; i++) {
		if (raises_sigbus(client->mapped + (size_t)i * PAGE_2M, true))
			return EFAULT;
	}
	return 0;
}

/* All that is mapped can be touched. */
static int touch_all(const struct client *client)
{
	for (int i = 0; client->mapped && i < NR_PAGES; i++) {
		char *at = client->mapped + (size_t)i * PAGE_2M;

		if (raises_sigbus(at, true))
			return EFAULT;
	}
	return 0;
}

/* Results: errno, or a complaint with 200. */
#define COMPLAINED 200

static int fail_and_do(const struct turn *turn, struct client *client)
{
	const struct operation *operation = turn->operation;
	int fds = nr_descriptors(), r, again = 0;
	long pages = nr_pages_mapped(), expected;

	schedule_arm(INJECT_FAILING, turn->nth, 0);
	r = operation->run(client);
	if (!schedule_disarm() && r != 0)
		return complain(operation->name, "it fails by itself:", r, 0) * COMPLAINED;
	if (nr_descriptors() > fds)
		return complain(operation->name, "descriptors", nr_descriptors(), fds) *
		       COMPLAINED;
	expected = pages + (r ? operation->nr_failed : operation->nr_mapped);
	if (nr_pages_mapped() != expected)
		return complain(operation->name, "pages mapped", nr_pages_mapped(), expected) *
		       COMPLAINED;
	if (r && touch_all(client))
		return complain(operation->name, "SIGBUS", 1, 0) * COMPLAINED;
	if (r)
		again = operation->run(client);
	if (again)
		return complain(operation->name, "once more:", again, 0) * COMPLAINED;
	return r;
}

static int run_turn(void *data)
{
	const struct turn *turn = data;
	struct client client = {0};
	int r = warm_up(&client);

	if (r == 0 && turn->operation->needs_mapped)
		r = map_all(&client);
	if (r == 0)
		r = find_addresses(&client);
	if (r)
		return complain(turn->operation->name, "before it:", r, 0) * COMPLAINED;
	return fail_and_do(turn, &client);
}

/* ---- all of them ---- */

static int run_once(struct turn *turn)
{
	int r = expect_end(start_child(run_turn, turn, 0), turn->operation->name);

	if (r == COMPLAINED)
		fail_msg("%s, %s", turn->operation->name, schedule_what());
	return r;
}

static bool nothing_is_mapped(void *data)
{
	return fixture_nr_mapped(&fixture) == 0 &&
	       fixture_counter(&fixture, "free_hugepages") ==
		       fixture_counter(&fixture, "nr_hugepages");
}

static bool has_fired(void)
{
	return schedule_nr_fired() > 0;
}

static void try_operation(const struct operation *operation)
{
	struct expectation before;
	struct turn turn = {operation, 0};
	int refused = 0, r;

	assert_int_equal(run_once(&turn), 0);
	remove_files(&fixture);
	if (!wait_until(nothing_is_mapped, NULL, 2000))
		fail_msg("pages are in use after the first time");
	before = expectation_now(&fixture);
	do {
		if (++turn.nth > MAX_POINTS)
			fail_msg("%s goes on for ever", operation->name);
		r = run_once(&turn);
		remove_files(&fixture);
		expect_as_before(&fixture, &before, operation->name);
		if (has_fired() && getenv("VERBOSE"))
			printf("  %-16s %-40s %s\n", operation->name, schedule_what(),
			       r ? strerror(r) : "-");
		refused += r != 0;
	} while (has_fired());
	printf("%-16s %3d points, %3d told the caller\n", operation->name, (int)turn.nth - 1,
	       refused);
	nr_points += (int)turn.nth - 1;
	nr_refused += refused;
}

/* $TEST_OPERATION chooses one. */
static void test_operations(void **state)
{
	const char *chosen = getenv("TEST_OPERATION");

	fixture_mount(&fixture, "backing=hugetlb,size=32M");
	for (size_t i = 0; i < NR_OPERATIONS; i++) {
		if (!chosen || strcmp(chosen, operations[i].name) == 0)
			try_operation(&operations[i]);
	}
	fixture_umount(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_operations)};
	int r;

	require_root();
	require_pages(PAGE_2M, 16);
	schedule_init();
	r = cmocka_run_group_tests(tests, NULL, NULL);
	printf("figure: points of failure of the library, each tried alone: %d\n"
	       "figure: of those of the library, told to the caller: %d\n",
	       nr_points, nr_refused);
	return r;
}
