/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Looking for plain mappings in /proc. No lock is held; processes come and go. */
#include "fs/stats_plain.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "fs/cached.h"

#define LOOK_NS     50000000ULL
#define CHECK_LINES 512 /* between looks at the clock */

struct look {
	struct mount *mount;
	dev_t devices[2]; /* of the mount and of names/ */
	uint64_t until;
	int (*visit)(const struct plain_mapping *plain, void *data);
	void *data;
};

/* The next field of a line of mountinfo, with its octal escapes undone, in place. */
static char *next_field(char **cursor)
{
	char *field = strsep(cursor, " "), *to = field;

	for (const char *from = field; from && *from; to++) {
		unsigned int code;

		if (*from == '\\' && sscanf(from, "\\%3o", &code) == 1) {
			*to = (char)code;
			from += 4;
		} else {
			*to = *from++;
		}
	}
	if (to)
		*to = '\0';
	return field;
}

/* The device of the mount, without asking ourselves. 0 where it is not to be found. */
static dev_t mount_device(const struct mount *mount)
{
	FILE *file = fopen("/proc/self/mountinfo", "re");
	unsigned int major, minor;
	char *line = NULL, *cursor, *device, *point;
	size_t size = 0;
	dev_t found = 0;

	if (!file)
		return 0;
	/* id, parent, device, root, mount point; the last one is on top */
	while (getline(&line, &size, file) > 0) {
		cursor = line;
		next_field(&cursor);
		next_field(&cursor);
		device = next_field(&cursor);
		next_field(&cursor);
		point = next_field(&cursor);
		if (point && strcmp(point, mount->mountpoint) == 0 &&
		    sscanf(device, "%u:%u", &major, &minor) == 2)
			found = makedev(major, minor);
	}
	free(line);
	fclose(file);
	return found;
}

/* "start-end perms offset major:minor inode path"; false where it is no file of ours. */
static bool parse_line(const struct look *look, char *line, struct plain_mapping *plain)
{
	unsigned long major, minor;
	char *end;
	dev_t device;

	plain->start = strtoul(line, &end, 16);
	plain->end = strtoul(end + (*end == '-'), &end, 16);
	if (strlen(end) < 6)
		return false;
	plain->is_private = end[4] == 'p';
	plain->offset = strtoul(end + 6, &end, 16);
	major = strtoul(end, &end, 16);
	minor = strtoul(end + (*end == ':'), &end, 16);
	device = makedev((unsigned int)major, (unsigned int)minor);
	if (device == 0 || (device != look->devices[0] && device != look->devices[1]))
		return false;
	plain->ino = strtoul(end, &end, 10);
	return plain->ino != 0;
}

/* Processor time of this thread: others that want the processor take none of it away. */
static uint64_t used_ns(void)
{
	struct timespec used;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	return (uint64_t)used.tv_sec * 1000000000 + (uint64_t)used.tv_nsec;
}

static bool is_over(const struct look *look)
{
	return used_ns() > look->until;
}

static int visit_process(const struct look *look, pid_t pid)
{
	struct plain_mapping plain = {.pid = pid};
	char path[40], *line = NULL;
	unsigned int nr_lines = 0;
	size_t size = 0;
	FILE *file;
	int r = 0;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	while (r == 0 && getline(&line, &size, file) > 0) {
		if (parse_line(look, line, &plain))
			r = look->visit(&plain, look->data);
		if (++nr_lines % CHECK_LINES == 0 && is_over(look))
			break;
	}
	free(line);
	fclose(file);
	return r;
}

/* All processes but this one, malloc()ed; their number or -errno. */
static long list_processes(pid_t **ret_pids)
{
	DIR *dir = opendir("/proc");
	pid_t *pids = NULL, pid;
	size_t nr = 0, size = 0;
	struct dirent *entry;

	if (!dir)
		return -errno;
	while ((entry = readdir(dir))) {
		pid = (pid_t)atoi(entry->d_name);
		if (!isdigit((unsigned char)entry->d_name[0]) || pid == getpid())
			continue;
		if (nr == size) {
			void *bigger;

			size = size ? 2 * size : 256;
			bigger = realloc(pids, size * sizeof(*pids));
			if (!bigger)
				break; /* as many as there is room for */
			pids = bigger;
		}
		pids[nr++] = pid;
	}
	closedir(dir);
	*ret_pids = pids;
	return (long)nr;
}

int plain_for_each(struct mount *mount,
		   int (*visit)(const struct plain_mapping *plain, void *data), void *data)
{
	static _Atomic pid_t next_pid;
	struct look look = {.mount = mount, .visit = visit, .data = data};
	long nr, first = 0, i;
	struct stat st;
	pid_t *pids = NULL;
	int r = 0;

	if (!mount->has_passthrough && !cached_is_used(mount))
		return 0;
	look.devices[0] = mount_device(mount);
	look.devices[1] = fstat(mount->names_fd, &st) == 0 ? st.st_dev : 0;
	look.until = used_ns() + LOOK_NS;
	nr = list_processes(&pids);
	if (nr < 0)
		return (int)nr;
	while (pids && first < nr && pids[first] < next_pid)
		first++;
	next_pid = 0;
	for (i = 0; pids && i < nr && r == 0 && !is_over(&look); i++)
		r = visit_process(&look, pids[(first + i) % nr]);
	if (pids && r == 0 && i < nr)
		next_pid = pids[(first + i) % nr];
	free(pids);
	return r;
}
