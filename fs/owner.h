/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Owner: a daemon that is not root's has to get at its own files in names/ whatever their mode
 * says, as root does: a process that made a file with mode 0444 may write to it as long as it
 * has it open. Where the mode denies it, it is changed for a moment.
 *
 * Files are given as O_PATH descriptors.
 */
#pragma once

#include <sys/types.h>

/* Once, before there is a second thread. */
void owner_init(void);
/* open(2) of the file behind @fd: a descriptor or -errno. */
int owner_open(int fd, int flags);
/* truncate(2) and chmod(2). 0 or -errno. */
int owner_truncate(int fd, off_t size);
int owner_chmod(int fd, mode_t mode);
