/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Connection of this process to a daemon's control socket: one request, one reply, in turn. Not
 * thread-safe; the library's lock is held.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "hugefuse_protocol.h"

#define CONNECTION_TIMEOUT_SECONDS 60

struct connection {
	char path[HUGEFUSE_SOCKET_PATH_MAX];
	int fd;    /* -1: not connected */
	ino_t ino; /* of the socket: the program may have closed it and used the number again */
	bool was_open; /* to a daemon that has gone; what it had is to be attached again */
	struct connection *next;
};

/* The connection to the socket @path; connects where that is necessary. NULL and errno. */
struct connection *connection_get(const char *path);
/* Whether it was connected anew, and is again. Once. */
bool connection_has_returned(struct connection *connection);
/* Forget all connections that a forked child has inherited. Async-signal-safe. */
void connection_forget_all(void);
/* Connect again if it is not. 0 or -errno. Async-signal-safe. */
int connection_open(struct connection *connection);

/*
 * Send @msg with @nr_fds descriptors, and wait for the reply, with a descriptor in @ret_fd if
 * it is not NULL. 0 or the reply's error, or -ENOTCONN where the daemon has gone or does not
 * answer. Async-signal-safe.
 */
int connection_call(struct connection *connection, const struct hugefuse_msg *msg,
		    const int *fds, unsigned int nr_fds, struct hugefuse_reply *ret_reply,
		    int *ret_fd);
