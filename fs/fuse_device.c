/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * libfuse's own way to read and write, but for a few replies; and it is noted which threads are
 * at requests that nobody waits for: the end of an open file, or of an inode.
 */
#include "fs/fuse_device.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fs/clock.h"
#include "fs/lock.h"
#include "fs/passthrough.h"

#define HAS_PASSTHROUGH_API (FUSE_VERSION >= FUSE_MAKE_VERSION(3, 17))

/* include/uapi/linux/fuse.h, which is older here and there. */
#define INIT_EXT              (1U << 30)
#define INIT_PASSTHROUGH      (1U << 5) /* in flags2 */
#define INIT_MAX_STACK_OFFSET 36        /* in struct fuse_init_out, behind flags2 */
#define OPEN_PASSTHROUGH      (1U << 7)

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

#if HAS_PASSTHROUGH_API

static ssize_t device_writev(int fd, struct iovec *iov, int count, void *userdata)
{
	return writev(fd, iov, count);
}

void fuse_device_want(struct fuse_conn_info *conn, struct mount *mount)
{
	if (passthrough_may_be(mount) && fuse_set_feature_flag(conn, FUSE_CAP_PASSTHROUGH))
		passthrough_enable(mount, mount->passthrough_fd);
}

static int reply_open(fuse_req_t req, const struct fuse_entry_param *entry,
		      struct fuse_file_info *fi, int32_t id)
{
	fi->backing_id = id;
	return entry ? fuse_reply_create(req, entry, fi) : fuse_reply_open(req, fi);
}

#else

/* What the reply that this thread sends next is to have. */
struct amendment {
	bool init;
	int32_t backing_id;
};

static _Thread_local struct amendment amendment;

static void amend_init(char *reply, size_t len)
{
	struct fuse_init_out *out = (struct fuse_init_out *)reply;
	uint32_t flags2, depth = 1;

	if (len < INIT_MAX_STACK_OFFSET + sizeof(depth))
		return;
	out->flags |= INIT_EXT;
	memcpy(&flags2, reply + offsetof(struct fuse_init_out, flags2), sizeof(flags2));
	flags2 |= INIT_PASSTHROUGH;
	memcpy(reply + offsetof(struct fuse_init_out, flags2), &flags2, sizeof(flags2));
	memcpy(reply + INIT_MAX_STACK_OFFSET, &depth, sizeof(depth));
}

/* struct fuse_open_out is the reply's end. */
static void amend_open(char *reply, size_t len, int32_t id)
{
	struct fuse_open_out out;

	if (len < sizeof(out))
		return;
	memcpy(&out, reply + len - sizeof(out), sizeof(out));
	out.open_flags |= OPEN_PASSTHROUGH;
	out.padding = (uint32_t)id;
	memcpy(reply + len - sizeof(out), &out, sizeof(out));
}

static ssize_t device_writev(int fd, struct iovec *iov, int count, void *userdata)
{
	const struct fuse_out_header *header = iov[0].iov_base;
	struct amendment now = amendment;
	char reply[512];
	struct iovec amended[2] = {iov[0], {reply, 0}};

	amendment = (struct amendment){0};
	if ((!now.init && !now.backing_id) || count != 2 || header->error ||
	    iov[1].iov_len > sizeof(reply))
		return writev(fd, iov, count);
	memcpy(reply, iov[1].iov_base, iov[1].iov_len);
	amended[1].iov_len = iov[1].iov_len;
	if (now.init)
		amend_init(reply, iov[1].iov_len);
	else
		amend_open(reply, iov[1].iov_len, now.backing_id);
	return writev(fd, amended, 2);
}

/*
 * libfuse does not tell what it does not know. The kernel that offers FUSE_INIT_EXT and is new
 * enough takes it; one that was built without it ignores the flag, and refuses the ioctl.
 */
void fuse_device_want(struct fuse_conn_info *conn, struct mount *mount)
{
	if (!passthrough_may_be(mount))
		return;
	amendment.init = true;
	passthrough_enable(mount, mount->passthrough_fd);
}

static int reply_open(fuse_req_t req, const struct fuse_entry_param *entry,
		      struct fuse_file_info *fi, int32_t id)
{
	amendment.backing_id = id;
	return entry ? fuse_reply_create(req, entry, fi) : fuse_reply_open(req, fi);
}

#endif

int fuse_device_reply_open(fuse_req_t req, const struct fuse_entry_param *entry,
			   struct fuse_file_info *fi, int32_t id)
{
	if (id <= 0)
		return entry ? fuse_reply_create(req, entry, fi) : fuse_reply_open(req, fi);
	return reply_open(req, entry, fi, id);
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

int fuse_device_attach(struct fuse_session *session, struct mount *mount)
{
	const struct fuse_custom_io io = {
		.read = device_read,
		.writev = device_writev,
#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 16)
		.clone_fd = device_clone,
#endif
	};

	mount->session = session;
	mount->passthrough_fd = fuse_session_fd(session);
#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 17)
	/* By its older name it leaves clone_fd out. */
	return fuse_session_custom_io_317(session, &io, sizeof(io), fuse_session_fd(session));
#else
	return fuse_session_custom_io(session, &io, fuse_session_fd(session));
#endif
}
