/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bench/contention: threads fault pages through the page transaction, the very code that serves
 * real faults, with a backing where a page takes a set time without using a CPU. Prints the
 * time, what waited for what, and how close it is to perfect parallelism. The last line is the
 * elapsed seconds. docs/contention.md says how to read it.
 */
#include <stdio.h>
#include <string.h>

#include "bench/contention_options.h"
#include "bench/contention_print.h"

static void print_usage(FILE *file)
{
	fprintf(file, "usage: contention [--threads N] [--pages N] [--page-size SIZE] "
		      "[--clear-us N]\n"
		      "                  [--fault-mutexes N|default] "
		      "[--hash jhash2|low-bits|constant]\n"
		      "                  [--region-lock inode|global] [--private] "
		      "[--same-page PERCENT]\n"
		      "                  [--files N] [--reserved] [--seed N] [--json]\n");
}

int main(int argc, char **argv)
{
	struct contention_config config;
	struct contention_result result;
	char error[256];
	bool json;
	int r = contention_parse(argc, argv, &config, &json, error, sizeof(error));

	if (r > 0) {
		print_usage(stdout);
		return 0;
	}
	if (r < 0) {
		fprintf(stderr, "contention: %s\n", error);
		return 2;
	}
	r = contention_run(&config, &result);
	if (r < 0) {
		fprintf(stderr, "contention: %s\n", strerror(-r));
		return 1;
	}
	if (json)
		contention_print_json("contention", &config, &result);
	else
		contention_print_text(&config, &result);
	return 0;
}
