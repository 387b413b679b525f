/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * After the daemon has died the kernel serves this process's faults. When another one has taken
 * the mount over, the next call of the library finds the socket again, and attaches all that is
 * mapped. The library's lock is held.
 */
#pragma once

#include "connection.h"

/* connection_get(), with what is mapped attached again. NULL and errno. */
struct connection *reattach_connection(const char *path);
/* connection_call(); where the daemon has gone, and there is another, it is asked. */
int reattach_call(struct connection *connection, const struct hugefuse_msg *msg,
		  struct hugefuse_reply *ret_reply, int *ret_fd);
