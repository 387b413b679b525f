/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The start of a database, simulated: processes that begin together, each of which touches
 * every page of the shared memory, in an order of its own and with a pause after each. All
 * pages are reserved before. Whoever gets to a page first populates it; all others find it
 * there, or wait for it. Prints one object of JSON, as bench/contention does.
 */
#include <stdio.h>
#include <string.h>

#include "bench/contention_print.h"
#include "fs/memparse.h"

enum {
	PROCESSES,
	PAGES,
	CLEAR_US,
	PAUSE_US,
	STAGGER_US,
	MUTEXES,
	NR_ARGUMENTS,
};

static const struct {
	const char *name;
	uint64_t min, max;
} arguments[] = {
	[PROCESSES] = {"PROCESSES", 1, CONTENTION_MAX_THREADS},
	[PAGES] = {"PAGES", 1, CONTENTION_MAX_PAGES},
	[CLEAR_US] = {"CLEAR_US", 0, 60000000},
	[PAUSE_US] = {"PAUSE_US", 0, 60000000},
	[STAGGER_US] = {"STAGGER_US", 0, 60000000},
	[MUTEXES] = {"MUTEXES (0: the default)", 0, 1 << 20},
};

static int refuse(const char *why)
{
	fprintf(stderr, "database_start: %s\n", why);
	return 2;
}

int main(int argc, char **argv)
{
	struct contention_config config = {.nr_files = 1, .page_size = 2 << 20, .seed = 1};
	struct contention_result result;
	uint64_t values[NR_ARGUMENTS];
	char error[128];
	int r;

	if (argc != NR_ARGUMENTS + 1)
		return refuse("usage: database_start PROCESSES PAGES CLEAR_US PAUSE_US "
			      "STAGGER_US MUTEXES");
	for (int i = 0; i < NR_ARGUMENTS; i++) {
		if (memparse_number(argv[i + 1], 10, arguments[i].min, arguments[i].max,
				    &values[i]) == 0)
			continue;
		snprintf(error, sizeof(error), "'%.40s' is no number of %s", argv[i + 1],
			 arguments[i].name);
		return refuse(error);
	}
	config.nr_threads = (uint32_t)values[PROCESSES];
	config.nr_pages = (int64_t)values[PAGES];
	config.clear_ns = values[CLEAR_US] * 1000;
	config.think_ns = values[PAUSE_US] * 1000;
	config.stagger_ns = values[STAGGER_US] * 1000;
	config.nr_mutexes = (uint32_t)values[MUTEXES];
	config.every_page = true;
	config.reserved = true;
	r = contention_run(&config, &result);
	if (r < 0) {
		fprintf(stderr, "database_start: %s\n", strerror(-r));
		return 1;
	}
	contention_print_json("database_start", &config, &result);
	return 0;
}
