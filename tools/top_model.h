/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Top model: what hugefuse top shows, from two samples of the mounts. Pure: no clock, no
 * terminal.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/mount_snapshot.h"

/* One mount at one time. */
struct top_mount {
	struct mount_snapshot snapshot;
	char *mountpoint;
	char *error; /* why it could not be read, and then snapshot is empty; else NULL */
};

struct top_sample {
	struct top_mount *mounts;
	size_t nr_mounts;
};

void top_sample_deinit(struct top_sample *sample);

enum top_sort {
	TOP_SORT_TOTAL, /* resident and reserved */
	TOP_SORT_RESIDENT,
	TOP_SORT_RESERVED,
	TOP_SORT_NAME,
	TOP_NR_SORTS,
};

const char *top_sort_name(enum top_sort sort);
/* The key of that name, or -1. */
int top_sort_find(const char *name);

#define TOP_FILTER_SIZE 64

struct top_settings {
	enum top_sort sort;
	bool reverse;
	char filter[TOP_FILTER_SIZE]; /* only holders with this in their name; "": all */
};

/* What is not known: in the first sample, or of a mount without that counter. */
#define TOP_UNKNOWN (-1.0)

enum top_pool_kind {
	TOP_POOL_MOUNT,
	TOP_POOL_NODE,
	TOP_POOL_TENANT,
};

struct top_pool {
	enum top_pool_kind kind;
	char *name;                           /* the mount point, "node0", or a directory */
	const char *error;                    /* of the sample, or NULL */
	uint64_t total, used, free, reserved; /* bytes; SNAPSHOT_UNKNOWN: none, or no limit */
	double faults_per_s;                  /* TOP_POOL_MOUNT */
	/* nanoseconds, since the counters were cleared */
	uint64_t p50, p99, max;
};

struct top_lock {
	const char *mountpoint, *name, *mode; /* of the sample */
	double acquisitions_per_s, contentions_per_s;
	double waited_us_per_s;      /* by all threads together */
	double wait_total, wait_max; /* microseconds, since they were cleared */
};

struct top_holder {
	char *name, *mappers;
	const char *mountpoint;
	uint64_t resident, reserved; /* bytes */
	uint64_t seconds;            /* since when reserved, or SNAPSHOT_UNKNOWN */
};

struct top_model {
	struct top_pool *pools;
	size_t nr_pools;
	struct top_lock *locks; /* the hottest first */
	size_t nr_locks;
	struct top_holder *holders;   /* sorted and filtered */
	size_t nr_holders, nr_hidden; /* hidden by the filter */
	bool holders_known;           /* root may know them */
	size_t nr_mounts;
};

/*
 * Build the model from @now and, for rates, @before, which may be NULL. It points into @now,
 * which has to live as long. 0 or -ENOMEM.
 */
int top_model_build(const struct top_sample *before, const struct top_sample *now,
		    const struct top_settings *settings, struct top_model *ret_model);
void top_model_deinit(struct top_model *model);

/*
 * Events a second between two readings of a counter, @seconds apart. A counter that has become
 * smaller was cleared in between, and began at 0.
 */
double top_rate(double before, double after, double seconds);
