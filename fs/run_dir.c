/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The directory of a mount below /run/hugefuse. */
#include "fs/run_dir.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

int run_dir_path(const char *mountpoint, char *ret_path)
{
	char name[NAME_MAX + 1];
	size_t len = 0;

	for (const char *c = mountpoint + 1; *c; c++) {
		bool plain = isalnum((unsigned char)*c) || *c == '.' || *c == '_';

		if (len + 5 > sizeof(name))
			return -ENAMETOOLONG;
		if (*c == '/')
			name[len++] = '-';
		else if (plain && !(*c == '.' && len == 0))
			name[len++] = *c;
		else
			len += (size_t)sprintf(name + len, "\\x%02x", (unsigned char)*c);
	}
	name[len] = '\0';
	snprintf(ret_path, PATH_MAX, "%s/%s", RUN_DIR, len ? name : "-");
	return 0;
}

static int write_pid(int state_fd)
{
	char text[16];
	int fd, len, r = 0;

	fd = openat(state_fd, "pid", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	len = snprintf(text, sizeof(text), "%d\n", getpid());
	if (write(fd, text, len) != len)
		r = -EIO;
	close(fd);
	return r;
}

static pid_t read_pid(int state_fd)
{
	char text[16] = "";
	pid_t pid = 0;
	int fd;

	fd = openat(state_fd, "pid", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	if (read(fd, text, sizeof(text) - 1) <= 0 || sscanf(text, "%d", &pid) != 1)
		pid = 0;
	close(fd);
	return pid;
}

static int open_state(const char *path)
{
	char state[PATH_MAX];
	int fd;

	snprintf(state, sizeof(state), "%.*s/state", PATH_MAX - 8, path);
	fd = open(state, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static void explain_existing(const char *path, const char *mountpoint, char *error,
			     size_t error_size)
{
	pid_t pid = 0;
	int fd = run_dir_open(path, &pid);

	if (fd >= 0)
		close(fd);
	if (fd == -EBUSY)
		snprintf(error, error_size, "hugefuse is just being mounted there");
	else if (pid)
		snprintf(error, error_size, "hugefuse is mounted there already (process %d)",
			 pid);
	else
		snprintf(error, error_size,
			 "a daemon that died has left pages and files in %s; run 'hugefuse "
			 "umount %s' to give them back",
			 path, mountpoint);
}

static int fill_run_dir(const char *path, int *ret_state_fd)
{
	char state[PATH_MAX];
	int fd, r;

	snprintf(state, sizeof(state), "%.*s/state", PATH_MAX - 8, path);
	if (mkdir(state, 0700) < 0)
		return -errno;
	fd = open_state(path);
	if (fd < 0)
		return fd;
	r = flock(fd, LOCK_EX | LOCK_NB) < 0 ? -errno : write_pid(fd);
	if (r < 0) {
		close(fd);
		return r;
	}
	*ret_state_fd = fd;
	return 0;
}

int run_dir_create(const char *mountpoint, char *ret_path, int *ret_state_fd, char *error,
		   size_t error_size)
{
	int r;

	r = run_dir_path(mountpoint, ret_path);
	if (r == 0 && mkdir(RUN_DIR, 0711) < 0 && errno != EEXIST)
		r = -errno;
	if (r == 0 && mkdir(ret_path, 0700) < 0)
		r = -errno;
	if (r == -EEXIST) {
		explain_existing(ret_path, mountpoint, error, error_size);
		return -EBUSY;
	}
	if (r == 0) {
		r = fill_run_dir(ret_path, ret_state_fd);
		if (r < 0)
			run_dir_remove(ret_path, -1);
	}
	if (r < 0)
		snprintf(error, error_size, "%s: %s",
			 r == -ENAMETOOLONG ? mountpoint : ret_path, strerror(-r));
	return r;
}

int run_dir_mount(const char *path, const char *name, const char *type, unsigned long flags,
		  const char *data, char *error, size_t error_size)
{
	char target[PATH_MAX];
	int fd, r;

	snprintf(target, sizeof(target), "%.*s/%s", PATH_MAX - 8, path, name);
	if (mkdir(target, 0700) < 0 ||
	    mount("hugefuse", target, type, MS_NOSUID | MS_NODEV | flags, data) < 0)
		goto out_error;
	fd = open(target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		return fd;
out_error:
	r = -errno;
	snprintf(error, error_size, "%s: cannot mount a private %s there (%s): %s", target,
		 type, data, strerror(-r));
	return r;
}

void run_dir_unmount(const char *path)
{
	static const char *const names[] = {"data", "names"};
	char mountpoint[PATH_MAX];

	for (int i = 0; i < 2; i++) {
		snprintf(mountpoint, sizeof(mountpoint), "%.*s/%s", PATH_MAX - 8, path,
			 names[i]);
		if (umount2(mountpoint, UMOUNT_NOFOLLOW) < 0 && errno == EBUSY)
			umount2(mountpoint, UMOUNT_NOFOLLOW | MNT_DETACH);
	}
}

int run_dir_note_socket(int state_fd, const char *socket_path)
{
	return symlinkat(socket_path, state_fd, "socket") < 0 ? -errno : 0;
}

/* The daemon removes its socket itself, unless it was killed. */
static void remove_socket(int state_fd)
{
	char socket_path[PATH_MAX];
	ssize_t len = readlinkat(state_fd, "socket", socket_path, sizeof(socket_path) - 1);

	if (len < 0)
		return;
	socket_path[len] = '\0';
	unlink(socket_path);
	unlinkat(state_fd, "socket", 0);
}

void run_dir_remove(const char *path, int state_fd)
{
	static const char *const files[] = {"kernel-pool", "pid"};
	static const char *const dirs[] = {"data", "names", "state"};
	char name[PATH_MAX];

	if (state_fd >= 0)
		remove_socket(state_fd);
	for (int i = 0; i < 2 && state_fd >= 0; i++)
		unlinkat(state_fd, files[i], 0);
	for (int i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "%.*s/%s", PATH_MAX - 8, path, dirs[i]);
		rmdir(name);
	}
	rmdir(path);
	if (state_fd >= 0)
		close(state_fd);
}

int run_dir_open(const char *path, pid_t *ret_pid)
{
	int fd = open_state(path);

	if (fd < 0)
		return fd;
	*ret_pid = 0;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		*ret_pid = read_pid(fd);
		/* Locked and no pid yet: it is starting. */
		if (*ret_pid == 0) {
			close(fd);
			return -EBUSY;
		}
	}
	return fd;
}
