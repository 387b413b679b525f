/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hugefuse run: preload_cases.c does the same on the kernel's huge pages and on those of a
 * mount, and prints the same. What cannot be served is the kernel's, and said so.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"

#define PAGES      16
#define TEXT_MAX   65536
#define TIMEOUT_MS 30000

static const char *program(void)
{
	const char *path = getenv("HUGEFUSE");

	return path ? path : "build/tools/hugefuse";
}

/* The programs that are run are next to this one. */
static void find_beside(char path[PATH_MAX], const char *name)
{
	char self[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

	assert_true(len > 0);
	self[len] = '\0';
	snprintf(path, PATH_MAX, "%s/%s", dirname(self), name);
}

static const char *cases(void)
{
	static char path[PATH_MAX];

	find_beside(path, "preload-cases");
	return path;
}

static void exec_into(const char *path, const char *const *argv, bool verbose)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
		_exit(126);
	if (verbose)
		setenv("HUGEFUSE_VERBOSE", "1", 1);
	execv(argv[0], (char **)argv);
	_exit(127);
}

/* What a command prints on both outputs, and how it ended. */
static char *output_and_end(const char *const *argv, bool verbose, int *ret_end)
{
	char path[] = "/tmp/hugefuse-test-output-XXXXXX", *text = calloc(1, TEXT_MAX);
	int fd = mkstemp(path);
	pid_t child;

	assert_true(fd >= 0);
	fflush(NULL);
	child = fork();
	if (child == 0)
		exec_into(path, argv, verbose);
	*ret_end = reap_child(child, TIMEOUT_MS);
	assert_true(read(fd, text, TEXT_MAX - 1) >= 0);
	close(fd);
	unlink(path);
	return text;
}

/* It has to end with @expected. */
static char *output_of(const char *const *argv, bool verbose, int expected)
{
	int r;
	char *text = output_and_end(argv, verbose, &r);

	if (r != expected)
		fail_msg("%s ended with %d, not %d: %s", argv[0], r, expected, text);
	return text;
}

static void set_overcommit(long nr)
{
	FILE *file = fopen("/proc/sys/vm/nr_overcommit_hugepages", "we");

	assert_non_null(file);
	assert_true(fprintf(file, "%ld", nr) > 0);
	assert_int_equal(fclose(file), 0);
}

/* Just 16 pages are to be had. All is put back before anything can fail. */
static char *run_on_kernel(const char *name)
{
	struct kernel_counts before = kernel_counts_read(PAGE_2M);
	char dir[] = "/tmp/hugefuse-test-kernel-XXXXXX", options[64], *text;
	const char *argv[] = {cases(), name, dir, NULL};
	int end;

	assert_non_null(mkdtemp(dir));
	set_overcommit(0);
	kernel_pool_set(PAGE_2M, before.nr + PAGES - (before.free - before.resv));
	snprintf(options, sizeof(options), "size=%luM", PAGES * PAGE_2M / MB);
	assert_int_equal(mount("none", dir, "hugetlbfs", 0, options), 0);
	text = output_and_end(argv, false, &end);
	assert_int_equal(umount(dir), 0);
	rmdir(dir);
	kernel_pool_set(PAGE_2M, before.nr);
	set_overcommit(before.overcommit);
	if (end != 0)
		fail_msg("it ended with %d on the kernel's pages: %s", end, text);
	return text;
}

static bool nothing_is_mapped(void *data)
{
	return fixture_nr_mapped(data) == 0;
}

static char *run_on_mount(const char *name)
{
	struct fixture fixture = {0};
	const char *argv[] = {program(), "run", "-m",        fixture.dir, "--",
			      cases(),   name,  fixture.dir, NULL};
	char *text;

	fixture_mount(&fixture, "size=32M");
	text = output_of(argv, false, 0);
	/* Nothing is left of what had no name, or has none any more. */
	fixture_expect_counter(&fixture, "free_hugepages", PAGES);
	assert_true(wait_until(nothing_is_mapped, &fixture, 2000));
	fixture_umount(&fixture);
	return text;
}

static void test_as_the_kernel(void **state)
{
	const char *name = *state;
	char *expected = run_on_kernel(name), *text = run_on_mount(name);

	assert_string_equal(text, expected);
	free(expected);
	free(text);
}

static char *run_verbosely(const struct fixture *fixture, const char *name, bool verbose)
{
	const char *argv[] = {program(), "run", "-m",         fixture->dir, "--",
			      cases(),   name,  fixture->dir, NULL};

	return output_of(argv, verbose, 0);
}

/* Pages of 1 MB are not the mount's: that is said once, in one line, and only when asked for.
 */
static void test_says_why(void **state)
{
	struct fixture fixture = {0};
	char *text, *line;

	fixture_mount(&fixture, "size=32M");
	text = run_verbosely(&fixture, "arguments", true);
	line = strstr(text, "hugefuse: mmap(MAP_HUGETLB) goes to the kernel: ");
	assert_non_null(line);
	line[strcspn(line, "\n")] = '\0';
	assert_non_null(strstr(line, "2^20"));
	assert_non_null(strstr(line, fixture.dir));
	assert_null(strstr(line + strlen(line) + 1, "hugefuse: "));
	free(text);
	text = run_verbosely(&fixture, "arguments", false);
	assert_null(strstr(text, "hugefuse: "));
	free(text);
	fixture_umount(&fixture);
}

static void expect_words(const char *const *argv, int exit_code, const char *words)
{
	char *text = output_of(argv, false, exit_code);

	if (!strstr(text, words))
		fail_msg("no '%s' in: %s", words, text);
	if (exit_code != 0)
		assert_int_equal(strcspn(text, "\n") + 1, strlen(text));
	free(text);
}

static void test_command_line(void **state)
{
	struct fixture fixture = {0};
	const char *no_command[] = {program(), "run", "--", NULL};
	const char *no_mount[] = {program(), "run", "-m", "/proc", "--", "/bin/true", NULL};
	const char *nothing[] = {program(), "run", "-m", fixture.dir, "/nonexistent/x", NULL};
	const char *environment[] = {program(), "run",          "-m", fixture.dir,
				     "--",      "/usr/bin/env", NULL};

	fixture_mount(&fixture, "size=2M");
	expect_words(no_command, 2, "COMMAND");
	expect_words(no_mount, 1, "/proc");
	expect_words(nothing, 127, "/nonexistent/x");
	expect_words(environment, 0, "libhugefuse-preload.so");
	setenv("LD_PRELOAD", "libm.so.6", 1);
	expect_words(environment, 0, "libhugefuse-preload.so:libm.so.6");
	unsetenv("LD_PRELOAD");
	/* A child's own LD_PRELOAD does not replace it, but leaving HUGEFUSE_MOUNT does. */
	{
		const char *replaced[] = {
			program(), "run",     "-m", fixture.dir,
			"--",      "/bin/sh", "-c", "LD_PRELOAD=libm.so.6 env",
			NULL};
		const char *left[] = {
			program(), "run",
			"-m",      fixture.dir,
			"--",      "/bin/sh",
			"-c",      "unset HUGEFUSE_MOUNT; LD_PRELOAD=libm.so.6 env",
			NULL};

		expect_words(replaced, 0, "libhugefuse-preload.so:libm.so.6");
		expect_words(left, 0, "LD_PRELOAD=libm.so.6");
	}
	fixture_umount(&fixture);
}

static void copy_program(const char *from, const char *to)
{
	const char *argv[] = {"/bin/cp", from, to, NULL};

	free(output_of(argv, false, 0));
}

/* Into some programs nothing can be loaded. They are run, and named in one line. */
static void test_not_preloaded(void **state)
{
	char dir[] = "/tmp/hugefuse-test-programs-XXXXXX", path[PATH_MAX], setuid[PATH_MAX];
	struct fixture fixture = {0};
	const char *argv[] = {program(), "run", "-m", fixture.dir, "--", path, NULL};
	char *text;

	fixture_mount(&fixture, "size=2M");
	find_beside(path, "preload-static");
	text = output_of(argv, false, 0);
	assert_non_null(strstr(text, path));
	assert_non_null(strstr(text, " is statically linked: "));
	assert_non_null(strstr(text, "\nmount /"));
	free(text);
	assert_non_null(mkdtemp(dir));
	snprintf(setuid, sizeof(setuid), "%s/env", dir);
	copy_program("/usr/bin/env", setuid);
	argv[5] = setuid;
	text = output_of(argv, false, 0);
	assert_null(strstr(text, "hugefuse run: "));
	free(text);
	assert_int_equal(chown(setuid, 65534, 65534), 0);
	assert_int_equal(chmod(setuid, 04755), 0);
	text = output_of(argv, false, 0);
	assert_non_null(strstr(text, "/env is set-user-id or has capabilities: "));
	free(text);
	unlink(setuid);
	rmdir(dir);
	fixture_umount(&fixture);
}

/* What a command in the namespace sees of the pool, and changes. */
static void test_counters(void **state)
{
	struct fixture fixture = {0};
	struct kernel_counts kernel;
	char *text;
	const char *argv[] = {
		program(),
		"run",
		"-m",
		fixture.dir,
		"--counters",
		"--",
		"/bin/sh",
		"-c",
		"set -e; p=/sys/kernel/mm/hugepages/hugepages-2048kB; n=/proc/sys/vm;"
		"show() { grep -o 'HugePages_.*' /proc/meminfo | tr -d ' ' | tr '\\n' ' ';"
		" cat $n/nr_hugepages $n/nr_overcommit_hugepages $p/nr_hugepages"
		" $p/free_hugepages $p/resv_hugepages | tr '\\n' ' '; echo; };"
		"show; echo 20 > $n/nr_hugepages; show; echo 1000 > $n/nr_hugepages; show;"
		"echo 3 > $p/nr_hugepages; echo 2 > $n/nr_overcommit_hugepages; show;"
		"! echo x > $n/nr_hugepages 2>/dev/null; grep -c ' hugetlbfs ' /proc/mounts"
		" >/dev/null; echo 8 > $n/nr_hugepages; show",
		NULL};

	fixture_mount(&fixture, "size=16M,max_size=64M");
	kernel = kernel_counts_read(PAGE_2M);
	text = output_of(argv, false, 0);
	assert_string_equal(
		text,
		"HugePages_Total:8 HugePages_Free:8 HugePages_Rsvd:0 HugePages_Surp:0 8 0 8 8 0 \n"
		"HugePages_Total:20 HugePages_Free:20 HugePages_Rsvd:0 HugePages_Surp:0 20 0 20 20 "
		"0 \n"
		"HugePages_Total:32 HugePages_Free:32 HugePages_Rsvd:0 HugePages_Surp:0 32 0 32 32 "
		"0 \n"
		"HugePages_Total:3 HugePages_Free:3 HugePages_Rsvd:0 HugePages_Surp:0 3 2 3 3 0 \n"
		"HugePages_Total:8 HugePages_Free:8 HugePages_Rsvd:0 HugePages_Surp:0 8 2 8 8 0 \n");
	/* What was added has gone back, but for the surplus pages that are allowed. */
	assert_int_equal(kernel_counts_read(PAGE_2M).nr, kernel.nr);
	assert_int_equal(kernel_counts_read(PAGE_2M).overcommit, kernel.overcommit + 2);
	free(text);
	fixture_umount(&fixture);
}

static void write_counter(const struct fixture *fixture, const char *name, int value)
{
	char path[PATH_MAX];
	FILE *file;

	snprintf(path, sizeof(path), "%s/.hugefuse/kernel/%s", fixture->dir, name);
	file = fopen(path, "we");
	assert_non_null(file);
	assert_true(fprintf(file, "%d\n", value) > 0);
	assert_int_equal(fclose(file), 0);
}

/* What was added to the kernel's pool is known to whoever cleans up behind a dead daemon. */
static void test_killed_when_resized(void **state)
{
	static const int sizes[] = {20, 3, 12};
	struct fixture fixture = {0};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		fixture_mount(&fixture, "size=16M,max_size=64M");
		write_counter(&fixture, "nr_hugepages", 30);
		write_counter(&fixture, "nr_hugepages", sizes[i]);
		write_counter(&fixture, "nr_overcommit_hugepages", 5);
		fixture_kill(&fixture);
		fixture_umount(&fixture);
	}
}

/* A file that is read again from its start says what is so now, as the kernel's do. */
static void test_counters_are_live(void **state)
{
	struct fixture fixture = {0};
	char path[PATH_MAX], text[32] = "";
	int fd;

	fixture_mount(&fixture, "size=16M,max_size=64M");
	snprintf(path, sizeof(path), "%s/.hugefuse/kernel/nr_hugepages", fixture.dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(read(fd, text, sizeof(text)), 2);
	assert_string_equal(text, "8\n");
	write_counter(&fixture, "nr_hugepages", 12);
	assert_int_equal(pread(fd, text, sizeof(text), 2), 0);
	assert_int_equal(pread(fd, text, sizeof(text), 0), 3);
	assert_string_equal(text, "12\n");
	assert_int_equal(pread(fd, text, 1, 1), 1);
	assert_int_equal(text[0], '2');
	close(fd);
	fixture_umount(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		{"anonymous", test_as_the_kernel, NULL, NULL, (void *)"anonymous"},
		{"limits", test_as_the_kernel, NULL, NULL, (void *)"limits"},
		{"arguments", test_as_the_kernel, NULL, NULL, (void *)"arguments"},
		{"protection", test_as_the_kernel, NULL, NULL, (void *)"protection"},
		{"memfd", test_as_the_kernel, NULL, NULL, (void *)"memfd"},
		{"files", test_as_the_kernel, NULL, NULL, (void *)"files"},
		{"remap", test_as_the_kernel, NULL, NULL, (void *)"remap"},
		{"shm", test_as_the_kernel, NULL, NULL, (void *)"shm"},
		{"storm", test_as_the_kernel, NULL, NULL, (void *)"storm"},
		cmocka_unit_test(test_says_why),
		cmocka_unit_test(test_command_line),
		cmocka_unit_test(test_not_preloaded),
		cmocka_unit_test(test_counters),
		cmocka_unit_test(test_counters_are_live),
		cmocka_unit_test(test_killed_when_resized),
	};

	require_root();
	require_pages(PAGE_2M, 2 * PAGES);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
