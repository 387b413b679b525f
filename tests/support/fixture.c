/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Fixture: mounting, looking and waiting in tests. */
#include "fixture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FUSE_MAGIC 0x65735546

static const char *program(void)
{
	const char *path = getenv("HUGEFUSE");

	return path ? path : "build/tools/hugefuse";
}

static void skip_all(const char *why)
{
	printf("skipped: %s\n", why);
	exit(SKIP_EXIT);
}

void require_root(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	cmocka_set_test_filter(getenv("TEST_FILTER"));
	if (geteuid() != 0)
		skip_all("needs root");
	if (access("/dev/fuse", R_OK | W_OK) < 0)
		skip_all("needs /dev/fuse");
	if (access(program(), X_OK) < 0) {
		fprintf(stderr, "%s: %s; set HUGEFUSE\n", program(), strerror(errno));
		exit(1);
	}
}

static void counter_path(char *path, size_t size, unsigned long page_size, const char *name)
{
	snprintf(path, size, "/sys/kernel/mm/hugepages/hugepages-%lukB/%s", page_size >> 10,
		 name);
}

static long read_long(const char *path)
{
	char text[64];
	ssize_t len;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		fail_msg("%s: %s", path, strerror(errno));
	len = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (len <= 0)
		fail_msg("%s: nothing to read", path);
	text[len] = '\0';
	return strtol(text, NULL, 10);
}

static long kernel_counter(unsigned long page_size, const char *name)
{
	char path[128];

	counter_path(path, sizeof(path), page_size, name);
	return read_long(path);
}

struct kernel_counts kernel_counts_read(unsigned long page_size)
{
	return (struct kernel_counts){
		.nr = kernel_counter(page_size, "nr_hugepages"),
		.free = kernel_counter(page_size, "free_hugepages"),
		.resv = kernel_counter(page_size, "resv_hugepages"),
		.surplus = kernel_counter(page_size, "surplus_hugepages"),
		.overcommit = kernel_counter(page_size, "nr_overcommit_hugepages"),
	};
}

static void write_long(const char *path, long value)
{
	FILE *file = fopen(path, "we");

	if (!file || fprintf(file, "%ld", value) < 0 || fclose(file) != 0)
		fail_msg("%s: cannot write: %s", path, strerror(errno));
}

bool pages_are_to_be_had(unsigned long page_size, long nr)
{
	char path[128];
	long before, got;

	counter_path(path, sizeof(path), page_size, "nr_hugepages");
	if (access(path, W_OK) < 0)
		return false;
	before = read_long(path);
	write_long(path, before + nr);
	got = read_long(path) - before;
	write_long(path, before);
	return got >= nr;
}

void require_pages(unsigned long page_size, long nr)
{
	char why[80];

	snprintf(why, sizeof(why), "needs %ld huge pages of %lu kB", nr, page_size >> 10);
	if (!pages_are_to_be_had(page_size, nr))
		skip_all(why);
}

static bool is_mounted(const struct fixture *fixture)
{
	char path[PATH_MAX];
	struct statfs st;

	/* Of a dead daemon's mount the kernel remembers much, but not what was never asked. */
	snprintf(path, sizeof(path), "%s/.hugefuse/options", fixture->dir);
	return statfs(fixture->dir, &st) == 0 && st.f_type == FUSE_MAGIC &&
	       access(path, F_OK) == 0;
}

void kernel_pool_set(unsigned long page_size, long nr)
{
	char path[128];
	long got;

	counter_path(path, sizeof(path), page_size, "nr_hugepages");
	write_long(path, nr);
	got = read_long(path);
	if (got != nr)
		fail_msg("%ld huge pages of %lu kB asked, %ld got", nr, page_size >> 10, got);
}

void kernel_overcommit_set(unsigned long page_size, long nr)
{
	char path[128];

	counter_path(path, sizeof(path), page_size, "nr_overcommit_hugepages");
	if (read_long(path) != nr)
		write_long(path, nr);
}

long test_scale(void)
{
	const char *scale = getenv("TEST_SCALE");

	return scale && atol(scale) > 0 ? atol(scale) : 1;
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void print_log(const struct fixture *fixture)
{
	char line[1024];
	FILE *file = fopen(fixture->log, "re");

	while (file && fgets(line, sizeof(line), file))
		fprintf(stderr, "daemon: %s", line);
	if (file)
		fclose(file);
}

/* The kernel tells of every change of the mount table. */
static void wait_for_mount(struct fixture *fixture)
{
	struct pollfd poll_fd = {.events = POLLPRI};
	uint64_t until = now_ms() + 10000, now;
	int status;

	poll_fd.fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	while (!is_mounted(fixture)) {
		now = now_ms();
		if (waitpid(fixture->daemon, &status, WNOHANG) > 0) {
			print_log(fixture);
			fail_msg("the daemon ended with status %x before it was mounted",
				 status);
		}
		if (now >= until)
			fail_msg("not mounted after ten seconds");
		poll(&poll_fd, 1, 50);
	}
	close(poll_fd.fd);
}

const char *fixture_backing(void)
{
	const char *backing = getenv("TEST_BACKING");

	return backing ? backing : "hugetlb";
}

static void exec_daemon(const struct fixture *fixture, const char *options)
{
	int fd = open(fixture->log, O_WRONLY | O_CREAT | O_APPEND, 0600);
	bool named = strstr(options, "backing=") != NULL;
	char all[512];

	/* With the standard output of a test that failed, it would keep meson waiting. */
	if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
		_exit(126);
	/* A test that fails leaves the mount to its daemon, which takes it down. */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	close(fd);
	snprintf(all, sizeof(all), "%s%s%s%s",
		 named ? "" : "backing=", named ? "" : fixture_backing(), named ? "" : ",",
		 options);
	execl(program(), "hugefuse", "mount", "-f", "-o", all, fixture->dir, NULL);
	_exit(127);
}

static unsigned long page_size_of(const char *options)
{
	return strstr(options, "pagesize=1G") ? 1024 * MB : PAGE_2M;
}

void fixture_mount(struct fixture *fixture, const char *options)
{
	fixture->page_size = page_size_of(options);
	fixture->before = kernel_counts_read(fixture->page_size);
	/* tests/run takes down what it finds in its TMPDIR */
	if (snprintf(fixture->dir, sizeof(fixture->dir), "%s/hugefuse-test-XXXXXX",
		     getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp") >= (int)sizeof(fixture->dir))
		fail_msg("TMPDIR is too long");
	if (!mkdtemp(fixture->dir))
		fail_msg("%s: %s", fixture->dir, strerror(errno));
	snprintf(fixture->log, sizeof(fixture->log), "%s.log", fixture->dir);
	fixture_restart(fixture, options);
}

void fixture_start(struct fixture *fixture, const char *options)
{
	fixture->daemon = fork();
	if (fixture->daemon == 0)
		exec_daemon(fixture, options);
}

void fixture_restart(struct fixture *fixture, const char *options)
{
	fixture_start(fixture, options);
	wait_for_mount(fixture);
}

int fixture_wait_end(struct fixture *fixture)
{
	int r = reap_child(fixture->daemon, 10000);

	fixture->daemon = 0;
	return r;
}

static int run_program(const char *const *argv)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		execv(program(), (char **)argv);
		_exit(127);
	}
	if (waitpid(child, &status, 0) != child)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

int run_hugefuse(const char *argument, ...)
{
	const char *argv[32] = {"hugefuse", argument};
	va_list args;

	va_start(args, argument);
	for (int i = 2; i < 31 && argv[i - 1]; i++)
		argv[i] = va_arg(args, const char *);
	va_end(args);
	return run_program(argv);
}

void fixture_kill(struct fixture *fixture)
{
	int status;

	if (kill(fixture->daemon, SIGKILL) < 0 || waitpid(fixture->daemon, &status, 0) < 0)
		fail_msg("cannot kill the daemon: %s", strerror(errno));
	fixture->daemon = 0;
}

/* Words that no daemon which is well says. */
static void check_log(const struct fixture *fixture)
{
	static const char *const words[] = {"abort", "assert", "Sanitizer", "violation",
					    "BUG",   "error",  "warning",   NULL};
	const int nr_excused = 2; /* the last ones */
	char line[1024];
	int nr_expected = 0;
	FILE *file = fopen(fixture->log, "re");

	while (file && fgets(line, sizeof(line), file)) {
		if (fixture->expected && strstr(line, fixture->expected)) {
			nr_expected++;
			continue;
		}
		/* How many pieces the machine's memory is in is not the daemon's doing. */
		if (strstr(line, "no huge page was to be had"))
			continue;
		for (int i = 0; words[i + (fixture->excused ? nr_excused : 0)]; i++) {
			if (strstr(line, words[i])) {
				print_log(fixture);
				fail_msg("suspicious in the daemon's log: %s", line);
			}
		}
	}
	if (file)
		fclose(file);
	if (fixture->expected && nr_expected != 1)
		fail_msg("the daemon has said %d times: %s", nr_expected, fixture->expected);
}

static bool machine_is_as_before(void *data)
{
	const struct fixture *fixture = data;
	struct kernel_counts now = kernel_counts_read(fixture->page_size);

	return memcmp(&now, &fixture->before, sizeof(now)) == 0;
}

/* Leave as little as possible behind where unmounting has failed. */
static void give_up(struct fixture *fixture)
{
	run_hugefuse("umount", "--force", fixture->dir, NULL);
	if (fixture->daemon) {
		kill(fixture->daemon, SIGKILL);
		waitpid(fixture->daemon, NULL, 0);
		fixture->daemon = 0;
		run_hugefuse("umount", fixture->dir, NULL);
	}
	unlink(fixture->log);
	rmdir(fixture->dir);
}

void fixture_umount(struct fixture *fixture)
{
	struct kernel_counts now;
	int r;

	r = run_hugefuse("umount", fixture->dir, NULL);
	if (r != 0) {
		print_log(fixture);
		give_up(fixture);
		fail_msg("hugefuse umount ended with %d", r);
	}
	if (fixture->daemon) {
		r = reap_child(fixture->daemon, 10000);
		fixture->daemon = 0;
		if (r != 0) {
			print_log(fixture);
			give_up(fixture);
			fail_msg("the daemon ended with %d", r);
		}
	}
	if (is_mounted(fixture))
		fail_msg("%s is still mounted", fixture->dir);
	check_log(fixture);
	/* A client that has just exited may hold pages for a moment more. */
	if (!wait_until(machine_is_as_before, fixture, 2000)) {
		now = kernel_counts_read(fixture->page_size);
		fail_msg(
			"the kernel's pool was nr %ld free %ld resv %ld surplus %ld overcommit %ld, "
			"and is %ld %ld %ld %ld %ld",
			fixture->before.nr, fixture->before.free, fixture->before.resv,
			fixture->before.surplus, fixture->before.overcommit, now.nr, now.free,
			now.resv, now.surplus, now.overcommit);
	}
	unlink(fixture->log);
	if (rmdir(fixture->dir) < 0)
		fail_msg("%s: %s", fixture->dir, strerror(errno));
}

long fixture_counter(const struct fixture *fixture, const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/.hugefuse/hugepages-%lukB/%s", fixture->dir,
		 fixture->page_size >> 10, name);
	return read_long(path);
}

long fixture_fault_stat(const struct fixture *fixture, const char *name)
{
	char path[PATH_MAX], line[256];
	size_t len = strlen(name);
	long value = -1;
	FILE *file;

	snprintf(path, sizeof(path), "%s/.hugefuse/fault_stat", fixture->dir);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, name, len) == 0 && line[len] == ' ')
			value = strtol(line + len, NULL, 10);
	}
	if (file)
		fclose(file);
	if (value < 0)
		fail_msg("%s: no line '%s'", path, name);
	return value;
}

long fixture_nr_mapped(const struct fixture *fixture)
{
	char *text = fixture_text(fixture, "maps"), *line, *rest = text;
	long nr = -1; /* the heading */

	while ((line = strsep(&rest, "\n")))
		nr += *line && strncmp(line, "0 ", 2) != 0;
	free(text);
	return nr;
}

long fixture_nr_fds(const struct fixture *fixture)
{
	char path[64], target[64];
	struct dirent *entry;
	long nr = 0;
	ssize_t len;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", fixture->daemon);
	dir = opendir(path);
	if (!dir)
		fail_msg("%s: %s", path, strerror(errno));
	while ((entry = readdir(dir))) {
		len = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);
		if (len < 0)
			continue;
		target[len] = '\0';
		nr += strcmp(target, "/dev/fuse") != 0;
	}
	closedir(dir);
	return nr;
}

long fixture_cpu_ms(const struct fixture *fixture)
{
	unsigned long user = 0, system = 0;
	char path[64];
	FILE *file;
	int n = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", fixture->daemon);
	file = fopen(path, "re");
	if (file) {
		n = fscanf(file,
			   "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
			   &user, &system);
		fclose(file);
	}
	if (n != 2)
		fail_msg("%s: cannot read it", path);
	return (long)((user + system) * 1000 / (unsigned long)sysconf(_SC_CLK_TCK));
}

char *fixture_text(const struct fixture *fixture, const char *name)
{
	char path[PATH_MAX], *text = NULL;
	size_t size = 0;
	ssize_t len;
	FILE *file;

	snprintf(path, sizeof(path), "%s/.hugefuse/%s", fixture->dir, name);
	file = fopen(path, "re");
	len = file ? getdelim(&text, &size, '\0', file) : -1;
	if (len < 0)
		fail_msg("%s: %s", path, strerror(errno));
	fclose(file);
	return text;
}

const char *fixture_path(const struct fixture *fixture, const char *name)
{
	static _Thread_local char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", fixture->dir, name);
	return path;
}

int fixture_file(const struct fixture *fixture, const char *name, int flags, off_t size)
{
	const char *path = fixture_path(fixture, name);
	int fd = open(path, flags | O_CLOEXEC, 0666);

	if (fd < 0 || (size > 0 && ftruncate(fd, size) < 0))
		fail_msg("%s: %s", path, strerror(errno));
	return fd;
}

bool wait_until(bool (*condition)(void *data), void *data, int timeout_ms)
{
	const struct timespec tick = {.tv_nsec = 2000000};
	uint64_t until = now_ms() + (uint64_t)timeout_ms;

	while (!condition(data)) {
		if (now_ms() >= until)
			return condition(data);
		nanosleep(&tick, NULL);
	}
	return true;
}

struct expectation {
	const struct fixture *fixture;
	const char *name;
	long value;
};

static bool counter_is(void *data)
{
	const struct expectation *expected = data;

	return fixture_counter(expected->fixture, expected->name) == expected->value;
}

void fixture_expect_counter(const struct fixture *fixture, const char *name, long value)
{
	struct expectation expected = {fixture, name, value};

	if (!wait_until(counter_is, &expected, 2000))
		fail_msg("%s is %ld, expected %ld", name, fixture_counter(fixture, name),
			 value);
}

static void become(uid_t uid)
{
	if (uid == 0)
		return;
	if (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 ||
	    setresuid(uid, uid, uid) < 0)
		_exit(125);
}

pid_t start_child(int (*function)(void *data), void *data, uid_t uid)
{
	pid_t child;

	fflush(NULL);
	child = fork();
	if (child < 0)
		fail_msg("fork: %s", strerror(errno));
	if (child == 0) {
		become(uid);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* A failed assertion must not go on with the parent's tests here. */
		setenv("CMOCKA_TEST_ABORT", "1", 1);
		signal(SIGABRT, SIG_DFL);
		_exit(function(data));
	}
	return child;
}

int reap_child(pid_t child, int timeout_ms)
{
	struct pollfd poll_fd = {.events = POLLIN};
	bool late;
	int status;

	poll_fd.fd = (int)syscall(SYS_pidfd_open, child, 0);
	late = poll_fd.fd >= 0 && poll(&poll_fd, 1, timeout_ms) == 0;
	if (late)
		kill(child, SIGKILL);
	if (poll_fd.fd >= 0)
		close(poll_fd.fd);
	if (waitpid(child, &status, 0) != child)
		fail_msg("waitpid: %s", strerror(errno));
	if (late)
		return CHILD_TIMED_OUT;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

bool child_has_ended(pid_t child)
{
	siginfo_t info = {0};

	return waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT) < 0 ||
	       info.si_pid == child;
}

int wait_child(pid_t child, int timeout_ms)
{
	int r = reap_child(child, timeout_ms);

	if (r == CHILD_TIMED_OUT)
		fail_msg("process %d did not end in %d ms", child, timeout_ms);
	return r;
}

int run_child(int (*function)(void *data), void *data, uid_t uid, int timeout_ms)
{
	return wait_child(start_child(function, data, uid), timeout_ms);
}

static _Thread_local sigjmp_buf bus_jump;
static _Thread_local volatile bool bus_expected;

static void on_sigbus(int signal)
{
	if (bus_expected)
		siglongjmp(bus_jump, 1);
	_exit(100);
}

static void install_sigbus(void)
{
	struct sigaction action = {.sa_handler = on_sigbus, .sa_flags = SA_NODEFER};

	sigaction(SIGBUS, &action, NULL);
}

bool raises_sigbus(volatile char *addr, bool write)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	bool raised = true;

	pthread_once(&once, install_sigbus);
	bus_expected = true;
	if (sigsetjmp(bus_jump, 1) == 0) {
		if (write)
			*addr = *addr;
		else
			(void)*addr;
		raised = false;
	}
	bus_expected = false;
	return raised;
}
