/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Caller: do a system call as the owner that the process behind a request would be, so that
 * what it makes belongs to that process from the first instant. Capabilities stay: whether the
 * process may do it has been checked by the kernel (default_permissions).
 *
 * A daemon that is not root's cannot make anything for others than its own user.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/*
 * Let the calling thread create files for @uid and @gid until caller_restore(). 0, or -errno
 * with nothing changed; -EOVERFLOW for ids that do not exist in the daemon's user namespace;
 * -EPERM for another user, where the daemon is not root's.
 */
int caller_assume(uid_t uid, gid_t gid);
void caller_restore(void);

/*
 * Whether the thread @pid has @capability (CAP_*) in the daemon's user namespace. Only for a
 * thread that waits for a reply, and so cannot have been replaced by another one.
 */
bool caller_has_capability(pid_t pid, int capability);

/*
 * Give what has just been made to the group @gid, where caller_assume() could not: one that the
 * user is in besides the daemon's own. 0 or -errno.
 */
int caller_give(int dir_fd, const char *name, gid_t gid);
