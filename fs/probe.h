/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Probe: what this machine and this user can do, asked of the kernel itself. What needs a mount
 * is tried by a child process in mount (and user) namespaces of its own: nothing outlives it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum probe_answer {
	PROBE_NO,
	PROBE_YES,
	PROBE_UNKNOWN
};
enum probe_uffd {
	PROBE_UFFD_NONE,
	PROBE_UFFD_USER_MODE,
	PROBE_UFFD_FULL
};

#define PROBE_MAX_SIZES 8
#define PROBE_MAX_NODES 64

struct probe_node {
	int node;
	long nr, free, surplus;
};

struct probe_pages {
	unsigned long kb;
	long nr, free, resv, surplus, overcommit;
	int nr_nodes;
	struct probe_node nodes[PROBE_MAX_NODES];
};

/* A number that is not there is -1, a text is empty. */
struct probe {
	char kernel[65];
	char libfuse[32];
	bool root;
	bool has_fuse;                 /* /dev/fuse can be opened */
	int fuse_error;                /* why not; 0: it is not there */
	char mount_why[256];           /* why this user cannot mount; empty: it can */
	bool has_hugetlbfs;            /* there is one that this user may write to */
	long memory_kb, available_kb;  /* of /proc/meminfo */
	enum probe_answer passthrough; /* the kernel offers it in FUSE_INIT */
	enum probe_answer fuse_uring;  /* the same of FUSE over io_uring */
	char fuse_why[96];             /* why it is not known */
	long fuse_uring_parameter;     /* /sys/module/fuse/parameters/enable_uring */
	enum probe_answer huge_tmpfs;  /* tmpfs can be mounted with huge=within_size */
	char thp_enabled[16];          /* the word in brackets */
	char thp_shmem_enabled[16];
	enum probe_uffd uffd;   /* what this user gets */
	uint64_t uffd_features; /* UFFDIO_API's */
	long uffd_device_mode;  /* of /dev/userfaultfd */
	long uffd_unprivileged; /* vm.unprivileged_userfaultfd */
	uint64_t nofile_soft, nofile_hard, memlock_soft, memlock_hard; /* RLIM_INFINITY */
	long max_map_count;
	int nr_sizes;
	struct probe_pages sizes[PROBE_MAX_SIZES]; /* the smallest first */
};

/* Fill in *@ret_probe. What cannot be read is left unknown. */
void probe_machine(struct probe *ret_probe);

/* The number in a file, or -1; Y and N are 1 and 0. */
long probe_read_number(const char *path);
/* Of "always [madvise] never" the word in brackets; empty without. */
void probe_parse_choice(const char *text, char *ret_word, size_t size);
/* FUSE passthrough and io_uring by the flags of a FUSE_INIT request of @len bytes. */
void probe_parse_init(struct probe *probe, const void *request, size_t len);

/* What a mount says of itself in one line. */
struct probe_summary {
	unsigned long page_kb;
	const char *backing;
	uint64_t set_aside_bytes;
	bool passthrough, direct, cached;
	bool at_most;       /* that is a limit, and nothing has been set aside */
	bool by_kernel;     /* direct, but without userfaultfd */
	const char *reason; /* why this backing; NULL: it was asked for */
};

/*
 * "2048 kB pages, hugetlb, 64 MiB set aside; mapping: direct (userfaultfd), cached", without a
 * newline.
 */
void probe_format_summary(const struct probe_summary *summary, char *ret_line, size_t size);
