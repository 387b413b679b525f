/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Backing: where the pages of a file really are. An ops table, so that the page transaction is
 * the same code over the kernel's hugetlbfs and over an in-memory fake for unit tests and for
 * experiments with many threads.
 *
 * A backing decides nothing and counts nothing; it does what the page transaction tells it. Its
 * functions may block. populate, punch and present of one page are called under that page's
 * fault mutex.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct backing;
struct backing_file;

struct backing_ops {
	const char *name; /* as in backing= */

	/*
	 * Open, or make, the pages of the file with inode number @ino; @names_fd is an O_PATH
	 * descriptor of that inode in names/.
	 */
	int (*file_open)(struct backing *backing, uint64_t ino, int names_fd,
			 struct backing_file **ret_file);
	/* Close it. With @remove its pages are freed as soon as nobody maps them. */
	void (*file_close)(struct backing_file *file, bool remove);
	/* A descriptor that a client may map, open for O_RDONLY or O_RDWR. The caller closes
	 * it. */
	int (*file_descriptor)(struct backing_file *file, int access_mode);

	/* Let the file have @nr_pages pages; what is behind is freed. */
	int (*resize)(struct backing_file *file, int64_t nr_pages);
	/* Cut off what a client has made it longer by; NULL where none can. 0 or -errno. */
	int (*cut)(struct backing_file *file);
	/*
	 * Whether the kernel can reserve @nr_pages more now: 0, -ENOMEM. NULL: no need to ask
	 * before.
	 */
	int (*can_reserve)(struct backing *backing, int64_t nr_pages);
	/* Make the kernel reserve [from, to) too, so that the guarantee outlives the daemon. */
	int (*reserve)(struct backing_file *file, int64_t from, int64_t to);
	/*
	 * Allocate and clear page @idx, on @node and nowhere else, or, with POOL_ANY_NODE,
	 * wherever there is a page; with one node it is of no account. Returns the node that it
	 * is on; -ENOSPC, -ENOMEM; -ERANGE where the file has become shorter. Success where it
	 * is there, on whatever node.
	 */
	int (*populate)(struct backing_file *file, int64_t idx, int node);
	/*
	 * The same for [from, to), which are in one huge page, wherever the kernel wants to put
	 * them. 0 or -errno. Only where the size is what is reserved.
	 */
	int (*populate_run)(struct backing_file *file, int64_t from, int64_t to);
	/* Free the pages [from, to). */
	int (*punch)(struct backing_file *file, int64_t from, int64_t to);
	/* Whether page @idx is there: 1, 0 or -errno. */
	int (*present)(struct backing_file *file, int64_t idx);
	/*
	 * The node of the huge page that page @idx, which is there, is part of; -ENOENT where
	 * it is a base page. NULL: it is what page_node() says.
	 */
	int (*huge_node)(struct backing_file *file, int64_t idx);
	/* The node of page @idx, which is there; -errno. NULL where that cannot be said. */
	int (*node)(struct backing_file *file, int64_t idx);
	/* How many pages are there, or -errno; NULL where that cannot be said. */
	int64_t (*count)(struct backing_file *file);

	/*
	 * Bytes of pages that are there: never allocates and never raises a signal when the
	 * file is cut meanwhile. Returns @len or -errno. read gives zeroes for pages that are
	 * not there.
	 */
	ssize_t (*read)(struct backing_file *file, void *buf, size_t len, uint64_t offset);
	ssize_t (*write)(struct backing_file *file, const void *buf, size_t len,
			 uint64_t offset);
};

struct backing {
	const struct backing_ops *ops;
	uint64_t page_size; /* bytes; what maps and counters count */
	int nr_nodes;
	uint64_t huge_page_size; /* bytes; of the pages that are handed out where they can be */
	/*
	 * A file is reserved as far as it is long (thp), rather than where it is mapped:
	 * whoever maps it needs nothing from the daemon.
	 */
	bool reserves_size;
};

/* How many of the pages that are counted are in one huge page. */
static inline int64_t backing_chunk(const struct backing *backing)
{
	return (int64_t)(backing->huge_page_size / backing->page_size);
}

static inline int backing_can_reserve(struct backing *backing, int64_t nr_pages)
{
	return backing->ops->can_reserve ? backing->ops->can_reserve(backing, nr_pages) : 0;
}

struct backing_file {
	struct backing *backing;
};
