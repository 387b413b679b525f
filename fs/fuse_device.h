/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What libfuse lacks, or lacks before a version: a quiet end, and passthrough, which has an API
 * of its own from 3.17 on. Before, the replies that have to do with it are changed on their way
 * to /dev/fuse, which fuse_session_custom_io() allows.
 */
#pragma once

#include <stdint.h>

#include "fs/fuse_ops.h"

/*
 * Read and write /dev/fuse for @session, which is mounted. 0 or -errno.
 *
 * The kernel answers ENODEV to a read from a connection that has ended, and libfuse takes that
 * for the end; but ECONNABORTED (fuse_dev_do_read()) if a request was just being taken from the
 * queue, such as the release of a file that was closed before. libfuse would call that an
 * error.
 */
int fuse_device_attach(struct fuse_session *session, struct mount *mount);

/* Ask for passthrough, if @mount can use it, in the init operation. */
void fuse_device_want(struct fuse_conn_info *conn, struct mount *mount);

/*
 * fuse_reply_open(), or with @entry fuse_reply_create(), of a file that is mapped through the
 * backing @id (0: it is not).
 */
int fuse_device_reply_open(fuse_req_t req, const struct fuse_entry_param *entry,
			   struct fuse_file_info *fi, int32_t id);

/*
 * close(2) returns before the daemon has handled it: wait, at most @timeout_ns, for what the
 * kernel has told by now.
 */
void fuse_device_settle(uint64_t timeout_ns);
