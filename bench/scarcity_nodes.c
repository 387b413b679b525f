/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Local small pages against remote huge ones: random reads over memory of base pages or of huge
 * pages, one read depending on the one before, and first touches of it. On a machine with one
 * node the distance is simulated: after each read, or each 2 MB of first touches, as much time
 * is waited as is said.
 *
 * usage: scarcity_nodes access|fault small|huge MEGABYTES PENALTY_NS
 *
 * Prints the nanoseconds of a read, or the microseconds of 2 MB of first touches; of several
 * runs the fastest: what else the machine does makes it slower only.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define HUGE_BYTES (UINT64_C(2) << 20)
#define BASE_BYTES 4096
#define NR_READS   4000000
#define NR_RUNS    5

static void fail(const char *what)
{
	fprintf(stderr, "scarcity_nodes: %s\n", what);
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void wait_ns(uint64_t ns)
{
	uint64_t until = now_ns() + ns;

	while (now_ns() < until)
		;
}

/* A multiple of 2 MB, so that there is a huge page for all of it. */
static char *map(size_t bytes, int advice)
{
	char *area = mmap(NULL, bytes + HUGE_BYTES, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (area == MAP_FAILED)
		fail("no memory");
	area += (HUGE_BYTES - (uintptr_t)area % HUGE_BYTES) % HUGE_BYTES;
	if (madvise(area, bytes, advice) < 0)
		fail("madvise(2) failed");
	return area;
}

static double touch(char *area, size_t bytes, uint64_t penalty_ns)
{
	uint64_t start = now_ns();

	for (size_t at = 0; at < bytes; at += BASE_BYTES) {
		area[at] = 1;
		if (at % HUGE_BYTES == 0 && penalty_ns)
			wait_ns(penalty_ns);
	}
	return (double)(now_ns() - start) / 1e3 / (double)(bytes / HUGE_BYTES);
}

/*
 * Reads at places that the value read before has a part in, so that there is one at a time. The
 * penalty is waited by steps of a loop whose time was measured before: a clock would take
 * longer than it.
 */
static uint64_t steps_in(uint64_t ns)
{
	volatile uint64_t sink = 0;
	uint64_t start = now_ns();

	for (uint64_t i = 0; i < 50000000; i++)
		sink = i;
	(void)sink;
	return (uint64_t)((double)ns * 50000000 / (double)(now_ns() - start) + 0.5);
}

static double read_randomly(const char *area, size_t bytes, uint64_t steps)
{
	uint64_t state = 88172645463325252U, at = 0, start = now_ns();
	volatile uint64_t sink = 0;

	for (long i = 0; i < NR_READS; i++) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		at = (state + (unsigned char)area[at]) % bytes;
		for (uint64_t step = 0; step < steps; step++)
			sink = step;
	}
	sink = at;
	(void)sink;
	return (double)(now_ns() - start) / NR_READS;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	uint64_t penalty_ns, steps;
	double run[NR_RUNS];
	size_t bytes;
	int advice;
	char *area;

	if (argc != 5)
		fail("usage: access|fault small|huge MEGABYTES PENALTY_NS");
	advice = strcmp(argv[2], "huge") == 0 ? MADV_HUGEPAGE : MADV_NOHUGEPAGE;
	bytes = strtoull(argv[3], NULL, 10) << 20;
	penalty_ns = strtoull(argv[4], NULL, 10);
	if (bytes < HUGE_BYTES)
		fail("a number is out of range");
	area = map(bytes, advice);
	touch(area, bytes, 0);
	steps = steps_in(penalty_ns);
	for (int i = 0; i < NR_RUNS; i++) {
		if (strcmp(argv[1], "access") == 0) {
			run[i] = read_randomly(area, bytes, steps);
			continue;
		}
		/* Memory that the host has given already is touched first anew. */
		if (madvise(area, bytes, MADV_DONTNEED) < 0)
			fail("madvise(2) failed");
		run[i] = touch(area, bytes, penalty_ns);
	}
	qsort(run, NR_RUNS, sizeof(run[0]), compare);
	printf("%.2f\n", run[0]);
	return 0;
}
