/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The daemon's life: fork, set up, mount, serve, and take down again.
 *
 * In the background the parent waits on a pipe. The child writes a byte when the mount answers;
 * if it ends before, or if the parent has gone when it writes, it has taken everything down
 * again.
 *
 * When the mount is unmounted while processes still have pages mapped, the daemon stays and
 * serves them until the last has gone. A signal ends it at once: the kernel serves them from
 * there on.
 */
#include "fs/daemon.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/confine.h"
#include "fs/control.h"
#include "fs/fault_service.h"
#include "fs/fuse_device.h"
#include "fs/fuse_ops.h"
#include "fs/fusermount.h"
#include "fs/log.h"
#include "fs/mount.h"
#include "fs/mount_thp.h"
#include "fs/notify.h"
#include "fs/passthrough.h"
#include "fs/probe_kernel.h"
#include "fs/refill.h"
#include "fs/rlimits.h"
#include "fs/run_dir.h"
#include "fs/split_thread.h"

#define LINGER_NS 1000000000ULL

struct daemon {
	const struct daemon_config *config;
	struct mount mount;
	struct fuse_session *session;
	struct split_thread *split_thread;
	struct refill *refill;
	pthread_t main_thread, signal_thread;
	_Atomic bool terminating; /* a signal has come */
	_Atomic bool stopping;    /* the signal thread is to end */
};

static int fail(const char *mountpoint, const char *error)
{
	log_error("%s: %s", mountpoint, error);
	return EXIT_FAILED;
}

static void interrupt_main(int signal)
{
}

/* Signals come to one thread, which unmounts; SIGUSR1 only gets the main thread out of a wait.
 */
static void block_signals(sigset_t *ret_set)
{
	struct sigaction action = {.sa_handler = interrupt_main};

	sigaction(SIGUSR1, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGIO, SIG_IGN); /* of a lease that is broken */
	sigemptyset(ret_set);
	sigaddset(ret_set, SIGINT);
	sigaddset(ret_set, SIGTERM);
	sigaddset(ret_set, SIGHUP);
	pthread_sigmask(SIG_BLOCK, ret_set, NULL);
}

static void unmount(const char *mountpoint)
{
	char error[256];

	if (geteuid() == 0)
		umount2(mountpoint, UMOUNT_NOFOLLOW | MNT_DETACH);
	else
		fusermount_unmount(mountpoint, true, error, sizeof(error));
}

static void *signal_main(void *data)
{
	struct daemon *daemon = data;
	sigset_t set;
	int signal;

	block_signals(&set);
	while (!daemon->stopping) {
		if (sigwait(&set, &signal) != 0 || daemon->stopping)
			continue;
		daemon->terminating = true;
		unmount(daemon->config->mountpoint);
		fuse_session_exit(daemon->session);
		pthread_kill(daemon->main_thread, SIGUSR1);
	}
	return NULL;
}

/* The value of a mount option for libfuse, with what separates options escaped. */
static void append_escaped(char *buf, size_t size, const char *value)
{
	size_t len = strlen(buf);

	for (; *value && len + 3 < size; value++) {
		if (*value == ',' || *value == '\\')
			buf[len++] = '\\';
		buf[len++] = *value;
	}
	buf[len] = '\0';
}

static bool add_arguments(struct fuse_args *args, const char *list)
{
	/* With -d libfuse prints every request to stderr. */
	return fuse_opt_add_arg(args, "hugefuse") == 0 &&
	       (!log_debug_enabled(LOG_AREA_FUSE) || fuse_opt_add_arg(args, "-d") == 0) &&
	       fuse_opt_add_arg(args, "-o") == 0 && fuse_opt_add_arg(args, list) == 0;
}

static int new_session(struct daemon *daemon)
{
	const struct mount_options *options = daemon->mount.options;
	struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
	char list[1024] = "subtype=hugefuse,default_permissions,fsname=";

	append_escaped(list, 512, options->fsname ? options->fsname : "hugefuse");
	if (options->allow_other)
		strcat(list, ",allow_other");
	strcat(list, options->ro ? ",ro" : ",rw");
	strcat(list, options->nosuid ? ",nosuid" : ",suid");
	strcat(list, options->nodev ? ",nodev" : ",dev");
	strcat(list, options->noexec ? ",noexec" : ",exec");
	if (options->noatime)
		strcat(list, ",noatime");
	if (add_arguments(&args, list))
		daemon->session =
			fuse_session_new(&args, &fuse_ops, sizeof(fuse_ops), &daemon->mount);
	fuse_opt_free_args(&args);
	return daemon->session ? 0 : -ENOMEM;
}

static int start_services(struct daemon *daemon)
{
	struct mount *mount = &daemon->mount;
	char path[PATH_MAX];
	ptrdiff_t dir_len;
	uint64_t number;
	int r;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return -EAGAIN;
	if (run_dir_read_note(mount->state_fd, "socket", path) == 0) {
		unlink(path); /* clients know the dead daemon's, and come back to it */
	} else {
		/* Beside the directory, so that others get to it who may not enter that one. */
		dir_len = strrchr(mount->run_dir, '/') - mount->run_dir;
		snprintf(path, sizeof(path), "%.*s/.%016lx.sock", (int)dir_len, mount->run_dir,
			 (unsigned long)number);
	}
	r = fault_service_new(mount, mount->options->fault_threads, &mount->fault_service);
	if (r == 0)
		r = run_dir_note(mount->state_fd, "socket", path);
	if (r == 0)
		r = control_new(mount, path, &mount->control);
	if (r == 0)
		r = split_thread_new(mount, &daemon->split_thread);
	if (r == 0)
		r = refill_new(mount, &daemon->refill);
	return r;
}

static void stop_services(struct daemon *daemon)
{
	/* The control thread hands what it drops to the fault threads, which may still look at
	 * it. */
	control_stop(daemon->mount.control);
	refill_free(daemon->refill);
	split_thread_free(daemon->split_thread);
	fault_service_free(daemon->mount.fault_service);
	control_free(daemon->mount.control);
	daemon->mount.control = NULL;
	daemon->mount.fault_service = NULL;
}

static int run_loop(struct daemon *daemon)
{
	struct fuse_loop_config *config = fuse_loop_cfg_create();
	int r;

	if (!config)
		return -ENOMEM;
	fuse_loop_cfg_set_clone_fd(config, 1);
	fuse_loop_cfg_set_max_threads(config, 32);
	r = fuse_session_loop_mt(daemon->session, config);
	fuse_loop_cfg_destroy(config);
	return r;
}

/* Serve until it is unmounted and nobody has pages mapped, or a signal has come. */
static void serve(struct daemon *daemon)
{
	run_loop(daemon);
	while (!daemon->terminating && control_wait_idle(daemon->mount.control, LINGER_NS) < 0)
		;
}

static bool has_userfaultfd(void)
{
	struct probe probe = {0};

	probe_userfaultfd(&probe);
	return probe.uffd == PROBE_UFFD_FULL;
}

/* What was mounted, and how it can be mapped; which backing=auto took, that is. */
static void say_what(struct daemon *daemon)
{
	struct mount *mount = &daemon->mount;
	struct probe_summary summary = {
		.page_kb = mount->backing->huge_page_size / 1024,
		.backing = mount->backing->ops->name,
		.passthrough = passthrough_may_be(mount) && mount_thp_is_supported(),
		.direct = !mount->is_thp,
		.at_most = mount_has_source(mount) && !mount->is_thp,
		.reason = mount->why_backing,
	};
	struct pool_counts pool;
	char line[256];

	if (daemon->config->quiet)
		return;
	pool_read(&mount->core.pool, &pool);
	summary.set_aside_bytes = (uint64_t)pool.nr * mount->backing->page_size;
	summary.by_kernel = summary.direct && !has_userfaultfd();
	summary.cached = !summary.passthrough &&
			 (mount->options->plain == PLAIN_CACHED ||
			  (mount->options->plain == PLAIN_AUTO && mount->is_thp));
	probe_format_summary(&summary, line, sizeof(line));
	if (daemon->config->foreground) {
		log_info("%s", line);
		return;
	}
	printf("hugefuse: %s\n", line);
	fflush(stdout);
}

/* Tell the parent that the mount answers, and leave its terminal. false: it has gone. */
static bool report_ready(const struct daemon_config *config, int ready_fd)
{
	int null;

	if (config->foreground) {
		notify_send("READY=1");
		return true;
	}
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null >= 0) {
		for (int fd = 0; fd < 3; fd++)
			dup2(null, fd);
		close(null);
	}
	log_open_syslog("hugefuse");
	if (write(ready_fd, "", 1) != 1)
		return false;
	close(ready_fd);
	return true;
}

/* Of what fusermount3 and libfuse say, one line is ours. */
static int mount_fuse(struct daemon *daemon)
{
	const char *mountpoint = daemon->config->mountpoint;
	char line[512], what[640];
	struct stderr_catch catch;
	int r;

	stderr_catch_begin(&catch);
	r = fuse_session_mount(daemon->session, mountpoint);
	stderr_catch_end(&catch, line, sizeof(line));
	if (r == 0)
		return EXIT_OK;
	snprintf(what, sizeof(what), "cannot mount FUSE there%s%s%s", line[0] ? ": " : "", line,
		 geteuid() == 0 ? "; is /dev/fuse there (modprobe fuse), and are we root?"
				: "");
	return fail(mountpoint, what);
}

/* A mount whose connection was aborted: libfuse takes it for unmounted and leaves it there. */
static void unmount_aborted(const char *mountpoint)
{
	struct statfs st; /* attributes may be cached */

	if (statfs(mountpoint, &st) < 0 && (errno == ENOTCONN || errno == ECONNABORTED))
		umount2(mountpoint, UMOUNT_NOFOLLOW | MNT_DETACH);
}

static int mount_and_serve(struct daemon *daemon, int ready_fd)
{
	const char *mountpoint = daemon->config->mountpoint;
	int exit_code = EXIT_OK, r;

	if (new_session(daemon) < 0)
		return fail(mountpoint, "cannot make a FUSE session");
	exit_code = mount_fuse(daemon);
	if (exit_code != EXIT_OK)
		goto out_destroy;
	if (fuse_device_attach(daemon->session, &daemon->mount) < 0) {
		exit_code = fail(mountpoint, "cannot use the FUSE device");
		goto out_unmount;
	}
	daemon->main_thread = pthread_self();
	if (pthread_create(&daemon->signal_thread, NULL, signal_main, daemon) != 0) {
		exit_code = fail(mountpoint, "cannot start a thread");
		goto out_unmount;
	}
	log_debug(LOG_AREA_MOUNT, "%s: mounted, state in %s", mountpoint,
		  daemon->mount.run_dir);
	say_what(daemon);
	mount_is_up(&daemon->mount);
	if (daemon->mount.options->confine && (r = confine_system_calls()) < 0)
		log_warning("system calls are not restricted: %s", strerror(-r));
	/* Files that were there before are not given up for want of somebody to tell. */
	if (report_ready(daemon->config, ready_fd) || daemon->mount.has_adopted_options)
		serve(daemon);
	if (daemon->config->foreground)
		notify_send("STOPPING=1");
	log_debug(LOG_AREA_MOUNT, "%s: %s", mountpoint,
		  daemon->terminating ? "ended by a signal" : "unmounted");
	daemon->stopping = true;
	pthread_kill(daemon->signal_thread, SIGTERM);
	pthread_join(daemon->signal_thread, NULL);
out_unmount:
	fuse_session_unmount(daemon->session);
	unmount_aborted(mountpoint);
out_destroy:
	fuse_session_destroy(daemon->session);
	return exit_code;
}

static int run_daemon(const struct daemon_config *config, int ready_fd)
{
	struct daemon *daemon = aligned_alloc(_Alignof(struct daemon), sizeof(*daemon));
	char error[1024];
	sigset_t set;
	int exit_code, r;

	if (!daemon)
		return fail(config->mountpoint, "out of memory");
	memset(daemon, 0, sizeof(*daemon));
	daemon->config = config;
	block_signals(&set);
	umask(0);
	rlimits_raise();
	/* pthread_cancel(3) loads it, and aborts where it cannot: libfuse's loop ends so. */
	dlopen("libgcc_s.so.1", RTLD_NOW);
	prctl(PR_SET_NAME, "hugefuse");
	if (config->options->confine && (r = confine_capabilities()) < 0)
		log_warning("capabilities are not dropped: %s", strerror(-r));
	if (mount_init(&daemon->mount, config->options, config->mountpoint, error,
		       sizeof(error)) < 0) {
		exit_code = fail(config->mountpoint, error);
		goto out_free;
	}
	r = start_services(daemon);
	if (r == 0)
		exit_code = mount_and_serve(daemon, ready_fd);
	else
		exit_code = fail(config->mountpoint, strerror(-r));
	mount_abandon(&daemon->mount);
	stop_services(daemon);
	mount_deinit(&daemon->mount);
out_free:
	free(daemon);
	return exit_code;
}

/* The parent's part: wait until the child is ready or has ended. */
static int wait_for_child(pid_t child, int ready_fd)
{
	int status;
	char byte;
	ssize_t n;

	do
		n = read(ready_fd, &byte, 1);
	while (n < 0 && errno == EINTR);
	if (n == 1)
		return EXIT_OK;
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) && WEXITSTATUS(status) != EXIT_OK ? WEXITSTATUS(status)
								   : EXIT_FAILED;
}

int daemon_mount(const struct daemon_config *config)
{
	int ready[2], exit_code;
	char error[512];
	pid_t child;

	if (geteuid() != 0 &&
	    fusermount_check(config->options->allow_other, error, sizeof(error)) < 0)
		return fail(config->mountpoint, error);
	if (config->foreground)
		return run_daemon(config, -1);
	if (pipe2(ready, O_CLOEXEC) < 0)
		return fail(config->mountpoint, strerror(errno));
	child = fork();
	if (child < 0) {
		close(ready[0]);
		close(ready[1]);
		return fail(config->mountpoint, "cannot fork");
	}
	if (child == 0) {
		close(ready[0]);
		setsid();
		if (chdir("/") < 0)
			_exit(EXIT_FAILED);
		_exit(run_daemon(config, ready[1]));
	}
	close(ready[1]);
	exit_code = wait_for_child(child, ready[0]);
	close(ready[0]);
	return exit_code;
}
