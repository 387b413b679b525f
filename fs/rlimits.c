/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Limits of the daemon. */
#include "fs/rlimits.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>

#define NOFILE_WANTED   1048576             /* a descriptor for each file and mapping */
#define AS_BESIDE_FILES (UINT64_C(2) << 30) /* stacks of threads, and the program itself */

/* To @wanted if root may raise the hard one, else as far as that. */
static void raise_limit(__rlimit_resource_t resource, rlim_t wanted)
{
	struct rlimit limit, more;

	if (getrlimit(resource, &limit) < 0)
		return;
	more.rlim_cur = more.rlim_max = limit.rlim_max > wanted ? limit.rlim_max : wanted;
	if (setrlimit(resource, &more) == 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(resource, &limit);
}

void rlimits_raise(void)
{
	raise_limit(RLIMIT_NOFILE, NOFILE_WANTED);
	raise_limit(RLIMIT_FSIZE, RLIM_INFINITY);
	raise_limit(RLIMIT_AS, RLIM_INFINITY);
}

static uint64_t current(__rlimit_resource_t resource)
{
	struct rlimit limit;

	return getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY
		       ? limit.rlim_cur
		       : UINT64_MAX;
}

int rlimits_check(uint64_t bytes, char *error, size_t error_size)
{
	uint64_t file_bytes = current(RLIMIT_FSIZE), space_bytes = current(RLIMIT_AS);

	if (file_bytes < bytes) {
		snprintf(error, error_size,
			 "files may have %" PRIu64
			 " kB at most here, and the mount has %" PRIu64
			 " kB; ask for a smaller size, or raise the limit (ulimit -f)",
			 file_bytes >> 10, bytes >> 10);
		return -EINVAL;
	}
	if (space_bytes != UINT64_MAX && space_bytes < bytes + AS_BESIDE_FILES) {
		snprintf(
			error, error_size,
			"a process may have %" PRIu64 " kB of addresses here, and %" PRIu64
			" kB are needed; ask for a smaller size, or raise the limit (ulimit -v)",
			space_bytes >> 10, (bytes + AS_BESIDE_FILES) >> 10);
		return -EINVAL;
	}
	return 0;
}
