/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The command line of bench/contention: a table of options, each with the function that reads
 * its value.
 */
#include "bench/contention_options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/memparse.h"

#define MAX_CLEAR_US (60 * 1000000ULL)
#define MAX_MUTEXES  (1U << 20)

static const char *const hash_names[] = {
	[FAULT_HASH_JHASH2] = "jhash2",
	[FAULT_HASH_LOW_BITS] = "low-bits",
	[FAULT_HASH_CONSTANT] = "constant",
};

const char *contention_hash_name(enum fault_hash hash)
{
	return hash_names[hash];
}

/* Each sets what its option says: 0 or -errno. */

static int set_threads(struct contention_config *config, const char *value)
{
	uint64_t number;
	int r = memparse_number(value, 10, 1, CONTENTION_MAX_THREADS, &number);

	if (r == 0)
		config->nr_threads = (uint32_t)number;
	return r;
}

static int set_pages(struct contention_config *config, const char *value)
{
	uint64_t number;
	int r = memparse_number(value, 10, 1, CONTENTION_MAX_PAGES, &number);

	if (r == 0)
		config->nr_pages = (int64_t)number;
	return r;
}

static int set_page_size(struct contention_config *config, const char *value)
{
	uint64_t bytes;
	int r = memparse_bytes(value, &bytes);

	if (r == 0 && (bytes < 4096 || bytes > (16ULL << 30) || (bytes & (bytes - 1))))
		r = -EINVAL;
	if (r == 0)
		config->page_size = bytes;
	return r;
}

static int set_clear_us(struct contention_config *config, const char *value)
{
	uint64_t number;
	int r = memparse_number(value, 10, 0, MAX_CLEAR_US, &number);

	if (r == 0)
		config->clear_ns = number * 1000;
	return r;
}

static int set_fault_mutexes(struct contention_config *config, const char *value)
{
	uint64_t number = 0;
	int r = 0;

	if (strcmp(value, "default") != 0)
		r = memparse_number(value, 10, 1, MAX_MUTEXES, &number);
	if (r == 0)
		config->nr_mutexes = (uint32_t)number;
	return r;
}

static int set_hash(struct contention_config *config, const char *value)
{
	for (size_t i = 0; i < sizeof(hash_names) / sizeof(hash_names[0]); i++) {
		if (strcmp(value, hash_names[i]) == 0) {
			config->hash = (enum fault_hash)i;
			return 0;
		}
	}
	return -EINVAL;
}

static int set_region_lock(struct contention_config *config, const char *value)
{
	bool global = strcmp(value, "global") == 0;

	if (!global && strcmp(value, "inode") != 0)
		return -EINVAL;
	config->region_lock_global = global;
	return 0;
}

static int set_private(struct contention_config *config, const char *value)
{
	config->private_mappings = true;
	return 0;
}

static int set_same_page(struct contention_config *config, const char *value)
{
	char *end;
	double percent = strtod(value, &end);

	if (end == value || *end || !(percent >= 0 && percent <= 100))
		return -EINVAL;
	config->same_page = percent;
	return 0;
}

static int set_files(struct contention_config *config, const char *value)
{
	uint64_t number;
	int r = memparse_number(value, 10, 1, CONTENTION_MAX_FILES, &number);

	if (r == 0)
		config->nr_files = (uint32_t)number;
	return r;
}

static int set_reserved(struct contention_config *config, const char *value)
{
	config->reserved = true;
	return 0;
}

static int set_seed(struct contention_config *config, const char *value)
{
	return memparse_number(value, 10, 0, UINT64_MAX, &config->seed);
}

struct contention_option {
	const char *name;
	int (*set)(struct contention_config *config, const char *value);
	const char *values; /* NULL: takes none */
};

static const struct contention_option options[] = {
	{"threads", set_threads, "a number from 1 to 4096"},
	{"pages", set_pages, "a number from 1 to 1048576"},
	{"page-size", set_page_size, "a power of two from 4K to 16G"},
	{"clear-us", set_clear_us, "a number from 0 to 60000000"},
	{"fault-mutexes", set_fault_mutexes, "a number from 1 to 1048576, or default"},
	{"hash", set_hash, "jhash2, low-bits or constant"},
	{"region-lock", set_region_lock, "inode or global"},
	{"private", set_private, NULL},
	{"same-page", set_same_page, "a percentage from 0 to 100"},
	{"files", set_files, "a number from 1 to 4096"},
	{"reserved", set_reserved, NULL},
	{"seed", set_seed, "a number"},
	{"json", NULL, NULL},
	{"help", NULL, NULL},
};

enum {
	NR_OPTIONS = sizeof(options) / sizeof(options[0]),
	OPTION_JSON = NR_OPTIONS - 2,
	OPTION_HELP = NR_OPTIONS - 1,
	OPTION_VALUE = 0x100, /* and the option's number */
};

static void make_long_options(struct option *long_options)
{
	for (int i = 0; i < NR_OPTIONS; i++)
		long_options[i] = (struct option){
			.name = options[i].name,
			.has_arg = options[i].values ? required_argument : no_argument,
			.val = OPTION_VALUE + i,
		};
	long_options[NR_OPTIONS] = (struct option){0};
}

/* What fits together: 0 or -EINVAL. */
static int check(const struct contention_config *config, char *error, size_t bytes)
{
	if (config->nr_files > config->nr_pages) {
		snprintf(error, bytes, "--files: more than there are pages");
		return -EINVAL;
	}
	return 0;
}

/* What getopt_long() did not like about @argument; 'c' is what it returned. */
static int refuse(int c, const char *argument, char *error, size_t bytes)
{
	if (c == ':')
		snprintf(error, bytes, "%s: needs a value", argument);
	else if (strncmp(argument, "--", 2) == 0 && strchr(argument, '='))
		snprintf(error, bytes, "%s: unknown option, or one without a value", argument);
	else
		snprintf(error, bytes, "%s: unknown option", argument);
	return -EINVAL;
}

int contention_parse(int argc, char **argv, struct contention_config *ret_config,
		     bool *ret_json, char *ret_error, size_t error_bytes)
{
	struct contention_config config = {
		.nr_threads = 2,
		.nr_pages = 1024,
		.page_size = 2 << 20,
		.clear_ns = 100000,
		.nr_files = 1,
		.seed = 1,
	};
	struct option long_options[NR_OPTIONS + 1];
	bool json = false;
	int c, at;

	make_long_options(long_options);
	opterr = 0;
	optind = 0; /* start anew */
	while (at = optind ? optind : 1, c = getopt_long(argc, argv, ":", long_options, NULL),
	       c >= OPTION_VALUE) {
		int number = c - OPTION_VALUE;

		if (number == OPTION_HELP)
			return 1;
		if (number == OPTION_JSON) {
			json = true;
		} else if (options[number].set(&config, optarg) < 0) {
			snprintf(ret_error, error_bytes, "--%s: '%s' is not %s",
				 options[number].name, optarg, options[number].values);
			return -EINVAL;
		}
	}
	if (c != -1)
		return refuse(c, argv[at], ret_error, error_bytes);
	if (optind < argc) {
		snprintf(ret_error, error_bytes, "%s: unexpected argument", argv[optind]);
		return -EINVAL;
	}
	if (check(&config, ret_error, error_bytes) < 0)
		return -EINVAL;
	*ret_config = config;
	*ret_json = json;
	return 0;
}
