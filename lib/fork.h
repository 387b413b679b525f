/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a fork(2) needs: the child attaches for itself. And what it needs of lib/client.c. */
#pragma once

#include "hugefuse_protocol.h"
#include "region.h"

/* Once, before there are regions. */
void fork_install_handlers(void);

/*
 * Have the daemon know what @region describes, a part of a mapping of this process or its
 * parent, as a mapping of its own, where it is now. 0 or -errno. Async-signal-safe.
 */
int fork_attach(struct region *region);

/* The library's lock, with all signals blocked. */
void lock_library(void);
void unlock_library(void);
/*
 * Cover @region with userfaultfds, if it needs any, and send them with @msg, which says where
 * @region is. 0 or -errno.
 */
int call_with_fault_fds(const struct region *region, struct hugefuse_msg *msg,
			struct hugefuse_reply *ret_reply);
/* Hand the userfaultfds of @region over. 0 or -errno. */
int register_region(struct region *region);
/* Tell the daemon that a part of a mapping has gone. */
void tell_unmapped(const struct region *part, void *data);
