/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How cost and memory grow with the number of mappings, or of files, of one mount.
 *
 * growth mappings FILE PID MAX: maps FILE, of one page, again and again, up to MAX times.
 * growth files DIRECTORY PID MAX: makes files, up to MAX. At 1, 10, 100 ... it prints a line:
 * how many there are, the resident memory of process PID in kB, and the median time in
 * microseconds of what is done to one more: mapping, touching and unmapping it; making, finding
 * and unlinking it.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "fs/clock.h"
#include "fs/memparse.h"
#include "hugefuse.h"

enum {
	NR_SAMPLES = 51,
	NR_STEPS = 3,
	MAX_OBJECTS = 1000000,
};

struct growth {
	const char *path;
	uint64_t pid;
	uint64_t nr;      /* objects that there are */
	void **maps;      /* mappings: where they are */
	int fd;           /* mappings: the file */
	size_t page_size; /* mappings: the file's length */
	void (*add)(struct growth *growth, uint64_t number);
	void (*remove)(struct growth *growth, uint64_t number);
	/* Do it to one more; the steps' ends go to @ret_ns. */
	void (*sample)(struct growth *growth, uint64_t *ret_ns);
};

static void die(const char *what)
{
	fprintf(stderr, "growth: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t resident_kb(uint64_t pid)
{
	char path[64], line[128];
	uint64_t kb = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/status", pid);
	file = fopen(path, "re");
	if (!file)
		die(path);
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "VmRSS: %" SCNu64, &kb) == 1)
			break;
	}
	fclose(file);
	return kb;
}

/* Mappings */

static void *map_one(struct growth *growth)
{
	void *map = hugefuse_mmap(NULL, growth->page_size, PROT_READ | PROT_WRITE, MAP_SHARED,
				  growth->fd, 0);

	if (map == MAP_FAILED)
		die("hugefuse_mmap");
	return map;
}

static void unmap_one(struct growth *growth, void *map)
{
	if (hugefuse_munmap(map, growth->page_size) < 0)
		die("hugefuse_munmap");
}

static void add_mapping(struct growth *growth, uint64_t number)
{
	growth->maps[number] = map_one(growth);
}

static void remove_mapping(struct growth *growth, uint64_t number)
{
	unmap_one(growth, growth->maps[number]);
}

/* The page is punched before, so that the touch is a fault that the daemon serves. */
static void sample_mapping(struct growth *growth, uint64_t *ret_ns)
{
	void *map;

	if (fallocate(growth->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
		      (off_t)growth->page_size) < 0)
		die("fallocate");
	ret_ns[0] = clock_now_ns();
	map = map_one(growth);
	ret_ns[1] = clock_now_ns();
	*(volatile char *)map = 1;
	ret_ns[2] = clock_now_ns();
	unmap_one(growth, map);
	ret_ns[3] = clock_now_ns();
}

static void start_mappings(struct growth *growth)
{
	struct statfs fs;

	growth->fd = open(growth->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (growth->fd < 0 || fstatfs(growth->fd, &fs) < 0)
		die(growth->path);
	growth->page_size = (size_t)fs.f_bsize;
	if (ftruncate(growth->fd, (off_t)growth->page_size) < 0)
		die(growth->path);
}

/* Files */

static void file_path(const struct growth *growth, uint64_t number, char *path, size_t bytes)
{
	snprintf(path, bytes, "%s/%" PRIu64, growth->path, number);
}

static void add_file(struct growth *growth, uint64_t number)
{
	char path[512];
	int fd;

	file_path(growth, number, path, sizeof(path));
	fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
	if (fd < 0)
		die(path);
	close(fd);
}

static void remove_file(struct growth *growth, uint64_t number)
{
	char path[512];

	file_path(growth, number, path, sizeof(path));
	if (unlink(path) < 0)
		die(path);
}

static void sample_file(struct growth *growth, uint64_t *ret_ns)
{
	char path[512];
	struct stat st;

	file_path(growth, growth->nr, path, sizeof(path));
	ret_ns[0] = clock_now_ns();
	add_file(growth, growth->nr);
	ret_ns[1] = clock_now_ns();
	if (stat(path, &st) < 0)
		die(path);
	ret_ns[2] = clock_now_ns();
	remove_file(growth, growth->nr);
	ret_ns[3] = clock_now_ns();
}

/* Both */

static int compare_ns(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

static void print_line(struct growth *growth)
{
	uint64_t took[NR_STEPS][NR_SAMPLES], ns[NR_STEPS + 1], kb = resident_kb(growth->pid);

	for (int i = 0; i < NR_SAMPLES; i++) {
		growth->sample(growth, ns);
		for (int step = 0; step < NR_STEPS; step++)
			took[step][i] = ns[step + 1] - ns[step];
	}
	printf("%" PRIu64 "\t%" PRIu64, growth->nr, kb);
	for (int step = 0; step < NR_STEPS; step++) {
		qsort(took[step], NR_SAMPLES, sizeof(took[step][0]), compare_ns);
		printf("\t%.1f", (double)took[step][NR_SAMPLES / 2] / 1000);
	}
	printf("\n");
	fflush(stdout);
}

static void grow(struct growth *growth, uint64_t max)
{
	for (uint64_t next = 1; growth->nr < max; next *= 10) {
		for (; growth->nr < next && growth->nr < max; growth->nr++)
			growth->add(growth, growth->nr);
		print_line(growth);
	}
	while (growth->nr > 0)
		growth->remove(growth, --growth->nr);
}

int main(int argc, char **argv)
{
	struct rlimit limit = {MAX_OBJECTS, MAX_OBJECTS};
	struct growth growth = {0};
	uint64_t max;
	bool files;

	if (argc != 5 || (strcmp(argv[1], "mappings") != 0 && strcmp(argv[1], "files") != 0) ||
	    memparse_number(argv[3], 10, 1, INT32_MAX, &growth.pid) < 0 ||
	    memparse_number(argv[4], 10, 1, MAX_OBJECTS, &max) < 0) {
		fprintf(stderr, "usage: growth mappings FILE PID MAX\n"
				"       growth files DIRECTORY PID MAX\n");
		return 2;
	}
	files = strcmp(argv[1], "files") == 0;
	growth.path = argv[2];
	growth.add = files ? add_file : add_mapping;
	growth.remove = files ? remove_file : remove_mapping;
	growth.sample = files ? sample_file : sample_mapping;
	setrlimit(RLIMIT_NOFILE, &limit);
	if (!files) {
		growth.maps = calloc(max, sizeof(*growth.maps));
		if (!growth.maps)
			die("memory");
		start_mappings(&growth);
	}
	grow(&growth, max);
	free(growth.maps);
	return 0;
}
