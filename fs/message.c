/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Messages of the control socket. The socket is non-blocking both ways: a client that does not
 * read its answers is dropped. Descriptors that come with a message are closed unless the
 * message takes them.
 */
#include "fs/message.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fs/control.h"
#include "fs/fault_service.h"
#include "fs/log.h"
#include "fs/populate.h"
#include "fs/split.h"

#define MAPPINGS_PER_CLIENT 65536 /* the kernel's own limit: vm.max_map_count */

struct received {
	struct hugefuse_msg msg;
	int fds[HUGEFUSE_MAX_SHARDS];
	uint32_t nr_fds;
};

static int send_reply(struct client *client, const struct hugefuse_reply *reply, int fd)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct iovec iov = {(void *)reply, sizeof(*reply)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (fd >= 0) {
		control.header =
			(struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
		memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control);
	}
	if (sendmsg(client->socket, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof(*reply))
		return -EPIPE;
	return 0;
}

static int send_error(struct client *client, int error)
{
	struct hugefuse_reply reply = {.error = error};

	return send_reply(client, &reply, -1);
}

/*
 * Reserve what a truncation may have taken since, and the same in the kernel's own map: for a
 * private mapping the client's mmap(2) does that.
 */
static int attach_reservation(struct mapping *mapping)
{
	struct backing_file *file = mapping->inode->backing_file;
	int64_t r;

	if (mapping->mount->backing->reserves_size || mapping->flags & HUGEFUSE_MAP_NORESERVE)
		return 0;
	if (mapping->flags & HUGEFUSE_MAP_PRIVATE)
		return backing_can_reserve(file->backing, mapping->to - mapping->from);
	rwsem_read_lock(&mapping->inode->lock);
	r = page_reserve(mapping->space, mapping->from, mapping->to, &mapping->added);
	if (r >= 0)
		r = backing_can_reserve(
			file->backing,
			region_map_count(&mapping->added, mapping->from, mapping->to));
	if (r >= 0 && !file->backing->reserves_size)
		r = state_reserve(&mapping->mount->state, mapping->inode->ino, mapping->from,
				  mapping->to);
	if (r >= 0)
		r = file->backing->ops->reserve(file, mapping->from, mapping->to);
	rwsem_read_unlock(&mapping->inode->lock);
	return (int)(r < 0 ? r : 0);
}

static struct hugefuse_reply mapping_reply(const struct mapping *mapping)
{
	return (struct hugefuse_reply){
		.mapping = mapping->id,
		.key = {mapping->key[0], mapping->key[1]},
	};
}

/* Whoever has a descriptor of the file's pages can map and store into them. */
static void expect_stores(const struct mapping *mapping)
{
	struct inode *inode = mapping->inode;
	struct page_space *pages;

	rwsem_write_lock(&inode->lock);
	pages = inode->pages;
	if (pages)
		split_open_locked(mapping->mount, inode, pages, mapping->access_mode, false);
	rwsem_write_unlock(&inode->lock);
}

static int message_attach(const struct message_context *context, struct client *client,
			  struct received *received)
{
	struct mapping *mapping;
	struct backing_file *file;
	struct hugefuse_reply reply;
	int fd, r;

	mapping = token_redeem(context->tokens, received->msg.key, client->pid);
	if (!mapping)
		return send_error(client, -EPERM);
	r = client->nr_mappings < MAPPINGS_PER_CLIENT ? attach_reservation(mapping) : -ENOMEM;
	if (r < 0) {
		mapping_abort(mapping);
		return send_error(client, r);
	}
	file = mapping->inode->backing_file;
	expect_stores(mapping);
	fd = file->backing->ops->file_descriptor(file, mapping->access_mode);
	if (fd < 0) {
		mapping_abort(mapping);
		return send_error(client, fd);
	}
	mapping_commit(mapping);
	reply = mapping_reply(mapping);
	client_add_mapping(client, mapping);
	r = send_reply(client, &reply, fd);
	close(fd);
	return r;
}

/* Whether @fd is a userfaultfd, and initialised: one that is not polls as an error. */
static bool is_userfaultfd(int fd)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
	char path[40], target[32];
	ssize_t len;
	int r;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	len = readlink(path, target, sizeof(target) - 1);
	if (len < 0)
		return false;
	target[len] = '\0';
	if (strcmp(target, "anon_inode:[userfaultfd]") != 0)
		return false;
	fcntl(fd, F_SETFL, O_NONBLOCK);
	do
		r = poll(&poll_fd, 1, 0);
	while (r < 0 && errno == EINTR);
	return r >= 0 && !(poll_fd.revents & POLLERR);
}

/* Whether @received describes all of @mapping, and has a userfaultfd for each part of it. */
static int check_register(const struct mapping *mapping, const struct received *received)
{
	const struct hugefuse_msg *msg = &received->msg;
	uint64_t page_size = mapping->mount->backing->page_size;
	uint64_t length = (uint64_t)(mapping->to - mapping->from) * page_size;

	if (msg->length != length || msg->address == 0 || msg->address % page_size != 0 ||
	    msg->address + length < length || msg->nr_shards != received->nr_fds)
		return -EINVAL;
	if (received->nr_fds == 0)
		return 0;
	if (mapping->mount->backing->reserves_size)
		return -EINVAL; /* the kernel serves its faults */
	if (msg->shard_length == 0 || msg->shard_length % page_size != 0 ||
	    (length - 1) / msg->shard_length + 1 != received->nr_fds)
		return -EINVAL;
	for (uint32_t i = 0; i < received->nr_fds; i++) {
		if (!is_userfaultfd(received->fds[i]))
			return -EINVAL;
	}
	return 0;
}

/* What a daemon that comes after this one has to know of it. */
static int note_mapping(const struct mapping *mapping, uint64_t address)
{
	const struct client *client = mapping->client;
	int64_t nr = mapping->to - mapping->from;
	struct state_mapping record = {
		.id = mapping->id,
		.key = {mapping->key[0], mapping->key[1]},
		.ino = mapping->inode->ino,
		.address = address,
		.length = (uint64_t)nr * mapping->mount->backing->page_size,
		.from = mapping->from,
		.to = mapping->to,
		.start_time = client->start_time,
		.pid = client->pid,
		.uid = client->uid,
		.flags = mapping->flags,
		.access_mode = mapping->access_mode,
		.forked = mapping->forked,
	};

	/* With thp nothing is reserved for it: it needs no successor to know of it. */
	return mapping->mount->backing->reserves_size
		       ? 0
		       : state_add_mapping(&mapping->mount->state, &record);
}

/* Whether it is one that was attached again, and is registered where it was then. */
static bool is_at(const struct mapping *mapping, uint64_t address)
{
	const struct segments *segments = mapping->segments;

	return mapping->adopted && mapping->nr_uffds == 0 && segments->nr == 1 &&
	       segments->segment[0].start == address &&
	       segments->segment[0].idx == mapping->from;
}

static int register_mapping(const struct message_context *context, struct mapping *mapping,
			    struct received *received)
{
	int r;

	if (mapping->segments && !is_at(mapping, received->msg.address))
		return -EEXIST;
	r = check_register(mapping, received);
	if (r == 0)
		r = note_mapping(mapping, received->msg.address);
	if (r == 0 && !mapping->segments)
		r = mapping_set_address(mapping, received->msg.address, received->msg.length);
	if (r < 0)
		return r;
	memcpy(mapping->uffd, received->fds, received->nr_fds * sizeof(received->fds[0]));
	mapping->shard_pages =
		(int64_t)(received->msg.shard_length / context->mount->backing->page_size);
	mapping->nr_uffds = received->nr_fds;
	received->nr_fds = 0; /* they are the mapping's now */
	r = fault_service_add(context->mount->fault_service, mapping);
	/* Nobody reads them: they have to be closed, or the client waits for that for ever. */
	if (r < 0)
		mapping_unmap(mapping, received->msg.address,
			      received->msg.address + received->msg.length);
	return r;
}

static int message_register(const struct message_context *context, struct client *client,
			    struct received *received)
{
	struct mapping *mapping = client_find_mapping(client, received->msg.mapping);
	int r;

	if (!mapping)
		return send_error(client, -ENOENT);
	r = register_mapping(context, mapping, received);
	mapping_put(mapping);
	if (r < 0)
		control_reap(context->control, client);
	return send_error(client, r);
}

static int message_unmap(const struct message_context *context, struct client *client,
			 struct received *received)
{
	const struct hugefuse_msg *msg = &received->msg;
	struct mapping *mapping = client_find_mapping(client, msg->mapping);
	uint64_t page_size = context->mount->backing->page_size;
	int r;

	if (!mapping)
		return send_error(client, 0); /* the unmap message of the kernel was faster */
	r = msg->address % page_size != 0 || msg->length % page_size != 0 ||
			    msg->address + msg->length < msg->address
		    ? -EINVAL
		    : mapping_unmap(mapping, msg->address, msg->address + msg->length);
	mapping_put(mapping);
	control_reap(context->control, client);
	return send_error(client, r);
}

static void populate_done(void *data)
{
	struct client *client = data;

	client->populating = false;
	/* Whoever waits for what cannot be sent hears of that. */
	if (send_error(client, 0) < 0)
		shutdown(client->socket, SHUT_RDWR);
	client_put(client);
}

static int message_populate(const struct message_context *context, struct client *client,
			    struct received *received)
{
	const struct hugefuse_msg *msg = &received->msg;
	uint64_t page_size = context->mount->backing->page_size;
	struct mapping *mapping = client_find_mapping(client, msg->mapping);
	int64_t idx, nr = (int64_t)(msg->length / page_size);
	int r = -EINVAL;

	if (!mapping)
		return send_error(client, -ENOENT);
	idx = mapping_index_at(mapping, msg->address);
	if (context->mount->backing->reserves_size) {
		mapping_put(mapping);
		return send_error(client, 0); /* what is reserved by its size is populated */
	}
	if (client->populating) {
		r = -EBUSY; /* one at a time: they would pile up on the fault threads */
	} else if (idx >= 0 && nr > 0 && nr <= mapping->to - idx) {
		client->populating = true;
		client_ref(client);
		r = populate_range(context->mount->fault_service, mapping, idx, idx + nr,
				   populate_done, client);
		if (r < 0) {
			client->populating = false;
			client_put(client);
		}
	}
	mapping_put(mapping);
	return r < 0 ? send_error(client, r) : 0;
}

static int message_fork(const struct message_context *context, struct client *client,
			struct received *received)
{
	const struct hugefuse_msg *msg = &received->msg;
	uint64_t page_size = context->mount->backing->page_size;
	int64_t from = (int64_t)(msg->offset / page_size);
	int64_t nr = (int64_t)(msg->length / page_size);
	struct mapping *parent, *mapping;
	struct hugefuse_reply reply;
	int r = -EINVAL;

	if (msg->address == 0 && received->nr_fds > 0)
		return send_error(client, r);
	parent = client_find_mapping(NULL, msg->mapping);
	if (!parent || parent->client->uid != client->uid || parent->key[0] != msg->key[0] ||
	    parent->key[1] != msg->key[1]) {
		mapping_put(parent);
		return send_error(client, -EPERM);
	}
	if (client->nr_mappings >= MAPPINGS_PER_CLIENT)
		r = -ENOMEM;
	else if (nr > 0 && from >= parent->from && from < parent->to && nr <= parent->to - from)
		r = mapping_new_forked(parent, from, from + nr, &mapping);
	mapping_put(parent);
	if (r < 0)
		return send_error(client, r);
	reply = mapping_reply(mapping);
	client_add_mapping(client, mapping_ref(mapping));
	if (msg->address != 0)
		r = register_mapping(context, mapping, received);
	if (r < 0) {
		mapping_unmap(mapping, 0, UINT64_MAX);
		control_reap(context->control, client);
	}
	mapping_put(mapping);
	return r < 0 ? send_error(client, r) : send_reply(client, &reply, -1);
}

/* A range that this client had mapped when the daemon died that we have taken over from. */
static int message_reattach(const struct message_context *context, struct client *client,
			    struct received *received)
{
	const struct hugefuse_msg *msg = &received->msg;
	uint64_t page_size = context->mount->backing->page_size;
	int64_t from = (int64_t)(msg->offset / page_size);
	int64_t nr = (int64_t)(msg->length / page_size);
	struct mapping *old = client_find_mapping(client, msg->mapping), *mapping;
	struct hugefuse_reply reply;
	int r = -EINVAL;

	if (!old || !old->adopted || old->nr_uffds > 0 || old->key[0] != msg->key[0] ||
	    old->key[1] != msg->key[1])
		r = -EPERM;
	else if (nr > 0 && from >= old->from && from < old->to && nr <= old->to - from)
		r = mapping_split(old, msg->address, from, from + nr, &mapping);
	mapping_put(old);
	if (r < 0)
		return send_error(client, r);
	reply = mapping_reply(mapping);
	client_add_mapping(client, mapping);
	r = note_mapping(mapping, msg->address);
	control_reap(context->control, client);
	return r < 0 ? send_error(client, r) : send_reply(client, &reply, -1);
}

typedef int (*message_handler)(const struct message_context *context, struct client *client,
			       struct received *received);

static const message_handler handlers[] = {
	[HUGEFUSE_MSG_ATTACH] = message_attach, [HUGEFUSE_MSG_REGISTER] = message_register,
	[HUGEFUSE_MSG_UNMAP] = message_unmap,   [HUGEFUSE_MSG_POPULATE] = message_populate,
	[HUGEFUSE_MSG_FORK] = message_fork,     [HUGEFUSE_MSG_REATTACH] = message_reattach,
};

/* All descriptors that came, be they more than one may send. */
static int take_fds(struct msghdr *msg, struct received *received)
{
	int r = 0, fd;

	for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
		if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; CMSG_LEN((i + 1) * sizeof(int)) <= cmsg->cmsg_len; i++) {
			memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof(int), sizeof(fd));
			if (received->nr_fds < HUGEFUSE_MAX_SHARDS) {
				received->fds[received->nr_fds++] = fd;
			} else {
				close(fd);
				r = -EPROTO;
			}
		}
	}
	return msg->msg_flags & (MSG_TRUNC | MSG_CTRUNC) ? -EPROTO : r;
}

static int receive(struct client *client, struct received *received)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(HUGEFUSE_MAX_SHARDS * sizeof(int))];
	} control;
	struct iovec iov = {&received->msg, sizeof(received->msg)};
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	ssize_t len;
	int r;

	len = recvmsg(client->socket, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (len < 0)
		return errno == EAGAIN || errno == EINTR ? -EAGAIN : -errno;
	r = take_fds(&msg, received);
	if (len == 0)
		return -EPIPE;
	return len == sizeof(received->msg) ? r : -EPROTO;
}

int message_receive(const struct message_context *context, struct client *client)
{
	struct received received = {.nr_fds = 0};
	uint32_t type;
	int r;

	r = receive(client, &received);
	type = received.msg.type;
	if (r == 0 && (type >= sizeof(handlers) / sizeof(handlers[0]) || !handlers[type]))
		r = -EPROTO;
	if (r == 0)
		r = handlers[type](context, client, &received);
	if (r < 0 && r != -EAGAIN && r != -EPIPE)
		log_debug(LOG_AREA_CONTROL, "process %d: message of type %u: %s", client->pid,
			  type, strerror(-r));
	for (uint32_t i = 0; i < received.nr_fds; i++)
		close(received.fds[i]);
	return r == -EAGAIN ? 0 : r;
}
