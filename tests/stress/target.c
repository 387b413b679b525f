/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Target: mounting, and reading counters. */
#include "target.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "hugefuse.h"

#define COUNTERS "/sys/kernel/mm/hugepages/hugepages-2048kB/"

static const char *const counter_names[4] = {"nr_hugepages", "free_hugepages", "resv_hugepages",
					     "surplus_hugepages"};

static void write_counter(const char *name, long value)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), COUNTERS "%s", name);
	file = fopen(path, "we");
	if (!file || fprintf(file, "%ld", value) < 0 || fclose(file) != 0)
		fail_msg("%s: %s", path, strerror(errno));
}

static void mount_kernel(struct target *target)
{
	struct fixture *fixture = &target->fixture;
	char options[96];

	fixture->before = kernel_counts_read(PAGE_2M);
	strcpy(fixture->dir, "/tmp/hugetlbfs-test-XXXXXX");
	if (!mkdtemp(fixture->dir))
		fail_msg("%s: %s", fixture->dir, strerror(errno));
	write_counter("nr_hugepages", fixture->before.nr + target->min);
	write_counter("nr_overcommit_hugepages",
		      fixture->before.overcommit + target->max - target->min);
	snprintf(options, sizeof(options), "pagesize=2M,size=%ldM,min_size=%ldM",
		 2 * target->max, 2 * target->min);
	if (mount("none", fixture->dir, "hugetlbfs", 0, options) < 0)
		fail_msg("cannot mount hugetlbfs with %s: %s", options, strerror(errno));
	target->data_fd = open(fixture->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* The private hugetlbfs of a mount point, as run_dir_path() names it. */
static void data_path(char *path, size_t size, const char *mountpoint)
{
	size_t len = (size_t)snprintf(path, size, "/run/hugefuse/");

	for (const char *c = mountpoint + 1; *c; c++) {
		if (*c == '/' || isalnum(*c))
			len += (size_t)snprintf(path + len, size - len, "%c",
						*c == '/' ? '-' : *c);
		else
			len += (size_t)snprintf(path + len, size - len, "\\x%02x", *c);
	}
	snprintf(path + len, size - len, "/data");
}

static void mount_hugefuse(struct target *target, const char *more_options)
{
	char options[256], data[PATH_MAX];

	snprintf(options, sizeof(options), "size=%ldM,min_size=%ldM%s%s", 2 * target->max,
		 2 * target->min, *more_options ? "," : "", more_options);
	fixture_mount(&target->fixture, options);
	data_path(data, sizeof(data), target->fixture.dir);
	target->data_fd = open(data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	target->probe_fd = fixture_file(&target->fixture, "probe", O_RDWR | O_CREAT, 0);
}

void target_mount(struct target *target, bool is_kernel, long max, long min,
		  const char *more_options)
{
	char path[128];

	memset(target, 0, sizeof(*target));
	target->is_kernel = is_kernel;
	target->max = max;
	target->min = min;
	target->probe_fd = target->data_fd = -1;
	target->dir = target->fixture.dir;
	target->mounted = true;
	ballast_take(&target->ballast, PAGE_2M);
	for (int i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), COUNTERS "%s", counter_names[i]);
		target->counter_fds[i] = open(path, O_RDONLY | O_CLOEXEC);
	}
	if (is_kernel)
		mount_kernel(target);
	else
		mount_hugefuse(target, more_options);
	if (target->data_fd < 0)
		fail_msg("cannot open the private hugetlbfs: %s", strerror(errno));
}

static void umount_kernel(struct target *target)
{
	struct fixture *fixture = &target->fixture;
	struct kernel_counts now;

	umount2(fixture->dir, MNT_DETACH);
	rmdir(fixture->dir);
	write_counter("nr_hugepages", fixture->before.nr);
	write_counter("nr_overcommit_hugepages", fixture->before.overcommit);
	now = kernel_counts_read(PAGE_2M);
	if (memcmp(&now, &fixture->before, sizeof(now)) != 0)
		fail_msg("the kernel's pool is not as before: nr %ld free %ld resv %ld "
			 "surplus %ld, was %ld %ld %ld %ld",
			 now.nr, now.free, now.resv, now.surplus, fixture->before.nr,
			 fixture->before.free, fixture->before.resv, fixture->before.surplus);
}

void target_umount(struct target *target)
{
	if (!target->mounted)
		return;
	target->mounted = false;
	for (int i = 0; i < 4; i++)
		close(target->counter_fds[i]);
	close(target->data_fd);
	if (target->is_kernel) {
		umount_kernel(target);
	} else {
		close(target->probe_fd);
		fixture_umount(&target->fixture);
	}
	ballast_drop(&target->ballast);
}

static long read_counter(const struct target *target, int which)
{
	char text[32];
	ssize_t len = pread(target->counter_fds[which], text, sizeof(text) - 1, 0);

	if (len <= 0)
		fail_msg("cannot read " COUNTERS "%s", counter_names[which]);
	text[len] = '\0';
	return strtol(text, NULL, 10);
}

struct counts target_kernel_counts(const struct target *target)
{
	const struct kernel_counts *before = &target->fixture.before;
	struct counts counts = {
		.nr = read_counter(target, 0) - before->nr,
		.free = read_counter(target, 1) - before->free,
		.resv = read_counter(target, 2) - before->resv,
		.surplus = read_counter(target, 3) - before->surplus,
	};
	struct statfs st;

	if (fstatfs(target->data_fd, &st) < 0)
		fail_msg("statfs: %s", strerror(errno));
	counts.used = (long)(st.f_blocks - st.f_bfree);
	return counts;
}

struct counts target_hugefuse_counts(const struct target *target)
{
	struct hugefuse_info info;
	struct statfs st;

	if (hugefuse_query(target->probe_fd, &info) < 0 || fstatfs(target->probe_fd, &st) < 0)
		fail_msg("hugefuse_query: %s", strerror(errno));
	return (struct counts){
		.nr = (long)info.pool_total,
		.free = (long)info.pool_free,
		.resv = (long)info.pool_reserved,
		.surplus = (long)info.pool_surplus,
		.used = (long)(st.f_blocks - st.f_bfree),
	};
}

/* Sum of two columns of a text with a title line, of the lines whose column @kind begins so. */
static long sum_columns(const char *path, int first, int kind, const char *begins)
{
	char line[PATH_MAX + 512];
	FILE *file = fopen(path, "re");
	long sum = 0;

	if (!file || !fgets(line, sizeof(line), file))
		fail_msg("%s: %s", path, strerror(errno));
	while (fgets(line, sizeof(line), file)) {
		bool counts = kind < 0;
		long value = 0;
		char *rest = line;

		for (int column = 0; column <= first + 1; column++) {
			char *word = strsep(&rest, " ");

			if (!word)
				fail_msg("%s: short line", path);
			if (column == kind)
				counts = strncmp(word, begins, strlen(begins)) == 0;
			if (column >= first)
				value += strtol(word, NULL, 10);
		}
		if (counts)
			sum += value;
	}
	fclose(file);
	return sum;
}

struct counts target_text_counts(const struct target *target)
{
	const struct fixture *fixture = &target->fixture;
	struct counts counts = {
		.nr = fixture_counter(fixture, "nr_hugepages"),
		.free = fixture_counter(fixture, "free_hugepages"),
		.resv = fixture_counter(fixture, "resv_hugepages"),
		.surplus = fixture_counter(fixture, "surplus_hugepages"),
	};

	counts.used = sum_columns(fixture_path(fixture, ".hugefuse/files"), 2, -1, "") /
		      (long)(PAGE_2M / 1024); /* kB */
	counts.used += sum_columns(fixture_path(fixture, ".hugefuse/maps"), 10, 8, "private");
	return counts;
}
