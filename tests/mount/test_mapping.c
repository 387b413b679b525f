/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Mapping: what is mapped, with which rights, and what it costs; beside the kernel's hugetlbfs.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hugefuse.h"
#include "raw_client.h"
#include "side.h"

#define POOL 16
#define RW   (PROT_READ | PROT_WRITE)

static char byte_at(int fd, off_t offset)
{
	char byte = 0;

	assert_int_equal(pread(fd, &byte, 1, offset), 1);
	return byte;
}

static void shared_is_visible(struct side *side)
{
	int fd = side_file(side, "file", 4), other;
	char *one = side_map_pages(side, MAP_SHARED, fd, 0, 4), *two;

	side_expect(side, 0, 4);
	two = side_map_pages(side, MAP_SHARED, fd, 1, 2);
	side_expect(side, 0, 4); /* the same pages */
	one[PAGE_2M] = 11;
	assert_int_equal(two[0], 11);
	two[2 * PAGE_2M - 1] = 12;
	assert_int_equal(one[3 * PAGE_2M - 1], 12);
	assert_int_equal(byte_at(fd, 3 * PAGE_2M - 1), 12);
	side_expect(side, 2, 2);
	assert_int_equal(side_unmap(side, one, 4 * PAGE_2M), 0);
	side_expect(side, 2, 2); /* they are the file's */
	two[1] = 13;
	close(fd);
	other = side_file(side, "file", 0);
	assert_int_equal(byte_at(other, PAGE_2M), 11);
	assert_int_equal(byte_at(other, PAGE_2M + 1), 13);
	assert_int_equal(byte_at(other, 0), 0);
	assert_int_equal(side_unmap(side, two, 2 * PAGE_2M), 0);
	assert_int_equal(ftruncate(other, 0), 0);
	side_expect(side, 0, 0);
}

static void private_is_isolated(struct side *side)
{
	int fd = side_file(side, "file", 4);
	char *shared = side_map_pages(side, MAP_SHARED, fd, 0, 1), *own;

	shared[0] = 21;
	shared[1] = 22;
	side_expect(side, 1, 0);
	own = side_map_pages(side, MAP_PRIVATE, fd, 0, 4);
	side_expect(side, 1, 4);
	assert_int_equal(own[0], 21); /* the file's page, no page of its own */
	side_expect(side, 1, 4);
	own[0] = 31; /* a copy of it */
	side_expect(side, 2, 3);
	assert_int_equal(own[1], 22);
	assert_int_equal(shared[0], 21);
	shared[1] = 23;
	assert_int_equal(own[1], 22);
	assert_int_equal(own[PAGE_2M], 0); /* a hole: a zero page of its own */
	side_expect(side, 3, 2);
	own[2 * PAGE_2M + 5] = 32;
	side_expect(side, 4, 1);
	assert_int_equal(byte_at(fd, 2 * PAGE_2M + 5), 0);
	assert_int_equal(side_unmap(side, own, 4 * PAGE_2M), 0);
	side_expect(side, 1, 0);
	assert_int_equal(shared[0], 21);
}

static void several_private(struct side *side)
{
	int fd = side_file(side, "file", 2);
	char *one = side_map_pages(side, MAP_PRIVATE, fd, 0, 2), *two;

	two = side_map_pages(side, MAP_PRIVATE, fd, 0, 2);
	side_expect(side, 0, 4);
	one[0] = 1;
	two[0] = 2;
	assert_int_equal(one[0], 1);
	side_expect(side, 2, 2);
	assert_int_equal(side_unmap(side, one, 2 * PAGE_2M), 0);
	side_expect(side, 1, 1);
	assert_int_equal(two[0], 2);
}

static void populate(struct side *side)
{
	int fd = side_file(side, "file", 8);
	char *p = side_map_pages(side, MAP_SHARED | MAP_POPULATE, fd, 0, 3), *own;

	side_expect(side, 3, 0);
	p[2 * PAGE_2M] = 7;
	own = side_map_pages(side, MAP_PRIVATE | MAP_POPULATE, fd, 2, 4);
	side_expect(side, 7, 0);
	assert_int_equal(own[0], 7);
	own[0] = 8;
	assert_int_equal(p[2 * PAGE_2M], 7);
	side_expect(side, 7, 0);
	assert_int_equal(side_unmap(side, own, 4 * PAGE_2M), 0);
	own = side_map(side, NULL, 2 * PAGE_2M, PROT_READ, MAP_SHARED | MAP_POPULATE, fd,
		       6 * PAGE_2M);
	assert_ptr_not_equal(own, MAP_FAILED);
	side_expect(side, 5, 0);
}

static void noreserve(struct side *side)
{
	int fd = side_file(side, "file", 2 * POOL);
	char *p = side_map_pages(side, MAP_SHARED | MAP_NORESERVE, fd, 0, 2 * POOL), *own;

	own = side_map_pages(side, MAP_PRIVATE | MAP_NORESERVE, fd, 0, 2 * POOL);
	side_expect(side, 0, 0);
	p[0] = 1;
	own[PAGE_2M] = 2;
	side_expect(side, 2, 0);
	assert_int_equal(own[0], 1);
	assert_int_equal(p[PAGE_2M], 0);
	side_expect(side, 3, 0);
	assert_int_equal(side_unmap(side, own, 2 * POOL * PAGE_2M), 0);
	side_expect(side, 2, 0);
}

/* What @fd, opened with @flags, may be mapped for: 0 or the error. */
static int map_error(struct side *side, int open_flags, int prot, int flags)
{
	int fd = fixture_file(&side->fixture, "file", open_flags, 0), error = 0;
	void *p = side_map(side, NULL, PAGE_2M, prot, flags, fd, 0);

	if (p == MAP_FAILED)
		error = errno;
	else
		assert_int_equal(side_unmap(side, p, PAGE_2M), 0);
	close(fd);
	return error;
}

static void access_modes(struct side *side)
{
	close(side_file(side, "file", 2));
	assert_int_equal(map_error(side, O_RDONLY, PROT_READ, MAP_SHARED), 0);
	assert_int_equal(map_error(side, O_RDONLY, RW, MAP_SHARED), EACCES);
	assert_int_equal(map_error(side, O_RDONLY, PROT_WRITE, MAP_SHARED), EACCES);
	assert_int_equal(map_error(side, O_RDONLY, RW, MAP_PRIVATE), 0);
	assert_int_equal(map_error(side, O_WRONLY, PROT_WRITE, MAP_SHARED), EACCES);
	assert_int_equal(map_error(side, O_WRONLY, PROT_READ, MAP_SHARED), EACCES);
	assert_int_equal(map_error(side, O_WRONLY, PROT_READ, MAP_PRIVATE), EACCES);
	assert_int_equal(map_error(side, O_RDWR, PROT_READ, MAP_SHARED), 0);
}

static void read_only_descriptor(struct side *side)
{
	int fd = side_file(side, "file", 3), read_only;
	char *p = side_map_pages(side, MAP_SHARED, fd, 0, 1), *q;

	p[0] = 41;
	read_only = fixture_file(&side->fixture, "file", O_RDONLY, 0);
	q = side_map(side, NULL, 3 * PAGE_2M, PROT_READ, MAP_SHARED, read_only, 0);
	assert_ptr_not_equal(q, MAP_FAILED);
	assert_int_equal(q[0], 41);
	assert_int_equal(mprotect(q, 3 * PAGE_2M, RW), -1);
	assert_int_equal(errno, EACCES);
	side_expect(side, 1, 2);
	assert_int_equal(q[PAGE_2M], 0); /* reading a hole fills it */
	side_expect(side, 2, 1);
	assert_int_equal(side_unmap(side, q, 3 * PAGE_2M), 0);
	q = side_map(side, NULL, 3 * PAGE_2M, RW, MAP_PRIVATE, read_only, 0);
	assert_ptr_not_equal(q, MAP_FAILED);
	side_expect(side, 2, 4);
	q[0] = 42;
	q[2 * PAGE_2M] = 43;
	assert_int_equal(p[0], 41);
	assert_int_equal(byte_at(fd, 2 * PAGE_2M), 0);
	side_expect(side, 4, 2);
	assert_int_equal(side_unmap(side, q, 3 * PAGE_2M), 0);
	side_expect(side, 2, 1);
}

static void protections(struct side *side)
{
	int fd = side_file(side, "file", 6);
	char *p = side_map(side, NULL, 4 * PAGE_2M, PROT_READ, MAP_SHARED, fd, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_equal(p[0], 0);
	assert_int_equal(mprotect(p + PAGE_2M, 2 * PAGE_2M, RW), 0);
	p[PAGE_2M] = 1;
	p[2 * PAGE_2M] = 2;
	assert_int_equal(p[3 * PAGE_2M], 0);
	side_expect(side, 4, 0);
	assert_int_equal(side_unmap(side, p, 4 * PAGE_2M), 0);
	p = side_map(side, NULL, 2 * PAGE_2M, PROT_NONE, MAP_PRIVATE, fd, 4 * PAGE_2M);
	assert_ptr_not_equal(p, MAP_FAILED);
	side_expect(side, 4, 2);
	assert_int_equal(mprotect(p, PAGE_2M, PROT_READ), 0);
	assert_int_equal(p[0], 0);
	assert_int_equal(mprotect(p, 2 * PAGE_2M, RW), 0);
	p[0] = p[PAGE_2M] = 3;
	side_expect(side, 6, 0);
	assert_int_equal(byte_at(fd, 1), 0);
}

static int touch_read_only(void *data)
{
	*(volatile char *)data = 1;
	return 0;
}

static void protection_is_kept(struct side *side)
{
	int fd = side_file(side, "file", 2);
	char *p = side_map_pages(side, MAP_SHARED, fd, 0, 2);

	p[0] = 1;
	assert_int_equal(mprotect(p, 2 * PAGE_2M, PROT_READ), 0);
	/* cmocka's handler of SIGSEGV aborts. */
	assert_int_not_equal(run_child(touch_read_only, p, 0, 10000), 0);
	assert_int_not_equal(run_child(touch_read_only, p + PAGE_2M, 0, 10000), 0);
	assert_int_equal(p[0], 1);
	assert_int_equal(p[PAGE_2M], 0);
}

static void unaligned_lengths(struct side *side)
{
	const size_t length = PAGE_2M + 1;
	int fd = side_file(side, "file", 2);
	char *p = side_map(side, NULL, length, RW, MAP_SHARED, fd, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	side_expect(side, 0, 2);
	p[2 * PAGE_2M - 1] = 1; /* the whole last page */
	assert_int_equal(munmap(p, length), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(side_unmap(side, p, length), 0);
	assert_false(is_mapped(p));
	assert_false(is_mapped(p + PAGE_2M));
	p = side_map(side, NULL, 1, RW, MAP_PRIVATE, fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	side_expect(side, 1, 2);
	p[PAGE_2M - 1] = 1;
	assert_int_equal(side_unmap(side, p, 1), 0);
	side_expect(side, 1, 1);
	/* A file that it makes longer has whole pages. */
	fd = side_file(side, "longer", 0);
	p = side_map(side, NULL, 2 * PAGE_2M + 1, RW, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_equal(lseek(fd, 0, SEEK_END), 3 * PAGE_2M);
	assert_int_equal(side_unmap(side, p, 2 * PAGE_2M + 1), 0);
}

/*
 * Who may only read a file cannot make it longer: not by a private mapping, which may be
 * written to, nor by mapping the descriptor of the pages so without a word to the daemon. The
 * kernel's file is longer then, and faults behind the end come to the daemon.
 */
static void reader_makes_nothing_longer(struct side *side)
{
	int fd = side_file(side, "file", 1);
	int read_only = fixture_file(&side->fixture, "file", O_RDONLY, 0);
	uint32_t flags = HUGEFUSE_MAP_WRITE | HUGEFUSE_MAP_PRIVATE | HUGEFUSE_MAP_NORESERVE;
	struct raw_mapping raw = {.sock = -1};
	char *p, *own;

	own = side_map(side, NULL, 3 * PAGE_2M, RW, MAP_PRIVATE, read_only, 0);
	assert_ptr_not_equal(own, MAP_FAILED);
	*own = 1;
	assert_true(raises_sigbus(own + PAGE_2M, true));
	p = side_map(side, NULL, 3 * PAGE_2M, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	assert_true(raises_sigbus(p + PAGE_2M, false));
	assert_int_equal(raw_mapping_attach(&raw, read_only, flags, 0, 3 * PAGE_2M), 0);
	assert_ptr_not_equal(
		mmap(NULL, 3 * PAGE_2M, RW, MAP_PRIVATE | MAP_NORESERVE, raw.backing, 0),
		MAP_FAILED);
	assert_int_equal(lseek(raw.backing, 0, SEEK_END), 3 * PAGE_2M);
	assert_int_equal(lseek(fd, 0, SEEK_END), PAGE_2M);
	assert_true(raises_sigbus(p + PAGE_2M, false));
	assert_int_equal(lseek(raw.backing, 0, SEEK_END), PAGE_2M);
	assert_int_equal(lseek(fd, 0, SEEK_END), PAGE_2M);
	assert_int_equal(ftruncate(fd, 2 * PAGE_2M), 0);
	assert_false(raises_sigbus(p + PAGE_2M, false));
	raw_mapping_close(&raw);
}

static void assert_map_fails(struct side *side, size_t length, int flags, int fd, off_t offset,
			     int error)
{
	errno = 0;
	assert_ptr_equal(side_map(side, NULL, length, RW, flags, fd, offset), MAP_FAILED);
	assert_int_equal(errno, error);
}

static void bad_arguments(struct side *side)
{
	int fd = side_file(side, "file", 4);

	assert_map_fails(side, PAGE_2M, MAP_SHARED, fd, 4096, EINVAL);
	assert_map_fails(side, PAGE_2M, MAP_SHARED, fd, PAGE_2M + 1, EINVAL);
	assert_map_fails(side, PAGE_2M, MAP_PRIVATE, fd, PAGE_2M / 2, EINVAL);
	assert_map_fails(side, 0, MAP_SHARED, fd, 0, EINVAL);
	assert_map_fails(side, PAGE_2M, 0, fd, 0, EINVAL);
	assert_map_fails(side, PAGE_2M, MAP_SHARED, -1, 0, EBADF);
	side_expect(side, 0, 0);
}

static void foreign_descriptors(struct side *side)
{
	char page[] = "/tmp/hugefuse-foreign-XXXXXX";
	int fds[] = {
		mkstemp(page),
		open("/dev/zero", O_RDWR | O_CLOEXEC),
		socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0),
		memfd_create("foreign", MFD_CLOEXEC),
		memfd_create("foreign", MFD_CLOEXEC | MFD_HUGETLB),
		open(side->fixture.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
		open(fixture_path(&side->fixture, ".hugefuse/files"), O_RDONLY | O_CLOEXEC),
	};
	struct hugefuse_info info;

	unlink(page);
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		assert_true(fds[i] >= 0);
		assert_ptr_equal(hugefuse_mmap(NULL, PAGE_2M, PROT_READ, MAP_SHARED, fds[i], 0),
				 MAP_FAILED);
		assert_true(errno == ENOTTY || errno == EOPNOTSUPP);
		assert_int_equal(hugefuse_query(fds[i], &info), -1);
		assert_true(errno == ENOTTY || errno == EOPNOTSUPP);
		assert_int_equal(hugefuse_reserve(fds[i], 0, PAGE_2M), -1);
		assert_true(errno == ENOTTY || errno == EOPNOTSUPP);
		close(fds[i]);
	}
	side_expect(side, 0, 0);
}

static off_t size_of(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return st.st_size;
}

static void beyond_the_end(struct side *side)
{
	int fd = side_file(side, "file", 1);
	char *p = side_map(side, NULL, 3 * PAGE_2M, PROT_READ, MAP_SHARED, fd, 0), *q;

	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_equal(size_of(fd), PAGE_2M);
	assert_false(raises_sigbus(p, false));
	assert_true(raises_sigbus(p + PAGE_2M, false));
	q = side_map_pages(side, MAP_SHARED, fd, 1, 1);
	assert_int_equal(size_of(fd), 2 * PAGE_2M);
	q[0] = 51;
	assert_int_equal(p[PAGE_2M], 51); /* the refused page, now there */
	assert_true(raises_sigbus(p + 2 * PAGE_2M, false));
	assert_int_equal(side_unmap(side, q, PAGE_2M), 0);
	q = side_map_pages(side, MAP_PRIVATE, fd, 2, 2);
	assert_int_equal(size_of(fd), 4 * PAGE_2M);
	q[0] = 52;
	assert_int_equal(p[2 * PAGE_2M], 0);
	q[PAGE_2M] = 53;
	assert_int_equal(side_unmap(side, q, 2 * PAGE_2M), 0);
	side_expect(side, 3, 0);
}

/* What is mapped behind the end becomes usable when the file grows, and SIGBUS when it shrinks.
 */
static void end_moves(struct side *side)
{
	int fd = side_file(side, "file", 2);
	char *p = side_map_pages(side, MAP_SHARED, fd, 0, 2);

	p[0] = p[PAGE_2M] = 1;
	assert_int_equal(ftruncate(fd, PAGE_2M), 0);
	side_expect(side, 1, 0);
	assert_true(raises_sigbus(p + PAGE_2M, true));
	assert_int_equal(p[0], 1);
	assert_int_equal(ftruncate(fd, 2 * PAGE_2M), 0);
	assert_false(raises_sigbus(p + PAGE_2M, false));
	assert_int_equal(p[PAGE_2M], 0);
	p[PAGE_2M] = 2;
	side_expect(side, 2, 0);
}

/* Kernel: hugetlbfs_punch_hole(). The page goes, and with it its reservation. */
static void punch(struct side *side)
{
	int fd = side_file(side, "file", 4);
	char *p = side_map_pages(side, MAP_SHARED, fd, 0, 4);

	p[0] = p[PAGE_2M] = 1;
	side_expect(side, 2, 2);
	assert_int_equal(
		fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, PAGE_2M, 2 * PAGE_2M),
		0);
	side_expect(side, 1, 2); /* page 2 was not there: its reservation stays */
	assert_int_equal(p[PAGE_2M], 0);
	assert_int_equal(p[2 * PAGE_2M], 0);
	assert_int_equal(p[0], 1);
	side_expect(side, 3, 1);
}

static void unlinked(struct side *side)
{
	int fd = side_file(side, "file", 2);
	char *p = side_map_pages(side, MAP_SHARED, fd, 0, 2);

	p[0] = 1;
	assert_int_equal(unlink(fixture_path(&side->fixture, "file")), 0);
	close(fd);
	side_expect(side, 1, 1);
	p[PAGE_2M] = 2;
	assert_int_equal(p[0], 1);
	side_expect(side, 2, 0);
	assert_int_equal(side_unmap(side, p, 2 * PAGE_2M), 0);
	side_expect(side, 0, 0);
}

static void reserve_and_query(struct side *side)
{
	int fd = side_file(side, "file", 4), read_only;
	struct hugefuse_info info;
	char *p, *own;

	assert_int_equal(hugefuse_reserve(fd, PAGE_2M, 2 * PAGE_2M), 2);
	assert_int_equal(hugefuse_reserve(fd, PAGE_2M, 2 * PAGE_2M), 0);
	assert_int_equal(hugefuse_reserve(fd, 2 * PAGE_2M + 1, PAGE_2M), 1);
	side_expect(side, 0, 3);
	assert_int_equal(hugefuse_reserve(fd, 0, 0), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(hugefuse_reserve(fd, 0, (POOL + 1) * PAGE_2M), -1);
	assert_int_equal(errno, ENOMEM);
	side_expect(side, 0, 3);
	read_only = fixture_file(&side->fixture, "file", O_RDONLY, 0);
	assert_int_equal(hugefuse_reserve(read_only, 0, PAGE_2M), -1);
	assert_int_equal(errno, EBADF);
	p = side_map_pages(side, MAP_SHARED, fd, 0, 4);
	own = side_map_pages(side, MAP_PRIVATE, fd, 0, 1);
	side_expect(side, 0, 5);
	p[0] = 1;
	assert_int_equal(hugefuse_query(read_only, &info), 0);
	assert_int_equal(info.page_size, PAGE_2M);
	assert_int_equal(info.size, 4 * PAGE_2M);
	assert_int_equal(info.file_reserved, 3);
	assert_int_equal(info.file_instantiated, 1);
	assert_int_equal(info.pool_total, POOL);
	assert_int_equal(info.pool_free, POOL - 1);
	assert_int_equal(info.pool_reserved, POOL - 1); /* all of size= is reserved */
	assert_int_equal(info.pool_surplus, 0);
	assert_int_equal(info.mappings, 2);
	assert_int_equal(side_unmap(side, own, PAGE_2M), 0);
	assert_int_equal(side_unmap(side, p, 4 * PAGE_2M), 0);
	assert_int_equal(hugefuse_query(fd, &info), 0);
	assert_int_equal(info.mappings, 0);
	assert_int_equal(info.file_reserved, 3);
}

struct exec_test {
	struct side *side;
	int ready[2], go[2];
};

static int map_and_exec(void *data)
{
	struct exec_test *test = data;
	int fd = fixture_file(&test->side->fixture, "file", O_RDWR, 0);
	char *p = side_map_pages(test->side, MAP_PRIVATE, fd, 0, 4);

	p[0] = 1;
	assert_int_equal(write(test->ready[1], "x", 1), 1);
	assert_int_equal(read(test->go[0], (char[1]){0}, 1), 1);
	dup2(test->go[0], STDIN_FILENO);
	execl("/bin/cat", "cat", NULL);
	return 1;
}

static void exec_releases(struct side *side)
{
	struct exec_test test = {side};
	pid_t child;

	side_file(side, "file", 4);
	assert_int_equal(pipe2(test.ready, O_CLOEXEC), 0);
	assert_int_equal(pipe2(test.go, O_CLOEXEC), 0);
	child = start_child(map_and_exec, &test, 0);
	assert_int_equal(read(test.ready[0], (char[1]){0}, 1), 1);
	side_expect(side, 1, 3);
	assert_int_equal(write(test.go[1], "x", 1), 1);
	side_expect(side, 0, 0);
	assert_int_equal(waitpid(child, NULL, WNOHANG), 0); /* it runs on, as another program */
	close(test.go[1]);
	assert_int_equal(wait_child(child, 5000), 0);
}

struct thread_test {
	struct side *side;
	char *shared, *own;
	pthread_t main;
	int fd;
};

static void *map_in_thread(void *data)
{
	struct thread_test *test = data;

	test->shared = side_map_pages(test->side, MAP_SHARED, test->fd, 0, 4);
	test->own = side_map_pages(test->side, MAP_PRIVATE, test->fd, 0, 4);
	test->shared[0] = test->own[PAGE_2M] = 1;
	return NULL;
}

static void thread_exits(struct side *side)
{
	struct thread_test test = {side, .fd = side_file(side, "file", 4)};
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, map_in_thread, &test), 0);
	pthread_join(thread, NULL);
	side_expect(side, 2, 6);
	test.shared[2 * PAGE_2M] = 1;
	test.own[2 * PAGE_2M] = 2;
	assert_int_equal(test.shared[2 * PAGE_2M], 1);
	assert_int_equal(side_unmap(side, test.own, 4 * PAGE_2M), 0);
	side_expect(side, 2, 2);
}

static void *go_on_without_main(void *data)
{
	struct thread_test *test = data;

	pthread_join(test->main, NULL);
	side_expect(test->side, 2, 6);
	test->shared[3 * PAGE_2M] = test->own[3 * PAGE_2M] = 1;
	test->own[0] = 2;
	side_expect(test->side, 5, 3);
	assert_int_equal(side_unmap(test->side, test->own, 4 * PAGE_2M), 0);
	side_expect(test->side, 2, 2);
	_exit(0);
}

/* The first thread of a process may end long before the process does. */
static void first_thread_exits(struct side *side)
{
	static struct thread_test test;
	pthread_t thread;

	test = (struct thread_test){side, .main = pthread_self()};
	test.fd = side_file(side, "file", 4);
	map_in_thread(&test);
	assert_int_equal(pthread_create(&thread, NULL, go_on_without_main, &test), 0);
	pthread_exit(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(shared_is_visible, POOL),
		ON_BOTH(private_is_isolated, POOL),
		ON_BOTH(several_private, POOL),
		ON_BOTH(populate, POOL),
		ON_BOTH(noreserve, POOL),
		ON_BOTH(access_modes, POOL),
		ON_BOTH(read_only_descriptor, POOL),
		ON_BOTH(protections, POOL),
		ON_BOTH(protection_is_kept, POOL),
		ON_BOTH(unaligned_lengths, POOL),
		ON_HUGEFUSE(reader_makes_nothing_longer, "", POOL),
		ON_BOTH(bad_arguments, POOL),
		ON_HUGEFUSE(foreign_descriptors, "", POOL),
		ON_BOTH(beyond_the_end, POOL),
		ON_BOTH(end_moves, POOL),
		ON_BOTH(punch, POOL),
		ON_BOTH(unlinked, POOL),
		ON_HUGEFUSE(reserve_and_query, "", POOL),
		ON_BOTH(exec_releases, POOL),
		ON_BOTH(thread_exits, POOL),
		ON_BOTH(first_thread_exits, POOL),
	};

	require_root();
	require_pages(PAGE_2M, POOL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
