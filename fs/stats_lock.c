// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * lock_stat: the lock counters in the very format of /proc/lock_stat, so that what reads that
 * reads this. Ranks that were never taken are shown too: a row of zeroes is an answer.
 */
#include <inttypes.h>

#include "fs/lock.h"
#include "fs/stats_text.h"

/* The widths of seq_stats() in the kernel's kernel/locking/lockdep_proc.c. */
#define NAME_WIDTH   40
#define COLUMN_WIDTH 14
#define NR_COLUMNS   12
#define LINE_WIDTH   (NAME_WIDTH + 1 + NR_COLUMNS * (COLUMN_WIDTH + 1))

static void print_line(FILE *out)
{
	int i;

	for (i = 0; i < LINE_WIDTH; i++)
		fputc('-', out);
	fputc('\n', out);
}

static void print_header(FILE *out)
{
	static const char *const columns[NR_COLUMNS] = {
		"con-bounces",    "contentions",  "waittime-min",   "waittime-max",
		"waittime-total", "waittime-avg", "acq-bounces",    "acquisitions",
		"holdtime-min",   "holdtime-max", "holdtime-total", "holdtime-avg",
	};
	int i;

	fprintf(out, "lock_stat version 0.4\n");
	print_line(out);
	fprintf(out, "%*s", NAME_WIDTH, "class name");
	for (i = 0; i < NR_COLUMNS; i++)
		fprintf(out, " %*s", COLUMN_WIDTH, columns[i]);
	fputc('\n', out);
	print_line(out);
	fputc('\n', out);
}

/* Nanoseconds as microseconds with two decimals, rounded as snprint_time() does. */
static void print_time(FILE *out, uint64_t ns)
{
	char text[32];

	ns += 5;
	snprintf(text, sizeof(text), "%" PRIu64 ".%02" PRIu64, ns / 1000, ns % 1000 / 10);
	fprintf(out, " %*s", COLUMN_WIDTH, text);
}

static void print_times(FILE *out, uint64_t nr, uint64_t min_ns, uint64_t max_ns,
			uint64_t total_ns)
{
	fprintf(out, "%*" PRIu64, COLUMN_WIDTH, nr);
	print_time(out, min_ns);
	print_time(out, max_ns);
	print_time(out, total_ns);
	print_time(out, nr ? total_ns / nr : 0);
}

static void print_row(FILE *out, enum lock_rank rank, const char *side,
		      const struct lock_counts *counts)
{
	char name[NAME_WIDTH + 1];

	snprintf(name, sizeof(name), "%s%s", lock_rank_name(rank), side);
	fprintf(out, "%*s:", NAME_WIDTH, name);
	fprintf(out, "%*" PRIu64 " ", COLUMN_WIDTH, counts->nr_wait_bounces);
	print_times(out, counts->nr_contentions, counts->wait_min_ns, counts->wait_max_ns,
		    counts->wait_total_ns);
	fprintf(out, " %*" PRIu64 " ", COLUMN_WIDTH, counts->nr_bounces);
	print_times(out, counts->nr_acquisitions, counts->hold_min_ns, counts->hold_max_ns,
		    counts->hold_total_ns);
	fputc('\n', out);
}

static void print_rank(FILE *out, enum lock_rank rank)
{
	struct lock_class_stat stat;

	lock_stat_read(rank, &stat);
	if (rank != LOCK_RANK_INODE && rank != LOCK_RANK_REGION_MAP) {
		print_row(out, rank, "", &stat.exclusive);
		return;
	}
	print_row(out, rank, "-W", &stat.exclusive);
	print_row(out, rank, "-R", &stat.shared);
}

int stats_text_lock_stat(struct mount *mount, FILE *out)
{
	int rank;

	print_header(out);
	print_rank(out, LOCK_RANK_FAULT_MUTEX);
	print_rank(out, LOCK_RANK_REGION_MAP);
	for (rank = 0; rank < NR_LOCK_RANKS; rank++)
		if (rank != LOCK_RANK_FAULT_MUTEX && rank != LOCK_RANK_REGION_MAP)
			print_rank(out, rank);
	return 0;
}
