/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tree: removing a directory of one's own with all that is in it, however deep. Symbolic links
 * are removed and not followed, and what is mounted in it is not entered. No state, no locks.
 */
#pragma once

/*
 * Remove the directory @name in @dir_fd. 0, also where it is not there; -ENOTDIR; or the first
 * -errno, after what could be removed has been.
 */
int tree_remove(int dir_fd, const char *name);
