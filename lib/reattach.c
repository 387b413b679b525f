/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Attaching again. What the daemon does not know, or refuses, stays with the kernel. */
#include "reattach.h"

#include <errno.h>
#include <stddef.h>

#include "fork.h"
#include "region.h"

static void attach_again(struct region *region)
{
	struct hugefuse_msg msg = {
		.type = HUGEFUSE_MSG_REATTACH,
		.mapping = region->mapping,
		.key = {region->key[0], region->key[1]},
		.address = (uintptr_t)region->addr,
		.length = region->length,
		.offset = region->offset,
	};
	struct hugefuse_reply reply;

	if (connection_call(region->connection, &msg, NULL, 0, &reply, NULL) < 0)
		return;
	region->mapping = reply.mapping;
	region->key[0] = reply.key[0];
	region->key[1] = reply.key[1];
	region->first_offset = region->offset;
	register_region(region);
}

static void attach_all(struct connection *connection)
{
	struct region *region;

	if (!connection_has_returned(connection))
		return;
	for (char *end = NULL; (region = region_behind(end));
	     end = region->addr + region->length) {
		if (region->connection == connection && region->mapping)
			attach_again(region);
	}
}

struct connection *reattach_connection(const char *path)
{
	struct connection *connection = connection_get(path);

	if (connection)
		attach_all(connection);
	return connection;
}

int reattach_call(struct connection *connection, const struct hugefuse_msg *msg,
		  struct hugefuse_reply *ret_reply, int *ret_fd)
{
	int r = connection_call(connection, msg, NULL, 0, ret_reply, ret_fd);

	if (r != -ENOTCONN || connection_open(connection) < 0)
		return r;
	attach_all(connection);
	return connection_call(connection, msg, NULL, 0, ret_reply, ret_fd);
}
