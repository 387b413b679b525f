/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Process maps: /proc, line by line. */
#include "fs/process_maps.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

int vma_list_add(struct vma_list *list, const struct vma *vma)
{
	struct vma *grown;

	/* A power of two means that it is full. */
	if ((list->nr & (list->nr - 1)) == 0) {
		grown = realloc(list->vma, (list->nr ? 2 * list->nr : 1) * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		list->vma = grown;
	}
	list->vma[list->nr++] = *vma;
	return 0;
}

/* "START-END PERMS OFFSET MAJOR:MINOR INODE PATH", see proc(5). */
static bool parse_line(const char *line, dev_t device, struct vma *ret_vma)
{
	unsigned int dev_major, dev_minor;
	char perms[5];
	struct vma vma = {0};

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64, &vma.start,
		   &vma.end, perms, &vma.offset, &dev_major, &dev_minor, &vma.ino) != 7)
		return false;
	if (makedev(dev_major, dev_minor) != device)
		return false;
	vma.shared = perms[3] == 's';
	*ret_vma = vma;
	return true;
}

/* What of /proc/PID cannot be read for that, and not for want of something. */
static bool has_exited(int error)
{
	return error == ENOENT || error == ESRCH || error == EACCES || error == EPERM;
}

static int read_process(pid_t pid, dev_t device, struct vma_list *list)
{
	char path[40], *line = NULL;
	size_t size = 0;
	struct vma vma;
	FILE *file;
	int r = 0;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	file = fopen(path, "re");
	if (!file)
		return has_exited(errno) ? 0 : -errno;
	while (r == 0 && getline(&line, &size, file) > 0) {
		if (!parse_line(line, device, &vma))
			continue;
		vma.pid = pid;
		r = vma_list_add(list, &vma);
	}
	if (r == 0 && !feof(file) && !has_exited(errno))
		r = -errno;
	free(line);
	fclose(file);
	return r;
}

int vma_list_read_process(pid_t pid, dev_t device, struct vma_list *ret_list)
{
	int r;

	*ret_list = (struct vma_list){0};
	r = read_process(pid, device, ret_list);
	if (r < 0)
		vma_list_free(ret_list);
	return r;
}

int vma_list_read(dev_t device, struct vma_list *ret_list)
{
	const struct dirent *entry;
	DIR *dir = opendir("/proc");
	int r = 0;

	*ret_list = (struct vma_list){0};
	if (!dir)
		return -errno;
	while (r == 0 && (entry = readdir(dir))) {
		if (isdigit((unsigned char)entry->d_name[0]))
			r = read_process((pid_t)strtol(entry->d_name, NULL, 10), device,
					 ret_list);
	}
	closedir(dir);
	if (r < 0)
		vma_list_free(ret_list);
	return r;
}

void vma_list_free(struct vma_list *list)
{
	free(list->vma);
	*list = (struct vma_list){0};
}

int process_read_start_time(pid_t pid, uint64_t *ret_start)
{
	char path[40], text[1024] = "";
	uint64_t start = 0;
	const char *rest;
	FILE *file;
	int r;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "re");
	if (!file)
		return has_exited(errno) ? -ESRCH : -errno;
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	r = ferror(file) && !has_exited(errno) ? -errno : -ESRCH;
	fclose(file);
	/* The name may have anything in it, also a ')'. */
	rest = strrchr(text, ')');
	if (!rest || sscanf(rest + 1,
			    " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d "
			    "%*d %*d %*d %" SCNu64,
			    &start) != 1)
		return r;
	*ret_start = start;
	return 0;
}

uint64_t process_start_time(pid_t pid)
{
	uint64_t start = 0;

	process_read_start_time(pid, &start);
	return start;
}
