/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Fork handlers: a child attaches what it has of its parent's mappings, while the parent waits.
 */
#include "fork.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "connection.h"
#include "region.h"

#define FORK_TIMEOUT_MS 1000

static bool in_child_to_register(const struct region *region)
{
	/* MADV_DONTFORK: it is not there. This changes nothing, and fails where nothing is
	 * mapped. */
	return madvise(region->addr, region->length, MADV_NORMAL) == 0;
}

int fork_attach(struct region *region)
{
	struct hugefuse_msg msg = {
		.type = HUGEFUSE_MSG_FORK,
		.mapping = region->mapping,
		.key = {region->key[0], region->key[1]},
		.offset = region->offset,
	};
	struct hugefuse_reply reply = {0};
	int r;

	r = connection_open(region->connection);
	if (r == 0)
		r = call_with_fault_fds(region, &msg, &reply);
	if (r < 0)
		return r;
	region->mapping = reply.mapping;
	region->key[0] = reply.key[0];
	region->key[1] = reply.key[1];
	region->first_offset = region->offset;
	return 0;
}

/* Forget the pages of [addr, addr + length) that are not mapped any more. */
static void forget_unmapped(char *addr, size_t length, size_t page_size)
{
	for (size_t done = 0; done < length; done += page_size) {
		if (madvise(addr + done, page_size, MADV_NORMAL) < 0 &&
		    region_prepare_cut() == 0)
			region_cut(addr + done, page_size, tell_unmapped, NULL);
	}
}

/*
 * The parent goes on when the child has attached: if it unmapped or exited before, the daemon
 * would not know the child's mappings any more. The child's end of the pipe closes when it is
 * done, or has died.
 */
static int fork_pipe[2] = {-1, -1}; /* library_mutex */

/*
 * Where the program has called munmap(2) itself we were not told: a region with a hole could
 * not be registered in the child as a whole.
 */
static void before_fork(void)
{
	struct region *region;
	char *end = NULL;

	lock_library();
	while ((region = region_behind(end))) {
		end = region->addr + region->length;
		if (madvise(region->addr, region->length, MADV_NORMAL) < 0)
			forget_unmapped(region->addr, region->length, region->page_size);
	}
	if (region_behind(NULL) && pipe2(fork_pipe, O_CLOEXEC) < 0)
		fork_pipe[0] = fork_pipe[1] = -1;
}

static void close_fork_pipe(void)
{
	for (int i = 0; i < 2; i++) {
		if (fork_pipe[i] >= 0)
			close(fork_pipe[i]);
		fork_pipe[i] = -1;
	}
}

static void after_fork_in_parent(void)
{
	struct pollfd child = {.fd = fork_pipe[0], .events = POLLIN};
	int saved_errno = errno;

	if (fork_pipe[0] >= 0) {
		close(fork_pipe[1]);
		fork_pipe[1] = -1;
		while (poll(&child, 1, FORK_TIMEOUT_MS) < 0 && errno == EINTR)
			;
		close_fork_pipe();
	}
	errno = saved_errno;
	unlock_library();
}

static void after_fork_in_child(void)
{
	int saved_errno = errno;
	struct region *region;

	connection_forget_all();
	for (char *end = NULL; (region = region_behind(end));
	     end = region->addr + region->length) {
		/* Without the daemon the kernel serves this child's faults. */
		if (region->mapping &&
		    (!in_child_to_register(region) || fork_attach(region) < 0))
			region->mapping = 0;
	}
	close_fork_pipe();
	errno = saved_errno;
	unlock_library();
}

void fork_install_handlers(void)
{
	pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}
