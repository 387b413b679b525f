/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A user's mounts in tests. Only the user gets at them: what is read there, a child reads. */
#include "user.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEXT_MAX 8192
#define EXEC_MS  30000
#define END_MS   10000

const char *user_runtime_dir;
void (*user_before_exec)(void);
const char *const user_fusermount = "/usr/bin/fusermount3";

static char dir[PATH_MAX / 2];
static char *shared; /* TEXT_MAX bytes, for what children find out */
static char output[TEXT_MAX];
static long pool_before;
static pid_t daemon_pid;            /* 0: not mounted */
static struct kernel_counts counts; /* before the first mount */

const char *user_path(const char *name)
{
	static char paths[4][PATH_MAX];
	static int next;
	char *path = paths[next++ % 4];

	snprintf(path, PATH_MAX, "%s/%s", dir, name);
	return path;
}

/* ---- setting up ---- */

static void must(long r, const char *what)
{
	if (r < 0)
		fail_msg("%s: %s", what, strerror(errno));
}

void user_write(const char *name, const char *text)
{
	FILE *file = fopen(user_path(name), "we");

	if (!file || fputs(text, file) < 0 || fclose(file) != 0)
		fail_msg("%s: %s", name, strerror(errno));
}

static void copy(const char *from, const char *to)
{
	int in = open(from, O_RDONLY | O_CLOEXEC), out;
	char buf[65536];
	ssize_t len;

	must(in, from);
	out = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	must(out, to);
	while ((len = read(in, buf, sizeof(buf))) > 0)
		must(write(out, buf, (size_t)len), to);
	must(len, from);
	close(in);
	close(out);
}

void user_cover(const char *source, const char *target)
{
	must(mount(source, target, NULL, MS_BIND, NULL), target);
}

void user_unset(const char *target)
{
	must(umount2(target, MNT_DETACH), target);
}

void user_set_device(const char *target, mode_t mode)
{
	static int number;
	char name[32];
	struct stat st;

	snprintf(name, sizeof(name), "dev-%d", number++);
	must(stat(target, &st), target);
	must(mknod(user_path(name), S_IFCHR | mode, st.st_rdev), name);
	must(chmod(user_path(name), mode), name);
	user_cover(user_path(name), target);
}

static void make_mount(const char *name, const char *type, const char *options)
{
	const char *path = name[0] == '/' ? name : user_path(name);

	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		fail_msg("%s: %s", path, strerror(errno));
	must(mount("hugefuse-test", path, type, 0, options), path);
}

static void make_dir(const char *name)
{
	must(mkdir(user_path(name), 0700), name);
	must(chown(user_path(name), USER_ID, USER_ID), name);
}

/* Where they were built. */
static void copy_programs(void)
{
	const char *program = getenv("HUGEFUSE");
	char path[PATH_MAX], *slash;

	snprintf(path, sizeof(path), "%s", program ? program : "build/tools/hugefuse");
	must(mkdir(user_path("bin"), 0755), "bin");
	must(mkdir(user_path("lib"), 0755), "lib");
	copy(path, user_path("bin/hugefuse"));
	slash = strrchr(path, '/');
	snprintf(slash, sizeof(path) - (size_t)(slash - path),
		 "/../lib/libhugefuse-preload.so");
	copy(path, user_path("lib/libhugefuse-preload.so"));
}

static void set_up(void)
{
	char options[64];

	if (access(user_fusermount, X_OK) < 0)
		fail_msg("%s: %s; install fuse3", user_fusermount, strerror(errno));
	must(unshare(CLONE_NEWNS), "unshare");
	must(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "/");
	/* The daemon's parent ends when it is ready. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	shared =
		mmap(NULL, TEXT_MAX, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	snprintf(dir, sizeof(dir), "%s/hugefuse-test-XXXXXX",
		 getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	if (!mkdtemp(dir))
		fail_msg("%s: %s", dir, strerror(errno));
	make_mount("", "tmpfs", "mode=0755");
	snprintf(options, sizeof(options), "mode=1777,size=%ld", (long)SHM_BYTES);
	make_mount("/dev/shm", "tmpfs", options);
	snprintf(options, sizeof(options), "mode=0700,uid=%d,gid=%d", USER_ID, USER_ID);
	make_mount("plain", "tmpfs", options);
	make_mount("huge", "hugetlbfs", options);
	make_dir("mnt");
	must(chmod(user_path("mnt"), 0755), "mnt");
	make_dir("run");
	copy_programs();
	user_set_device("/dev/fuse", 0666);
	user_write("fuse.conf", "# nobody else\n");
	user_cover(user_path("fuse.conf"), "/etc/fuse.conf");
	user_runtime_dir = user_path("run");
}

int user_begin(void **state)
{
	pool_before = kernel_counts_read(PAGE_2M).nr;
	set_up();
	kernel_pool_set(PAGE_2M, pool_before + USER_PAGES);
	counts = kernel_counts_read(PAGE_2M);
	return 0;
}

int user_end(void **state)
{
	user_unset("/etc/fuse.conf");
	user_unset("/dev/fuse");
	user_unset("/dev/shm");
	user_unset(user_path("huge"));
	user_unset(user_path("plain"));
	user_unset(dir);
	rmdir(dir);
	kernel_pool_set(PAGE_2M, pool_before);
	return 0;
}

int user_end_test(void **state)
{
	static char runtime_dir[PATH_MAX];

	if (daemon_pid) {
		kill(daemon_pid, SIGKILL);
		waitpid(daemon_pid, NULL, 0);
		daemon_pid = 0;
		umount2(user_path("mnt"), MNT_DETACH);
		for (const char *name = "huge\0run\0"; *name; name += strlen(name) + 1)
			user_exec("find", user_path(name), "-mindepth", "1", "-delete", NULL);
		user_exec("find", "/dev/shm", "-mindepth", "1", "-delete", NULL);
	}
	user_before_exec = NULL;
	snprintf(runtime_dir, sizeof(runtime_dir), "%s/run", dir);
	user_runtime_dir = runtime_dir;
	return chown(user_path("mnt"), USER_ID, USER_ID);
}

/* ---- processes ---- */

static void become_user(void)
{
	const gid_t group = OTHER_GROUP;

	if (setgroups(1, &group) < 0 || setresgid(USER_ID, USER_ID, USER_ID) < 0 ||
	    setresuid(USER_ID, USER_ID, USER_ID) < 0)
		_exit(125);
}

struct call {
	int (*function)(void *data);
	void *data;
};

static int call_as_user(void *data)
{
	const struct call *call = data;

	become_user();
	/* As if it had been started by that user: others of the user's may look at it. */
	prctl(PR_SET_DUMPABLE, 1);
	return call->function(call->data);
}

pid_t user_start(int (*function)(void *data), void *data)
{
	struct call call = {function, data};

	return start_child(call_as_user, &call, 0);
}

int user_run(int (*function)(void *data), void *data, int timeout_ms)
{
	return wait_child(user_start(function, data), timeout_ms);
}

static int exec_program(void *data)
{
	char *const *argv = data;
	int fd = open("/proc/self/fd/9", O_WRONLY | O_TRUNC);

	dup2(fd, STDOUT_FILENO);
	dup2(fd, STDERR_FILENO);
	close(fd);
	close(9);
	if (user_runtime_dir)
		setenv("XDG_RUNTIME_DIR", user_runtime_dir, 1);
	else
		unsetenv("XDG_RUNTIME_DIR");
	if (user_before_exec)
		user_before_exec();
	prctl(PR_SET_PDEATHSIG, 0);
	execvp(argv[0], argv);
	return 127;
}

static int exec_as_user(char **argv)
{
	int fd = memfd_create("output", 0), r;
	ssize_t len;

	must(fd, "memfd_create");
	must(fchmod(fd, 0666), "memfd");
	must(dup2(fd, 9), "dup2");
	close(fd);
	r = user_run(exec_program, argv, EXEC_MS);
	len = pread(9, output, sizeof(output) - 1, 0);
	output[len > 0 ? len : 0] = '\0';
	close(9);
	return r;
}

static int exec_list(const char *program, const char *argument, va_list args)
{
	const char *argv[16] = {program, argument};

	for (int i = 2; i < 15 && argv[i - 1]; i++)
		argv[i] = va_arg(args, const char *);
	return exec_as_user((char **)argv);
}

int user_exec(const char *program, ...)
{
	const char *argument;
	va_list args;
	int r;

	va_start(args, program);
	argument = va_arg(args, const char *);
	r = exec_list(program, argument, args);
	va_end(args);
	return r;
}

int user_hugefuse(const char *argument, ...)
{
	va_list args;
	int r;

	va_start(args, argument);
	r = exec_list(user_path("bin/hugefuse"), argument, args);
	va_end(args);
	return r;
}

const char *user_output(void)
{
	return output;
}

/* ---- mounting ---- */

static void expand(const char *options, char *ret_options, size_t size)
{
	const char *mark = strstr(options, "%s");

	if (mark)
		snprintf(ret_options, size, "%.*s%s%s", (int)(mark - options), options, dir,
			 mark + 2);
	else
		snprintf(ret_options, size, "%s", options);
}

static int run_mount(const char *options)
{
	char expanded[PATH_MAX];

	if (!options)
		return user_hugefuse("mount", user_path("mnt"), NULL);
	expand(options, expanded, sizeof(expanded));
	return user_hugefuse("mount", "-o", expanded, user_path("mnt"), NULL);
}

static bool find_entry(const char *path, const char *prefix, char *ret_path, size_t size)
{
	DIR *stream = opendir(path);
	struct dirent *entry;
	bool found = false;

	while (stream && !found && (entry = readdir(stream))) {
		found = strncmp(entry->d_name, prefix, strlen(prefix)) == 0 &&
			(prefix[0] || entry->d_name[0] != '.');
		if (found)
			snprintf(ret_path, size, "%s/%s", path, entry->d_name);
	}
	if (stream)
		closedir(stream);
	return found;
}

void user_find(const char *path, const char *prefix, char *ret_path, size_t size)
{
	if (!find_entry(path, prefix, ret_path, size))
		fail_msg("%s: nothing begins with '%s'", path, prefix);
}

static pid_t read_pid(void)
{
	char base[PATH_MAX], path[PATH_MAX + 16];
	FILE *file;
	int pid = 0;

	if (user_runtime_dir)
		snprintf(base, sizeof(base), "%s/hugefuse", user_runtime_dir);
	else
		snprintf(base, sizeof(base), "/dev/shm/hugefuse-%d", USER_ID);
	user_find(base, "", path, PATH_MAX);
	strcat(path, "/state/pid");
	file = fopen(path, "re");
	if (!file || fscanf(file, "%d", &pid) != 1)
		fail_msg("%s: no process id", path);
	fclose(file);
	return pid;
}

void user_mount(const char *options)
{
	int r;

	r = run_mount(options);
	if (r != 0)
		fail_msg("mounting with %s: exit code %d: %s", options, r, output);
	daemon_pid = read_pid();
}

static bool is_empty(const char *path)
{
	char found[PATH_MAX];

	return !find_entry(path, "", found, sizeof(found)) &&
	       !find_entry(path, ".hugefuse-", found, sizeof(found));
}

static bool counts_are_as_before(void *data)
{
	struct kernel_counts now = kernel_counts_read(PAGE_2M);

	return memcmp(&now, &counts, sizeof(now)) == 0;
}

static bool is_mounted(void)
{
	FILE *file = fopen("/proc/self/mounts", "re");
	char line[4096], mounted[PATH_MAX + 2];
	bool found = false;

	snprintf(mounted, sizeof(mounted), " %s ", user_path("mnt"));
	while (file && fgets(line, sizeof(line), file))
		found |= strstr(line, mounted) != NULL;
	if (file)
		fclose(file);
	return found;
}

static void end_daemon(int expected)
{
	int r = daemon_pid ? reap_child(daemon_pid, END_MS) : expected;

	daemon_pid = 0;
	if (r != expected)
		fail_msg("the daemon ended with %d", r);
}

void user_expect_nothing_left(void)
{
	end_daemon(0);
	if (is_mounted())
		fail_msg("%s is still mounted", user_path("mnt"));
	if (!is_empty("/dev/shm") || !is_empty(user_path("run")) ||
	    !is_empty(user_path("huge")) || !is_empty(user_path("mnt")))
		fail_msg("something is left in one of the directories");
	if (!wait_until(counts_are_as_before, NULL, 2000))
		fail_msg("the kernel's pool is not as before");
}

void user_umount(void)
{
	int r = user_hugefuse("umount", user_path("mnt"), NULL);

	if (r != 0)
		fail_msg("hugefuse umount: exit code %d: %s", r, output);
	user_expect_nothing_left();
}

void user_signal(int signal)
{
	must(kill(daemon_pid, signal), "kill");
	end_daemon(signal == SIGKILL ? 1000 + SIGKILL : 0);
}

void user_refused(const char *text, const char *options)
{
	int r = run_mount(options);
	char *end = strchr(output, '\n');

	if (r != 1)
		fail_msg("mounting with %s: exit code %d: %s", options, r, output);
	if (!end || end[1])
		fail_msg("mounting with %s: not one line: %s", options, output);
	if (!strstr(output, text))
		fail_msg("mounting with %s: no '%s' in: %s", options, text, output);
}

/* ---- what only the user can read ---- */

static int read_file(void *data)
{
	int fd = open(data, O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t n = -1;

	while (fd >= 0 && (n = read(fd, shared + len, TEXT_MAX - 1 - len)) > 0)
		len += (size_t)n;
	shared[len] = '\0';
	if (fd >= 0)
		close(fd);
	return fd >= 0 && n == 0 ? 0 : 1;
}

/* By the user, be it this process itself. */
static const char *text_of(const char *name)
{
	char path[PATH_MAX];
	int r;

	snprintf(path, sizeof(path), "%s", user_path(name));
	r = geteuid() == 0 ? user_run(read_file, path, EXEC_MS) : read_file(path);
	return r == 0 ? shared : "";
}

long user_counter(const char *name)
{
	char path[PATH_MAX];
	const char *text;

	snprintf(path, sizeof(path), "mnt/.hugefuse/hugepages-2048kB/%s", name);
	text = text_of(path);
	return text[0] ? strtol(text, NULL, 10) : -1;
}

const char *user_option(const char *name)
{
	static char value[PATH_MAX];
	const char *found = strstr(text_of("mnt/.hugefuse/options"), name);

	if (!found)
		fail_msg("no option %s", name);
	found += strlen(name);
	snprintf(value, sizeof(value), "%.*s", (int)strcspn(found, ",\n"), found);
	return value;
}

bool user_has_line(const char *name, const char *text)
{
	return strstr(text_of(name), text) != NULL;
}

static int touch(void *data)
{
	int fd = open(data, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	return fd < 0 || write(fd, "x", 1) != 1;
}

void user_touch(const char *name)
{
	assert_int_equal(user_run(touch, (void *)user_path(name), EXEC_MS), 0);
}

unsigned long user_kernel_page_size(const void *addr)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	unsigned long start, end, kb = 0;
	bool found = false;
	char line[512];

	while (file && kb == 0 && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			found = (uintptr_t)addr >= start && (uintptr_t)addr < end;
		else if (found)
			sscanf(line, "KernelPageSize: %lu", &kb);
	}
	if (file)
		fclose(file);
	return kb * 1024;
}
