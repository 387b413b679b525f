/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A kernel without something that the daemon needs: found when it starts, named in one line,
 * and nothing is left behind; never a mount that hangs later. The kernel is made to look so by
 * a filter of system calls.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "raw_client.h"
#include "reports.h"

struct lack {
	const char *options;
	long nr;
	int argument; /* which decides; -1: any */
	unsigned int value;
	int error;
	const char *named; /* in the message */
};

static const struct lack lacks[] = {
	{"backing=hugetlb", SYS_userfaultfd, -1, 0, ENOSYS, "userfaultfd"},
	{"backing=hugetlb", SYS_pidfd_open, -1, 0, ENOSYS, "pidfd_open"},
	{"backing=hugetlb", SYS_madvise, 2, 23, EINVAL, "MADV_POPULATE_WRITE"},
	{"backing=hugetlb", SYS_mount, -1, 0, EPERM, "mount"},
	{"backing=thp", SYS_mount, -1, 0, EPERM, "mount"},
};

struct attempt {
	const struct lack *lack;
	char dir[64], log[80];
};

static int hide(const struct lack *lack)
{
	unsigned int argument = offsetof(struct seccomp_data, args) +
				8 * (unsigned int)(lack->argument < 0 ? 0 : lack->argument);
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned int)lack->nr, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, lack->value, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned int)lack->error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

	if (lack->argument < 0)
		filter[3] = (struct sock_filter)BPF_STMT(
			BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned int)lack->error);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0 ? -errno : 0;
}

static int mount_without(void *data)
{
	struct attempt *attempt = data;
	int fd = open(attempt->log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	char options[80];

	snprintf(options, sizeof(options), "size=16M,%s", attempt->lack->options);
	child_check(fd >= 0 && dup2(fd, STDERR_FILENO) >= 0 && dup2(fd, STDOUT_FILENO) >= 0);
	child_check(hide(attempt->lack) == 0);
	execl(getenv("HUGEFUSE"), "hugefuse", "mount", "-o", options, attempt->dir, NULL);
	return 127;
}

static void expect_message(const struct attempt *attempt)
{
	char text[2048] = "";
	FILE *file = fopen(attempt->log, "re");
	size_t len;

	assert_non_null(file);
	len = fread(text, 1, sizeof(text) - 1, file);
	text[len] = '\0';
	fclose(file);
	if (!strstr(text, attempt->lack->named) || !strchr(text, '\n') ||
	    strchr(text, '\n')[1] != '\0')
		fail_msg("not one line with '%s': %s", attempt->lack->named, text);
}

static void test_named_at_the_start(void **state)
{
	struct kernel_counts before = kernel_counts_read(PAGE_2M), now;
	struct attempt attempt = {.dir = "/tmp/hugefuse-lack-XXXXXX"};

	assert_non_null(mkdtemp(attempt.dir));
	snprintf(attempt.log, sizeof(attempt.log), "%s.log", attempt.dir);
	for (size_t i = 0; i < sizeof(lacks) / sizeof(lacks[0]); i++) {
		attempt.lack = &lacks[i];
		if (run_child(mount_without, &attempt, 0, 10000) == 0) {
			run_hugefuse("umount", attempt.dir, NULL);
			fail_msg("mounted without '%s'", lacks[i].named);
		}
		expect_message(&attempt);
		now = kernel_counts_read(PAGE_2M);
		assert_memory_equal(&now, &before, sizeof(now));
	}
	unlink(attempt.log);
	assert_int_equal(rmdir(attempt.dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_named_at_the_start),
	};

	require_root();
	require_pages(PAGE_2M, 8);
	setenv("HUGEFUSE", "build/tools/hugefuse", 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
