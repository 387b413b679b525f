/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Setting pages aside in a tmpfs. */
#include "fs/mount_thp.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "fs/backing_thp.h"
#include "fs/file_sized.h"
#include "fs/run_dir.h"

#define CHUNK_PAGES 512 /* of 2 MB */

bool mount_thp_is_supported(void)
{
	unsigned int major, minor;
	struct utsname name;

	if (uname(&name) < 0 || sscanf(name.release, "%u.%u", &major, &minor) != 2)
		return false;
	return major > 6 || (major == 6 && minor >= 9);
}

/* A number of kB from /proc/meminfo, in pages. */
static int64_t memory_pages(const char *name)
{
	FILE *file = fopen("/proc/meminfo", "re");
	size_t len = strlen(name);
	char line[128];
	uint64_t kb = 0;

	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, name, len) == 0 && line[len] == ':' &&
		    sscanf(line + len + 1, "%" SCNu64, &kb) == 1)
			break;
	}
	if (file)
		fclose(file);
	return (int64_t)(kb * 1024 / THP_PAGE_SIZE);
}

/* In whole huge pages, rounded down as hugetlbfs does. */
static int64_t size_pages(const struct option_size *size)
{
	int64_t pages = size->is_percent ? memory_pages("MemTotal") / 100 * size->percent
					 : (int64_t)(size->bytes / THP_PAGE_SIZE);

	return pages / CHUNK_PAGES * CHUNK_PAGES;
}

int mount_thp_resolve(const struct mount_options *options, struct mount_pages *ret_pages,
		      char *error, size_t error_size)
{
	bool has_size = options_size_is_set(&options->size);
	bool has_min_size = options_size_is_set(&options->min_size);
	struct mount_pages pages;

	if (!has_size && !has_min_size) {
		snprintf(error, error_size,
			 "how much is to be set aside? size= is needed with backing=thp "
			 "(with hugetlb it is what is free in the kernel's pool, which is "
			 "empty)");
		return -EINVAL;
	}
	pages.min = size_pages(has_min_size ? &options->min_size : &options->size);
	pages.max = has_size ? size_pages(&options->size) : pages.min;
	if (pages.max == 0) {
		snprintf(error, error_size, "size= is less than a page of 2 MB");
		return -EINVAL;
	}
	if (pages.min > pages.max) {
		snprintf(error, error_size, "min_size is more than size");
		return -EINVAL;
	}
	*ret_pages = pages;
	return 0;
}

static int no_memory(int64_t wanted, int64_t available, char *error, size_t error_size)
{
	snprintf(error, error_size,
		 "%" PRId64 " pages of 2048 kB are to be set aside, and there is memory for "
		 "%" PRId64 "; ask for a smaller size, or free memory and try again",
		 wanted / CHUNK_PAGES, available / CHUNK_PAGES);
	return -ENOMEM;
}

/* Where names/ is a mount, the reserve is kept for a daemon that comes after this one. */
static int make_reserve(const struct mount *mount)
{
	int fd;

	if (!mount_has_source(mount))
		return run_dir_make_hidden(mount->run_dir, "reserve");
	fd = openat(mount->names_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	return fd < 0 ? -errno : fd;
}

int mount_thp_set_aside(struct mount *mount, char *error, size_t error_size)
{
	int64_t available = memory_pages("MemAvailable");
	struct pool_counts counts;
	int fd, r;

	pool_read(&mount->core.pool, &counts);
	if (counts.nr > available)
		return no_memory(counts.nr, available, error, error_size);
	fd = make_reserve(mount);
	r = fd < 0 ? fd : backing_thp_new(fd, &mount->backing);
	if (r < 0 && fd >= 0)
		close(fd);
	if (r < 0) {
		snprintf(error, error_size, "cannot use the tmpfs: %s", strerror(-r));
		return r;
	}
	r = file_sized_set_aside(mount);
	if (r < 0)
		return no_memory(counts.nr, backing_thp_reserved(mount->backing), error,
				 error_size);
	return 0;
}
