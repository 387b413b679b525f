/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Witness: a page of a file, and two of a private mapping that it loses and touches again. */
#include "witness.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "hugefuse.h"
#include "raw_client.h"

#define CHILD_MS     40000
#define MAPPED_PAGES 2

struct fixture fixture;
static int stop_pipe[2];
static pid_t witness;
static long fds_before, pages;

long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int open_file(const char *name, int flags)
{
	return open(fixture_path(&fixture, name), flags | O_CLOEXEC, 0666);
}

/* Whether that which began at @start has taken too long; and begin anew. */
int took_long(long *start, const char *what)
{
	long now = now_ms(), took = now - *start;

	*start = now;
	if (took <= SERVED_MS)
		return 0;
	fprintf(stderr, "waited %ld ms for %s\n", took, what);
	return 1;
}

static int witness_round(char *mapped, int fd)
{
	long start = now_ms();
	char bytes[16] = "";

	child_check(madvise(mapped, MAPPED_PAGES * PAGE_2M, MADV_DONTNEED) == 0);
	child_check(!took_long(&start, "MADV_DONTNEED"));
	for (int i = 0; i < MAPPED_PAGES; i++) {
		child_check(mapped[i * PAGE_2M] == 0);
		mapped[i * PAGE_2M] = 1;
	}
	child_check(!took_long(&start, "a page fault"));
	child_check(pwrite(fd, "I am well", 10, 4000) == 10);
	child_check(!took_long(&start, "write"));
	child_check(pread(fd, bytes, 10, 4000) == 10 && strcmp(bytes, "I am well") == 0);
	child_check(!took_long(&start, "read"));
	return 0;
}

static int run_witness(void *data)
{
	struct pollfd stop = {.fd = stop_pipe[0], .events = POLLIN};
	char path[PATH_MAX];
	int fd, new_fd;
	char *mapped;
	long start;

	close(stop_pipe[1]);
	fd = open_file("witness", O_RDWR | O_CREAT);
	child_check(fd >= 0 && fallocate(fd, 0, 0, PAGE_2M) == 0);
	mapped = hugefuse_mmap(NULL, MAPPED_PAGES * PAGE_2M, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE, fd, PAGE_2M);
	child_check(mapped != MAP_FAILED);
	strcpy(path, fixture_path(&fixture, "witness.new"));
	child_check(write(*(int *)data, "", 1) == 1);
	do {
		child_check(witness_round(mapped, fd) == 0);
		start = now_ms();
		new_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
		child_check(new_fd >= 0 && close(new_fd) == 0 && unlink(path) == 0);
		child_check(!took_long(&start, "create and unlink"));
	} while (poll(&stop, 1, 10) == 0);
	child_check(unlink(fixture_path(&fixture, "witness")) == 0);
	return 0;
}

void witness_begin(const char *options, long nr_pages)
{
	int ready[2];
	char byte;

	memset(&fixture, 0, sizeof(fixture));
	pages = nr_pages;
	fixture_mount(&fixture, options);
	fixture_expect_counter(&fixture, "free_hugepages", pages);
	fds_before = fixture_nr_fds(&fixture);
	assert_int_equal(pipe2(stop_pipe, O_CLOEXEC), 0);
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	witness = start_child(run_witness, &ready[1], 0);
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(stop_pipe[0]);
}

static bool fds_are_as_before(void *data)
{
	return fixture_nr_fds(&fixture) <= fds_before;
}

static bool nothing_is_mapped(void *data)
{
	return fixture_nr_mapped(&fixture) == 0;
}

/* The witness was served all the time, and everything is as before. */
void witness_end(void)
{
	close(stop_pipe[1]);
	assert_int_equal(wait_child(witness, 10000), 0);
	assert_int_equal(kill(fixture.daemon, 0), 0);
	assert_true(wait_until(nothing_is_mapped, NULL, 3000));
	fixture_expect_counter(&fixture, "free_hugepages", pages);
	fixture_expect_counter(&fixture, "resv_hugepages", pages);
	if (!wait_until(fds_are_as_before, NULL, 3000))
		fail_msg("the daemon had %ld descriptors, and has %ld", fds_before,
			 fixture_nr_fds(&fixture));
	fixture_umount(&fixture);
}

void hostile(int (*function)(void *data), void *data, uid_t uid)
{
	assert_int_equal(run_child(function, data, uid, CHILD_MS), 0);
}

long witness_fds_before(void)
{
	return fds_before;
}
