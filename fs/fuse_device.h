/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How a session reads and writes /dev/fuse. */
#pragma once

#include <stdint.h>

struct fuse_session;

/*
 * Let @session, which is mounted, end quietly when it is unmounted. 0 or -errno.
 *
 * The kernel answers ENODEV to a read from a connection that has ended, and libfuse takes that
 * for the end; but ECONNABORTED (fuse_dev_do_read()) if a request was just being taken from the
 * queue, such as the release of a file that was closed before. libfuse would call that an
 * error.
 */
int fuse_device_attach(struct fuse_session *session);

/*
 * close(2) returns before the daemon has handled it: wait, at most @timeout_ns, for what the
 * kernel has told by now.
 */
void fuse_device_settle(uint64_t timeout_ns);
