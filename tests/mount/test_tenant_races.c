/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tenants while everything happens at a time: names are made, moved, linked and removed, files
 * grow and shrink, quotas come, change and go, in several processes. The interleaving that is
 * looked for is a name that comes into a directory just as that becomes a tenant, or ceases to
 * be one: then a file would be charged where it is not. In the end what each tenant has is what
 * the files in it have; and all along the lines of .hugefuse/tenants add up.
 *
 * TEST_SEED in the environment repeats the operations, though not their order.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "fixture.h"

#define QUOTA      "user.hugefuse.quota"
#define NR_WORKERS 4
#define NR_ROUNDS  60
#define NR_STEPS   50
#define NR_DIRS    3
#define NR_NAMES   4
#define NR_READS   400

static struct fixture fixture;

struct worker {
	uint64_t seed;
};

static uint32_t random_below(uint64_t *seed, uint32_t limit)
{
	*seed = *seed * 6364136223846793005U + 1442695040888963407U;
	return (uint32_t)(((*seed >> 32) * limit) >> 32);
}

/* A directory with a number, which may be a tenant; the last one is in the first. */
static const char *dir_path(uint32_t dir)
{
	static const char *const names[NR_DIRS + 1] = {"a", "b", "a/in", "."};
	static char paths[NR_DIRS + 1][96];

	snprintf(paths[dir], sizeof(paths[0]), "%s/%s", fixture.dir, names[dir]);
	return paths[dir];
}

static const char *file_path(uint32_t dir, uint32_t name)
{
	static char paths[4][112];
	static int next;

	next = (next + 1) % 4;
	snprintf(paths[next], sizeof(paths[0]), "%s/f%u", dir_path(dir), name);
	return paths[next];
}

static int resize_file(struct worker *worker, const char *path)
{
	off_t size = random_below(&worker->seed, 4 * PAGE_2M);
	int fd = open(path, O_RDWR | O_CREAT, 0600), r;

	if (fd < 0)
		return fd;
	r = random_below(&worker->seed, 2) ? ftruncate(fd, size)
					   : fallocate(fd, 0, 0, size + 1);
	close(fd);
	return r;
}

static int change_quota(struct worker *worker, const char *dir)
{
	char value[64];

	if (random_below(&worker->seed, 32) == 0)
		return removexattr(dir, QUOTA);
	snprintf(value, sizeof(value), "size=%uM,min_size=%uM",
		 8 + random_below(&worker->seed, 16), random_below(&worker->seed, 8));
	return setxattr(dir, QUOTA, value, strlen(value), 0);
}

/* Whatever it is, it may fail in these ways, for others are at it, too. */
static bool is_usual(int error)
{
	return error == ENOENT || error == EEXIST || error == EXDEV || error == ENOSPC ||
	       error == ENOTEMPTY || error == ENODATA || error == ESTALE || error == EINVAL ||
	       error == ENOMEM || error == EBUSY;
}

static int step(struct worker *worker)
{
	uint32_t from = random_below(&worker->seed, NR_DIRS + 1);
	uint32_t to = random_below(&worker->seed, NR_DIRS + 1);
	const char *file = file_path(from, random_below(&worker->seed, NR_NAMES));
	const char *other = file_path(to, random_below(&worker->seed, NR_NAMES));

	switch (random_below(&worker->seed, 12)) {
	case 0:
	case 1:
	case 2:
		return resize_file(worker, file);
	case 3:
	case 4:
		return rename(file, other);
	case 5:
		return link(file, other);
	case 6:
	case 7:
		return unlink(file);
	case 8:
		return from < NR_DIRS ? mkdir(dir_path(from), 0700) : 0;
	case 9:
		return from < NR_DIRS ? rmdir(dir_path(from)) : 0;
	default:
		return from < NR_DIRS ? change_quota(worker, dir_path(from)) : 0;
	}
}

static int work(void *data)
{
	struct worker *worker = data;

	for (int i = 0; i < NR_STEPS; i++) {
		errno = 0;
		if (step(worker) < 0 && !is_usual(errno)) {
			fprintf(stderr, "step %d: %s\n", i, strerror(errno));
			return 1;
		}
	}
	return 0;
}

/* Bytes that the files in a directory and below have, each one once; directories are few. */
static long bytes_in(const char *path, ino_t *seen, int *nr_seen)
{
	DIR *dir = opendir(path);
	struct dirent *dirent;
	char name[400];
	struct stat st;
	long bytes = 0;
	int i;

	assert_non_null(dir);
	while ((dirent = readdir(dir))) {
		if (dirent->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "%s/%s", path, dirent->d_name);
		assert_int_equal(lstat(name, &st), 0);
		if (S_ISDIR(st.st_mode)) {
			bytes += bytes_in(name, seen, nr_seen);
			continue;
		}
		for (i = 0; i < *nr_seen && seen[i] != st.st_ino; i++)
			;
		if (i < *nr_seen)
			continue;
		seen[(*nr_seen)++] = st.st_ino;
		bytes += st.st_blocks * 512;
	}
	closedir(dir);
	return bytes;
}

static long value_of(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	assert_non_null(at);
	return atol(at + strlen(name));
}

struct expected {
	uint32_t dir;
	long used; /* without what is kept for tenants inside */
};

/* Of its min_size. */
static long kept_for(uint32_t dir)
{
	char text[256] = "";

	return getxattr(dir_path(dir), QUOTA, text, sizeof(text) - 1) > 0
		       ? value_of(text, ",reserved=")
		       : 0;
}

/* To whom they are in, what is kept for tenants is used. */
static long kept_inside(uint32_t dir)
{
	long kept = 0;

	if (dir == 0 || dir == NR_DIRS)
		kept += kept_for(2);
	if (dir == NR_DIRS)
		kept += kept_for(0) + kept_for(1);
	return kept;
}

static bool is_charged(void *data)
{
	const struct expected *expected = data;
	char text[256] = "";

	if (getxattr(dir_path(expected->dir), QUOTA, text, sizeof(text) - 1) < 0)
		return errno == ENODATA || errno == ENOENT;
	return value_of(text, ",used=") == expected->used + kept_inside(expected->dir);
}

/* What each has is what the files in it have. */
static void check_charges(void)
{
	for (uint32_t dir = 0; dir <= NR_DIRS; dir++) {
		ino_t seen[(NR_DIRS + 1) * NR_NAMES];
		struct expected expected = {.dir = dir};
		char text[256] = "";
		int nr_seen = 0;

		if (access(dir_path(dir), F_OK) < 0)
			continue;
		expected.used = bytes_in(dir_path(dir), seen, &nr_seen);
		if (!wait_until(is_charged, &expected, 2000)) {
			getxattr(dir_path(dir), QUOTA, text, sizeof(text) - 1);
			fail_msg("%s: the files have %ld bytes, the quota says %s",
				 dir_path(dir), expected.used, text);
		}
	}
}

static void remove_all(void)
{
	for (int dir = NR_DIRS; dir >= 0; dir--) {
		for (uint32_t name = 0; name < NR_NAMES; name++)
			unlink(file_path((uint32_t)dir, name));
		if (dir < NR_DIRS)
			rmdir(dir_path((uint32_t)dir));
	}
	rmdir(dir_path(0));
}

static uint64_t test_seed(void)
{
	const char *text = getenv("TEST_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 0) : (uint64_t)time(NULL);

	print_message("TEST_SEED=%llu\n", (unsigned long long)seed);
	return seed;
}

static bool nothing_is_used(void *data)
{
	char text[256] = "";

	assert_true(getxattr(fixture.dir, QUOTA, text, sizeof(text) - 1) > 0);
	return value_of(text, ",used=") == 0 && value_of(text, ",files=") == 0;
}

static void make_tenants(void)
{
	static const char *const quotas[NR_DIRS] = {
		"size=16M,min_size=4M", "size=20M,min_size=12M", "size=6M,min_size=2M"};

	for (uint32_t dir = 0; dir < NR_DIRS; dir++) {
		assert_int_equal(mkdir(dir_path(dir), 0700), 0);
		assert_int_equal(
			setxattr(dir_path(dir), QUOTA, quotas[dir], strlen(quotas[dir]), 0), 0);
	}
}

static void check_names(const char *backing)
{
	struct worker workers[NR_WORKERS];
	pid_t children[NR_WORKERS];
	uint64_t seed = test_seed();
	char options[64];

	snprintf(options, sizeof(options), "backing=%s,size=40M", backing);
	fixture_mount(&fixture, options);
	for (int round = 0; round < NR_ROUNDS; round++) {
		remove_all();
		make_tenants();
		for (int i = 0; i < NR_WORKERS; i++) {
			workers[i] = (struct worker){seed++};
			children[i] = start_child(work, &workers[i], 0);
		}
		for (int i = 0; i < NR_WORKERS; i++)
			assert_int_equal(wait_child(children[i], 30000), 0);
		check_charges();
	}
	remove_all();
	assert_true(wait_until(nothing_is_used, NULL, 2000));
	fixture_umount(&fixture);
}

static void test_names_on_thp(void **state)
{
	check_names("thp");
}

static void test_names_on_hugetlb(void **state)
{
	check_names("hugetlb");
}

/* ---- .hugefuse/tenants ---- */

struct line {
	long size, min_size, used, reserved, files, refused;
	char path[64];
};

static int grow_and_shrink(void *data)
{
	struct worker *worker = data;

	for (;;) {
		uint32_t dir = random_below(&worker->seed, NR_DIRS);

		resize_file(worker, file_path(dir, random_below(&worker->seed, NR_NAMES)));
		if (random_below(&worker->seed, 8) == 0)
			unlink(file_path(dir, random_below(&worker->seed, NR_NAMES)));
	}
	return 0;
}

static int parse_lines(char *text, struct line *lines)
{
	int nr = 0;

	assert_int_equal(strncmp(text,
				 "size_kb min_size_kb used_kb reserved_kb files refused path\n",
				 59),
			 0);
	for (char *at = strchr(text, '\n') + 1; *at; at = strchr(at, '\n') + 1, nr++) {
		struct line *line = &lines[nr];

		assert_true(nr < NR_DIRS + 1);
		assert_int_equal(sscanf(at, "%ld %ld %ld %ld %ld %ld %63s\n", &line->size,
					&line->min_size, &line->used, &line->reserved,
					&line->files, &line->refused, line->path),
				 7);
		assert_true(line->used >= 0 && line->used <= line->size);
		assert_true(line->reserved >= 0 && line->reserved <= line->min_size);
		assert_true(line->reserved >= line->min_size - line->used);
		assert_true(line->files >= 0 && line->refused >= 0);
	}
	return nr;
}

/* All files are in tenants: what the mount has is what those have. */
static void test_lines_add_up(void **state)
{
	struct worker workers[NR_WORKERS];
	struct line lines[NR_DIRS + 1];
	pid_t children[NR_WORKERS];

	fixture_mount(&fixture, "backing=thp,size=32M");
	make_tenants();
	for (int i = 0; i < NR_WORKERS; i++) {
		workers[i] = (struct worker){(uint64_t)i};
		children[i] = start_child(grow_and_shrink, &workers[i], 0);
	}
	for (int i = 0; i < NR_READS; i++) {
		char *text = fixture_text(&fixture, "tenants");

		assert_int_equal(parse_lines(text, lines), NR_DIRS + 1);
		free(text);
		assert_string_equal(lines[0].path, "/");
		assert_string_equal(lines[3].path, "/a/in");
		assert_int_equal(lines[0].used, lines[1].used + lines[1].reserved +
							lines[2].used + lines[2].reserved);
		assert_true(lines[1].used >= lines[3].used + lines[3].reserved);
	}
	for (int i = 0; i < NR_WORKERS; i++) {
		kill(children[i], SIGKILL);
		assert_int_equal(wait_child(children[i], 5000), 1000 + SIGKILL);
	}
	check_charges();
	remove_all();
	assert_true(wait_until(nothing_is_used, NULL, 2000));
	fixture_umount(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_on_thp),
		cmocka_unit_test(test_names_on_hugetlb),
		cmocka_unit_test(test_lines_add_up),
	};

	require_root();
	require_pages(PAGE_2M, 20);
	cmocka_set_test_filter(getenv("TEST_FILTER"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
