/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * parallel_fault: how long do threads take to fault in a fresh file? After the program of that
 * name with which the kernel's table of fault mutexes was measured. The threads divide the
 * mapping, wait for each other and touch one byte every SKIP_KB; the time is from the first
 * one's start to the last one's end. The last line of the output is the seconds of that phase
 * alone.
 *
 * The file is removed at exit and by signals; the handlers read only what is set before them.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "hugefuse.h"

#define EXIT_FAILED 1
#define EXIT_USAGE  2
#define MAX_THREADS 4096

enum mode {
	MODE_KERNEL,   /* a hugetlbfs mount, mmap() */
	MODE_HUGEFUSE, /* a hugefuse mount, hugefuse_mmap() */
	MODE_MMAP,     /* any filesystem, mmap() */
};

static const char *const mode_names[] = {"kernel", "hugefuse", "mmap"};

struct bench {
	enum mode mode;
	const char *directory;
	bool json, again, keep;
	unsigned int nr_threads;
	uint64_t size, skip; /* bytes */
	uint64_t page_size;  /* bytes, of the filesystem */
	uint64_t nr_touches;
	int fd;
	char *memory;
	pthread_barrier_t barrier;
};

struct worker {
	struct bench *bench;
	pthread_t thread;
	unsigned int idx;
	struct timespec start, end;
};

/* set before the handlers are; "" : there is no file to remove */
static char file_path[PATH_MAX];

static int __attribute__((format(printf, 2, 3))) fail(int exit_code, const char *format, ...)
{
	va_list args;

	fputs("parallel_fault: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	return exit_code;
}

/* ---- the command line ---- */

static const char usage[] =
	"Usage: parallel_fault [OPTIONS] NR_THREADS SIZE_KB SKIP_KB\n"
	"Let threads touch one byte every SKIP_KB of a fresh file of SIZE_KB; the last line of the\n"
	"output is the seconds that the faults took.\n\n"
	"  -m MODE      kernel: mmap() on hugetlbfs (the default); hugefuse: hugefuse_mmap() on a\n"
	"               hugefuse mount; mmap: mmap() on any filesystem\n"
	"  -p PATH      the directory in which to make the file; the current one by default\n"
	"  -j           print JSON\n"
	"  -r           map it again and touch the pages, which are there then, once more\n"
	"  -k           keep the file\n"
	"  -h, --help   print this help\n"
	"      --version\n";

static int set_mode(struct bench *bench, const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(mode_names) / sizeof(mode_names[0]); i++) {
		if (strcmp(mode_names[i], name) == 0) {
			bench->mode = (enum mode)i;
			return 0;
		}
	}
	return fail(EXIT_USAGE,
		    "unknown mode '-m %.100s'; accepted are kernel, hugefuse and mmap", name);
}

static int set_number(const char *what, const char *text, uint64_t max, uint64_t *ret_number)
{
	char *end;

	errno = 0;
	*ret_number = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || *ret_number == 0 ||
	    *ret_number > max)
		return fail(EXIT_USAGE,
			    "%s '%.100s': a number from 1 to %" PRIu64 " is accepted", what,
			    text, max);
	return 0;
}

static int set_operands(struct bench *bench, int argc, char **argv)
{
	const uint64_t max_kb = INT64_MAX / 1024 / 2;
	uint64_t nr_threads, size_kb, skip_kb;
	int r;

	if (argc != 3)
		return fail(EXIT_USAGE,
			    "NR_THREADS SIZE_KB SKIP_KB are to be given, not %d words; "
			    "try 'parallel_fault --help'",
			    argc);
	r = set_number("NR_THREADS", argv[0], MAX_THREADS, &nr_threads);
	if (r == 0)
		r = set_number("SIZE_KB", argv[1], max_kb, &size_kb);
	if (r == 0)
		r = set_number("SKIP_KB", argv[2], max_kb, &skip_kb);
	if (r != 0)
		return r;
	bench->nr_threads = (unsigned int)nr_threads;
	bench->size = size_kb * 1024;
	bench->skip = skip_kb * 1024;
	return 0;
}

/* Returns 0, an exit code, or -1 when --help or --version was all that was asked. */
static int parse_arguments(struct bench *bench, int argc, char **argv)
{
	static const struct option long_options[] = {
		{"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, 'V'}, {}};
	int c, r;

	opterr = 0;
	while ((c = getopt_long(argc, argv, ":m:p:jrkh", long_options, NULL)) != -1) {
		switch (c) {
		case 'm':
			r = set_mode(bench, optarg);
			if (r != 0)
				return r;
			break;
		case 'p':
			bench->directory = optarg;
			break;
		case 'j':
			bench->json = true;
			break;
		case 'r':
			bench->again = true;
			break;
		case 'k':
			bench->keep = true;
			break;
		case 'h':
			fputs(usage, stdout);
			return -1;
		case 'V':
			printf("parallel_fault %s\n", HUGEFUSE_VERSION);
			return -1;
		default:
			return fail(EXIT_USAGE, "%s '%s'; try 'parallel_fault --help'",
				    c == ':' ? "an argument is missing for option"
					     : "unknown option",
				    argv[optind - 1]);
		}
	}
	return set_operands(bench, argc - optind, argv + optind);
}

/* ---- the file ---- */

static void remove_file(void)
{
	if (file_path[0] != '\0')
		unlink(file_path);
}

static void on_signal(int signal_number)
{
	static const char sigbus[] =
		"parallel_fault: SIGBUS: no page was left for an access; see nr_hugepages and "
		"resv_hugepages\n";

	remove_file();
	if (signal_number == SIGBUS) {
		if (write(STDERR_FILENO, sigbus, sizeof(sigbus) - 1) < 0)
			_exit(EXIT_FAILED); /* nobody to tell */
		_exit(EXIT_FAILED);
	}
	_exit(128 + signal_number);
}

static void catch_signals(void)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGBUS};
	struct sigaction action = {.sa_handler = on_signal};
	size_t i;

	sigfillset(&action.sa_mask);
	for (i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaction(signals[i], &action, NULL);
}

/* Learn the page size, and that the directory is of the kind that the mode asks for. */
static int inspect_directory(struct bench *bench)
{
	struct statfs fs;

	if (statfs(bench->directory, &fs) < 0)
		return fail(EXIT_FAILED, "%s: %s; -p names a directory", bench->directory,
			    strerror(errno));
	if (bench->mode == MODE_KERNEL && fs.f_type != HUGETLBFS_MAGIC)
		return fail(EXIT_FAILED,
			    "%s: not on a hugetlbfs; mount one (mount -t hugetlbfs "
			    "none DIR) and name it by -p, or choose another mode by -m",
			    bench->directory);
	if (bench->mode == MODE_HUGEFUSE && fs.f_type != FUSE_SUPER_MAGIC)
		return fail(EXIT_FAILED,
			    "%s: not on a hugefuse mount; mount one (hugefuse mount "
			    "DIR) and name it by -p",
			    bench->directory);
	bench->page_size = (uint64_t)fs.f_bsize;
	/* hugetlbfs takes whole pages only */
	if (bench->mode != MODE_MMAP)
		bench->size = (bench->size + bench->page_size - 1) / bench->page_size *
			      bench->page_size;
	bench->nr_touches = (bench->size + bench->skip - 1) / bench->skip;
	return 0;
}

static int make_file(struct bench *bench)
{
	sigset_t all, old;
	char path[PATH_MAX];
	int length;

	length = snprintf(path, sizeof(path), "%s/parallel_fault.%ld", bench->directory,
			  (long)getpid());
	if (length >= (int)sizeof(path))
		return fail(EXIT_FAILED, "%s: the path is too long", bench->directory);
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &old);
	bench->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (bench->fd >= 0 && !bench->keep)
		strcpy(file_path, path);
	sigprocmask(SIG_SETMASK, &old, NULL);
	if (bench->fd < 0)
		return fail(EXIT_FAILED, "%s: cannot be made: %s", path, strerror(errno));
	if (ftruncate(bench->fd, (off_t)bench->size) < 0)
		return fail(EXIT_FAILED, "%s: cannot be made %" PRIu64 " bytes long: %s", path,
			    bench->size, strerror(errno));
	return 0;
}

static int map_file(struct bench *bench)
{
	const int prot = PROT_READ | PROT_WRITE;
	void *memory;

	if (bench->mode == MODE_HUGEFUSE)
		memory = hugefuse_mmap(NULL, bench->size, prot, MAP_SHARED, bench->fd, 0);
	else
		memory = mmap(NULL, bench->size, prot, MAP_SHARED, bench->fd, 0);
	if (memory == MAP_FAILED)
		return fail(EXIT_FAILED, "cannot map %" PRIu64 " pages of %" PRIu64 " kB: %s%s",
			    (bench->size + bench->page_size - 1) / bench->page_size,
			    bench->page_size / 1024, strerror(errno),
			    errno == ENOMEM
				    ? "; so many cannot be reserved, give the pool more "
				      "(nr_hugepages, size=) or ask for less"
				    : "");
	bench->memory = memory;
	return 0;
}

static int unmap_file(struct bench *bench)
{
	int r;

	if (bench->mode == MODE_HUGEFUSE)
		r = hugefuse_munmap(bench->memory, bench->size);
	else
		r = munmap(bench->memory, bench->size);
	if (r < 0)
		return fail(EXIT_FAILED, "cannot unmap: %s", strerror(errno));
	return 0;
}

/* ---- the faults ---- */

static void *run_worker(void *arg)
{
	struct worker *worker = arg;
	struct bench *bench = worker->bench;
	uint64_t from = bench->nr_touches * worker->idx / bench->nr_threads;
	uint64_t to = bench->nr_touches * (worker->idx + 1) / bench->nr_threads;
	volatile char *byte = bench->memory + from * bench->skip;

	pthread_barrier_wait(&bench->barrier);
	clock_gettime(CLOCK_MONOTONIC, &worker->start);
	for (; from < to; from++, byte += bench->skip)
		*byte = 1;
	clock_gettime(CLOCK_MONOTONIC, &worker->end);
	return NULL;
}

static double seconds_of(const struct timespec *time)
{
	return (double)time->tv_sec + (double)time->tv_nsec * 1e-9;
}

static double elapsed(const struct worker *workers, unsigned int nr_threads)
{
	double first = seconds_of(&workers[0].start), last = seconds_of(&workers[0].end);
	unsigned int i;

	for (i = 1; i < nr_threads; i++) {
		double start = seconds_of(&workers[i].start), end = seconds_of(&workers[i].end);

		first = start < first ? start : first;
		last = end > last ? end : last;
	}
	return last - first;
}

/* Touch everything once with all threads. */
static int touch(struct bench *bench, double *ret_seconds)
{
	struct worker *workers = calloc(bench->nr_threads, sizeof(*workers));
	unsigned int i;
	int r;

	if (!workers)
		return fail(EXIT_FAILED, "out of memory");
	r = pthread_barrier_init(&bench->barrier, NULL, bench->nr_threads);
	for (i = 0; r == 0 && i < bench->nr_threads; i++) {
		workers[i].bench = bench;
		workers[i].idx = i;
		r = pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]);
	}
	if (r != 0) {
		/* the others wait at the barrier for ever: the process has to end */
		fail(EXIT_FAILED, "thread %u cannot be started: %s; ask for fewer", i,
		     strerror(r));
		exit(EXIT_FAILED);
	}
	for (i = 0; i < bench->nr_threads; i++)
		pthread_join(workers[i].thread, NULL);
	pthread_barrier_destroy(&bench->barrier);
	*ret_seconds = elapsed(workers, bench->nr_threads);
	free(workers);
	return 0;
}

/* The pages that the touches fall on. */
static uint64_t nr_pages(const struct bench *bench)
{
	if (bench->skip >= bench->page_size)
		return bench->nr_touches;
	return (bench->size + bench->page_size - 1) / bench->page_size;
}

static void print_json(const struct bench *bench, double seconds, double again)
{
	double pages = (double)nr_pages(bench);

	printf("{\"schema\": 1, \"mode\": \"%s\", \"threads\": %u, \"size_kb\": %" PRIu64
	       ", \"skip_kb\": %" PRIu64 ", \"page_size_kb\": %" PRIu64 ", \"pages\": %" PRIu64
	       ", \"seconds\": %.6f, \"us_per_page\": %.3f",
	       mode_names[bench->mode], bench->nr_threads, bench->size / 1024,
	       bench->skip / 1024, bench->page_size / 1024, nr_pages(bench), seconds,
	       seconds * 1e6 / pages);
	if (bench->again)
		printf(", \"again_seconds\": %.6f, \"again_us_per_page\": %.3f", again,
		       again * 1e6 / pages);
	puts("}");
}

static void print_human(const struct bench *bench, double seconds, double again)
{
	double pages = (double)nr_pages(bench);

	printf("%s: %u thread%s, %" PRIu64 " pages of %" PRIu64 " kB, %" PRIu64 " touches\n",
	       mode_names[bench->mode], bench->nr_threads, bench->nr_threads == 1 ? "" : "s",
	       nr_pages(bench), bench->page_size / 1024, bench->nr_touches);
	printf("first touch: %.3f us a page\n", seconds * 1e6 / pages);
	if (bench->again)
		printf("populated:   %.3f us a page, %.6f s\n", again * 1e6 / pages, again);
	printf("%.6f\n", seconds);
}

static int run(struct bench *bench)
{
	double seconds = 0, again = 0;
	int r;

	r = inspect_directory(bench);
	if (r == 0)
		r = make_file(bench);
	if (r == 0)
		r = map_file(bench);
	if (r == 0)
		r = touch(bench, &seconds);
	if (r == 0)
		r = unmap_file(bench);
	if (r == 0 && bench->again) {
		r = map_file(bench);
		if (r == 0)
			r = touch(bench, &again);
		if (r == 0)
			r = unmap_file(bench);
	}
	if (r != 0)
		return r;
	if (bench->json)
		print_json(bench, seconds, again);
	else
		print_human(bench, seconds, again);
	if (fflush(stdout) != 0)
		return fail(EXIT_FAILED, "cannot write the output: %s", strerror(errno));
	return 0;
}

int main(int argc, char **argv)
{
	struct bench bench = {.directory = ".", .fd = -1};
	int r;

	r = parse_arguments(&bench, argc, argv);
	if (r != 0)
		return r < 0 ? 0 : r;
	catch_signals();
	atexit(remove_file);
	r = run(&bench);
	if (bench.fd >= 0)
		close(bench.fd);
	return r;
}
