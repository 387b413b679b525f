/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unmounting from outside, with the daemon alive or dead. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fs/adopt.h"
#include "fs/daemon.h"
#include "fs/run_dir.h"

#define UMOUNT_TIMEOUT_MS 60000

static int fail(const char *mountpoint, const char *what)
{
	fprintf(stderr, "hugefuse: umount: %s: %s\n", mountpoint, what);
	return EXIT_FAILED;
}

/* The number of lines that .hugefuse/maps has after its heading, or 0 where it cannot be read.
 */
static int count_mappings(const char *mountpoint)
{
	char path[PATH_MAX], line[4096];
	int nr = -1;
	FILE *file;

	snprintf(path, sizeof(path), "%.*s/.hugefuse/maps", PATH_MAX - 16, mountpoint);
	file = fopen(path, "re");
	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file))
		nr += strchr(line, '\n') != NULL;
	fclose(file);
	return nr < 0 ? 0 : nr;
}

/* Wait for the process behind @pid to end: 0, -ETIMEDOUT. */
static int wait_for_exit(pid_t pid)
{
	struct pollfd poll_fd = {.events = POLLIN};
	int r;

	poll_fd.fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (poll_fd.fd < 0)
		return 0; /* it has exited */
	r = poll(&poll_fd, 1, UMOUNT_TIMEOUT_MS);
	close(poll_fd.fd);
	return r > 0 ? 0 : -ETIMEDOUT;
}

static int detach(const char *mountpoint, bool force)
{
	char what[256];
	int nr = force ? 0 : count_mappings(mountpoint);

	if (nr > 0) {
		snprintf(
			what, sizeof(what),
			"%d mappings of its files are in use ('hugefuse ls' and .hugefuse/maps "
			"show by whom); with --force they go on, and their pages are given back "
			"when they end",
			nr);
		return fail(mountpoint, what);
	}
	if (umount2(mountpoint, UMOUNT_NOFOLLOW | (force ? MNT_DETACH : 0)) == 0 ||
	    errno == EINVAL)
		return EXIT_OK;
	if (errno == EBUSY)
		return fail(mountpoint,
			    "files or directories on it are in use; end what uses them, "
			    "or use --force");
	return fail(mountpoint, strerror(errno));
}

int daemon_umount(const char *mountpoint, bool force)
{
	char run_dir[PATH_MAX];
	int state_fd, r;
	pid_t pid;

	r = run_dir_path(mountpoint, run_dir);
	if (r < 0)
		return fail(mountpoint, strerror(-r));
	state_fd = run_dir_open(run_dir, &pid);
	if (state_fd == -ENOENT)
		return fail(mountpoint, "no hugefuse is mounted there");
	if (state_fd < 0)
		return fail(mountpoint, strerror(-state_fd));
	/* Of a dead daemon everything goes, in use or not: nobody could look after it. */
	r = detach(mountpoint, force || pid == 0);
	if (r == EXIT_OK && pid == 0) {
		adopt_clean_up(run_dir, state_fd);
		return EXIT_OK;
	}
	close(state_fd);
	if (r == EXIT_OK && !force && wait_for_exit(pid) < 0)
		return fail(mountpoint,
			    "it is unmounted, but its daemon has not ended in 60 seconds");
	return r;
}
