/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Raw client: the protocol, step by step. */
#include "raw_client.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define FDS_MAX 253 /* the kernel's SCM_MAX_FD */

int raw_request(int fd, uint32_t flags, uint64_t offset, uint64_t length,
		struct hugefuse_ioc_map *ret_map)
{
	*ret_map = (struct hugefuse_ioc_map){
		.version = HUGEFUSE_PROTOCOL_VERSION,
		.flags = flags,
		.offset = offset,
		.length = length,
	};
	return ioctl(fd, HUGEFUSE_IOC_MAP, ret_map) < 0 ? -errno : 0;
}

int raw_connect(const char *path, int timeout_ms)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct timeval timeout = {timeout_ms / 1000, timeout_ms % 1000 * 1000};
	int sock, r;

	strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (sock < 0)
		return -errno;
	setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	if (connect(sock, (struct sockaddr *)&address, sizeof(address)) < 0) {
		r = -errno;
		close(sock);
		return r;
	}
	return sock;
}

int raw_send(int sock, const void *packet, size_t len, const int *fds, unsigned int nr_fds)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(FDS_MAX * sizeof(int))];
	} control = {0};
	struct iovec iov = {(void *)packet, len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (nr_fds > 0) {
		control.header = (struct cmsghdr){CMSG_LEN(nr_fds * sizeof(int)), SOL_SOCKET,
						  SCM_RIGHTS};
		memcpy(CMSG_DATA(&control.header), fds, nr_fds * sizeof(int));
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(nr_fds * sizeof(int));
	}
	return sendmsg(sock, &msg, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int raw_receive(int sock, struct hugefuse_reply *ret_reply, int *ret_fd)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = {ret_reply, sizeof(*ret_reply)};
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *cmsg;
	ssize_t len;
	int fd = -1;

	memset(ret_reply, 0, sizeof(*ret_reply));
	len = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	if (len < 0)
		return -errno;
	cmsg = CMSG_FIRSTHDR(&msg);
	if (cmsg && cmsg->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(cmsg), sizeof(fd));
	if (ret_fd)
		*ret_fd = fd;
	else if (fd >= 0)
		close(fd);
	return len == sizeof(*ret_reply) ? 0 : -EPIPE;
}

int raw_call(int sock, const struct hugefuse_msg *msg, const int *fds, unsigned int nr_fds,
	     struct hugefuse_reply *ret_reply, int *ret_fd)
{
	struct hugefuse_reply reply;
	int r;

	if (ret_fd)
		*ret_fd = -1;
	r = raw_send(sock, msg, sizeof(*msg), fds, nr_fds);
	if (r == 0)
		r = raw_receive(sock, &reply, ret_fd);
	if (r == 0 && ret_reply)
		*ret_reply = reply;
	return r == 0 ? reply.error : r;
}

int raw_attach(int sock, const uint64_t token[2], struct hugefuse_reply *ret_reply, int *ret_fd)
{
	struct hugefuse_msg msg = {
		.type = HUGEFUSE_MSG_ATTACH,
		.key = {token[0], token[1]},
	};

	return raw_call(sock, &msg, NULL, 0, ret_reply, ret_fd);
}

int raw_mapping_attach(struct raw_mapping *mapping, int fd, uint32_t flags, uint64_t offset,
		       uint64_t length)
{
	int r;

	*mapping = (struct raw_mapping){.sock = -1, .backing = -1, .uffd = -1};
	mapping->length = length;
	r = raw_request(fd, flags, offset, length, &mapping->map);
	if (r < 0)
		return r;
	mapping->sock = raw_connect(mapping->map.socket, 5000);
	if (mapping->sock < 0)
		return mapping->sock;
	return raw_attach(mapping->sock, mapping->map.token, &mapping->attached,
			  &mapping->backing);
}

int raw_mapping_register(struct raw_mapping *mapping, uint32_t flags, int uffd)
{
	struct hugefuse_msg msg = {
		.type = HUGEFUSE_MSG_REGISTER,
		.nr_shards = 1,
		.mapping = mapping->attached.mapping,
		.length = mapping->length,
		.shard_length = mapping->length,
	};
	int prot = flags & HUGEFUSE_MAP_WRITE ? PROT_READ | PROT_WRITE : PROT_READ;
	int type = flags & HUGEFUSE_MAP_PRIVATE ? MAP_PRIVATE : MAP_SHARED;
	int r;

	if (flags & HUGEFUSE_MAP_NORESERVE)
		type |= MAP_NORESERVE;
	mapping->addr = mmap(NULL, mapping->length, prot, type, mapping->backing,
			     (off_t)mapping->map.offset);
	if (mapping->addr == MAP_FAILED)
		return -errno;
	mapping->uffd = uffd;
	r = raw_uffd_register(uffd, mapping->addr, mapping->length);
	if (r < 0)
		return r;
	msg.address = (uintptr_t)mapping->addr;
	return raw_call(mapping->sock, &msg, &uffd, 1, NULL, NULL);
}

void raw_mapping_close(struct raw_mapping *mapping)
{
	int *fds[] = {&mapping->sock, &mapping->backing, &mapping->uffd};

	for (int i = 0; i < 3; i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
}

int raw_uffd(uint64_t features)
{
	struct uffdio_api api = {.api = UFFD_API, .features = features};
	int r, fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return -errno;
	if (ioctl(fd, UFFDIO_API, &api) < 0) {
		r = -errno;
		close(fd);
		return r;
	}
	return fd;
}

int raw_uffd_register(int uffd, void *addr, size_t length)
{
	struct uffdio_register reg = {
		.range = {(uintptr_t)addr, length},
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};

	return ioctl(uffd, UFFDIO_REGISTER, &reg) < 0 ? -errno : 0;
}
