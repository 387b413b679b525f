/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Workers: the client's side. On hugefuse it maps through the library, on hugetlbfs by mmap(2);
 * the latter makes of write(2) a store through a mapping and of sizes whole pages.
 *
 * Every page has its value at two places, so that a page that is half lost shows.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hugefuse.h"
#include "target.h"
#include "worker.h"

#define SECOND_PLACE 4088 /* bytes in the page; no size ends before it */
#define TORN         UINT64_MAX

struct slot {
	char *addr;
	int nr;
	unsigned int flags;
};

struct client {
	const struct target *target;
	int worker, socket, child_socket;
	pid_t child;
	struct slot slot[NR_SLOTS];
};

static sigjmp_buf bus_jump;

static void on_sigbus(int signal)
{
	siglongjmp(bus_jump, 1);
}

static struct result failed(int error)
{
	return (struct result){.error = error};
}

static struct result touch(char *page, bool write, uint64_t value)
{
	volatile uint64_t *first = (uint64_t *)page;
	volatile uint64_t *second = (uint64_t *)(page + SECOND_PLACE);

	if (sigsetjmp(bus_jump, 0))
		return failed(RESULT_SIGBUS);
	if (write) {
		*first = value;
		*second = value;
	}
	value = *first;
	return (struct result){.value = *second == value ? value : TORN};
}

static int open_file(const struct client *client, const struct op *op)
{
	char path[96];

	snprintf(path, sizeof(path), "%s/f%d", client->target->dir, op->name);
	return open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
}

static int unmap(const struct client *client, char *addr, size_t length, bool plain)
{
	if (client->target->is_kernel || plain)
		return munmap(addr, length);
	return hugefuse_munmap(addr, length);
}

static struct result do_map(struct client *client, const struct op *op, int fd,
			    bool should_fail)
{
	struct slot *slot = &client->slot[op->slot];
	int prot = PROT_READ | (op->flags & OP_READONLY ? 0 : PROT_WRITE);
	int flags = (op->flags & OP_PRIVATE ? MAP_PRIVATE : MAP_SHARED) |
		    (op->flags & OP_NORESERVE ? MAP_NORESERVE : 0) |
		    (op->flags & OP_POPULATE ? MAP_POPULATE : 0);
	size_t length = (size_t)op->nr * PAGE_2M;
	off_t offset = op->from * (off_t)PAGE_2M;
	char *addr;

	*slot = (struct slot){0}; /* what was there has been unmapped */
	if (client->target->is_kernel)
		addr = mmap(NULL, length, prot, flags, fd, offset);
	else
		addr = hugefuse_mmap(NULL, length - (op->flags & OP_UNALIGNED ? 1 : 0), prot,
				     flags, fd, offset);
	if (addr == MAP_FAILED)
		return failed(errno);
	if (should_fail)
		unmap(client, addr, length, false);
	else
		*slot = (struct slot){addr, op->nr, op->flags};
	return failed(0);
}

/* Let a hugetlbfs file grow as hugefuse does: see model.h. */
static int kernel_grow(int fd, int nr)
{
	void *addr = mmap(NULL, PAGE_2M, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
			  (nr - 1) * (off_t)PAGE_2M);

	return addr == MAP_FAILED ? -1 : munmap(addr, PAGE_2M);
}

static int kernel_truncate(int fd, const struct op *op)
{
	off_t size = op->nr * (off_t)PAGE_2M;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -1;
	if (size > st.st_size)
		return kernel_grow(fd, op->nr);
	return size < st.st_size ? ftruncate(fd, size) : 0;
}

static struct result do_truncate(const struct client *client, const struct op *op, int fd)
{
	off_t size = op->nr * (off_t)PAGE_2M;

	if (client->target->is_kernel)
		return failed(kernel_truncate(fd, op) < 0 ? errno : 0);
	if (op->flags & OP_UNALIGNED)
		size -= 1 + op->nr * 12345;
	return failed(ftruncate(fd, size) < 0 ? errno : 0);
}

static struct result do_pread(const struct op *op, int fd)
{
	off_t offset = op->from * (off_t)PAGE_2M;
	uint64_t first, second;
	ssize_t n = pread(fd, &first, sizeof(first), offset);

	if (n == 0)
		return failed(RESULT_EOF);
	if (n < 0)
		return failed(errno);
	if (pread(fd, &second, sizeof(second), offset + SECOND_PLACE) != sizeof(second))
		return failed(EIO);
	return (struct result){.value = first == second ? first : TORN};
}

static struct result kernel_write(const struct op *op, int fd)
{
	char *page = mmap(NULL, PAGE_2M, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			  op->from * (off_t)PAGE_2M);
	struct result result;

	if (page == MAP_FAILED)
		return failed(errno == ENOMEM ? ENOSPC : errno);
	result = touch(page, true, op->value);
	munmap(page, PAGE_2M);
	return failed(result.error);
}

static struct result do_pwrite(const struct client *client, const struct op *op, int fd)
{
	off_t offset = op->from * (off_t)PAGE_2M;

	if (client->target->is_kernel)
		return kernel_write(op, fd);
	if (pwrite(fd, &op->value, sizeof(op->value), offset) != sizeof(op->value) ||
	    pwrite(fd, &op->value, sizeof(op->value), offset + SECOND_PLACE) !=
		    sizeof(op->value))
		return failed(errno);
	return failed(0);
}

static struct result on_file(struct client *client, const struct client_message *message)
{
	const struct op *op = &message->op;
	off_t offset = op->from * (off_t)PAGE_2M, length = op->nr * (off_t)PAGE_2M;
	int fd = open_file(client, op);
	struct result result;

	if (fd < 0)
		return failed(errno);
	switch (op->type) {
	case OP_MAP:
		result = do_map(client, op, fd, message->should_fail);
		break;
	case OP_PUNCH:
		result = failed(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					  offset, length) < 0
					? errno
					: 0);
		break;
	case OP_FALLOCATE:
		result = failed(fallocate(fd, 0, offset, length) < 0 ? errno : 0);
		break;
	case OP_TRUNCATE:
		result = do_truncate(client, op, fd);
		break;
	case OP_PREAD:
		result = do_pread(op, fd);
		break;
	default:
		result = do_pwrite(client, op, fd);
	}
	close(fd);
	return result;
}

static struct result on_memory(const struct client *client, const struct op *op)
{
	const struct slot *slot = &client->slot[op->slot];
	char *addr = slot->addr + (size_t)op->from * PAGE_2M;
	size_t length = (size_t)op->nr * PAGE_2M;

	if (!slot->addr)
		return failed(EFAULT);
	switch (op->type) {
	case OP_READ:
	case OP_WRITE:
		return touch(addr, op->type == OP_WRITE, op->value);
	case OP_DONTNEED:
		return failed(madvise(addr, length, MADV_DONTNEED) < 0 ? errno : 0);
	case OP_REMOVE:
		return failed(madvise(addr, length, MADV_REMOVE) < 0 ? errno : 0);
	default:
		return failed(unmap(client, addr, length, op->type == OP_PLAIN_UNMAP) < 0
				      ? errno
				      : 0);
	}
}

static struct result do_burst(const struct client *client, const struct op *op)
{
	struct result result = {0}, one;

	for (int slot = 0; slot < NR_SLOTS; slot++) {
		const struct slot *s = &client->slot[slot];

		for (int page = 0; page < FILE_PAGES && s->addr; page++) {
			if (!(op->safe[client->worker][slot] & 1 << page))
				continue;
			one = touch(s->addr + (size_t)page * PAGE_2M, s->flags & OP_PRIVATE,
				    op->value);
			if (one.error)
				result = failed(one.error);
		}
	}
	return result;
}

static void serve(struct client *client);

/* The child goes on with its own socket. */
static pid_t do_fork(struct client *client)
{
	pid_t child = fork();

	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		client->socket = client->child_socket;
		serve(client);
		_exit(1);
	}
	return child;
}

static struct result do_reap(struct client *client)
{
	int status;

	if (client->child == 0)
		_exit(0); /* this is the child, and told to exit */
	waitpid(client->child, &status, 0);
	client->child = 0;
	return failed(0);
}

static struct client_reply execute(struct client *client, const struct client_message *message)
{
	struct client_reply reply = {0};

	switch (message->op.type) {
	case OP_FORK:
		reply.pid = client->child = do_fork(client);
		if (reply.pid < 0)
			reply.result = failed(errno);
		break;
	case OP_CHILD_EXIT:
	case OP_CHILD_KILL:
		reply.result = do_reap(client);
		break;
	case OP_BURST:
		reply.result = do_burst(client, &message->op);
		break;
	case OP_MAP:
	case OP_PUNCH:
	case OP_FALLOCATE:
	case OP_TRUNCATE:
	case OP_PREAD:
	case OP_PWRITE:
		reply.result = on_file(client, message);
		break;
	default:
		reply.result = on_memory(client, &message->op);
	}
	return reply;
}

static void serve(struct client *client)
{
	struct client_message message;
	struct client_reply reply;

	while (recv(client->socket, &message, sizeof(message), 0) == sizeof(message)) {
		reply = execute(client, &message);
		if (send(client->socket, &reply, sizeof(reply), MSG_NOSIGNAL) != sizeof(reply))
			return;
	}
}

void client_run(const struct target *target, int worker, int socket, int child_socket)
{
	struct sigaction action = {.sa_handler = on_sigbus, .sa_flags = SA_NODEFER};
	struct client client = {
		.target = target,
		.worker = worker,
		.socket = socket,
		.child_socket = child_socket,
	};

	sigaction(SIGBUS, &action, NULL);
	/* cmocka would take this for the test. */
	signal(SIGSEGV, SIG_DFL);
	signal(SIGILL, SIG_DFL);
	signal(SIGFPE, SIG_DFL);
	serve(&client);
	_exit(0);
}
