/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * /run/hugefuse/<name>/, where a mount keeps its private filesystems and its state. The name is
 * the mount point's path with everything but letters and digits escaped, so that it can be
 * found again. A lock on state/ says whether the daemon is alive. Only root can enter.
 *
 * A daemon that is not root's has its directory in $XDG_RUNTIME_DIR/hugefuse, where that is a
 * tmpfs of the user's, else in /dev/shm/hugefuse-UID, which only that user can enter. It has to
 * be a tmpfs because inode numbers must not be used again.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define RUN_DIR "/run/hugefuse"

/* The directory of @mountpoint below @base, PATH_MAX bytes: 0, -ENAMETOOLONG. */
int run_dir_path(const char *base, const char *mountpoint, char *ret_path);

#define RUN_DIR_MAX_BASES 3

/* Where directories of this user's may be, the one for new ones first. */
struct run_dir_bases {
	int nr;
	char path[RUN_DIR_MAX_BASES][PATH_MAX];
};

void run_dir_list_bases(struct run_dir_bases *ret_bases);

/*
 * Make the directory of @mountpoint with state/, lock it, and write the pid there. Fails with
 * -EBUSY and one line in @error where there is one already, with a daemon or left by a dead
 * one.
 */
int run_dir_create(const char *mountpoint, char *ret_path, int *ret_state_fd, char *error,
		   size_t error_size);
/*
 * Mount a filesystem of @type with options @data, and @flags besides nosuid and nodev, on the
 * directory @name of @path, which is made. Returns a descriptor of its root, or -errno with one
 * line in @error.
 */
int run_dir_mount(const char *path, const char *name, const char *type, unsigned long flags,
		  const char *data, char *error, size_t error_size);
/* Make a plain directory @name in @path instead, and return a descriptor; -errno. */
int run_dir_make(const char *path, const char *name, mode_t mode, char *error,
		 size_t error_size);
/*
 * Write down a path under @name in state/. What is called "socket" run_dir_remove() removes if
 * it is still there.
 */
int run_dir_note(int state_fd, const char *name, const char *path);
/* Read it back, PATH_MAX bytes: 0 or -errno. */
int run_dir_read_note(int state_fd, const char *name, char *ret_path);
/* Unmount names/ and data/, lazily where processes still have pages mapped. */
void run_dir_unmount(const char *path);
/* Remove it all and close @state_fd. */
void run_dir_remove(const char *path, int state_fd);

/*
 * Open state/ of an existing directory. Returns the descriptor, -ENOENT, or another -errno;
 * @ret_pid is that of its daemon, or 0 if it is dead, and then the lock is the caller's.
 */
int run_dir_open(const char *path, pid_t *ret_pid);
/* The same of @mountpoint, wherever this user's are; its path as well. */
int run_dir_find(const char *mountpoint, char *ret_path, pid_t *ret_pid);
