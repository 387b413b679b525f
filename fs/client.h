/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Client: a process that maps through the control socket. It is known by its pid, watched by a
 * pidfd, and ends when its process exits, or calls exec: then all that it had mapped is
 * released.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "fs/lock.h"
#include "fs/process.h"

struct mapping;

struct client {
	pid_t pid;                /* set at init */
	uint64_t start_time;      /* set at init; as process_start_time() */
	uid_t uid;                /* set at init */
	int pidfd;                /* set at init */
	int socket;               /* open as long as the client lives */
	_Atomic bool populating;  /* a populate message is not answered yet */
	uint64_t disconnected_ns; /* the control thread; when that was */
	bool connected;           /* the control thread; false once the client has closed it */
	bool adopted;             /* set at init; it has not connected to this daemon yet */
	bool dropped; /* the control thread; out of its list, others may still hold references
		       */
	struct process process;       /* set at init; as it was when it connected */
	_Atomic int pagemap_fd;       /* -1 until used */
	struct client *next;          /* control->lock */
	struct mutex lock;            /* LOCK_RANK_CLIENT */
	struct mapping *mappings;     /* lock */
	uint32_t nr_mappings;         /* lock */
	struct mapping *_Atomic died; /* of those, since the dead were last taken */
	_Atomic uint64_t nr_refs;     /* the control thread's list and each mapping's */
};

/* A client for the process @pid on @socket (taken over on success). -ESRCH, -ENOMEM, -errno. */
int client_new(pid_t pid, uid_t uid, int socket, struct client **ret_client);
struct client *client_ref(struct client *client);
void client_put(struct client *client);

/* Take a mapping into the client's list, which takes over the caller's reference. */
void client_add_mapping(struct client *client, struct mapping *mapping);
/* The mapping with number @id, with a reference, or NULL; of any client where @client is NULL.
 */
struct mapping *client_find_mapping(struct client *client, uint64_t id);
/* Nothing of @mapping is mapped any more: it is to be taken. Under any lock. */
void client_mapping_died(struct mapping *mapping);
/*
 * Take dead mappings, or with @all every one, which is dead then, out of the list; they are
 * chained by ->next.
 */
struct mapping *client_take_mappings(struct client *client, bool all);

/* The connection has ended: what was attached and never registered on it is dead. */
void client_abandon_unregistered(struct client *client);

/* Whether the process has exited. */
/* Whether the memory that it had when it connected has gone: it has called exec. */
bool client_memory_is_gone(struct client *client);
bool client_has_exited(const struct client *client);
/* A descriptor of /proc/PID/pagemap, which stays the client's; -errno. */
int client_pagemap(struct client *client);

/* The process that thread @tid belongs to, or -errno. */
pid_t client_process_of(pid_t tid);
