/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One lock for all files: it is held while a mode is not what it should be. */
#include "fs/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/lock.h"

#define FD_PATH_SIZE 32

static struct mutex mode_lock; /* LOCK_RANK_LEAF */

void owner_init(void)
{
	mutex_init(&mode_lock, LOCK_RANK_LEAF);
}

static void fd_path(int fd, char path[FD_PATH_SIZE])
{
	snprintf(path, FD_PATH_SIZE, "/proc/self/fd/%d", fd);
}

/* open() for who may change the mode. */
static int open_denied(int fd, const char *path, int flags)
{
	struct stat st;
	int opened, r;

	mutex_lock(&mode_lock);
	if (fstat(fd, &st) < 0 || st.st_uid != geteuid()) {
		r = -EACCES;
	} else if (chmod(path, (st.st_mode & ALLPERMS) | 0600) < 0) {
		r = -errno;
	} else {
		opened = open(path, flags);
		r = opened < 0 ? -errno : opened;
		chmod(path, st.st_mode & ALLPERMS);
	}
	mutex_unlock(&mode_lock);
	return r;
}

int owner_open(int fd, int flags)
{
	char path[FD_PATH_SIZE];
	int opened;

	fd_path(fd, path);
	opened = open(path, flags);
	if (opened >= 0)
		return opened;
	return errno == EACCES && geteuid() != 0 ? open_denied(fd, path, flags) : -errno;
}

int owner_truncate(int fd, off_t size)
{
	char path[FD_PATH_SIZE];
	int opened, r;

	fd_path(fd, path);
	if (truncate(path, size) == 0)
		return 0;
	if (errno != EACCES || geteuid() == 0)
		return -errno;
	opened = open_denied(fd, path, O_WRONLY | O_CLOEXEC);
	if (opened < 0)
		return opened;
	r = ftruncate(opened, size) < 0 ? -errno : 0;
	close(opened);
	return r;
}

int owner_chmod(int fd, mode_t mode)
{
	char path[FD_PATH_SIZE];
	int r;

	fd_path(fd, path);
	mutex_lock(&mode_lock);
	r = chmod(path, mode) < 0 ? -errno : 0;
	mutex_unlock(&mode_lock);
	return r;
}
