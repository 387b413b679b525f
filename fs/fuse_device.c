/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * libfuse's own way to read and write, but for one error; and it is noted which threads are at
 * requests that nobody waits for: the end of an open file, or of an inode.
 */
#include "fs/fuse_device.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fs/clock.h"
#include "fs/fuse_ops.h"
#include "fs/lock.h"

static _Atomic(int) nr_ending;
static struct waitqueue ended;
static _Thread_local bool at_ending;

static bool is_ending(const struct fuse_in_header *header)
{
	return header->opcode == FUSE_RELEASE || header->opcode == FUSE_FORGET ||
	       header->opcode == FUSE_BATCH_FORGET;
}

/* A thread that comes for another request has done with the last one. */
static void note_end(void)
{
	if (!at_ending)
		return;
	at_ending = false;
	if (atomic_fetch_sub(&nr_ending, 1) == 1)
		waitqueue_wake_all(&ended);
}

void fuse_device_settle(uint64_t timeout_ns)
{
	uint64_t until = clock_now_ns() + timeout_ns, now;
	uint32_t count = waitqueue_read(&ended);

	while (atomic_load(&nr_ending) > 0 && (now = clock_now_ns()) < until) {
		if (waitqueue_wait(&ended, count, until - now) < 0)
			return;
		count = waitqueue_read(&ended);
	}
}

static ssize_t device_read(int fd, void *buf, size_t size, void *userdata)
{
	ssize_t len;

	note_end();
	len = read(fd, buf, size);
	if (len >= (ssize_t)sizeof(struct fuse_in_header) && is_ending(buf)) {
		at_ending = true;
		atomic_fetch_add(&nr_ending, 1);
	}
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

	return fuse_session_custom_io(session, &io, fuse_session_fd(session));
}
