/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Mount snapshot: everything that the tools want to know of one mount, read at once, and what
 * follows from it. What a mount does not have, or what is only for root, is left out and said
 * so; what cannot be understood is an error.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/snapshot.h"

enum mount_part {
	PART_FAULTS = 1 << 0,
	PART_LOCKS = 1 << 1,
	PART_FILES = 1 << 2,
	PART_MAPS = 1 << 3,
	PART_TENANTS = 1 << 4,
	PART_RESERVED = 1 << 5, /* what of files and maps is reserved, quicker */
	PART_SPLITS = 1 << 6,
	PART_ALL = (1 << 7) - 1,
};

struct mount_snapshot {
	char *mountpoint;
	uint64_t page_size; /* of its huge pages, in bytes */
	double time;        /* when it was read, seconds of the monotonic clock */
	uint64_t epoch_ms;  /* the same, since the Epoch */
	char *options;      /* without the end of line */
	struct snapshot_pool *pools;
	int nr_pools;
	unsigned int parts; /* what of mount_part was there */
	struct snapshot_rows faults, files, maps, tenants, reserved, splits;
	struct snapshot_locks locks;
};

/* Read pools, options and @parts. 0 or -errno with @error. */
int mount_snapshot_read(const char *mountpoint, unsigned int parts,
			struct mount_snapshot *ret_mount, struct snapshot_error *error);
void mount_snapshot_deinit(struct mount_snapshot *mount);

/* The pool of all nodes. */
const struct snapshot_pool *mount_snapshot_pool(const struct mount_snapshot *mount);
/* The value of an option, in @buf, or NULL. */
const char *mount_snapshot_option(const struct mount_snapshot *mount, const char *name,
				  char *buf, size_t buf_size);

/* Seconds since @ms, or SNAPSHOT_UNKNOWN where that is not known. */
uint64_t mount_snapshot_age(const struct mount_snapshot *mount, uint64_t ms);

/* ---- faults ---- */

/* Kinds of lines in fault_stat. */
enum fault_value_kind {
	FAULT_COUNT,
	FAULT_LATENCY, /* in ns */
	FAULT_BUCKET,  /* of the histogram */
	FAULT_OF_NODE, /* any of them, of one memory node */
};

enum fault_value_kind fault_value_kind(const char *name);
/* The value of a line of fault_stat as a number, SNAPSHOT_UNKNOWN where there is none. */
uint64_t mount_snapshot_fault(const struct mount_snapshot *mount, const char *name);
/* Faults of all kinds. */
uint64_t mount_snapshot_faults(const struct mount_snapshot *mount);

/* ---- who holds what ---- */

enum holder_kind {
	HOLDER_FILE,
	HOLDER_PRIVATE, /* a private mapping: its pages are its process's own */
	HOLDER_MOUNT,   /* set aside for the mount and promised to nobody */
};

struct holder {
	enum holder_kind kind;
	uint64_t number;    /* inode, or number of the mapping */
	uint64_t pid;       /* HOLDER_PRIVATE: its process, or SNAPSHOT_UNKNOWN */
	const char *comm;   /* of it; "" where it is not known */
	const char *path;   /* of the file; "" of HOLDER_MOUNT */
	bool unlinked;      /* HOLDER_FILE: it has no name any more */
	const char *mapped; /* ids of processes that have it mapped, with commas; or "" */
	uint64_t resident, reserved; /* bytes; reserved: promised, but not touched */
	uint64_t reserved_seconds;   /* since when, or SNAPSHOT_UNKNOWN */
};

struct holders {
	struct holder *list;
	size_t count;
};

/* Whether the mount's parts tell of its holders; or of what they have reserved. */
bool holders_are_known(const struct mount_snapshot *mount);
bool holders_reserved_are_known(const struct mount_snapshot *mount);
/*
 * All holders, those that hold most first. The mount's own is among them where it has one.
 * 0 or -ENOMEM.
 */
int holders_find(const struct mount_snapshot *mount, struct holders *ret_holders);
/* Those that have reserved what they did not touch, most first. */
int holders_find_reserved(const struct mount_snapshot *mount, struct holders *ret_holders);
void holders_free(struct holders *holders);
/* What it is: a path, or a process and a path. Escaped, to be freed; NULL without memory. */
char *holder_name(const struct holder *holder);
/* "qemu (4711)", "qemu (4711) and 3 more", or "" of who has a file mapped. To be freed. */
char *holder_mappers(const struct mount_snapshot *mount, const struct holder *holder);

/* Bytes of a mapping's pages. */
uint64_t mapping_resident(const struct mount_snapshot *mount,
			  const struct snapshot_mapping *mapping);
uint64_t mapping_reserved(const struct mount_snapshot *mount,
			  const struct snapshot_mapping *mapping);
bool mapping_is_private(const struct snapshot_mapping *mapping);
