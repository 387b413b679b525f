/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel itself reads and writes pages that were never touched, for a system call: as root,
 * and for a user who has no right to a userfaultfd that could serve the kernel's accesses.
 */
#include <errno.h>
#include <linux/io_uring.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "raw_client.h"
#include "reports.h"

#define POOL  16
#define USER  12345
#define BLOCK 4096

struct calls {
	struct side *side;
	int fd, plain; /* of the mount, and of a file with 'x's elsewhere, O_DIRECT */
	char *p;
	bool is_eager; /* populated when it was mapped, for want of a right to a userfaultfd */
};

static int plain_calls(struct calls *calls)
{
	int pipes[2];
	char *p = calls->p;

	child_check(pipe(pipes) == 0);
	child_check(write(pipes[1], page(p, 0), 10) == 10);
	child_check(read(pipes[0], page(p, 1) + PAGE_2M - 10, 10) == 10);
	/* across two pages */
	child_check(pread(calls->plain, page(p, 3) - BLOCK, 2 * BLOCK, 0) == 2 * BLOCK);
	child_check(page(p, 3)[-1] == 'x' && *page(p, 3) == 'x');
	return 0;
}

struct ring {
	int fd;
	unsigned int *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask;
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqes;
};

static int ring_open(struct ring *ring)
{
	struct io_uring_params params = {0};
	char *sq, *cq;

	ring->fd = (int)syscall(SYS_io_uring_setup, 4, &params);
	if (ring->fd < 0)
		return -errno;
	sq = mmap(NULL, params.sq_off.array + params.sq_entries * 4, RW,
		  MAP_SHARED | MAP_POPULATE, ring->fd, IORING_OFF_SQ_RING);
	cq = mmap(NULL, params.cq_off.cqes + params.cq_entries * sizeof(*ring->cqes), RW,
		  MAP_SHARED | MAP_POPULATE, ring->fd, IORING_OFF_CQ_RING);
	ring->sqes = mmap(NULL, params.sq_entries * sizeof(*ring->sqes), RW,
			  MAP_SHARED | MAP_POPULATE, ring->fd, IORING_OFF_SQES);
	if (sq == MAP_FAILED || cq == MAP_FAILED || ring->sqes == MAP_FAILED)
		return -ENOMEM;
	ring->sq_tail = (unsigned int *)(sq + params.sq_off.tail);
	ring->sq_mask = (unsigned int *)(sq + params.sq_off.ring_mask);
	ring->sq_array = (unsigned int *)(sq + params.sq_off.array);
	ring->cq_head = (unsigned int *)(cq + params.cq_off.head);
	ring->cq_tail = (unsigned int *)(cq + params.cq_off.tail);
	ring->cq_mask = (unsigned int *)(cq + params.cq_off.ring_mask);
	ring->cqes = (struct io_uring_cqe *)(cq + params.cq_off.cqes);
	return 0;
}

/* One operation; its result. */
static int ring_do(struct ring *ring, int opcode, int fd, void *buf, unsigned int len,
		   int flags)
{
	unsigned int tail = *ring->sq_tail, idx = tail & *ring->sq_mask;
	int result;

	ring->sqes[idx] = (struct io_uring_sqe){
		.opcode = (uint8_t)opcode,
		.flags = (uint8_t)flags,
		.fd = fd,
		.addr = (uintptr_t)buf,
		.len = len,
	};
	ring->sq_array[idx] = idx;
	__atomic_store_n(ring->sq_tail, tail + 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, ring->fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
		return -errno;
	while (*ring->cq_head == __atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE))
		;
	result = ring->cqes[*ring->cq_head & *ring->cq_mask].res;
	__atomic_store_n(ring->cq_head, *ring->cq_head + 1, __ATOMIC_RELEASE);
	return result;
}

/* In the thread itself, and in one of the kernel's. */
static int ring_calls(struct calls *calls)
{
	struct ring ring;
	int r = ring_open(&ring);

	if (r == -ENOSYS || r == -EPERM)
		return 0; /* the kernel has none */
	child_check(r == 0);
	child_check(ring_do(&ring, IORING_OP_READ, calls->plain, page(calls->p, 4), BLOCK, 0) ==
		    BLOCK);
	child_check(*page(calls->p, 4) == 'x');
	child_check(ring_do(&ring, IORING_OP_READ, calls->plain, page(calls->p, 5), BLOCK,
			    IOSQE_ASYNC) == BLOCK);
	child_check(*page(calls->p, 5) == 'x');
	close(ring.fd);
	return 0;
}

static int wait_for_signal(void *data)
{
	pause();
	return 0;
}

/*
 * ptrace(2) is the one that does not wait: of a page that a userfaultfd has to give it says
 * EIO, at once and with nothing changed. Once the page is there it can be read and written.
 */
static int trace(struct calls *calls, pid_t other)
{
	bool gives_pages = calls->side->kernel || calls->is_eager;

	errno = 0;
	child_check(ptrace(PTRACE_PEEKDATA, other, page(calls->p, 8), NULL) ==
		    (gives_pages ? 0 : -1));
	child_check(errno == (gives_pages ? 0 : EIO));
	child_check(*page(calls->p, 8) == 0 && *page(calls->p, 9) == 0);
	errno = 0;
	child_check(ptrace(PTRACE_PEEKDATA, other, page(calls->p, 8), NULL) >= 0 && errno == 0);
	child_check(ptrace(PTRACE_POKEDATA, other, page(calls->p, 9), (void *)1) == 0);
	child_check(*page(calls->p, 9) == 1);
	return 0;
}

/* Another process's pages, which it has not touched. */
static int foreign_calls(struct calls *calls, pid_t other)
{
	char bytes[16] = "0123456789abcde";
	struct iovec local = {bytes, sizeof(bytes)};
	struct iovec remote = {page(calls->p, 6), sizeof(bytes)};
	int status;

	child_check(process_vm_readv(other, &local, 1, &remote, 1, 0) == sizeof(bytes));
	child_check(bytes[0] == 0 && bytes[15] == 0);
	bytes[1] = 'y';
	remote.iov_base = page(calls->p, 7);
	child_check(process_vm_writev(other, &local, 1, &remote, 1, 0) == sizeof(bytes));
	child_check(page(calls->p, 7)[1] == 'y'); /* it is shared */
	child_check(ptrace(PTRACE_ATTACH, other, NULL, NULL) == 0);
	child_check(waitpid(other, &status, 0) == other);
	status = trace(calls, other);
	child_check(ptrace(PTRACE_DETACH, other, NULL, NULL) == 0);
	return status;
}

static int make_calls(void *data)
{
	struct calls *calls = data;
	pid_t other;
	int r;

	prctl(PR_SET_DUMPABLE, 1); /* as every process that did not change its user */
	calls->p = side_map_pages(calls->side, MAP_SHARED, calls->fd, 0, 10);
	r = plain_calls(calls);
	if (r == 0)
		r = ring_calls(calls);
	if (r == 0) {
		other = start_child(wait_for_signal, NULL, 0);
		r = foreign_calls(calls, other);
		kill(other, SIGKILL);
		waitpid(other, NULL, 0);
	}
	return r;
}

static int file_of_x(const struct side *side)
{
	static char name[] = "/var/tmp/hugefuse-plain-XXXXXX";
	char path[sizeof(name)], bytes[4 * BLOCK];
	int fd, direct;

	memcpy(path, name, sizeof(name));
	fd = mkstemp(path);
	assert_true(fd >= 0);
	memset(bytes, 'x', sizeof(bytes));
	assert_int_equal(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
	direct = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	unlink(path);
	if (direct < 0)
		return fd; /* a tmpfs before Linux 6.6 */
	close(fd);
	return direct;
}

static void calls_as(struct side *side, uid_t uid)
{
	struct calls calls = {side, side_file(side, "file", 10), file_of_x(side),
			      .is_eager = uid != 0};

	assert_int_equal(fchmod(calls.fd, 0666), 0);
	assert_int_equal(run_child(make_calls, &calls, uid, 10000), 0);
	assert_true(pages_of(calls.fd) >= 8);
	side_expect(side, pages_of(calls.fd), 10 - pages_of(calls.fd));
}

static void as_root(struct side *side)
{
	calls_as(side, 0);
}

static void as_user(struct side *side)
{
	calls_as(side, USER);
}

/* write(2) of a page of the very file that it is written to, when that is not there yet. */
static void from_the_same_file(struct side *side)
{
	int fd = side_file(side, "file", 4);
	char *p = side_map_pages(side, MAP_SHARED, fd, 0, 4);

	assert_int_equal(pwrite(fd, p, 2 * PAGE_2M, PAGE_2M), 2 * PAGE_2M);
	assert_int_equal(pread(fd, page(p, 3), PAGE_2M, 3 * PAGE_2M), PAGE_2M);
	*p = 5;
	assert_int_equal(pwrite(fd, p, 1, 1), 1);
	assert_int_equal(p[1], 5);
	side_expect(side, 4, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(as_root, POOL),
		ON_BOTH(as_user, POOL),
		ON_HUGEFUSE(from_the_same_file, "", POOL),
	};

	require_root();
	require_pages(PAGE_2M, POOL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
