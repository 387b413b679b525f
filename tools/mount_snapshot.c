/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reading all of a mount's files. The numbers of one file are of one instant; the files are
 * read one after the other, so two of them may differ by what happened in between.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/mount_snapshot.h"

static double clock_seconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* What an older daemon, a mount option or the user's rights may leave out. */
static bool may_be_missing(int r)
{
	return r == -ENOENT || r == -EACCES || r == -EPERM;
}

static int read_part(int dir_fd, enum mount_part part, struct mount_snapshot *mount,
		     struct snapshot_error *error)
{
	switch (part) {
	case PART_FAULTS:
		return snapshot_read_values(dir_fd, "fault_stat", &mount->faults, error);
	case PART_LOCKS:
		return snapshot_read_locks(dir_fd, &mount->locks, error);
	case PART_FILES:
		return snapshot_read_files(dir_fd, &mount->files, error);
	case PART_MAPS:
		return snapshot_read_maps(dir_fd, &mount->maps, error);
	case PART_RESERVED:
		return snapshot_read_reserved(dir_fd, &mount->reserved, error);
	case PART_TENANTS:
		return snapshot_read_tenants(dir_fd, &mount->tenants, error);
	case PART_SPLITS:
		return snapshot_read_splits(dir_fd, &mount->splits, error);
	default:
		return 0;
	}
}

static int read_parts(int dir_fd, unsigned int parts, struct mount_snapshot *mount,
		      struct snapshot_error *error)
{
	unsigned int part;
	int r;

	r = snapshot_read_pools(dir_fd, &mount->pools, error);
	if (r < 0)
		return r;
	mount->nr_pools = r;
	mount->page_size = mount->pools[0].page_size;
	for (part = 1; part < PART_ALL; part <<= 1) {
		if (!(parts & part))
			continue;
		r = read_part(dir_fd, part, mount, error);
		if (r < 0 && !may_be_missing(r))
			return r;
		mount->parts |= r < 0 ? 0 : part;
	}
	r = (int)snapshot_read_text(dir_fd, "options", &mount->options, error);
	if (r < 0)
		return r;
	mount->options[strcspn(mount->options, "\n")] = '\0';
	return 0;
}

int mount_snapshot_read(const char *mountpoint, unsigned int parts,
			struct mount_snapshot *ret_mount, struct snapshot_error *error)
{
	struct mount_snapshot mount = {
		.time = clock_seconds(CLOCK_MONOTONIC),
		.epoch_ms = (uint64_t)(clock_seconds(CLOCK_REALTIME) * 1000),
	};
	int dir_fd, r;

	dir_fd = snapshot_open(mountpoint, error);
	if (dir_fd < 0)
		return dir_fd;
	mount.mountpoint = strdup(mountpoint);
	r = mount.mountpoint ? read_parts(dir_fd, parts, &mount, error)
			     : snapshot_fail(error, -ENOMEM, "out of memory");
	close(dir_fd);
	if (r < 0) {
		mount_snapshot_deinit(&mount);
		return r;
	}
	*ret_mount = mount;
	return 0;
}

void mount_snapshot_deinit(struct mount_snapshot *mount)
{
	if (!mount)
		return;
	free(mount->mountpoint);
	free(mount->options);
	free(mount->pools);
	snapshot_rows_free(&mount->faults);
	snapshot_rows_free(&mount->files);
	snapshot_rows_free(&mount->maps);
	snapshot_rows_free(&mount->tenants);
	snapshot_rows_free(&mount->reserved);
	snapshot_rows_free(&mount->splits);
	snapshot_locks_free(&mount->locks);
	*mount = (struct mount_snapshot){0};
}

const struct snapshot_pool *mount_snapshot_pool(const struct mount_snapshot *mount)
{
	return &mount->pools[0]; /* the whole comes before its nodes */
}

const char *mount_snapshot_option(const struct mount_snapshot *mount, const char *name,
				  char *buf, size_t buf_size)
{
	const char *word = mount->options, *end;
	size_t length = strlen(name);

	for (; *word != '\0'; word = *end ? end + 1 : end) {
		end = word + strcspn(word, ",");
		if (strncmp(word, name, length) != 0 || word[length] != '=')
			continue;
		word += length + 1;
		snprintf(buf, buf_size, "%.*s", (int)(end - word), word);
		return buf;
	}
	return NULL;
}

/* ---- faults ---- */

enum fault_value_kind fault_value_kind(const char *name)
{
	if (strncmp(name, "node", 4) == 0 || strncmp(name, "nonode", 6) == 0)
		return FAULT_OF_NODE;
	if (strncmp(name, "latency_ns_le_", 14) == 0)
		return FAULT_BUCKET;
	return strncmp(name, "latency_ns", 10) == 0 ? FAULT_LATENCY : FAULT_COUNT;
}

static uint64_t parse_value(const char *text)
{
	char *end;
	uint64_t value;

	errno = 0;
	value = strtoull(text, &end, 10);
	return errno || end == text || *end != '\0' || *text == '-' ? SNAPSHOT_UNKNOWN : value;
}

uint64_t mount_snapshot_fault(const struct mount_snapshot *mount, const char *name)
{
	for (size_t i = 0; i < mount->faults.count; i++) {
		if (strcmp(mount->faults.values[i].name, name) == 0)
			return parse_value(mount->faults.values[i].value);
	}
	return SNAPSHOT_UNKNOWN;
}

uint64_t mount_snapshot_faults(const struct mount_snapshot *mount)
{
	uint64_t sum = 0, value;

	for (size_t i = 0; i < mount->faults.count; i++) {
		if (strncmp(mount->faults.values[i].name, "faults_", 7) != 0)
			continue;
		value = parse_value(mount->faults.values[i].value);
		sum += value == SNAPSHOT_UNKNOWN ? 0 : value;
	}
	return sum;
}
