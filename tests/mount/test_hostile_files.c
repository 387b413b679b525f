/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Hostile users: files that are longer than anything, and numbers that are absurd. A witness is
 * served all the time, and after it all is as before.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "hostile.h"
#include "hugefuse.h"
#include "raw_client.h"
#include "witness.h"

#define USER  12345
#define PAGES 16

/* Files that are longer than anything. */

static int make_longest(void *data)
{
	char name[16], *p;
	int fd, nr = *(int *)data;

	snprintf(name, sizeof(name), "longest%d", nr);
	fd = open_file(name, O_RDWR | O_CREAT);
	child_check(fd >= 0 && ftruncate(fd, 1L << 46) == 0);
	/* A page at either end, of which the daemon was told nothing. */
	p = hugefuse_mmap(NULL, PAGE_2M, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
	child_check(p != MAP_FAILED);
	child_check(p[0] == 0);
	p = hugefuse_mmap(NULL, PAGE_2M, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd,
			  (1L << 46) - PAGE_2M);
	child_check(p != MAP_FAILED);
	child_check(p[0] == 0);
	/* And one through the daemon. */
	child_check(pwrite(fd, "x", 1, 1L << 40) == 1);
	return 0;
}

static int use_longest(void *data)
{
	int fd = open_file("longest0", O_RDWR);
	long start = now_ms();
	char byte;

	child_check(fd >= 0);
	child_check(fixture_counter(&fixture, "free_hugepages") >= 0);
	child_check(!took_long(&start, "counters"));
	child_check(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1L << 45) ==
		    0);
	child_check(!took_long(&start, "punch"));
	child_check(fallocate(fd, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, 0, 1L << 45) <
			    0 &&
		    errno == ENOSPC);
	child_check(!took_long(&start, "zero"));
	child_check(fallocate(fd, 0, 0, 1L << 45) < 0 && errno == ENOSPC);
	child_check(!took_long(&start, "allocate"));
	lseek(fd, 0, SEEK_DATA);
	lseek(fd, 0, SEEK_HOLE);
	child_check(!took_long(&start, "seek"));
	child_check(pread(fd, &byte, 1, 1L << 45) == 1 && byte == 0);
	child_check(ftruncate(fd, 1L << 59) == 0);
	child_check(pwrite(fd, "x", 1, 0) == 1 && pread(fd, &byte, 1, 0) == 1 && byte == 'x');
	child_check(!took_long(&start, "the first byte of a file of 2^59"));
	child_check(hugefuse_mmap(NULL, 1L << 46, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED);
	child_check(errno == ENOMEM);
	child_check(!took_long(&start, "mapping all of it"));
	return 0;
}

static void test_longest_files(void **state)
{
	char name[24];

	witness_begin("size=32M,mode=1777", PAGES);
	/* Together they are longer than the daemon's address space. */
	for (int i = 0; i < 3; i++)
		hostile(make_longest, &i, i ? USER : 0);
	hostile(use_longest, NULL, 0);
	for (int i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "longest%d", i);
		assert_int_equal(unlink(fixture_path(&fixture, name)), 0);
	}
	witness_end();
}

/* Numbers that are absurd. */

static int use_absurd_numbers(void *data)
{
	static const int modes[] = {0, 1, 2, 3, 8, 16, 17, 32, 64, 0x7fffffff, -1};
	struct hugefuse_ioc_map map;
	struct hugefuse_ioc_reserve reserve;
	char bytes[100] = "";
	int fd = open_file("absurd", O_RDWR | O_CREAT);

	child_check(fd >= 0);
	for (size_t i = 0; i < NR_ABSURD; i++) {
		pread(fd, bytes, sizeof(bytes), absurd[i]);
		pwrite(fd, bytes, sizeof(bytes), absurd[i]);
		pwrite(fd, bytes, 0, absurd[i]);
		lseek(fd, absurd[i], SEEK_DATA);
		lseek(fd, absurd[i], SEEK_HOLE);
		lseek(fd, absurd[i], 77);
		posix_fadvise(fd, absurd[i], absurd[i], POSIX_FADV_WILLNEED);
		sync_file_range(fd, absurd[i], absurd[i], 7);
		readahead(fd, absurd[i], sizeof(bytes));
		ftruncate(fd, absurd[i]);
		for (size_t j = 0; j < NR_ABSURD; j++) {
			for (size_t k = 0; k < sizeof(modes) / sizeof(modes[0]); k++)
				fallocate(fd, modes[k], absurd[i], absurd[j]);
			for (uint32_t flags = 0; flags < 8; flags++)
				raw_request(fd, flags, (uint64_t)absurd[i], (uint64_t)absurd[j],
					    &map);
			reserve = (struct hugefuse_ioc_reserve){(uint64_t)absurd[i],
								(uint64_t)absurd[j], 0};
			ioctl(fd, HUGEFUSE_IOC_RESERVE, &reserve);
		}
		child_check(ftruncate(fd, 0) == 0);
	}
	child_check(unlink(fixture_path(&fixture, "absurd")) == 0);
	return 0;
}

/* ioctl(2) with every size and direction. */
static int use_absurd_ioctls(void *data)
{
	static char argument[1 << 14];
	int fds[3], directory;

	fds[0] = open_file("ioctl", O_RDWR | O_CREAT);
	fds[1] = open_file(".hugefuse/options", O_RDONLY);
	fds[2] = directory = open(fixture.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < 3; i++) {
		child_check(fds[i] >= 0);
		for (unsigned int size = 0; size < 1 << 14; size += size < 200 ? 1 : 509) {
			for (unsigned int nr = 0x6e; nr < 0x75; nr++) {
				for (unsigned int direction = 0; direction < 4; direction++) {
					unsigned int cmd = _IOC(direction, 'H', nr, size);

					if (cmd == HUGEFUSE_IOC_MAP ||
					    cmd == HUGEFUSE_IOC_RESERVE ||
					    cmd == HUGEFUSE_IOC_QUERY ||
					    cmd == HUGEFUSE_IOC_MOUNT)
						continue;
					child_check(ioctl(fds[i], cmd, argument) < 0);
				}
			}
		}
		/* Where there is nothing to read or write. */
		child_check(ioctl(fds[i], HUGEFUSE_IOC_MAP, NULL) < 0);
		child_check(ioctl(fds[i], HUGEFUSE_IOC_QUERY, (void *)-4096L) < 0);
	}
	child_check(unlink(fixture_path(&fixture, "ioctl")) == 0);
	return 0;
}

static int write_garbage_stats(void *data)
{
	static const char *const names[] = {"lock_stat", "fault_stat"};
	static char garbage[70000];
	char path[PATH_MAX];
	int fd;

	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/.hugefuse/%s", fixture.dir, names[i]);
		fd = open(path, O_WRONLY | O_CLOEXEC);
		child_check(fd >= 0);
		for (size_t len = 0; len < sizeof(garbage); len = len * 3 + 1) {
			memset(garbage, '0', sizeof(garbage));
			if (len > 1)
				child_check(pwrite(fd, garbage, len, 0) < 0 && errno == EINVAL);
			memset(garbage, 0xff, sizeof(garbage));
			pwrite(fd, garbage, len, absurd[len % NR_ABSURD]);
		}
		child_check(pwrite(fd, "1", 1, 0) < 0 && errno == EINVAL);
		child_check(pwrite(fd, "0x", 2, 0) < 0 && errno == EINVAL);
		child_check(pwrite(fd, "0\n", 2, 0) == 2);
		ftruncate(fd, 1000);
		fallocate(fd, 0, 0, 10);
		close(fd);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		for (size_t j = 0; j < NR_ABSURD; j++)
			pread(fd, garbage, sizeof(garbage), absurd[j]);
		child_check(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED);
		close(fd);
	}
	return 0;
}

static void test_absurd(void **state)
{
	witness_begin("size=32M,mode=1777", PAGES);
	hostile(use_absurd_numbers, NULL, USER);
	hostile(use_absurd_ioctls, NULL, USER);
	hostile(write_garbage_stats, NULL, 0);
	witness_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_longest_files),
		cmocka_unit_test(test_absurd),
	};

	require_root();
	require_pages(PAGE_2M, PAGES);
	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
