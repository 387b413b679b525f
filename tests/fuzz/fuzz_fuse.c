/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What comes through FUSE with numbers and bytes of a user's choosing: the ioctls, writes to
 * .hugefuse, and offsets and lengths of everything else on an open file. libfuse has them as
 * from /dev/fuse; each request gets exactly one reply. Afterwards all is given back.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fs/fuse_ops.h"
#include "fs/stats.h"
#include "fuzz_mount.h"
#include "hugefuse_protocol.h"
#include "input.h"

#define MAX_DATA 4096
#define MAX_OPS  30

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct fuzz_mount *fuzz;
static struct fuse_session *session;
static int nr_replies;
static uint8_t reply_body[256];
static int32_t reply_error;

/* Where libfuse would write to /dev/fuse. */
static ssize_t note_reply(int fd, struct iovec *iov, int count, void *userdata)
{
	const struct fuse_out_header *header = iov[0].iov_base;
	ssize_t len = 0;

	for (int i = 0; i < count; i++)
		len += (ssize_t)iov[i].iov_len;
	if (header->unique == 0)
		return len; /* a notification */
	nr_replies++;
	reply_error = header->error;
	if (count > 1 && iov[1].iov_len <= sizeof(reply_body))
		memcpy(reply_body, iov[1].iov_base, iov[1].iov_len);
	return len;
}

static ssize_t read_nothing(int fd, void *buf, size_t len, void *userdata)
{
	return -ENODEV;
}

/* One request; 0 or -errno of the reply. */
static int32_t send_request(uint32_t opcode, uint64_t node_id, const void *head,
			    size_t head_len, const void *data, size_t data_len)
{
	static union {
		struct fuse_in_header header;
		uint8_t bytes[sizeof(struct fuse_in_header) + 256 + MAX_DATA];
	} request;
	struct fuse_buf buf = {.mem = &request};
	size_t len = sizeof(request.header);

	memcpy(request.bytes + len, head, head_len);
	len += head_len;
	if (data_len > 0)
		memcpy(request.bytes + len, data, data_len);
	len += data_len;
	request.header = (struct fuse_in_header){
		.len = (uint32_t)len,
		.opcode = opcode,
		.unique = 2,
		.nodeid = node_id,
		.pid = (uint32_t)getpid(),
		.uid = getuid(),
		.gid = getgid(),
	};
	buf.size = len;
	nr_replies = 0;
	fuse_session_process_buf(session, &buf);
	if (nr_replies != 1)
		fuzz_fail("not one reply to a request");
	return reply_error;
}

static void start_session(void)
{
	static const struct fuse_custom_io io = {.writev = note_reply, .read = read_nothing};
	struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
	struct fuse_init_in init = {
		.major = FUSE_KERNEL_VERSION,
		.minor = FUSE_KERNEL_MINOR_VERSION,
		.max_readahead = 1 << 20,
		.flags = UINT32_MAX & ~FUSE_INIT_EXT,
	};

	fuzz = fuzz_mount_new();
	fuse_opt_add_arg(&args, "fuzz");
	session = fuse_session_new(&args, &fuse_ops, sizeof(fuse_ops), &fuzz->mount);
	fuse_opt_free_args(&args);
	if (!session ||
	    fuse_session_custom_io(session, &io, open("/dev/null", O_RDWR | O_CLOEXEC)) < 0)
		fuzz_fail("cannot make a session");
	fuzz->mount.session = session;
	if (send_request(FUSE_INIT, 0, &init, sizeof(init), NULL, 0) < 0)
		fuzz_fail("the session is not initialised");
}

struct open_node {
	uint64_t node_id, fh;
};

/* File 0, as the kernel finds and opens it. */
static struct open_node open_file_0(uint32_t flags)
{
	struct open_node file;
	struct fuse_entry_out entry;
	struct fuse_open_in open_in = {.flags = flags};
	struct fuse_open_out open_out;

	if (send_request(FUSE_LOOKUP, 1, "0", 2, NULL, 0) < 0)
		fuzz_fail("file 0 is not found");
	memcpy(&entry, reply_body, sizeof(entry));
	file.node_id = entry.nodeid;
	if (send_request(FUSE_OPEN, file.node_id, &open_in, sizeof(open_in), NULL, 0) < 0)
		fuzz_fail("file 0 cannot be opened");
	memcpy(&open_out, reply_body, sizeof(open_out));
	file.fh = open_out.fh;
	return file;
}

static void close_file(const struct open_node *file)
{
	struct fuse_release_in release = {.fh = file->fh};

	send_request(FUSE_RELEASE, file->node_id, &release, sizeof(release), NULL, 0);
}

static void do_ioctl(const struct open_node *file, struct input *input)
{
	static const unsigned int commands[] = {HUGEFUSE_IOC_MAP, HUGEFUSE_IOC_RESERVE,
						HUGEFUSE_IOC_QUERY, HUGEFUSE_IOC_MOUNT};
	uint8_t bytes[256], which = take_byte(input), odd = take_byte(input);
	struct fuse_ioctl_in ioctl_in = {.fh = file->fh};

	ioctl_in.cmd = which < 200 ? commands[which % 4] : (uint32_t)take_number(input);
	ioctl_in.in_size = _IOC_DIR(ioctl_in.cmd) & _IOC_WRITE ? _IOC_SIZE(ioctl_in.cmd) : 0;
	ioctl_in.out_size = _IOC_DIR(ioctl_in.cmd) & _IOC_READ ? _IOC_SIZE(ioctl_in.cmd) : 0;
	if (odd == 255)
		ioctl_in.flags = take_byte(input);
	if (odd == 254)
		ioctl_in.out_size = take_byte(input);
	if (odd == 253 || ioctl_in.in_size > sizeof(bytes))
		ioctl_in.in_size = take_byte(input);
	take_bytes(input, bytes, sizeof(bytes));
	if (odd < 200 && ioctl_in.cmd == HUGEFUSE_IOC_MAP) {
		struct hugefuse_ioc_map map = {
			.version = HUGEFUSE_PROTOCOL_VERSION,
			.flags = bytes[0] & 7,
			.offset = bytes[1] % 40 * FUZZ_PAGE_SIZE,
			.length = bytes[2] % 40 * FUZZ_PAGE_SIZE + bytes[3],
		};

		memcpy(bytes, &map, sizeof(map));
	}
	/* Without IOCTL_UNRESTRICTED the kernel gives 8 bytes at least to be copied out. */
	send_request(FUSE_IOCTL, odd == 252 ? 1 : file->node_id, &ioctl_in, sizeof(ioctl_in),
		     bytes, ioctl_in.in_size);
}

static uint64_t stats_node(struct input *input)
{
	return STATS_NODE_FLAG | (uint64_t)(take_byte(input) % 3 == 0) << 8 |
	       take_byte(input) % 48;
}

/* Write to a file of .hugefuse, and read it. */
static void do_stats(struct input *input)
{
	struct fuse_write_in write_in = {0};
	struct fuse_open_in open_in = {.flags = O_RDWR};
	struct open_node node = {stats_node(input)};
	struct fuse_open_out open_out;
	uint8_t bytes[64];
	size_t len = take_byte(input) % sizeof(bytes);

	take_bytes(input, bytes, len);
	if (send_request(FUSE_OPEN, node.node_id, &open_in, sizeof(open_in), NULL, 0) < 0)
		return;
	memcpy(&open_out, reply_body, sizeof(open_out));
	node.fh = open_out.fh;
	write_in.fh = node.fh;
	write_in.size = (uint32_t)len;
	write_in.offset = take_byte(input) < 250 ? 0 : take_number(input);
	send_request(FUSE_WRITE, node.node_id, &write_in, sizeof(write_in), bytes, len);
	struct fuse_read_in read_in = {
		.fh = node.fh,
		.offset = take_number(input),
		.size = take_byte(input) * 16,
	};
	send_request(FUSE_READ, node.node_id, &read_in, sizeof(read_in), NULL, 0);
	close_file(&node);
}

static void do_write(const struct open_node *file, struct input *input)
{
	static uint8_t bytes[MAX_DATA];
	struct fuse_write_in write_in = {.fh = file->fh, .offset = take_number(input)};

	write_in.size = take_byte(input) * 16 + 1;
	write_in.flags = take_byte(input) % 2 ? O_RDWR : O_RDWR | O_APPEND;
	send_request(FUSE_WRITE, file->node_id, &write_in, sizeof(write_in), bytes,
		     write_in.size);
}

static void do_read(const struct open_node *file, struct input *input)
{
	struct fuse_read_in read_in = {
		.fh = file->fh,
		.offset = take_number(input),
		.size = take_byte(input) * 4096,
	};

	send_request(FUSE_READ, file->node_id, &read_in, sizeof(read_in), NULL, 0);
}

static void do_fallocate(const struct open_node *file, struct input *input)
{
	struct fuse_fallocate_in fallocate_in = {
		.fh = file->fh,
		.offset = take_number(input),
		.length = take_number(input),
		.mode = take_byte(input),
	};

	send_request(FUSE_FALLOCATE, file->node_id, &fallocate_in, sizeof(fallocate_in), NULL,
		     0);
}

static void do_lseek(const struct open_node *file, struct input *input)
{
	struct fuse_lseek_in lseek_in = {
		.fh = file->fh,
		.offset = take_number(input),
		.whence = take_byte(input),
	};

	send_request(FUSE_LSEEK, file->node_id, &lseek_in, sizeof(lseek_in), NULL, 0);
}

static void do_setattr(const struct open_node *file, struct input *input)
{
	struct fuse_setattr_in setattr_in = {
		.valid = FATTR_SIZE | (take_byte(input) % 2 ? FATTR_FH : 0),
		.fh = file->fh,
		.size = take_number(input),
	};

	send_request(FUSE_SETATTR, file->node_id, &setattr_in, sizeof(setattr_in), NULL, 0);
}

/* A quota of the root, or any other attribute, set or asked for. */
static void do_xattr(const struct open_node *file, struct input *input)
{
	static const char *const names[] = {"user.hugefuse.quota", "user.hugefuse.size",
					    "user.hugefuse.min_size", "user.other"};
	const char *name = names[take_byte(input) % 4];
	struct fuse_setxattr_in set = {.size = take_byte(input) % 64};
	struct fuse_getxattr_in get = {.size = set.size};
	size_t name_size = strlen(name) + 1;
	uint8_t bytes[128];

	memcpy(bytes, name, name_size);
	take_bytes(input, bytes + name_size, set.size);
	send_request(FUSE_SETXATTR, 1, &set, FUSE_COMPAT_SETXATTR_IN_SIZE, bytes,
		     name_size + set.size);
	send_request(FUSE_GETXATTR, 1, &get, sizeof(get), bytes, name_size);
	if (take_byte(input) % 2)
		send_request(FUSE_REMOVEXATTR, 1, bytes, name_size, NULL, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const operations[])(const struct open_node *, struct input *) = {
		do_ioctl,     do_ioctl, do_write,   do_read,
		do_fallocate, do_lseek, do_setattr, do_xattr,
	};
	const unsigned int nr = sizeof(operations) / sizeof(operations[0]);
	static unsigned int nr_runs;
	struct input input = {data, size};
	struct open_node file;

	if (!session)
		start_session();
	file = open_file_0(take_byte(&input) % 8 ? O_RDWR : O_RDONLY);
	for (int i = 0; i < MAX_OPS && input.left > 0; i++) {
		unsigned int which = take_byte(&input) % (nr + 2);

		if (which < nr)
			operations[which](&file, &input);
		else
			do_stats(&input);
	}
	close_file(&file);
	/* Tokens that were not used would be kept for some seconds. */
	if (++nr_runs % 64 == 0) {
		fuzz_mount_restart(fuzz);
		fuzz_mount_check(fuzz);
	}
	return 0;
}
