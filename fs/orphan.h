/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Orphans: files without a name that the daemon does not hold any more, but a process may: it
 * has mapped the pages through FUSE passthrough and closed the file, of which FUSE tells
 * nothing. Their pages stay counted until the kernel frees the inode, which inotify(7) tells.
 *
 * All functions are thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "fs/lock.h"
#include "fs/page.h"

struct orphan;

struct orphans {
	int names_fd;   /* set at init; of the filesystem that they are on; not owned */
	int inotify_fd; /* set at init; readable when some may have gone */
	struct mutex lock;
	struct orphan *list;       /* lock */
	_Atomic uint64_t added_ns; /* when the last one came */
};

/* For files on the filesystem of @names_fd. 0 or -errno. */
int orphans_init(struct orphans *orphans, int names_fd);
/* Uncharge all that are left. */
void orphans_deinit(struct orphans *orphans);

/*
 * Watch the inode that @fd (O_PATH) is open on, and uncharge and free @pages when it is freed.
 * The caller closes its descriptors after that, and then calls orphans_collect(). 0, or -errno
 * with @pages still the caller's.
 */
int orphans_add(struct orphans *orphans, int fd, struct page_space *pages);
/*
 * Whether there is one since less than @age_ns. Whoever closes a file lets go of it a moment
 * after FUSE has told of that; who keeps it longer has it mapped.
 */
bool orphans_are_new(struct orphans *orphans, uint64_t age_ns);
/*
 * Call @visit with the pages of each until it returns non-zero, which is returned; their
 * backing file is closed already. Inside an RCU read side: do not block for long. -ENOMEM.
 */
int orphans_for_each(struct orphans *orphans,
		     int (*visit)(struct page_space *pages, void *data), void *data);
/* Free those whose inodes the kernel has freed. Returns how many. */
int orphans_collect(struct orphans *orphans);
