/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Mountpoints: the absolute path of one, also while its daemon is dead, and the list of all
 * hugefuse mounts that this process sees.
 */
#pragma once

#include <stddef.h>

/*
 * The absolute path without symlinks, to be freed by the caller, or NULL with errno. Works
 * where the last component is a mount that answers ENOTCONN.
 */
char *mountpoint_resolve(const char *path);

/*
 * An absolute path without symlinks, as far as there are directories; what is behind them may
 * be gone. To be freed, or NULL with errno.
 */
char *mountpoint_absolute(const char *path);

struct mountpoint {
	char *path;
	char *source;
};

/*
 * Read the hugefuse mounts from @mountinfo, a file like /proc/self/mountinfo, in its order.
 * Returns their number or -errno; the list is freed with mountpoint_list_free().
 */
int mountpoint_list(const char *mountinfo, struct mountpoint **ret_list);
void mountpoint_list_free(struct mountpoint *list, int count);
