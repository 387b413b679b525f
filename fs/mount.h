/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Mount: all that one mount has: the private filesystems below /run/hugefuse/<name>/, the pages
 * taken from the kernel, the counters, the inodes. Setting it up changes the machine step by
 * step, and each step is undone in the opposite order, also when a later one fails.
 */
#pragma once

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "fs/backing.h"
#include "fs/inode.h"
#include "fs/kernel_pool.h"
#include "fs/mount_source.h"
#include "fs/options.h"
#include "fs/orphan.h"
#include "fs/page.h"
#include "fs/split.h"
#include "fs/state.h"
#include "fs/tenant.h"

/* What long symbolic links and extended attributes in names/ may take. */
#define NAMES_BYTES (UINT64_C(64) << 20)

struct adopted;
struct control;
struct fault_service;
struct fuse_session;

struct mount {
	const struct mount_options *options; /* set at init */
	const char *mountpoint;              /* set at init; absolute */
	char run_dir[PATH_MAX];              /* set at init; /run/hugefuse/<name> */
	int names_fd;                        /* set at init; O_PATH of names/ */
	int state_fd;       /* set at init; state/, locked while the daemon lives */
	struct state state; /* what a daemon that comes after this one has to know */
	struct mount_options adopted_options; /* set at init; what @options is then */
	struct adopted *adopted;    /* set at init; what is still to be looked after; or NULL */
	struct mount_source source; /* set at init; of source= */
	struct kernel_pool_loan loan;    /* set at init; what was added to the kernel's pool */
	struct kernel_pool_log pool_log; /* set at init; to state */
	int64_t data_max, data_min;      /* set at init; pages, size= and min_size= of data/ */
	struct mutex size_lock;          /* held while the pool's size changes */
	int64_t node_pages[POOL_MAX_NODES]; /* set at init; of data_min, by node */
	_Atomic(bool) is_resized;           /* the pool is the limit, not size= */
	int64_t nr_extra;                   /* size_lock; pages taken from the kernel since */
	int64_t nr_parked; /* size_lock; pages of data_min that are not to be had */
	bool has_state, has_loan, has_core, has_inodes; /* how far setting up has come */
	bool has_adopted_options;
	bool keep;               /* it is a dead daemon's still: leave all of it behind */
	bool adopting;           /* not all of it is known yet, and none is to be given up */
	bool abandoned;          /* and so it will be: nothing in it is changed any more */
	int nr_nodes;            /* set at init; memory nodes of the machine */
	bool is_thp;             /* set at init; else hugetlb */
	const char *why_backing; /* set at init; NULL: it was asked for */
	struct backing *backing; /* set at init */
	struct page_core core;
	struct inode_table inodes;
	struct tenants tenants;
	_Atomic bool has_numa_rules;  /* some file or directory has had one */
	struct split split;           /* of backing=thp */
	struct fuse_session *session; /* set by the daemon */
	bool has_passthrough;         /* set at FUSE's init */
	int passthrough_fd;
	struct orphans orphans; /* of backing=thp */
	bool has_orphans;
	/* Of backing=thp: what files without a name had when they were adopted. */
	struct page_space strays;
	struct backing_file stray_file;
	bool has_strays;
	int64_t nr_strays, last_strays; /* the control thread; pages */
	int64_t names_pages;            /* set at init; of names/ that no file has */
	_Atomic int64_t uncounted; /* blocks of names/ that are no counted page, at last look */
	struct control *control;   /* set at init, by the daemon */
	struct fault_service *fault_service; /* set at init, by the daemon */
};

/*
 * Take the pages and set everything up but the FUSE session and its services. On failure
 * returns -errno, with one line in @error, and the machine is as it was. @options and
 * @mountpoint stay the caller's, and must live as long as the mount.
 */
int mount_init(struct mount *mount, const struct mount_options *options, const char *mountpoint,
	       char *error, size_t error_size);
/* Give everything back. Nothing is running any more. */
void mount_deinit(struct mount *mount);

/* Whether the pages come from a directory that was there. */
static inline bool mount_has_source(const struct mount *mount)
{
	return mount->options->source != NULL;
}

/* A size in pages, rounded down; per cent is of the kernel's pool, which has @kernel_nr. */
int64_t mount_size_pages(const struct option_size *size, uint64_t page_size, int64_t kernel_nr);

/* Inodes in names/ that nobody sees: what gone ones become, and the reserve. */
static inline uint64_t mount_hidden_inodes(const struct mount *mount)
{
	return mount->is_thp ? 2 : 1;
}

/* The counters and inodes, over the private filesystems. 0 or -errno, with a line in @error. */
struct mount_pages;
int mount_init_objects(struct mount *mount, const struct mount_pages *pages,
		       const int64_t *node_pages, char *error, size_t error_size);
/* Write the loan down as it is now. 0 or -errno. */
int mount_save_loan(struct mount *mount);
/* The mount answers: from now on it is this daemon's to take down. */
static inline void mount_is_up(struct mount *mount)
{
	mount->keep = false;
}

/* It will not: what was a dead daemon's is left as it is. */
static inline void mount_abandon(struct mount *mount)
{
	if (!mount->keep || mount->abandoned)
		return;
	mount->abandoned = true;
	if (mount->has_state)
		state_freeze(&mount->state);
}

/* Whether what seems to be without use may be given up. */
static inline bool mount_may_remove(const struct mount *mount)
{
	return !mount->adopting && !mount->abandoned;
}

/* Pages may have been freed: set those aside that nobody has reserved. */
void mount_pages_freed(struct mount *mount);
/*
 * What writing nr_hugepages and nr_overcommit_hugepages means in the kernel, for this mount's
 * pool; @node: a node's nr_hugepages, or POOL_ANY_NODE. From the first call on the pool is the
 * mount's limit, not size= and min_size= any more. Returns what it has come to, which may be
 * less: the kernel had no more memory, or max_size= is reached. -errno.
 */
int64_t mount_set_nr_pages(struct mount *mount, int node, int64_t nr);
int64_t mount_set_overcommit(struct mount *mount, int node, int64_t overcommit);
/*
 * Let @node have one free page more, adding it to the kernel's pool, where a surplus page would
 * be made else. 1; 0 where size= allows no more; -ENOMEM where there is no memory, or
 * another -errno. May take long.
 */
int mount_refill_node(struct mount *mount, int node);
/* Pages that were in use when the pool was made smaller, and have become free since, are not to
 * be had any more. */
void mount_settle_size(struct mount *mount);

static inline int64_t mount_bytes_to_pages(const struct mount *mount, uint64_t bytes)
{
	return (int64_t)(bytes / mount->backing->page_size +
			 (bytes % mount->backing->page_size != 0));
}
