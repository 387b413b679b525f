/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Walking /proc. Processes may end at any time, so what cannot be read is passed over.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "tools/proc_use.h"

struct walk {
	dev_t dev;
	uint64_t inode; /* 0: any */
	struct proc_use process;
	struct proc_uses uses;
};

bool proc_use_parse_maps_line(const char *line, dev_t dev, uint64_t *ret_inode,
			      uint64_t *ret_length, bool *ret_shared)
{
	uint64_t start, end, inode;
	unsigned int device_major, device_minor;
	char rights[8];

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %*x %x:%x %" SCNu64, &start, &end, rights,
		   &device_major, &device_minor, &inode) != 6 ||
	    strlen(rights) != 4 || end < start)
		return false;
	if (makedev(device_major, device_minor) != dev || inode == 0)
		return false;
	*ret_inode = inode;
	*ret_length = end - start;
	*ret_shared = rights[3] == 's';
	return true;
}

/* The entry of the current process for @inode. */
static struct proc_use *find_use(struct walk *walk, uint64_t inode)
{
	struct proc_uses *uses = &walk->uses;
	struct proc_use *bigger;
	size_t i;

	for (i = uses->count; i > 0 && uses->list[i - 1].pid == walk->process.pid; i--) {
		if (uses->list[i - 1].inode == inode)
			return &uses->list[i - 1];
	}
	bigger = reallocarray(uses->list, uses->count + 1, sizeof(*bigger));
	if (!bigger)
		return NULL;
	uses->list = bigger;
	bigger[uses->count] = walk->process;
	bigger[uses->count].inode = inode;
	return &bigger[uses->count++];
}

static int read_maps(int process_fd, struct walk *walk)
{
	int fd = openat(process_fd, "maps", O_RDONLY | O_CLOEXEC), r = 0;
	FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
	uint64_t inode, length;
	char *line = NULL;
	size_t size = 0;
	bool shared;

	if (!file)
		return 0;
	while (r == 0 && getline(&line, &size, file) >= 0) {
		struct proc_use *use;

		if (!proc_use_parse_maps_line(line, walk->dev, &inode, &length, &shared) ||
		    (walk->inode != 0 && inode != walk->inode))
			continue;
		use = find_use(walk, inode);
		if (!use)
			r = -ENOMEM;
		else if (shared)
			use->shared += length;
		else
			use->private += length;
	}
	free(line);
	fclose(file);
	return r;
}

static int read_descriptors(int process_fd, struct walk *walk)
{
	int fd = openat(process_fd, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *entry;

	if (!dir)
		return 0;
	while (r == 0 && (entry = readdir(dir)) != NULL) {
		struct proc_use *use;
		struct statx stx;

		if (entry->d_name[0] == '.' ||
		    statx(fd, entry->d_name, AT_STATX_DONT_SYNC, STATX_INO | STATX_TYPE, &stx) <
			    0 ||
		    !S_ISREG(stx.stx_mode) ||
		    makedev(stx.stx_dev_major, stx.stx_dev_minor) != walk->dev ||
		    (walk->inode != 0 && stx.stx_ino != walk->inode))
			continue;
		use = find_use(walk, stx.stx_ino);
		if (!use)
			r = -ENOMEM;
		else
			use->open = true;
	}
	closedir(dir);
	return r;
}

static void read_comm(int process_fd, char *comm, size_t size)
{
	int fd = openat(process_fd, "comm", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, comm, size - 1) : 0;

	if (fd >= 0)
		close(fd);
	comm[n > 0 ? n : 0] = '\0';
	comm[strcspn(comm, "\n")] = '\0';
}

static int visit_process(int proc_fd, const char *name, struct walk *walk)
{
	int fd = openat(proc_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;
	struct stat st;

	if (fd < 0)
		return 0;
	walk->process = (struct proc_use){.pid = (pid_t)strtol(name, NULL, 10)};
	if (fstat(fd, &st) == 0)
		walk->process.uid = st.st_uid;
	read_comm(fd, walk->process.comm, sizeof(walk->process.comm));
	r = read_maps(fd, walk);
	if (r == 0)
		r = read_descriptors(fd, walk);
	close(fd);
	return r;
}

int proc_uses_find(const char *proc, dev_t dev, uint64_t inode, pid_t pid,
		   struct proc_uses *ret_uses)
{
	struct walk walk = {.dev = dev, .inode = inode};
	const struct dirent *entry;
	DIR *dir = opendir(proc);
	int r = 0;

	if (!dir)
		return -errno;
	while (r == 0 && (entry = readdir(dir)) != NULL) {
		if (entry->d_name[strspn(entry->d_name, "0123456789")] != '\0' ||
		    (pid != 0 && strtol(entry->d_name, NULL, 10) != pid))
			continue;
		r = visit_process(dirfd(dir), entry->d_name, &walk);
	}
	closedir(dir);
	if (r < 0) {
		proc_uses_free(&walk.uses);
		return r;
	}
	*ret_uses = walk.uses;
	return 0;
}

void proc_uses_free(struct proc_uses *uses)
{
	if (!uses)
		return;
	free(uses->list);
	*uses = (struct proc_uses){0};
}
