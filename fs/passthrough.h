/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * FUSE passthrough (Linux 6.9): the kernel maps the backing's file in the place of the one on
 * the mount. An open file is tied to it by a number that the kernel gives for a descriptor; all
 * who have a file open at a time need the same one.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "fs/inode.h"

/* Whether files of this mount could be: on thp, by root (FUSE_DEV_IOC_BACKING_OPEN is root's),
 * with plain=auto.
 */
bool passthrough_may_be(const struct mount *mount);
/* The kernel has granted it: numbers are asked for on @device_fd, /dev/fuse of the mount. */
void passthrough_enable(struct mount *mount, int device_fd);

/*
 * Another open file of @inode. Returns its number (> 0); 0 where files are not mapped through
 * this mount; or -errno. passthrough_put() follows for each, whatever it was.
 */
int32_t passthrough_get(struct mount *mount, struct inode *inode, int access_mode);
void passthrough_put(struct mount *mount, struct inode *inode);
