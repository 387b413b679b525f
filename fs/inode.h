/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Inodes: one struct for each inode of the private tmpfs that holds the namespace ("names"),
 * found by inode number. The number is also the FUSE node id (the root's node id is
 * FUSE_ROOT_ID), so that a daemon started later could answer for ids handed out before. The
 * tmpfs is mounted with inode64 and never uses a number twice.
 *
 * An inode holds an O_PATH descriptor of its tmpfs inode; owner, mode, times, links, xattrs and
 * the exact size are only there, never here. A regular file's pages hang on it as a page_space.
 *
 * References: each lookup that FUSE has not forgotten, each open file, mapping and token, each
 * operation that uses the pages. When the last goes, the inode is freed with its pages if it
 * has no link left; it stays in the table, without references, while it has a link and pages or
 * reservations; else only the struct is freed.
 *
 * FUSE forgets an unlinked inode some time after unlink(2) has returned, and whoever reserves
 * in between must not fail for pages that are nobody's. So what removes a name calls
 * inode_drop_unlinked(), which frees the pages of a file that only FUSE's lookups still hold
 * (where it has none, there is no hurry), and marks it as gone: it cannot be opened any more
 * (-ESTALE: the kernel looks the name up again).
 *
 * Lookup is lock-free: rculfhash, freed after a grace period. The way from and to zero
 * references is under the table's lock.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <urcu-bp.h>
#include <urcu/rculfhash.h>

#include "fs/lock.h"
#include "fs/page.h"
#include "fs/split_notes.h"

struct mount;
struct tenant;

struct inode {
	uint64_t ino; /* set at init */
	mode_t type;  /* set at init; S_IFMT bits */
	int fd;       /* set at init; O_PATH in names/ */
	/* With a reference; NULL: the mount. Of a directory under tenants->lock, else set at
	 * init. */
	struct tenant *tenant;
	bool in_table; /* table->lock */
	bool gone;     /* table->lock; unlinked, and its pages are freed */
	_Atomic uint64_t nr_refs;
	_Atomic uint64_t nr_lookups;  /* those of nr_refs that are FUSE's */
	_Atomic uint32_t nr_mappings; /* direct mappings, by all clients */
	_Atomic uint32_t nr_relying;  /* shared ones of those, with a reservation */
	_Atomic bool reserved;        /* pages were reserved without a mapping */
	_Atomic bool was_mapped;      /* directly: the kernel may give and take pages since */
	_Atomic int64_t reconcile_at; /* the hole to look at next */
	_Atomic pid_t user_pid;       /* who last mapped, sized or wrote it; 0: not known */
	_Atomic uid_t user_uid;

	/*
	 * A regular file's content. lock is held for reading by what reads, writes, maps or
	 * reserves, for writing by what changes the size; faults do not take it.
	 */
	struct rwsem lock;
	uint32_t nr_opens;              /* lock */
	_Atomic uint32_t nr_cached;     /* lock, but for a look; opens of nr_opens */
	_Atomic int32_t passthrough_id; /* lock, but for a look; 0: none */
	_Atomic int64_t
		ahead_end; /* lock; pages up to here are allocated for writes; 0: none */
	/* Holes that were noted; lock, but for its number. None unless all_stores_seen. */
	struct split_notes split;
	bool all_stores_seen; /* lock; nobody can store into it without our seeing it */
	_Atomic(struct page_space *) pages;          /* made on first use; NULL until then */
	_Atomic(struct backing_file *) backing_file; /* set before pages */
	_Atomic(struct stat *)
		last_stat; /* of one that is gone, and whose fd is no more its own */

	struct cds_lfht_node node; /* rcu */
	struct rcu_head rcu;
};

struct inode_table {
	struct mutex lock;          /* LOCK_RANK_NAMESPACE; references from and to zero */
	struct cds_lfht *inodes;    /* rcu */
	uint64_t root_ino;          /* set at init */
	_Atomic int64_t nr_freeing; /* not in the table any more, and not freed yet */
	int gone_fd; /* set at init; what takes the place of an inode that is gone */
	_Atomic uint32_t nr_visiting; /* threads in inode_for_each() */
	struct waitqueue visited;     /* woken when there is none */
};

/* Set up the table with the root directory, open as @root_fd (O_PATH, taken over on success).
 */
int inode_table_init(struct inode_table *table, int root_fd);
/* Free all inodes and, of files without a link, the pages. No operation is running any more. */
void inode_table_deinit(struct mount *mount);

/*
 * The inode of a FUSE node id, which FUSE has not forgotten: no reference is taken. NULL where
 * there is none (a request that is not the kernel's).
 */
struct inode *inode_lookup(struct mount *mount, uint64_t node_id);
/* The node id to tell FUSE. */
uint64_t inode_node_id(const struct mount *mount, const struct inode *inode);

/*
 * The inode called @name in the directory @parent, with a reference, and its attributes.
 * -ENOENT, -ENOTDIR, -ENAMETOOLONG, -ENOMEM, -EMFILE ...
 */
int inode_get_child(struct mount *mount, struct inode *parent, const char *name,
		    struct inode **ret_inode, struct stat *ret_stat);
/* The inode with number @ino, if it has pages, with a reference; or NULL. */
struct inode *inode_find(struct mount *mount, uint64_t ino);
/* A regular file of @size bytes that has no name, with a reference. 0 or -errno. */
int inode_new_nameless(struct mount *mount, off_t size, struct inode **ret_inode);
/*
 * The same, where the table has it; else NULL, and then it has no pages. What @name is must not
 * change meanwhile.
 */
struct inode *inode_find_child(struct mount *mount, struct inode *parent, const char *name);
/* Another reference to an inode that one already holds. */
struct inode *inode_ref(struct inode *inode);
/*
 * A reference to an inode that only FUSE may hold, so that its pages stay: to open it, or to
 * resize it. NULL where it is gone.
 */
struct inode *inode_get(struct mount *mount, struct inode *inode);
/*
 * Drop @nr references. NULL-safe. The last one of a file with pages frees them and waits for a
 * grace period: call it without locks, and not inside an RCU read side.
 */
void inode_put(struct mount *mount, struct inode *inode, uint64_t nr);

/*
 * What was counted in the table's nr_freeing is freed: whoever waits for pages sees them now,
 * or that there are none to wait for.
 */
void inode_end_freeing(struct mount *mount);

/* Make a reference that one holds a lookup of FUSE's, which inode_forget() drops. */
void inode_add_lookup(struct inode *inode);
/* Drop @nr lookups, and their references. As inode_put(). */
void inode_forget(struct mount *mount, struct inode *inode, uint64_t nr);
/*
 * Free the pages of @inode, to which the caller holds one reference, if it is a regular file
 * without a link and nobody but the caller and FUSE's lookups refers to it. As inode_put().
 */
void inode_drop_unlinked(struct mount *mount, struct inode *inode);

/*
 * stat(2) of the inode. For regular files st_blksize is the page size of the mount and
 * st_blocks counts the instantiated pages; st_ino of the root is what inode_node_id() says.
 */
int inode_stat(struct mount *mount, struct inode *inode, struct stat *ret_stat);

/* What inode_stat() tells differently from the fstat(2) of the inode's descriptor, in @st. */
void inode_adjust_stat(struct mount *mount, struct inode *inode, struct stat *st);

/* A path for system calls that do not take an O_PATH descriptor; not to be shown. */
#define INODE_FD_PATH_SIZE 32
void inode_fd_path(const struct inode *inode, char buf[INODE_FD_PATH_SIZE]);

/*
 * The path from the mount's root ("/a/b"), with " (deleted)" behind it if it has no name left.
 * 0, -ENAMETOOLONG or another error of readlink(2).
 */
int inode_path(struct mount *mount, struct inode *inode, char *buf, size_t buf_size);

/* A process, or a thread of it, changes how many pages the file needs: for .hugefuse/files. */
static inline void inode_note_user(struct inode *inode, pid_t pid, uid_t uid)
{
	atomic_store_explicit(&inode->user_pid, pid, memory_order_relaxed);
	atomic_store_explicit(&inode->user_uid, uid, memory_order_relaxed);
}

/*
 * Call @visit for every inode of the table that has pages; stops where it returns non-zero and
 * returns that. The inodes stay valid during the call (RCU read side: do not block for long).
 */
int inode_for_each(struct mount *mount, int (*visit)(struct mount *, struct inode *, void *),
		   void *data);

/*
 * The pages of a regular file, made on first use; as many as its size wants. The caller holds a
 * reference beyond FUSE's lookups, and holds inode->lock or is alone, so that the size stands.
 * 0, -EISDIR/-EINVAL for other types, -ESTALE where it is gone, -ENOMEM ...
 */
int inode_pages(struct mount *mount, struct inode *inode, struct page_space **ret_pages);
