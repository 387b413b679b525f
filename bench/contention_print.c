/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What has been measured, for people and for programs. docs/contention.md describes both. */
#include "bench/contention_print.h"

#include <inttypes.h>
#include <stdio.h>

#include "bench/contention_options.h"

static double seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

static double share(uint64_t part, uint64_t whole)
{
	return whole ? 100 * (double)part / (double)whole : 0;
}

static void print_counts(const char *name, const struct lock_counts *counts)
{
	printf("%-18s %" PRIu64 " contentions of %" PRIu64
	       " acquisitions (%.2f %%), waited %.4f s, %.6f s at most\n",
	       name, counts->nr_contentions, counts->nr_acquisitions,
	       share(counts->nr_contentions, counts->nr_acquisitions),
	       seconds(counts->wait_total_ns), seconds(counts->wait_max_ns));
}

static void print_size(uint64_t bytes)
{
	if (bytes >> 30)
		printf("%" PRIu64 " GB", bytes >> 30);
	else if (bytes >> 20)
		printf("%" PRIu64 " MB", bytes >> 20);
	else
		printf("%" PRIu64 " kB", bytes >> 10);
}

static double best_speedup(const struct contention_config *config)
{
	int64_t most = (config->nr_pages + config->nr_threads - 1) / config->nr_threads;

	return (double)config->nr_pages / (double)most;
}

void contention_print_text(const struct contention_config *config,
			   const struct contention_result *result)
{
	printf("%" PRIu32 " threads, %" PRId64 " pages of ", config->nr_threads,
	       config->nr_pages);
	print_size(config->page_size);
	printf(", %" PRIu64 " us each, %" PRIu32 " %s; %" PRIu32
	       " mutexes, hash %s, region lock %s%s, seed %" PRIu64 "\n",
	       config->clear_ns / 1000, config->nr_files,
	       config->private_mappings ? "private mappings" : "files", result->nr_mutexes,
	       contention_hash_name(config->hash),
	       config->region_lock_global ? "global" : "of the inode",
	       config->reserved ? ", reserved" : "", config->seed);
	printf("%-18s %.4f s\n", "elapsed", result->seconds);
	printf("%-18s %.2f times (%.3f s, measured with %" PRId64 " pages)\n",
	       "over one thread", result->one_thread_seconds / result->seconds,
	       result->one_thread_seconds, result->one_thread_pages);
	if (result->best_seconds > 0)
		printf("%-18s %.4f s, %.2f times; this is %.1f %% of it\n", "closest possible",
		       result->best_seconds, best_speedup(config),
		       100 * result->best_seconds / result->seconds);
	printf("%-18s %.1f us\n", "populating a page", 1e6 * result->populate_seconds);
	printf("%-18s %" PRId64 ", of which %" PRId64 " found the page there\n", "faults",
	       result->nr_faults, result->outcomes[PAGE_PRESENT]);
	print_counts("fault mutexes", &result->mutexes);
	printf("%-18s %" PRIu64 " acquisitions (%.3f %%)\n", "the busiest one", result->busiest,
	       share(result->busiest, result->mutexes.nr_acquisitions));
	print_counts("region, writing", &result->region.exclusive);
	print_counts("region, reading", &result->region.shared);
	printf("%.4f\n", result->seconds);
}

static void print_json_counts(const char *name, const struct lock_counts *counts)
{
	printf(" \"%s\": {\"contentions\": %" PRIu64 ", \"acquisitions\": %" PRIu64
	       ", \"wait_seconds\": %.9f, \"wait_max_seconds\": %.9f, \"hold_seconds\": %.9f},\n",
	       name, counts->nr_contentions, counts->nr_acquisitions,
	       seconds(counts->wait_total_ns), seconds(counts->wait_max_ns),
	       seconds(counts->hold_total_ns));
}

void contention_print_json(const char *bench, const struct contention_config *config,
			   const struct contention_result *result)
{
	printf("{\"schema\": 1, \"bench\": \"%s\",\n"
	       " \"threads\": %" PRIu32 ", \"pages\": %" PRId64 ", \"page_size\": %" PRIu64
	       ", \"clear_us\": %" PRIu64 ", \"fault_mutexes\": %" PRIu32 ",\n",
	       bench, config->nr_threads, config->nr_pages, config->page_size,
	       config->clear_ns / 1000, result->nr_mutexes);
	printf(" \"hash\": \"%s\", \"region_lock\": \"%s\", \"private\": %s, "
	       "\"same_page\": %g, \"files\": %" PRIu32 ", \"reserved\": %s, "
	       "\"seed\": %" PRIu64 ",\n",
	       contention_hash_name(config->hash),
	       config->region_lock_global ? "global" : "inode",
	       config->private_mappings ? "true" : "false", config->same_page, config->nr_files,
	       config->reserved ? "true" : "false", config->seed);
	print_json_counts("mutexes", &result->mutexes);
	print_json_counts("region_write", &result->region.exclusive);
	print_json_counts("region_read", &result->region.shared);
	printf(" \"busiest_acquisitions\": %" PRIu64 ", \"busiest_share\": %.6f,\n",
	       result->busiest, share(result->busiest, result->mutexes.nr_acquisitions) / 100);
	printf(" \"faults\": %" PRId64 ", \"present\": %" PRId64
	       ", \"from_reservation\": %" PRId64 ", \"from_free\": %" PRId64
	       ", \"from_surplus\": %" PRId64 ",\n",
	       result->nr_faults, result->outcomes[PAGE_PRESENT],
	       result->outcomes[PAGE_FROM_RESERVATION], result->outcomes[PAGE_FROM_FREE],
	       result->outcomes[PAGE_FROM_SURPLUS]);
	printf(" \"populate_us\": %.3f, \"one_thread_seconds\": %.6f, "
	       "\"one_thread_pages\": %" PRId64 ", \"best_seconds\": %.6f, "
	       "\"best_speedup\": %.4f, \"speedup\": %.4f, "
	       "\"seconds\": %.6f}\n",
	       1e6 * result->populate_seconds, result->one_thread_seconds,
	       result->one_thread_pages, result->best_seconds, best_speedup(config),
	       result->one_thread_seconds / result->seconds, result->seconds);
}
