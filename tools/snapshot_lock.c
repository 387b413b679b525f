/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reading lock_stat, in the format of the kernel's /proc/lock_stat, version 0.4
 * (Documentation/locking/lockstat.rst). A row is what ends in a colon and twelve numbers;
 * rules, headings, contention points and notes are passed over, as in the kernel's own file.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/snapshot.h"

#define LOCK_STAT_VERSION "lock_stat version 0.4"
#define NR_NUMBERS        12

/* Read the twelve numbers of a row. Returns 0, or -EBADMSG where there are none. */
static int read_numbers(const char *text, double numbers[NR_NUMBERS])
{
	char *end;
	int i;

	for (i = 0; i < NR_NUMBERS; i++) {
		numbers[i] = strtod(text, &end);
		if (end == text || (*end != ' ' && *end != '\t' && *end != '\0'))
			return -EBADMSG;
		/* counts and times; this refuses nan as well */
		if (!(numbers[i] >= 0 && numbers[i] <= 1.8e19))
			return -EBADMSG;
		text = end;
	}
	return text[strspn(text, " \t")] == '\0' ? 0 : -EBADMSG;
}

static int parse_row(char *line, struct snapshot_lock *ret_lock)
{
	char *colon = strrchr(line, ':'), *name = line + strspn(line, " \t");
	double n[NR_NUMBERS];
	size_t length;
	char mode = 0;

	if (!colon || colon <= name || read_numbers(colon + 1, n) < 0)
		return -EBADMSG;
	*colon = '\0';
	length = (size_t)(colon - name);
	if (length > 2 && (strcmp(colon - 2, "-W") == 0 || strcmp(colon - 2, "-R") == 0)) {
		mode = colon[-1];
		colon[-2] = '\0';
	}
	*ret_lock = (struct snapshot_lock){
		.name = name,
		.mode = mode,
		.con_bounces = (uint64_t)n[0],
		.contentions = (uint64_t)n[1],
		.wait_min = n[2],
		.wait_max = n[3],
		.wait_total = n[4],
		.wait_avg = n[5],
		.acq_bounces = (uint64_t)n[6],
		.acquisitions = (uint64_t)n[7],
		.hold_min = n[8],
		.hold_max = n[9],
		.hold_total = n[10],
		.hold_avg = n[11],
	};
	return 0;
}

int snapshot_parse_locks(char *text, struct snapshot_locks *ret_locks,
			 struct snapshot_error *error)
{
	struct snapshot_locks locks = {.text = text};
	char *save = NULL, *line;
	size_t size = 0;

	if (strncmp(text, LOCK_STAT_VERSION "\n", strlen(LOCK_STAT_VERSION) + 1) != 0)
		return snapshot_fail(error, -EBADMSG,
				     ".hugefuse/lock_stat: line 1 is not '" LOCK_STAT_VERSION
				     "'; are the daemon and this program of one version?");
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		struct snapshot_lock lock, *bigger;

		if (parse_row(line, &lock) < 0)
			continue;
		if (locks.count == size) {
			size = size ? 2 * size : 64;
			bigger = reallocarray(locks.locks, size, sizeof(lock));
			if (!bigger) {
				free(locks.locks);
				return snapshot_fail(error, -ENOMEM, "out of memory");
			}
			locks.locks = bigger;
		}
		locks.locks[locks.count++] = lock;
	}
	*ret_locks = locks;
	return 0;
}

int snapshot_read_locks(int dir_fd, struct snapshot_locks *ret_locks,
			struct snapshot_error *error)
{
	char *text;
	long length;
	int r;

	length = snapshot_read_text(dir_fd, "lock_stat", &text, error);
	if (length < 0)
		return (int)length;
	r = snapshot_parse_locks(text, ret_locks, error);
	if (r < 0)
		free(text);
	return r;
}

int snapshot_reset_locks(int dir_fd, struct snapshot_error *error)
{
	int fd = openat(dir_fd, "lock_stat", O_WRONLY | O_CLOEXEC), r = 0;

	if (fd < 0 || write(fd, "0", 1) != 1)
		r = snapshot_fail(error, -errno, ".hugefuse/lock_stat: cannot be written: %s%s",
				  strerror(errno),
				  errno == EACCES || errno == EPERM ? "; try it as root" : "");
	if (fd >= 0)
		close(fd);
	return r;
}

void snapshot_locks_free(struct snapshot_locks *locks)
{
	if (!locks)
		return;
	free(locks->locks);
	free(locks->text);
	*locks = (struct snapshot_locks){0};
}

int snapshot_compare_locks(const void *a, const void *b)
{
	const struct snapshot_lock *left = a, *right = b;

	if (left->wait_total != right->wait_total)
		return left->wait_total > right->wait_total ? -1 : 1;
	if (left->acquisitions != right->acquisitions)
		return left->acquisitions > right->acquisitions ? -1 : 1;
	if (strcmp(left->name, right->name) != 0)
		return strcmp(left->name, right->name);
	return left->mode < right->mode ? 1 : -1;
}

const char *snapshot_lock_mode(const struct snapshot_lock *lock)
{
	return lock->mode == 'W' ? "write" : (lock->mode == 'R' ? "read" : "exclusive");
}
