/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * map_in_steps FILE SIZE_KB: maps FILE, SIZE_KB long, and then does a step for each line on its
 * standard input: touches the first half of the pages, touches the rest, unmaps. It prints a
 * line when a step is done, so that others can look at the file in between, and removes
 * nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "hugefuse.h"

static int fail(const char *what)
{
	fprintf(stderr, "map_in_steps: %s: %s\n", what, strerror(errno));
	return 1;
}

static void touch(char *memory, size_t from, size_t to, size_t page_size)
{
	for (; from < to; from += page_size)
		((volatile char *)memory)[from] = 1;
}

/* Say that a step is done, and wait for the next line. */
static int next_step(const char *done)
{
	int c;

	puts(done);
	fflush(stdout);
	do
		c = getchar();
	while (c != '\n' && c != EOF);
	return c == EOF ? -1 : 0;
}

static int run_steps(char *memory, size_t size, size_t page_size)
{
	size_t half = size / 2 / page_size * page_size;

	if (next_step("mapped") < 0)
		return 0;
	touch(memory, 0, half, page_size);
	if (next_step("half touched") < 0)
		return 0;
	touch(memory, half, size, page_size);
	if (next_step("touched") < 0)
		return 0;
	if (hugefuse_munmap(memory, size) < 0)
		return fail("hugefuse_munmap");
	next_step("unmapped");
	return 0;
}

int main(int argc, char **argv)
{
	struct statfs fs;
	size_t size;
	void *memory;
	int fd;

	if (argc != 3) {
		fprintf(stderr, "usage: map_in_steps FILE SIZE_KB\n");
		return 2;
	}
	size = strtoul(argv[2], NULL, 10) * 1024;
	fd = open(argv[1], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || fstatfs(fd, &fs) < 0 || ftruncate(fd, (off_t)size) < 0)
		return fail(argv[1]);
	memory = hugefuse_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return fail("hugefuse_mmap");
	return run_steps(memory, size, (size_t)fs.f_bsize);
}
