/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Many processes map random ranges of one file, which overlap, at the same time. What is
 * reserved is what their ranges cover together, each page once; the ranges that
 * .hugefuse/regions shows are disjoint and in order, and add up to it.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "reports.h"

#define POOL         64
#define NR_PROCESSES 8
#define NR_ROUNDS    20

struct crowd {
	struct side *side;
	unsigned int seed;
	_Atomic bool covered[POOL], touched[POOL];
};

static int map_ranges(void *data)
{
	struct crowd *crowd = data;
	unsigned int seed = crowd->seed + (unsigned int)getpid();
	int fd = side_file(crowd->side, "file", 0);

	for (int round = 0; round < NR_ROUNDS; round++) {
		long from = rand_r(&seed) % POOL, pages = 1 + rand_r(&seed) % 6, to;
		char *p;

		to = from + pages < POOL ? from + pages : POOL;
		p = side_map_pages(crowd->side, MAP_SHARED, fd, from, to - from);
		for (long i = from; i < to; i++) {
			crowd->covered[i] = true;
			if (rand_r(&seed) % 4)
				continue;
			*page(p, i - from) = 1;
			crowd->touched[i] = true;
		}
		if (rand_r(&seed) % 2)
			assert_int_equal(
				side_unmap(crowd->side, p, (size_t)(to - from) * PAGE_2M), 0);
	}
	return 0;
}

/* The pages of the file that regions shows in @state, and that its ranges are disjoint. */
static long shown(const struct side *side, const char *state)
{
	char *text = fixture_text(&side->fixture, "regions"), *rest = text, *line, got[16];
	long from, to, end = 0, total = 0;

	while ((line = strsep(&rest, "\n"))) {
		if (sscanf(line, "file %*u %*d %ld %ld %15s", &from, &to, got) != 3)
			continue;
		assert_true(from >= end && to > from);
		end = to;
		if (strcmp(got, state) == 0)
			total += to - from;
	}
	free(text);
	return total / (long)(PAGE_2M >> 10);
}

static long count(const _Atomic bool *pages)
{
	long nr = 0;

	for (int i = 0; i < POOL; i++)
		nr += pages[i];
	return nr;
}

static void covered_once(struct side *side)
{
	struct crowd *crowd = shared_memory(sizeof(*crowd));
	pid_t process[NR_PROCESSES];
	int fd = side_file(side, "file", POOL);
	const char *given = getenv("SEED");

	crowd->side = side;
	crowd->seed = given ? (unsigned int)atol(given) : (unsigned int)time(NULL);
	printf("SEED=%u\n", crowd->seed);
	for (int again = 0; again < 3; again++) {
		for (int i = 0; i < NR_PROCESSES; i++)
			process[i] = start_child(map_ranges, crowd, 0);
		for (int i = 0; i < NR_PROCESSES; i++)
			assert_int_equal(wait_child(process[i], 20000), 0);
		side_expect(side, count(crowd->touched),
			    count(crowd->covered) - count(crowd->touched));
		if (!side->kernel) {
			assert_int_equal(shown(side, "instantiated"), count(crowd->touched));
			assert_int_equal(shown(side, "reserved"),
					 count(crowd->covered) - count(crowd->touched));
		}
		assert_int_equal(ftruncate(fd, 0) | ftruncate(fd, POOL * PAGE_2M), 0);
		side_expect(side, 0, 0);
		memset((void *)crowd->covered, 0, sizeof(crowd->covered));
		memset((void *)crowd->touched, 0, sizeof(crowd->touched));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(covered_once, POOL),
		ON_HUGEFUSE(covered_once, "region_lock=global", POOL),
	};

	require_root();
	require_pages(PAGE_2M, POOL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
