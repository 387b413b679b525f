/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reading .hugefuse: its directory, plain files, and pools.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/snapshot.h"
#include "tools/snapshot_table.h"

#define DIRECTORY ".hugefuse"

int snapshot_fail(struct snapshot_error *error, int code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(error->text, sizeof(error->text), format, args);
	va_end(args);
	return code;
}

int snapshot_open(const char *mountpoint, struct snapshot_error *error)
{
	char *path;
	int fd, saved;

	if (asprintf(&path, "%s/" DIRECTORY, mountpoint) < 0)
		return snapshot_fail(error, -ENOMEM, "out of memory");
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	saved = errno;
	free(path);
	if (fd >= 0)
		return fd;
	if (saved == ENOTCONN || saved == ECONNABORTED)
		return snapshot_fail(error, -saved,
				     "%s: its daemon has gone; 'hugefuse umount %s' gives back "
				     "what it had, and ends the mount with its files",
				     mountpoint, mountpoint);
	if ((saved == ENOENT || saved == ENOTDIR) && access(mountpoint, F_OK) == 0)
		return snapshot_fail(
			error, -saved,
			"%s: not the root of a hugefuse mount; 'hugefuse stat' lists "
			"the mounts, 'hugefuse mount %s' makes one",
			mountpoint, mountpoint);
	return snapshot_fail(error, -saved, "%s: cannot be opened: %s", mountpoint,
			     strerror(saved));
}

long snapshot_read_text(int dir_fd, const char *name, char **ret_text,
			struct snapshot_error *error)
{
	size_t size = 16384, length = 0;
	char *text = NULL, *bigger;
	ssize_t n = 0;
	int fd, r;

	fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return snapshot_fail(error, -errno, DIRECTORY "/%s: cannot be opened: %s", name,
				     strerror(errno));
	do {
		length += (size_t)n;
		if (!text || size - length < 2) {
			size *= 2;
			bigger = realloc(text, size);
			if (!bigger) {
				r = snapshot_fail(error, -ENOMEM, "out of memory");
				goto out_close;
			}
			text = bigger;
		}
		n = read(fd, text + length, size - length - 1);
	} while (n > 0 || (n < 0 && errno == EINTR && (n = 0) == 0));
	if (n < 0) {
		r = snapshot_fail(error, -errno, DIRECTORY "/%s: cannot be read: %s", name,
				  strerror(errno));
		goto out_close;
	}
	close(fd);
	text[length] = '\0';
	*ret_text = text;
	return (long)length;
out_close:
	free(text);
	close(fd);
	return r;
}

int snapshot_parse_u64(const char *text, int base, uint64_t *ret_value)
{
	char *end;

	if (!strchr("0123456789abcdef", *text) || *text == '\0')
		return -EBADMSG;
	errno = 0;
	*ret_value = strtoull(text, &end, base);
	return errno != 0 || *end != '\0' ? -EBADMSG : 0;
}

/* ---- pools ---- */

static int read_number(int dir_fd, const char *dir, const char *name, uint64_t *ret_value,
		       struct snapshot_error *error)
{
	char path[128], *text;
	long length;
	int r;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	length = snapshot_read_text(dir_fd, path, &text, error);
	if (length < 0)
		return (int)length;
	text[strcspn(text, "\n")] = '\0';
	r = snapshot_parse_u64(text, 10, ret_value);
	if (r < 0)
		snapshot_fail(error, r, DIRECTORY "/%s: '%.40s' is no number", path, text);
	free(text);
	return r;
}

/* @dir, a directory hugepages-*, as another pool of the list. */
static int add_pool(int dir_fd, const char *dir, struct snapshot_pool pool,
		    struct snapshot_pool **pools, int *count, struct snapshot_error *error)
{
	struct snapshot_pool *bigger;
	int r;

	r = read_number(dir_fd, dir, "nr_hugepages", &pool.nr, error);
	if (r == 0)
		r = read_number(dir_fd, dir, "free_hugepages", &pool.free, error);
	if (r == 0)
		r = read_number(dir_fd, dir, "surplus_hugepages", &pool.surplus, error);
	if (r == 0 && pool.node < 0)
		r = read_number(dir_fd, dir, "resv_hugepages", &pool.resv, error);
	if (r == 0 && pool.node < 0)
		r = read_number(dir_fd, dir, "nr_overcommit_hugepages", &pool.overcommit,
				error);
	if (r < 0)
		return r;
	bigger = reallocarray(*pools, (size_t)*count + 1, sizeof(**pools));
	if (!bigger)
		return snapshot_fail(error, -ENOMEM, "out of memory");
	bigger[(*count)++] = pool;
	*pools = bigger;
	return 0;
}

/* Add the pools in @dir ("." or "node/node3"), which are those of @node or of all (-1). */
static int add_pools(int dir_fd, const char *dir, int node, struct snapshot_pool **pools,
		     int *count, struct snapshot_error *error)
{
	int fd = openat(dir_fd, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *entry;

	if (!stream)
		return snapshot_fail(error, -errno, DIRECTORY "/%s: cannot be opened: %s", dir,
				     strerror(errno));
	while (r == 0 && (entry = readdir(stream)) != NULL) {
		struct snapshot_pool pool = {.node = node};
		char path[64], tail[3] = "";
		uint64_t kb;

		if (sscanf(entry->d_name, "hugepages-%" SCNu64 "%2s", &kb, tail) != 2 ||
		    strcmp(tail, "kB") != 0)
			continue;
		pool.page_size = kb << 10;
		snprintf(path, sizeof(path), "%s/hugepages-%" PRIu64 "kB", dir, kb);
		r = add_pool(dir_fd, path, pool, pools, count, error);
	}
	closedir(stream);
	return r;
}

static int compare_pools(const void *a, const void *b)
{
	const struct snapshot_pool *left = a, *right = b;

	if (left->page_size != right->page_size)
		return left->page_size < right->page_size ? -1 : 1;
	return left->node < right->node ? -1 : left->node > right->node;
}

/* From the files of each pool, which are of an instant each. */
static int read_pool_files(int dir_fd, struct snapshot_pool **ret_pools,
			   struct snapshot_error *error)
{
	struct snapshot_pool *pools = NULL;
	const struct dirent *entry;
	int fd, r, node, count = 0;
	DIR *stream = NULL;

	r = add_pools(dir_fd, ".", -1, &pools, &count, error);
	fd = openat(dir_fd, "node", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		stream = fdopendir(fd);
	while (r == 0 && stream && (entry = readdir(stream)) != NULL) {
		char path[64];

		if (sscanf(entry->d_name, "node%d", &node) != 1 || node < 0)
			continue;
		snprintf(path, sizeof(path), "node/node%d", node);
		r = add_pools(dir_fd, path, node, &pools, &count, error);
	}
	if (stream)
		closedir(stream);
	if (r < 0) {
		free(pools);
		return r;
	}
	*ret_pools = pools;
	return count;
}

int snapshot_read_pools(int dir_fd, struct snapshot_pool **ret_pools,
			struct snapshot_error *error)
{
	struct snapshot_pool *pools;
	int count;

	count = snapshot_read_pool_table(dir_fd, &pools, error);
	if (count == -ENOENT)
		count = read_pool_files(dir_fd, &pools, error);
	if (count < 0)
		return count;
	if (count == 0) {
		free(pools);
		return snapshot_fail(error, -ENOENT,
				     DIRECTORY ": it has no hugepages-*kB in it");
	}
	qsort(pools, (size_t)count, sizeof(*pools), compare_pools);
	if (pools[0].node >= 0) {
		free(pools);
		return snapshot_fail(error, -EBADMSG, DIRECTORY "/pool: no line of all nodes");
	}
	*ret_pools = pools;
	return count;
}
