/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Unmounting from outside, with the daemon alive or dead. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
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
#include "fs/fusermount.h"
#include "fs/mount.h"
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

/* umount2(2), or what does it for who is not root. 0, -EBUSY, or -errno with one line. */
static int unmount(const char *mountpoint, bool force, char *what, size_t size)
{
	uid_t uid;
	gid_t gid;
	int r = 0;

	if (!fusermount_find(mountpoint, &uid, &gid))
		return 0;
	if (geteuid() != 0)
		return fusermount_unmount(mountpoint, force, what, size);
	if (umount2(mountpoint, UMOUNT_NOFOLLOW | (force ? MNT_DETACH : 0)) < 0 &&
	    errno != EINVAL)
		r = -errno;
	snprintf(what, size, "%s", strerror(-r));
	return r;
}

static int detach(const char *mountpoint, bool force)
{
	char what[512];
	int nr = force ? 0 : count_mappings(mountpoint), r;

	if (nr > 0) {
		snprintf(
			what, sizeof(what),
			"%d mappings of its files are in use ('hugefuse ls' and .hugefuse/maps "
			"show by whom); with --force they go on, and their pages are given back "
			"when they end",
			nr);
		return fail(mountpoint, what);
	}
	r = unmount(mountpoint, force, what, sizeof(what));
	if (r == -EBUSY)
		return fail(mountpoint,
			    "files or directories on it are in use; end what uses them, "
			    "or use --force");
	return r < 0 ? fail(mountpoint, what) : EXIT_OK;
}

/*
 * A user's mount is taken down as that user: nothing that is found where the user may write is
 * to make root do anything.
 */
static int become_owner(const char *mountpoint)
{
	uid_t uid;
	gid_t gid;

	if (geteuid() != 0 || !fusermount_find(mountpoint, &uid, &gid) || uid == 0)
		return 0;
	if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 ||
	    setresuid(uid, uid, uid) < 0)
		return -errno;
	return 0;
}

int daemon_umount(const char *mountpoint, bool force)
{
	char run_dir[PATH_MAX];
	int state_fd, r;
	pid_t pid;
	uid_t uid;
	gid_t gid;

	r = become_owner(mountpoint);
	if (r < 0)
		return fail(mountpoint, strerror(-r));
	state_fd = run_dir_find(mountpoint, run_dir, &pid);
	/* In a directory that only its daemon knows, which removes it when it is unmounted. */
	if (state_fd == -ENOENT && fusermount_find(mountpoint, &uid, &gid))
		return detach(mountpoint, force);
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
