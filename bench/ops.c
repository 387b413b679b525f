/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Operations per second on files of a directory: each kind in turn, for a time, by threads that
 * have a subdirectory each. Prints one object of JSON; works on any filesystem.
 *
 * getattr asks past the kernel's cache of attributes (AT_STATX_FORCE_SYNC), stat as programs
 * do. lookup is of names that do not exist, each once.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/clock.h"
#include "fs/memparse.h"

enum {
	MAX_THREADS = 256,
	FILE_BYTES = 16 << 20,
	LARGE_BYTES = 128 << 10,
	SMALL_BYTES = 4 << 10,
};

struct worker {
	pthread_t thread;
	const struct operation *operation;
	const char *dir;
	unsigned number;
	uint64_t nr; /* operations done */
	uint64_t random;
	int read_fd, write_fd;
	char file[256];
	char *buffer; /* LARGE_BYTES */
};

struct operation {
	const char *name;
	void (*run)(struct worker *worker);
};

static _Atomic bool stop;
static pthread_barrier_t barrier;

static void die(const char *what)
{
	fprintf(stderr, "ops: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* A multiple of @bytes inside the file. */
static off_t random_offset(struct worker *worker, size_t bytes)
{
	worker->random ^= worker->random << 13;
	worker->random ^= worker->random >> 7;
	worker->random ^= worker->random << 17;
	return (off_t)(worker->random % (FILE_BYTES / bytes) * bytes);
}

static void run_getattr(struct worker *worker)
{
	struct statx st;

	if (statx(AT_FDCWD, worker->file, AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &st) < 0)
		die("statx");
}

static void run_stat(struct worker *worker)
{
	struct stat st;

	if (stat(worker->file, &st) < 0)
		die("stat");
}

static void run_lookup(struct worker *worker)
{
	char path[512];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%u/none-%" PRIu64, worker->dir, worker->number,
		 worker->nr);
	if (stat(path, &st) == 0 || errno != ENOENT)
		die(path);
}

static void run_create_unlink(struct worker *worker)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/%u/new", worker->dir, worker->number);
	fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0644);
	if (fd < 0)
		die(path);
	close(fd);
	if (unlink(path) < 0)
		die(path);
}

static void run_read_bytes(struct worker *worker, size_t bytes)
{
	if (pread(worker->read_fd, worker->buffer, bytes, random_offset(worker, bytes)) !=
	    (ssize_t)bytes)
		die("pread");
}

static void run_write_bytes(struct worker *worker, size_t bytes)
{
	if (pwrite(worker->write_fd, worker->buffer, bytes, random_offset(worker, bytes)) !=
	    (ssize_t)bytes)
		die("pwrite");
}

static void run_read_small(struct worker *worker)
{
	run_read_bytes(worker, SMALL_BYTES);
}

static void run_read_large(struct worker *worker)
{
	run_read_bytes(worker, LARGE_BYTES);
}

static void run_write_small(struct worker *worker)
{
	run_write_bytes(worker, SMALL_BYTES);
}

static void run_write_large(struct worker *worker)
{
	run_write_bytes(worker, LARGE_BYTES);
}

static const struct operation operations[] = {
	{"getattr", run_getattr},      {"stat", run_stat},
	{"lookup", run_lookup},        {"create_unlink", run_create_unlink},
	{"read_4k", run_read_small},   {"read_128k", run_read_large},
	{"write_4k", run_write_small}, {"write_128k", run_write_large},
};

enum {
	NR_OPERATIONS = sizeof(operations) / sizeof(operations[0])
};

static void *work(void *argument)
{
	struct worker *worker = argument;

	pthread_barrier_wait(&barrier);
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		worker->operation->run(worker);
		worker->nr++;
	}
	return NULL;
}

/* Operations per second of all @workers together. */
static double measure(struct worker *workers, unsigned nr, const struct operation *operation,
		      uint64_t milliseconds)
{
	struct timespec time = {(time_t)(milliseconds / 1000),
				(long)(milliseconds % 1000 * 1000000)};
	uint64_t done = 0, start_ns;

	atomic_store(&stop, false);
	pthread_barrier_init(&barrier, NULL, nr + 1);
	for (unsigned i = 0; i < nr; i++) {
		workers[i].operation = operation;
		workers[i].nr = 0;
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
			die("pthread_create");
	}
	pthread_barrier_wait(&barrier);
	start_ns = clock_now_ns();
	nanosleep(&time, NULL);
	atomic_store(&stop, true);
	for (unsigned i = 0; i < nr; i++) {
		pthread_join(workers[i].thread, NULL);
		done += workers[i].nr;
	}
	pthread_barrier_destroy(&barrier);
	return (double)done * 1e9 / (double)(clock_now_ns() - start_ns);
}

static void set_up(struct worker *worker, const char *dir, unsigned number)
{
	*worker = (struct worker){.dir = dir, .number = number, .random = number + 1};
	snprintf(worker->file, sizeof(worker->file), "%s/%u", dir, number);
	if (mkdir(worker->file, 0755) < 0)
		die(worker->file);
	snprintf(worker->file, sizeof(worker->file), "%s/%u/file", dir, number);
	worker->buffer = malloc(LARGE_BYTES);
	if (!worker->buffer)
		die("memory");
	memset(worker->buffer, 'x', LARGE_BYTES);
	worker->write_fd = open(worker->file, O_CREAT | O_WRONLY, 0644);
	if (worker->write_fd < 0)
		die(worker->file);
	for (off_t at = 0; at < FILE_BYTES; at += LARGE_BYTES) {
		if (pwrite(worker->write_fd, worker->buffer, LARGE_BYTES, at) != LARGE_BYTES)
			die(worker->file);
	}
	worker->read_fd = open(worker->file, O_RDONLY);
	if (worker->read_fd < 0)
		die(worker->file);
}

static void take_down(struct worker *worker)
{
	close(worker->read_fd);
	close(worker->write_fd);
	free(worker->buffer);
	unlink(worker->file);
	*strrchr(worker->file, '/') = '\0';
	rmdir(worker->file);
}

static bool is_wanted(const char *name, char **names, int nr_names)
{
	for (int i = 0; i < nr_names; i++) {
		if (strcmp(names[i], name) == 0)
			return true;
	}
	return nr_names == 0;
}

int main(int argc, char **argv)
{
	static struct worker workers[MAX_THREADS];
	uint64_t nr_threads, milliseconds;
	const char *separator = "";

	if (argc < 4 || strlen(argv[1]) > 200 ||
	    memparse_number(argv[2], 10, 1, MAX_THREADS, &nr_threads) < 0 ||
	    memparse_number(argv[3], 10, 1, 60000, &milliseconds) < 0) {
		fprintf(stderr, "usage: ops DIRECTORY THREADS MILLISECONDS [OPERATION]...\n");
		return 2;
	}
	for (unsigned i = 0; i < nr_threads; i++)
		set_up(&workers[i], argv[1], i);
	printf("{\"schema\": 1, \"bench\": \"ops\", \"threads\": %" PRIu64
	       ", \"per_second\": {",
	       nr_threads);
	for (int i = 0; i < NR_OPERATIONS; i++) {
		if (!is_wanted(operations[i].name, argv + 4, argc - 4))
			continue;
		printf("%s\"%s\": %.0f", separator, operations[i].name,
		       measure(workers, (unsigned)nr_threads, &operations[i], milliseconds));
		separator = ", ";
	}
	printf("}}\n");
	for (unsigned i = 0; i < nr_threads; i++)
		take_down(&workers[i]);
	return 0;
}
