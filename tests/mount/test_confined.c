/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a daemon of root's keeps: the capabilities that docs/security.md lists, and the system
 * calls that it needs. The filter itself is tried in a process of the test's own.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"
#include "fs/confine.h"

#define OPTIONS "backing=thp,size=16M"

static struct fixture fixture;

/* docs/security.md. */
static const int kept[] = {
	CAP_CHOWN,    CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER,    CAP_FSETID,
	CAP_SETGID,   CAP_SETUID,       CAP_IPC_LOCK,        CAP_SYS_ADMIN, CAP_SYS_PTRACE,
	CAP_SYS_NICE, CAP_SYS_RESOURCE, CAP_MKNOD,           CAP_LEASE,     CAP_SETFCAP,
};

static unsigned long long kept_mask(void)
{
	unsigned long long mask = 0;

	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		mask |= 1ULL << kept[i];
	return mask;
}

/* A number of /proc/PID/task/TID/status. */
static unsigned long long status(pid_t pid, const char *tid, const char *name, int base)
{
	unsigned long long value = 0;
	char path[80], line[128];
	bool found = false;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%s/status", pid, tid);
	file = fopen(path, "re");
	assert_non_null(file);
	while (!found && fgets(line, sizeof(line), file)) {
		found = strncmp(line, name, strlen(name)) == 0;
		if (found)
			value = strtoull(line + strlen(name) + 1, NULL, base);
	}
	fclose(file);
	assert_true(found);
	return value;
}

static unsigned long long own(const char *name, int base)
{
	char tid[16];

	snprintf(tid, sizeof(tid), "%d", getpid());
	return status(getpid(), tid, name, base);
}

/* The number of threads, each of which has been looked at. */
static int expect_threads(unsigned long long capabilities, unsigned long long seccomp)
{
	struct dirent *entry;
	char path[40];
	int nr = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", fixture.daemon);
	dir = opendir(path);
	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		assert_int_equal(status(fixture.daemon, entry->d_name, "CapEff:", 16),
				 capabilities);
		assert_int_equal(status(fixture.daemon, entry->d_name, "CapPrm:", 16),
				 capabilities);
		assert_int_equal(status(fixture.daemon, entry->d_name, "CapInh:", 16), 0);
		assert_int_equal(status(fixture.daemon, entry->d_name, "Seccomp:", 10),
				 seccomp);
		nr++;
	}
	closedir(dir);
	return nr;
}

static void test_daemon(void **state)
{
	unsigned long long seccomp = confine_has_filter() ? 2 : 0;
	unsigned long long capabilities = own("CapPrm:", 16);

	if (confine_has_capabilities())
		capabilities &= kept_mask();
	fixture_mount(&fixture, OPTIONS);
	assert_true(expect_threads(capabilities, seccomp) >= 3);
	fixture_umount(&fixture);
}

static void test_without(void **state)
{
	fixture_mount(&fixture, OPTIONS ",noconfine");
	assert_true(expect_threads(own("CapPrm:", 16), 0) >= 3);
	fixture_umount(&fixture);
}

/* ---- the filter ---- */

#define CHECK(condition)                           \
	do {                                       \
		if (!(condition))                  \
			_exit(__LINE__ % 255 + 1); \
	} while (0)
#define REFUSED(call) CHECK((call) == -1 && errno == EPERM)

static int efd[2];

/* One that was there before. */
static void *other_thread(void *data)
{
	eventfd_t value;

	CHECK(eventfd_read(efd[0], &value) == 0);
	REFUSED(syscall(SYS_ptrace, PTRACE_TRACEME, 0, 0, 0));
	return NULL;
}

static void *nothing(void *data)
{
	return data;
}

static void make_calls(pid_t parent)
{
	char program[] = "true", *const argv[] = {program, NULL}, byte = 1;
	struct iovec iov = {(void *)&byte, 1};
	pthread_t thread;
	void *result;
	int fd;

	REFUSED(execv("/bin/true", argv));
	REFUSED(fork());
	REFUSED(mount("none", "/tmp", "tmpfs", 0, NULL));
	REFUSED(syscall(SYS_ptrace, PTRACE_ATTACH, parent, 0, 0));
	REFUSED(socket(AF_INET, SOCK_STREAM, 0));
	REFUSED(process_vm_writev(parent, &iov, 1, &iov, 1, 0));
	REFUSED(unshare(CLONE_NEWNS));
	REFUSED(syscall(SYS_bpf, 0, NULL, 0));
	REFUSED(syscall(SYS_keyctl, 0, 0, 0, 0, 0));
	REFUSED(kill(parent, 0));
	/* What is needed goes on. */
	CHECK(process_vm_writev(getpid(), &iov, 1, &iov, 1, 0) == 1);
	CHECK(pthread_create(&thread, NULL, nothing, &efd) == 0);
	CHECK(pthread_join(thread, &result) == 0 && result == &efd);
	fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	CHECK(fd >= 0 && close(fd) == 0);
	fd = open("/proc/self/status", O_RDONLY);
	CHECK(fd >= 0 && close(fd) == 0);
}

static int confined(void *data)
{
	pthread_t thread;

	efd[0] = eventfd(0, 0);
	CHECK(pthread_create(&thread, NULL, other_thread, NULL) == 0);
	CHECK(confine_system_calls() == 0);
	make_calls(*(pid_t *)data);
	CHECK(eventfd_write(efd[0], 1) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	return 0;
}

static void test_system_calls(void **state)
{
	pid_t self = getpid();

	if (!confine_has_filter())
		skip();
	assert_int_equal(run_child(confined, &self, 0, 10000), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_daemon),
		cmocka_unit_test(test_without),
		cmocka_unit_test(test_system_calls),
	};

	require_root();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
