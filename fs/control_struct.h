/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What fs/control.c and fs/control_map.c share. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "fs/control.h"
#include "fs/message.h"
#include "fs/token.h"

struct control {
	struct mount *mount;
	struct message_context context;
	struct token_table tokens;
	char socket_path[HUGEFUSE_SOCKET_PATH_MAX];
	int listen_fd, epoll_fd, event_fd;
	pthread_t thread;
	_Atomic bool stop;
	struct mutex lock;         /* LOCK_RANK_CONTROL */
	struct client *clients;    /* lock; changed by the thread alone */
	uint32_t nr_clients;       /* lock */
	struct waitqueue released; /* woken when a mapping has been released */
};
