/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the tests of deferred splits share: files with holes, and the columns of
 * .hugefuse/split. */
#pragma once

#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "fixture.h"

#define KB    1024L
#define PUNCH (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE)
#define DEFER "backing=thp,split_queue=tenant-node"

static struct fixture fixture;

/* A column of .hugefuse/split, of the line of @tenant. */
static inline long split_column(const char *column, const char *tenant)
{
	char *text = fixture_text(&fixture, "split"), *line, *lines = text, *field, *fields;
	long value = 0;
	int at = -1;

	line = strsep(&lines, "\n");
	for (int i = 0; (field = strsep(&line, " ")); i++)
		if (strcmp(field, column) == 0)
			at = i;
	assert_int_not_equal(at, -1);
	while ((line = strsep(&lines, "\n")) && *line) {
		if (strcmp(strrchr(line, ' ') + 1, tenant) != 0)
			continue;
		fields = line;
		for (int i = 0; i < at; i++)
			strsep(&fields, " ");
		value += strtol(fields, NULL, 10);
	}
	free(text);
	return value;
}

static inline long column(const char *name)
{
	return split_column(name, "/");
}

static inline void write_all(int fd, off_t offset, size_t len, char value)
{
	char *bytes = malloc(len);

	memset(bytes, value, len);
	assert_int_equal(pwrite(fd, bytes, len, offset), len);
	free(bytes);
}

/* A file of @pages huge pages full of @value, open for writing alone. */
static inline int full_file(const char *name, long pages, char value)
{
	int fd = fixture_file(&fixture, name, O_WRONLY | O_CREAT, 0);

	for (long i = 0; i < pages; i++)
		write_all(fd, i * (off_t)PAGE_2M, PAGE_2M, value);
	return fd;
}

static inline void punch(int fd, off_t offset, off_t len)
{
	assert_int_equal(fallocate(fd, PUNCH, offset, len), 0);
}

static inline long kb_of(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return st.st_blocks / 2;
}

static inline void expect_bytes(const char *name, off_t offset, size_t len, char value)
{
	int fd = open(fixture_path(&fixture, name), O_RDONLY | O_CLOEXEC);
	char *bytes = malloc(len);

	assert_int_equal(pread(fd, bytes, len, offset), len);
	for (size_t i = 0; i < len; i++) {
		if (bytes[i] != value)
			fail_msg("%s: byte %zu is %d", name, (size_t)offset + i, bytes[i]);
	}
	free(bytes);
	close(fd);
}

static inline bool nothing_is_used(void *data)
{
	struct statvfs st;

	assert_int_equal(statvfs(fixture.dir, &st), 0);
	return st.f_blocks == st.f_bfree;
}

static inline void remove_and_umount(const char *name, int fd)
{
	close(fd);
	assert_int_equal(unlink(fixture_path(&fixture, name)), 0);
	assert_true(wait_until(nothing_is_used, NULL, 2000));
	fixture_umount(&fixture);
}
