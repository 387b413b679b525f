/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Mount options: parsing, checking against each other and printing. Names and syntax of what
 * hugetlbfs has too are hugetlbfs's (fs/hugetlbfs/inode.c).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "fs/numa_rule.h"
#include "fs/split_queue.h"

/* Of a node's pages: below the first the shrinker begins, and ends at the second. */
#define SPLIT_LOW_PERCENT  5
#define SPLIT_HIGH_PERCENT 10

#define OPTIONS_SIZE_UNSET UINT64_MAX

/* A size as given: bytes, or per cent of the kernel's pool of that page size. */
struct option_size {
	uint64_t bytes;   /* OPTIONS_SIZE_UNSET: not given */
	uint32_t percent; /* with is_percent */
	bool is_percent;
};

/* size= with a size for each node: "0:4G,1:4G". */
struct option_node_sizes {
	uint64_t nodes; /* that were given, a bit each; 0: none */
	uint64_t bytes[NUMA_RULE_MAX_NODES];
};

enum backing_kind {
	BACKING_AUTO, /* thp where it can be, else hugetlb */
	BACKING_HUGETLB,
	BACKING_THP,
};

/* What mmap(2) of a shared mapping does, where the file cannot be mapped through FUSE. */
enum plain_mmap {
	PLAIN_AUTO, /* deny with hugetlb, cached with thp */
	PLAIN_DENY,
	PLAIN_CACHED,
};

enum on_exhausted {
	ON_EXHAUSTED_SIGBUS,
	ON_EXHAUSTED_WAIT,
};

struct mount_options {
	enum backing_kind backing;
	uint64_t pagesize;       /* bytes; 2M by default */
	struct option_size size; /* the most that files may use */
	struct option_size min_size;
	struct option_size max_size; /* what the pool may be raised to; size= by default */
	struct option_node_sizes node_sizes; /* size= is their sum, if they are given */
	uint64_t nr_inodes;                  /* 0: no limit */
	uid_t uid; /* of the root directory; the caller's by default */
	gid_t gid;
	mode_t mode; /* 0755 by default as hugetlbfs has it */

	uint32_t fault_mutexes;  /* 0: the default */
	bool region_lock_global; /* region_lock=inode|global */
	uint32_t fault_threads;  /* 0: one per CPU */
	uint64_t ahead_bytes;    /* largest window of ahead=; 0: off */
	enum on_exhausted on_exhausted;
	uint64_t wait_seconds; /* on_exhausted=wait[=seconds]; UINT64_MAX: no limit */
	enum plain_mmap plain;
	enum split_mode split_queue;
	uint32_t split_low, split_high; /* per cent of a node's pages that are free */
	bool lockstat;
	bool confine;

	struct numa_rule numa;   /* numa= and fallback= */
	bool avail_mask;         /* faults try nodes only where a page is expected */
	uint32_t alloc_sleep_ms; /* between two attempts of the refiller */

	/* The generic ones of mount(8). */
	bool ro, nosuid, nodev, noexec, noatime, allow_other;
	char *fsname; /* the source field of /proc/mounts; owned, may be NULL */
	char *source; /* the directory that the pages come from; owned, NULL: mounts of its own
		       */

	uint64_t given; /* private: a bit for each option seen, to notice repetitions */
};

static inline bool options_size_is_set(const struct option_size *size)
{
	return size->is_percent || size->bytes != OPTIONS_SIZE_UNSET;
}

/* Whether @name ("suid") or an option that excludes it was given. */
bool options_is_given(const struct mount_options *options, const char *name);

void options_init(struct mount_options *options);
void options_deinit(struct mount_options *options);

/*
 * Parse a comma separated list as given to -o, on top of what @options holds. On failure
 * returns -EINVAL, leaves @options as it was, and writes one line without newline to @error,
 * which names the option and what is accepted. An option given twice is an error, also over
 * several calls.
 */
int options_parse(struct mount_options *options, const char *list, char *error,
		  size_t error_size);

/* The value of size= alone: 0, -EINVAL (malformed) or -ERANGE. */
int options_parse_size(const char *value, struct option_size *ret_size);

/* Checks that need all options at once (min_size over size, pagesize unknown to this kernel).
 */
int options_check(const struct mount_options *options, char *error, size_t error_size);

/*
 * Write the options as a list that options_parse() reads back to the same; what is the default
 * is written too, except what was not set and has no fixed default. Returns the length that it
 * would have, like snprintf().
 */
int options_print(const struct mount_options *options, char *buf, size_t buf_size);
