/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What .hugefuse shows of mappings, as what it is: of a process that died, of a file without a
 * name, of a process in other namespaces, of plain mmap(2). And inspection stays quick: with
 * the pool exhausted, with ten thousand files, with five thousand mappings.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fixture.h"
#include "hugefuse.h"

#define NR_FILES    10000
#define NR_SIZED    4000 /* of those; each takes two descriptors of the daemon */
#define NR_MAPPINGS 5000
#define STAT_MS     50
#define TRIES       10 /* the quickest one counts: others use the machine, too */

static struct fixture fixture;

/* The field of column @column in the line of .hugefuse/@table whose @key column is @value; ""
 * where there is no such line. */
static const char *lookup(const char *table, const char *key, const char *value,
			  const char *column)
{
	static char found[256];
	char *text = fixture_text(&fixture, table), *rest = text, *line, *word;
	int key_at = -1, column_at = -1;

	found[0] = '\0';
	line = strsep(&rest, "\n");
	for (int i = 0; (word = strsep(&line, " ")); i++) {
		key_at = strcmp(word, key) == 0 ? i : key_at;
		column_at = strcmp(word, column) == 0 ? i : column_at;
	}
	assert_true(key_at >= 0 && column_at >= 0);
	while (!found[0] && (line = strsep(&rest, "\n"))) {
		char field[256] = "";
		bool is_it = false;

		for (int i = 0; (word = strsep(&line, " ")); i++) {
			is_it |= i == key_at && strcmp(word, value) == 0;
			if (i == column_at)
				snprintf(field, sizeof(field), "%s", word);
		}
		if (is_it)
			strcpy(found, field);
	}
	free(text);
	return found;
}

static const char *pid_text(pid_t pid)
{
	static char text[16];

	snprintf(text, sizeof(text), "%d", pid);
	return text;
}

static void say(int fd)
{
	if (write(fd, "x", 1) != 1)
		_exit(3);
}

static void hear(int fd)
{
	char c;

	assert_int_equal(read(fd, &c, 1), 1);
}

/* A process that maps @pages of the file "file", touches the first of them, and waits. */
struct holder {
	int ready[2], end[2];
	pid_t pid;
};

static void hold(struct holder *holder, int pages, bool plain)
{
	int fd = open(fixture_path(&fixture, "file"), O_RDWR);
	size_t length = (size_t)pages * PAGE_2M;
	char *p, c;

	p = plain ? mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
		  : hugefuse_mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		_exit(2);
	p[0] = 1;
	close(fd);
	say(holder->ready[1]);
	close(holder->end[1]);
	if (read(holder->end[0], &c, 1) < 0)
		_exit(4);
	_exit(0);
}

static void start_holder(struct holder *holder, int pages, bool plain, bool elsewhere)
{
	int inside[2];

	assert_int_equal(pipe(holder->ready) | pipe(holder->end) | pipe(inside), 0);
	holder->pid = fork();
	assert_true(holder->pid >= 0);
	if (holder->pid == 0) {
		pid_t pid = 0;
		int status = 0;

		if (elsewhere && unshare(CLONE_NEWPID | CLONE_NEWNS) < 0)
			_exit(5);
		if (elsewhere && (pid = fork()) != 0) {
			if (write(inside[1], &pid, sizeof(pid)) != sizeof(pid))
				_exit(6);
			close(holder->end[1]);
			waitpid(pid, &status, 0);
			_exit(WEXITSTATUS(status));
		}
		hold(holder, pages, plain);
	}
	hear(holder->ready[0]);
	if (elsewhere)
		assert_int_equal(read(inside[0], &holder->pid, sizeof(holder->pid)),
				 sizeof(holder->pid));
	close(inside[0]);
	close(inside[1]);
	close(holder->end[0]);
}

static void end_holder(struct holder *holder)
{
	int status;

	close(holder->end[1]);
	close(holder->ready[0]);
	close(holder->ready[1]);
	assert_true(wait(&status) > 0);
	assert_int_equal(status, 0);
}

static void make_file(off_t pages)
{
	close(fixture_file(&fixture, "file", O_RDWR | O_CREAT, pages * (off_t)PAGE_2M));
}

static void expect_maps(pid_t pid, const char *column, const char *value)
{
	assert_string_equal(lookup("maps", "pid", pid_text(pid), column), value);
}

static void test_holder(void **state)
{
	struct holder holder;
	char pid[16];

	fixture_mount(&fixture, "size=16M,backing=hugetlb");
	make_file(4);
	start_holder(&holder, 3, false, false);
	strcpy(pid, pid_text(holder.pid));
	expect_maps(holder.pid, "reserved", "2");
	expect_maps(holder.pid, "instantiated", "1");
	expect_maps(holder.pid, "touched", "1");
	expect_maps(holder.pid, "touched_kb", "2048");
	expect_maps(holder.pid, "ns_pid", pid);
	expect_maps(holder.pid, "namespaces", "-");
	expect_maps(holder.pid, "state", "running");
	assert_string_equal(lookup("files", "path", "/file", "holders"), pid);
	assert_string_equal(lookup("reserved", "path", "/file", "user_pid"), pid);
	assert_string_equal(lookup("reserved", "path", "/file", "reserved_kb"), "4096");
	/* Without a name it is held all the same. */
	assert_int_equal(unlink(fixture_path(&fixture, "file")), 0);
	expect_maps(holder.pid, "path", "/file\\040(deleted)");
	assert_string_equal(lookup("files", "holders", pid, "links"), "0");
	end_holder(&holder);
	fixture_expect_counter(&fixture, "free_hugepages", 8);
	assert_string_equal(lookup("maps", "pid", pid, "path"), "");
	fixture_umount(&fixture);
}

static bool is_gone(void *data)
{
	return *lookup("maps", "pid", data, "path") == '\0';
}

/* What it had reserved is the file's: stranded, and nobody holds it. */
static void test_killed_holder(void **state)
{
	struct holder holder;
	int status;

	fixture_mount(&fixture, "size=16M,backing=hugetlb");
	make_file(4);
	start_holder(&holder, 3, false, false);
	kill(holder.pid, SIGKILL);
	assert_int_equal(waitpid(holder.pid, &status, 0), holder.pid);
	close(holder.end[1]);
	assert_true(wait_until(is_gone, (void *)pid_text(holder.pid), 2000));
	assert_string_equal(lookup("files", "path", "/file", "reserved_kb"), "4096");
	assert_string_equal(lookup("files", "path", "/file", "holders"), "-");
	assert_string_equal(lookup("reserved", "path", "/file", "holders"), "-");
	assert_string_equal(lookup("reserved", "path", "/file", "user_pid"),
			    pid_text(holder.pid));
	unlink(fixture_path(&fixture, "file"));
	fixture_umount(&fixture);
}

static void test_other_namespaces(void **state)
{
	struct holder holder;

	fixture_mount(&fixture, "size=16M,backing=hugetlb");
	make_file(4);
	start_holder(&holder, 3, false, true);
	expect_maps(holder.pid, "ns_pid", "1");
	expect_maps(holder.pid, "namespaces", "pid,mnt");
	expect_maps(holder.pid, "path", "/file");
	expect_maps(holder.pid, "way", "direct");
	end_holder(&holder);
	unlink(fixture_path(&fixture, "file"));
	fixture_umount(&fixture);
}

/* Nobody told the daemon of these. */
static void test_plain(void **state)
{
	struct holder holder;
	char pid[16], *text;
	bool is_thp;

	fixture_mount(&fixture, "size=16M,backing=thp");
	text = fixture_text(&fixture, "options");
	is_thp = strstr(text, "thp");
	free(text);
	if (!is_thp)
		skip();
	make_file(4);
	for (int elsewhere = 0; elsewhere < 2; elsewhere++) {
		start_holder(&holder, 3, true, elsewhere);
		strcpy(pid, pid_text(holder.pid));
		expect_maps(holder.pid, "way", "plain");
		expect_maps(holder.pid, "instantiated_kb", "6144");
		expect_maps(holder.pid, "touched_kb", "2048");
		expect_maps(holder.pid, "namespaces", elsewhere ? "pid,mnt" : "-");
		expect_maps(holder.pid, "ns_pid", elsewhere ? "1" : pid);
		assert_string_equal(lookup("files", "path", "/file", "holders"), pid);
		if (!elsewhere) {
			end_holder(&holder);
			continue;
		}
		/* It was closed and has no name: mappings are all that is left of it. */
		unlink(fixture_path(&fixture, "file"));
		assert_int_equal(strtol(lookup("files", "holders", pid, "links"), NULL, 10), 0);
		expect_maps(holder.pid, "instantiated_kb", "6144");
		end_holder(&holder);
	}
	fixture_umount(&fixture);
}

/* The quickest of some, in microseconds. */
static long stat_us(void)
{
	struct timespec start, end;
	long us, least = 1000000000;

	for (int i = 0; i < TRIES; i++) {
		clock_gettime(CLOCK_MONOTONIC, &start);
		assert_int_equal(run_hugefuse("stat", fixture.dir, NULL), 0);
		clock_gettime(CLOCK_MONOTONIC, &end);
		us = (end.tv_sec - start.tv_sec) * 1000000 +
		     (end.tv_nsec - start.tv_nsec) / 1000;
		least = us < least ? us : least;
	}
	return least;
}

static void expect_quick(const char *with)
{
	long us = stat_us();

	print_message("hugefuse stat with %s: %ld.%ld ms\n", with, us / 1000, us / 100 % 10);
	/* what a sanitizer costs is not the product's */
#if !defined(__SANITIZE_ADDRESS__)
	assert_in_range(us, 0, STAT_MS * 1000);
#endif
}

static void test_quick_when_exhausted(void **state)
{
	char *p;
	int fd;

	fixture_mount(&fixture, "size=16M,backing=hugetlb");
	fd = fixture_file(&fixture, "file", O_RDWR | O_CREAT, 8 * PAGE_2M);
	p = hugefuse_mmap(NULL, 8 * PAGE_2M, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	for (int i = 0; i < 8; i++)
		p[i * PAGE_2M] = 1;
	assert_int_equal(fixture_counter(&fixture, "free_hugepages"), 0);
	expect_quick("no free page");
	hugefuse_munmap(p, 8 * PAGE_2M);
	close(fd);
	unlink(fixture_path(&fixture, "file"));
	fixture_umount(&fixture);
}

static void test_quick_with_files(const char *options, off_t size)
{
	char path[256];

	fixture_mount(&fixture, options);
	for (int i = 0; i < NR_FILES; i++) {
		snprintf(path, sizeof(path), "%s/%d", fixture.dir, i);
		assert_int_equal(mknod(path, S_IFREG | 0644, 0), 0);
		if (i < NR_SIZED)
			assert_int_equal(truncate(path, size), 0);
	}
	expect_quick(options);
	for (int i = 0; i < NR_FILES; i++) {
		snprintf(path, sizeof(path), "%s/%d", fixture.dir, i);
		unlink(path);
	}
	fixture_umount(&fixture);
}

static void test_quick_with_files_hugetlb(void **state)
{
	test_quick_with_files("size=16M,backing=hugetlb", 2 * MB);
}

static void test_quick_with_files_thp(void **state)
{
	test_quick_with_files("size=64M,backing=thp", 4096);
}

/* In a process of its own: a fork of one with thousands of mappings takes its time. */
static void hold_many(struct holder *holder, int flags)
{
	int fd = open(fixture_path(&fixture, "file"), O_RDWR);
	char c;

	for (int i = 0; i < NR_MAPPINGS; i++) {
		if (hugefuse_mmap(NULL, PAGE_2M, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE,
				  fd, 0) == MAP_FAILED)
			_exit(2);
	}
	say(holder->ready[1]);
	close(holder->end[1]);
	if (read(holder->end[0], &c, 1) < 0)
		_exit(4);
	_exit(0);
}

static void quick_with_mappings(int flags)
{
	struct holder holder;

	fixture_mount(&fixture, "size=16M,backing=hugetlb");
	make_file(4);
	assert_int_equal(pipe(holder.ready) | pipe(holder.end), 0);
	holder.pid = fork();
	assert_true(holder.pid >= 0);
	if (holder.pid == 0)
		hold_many(&holder, flags);
	hear(holder.ready[0]);
	assert_int_equal(fixture_nr_mapped(&fixture), NR_MAPPINGS);
	expect_quick(flags == MAP_SHARED ? "5000 shared mappings" : "5000 private mappings");
	close(holder.end[0]);
	end_holder(&holder);
	unlink(fixture_path(&fixture, "file"));
	fixture_umount(&fixture);
}

static void test_quick_with_shared(void **state)
{
	quick_with_mappings(MAP_SHARED);
}

static void test_quick_with_private(void **state)
{
	quick_with_mappings(MAP_PRIVATE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_holder),
		cmocka_unit_test(test_killed_holder),
		cmocka_unit_test(test_other_namespaces),
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_quick_when_exhausted),
		cmocka_unit_test(test_quick_with_files_hugetlb),
		cmocka_unit_test(test_quick_with_files_thp),
		cmocka_unit_test(test_quick_with_shared),
		cmocka_unit_test(test_quick_with_private),
	};

	require_root();
	require_pages(PAGE_2M, 16);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
