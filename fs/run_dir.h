/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * /run/hugefuse/<name>/, where a mount keeps its private filesystems and its state. The name is
 * the mount point's path with everything but letters and digits escaped, so that it can be
 * found again. A lock on state/ says whether the daemon is alive. Only root can enter.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define RUN_DIR "/run/hugefuse"

/* The directory of @mountpoint, PATH_MAX bytes: 0, -ENAMETOOLONG. */
int run_dir_path(const char *mountpoint, char *ret_path);

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
/* Write down the socket at @socket_path, which run_dir_remove() removes if it is still there.
 */
int run_dir_note_socket(int state_fd, const char *socket_path);
/* Unmount names/ and data/, lazily where processes still have pages mapped. */
void run_dir_unmount(const char *path);
/* Remove it all and close @state_fd. */
void run_dir_remove(const char *path, int state_fd);

/*
 * Open state/ of an existing directory. Returns the descriptor, -ENOENT, or another -errno;
 * @ret_pid is that of its daemon, or 0 if it is dead, and then the lock is the caller's.
 */
int run_dir_open(const char *path, pid_t *ret_pid);
