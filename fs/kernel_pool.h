/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel's own hugetlb pool, as /sys/kernel/mm/hugepages and /sys/devices/system/node show
 * it: read, grown by what a mount needs, and given back exactly. Two daemons that change it at
 * the same time take turns by a lock file.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "fs/pool.h"

/* One change that is about to be made: what it came to is seen by what was there before. */
struct kernel_pool_step {
	int32_t node; /* KERNEL_POOL_OVERCOMMIT: nr_overcommit_hugepages */
	int32_t reserved;
	int64_t before, add; /* pages */
};
#define KERNEL_POOL_OVERCOMMIT (-1)

/* Told of each step before it is made; where it fails, so does the step. */
struct kernel_pool_log {
	int (*write)(void *data, const struct kernel_pool_step *step);
	void *data;
};

/* What was added to the kernel's pool, to be given back. */
struct kernel_pool_loan {
	uint64_t page_size; /* bytes */
	int nr_nodes;
	int64_t node_pages[POOL_MAX_NODES]; /* added to each node's nr_hugepages */
	int64_t overcommit;                 /* added to nr_overcommit_hugepages */
	const struct kernel_pool_log *log;  /* NULL: nobody is told */
};

/* The kernel's counters for @page_size: 0, -ENOENT where the kernel has no such pages. */
int kernel_pool_read(uint64_t page_size, int nr_nodes, struct pool_counts *ret_counts);

/*
 * Add to @loan what the @nr steps, which may have been cut short, have come to: what is there
 * now beyond what was there before. 0 or -errno.
 */
int kernel_pool_settle(struct kernel_pool_loan *loan, const struct kernel_pool_step *steps,
		       int nr);

/* What a mount is to have. */
struct kernel_pool_wish {
	int64_t pages;             /* in all */
	int64_t overcommit;        /* surplus pages more than now */
	const int64_t *node_pages; /* on each node; NULL: spread evenly as far as can be */
};

/*
 * Have at least as many unreserved free pages in the kernel's pool as wished for, adding what
 * is missing. Returns 0, what was added in @ret_loan (whose log is told), and in
 * @ret_node_pages on which nodes the pages are. On failure adds nothing and returns -ENOMEM,
 * with one line in @error that says how many were to be had on which node; or another -errno.
 */
int kernel_pool_borrow(uint64_t page_size, int nr_nodes, const struct kernel_pool_wish *wish,
		       struct kernel_pool_loan *ret_loan, int64_t *ret_node_pages, char *error,
		       size_t error_size);
/*
 * Add @pages (negative: take away) to the kernel's pool, on @node or, with POOL_ANY_NODE, on
 * all nodes in equal shares, and @overcommit to its surplus pages, and to the loan what that
 * came to: fewer pages where memory is short. Returns by how many pages the pool has grown, or
 * -errno with nothing changed.
 */
int64_t kernel_pool_change(struct kernel_pool_loan *loan, int node, int64_t pages,
			   int64_t overcommit);
/* Give back what was added. 0 or the first -errno; goes on with the rest. */
int kernel_pool_return(const struct kernel_pool_loan *loan);

/* Write a loan to, or read it from, a file (state/kernel-pool). 0, -errno, -EINVAL malformed.
 */
int kernel_pool_save(const struct kernel_pool_loan *loan, int dir_fd, const char *name);
int kernel_pool_load(struct kernel_pool_loan *ret_loan, int dir_fd, const char *name);
