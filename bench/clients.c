/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * clients MODE DIRECTORY CLIENTS KB: so many processes map a fresh file of KB each, wait for
 * each other, and touch every page, each with one thread. MODE is kernel (hugetlbfs) or
 * hugefuse. Prints the microseconds that mapping took, from the first to the last, and the
 * seconds from the start until the last page of all was touched.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/clock.h"
#include "fs/memparse.h"
#include "hugefuse.h"

enum {
	MAX_CLIENTS = 1024
};

/* In memory that all processes share. */
struct meeting {
	pthread_barrier_t barrier;
	struct {
		uint64_t mapping_ns, mapped_ns, start_ns, end_ns;
	} client[MAX_CLIENTS];
};

static void die(const char *what)
{
	fprintf(stderr, "clients: %s: %s\n", what, strerror(errno));
	_exit(1);
}

static void *map_file(bool hugefuse, const char *path, size_t size, size_t *ret_page_size)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	struct statfs fs;
	void *map;

	if (fd < 0 || fstatfs(fd, &fs) < 0 || ftruncate(fd, (off_t)size) < 0)
		die(path);
	*ret_page_size = (size_t)fs.f_bsize;
	if (hugefuse)
		map = hugefuse_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	else
		map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		die("mmap");
	close(fd);
	return map;
}

static void run_client(struct meeting *meeting, unsigned number, bool hugefuse,
		       const char *directory, size_t size)
{
	char path[512];
	size_t page_size;
	volatile char *map;

	snprintf(path, sizeof(path), "%s/client-%u", directory, number);
	pthread_barrier_wait(&meeting->barrier);
	meeting->client[number].mapping_ns = clock_now_ns();
	map = map_file(hugefuse, path, size, &page_size);
	meeting->client[number].mapped_ns = clock_now_ns();
	pthread_barrier_wait(&meeting->barrier);
	meeting->client[number].start_ns = clock_now_ns();
	for (size_t at = 0; at < size; at += page_size)
		map[at] = 1;
	meeting->client[number].end_ns = clock_now_ns();
	/* Nobody ends, and gives memory back, while another is at work. */
	pthread_barrier_wait(&meeting->barrier);
	if (unlink(path) < 0)
		die(path);
}

static void print(const struct meeting *meeting, unsigned nr)
{
	uint64_t mapping = UINT64_MAX, mapped = 0, start = UINT64_MAX, end = 0;

	for (unsigned i = 0; i < nr; i++) {
		if (meeting->client[i].mapping_ns < mapping)
			mapping = meeting->client[i].mapping_ns;
		if (meeting->client[i].mapped_ns > mapped)
			mapped = meeting->client[i].mapped_ns;
		if (meeting->client[i].start_ns < start)
			start = meeting->client[i].start_ns;
		if (meeting->client[i].end_ns > end)
			end = meeting->client[i].end_ns;
	}
	printf("%.1f\n%.6f\n", (double)(mapped - mapping) / 1e3, (double)(end - start) / 1e9);
}

int main(int argc, char **argv)
{
	pthread_barrierattr_t attr;
	struct meeting *meeting;
	uint64_t nr, kb;
	int status, failed = 0;
	bool hugefuse;

	if (argc != 5 || (strcmp(argv[1], "kernel") != 0 && strcmp(argv[1], "hugefuse") != 0) ||
	    memparse_number(argv[3], 10, 1, MAX_CLIENTS, &nr) < 0 ||
	    memparse_number(argv[4], 10, 1, INT32_MAX, &kb) < 0) {
		fprintf(stderr, "usage: clients kernel|hugefuse DIRECTORY CLIENTS KB\n");
		return 2;
	}
	hugefuse = strcmp(argv[1], "hugefuse") == 0;
	meeting = mmap(NULL, sizeof(*meeting), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (meeting == MAP_FAILED)
		die("memory");
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&meeting->barrier, &attr, (unsigned)nr);
	for (unsigned i = 0; i < nr; i++) {
		pid_t pid = fork();

		if (pid < 0)
			die("fork");
		if (pid == 0) {
			/* With one of them gone the others would wait for ever. */
			alarm(60);
			run_client(meeting, i, hugefuse, argv[2], (size_t)kb * 1024);
			_exit(0);
		}
	}
	while (wait(&status) > 0)
		failed |= status;
	if (failed)
		return 1;
	print(meeting, (unsigned)nr);
	return 0;
}
