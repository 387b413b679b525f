/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Messages of the control socket: each is checked in every field and answered. What a client
 * says wins it nothing but effects on its own memory and on files that it could open.
 */
#pragma once

#include "fs/client.h"
#include "fs/token.h"
#include "hugefuse_protocol.h"

struct control;

/* What a message works on. */
struct message_context {
	struct control *control;
	struct mount *mount;
	struct token_table *tokens;
};

/*
 * Receive one message from @client and answer it. 0: go on; -errno: the connection is to be
 * closed (it has ended, or the client does not keep to the protocol).
 */
int message_receive(const struct message_context *context, struct client *client);
