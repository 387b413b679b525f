/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The directory of a mount below /run/hugefuse, or where that of a user is. */
#include "fs/run_dir.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "fs/tree.h"

/* A socket in it, "/.%016lx.sock", is to have less than HUGEFUSE_SOCKET_PATH_MAX bytes. */
#define BASE_MAX   72
#define BASE_TRIES 10

int run_dir_path(const char *base, const char *mountpoint, char *ret_path)
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
	if (strlen(base) + 1 + len >= PATH_MAX)
		return -ENAMETOOLONG;
	snprintf(ret_path, PATH_MAX, "%s/%s", base, len ? name : "-");
	return 0;
}

int run_dir_mountpoint(const char *name, char *ret_mountpoint)
{
	char *out = ret_mountpoint, *end = ret_mountpoint + PATH_MAX - 1;
	unsigned int byte;

	*out++ = '/';
	if (strcmp(name, "-") == 0)
		name++;
	while (*name && out < end) {
		if (*name != '\\') {
			*out++ = *name == '-' ? '/' : *name;
			name++;
		} else if (sscanf(name, "\\x%2x", &byte) == 1 && byte != 0) {
			*out++ = (char)byte;
			name += 4;
		} else {
			return -EINVAL;
		}
	}
	*out = '\0';
	return *name ? -EINVAL : 0;
}

/* A directory of this user's on a tmpfs, that nobody else may write to. */
static bool is_own_tmpfs(const char *path)
{
	struct statfs fs;
	struct stat st;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	bool own;

	if (fd < 0)
		return false;
	own = fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
	      !(st.st_mode & (S_IWGRP | S_IWOTH)) && fstatfs(fd, &fs) == 0 &&
	      fs.f_type == TMPFS_MAGIC;
	close(fd);
	return own;
}

static void add_base(struct run_dir_bases *bases, const char *dir)
{
	char path[PATH_MAX];

	/* A socket's path has to fit in an address. */
	if (dir[0] != '/' || strlen(dir) > BASE_MAX - sizeof("/hugefuse") || !is_own_tmpfs(dir))
		return;
	snprintf(path, sizeof(path), "%s/hugefuse", dir);
	for (int i = 0; i < bases->nr; i++) {
		if (strcmp(bases->path[i], path) == 0)
			return;
	}
	strcpy(bases->path[bases->nr++], path);
}

void run_dir_list_bases(struct run_dir_bases *ret_bases)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	char login[64];

	ret_bases->nr = 0;
	if (geteuid() == 0) {
		strcpy(ret_bases->path[ret_bases->nr++], RUN_DIR);
		return;
	}
	if (runtime)
		add_base(ret_bases, runtime);
	/* That of a login, whatever the environment. */
	snprintf(login, sizeof(login), "/run/user/%u", geteuid());
	add_base(ret_bases, login);
	snprintf(ret_bases->path[ret_bases->nr++], PATH_MAX, "/dev/shm/hugefuse-%u", geteuid());
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

static int explain_busy(pid_t pid, char *error, size_t error_size)
{
	if (pid)
		snprintf(error, error_size, "hugefuse is mounted there already (process %d)",
			 pid);
	else
		snprintf(error, error_size, "hugefuse is just being mounted there");
	return -EBUSY;
}

/* Of a daemon that was killed before it had a state/ there is nothing but the directory. */
static int take_nothing(const char *path)
{
	return rmdir(path) == 0 || errno == ENOENT ? 0 : -errno;
}

int run_dir_take(const char *mountpoint, char *ret_path, int *ret_state_fd, char *error,
		 size_t error_size)
{
	struct stat st;
	pid_t pid = 0;
	int fd, r;

	fd = run_dir_find(mountpoint, ret_path, &pid);
	if (fd == -ENOENT)
		r = take_nothing(ret_path);
	else if (fd == -EBUSY || pid)
		r = explain_busy(pid, error, error_size);
	else if (fd < 0)
		r = fd;
	else if (fstat(fd, &st) < 0)
		r = -errno;
	else if (st.st_nlink == 0)
		r = 0; /* it has just ended well */
	else
		r = write_pid(fd) < 0 ? -EIO : 1;
	if (r == 1)
		*ret_state_fd = fd;
	else if (fd >= 0)
		close(fd);
	if (r < 0 && r != -EBUSY)
		snprintf(error, error_size, "%s: %s",
			 r == -ENAMETOOLONG ? mountpoint : ret_path, strerror(-r));
	return r;
}

/* For others to pass through, if it is root's. */
static int make_base(const char *base, char *error, size_t error_size)
{
	int r = 0;

	if (mkdir(base, geteuid() == 0 ? 0711 : 0700) < 0 && errno != EEXIST)
		r = -errno;
	if (r < 0)
		snprintf(error, error_size, "%s: %s", base, strerror(-r));
	else if (geteuid() != 0 && !is_own_tmpfs(base)) {
		r = -EPERM;
		snprintf(error, error_size,
			 "%s: it has to be a directory of this user's on a tmpfs, which nobody "
			 "else may write to; remove it, or set XDG_RUNTIME_DIR to one",
			 base);
	}
	return r;
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
		unlinkat(fd, "pid", 0);
		close(fd);
		return r;
	}
	*ret_state_fd = fd;
	return 0;
}

static int create_in(const char *base, const char *mountpoint, char *ret_path,
		     int *ret_state_fd, char *error, size_t error_size)
{
	int r = run_dir_path(base, mountpoint, ret_path);

	if (r == 0 && mkdir(ret_path, 0700) < 0)
		r = -errno;
	if (r == -EEXIST)
		return explain_busy(0, error, error_size);
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

int run_dir_create(const char *mountpoint, char *ret_path, int *ret_state_fd, char *error,
		   size_t error_size)
{
	struct run_dir_bases bases;
	int r, tries = 0;

	run_dir_list_bases(&bases);
	do {
		r = make_base(bases.path[0], error, error_size);
		if (r == 0)
			r = create_in(bases.path[0], mountpoint, ret_path, ret_state_fd, error,
				      error_size);
		/* Another daemon's end may just have removed it. */
	} while (r == -ENOENT && geteuid() != 0 && ++tries < BASE_TRIES);
	return r;
}

/* 0 if @fd is a filesystem of that kind, and another one than the directory @path is on;
 * -ENOENT if not. */
static int check_mount_root(int fd, const char *path, long magic)
{
	struct stat own, parent;
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0 || fstat(fd, &own) < 0 || stat(path, &parent) < 0)
		return -errno;
	return (long)fs.f_type == magic && own.st_dev != parent.st_dev ? 0 : -ENOENT;
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

int run_dir_make(const char *path, const char *name, mode_t mode, char *error,
		 size_t error_size)
{
	char target[PATH_MAX];
	int fd = -1, r = 0;

	snprintf(target, sizeof(target), "%.*s/%s", PATH_MAX - 8, path, name);
	if (mkdir(target, 0700) == 0)
		fd = open(target, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fchmod(fd, mode) < 0) {
		r = -errno;
		snprintf(error, error_size, "%s: %s", target, strerror(-r));
		if (fd >= 0)
			close(fd);
	}
	return r < 0 ? r : fd;
}

int run_dir_open_mount(const char *path, const char *name, long magic)
{
	char target[PATH_MAX];
	int fd, r;

	snprintf(target, sizeof(target), "%.*s/%s", PATH_MAX - 8, path, name);
	fd = open(target, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = check_mount_root(fd, path, magic);
	if (r < 0)
		close(fd);
	return r < 0 ? r : fd;
}

int run_dir_open_hidden(const char *path, const char *name)
{
	char target[PATH_MAX];
	struct stat st;
	int fd, r;

	snprintf(target, sizeof(target), "%.*s/%s", PATH_MAX - 16, path, name);
	fd = open(target, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = fstat(fd, &st) < 0 ? -errno : 0;
	/* With a name it is what was to be mounted on. */
	if (r == 0 && st.st_nlink > 0)
		r = -ENOENT;
	if (r < 0)
		close(fd);
	return r < 0 ? r : fd;
}

static int make_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

/* What is mounted somewhere stays when it has no name any more. */
int run_dir_make_hidden(const char *path, const char *name)
{
	char source[PATH_MAX], target[PATH_MAX];
	int r;

	snprintf(source, sizeof(source), "%.*s/names/%s", PATH_MAX - 32, path, name);
	snprintf(target, sizeof(target), "%.*s/%s", PATH_MAX - 32, path, name);
	r = make_file(target);
	if (r == 0)
		r = make_file(source);
	if (r < 0)
		return r;
	r = mount(source, target, NULL, MS_BIND, NULL) < 0 ? -errno : 0;
	unlink(source);
	return r < 0 ? r : run_dir_open_hidden(path, name);
}

void run_dir_unmount(const char *path)
{
	static const char *const names[] = {"reserve", "data", "names"};
	char mountpoint[PATH_MAX];

	for (int i = 0; i < 3; i++) {
		snprintf(mountpoint, sizeof(mountpoint), "%.*s/%s", PATH_MAX - 8, path,
			 names[i]);
		if (umount2(mountpoint, UMOUNT_NOFOLLOW) < 0 && errno == EBUSY)
			umount2(mountpoint, UMOUNT_NOFOLLOW | MNT_DETACH);
	}
}

int run_dir_note(int state_fd, const char *name, const char *path)
{
	unlinkat(state_fd, name, 0);
	return symlinkat(path, state_fd, name) < 0 ? -errno : 0;
}

int run_dir_read_note(int state_fd, const char *name, char *ret_path)
{
	ssize_t len = readlinkat(state_fd, name, ret_path, PATH_MAX - 1);

	if (len < 0)
		return -errno;
	ret_path[len] = '\0';
	return 0;
}

/* The daemon removes its socket itself, unless it was killed. */
static void remove_socket(int state_fd)
{
	char socket_path[PATH_MAX];

	if (run_dir_read_note(state_fd, "socket", socket_path) == 0)
		unlink(socket_path);
}

void run_dir_remove(const char *path, int state_fd)
{
	static const char *const files[] = {"kernel-pool", "journal", "journal.new",
					    "socket",      "source",  "pid"};
	static const char *const dirs[] = {"data", "names", "state"};
	char name[PATH_MAX];

	if (state_fd >= 0)
		remove_socket(state_fd);
	for (int i = 0; i < 6 && state_fd >= 0; i++)
		unlinkat(state_fd, files[i], 0);
	snprintf(name, sizeof(name), "%.*s/reserve", PATH_MAX - 16, path);
	unlink(name);
	for (int i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "%.*s/%s", PATH_MAX - 8, path, dirs[i]);
		/* Root's are mounts, and empty without. */
		if (geteuid() != 0)
			tree_remove(AT_FDCWD, name);
		else
			rmdir(name);
	}
	rmdir(path);
	/* A user's is not left behind the last one. */
	if (geteuid() != 0 && strlen(path) < sizeof(name)) {
		strcpy(name, path);
		*strrchr(name, '/') = '\0';
		rmdir(name);
	}
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

int run_dir_find(const char *mountpoint, char *ret_path, pid_t *ret_pid)
{
	struct run_dir_bases bases;
	int fd = -ENOENT, r;

	run_dir_list_bases(&bases);
	for (int i = 0; i < bases.nr && fd == -ENOENT; i++) {
		/* What others may have put there is not looked at. */
		if (geteuid() != 0 && !is_own_tmpfs(bases.path[i]))
			continue;
		r = run_dir_path(bases.path[i], mountpoint, ret_path);
		if (r < 0)
			return r;
		fd = run_dir_open(ret_path, ret_pid);
	}
	return fd;
}
