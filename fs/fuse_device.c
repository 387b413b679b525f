/* SPDX-License-Identifier: GPL-2.0-or-later */
/* libfuse's own way to read and write, but for one error. */
#include "fs/fuse_device.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fs/fuse_ops.h"

static ssize_t device_read(int fd, void *buf, size_t size, void *userdata)
{
	ssize_t len = read(fd, buf, size);

	if (len < 0 && errno == ECONNABORTED)
		errno = ENODEV;
	return len;
}

static ssize_t device_writev(int fd, struct iovec *iov, int count, void *userdata)
{
	return writev(fd, iov, count);
}

#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 16)
#ifndef FUSE_DEV_IOC_CLONE
#define FUSE_DEV_IOC_CLONE _IOR(229, 0, uint32_t)
#endif

/* Before, libfuse opened another descriptor for each thread by itself. */
static int device_clone(int master)
{
	uint32_t number = (uint32_t)master;
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	if (fd >= 0 && ioctl(fd, FUSE_DEV_IOC_CLONE, &number) < 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}
#endif

int fuse_device_attach(struct fuse_session *session)
{
	const struct fuse_custom_io io = {
		.read = device_read,
		.writev = device_writev,
#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 16)
		.clone_fd = device_clone,
#endif
	};

#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 17)
	/* By its older name it leaves clone_fd out. */
	return fuse_session_custom_io_317(session, &io, sizeof(io), fuse_session_fd(session));
#else
	return fuse_session_custom_io(session, &io, fuse_session_fd(session));
#endif
}
