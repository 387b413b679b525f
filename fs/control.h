/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Control: the socket on which clients attach their mappings, the tokens that entitle them to,
 * and the end of clients.
 */
#pragma once

#include <sys/types.h>

#include "fs/mapping.h"
#include "fs/mount.h"
#include "hugefuse_protocol.h"

struct client;
struct control;

/* Listen on @socket_path and start the thread. 0, -errno. */
int control_new(struct mount *mount, const char *socket_path, struct control **ret_control);
/* Drop all clients and stop the thread. The fault service is still there, and is freed before
 * control_free(). */
void control_stop(struct control *control);
void control_free(struct control *control);

/*
 * HUGEFUSE_IOC_MAP of thread @tid of user @uid on @inode, open with @open_flags: check, reserve
 * and make a token. 0 and @map's answer, or -EINVAL, -EACCES, -ENOMEM, -EMFILE (too many
 * tokens).
 */
int control_request_map(struct control *control, struct inode *inode, int open_flags,
			bool is_cached, pid_t tid, uid_t uid, struct hugefuse_ioc_map *map);

/* HUGEFUSE_IOC_CANCEL of thread @tid: give up what one of its process's tokens stands for. 0,
 * -ENOENT, or -errno where the thread is gone. */
int control_cancel(struct control *control, pid_t tid, const uint64_t token[2]);

/* Give back what tokens reserve whose time is over, or whose process has gone. NULL-safe. */
void control_expire_tokens(struct control *control);

/* Call @visit with every attached mapping, until it returns non-zero, which is returned. */
int control_for_each_mapping(struct control *control, int (*visit)(struct mapping *, void *),
			     void *data);
/*
 * A client that a daemon had which died, and that may connect to this one, or not. Before the
 * thread runs. It is in the list, which has the only reference. 0 or -errno.
 */
int control_adopt_client(struct control *control, pid_t pid, uid_t uid,
			 struct client **ret_client);
/* The one of process @pid, or NULL. The control thread, or before it runs. */
struct client *control_find_adopted(struct control *control, pid_t pid);
/* Release the mappings of @client that are dead. */
void control_reap(struct control *control, struct client *client);
/* Whether a client's process has exited and its mappings are not released yet. */
bool control_has_exited_client(struct control *control);
/* How many mappings there are. */
uint32_t control_nr_mappings(struct control *control);
/* Let the control thread look for mappings that are dead. */
void control_poke(struct control *control);
/* Wait until there are no mappings, at most @timeout_ns: 0, -ETIMEDOUT. */
int control_wait_idle(struct control *control, uint64_t timeout_ns);
