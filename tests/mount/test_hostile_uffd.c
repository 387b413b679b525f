/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Hostile clients: userfaultfds that misbehave, and what is done to the pages behind the
 * daemon's back. A witness is served all the time, and after it all is as before.
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

#define USER          12345
#define PAGES         16
#define CPU_WINDOW_MS 300

/* Userfaultfds that misbehave. */

static void *touch_thread(void *data)
{
	*(volatile char *)data = 1;
	return NULL;
}

static int mapped_with_uffd(struct raw_mapping *mapping, uint64_t features)
{
	int uffd = raw_uffd(features);

	child_check(uffd >= 0);
	child_check(attach(mapping, "uffd", HUGEFUSE_MAP_WRITE, 4) == 0);
	child_check(raw_mapping_register(mapping, HUGEFUSE_MAP_WRITE, uffd) == 0);
	child_check(unlink(fixture_path(&fixture, "uffd")) == 0);
	return 0;
}

/*
 * The file of a userfaultfd is shared with the daemon, and so is O_NONBLOCK. The daemon neither
 * waits in read(2), nor turns round and round.
 */
static int make_it_block(void *data)
{
	struct raw_mapping mapping;
	long cpu;

	child_check(mapped_with_uffd(&mapping, 0) == 0);
	for (int i = 0; i < 4; i++) {
		child_check(fcntl(mapping.uffd, F_SETFL, 0) == 0);
		mapping.addr[i * PAGE_2M] = 1;
	}
	child_check(fcntl(mapping.uffd, F_SETFL, 0) == 0);
	child_check(madvise(mapping.addr, PAGE_2M, MADV_REMOVE) == 0);
	cpu = fixture_cpu_ms(&fixture);
	poll(NULL, 0, CPU_WINDOW_MS); /* what is measured, not what is waited for */
	cpu = fixture_cpu_ms(&fixture) - cpu;
	if (cpu > CPU_WINDOW_MS / 2)
		fprintf(stderr, "the daemon used %ld ms of %d\n", cpu, CPU_WINDOW_MS);
	child_check(cpu <= CPU_WINDOW_MS / 2);
	return 0;
}

/* Toggling as fast as one can. */
static void *toggle_thread(void *data)
{
	const struct raw_mapping *mapping = data;

	for (int i = 0; i < 200000; i++)
		fcntl(mapping->uffd, F_SETFL, i % 2 ? O_NONBLOCK : 0);
	return NULL;
}

static int toggle_blocking(void *data)
{
	struct raw_mapping mapping;
	pthread_t thread;

	child_check(mapped_with_uffd(&mapping, 0) == 0);
	child_check(pthread_create(&thread, NULL, toggle_thread, &mapping) == 0);
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 4; i++)
			mapping.addr[i * PAGE_2M] = 1;
		child_check(madvise(mapping.addr, 4 * PAGE_2M, MADV_REMOVE) == 0);
	}
	child_check(pthread_join(thread, NULL) == 0);
	return 0;
}

/* Who reads the messages instead of the daemon waits, and nobody else. */
static int steal_messages(void *data)
{
	struct raw_mapping mapping;
	struct pollfd poll_fd = {.events = POLLIN};
	struct uffd_msg messages[16];
	pthread_t thread;

	child_check(mapped_with_uffd(&mapping, UFFD_FEATURE_EVENT_REMOVE |
						       UFFD_FEATURE_EVENT_UNMAP) == 0);
	poll_fd.fd = mapping.uffd;
	for (int i = 0; i < 4; i++)
		child_check(pthread_create(&thread, NULL, touch_thread,
					   mapping.addr + i * PAGE_2M) == 0);
	for (int i = 0; i < 200; i++) {
		poll(&poll_fd, 1, 1);
		/* What is stolen does not matter, nor whether the daemon was faster. */
		if (read(mapping.uffd, messages, sizeof(messages)) < 0)
			continue;
	}
	return 0;
}

static int unregister(void *data)
{
	struct raw_mapping mapping;
	struct uffdio_range range;
	char *other;

	child_check(mapped_with_uffd(&mapping, 0) == 0);
	range = (struct uffdio_range){(uintptr_t)mapping.addr, mapping.length};
	child_check(ioctl(mapping.uffd, UFFDIO_UNREGISTER, &range) == 0);
	mapping.addr[0] = 1;
	/* Ordinary memory on the same userfaultfd, where the daemon was told of huge pages. */
	child_check(munmap(mapping.addr, mapping.length) == 0);
	other = mmap(mapping.addr, mapping.length, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	child_check(other == mapping.addr);
	child_check(raw_uffd_register(mapping.uffd, other, mapping.length) == 0);
	/* The daemon makes a page of the file for it, and wakes; a fault for ever, here alone.
	 */
	(void)other;
	return 0;
}

/* Descriptors that the kernel would make for the reader of the messages. */
static int fork_events(void *data)
{
	struct raw_mapping mapping;
	int status;

	child_check(mapped_with_uffd(&mapping, UFFD_FEATURE_EVENT_FORK) == 0);
	for (int i = 0; i < 50; i++) {
		pid_t child = fork();

		if (child == 0)
			_exit(0);
		child_check(child > 0 && waitpid(child, &status, 0) == child);
	}
	child_check(fixture_nr_fds(&fixture) < witness_fds_before() + 40);
	return 0;
}

static int close_early(void *data)
{
	struct raw_mapping mapping;

	child_check(mapped_with_uffd(&mapping, 0) == 0);
	raw_mapping_close(&mapping);
	mapping.addr[0] = 1;
	child_check(mapping.addr[0] == 1);
	return 0;
}

static void test_userfaultfds(void **state)
{
	int (*const worst[])(void *) = {close_early,    make_it_block, toggle_blocking,
					steal_messages, unregister,    fork_events};

	witness_begin("size=32M,mode=1777", PAGES);
	for (size_t i = 0; i < sizeof(worst) / sizeof(worst[0]); i++) {
		printf("userfaultfds, %zu\n", i);
		hostile(worst[i], NULL, 0);
	}
	witness_end();
}

/* A hole punched, or the end moved, behind the daemon's back through the descriptor of the
 * pages; who has the same file mapped is served all the same. */
static int pull_the_rug(void *data)
{
	struct raw_mapping mapping;
	struct stat st;
	char *p, byte;
	int fd;

	child_check(attach(&mapping, "rug", HUGEFUSE_MAP_WRITE, 4) == 0);
	fd = open_file("rug", O_RDWR);
	p = hugefuse_mmap(NULL, 4 * PAGE_2M, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	child_check(p != MAP_FAILED);
	for (int round = 0; round < 5; round++) {
		memset(p, 'x', 4 * PAGE_2M);
		child_check(fallocate(mapping.backing,
				      FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
				      4 * PAGE_2M) == 0);
		for (int i = 0; i < 4; i++)
			child_check(p[i * PAGE_2M] == 0);
		child_check(madvise(p, 4 * PAGE_2M, MADV_REMOVE) == 0);
		for (int i = 0; i < 4; i++)
			child_check(p[i * PAGE_2M] == 0);
	}
	child_check(ftruncate(mapping.backing, 0) == 0);
	child_check(fstat(fd, &st) == 0 && st.st_size == 4 * PAGE_2M);
	pread(fd, &byte, 1, 0);
	pwrite(fd, "x", 1, 0);
	child_check(raises_sigbus(p, true) || p[0] == 'x');
	child_check(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE_2M) == 0);
	fallocate(fd, 0, 0, 4 * PAGE_2M);
	/* The owner's truncate sets all right. */
	child_check(ftruncate(fd, 0) == 0 && ftruncate(fd, 4 * PAGE_2M) == 0);
	p[PAGE_2M] = 1;
	child_check(pread(fd, &byte, 1, PAGE_2M) == 1 && byte == 1);
	child_check(ftruncate(mapping.backing, 100 * PAGE_2M) == 0);
	child_check(unlink(fixture_path(&fixture, "rug")) == 0);
	return 0;
}

static void test_backing_descriptor(void **state)
{
	witness_begin("size=32M,mode=1777", PAGES);
	hostile(pull_the_rug, NULL, 0);
	hostile(pull_the_rug, NULL, USER);
	witness_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_userfaultfds),
		cmocka_unit_test(test_backing_descriptor),
	};

	require_root();
	require_pages(PAGE_2M, PAGES);
	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
