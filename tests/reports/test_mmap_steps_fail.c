/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Each system call of hugefuse_mmap() fails in turn, in a process that goes on: the error
 * reaches the caller, or the mapping works all the same; and while that process lives nothing
 * dangles: no mapping, descriptor or memory in either process, and no page.
 *
 * A client that does the protocol's steps wrong, or dies between them, is in
 * tests/mount/test_hostile.c.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hugefuse.h"
#include "hugefuse_protocol.h"
#include "raw_client.h"
#include "reports.h"

#define POOL    4
#define PAGES   2
#define ANY_ARG (-1)

struct step {
	const char *name;
	long nr;
	int argument; /* which one decides, or ANY_ARG */
	unsigned int value;
	bool unless; /* it fails where the argument is anything else */
	int error;
	int expected; /* what hugefuse_mmap() says; 0: it works without */
	/* The file had been reserved by then, for good as by any mapping of it that has ended.
	 */
	bool reserved;
};

static const struct step steps[] = {
	{"ioctl map", SYS_ioctl, 1, (unsigned int)HUGEFUSE_IOC_MAP, false, EIO, EIO},
	{"socket", SYS_socket, ANY_ARG, 0, false, EMFILE, EMFILE},
	{"connect", SYS_connect, ANY_ARG, 0, false, ECONNREFUSED, ENOTCONN},
	{"sendmsg", SYS_sendmsg, ANY_ARG, 0, false, ENOBUFS, ENOTCONN},
	{"recvmsg", SYS_recvmsg, ANY_ARG, 0, false, ECONNRESET, ENOTCONN},
	{"mmap", SYS_mmap, 4, (unsigned int)-1, true, ENOMEM, ENOMEM, true},
	{"mprotect", SYS_mprotect, 2, RW, false, ENOMEM, ENOMEM, true},
	{"userfaultfd", SYS_userfaultfd, ANY_ARG, 0, false, EMFILE, 0},
	{"ioctl api", SYS_ioctl, 1, (unsigned int)UFFDIO_API, false, EINVAL, 0},
	{"ioctl register", SYS_ioctl, 1, (unsigned int)UFFDIO_REGISTER, false, ENOMEM, 0},
};

static int fail_step(const struct step *step)
{
	bool any = step->argument == ANY_ARG;
	unsigned int argument = offsetof(struct seccomp_data, args) +
				8 * (unsigned int)(any ? 0 : step->argument);
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned int)step->nr, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, step->value, step->unless, !step->unless),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned int)step->error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

	if (any)
		filter[3] = (struct sock_filter)BPF_STMT(
			BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned int)step->error);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0 ? -errno : 0;
}

struct failure {
	struct side *side;
	const struct step *step;
	int flags, fd, ready[2], go[2];
};

/* Exits with 0 when it has seen what it expects, and been looked at. */
static int map_in_child(void *data)
{
	struct failure *failure = data;
	int expected = failure->step->expected;
	char *p;

	child_check(fail_step(failure->step) == 0);
	errno = 0;
	p = hugefuse_mmap(NULL, PAGES * PAGE_2M, RW, failure->flags, failure->fd, 0);
	if (expected) {
		child_check(p == MAP_FAILED);
		child_check(errno == expected);
	} else {
		child_check(p != MAP_FAILED);
		child_check(!raises_sigbus(p, true));
	}
	child_check(write(failure->ready[1], "", 1) == 1);
	child_check(read(failure->go[0], (char[1]){0}, 1) == 1);
	if (!expected)
		child_check(hugefuse_munmap(p, PAGES * PAGE_2M) == 0);
	return 0;
}

static long lines_with(pid_t pid, const char *name, const char *word)
{
	char path[64], line[1024];
	FILE *file;
	long nr = 0;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	file = fopen(path, "re");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		nr += strstr(line, word) != NULL;
	fclose(file);
	return nr;
}

#define CLIENT_FDS 3 /* a connection, a pidfd, its pagemap */

struct fds {
	const struct fixture *fixture;
	long most;
};

static bool fds_are_few(void *data)
{
	const struct fds *fds = data;

	return fixture_nr_fds(fds->fixture) <= fds->most;
}

static void expect_fds(struct fds fds, const char *when)
{
	if (!wait_until(fds_are_few, &fds, 2000))
		fail_msg("%s: the daemon has %ld descriptors, more than %ld", when,
			 fixture_nr_fds(fds.fixture), fds.most);
}

/* What is left over while the process lives on; it may have kept its connection. */
static void nothing_dangles(const struct failure *failure, pid_t child, struct fds fds)
{
	bool shared = failure->flags == MAP_SHARED;
	struct side *side = failure->side;

	/* Without an answer the library does not know how far it had come. */
	if (shared && failure->step->nr == SYS_recvmsg)
		assert_true(side_resv(side) == 0 || side_resv(side) == PAGES);
	else
		side_expect(side, 0, shared && failure->step->reserved ? PAGES : 0);
	assert_int_equal(fixture_nr_mapped(&side->fixture), 0);
	assert_int_equal(lines_with(child, "maps", "hugetlb"), 0);
	assert_int_equal(lines_with(child, "maps", "data/"), 0);
	fds.most += CLIENT_FDS;
	expect_fds(fds, failure->step->name);
}

static void fail_in_turn(struct side *side, int flags)
{
	struct failure failure = {side, .flags = flags};
	struct fds fds = {&side->fixture};
	int status;
	pid_t child;

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		failure.step = &steps[i];
		failure.fd = side_file(side, "file", PAGES);
		/* the daemon opens what belongs to the file */
		side_unmap(side, side_map_pages(side, MAP_SHARED, failure.fd, 0, 1), PAGE_2M);
		assert_int_equal(
			ftruncate(failure.fd, 0) | ftruncate(failure.fd, PAGES * PAGE_2M), 0);
		assert_int_equal(pipe(failure.ready) | pipe(failure.go), 0);
		fds.most = fixture_nr_fds(&side->fixture);
		child = start_child(map_in_child, &failure, 0);
		close(failure.ready[1]);
		if (read(failure.ready[0], (char[1]){0}, 1) == 1) {
			if (steps[i].expected)
				nothing_dangles(&failure, child, fds);
			assert_int_equal(write(failure.go[1], "", 1), 1);
		}
		status = wait_child(child, 10000);
		if (status != 0)
			fail_msg("%s: the process ended with %d", steps[i].name, status);
		expect_fds(fds, steps[i].name);
		assert_int_equal(fixture_nr_mapped(&side->fixture), 0);
		assert_int_equal(unlink(fixture_path(&side->fixture, "file")), 0);
		close(failure.fd);
		close(failure.ready[0]);
		close(failure.go[0]);
		close(failure.go[1]);
		side_expect(side, 0, 0);
	}
	/* and all of it is to be had */
	failure.fd = side_file(side, "file", POOL);
	side_map_pages(side, MAP_PRIVATE | MAP_POPULATE, failure.fd, 0, POOL);
	side_expect(side, POOL, 0);
}

static void shared(struct side *side)
{
	fail_in_turn(side, MAP_SHARED);
}

static void private(struct side *side)
{
	fail_in_turn(side, MAP_PRIVATE);
}

/* One descriptor more each time, until it works. */
static int map_with_few_descriptors(void *data)
{
	struct side *side = data;
	int fd = fixture_file(&side->fixture, "file", O_RDWR, 0), failed = 0, error;
	struct rlimit limit, few;
	char *p = MAP_FAILED;

	child_check(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	for (int more = 1; more < 8 && p == MAP_FAILED; more++) {
		few = (struct rlimit){(rlim_t)(fd + more), limit.rlim_max};
		child_check(setrlimit(RLIMIT_NOFILE, &few) == 0);
		p = hugefuse_mmap(NULL, PAGES * PAGE_2M, RW, MAP_PRIVATE, fd, 0);
		error = errno;
		child_check(setrlimit(RLIMIT_NOFILE, &limit) == 0);
		if (p != MAP_FAILED)
			continue;
		child_check(error == EMFILE);
		failed++;
		side_expect(side, 0, 0);
	}
	child_check(p != MAP_FAILED && failed > 0);
	child_check(!raises_sigbus(p, true));
	side_expect(side, 1, PAGES - 1);
	return 0;
}

static void few_descriptors(struct side *side)
{
	side_file(side, "file", PAGES);
	assert_int_equal(run_child(map_with_few_descriptors, side, 0, 10000), 0);
	side_expect(side, 0, 0);
}

/* No room for it in the address space. */
static int map_without_room(void *data)
{
	struct side *side = data;
	int fd = fixture_file(&side->fixture, "file", O_RDWR, 0);
	struct rlimit limit, none = {64 * MB, RLIM_INFINITY};

	for (int i = 0; i < 20; i++) {
		child_check(getrlimit(RLIMIT_AS, &limit) == 0);
		child_check(setrlimit(RLIMIT_AS, &none) == 0);
		errno = 0;
		child_check(hugefuse_mmap(NULL, 40 * PAGE_2M, RW, MAP_SHARED | MAP_NORESERVE,
					  fd, 0) == MAP_FAILED);
		child_check(errno == ENOMEM);
		child_check(setrlimit(RLIMIT_AS, &limit) == 0);
	}
	return fixture_nr_mapped(&side->fixture) != 0;
}

static void no_room(struct side *side)
{
	side_file(side, "file", 40);
	assert_int_equal(run_child(map_without_room, side, 0, 10000), 0);
	side_expect(side, 0, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_HUGEFUSE(shared, "", POOL),
		ON_HUGEFUSE(private, "", POOL),
		ON_HUGEFUSE(few_descriptors, "", POOL),
		ON_HUGEFUSE(no_room, "", POOL),
	};

	require_root();
	require_pages(PAGE_2M, POOL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
