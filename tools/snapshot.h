/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Snapshot: what the files of a mount's .hugefuse directory say, parsed. The directory is a
 * parameter, so that tests may bring their own.
 *
 * Everything returns >= 0 or -errno (-EBADMSG for content that is not understood) and on
 * failure one line in struct snapshot_error, which names the file and where in it. Nothing is
 * cached.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct snapshot_error {
	char text[512];
};

/* Open .hugefuse of @mountpoint. Returns a descriptor of the directory. */
int snapshot_open(const char *mountpoint, struct snapshot_error *error);

/* The text of a file below the directory, NUL-terminated, to be freed. Returns its length. */
long snapshot_read_text(int dir_fd, const char *name, char **ret_text,
			struct snapshot_error *error);

struct snapshot_pool {
	uint64_t page_size; /* bytes */
	int node;           /* -1: all nodes; resv and overcommit are known there only */
	uint64_t nr, free, resv, surplus, overcommit; /* pages */
};

/* All pools: for each page size the whole, then its nodes by number. Returns their number. */
int snapshot_read_pools(int dir_fd, struct snapshot_pool **ret_pools,
			struct snapshot_error *error);

/* What an optional column does not say. */
#define SNAPSHOT_UNKNOWN UINT64_MAX

struct snapshot_file {
	uint64_t inode;
	uint64_t size; /* bytes */
	uint64_t reserved_kb, instantiated_kb;
	uint64_t mappings, links, uid;
	/* since the Epoch, or 0; SNAPSHOT_UNKNOWN as user_pid without the column */
	uint64_t made_ms, changed_ms;
	uint64_t user_pid; /* who last mapped, sized or wrote it */
	const char *way;
	const char *holders; /* process ids with commas; "" or "-" */
	const char *path;    /* unescaped */
};

struct snapshot_mapping {
	uint64_t mapping, pid, uid, inode;
	uint64_t start, end, offset;     /* bytes */
	uint64_t reserved, instantiated; /* pages */
	/* SNAPSHOT_UNKNOWN without the column */
	uint64_t reserved_kb, instantiated_kb, touched_kb;
	uint64_t ns_pid;  /* in its own pid namespace */
	uint64_t made_ms; /* since the Epoch, or 0 */
	const char *comm, *kind, *way, *path;
	const char
		*namespaces; /* that are not the daemon's: "pid", "mnt", "pid,mnt", "-", "" */
	const char *state;   /* "running", "disconnected", "exited", or "" */
};

/* A directory with a quota of its own; the first row is the mount. */
struct snapshot_tenant {
	uint64_t size_kb; /* SNAPSHOT_UNKNOWN: no limit */
	uint64_t min_size_kb, used_kb;
	uint64_t reserved_kb; /* of min_size, and not used */
	uint64_t files, refused;
	const char *path;
};

/* What of a file, or of a private mapping, is reserved and was not touched. */
struct snapshot_reserved {
	const char *kind; /* "file" or "mapping" */
	uint64_t number;  /* inode, or number of the mapping */
	uint64_t reserved_kb, instantiated_kb;
	uint64_t changed_ms; /* since the Epoch */
	const char *holders; /* as in snapshot_file */
	const char *path;
};

/* A queue of huge pages with holes that were noted and not punched. */
struct snapshot_split {
	uint64_t node; /* SNAPSHOT_UNKNOWN: all */
	uint64_t queued, could_free_kb;
	uint64_t deferred, split, emptied, refilled, settled, cut, elsewhere;
	uint64_t freed_kb;
	const char *tenant; /* path; "-": all, "?": not known any more */
};

struct snapshot_value {
	const char *name, *value;
};

/* Rows of one kind; the strings in them point into @text. */
struct snapshot_rows {
	char *text;
	size_t count;
	union {
		void *rows;
		struct snapshot_file *files;
		struct snapshot_mapping *mappings;
		struct snapshot_tenant *tenants;
		struct snapshot_reserved *reserved;
		struct snapshot_split *splits;
		struct snapshot_value *values;
	};
};

int snapshot_read_files(int dir_fd, struct snapshot_rows *ret_rows,
			struct snapshot_error *error);
int snapshot_read_maps(int dir_fd, struct snapshot_rows *ret_rows,
		       struct snapshot_error *error);
int snapshot_read_reserved(int dir_fd, struct snapshot_rows *ret_rows,
			   struct snapshot_error *error);
int snapshot_read_tenants(int dir_fd, struct snapshot_rows *ret_rows,
			  struct snapshot_error *error);
int snapshot_read_splits(int dir_fd, struct snapshot_rows *ret_rows,
			 struct snapshot_error *error);
/* fault_stat: names with values, which are kept as text. */
int snapshot_read_values(int dir_fd, const char *name, struct snapshot_rows *ret_rows,
			 struct snapshot_error *error);
void snapshot_rows_free(struct snapshot_rows *rows);

/* Times in microseconds. */
struct snapshot_lock {
	const char *name; /* without -W and -R */
	char mode;        /* 'W', 'R', or 0 for a lock that knows one mode */
	uint64_t con_bounces, contentions;
	double wait_min, wait_max, wait_total, wait_avg;
	uint64_t acq_bounces, acquisitions;
	double hold_min, hold_max, hold_total, hold_avg;
};

struct snapshot_locks {
	char *text;
	size_t count;
	struct snapshot_lock *locks;
};

/* Parse the text of a lock_stat of version 0.4, which is changed and kept. */
int snapshot_parse_locks(char *text, struct snapshot_locks *ret_locks,
			 struct snapshot_error *error);
int snapshot_read_locks(int dir_fd, struct snapshot_locks *ret_locks,
			struct snapshot_error *error);
int snapshot_reset_locks(int dir_fd, struct snapshot_error *error);
/* For qsort(): what was waited for most first. */
int snapshot_compare_locks(const void *a, const void *b);
/* "write", "read" or "exclusive". */
const char *snapshot_lock_mode(const struct snapshot_lock *lock);
void snapshot_locks_free(struct snapshot_locks *locks);

/* Put the line together. Returns @code, which is negative. */
int snapshot_fail(struct snapshot_error *error, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
