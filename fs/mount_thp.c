/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Setting pages aside in a tmpfs. */
#include "fs/mount_thp.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "fs/backing_thp.h"
#include "fs/file_sized.h"
#include "fs/run_dir.h"

#define CHUNK_PAGES 512                         /* of 2 MB */
#define STEP_PAGES  (INT64_C(64) * CHUNK_PAGES) /* that a pool grows by at once */

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
	pages.data_max = options_size_is_set(&options->max_size)
				 ? size_pages(&options->max_size)
				 : MOUNT_THP_NO_LIMIT;
	if (pages.data_max < pages.max) {
		snprintf(error, error_size, "max_size is less than size");
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

/* ---- another size ---- */

/* Only the superblock's size=: all else, and the mount's flags, stay as they are. */
static int resize_tmpfs(const struct mount *mount, int64_t nr)
{
	int fd = fspick(mount->names_fd, "", FSPICK_EMPTY_PATH | FSPICK_CLOEXEC), r = 0;
	char size[24];

	if (fd < 0)
		return -errno;
	snprintf(size, sizeof(size), "%" PRIu64, NAMES_BYTES + (uint64_t)nr * THP_PAGE_SIZE);
	if (fsconfig(fd, FSCONFIG_SET_STRING, "size", size, 0) < 0 ||
	    fsconfig(fd, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0) < 0)
		r = -errno;
	close(fd);
	return r;
}

/* How many there are that are not surplus. */
static int64_t persistent(struct mount *mount)
{
	struct pool_counts pool;

	pool_read(&mount->core.pool, &pool);
	return pool.nr - pool.surplus;
}

/* What the tmpfs has to hold, with @more pages: those that there are, and that may be made. */
static int64_t room(struct mount *mount, int64_t more)
{
	struct pool_counts pool;
	int64_t persistent;

	pool_read(&mount->core.pool, &pool);
	persistent = pool.nr - pool.surplus + more;
	return persistent + (pool.surplus > pool.overcommit ? pool.surplus : pool.overcommit);
}

/* Make the reserve and the tmpfs what the counters say. */
static void follow_locked(struct mount *mount)
{
	mutex_assert_held(&mount->size_lock);
	file_sized_balance(mount);
	/* A tmpfs that stays larger gives nobody more: the pool counts. */
	resize_tmpfs(mount, room(mount, 0));
}

/* 0 with @nr pages more, or -errno with none. */
static int add_locked(struct mount *mount, int64_t nr)
{
	int64_t left[POOL_MAX_NODES], had = persistent(mount);
	int r;

	r = resize_tmpfs(mount, room(mount, nr));
	if (r == 0)
		r = pool_resize(&mount->core.pool, 0, nr);
	if (r == 0)
		r = file_sized_set_aside(mount);
	if (r < 0) {
		pool_set_nr(&mount->core.pool, POOL_ANY_NODE, had, left);
		follow_locked(mount);
	}
	return r;
}

/* By and by: what was to be had stays. */
static void grow_locked(struct mount *mount, int64_t nr)
{
	int64_t missing, available;

	do {
		available = memory_pages("MemAvailable") / CHUNK_PAGES * CHUNK_PAGES;
		missing = nr - persistent(mount);
		missing = missing < available ? missing : available;
		missing = missing < STEP_PAGES ? missing : STEP_PAGES;
	} while (missing > 0 && add_locked(mount, missing) == 0);
}

int64_t mount_thp_set_nr(struct mount *mount, int64_t nr)
{
	int64_t left[POOL_MAX_NODES], had;

	mutex_assert_held(&mount->size_lock);
	had = persistent(mount);
	if (nr > mount->data_max)
		nr = had > mount->data_max ? had : mount->data_max;
	if (pool_set_nr(&mount->core.pool, POOL_ANY_NODE, nr, left) > 0)
		grow_locked(mount, nr);
	follow_locked(mount);
	return persistent(mount);
}

int64_t mount_thp_room(const struct mount *mount)
{
	struct statfs st;

	if (fstatfs(mount->names_fd, &st) < 0)
		return 0;
	return (int64_t)(((uint64_t)st.f_blocks * (uint64_t)st.f_bsize - NAMES_BYTES) /
			 THP_PAGE_SIZE);
}
