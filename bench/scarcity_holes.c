/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Holes in a file: punch them and write them again, all over the file, through a descriptor
 * that is open for writing alone; and then read the file at random places through a mapping.
 *
 * usage: scarcity_holes FILE MEGABYTES SECONDS
 *
 * Prints one line: holes punched and written again per second, how many per cent of the file
 * the reader has mapped by huge page table entries after that, and how many nanoseconds a
 * random read takes there.
 */
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define HOLE     (64L << 10)
#define NR_READS 4000000

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static uint64_t next_random(void)
{
	static uint64_t state = 88172645463325252ULL;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static void fill(int fd, long size)
{
	static char bytes[1 << 20];

	memset(bytes, 1, sizeof(bytes));
	for (long at = 0; at < size; at += (long)sizeof(bytes)) {
		if (pwrite(fd, bytes, sizeof(bytes), at) != (ssize_t)sizeof(bytes))
			fail("write");
	}
}

static double punch_and_fill(int fd, long size, double seconds)
{
	static char bytes[HOLE];
	double begin = now(), end;
	long nr = 0, at;

	memset(bytes, 2, sizeof(bytes));
	do {
		at = (long)(next_random() % (uint64_t)(size / HOLE)) * HOLE;
		if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, HOLE) < 0)
			fail("punch");
		if (pwrite(fd, bytes, HOLE, at) != HOLE)
			fail("write");
		nr++;
		end = now();
	} while (end - begin < seconds);
	return (double)nr / (end - begin);
}

static long huge_kb(const char *addr)
{
	FILE *smaps = fopen("/proc/self/smaps", "re");
	char line[4096], range[32];
	int here = 0;
	long kb = 0;

	if (!smaps)
		fail("smaps");
	snprintf(range, sizeof(range), "%lx-", (unsigned long)addr);
	while (fgets(line, sizeof(line), smaps)) {
		if (strncmp(line, range, strlen(range)) == 0)
			here = 1;
		if (here && sscanf(line, "ShmemPmdMapped: %ld", &kb) == 1)
			break;
	}
	fclose(smaps);
	return kb;
}

static double read_at_random(const volatile char *map, long size)
{
	double begin = now();
	uint64_t sum = 0;

	/* each place depends on what was read before */
	for (long i = 0; i < NR_READS; i++)
		sum += (uint64_t)map[(next_random() + (sum & 1)) % (uint64_t)size];
	return (now() - begin) * 1e9 / NR_READS;
}

int main(int argc, char **argv)
{
	long size, touched = 0;
	double per_second;
	char *map;
	int fd;

	if (argc != 4) {
		fprintf(stderr, "usage: scarcity_holes FILE MEGABYTES SECONDS\n");
		return 2;
	}
	size = atol(argv[2]) << 20;
	fd = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		fail(argv[1]);
	fill(fd, size);
	per_second = punch_and_fill(fd, size, atof(argv[3]));
	close(fd);
	fd = open(argv[1], O_RDONLY | O_CLOEXEC);
	map = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		fail("mmap");
	for (long at = 0; at < size; at += 4096)
		touched += ((volatile char *)map)[at] != 0;
	if (touched != size / 4096) {
		fprintf(stderr, "scarcity_holes: the file is not what was written\n");
		return 1;
	}
	printf("%.0f %.1f %.1f\n", per_second,
	       100.0 * (double)huge_kb(map) * 1024 / (double)size, read_at_random(map, size));
	unlink(argv[1]);
	return 0;
}
