/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Connections. The descriptor is moved out of the way of the program's own, and is checked
 * before each use to be still the socket that was opened.
 */
#include "connection.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "system.h"

#define FD_OUT_OF_THE_WAY 512

static struct connection *connections; /* the library's lock */

static bool is_open(const struct connection *connection)
{
	struct stat st;

	return connection->fd >= 0 && fstat(connection->fd, &st) == 0 && S_ISSOCK(st.st_mode) &&
	       st.st_ino == connection->ino;
}

static void connection_close(struct connection *connection)
{
	if (is_open(connection))
		close(connection->fd);
	connection->was_open = connection->was_open || connection->fd >= 0;
	connection->fd = -1;
}

bool connection_has_returned(struct connection *connection)
{
	bool was_open = connection->was_open;

	if (!is_open(connection))
		return false;
	connection->was_open = false;
	return was_open;
}

static int move_out_of_the_way(int fd)
{
	int moved = fcntl(fd, F_DUPFD_CLOEXEC, FD_OUT_OF_THE_WAY);

	if (moved < 0)
		return fd;
	close(fd);
	return moved;
}

int connection_open(struct connection *connection)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct timeval timeout = {.tv_sec = CONNECTION_TIMEOUT_SECONDS};
	struct stat st;
	int fd, r;

	if (is_open(connection))
		return 0;
	connection_close(connection);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	fd = move_out_of_the_way(fd);
	memcpy(address.sun_path, connection->path, sizeof(connection->path));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	do
		r = connect(fd, (struct sockaddr *)&address, sizeof(address));
	while (r < 0 && errno == EINTR);
	if (r < 0 || fstat(fd, &st) < 0) {
		close(fd);
		return -ENOTCONN;
	}
	connection->fd = fd;
	connection->ino = st.st_ino;
	return 0;
}

struct connection *connection_get(const char *path)
{
	struct connection *connection;
	int r;

	for (connection = connections; connection; connection = connection->next) {
		if (strcmp(connection->path, path) == 0)
			break;
	}
	if (!connection) {
		/* One for each mount; malloc(3) may be what is mapping. */
		connection = system_mmap(NULL, sizeof(*connection), PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (connection == MAP_FAILED)
			return NULL;
		strncpy(connection->path, path, sizeof(connection->path) - 1);
		connection->fd = -1;
		connection->next = connections;
		connections = connection;
	}
	r = connection_open(connection);
	if (r < 0) {
		errno = -r;
		return NULL;
	}
	return connection;
}

void connection_forget_all(void)
{
	for (struct connection *connection = connections; connection;
	     connection = connection->next) {
		connection_close(connection);
		connection->was_open = false;
	}
}

static int send_msg(int fd, const struct hugefuse_msg *hugefuse_msg, const int *fds,
		    unsigned int nr_fds)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(HUGEFUSE_MAX_SHARDS * sizeof(int))];
	} control = {0};
	struct iovec iov = {(void *)hugefuse_msg, sizeof(*hugefuse_msg)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n;

	if (nr_fds > 0) {
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(nr_fds * sizeof(int));
		memcpy(CMSG_DATA(&control.header), fds, nr_fds * sizeof(int));
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(nr_fds * sizeof(int));
	}
	do
		n = sendmsg(fd, &msg, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof(*hugefuse_msg) ? 0 : -ENOTCONN;
}

static int receive_reply(int fd, struct hugefuse_reply *reply, int *ret_fd)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = {reply, sizeof(*reply)};
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *cmsg;
	ssize_t n;
	int got = -1;

	do
		n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n != (ssize_t)sizeof(*reply))
		return -ENOTCONN;
	cmsg = CMSG_FIRSTHDR(&msg);
	if (cmsg && cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_RIGHTS)
		memcpy(&got, CMSG_DATA(cmsg), sizeof(got));
	if (ret_fd)
		*ret_fd = got;
	else if (got >= 0)
		close(got);
	return 0;
}

int connection_call(struct connection *connection, const struct hugefuse_msg *msg,
		    const int *fds, unsigned int nr_fds, struct hugefuse_reply *ret_reply,
		    int *ret_fd)
{
	struct hugefuse_reply reply = {0};
	int fd = -1, r;

	if (!is_open(connection))
		return -ENOTCONN;
	r = send_msg(connection->fd, msg, fds, nr_fds);
	if (r == 0)
		r = receive_reply(connection->fd, &reply, &fd);
	if (r < 0) {
		connection_close(connection);
		return r;
	}
	if (reply.error < 0 && fd >= 0) {
		close(fd);
		fd = -1;
	}
	if (ret_fd)
		*ret_fd = fd;
	else if (fd >= 0)
		close(fd);
	if (ret_reply)
		*ret_reply = reply;
	return reply.error;
}
