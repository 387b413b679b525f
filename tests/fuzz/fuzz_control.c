/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The control socket: requests for tokens, and messages with any content and descriptors, over
 * a connection as any process makes it. Each packet gets one answer, or the end of the
 * connection; and when the client has gone nothing is left of it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "fs/control.h"
#include "fuzz_mount.h"
#include "hugefuse_protocol.h"
#include "input.h"

#define NR_IDS    4
#define ANSWER_MS 5000
#define MAX_OPS   40
#define UNMAP_ALL (UINT64_MAX / FUZZ_PAGE_SIZE * FUZZ_PAGE_SIZE)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct session {
	struct fuzz_mount *fuzz;
	int sock;
	struct hugefuse_ioc_map maps[MAX_OPS]; /* tokens, the last one last */
	unsigned int nr_maps;
	struct hugefuse_reply replies[NR_IDS]; /* the last mappings */
	unsigned int nr_replies;
};

static void connect_to(struct session *session)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	snprintf(address.sun_path, sizeof(address.sun_path), "%s.sock", session->fuzz->dir);
	session->sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (session->sock < 0 ||
	    connect(session->sock, (struct sockaddr *)&address, sizeof(address)) < 0)
		fuzz_fail("cannot connect");
}

static void request(struct session *session, struct input *input)
{
	static const int access_modes[] = {O_RDWR, O_RDONLY, O_WRONLY, 3};
	struct mount *mount = &session->fuzz->mount;
	struct inode *inode = fuzz_mount_file(session->fuzz, take_byte(input));
	uint8_t odd = take_byte(input);
	struct hugefuse_ioc_map map = {
		.version = odd == 255 ? take_byte(input) : HUGEFUSE_PROTOCOL_VERSION,
		.flags = take_byte(input) & (odd == 254 ? 255 : 7),
		.offset = take_number(input),
		.length = take_number(input),
		.reserved = odd == 253,
	};

	if (control_request_map(mount->control, inode,
				access_modes[odd < 240 ? odd % 2 : odd % 4], false, getpid(),
				getuid(), &map) == 0)
		session->maps[session->nr_maps++] = map;
	inode_put(mount, inode, 1);
}

static int make_fd(struct input *input)
{
	switch (take_byte(input) % 4) {
	case 0:
		return (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | 1);
	case 1:
		return memfd_create("fuzz", MFD_CLOEXEC);
	case 2:
		return socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	default:
		return open("/dev/null", O_RDWR | O_CLOEXEC);
	}
}

static int send_packet(int sock, const void *packet, size_t len, const int *fds,
		       unsigned int nr)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(32 * sizeof(int))];
	} control = {0};
	struct iovec iov = {(void *)packet, len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (nr > 0) {
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(nr * sizeof(int));
		control.header.cmsg_len = CMSG_LEN(nr * sizeof(int));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		memcpy(CMSG_DATA(&control.header), fds, nr * sizeof(int));
	}
	return sendmsg(sock, &msg, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* false: the connection has ended. */
static bool receive(struct session *session, struct hugefuse_reply *reply)
{
	struct pollfd poll_fd = {.fd = session->sock, .events = POLLIN};
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct iovec iov = {reply, sizeof(*reply)};
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	ssize_t len;
	int fd;

	if (poll(&poll_fd, 1, ANSWER_MS) == 0)
		fuzz_fail("a message was not answered");
	len = recvmsg(session->sock, &msg, MSG_CMSG_CLOEXEC);
	if (len == (ssize_t)sizeof(*reply) && msg.msg_controllen > 0) {
		memcpy(&fd, CMSG_DATA(&control.header), sizeof(fd));
		close(fd);
	}
	if (len > 0 && len != (ssize_t)sizeof(*reply))
		fuzz_fail("an answer has the wrong length");
	return len > 0;
}

static const struct hugefuse_reply *any_reply(const struct session *session, uint8_t which)
{
	return &session->replies[which % NR_IDS];
}

/* A message whose fields are mostly right, but for one or the other. */
static void fill_message(const struct session *session, struct input *input,
			 struct hugefuse_msg *msg)
{
	const struct hugefuse_reply *known = any_reply(session, take_byte(input));
	uint8_t wrong = take_byte(input);

	*msg = (struct hugefuse_msg){
		.type = take_byte(input) % (wrong & 1 ? 256 : 6),
		.mapping = wrong & 2 ? take_number(input) : known->mapping,
		.key = {known->key[0], known->key[1]},
		.address = take_number(input),
		.length = take_number(input),
		.shard_length = take_number(input),
		.offset = take_number(input),
	};
	if (msg->type == HUGEFUSE_MSG_ATTACH && !(wrong & 4) && session->nr_maps > 0)
		memcpy(msg->key, session->maps[session->nr_maps - 1].token, sizeof(msg->key));
	if (wrong & 8)
		msg->key[take_byte(input) % 2] = take_number(input);
}

static bool message(struct session *session, struct input *input)
{
	struct hugefuse_reply reply;
	struct hugefuse_msg msg;
	unsigned int nr = take_byte(input);
	bool ended;
	int fds[32];

	fill_message(session, input, &msg);
	nr = nr < 240 ? nr % 4 : nr % 32;
	if (msg.type != HUGEFUSE_MSG_REGISTER && nr < 3)
		nr = 0;
	for (unsigned int i = 0; i < nr; i++) {
		fds[i] = make_fd(input);
		if (fds[i] < 0)
			nr = i;
	}
	msg.nr_shards = take_byte(input) == 255 ? take_byte(input) : nr;
	ended = send_packet(session->sock, &msg, sizeof(msg), fds, nr) < 0;
	for (unsigned int i = 0; i < nr; i++)
		close(fds[i]);
	if (ended || !receive(session, &reply))
		return false;
	if (reply.error == 0 && reply.mapping)
		session->replies[session->nr_replies++ % NR_IDS] = reply;
	return true;
}

/* A packet of any length. */
static bool packet(struct session *session, struct input *input)
{
	struct hugefuse_reply reply;
	uint8_t bytes[256];
	size_t len = take_byte(input);

	take_bytes(input, bytes, len);
	return len == 0 || (send_packet(session->sock, bytes, len, NULL, 0) == 0 &&
			    receive(session, &reply));
}

/* The process does not end, so it says that it has unmapped what it has. */
static bool unmap_all(struct session *session)
{
	struct hugefuse_msg msg = {.type = HUGEFUSE_MSG_UNMAP, .length = UNMAP_ALL};
	struct hugefuse_reply reply;

	for (uint64_t id = 0; id < session->nr_replies && id < NR_IDS; id++) {
		msg.mapping = session->replies[id].mapping;
		if (send_packet(session->sock, &msg, sizeof(msg), NULL, 0) < 0 ||
		    !receive(session, &reply))
			return false;
	}
	return true;
}

/* What was not used would be kept for some seconds. */
static void cancel_tokens(struct session *session)
{
	for (unsigned int i = 0; i < session->nr_maps; i++)
		control_cancel(session->fuzz->mount.control, getpid(), session->maps[i].token);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static unsigned int nr_runs, nr_stuck;
	static struct fuzz_mount *fuzz;
	struct session session = {.sock = -1};
	struct input input = {data, size};
	bool open = true;

	if (!fuzz)
		fuzz = fuzz_mount_new();
	session.fuzz = fuzz;
	connect_to(&session);
	for (int i = 0; i < MAX_OPS && input.left > 0 && open; i++) {
		switch (take_byte(&input) % 8) {
		case 0:
		case 1:
		case 2:
			request(&session, &input);
			break;
		case 3:
			open = packet(&session, &input);
			break;
		default:
			open = message(&session, &input);
		}
		if (session.nr_replies == NR_IDS)
			break;
	}
	/* What was registered on a connection that has ended lives as long as its memory: ours.
	 */
	if ((!open || !unmap_all(&session)) && session.nr_replies > 0)
		nr_stuck++;
	close(session.sock);
	cancel_tokens(&session);
	if (nr_stuck == 32 || ++nr_runs % 256 == 0) {
		nr_stuck = 0;
		fuzz_mount_restart(fuzz);
		fuzz_mount_check(fuzz);
	}
	return 0;
}
