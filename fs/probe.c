/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Probe: files of the kernel, and a mount's line of itself. */
#include "fs/probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "fs/fuse_ops.h"
#include "fs/fusermount.h"
#include "fs/probe_kernel.h"

#define THP_DIR   "/sys/kernel/mm/transparent_hugepage"
#define PAGES_DIR "/sys/kernel/mm/hugepages"
#define NODES_DIR "/sys/devices/system/node"

static bool read_text(const char *path, char *ret_text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len = -1;

	if (fd >= 0) {
		len = read(fd, ret_text, size - 1);
		close(fd);
	}
	ret_text[len > 0 ? len : 0] = '\0';
	return len > 0;
}

long probe_read_number(const char *path)
{
	char text[64], *end;
	long value;

	if (!read_text(path, text, sizeof(text)))
		return -1;
	if (text[0] == 'Y' || text[0] == 'N')
		return text[0] == 'Y';
	value = strtol(text, &end, 10);
	return end != text ? value : -1;
}

void probe_parse_choice(const char *text, char *ret_word, size_t size)
{
	const char *start = strchr(text, '[');
	size_t len = start ? strcspn(start + 1, "]") : 0;

	if (!start || start[1 + len] != ']' || len >= size)
		len = 0;
	if (len)
		memcpy(ret_word, start + 1, len);
	ret_word[len] = '\0';
}

static void read_choice(const char *path, char *ret_word, size_t size)
{
	char text[128];

	read_text(path, text, sizeof(text));
	probe_parse_choice(text, ret_word, size);
}

static long read_counter(const char *dir, const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return probe_read_number(path);
}

static void read_nodes(struct probe_pages *pages)
{
	struct probe_node *node;
	char dir[128];
	int i;

	for (i = 0; i < 1024 && pages->nr_nodes < PROBE_MAX_NODES; i++) {
		snprintf(dir, sizeof(dir), NODES_DIR "/node%d/hugepages/hugepages-%lukB", i,
			 pages->kb);
		if (access(dir, F_OK) < 0)
			continue;
		node = &pages->nodes[pages->nr_nodes++];
		node->node = i;
		node->nr = read_counter(dir, "nr_hugepages");
		node->free = read_counter(dir, "free_hugepages");
		node->surplus = read_counter(dir, "surplus_hugepages");
	}
}

static void read_size(struct probe_pages *pages, const char *name)
{
	char dir[sizeof(PAGES_DIR) + 1 + NAME_MAX];

	snprintf(dir, sizeof(dir), PAGES_DIR "/%s", name);
	pages->nr = read_counter(dir, "nr_hugepages");
	pages->free = read_counter(dir, "free_hugepages");
	pages->resv = read_counter(dir, "resv_hugepages");
	pages->surplus = read_counter(dir, "surplus_hugepages");
	pages->overcommit = read_counter(dir, "nr_overcommit_hugepages");
	read_nodes(pages);
}

static int compare_sizes(const void *a, const void *b)
{
	const struct probe_pages *left = a, *right = b;

	return left->kb < right->kb ? -1 : left->kb > right->kb;
}

static void read_sizes(struct probe *probe)
{
	DIR *dir = opendir(PAGES_DIR);
	struct dirent *entry;
	unsigned long kb;

	while (dir && probe->nr_sizes < PROBE_MAX_SIZES && (entry = readdir(dir))) {
		if (sscanf(entry->d_name, "hugepages-%lukB", &kb) != 1)
			continue;
		probe->sizes[probe->nr_sizes].kb = kb;
		read_size(&probe->sizes[probe->nr_sizes++], entry->d_name);
	}
	if (dir)
		closedir(dir);
	qsort(probe->sizes, (size_t)probe->nr_sizes, sizeof(probe->sizes[0]), compare_sizes);
}

static void read_limits(struct probe *probe)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		probe->nofile_soft = limit.rlim_cur;
		probe->nofile_hard = limit.rlim_max;
	}
	if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0) {
		probe->memlock_soft = limit.rlim_cur;
		probe->memlock_hard = limit.rlim_max;
	}
	probe->max_map_count = probe_read_number("/proc/sys/vm/max_map_count");
}

static void read_memory(struct probe *probe)
{
	FILE *file = fopen("/proc/meminfo", "re");
	char line[128];

	probe->memory_kb = probe->available_kb = -1;
	while (file && fgets(line, sizeof(line), file)) {
		sscanf(line, "MemTotal: %ld", &probe->memory_kb);
		sscanf(line, "MemAvailable: %ld", &probe->available_kb);
	}
	if (file)
		fclose(file);
}

/* As hugefuse mount does; what a user needs besides. */
static void read_mounting(struct probe *probe)
{
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	struct mntent *entry;
	FILE *mounts;

	probe->has_fuse = fd >= 0;
	if (fd >= 0)
		close(fd);
	else if (errno != ENOENT)
		probe->fuse_error = errno;
	if (!probe->root)
		fusermount_check(false, probe->mount_why, sizeof(probe->mount_why));
	mounts = setmntent("/proc/self/mounts", "re");
	while (mounts && (entry = getmntent(mounts)))
		probe->has_hugetlbfs |= strcmp(entry->mnt_type, "hugetlbfs") == 0 &&
					access(entry->mnt_dir, W_OK | X_OK) == 0;
	if (mounts)
		endmntent(mounts);
}

void probe_machine(struct probe *ret_probe)
{
	struct utsname name;
	struct stat st;

	memset(ret_probe, 0, sizeof(*ret_probe));
	if (uname(&name) == 0)
		snprintf(ret_probe->kernel, sizeof(ret_probe->kernel), "%s", name.release);
	snprintf(ret_probe->libfuse, sizeof(ret_probe->libfuse), "%s", fuse_pkgversion());
	ret_probe->root = geteuid() == 0;
	read_memory(ret_probe);
	read_mounting(ret_probe);
	ret_probe->fuse_uring_parameter =
		probe_read_number("/sys/module/fuse/parameters/enable_uring");
	read_choice(THP_DIR "/enabled", ret_probe->thp_enabled, sizeof(ret_probe->thp_enabled));
	read_choice(THP_DIR "/shmem_enabled", ret_probe->thp_shmem_enabled,
		    sizeof(ret_probe->thp_shmem_enabled));
	ret_probe->uffd_device_mode =
		stat("/dev/userfaultfd", &st) == 0 ? (long)(st.st_mode & 07777) : -1;
	ret_probe->uffd_unprivileged =
		probe_read_number("/proc/sys/vm/unprivileged_userfaultfd");
	read_limits(ret_probe);
	read_sizes(ret_probe);
	probe_userfaultfd(ret_probe);
	probe_mounts(ret_probe);
}

static void format_bytes(uint64_t bytes, char *ret_text, size_t size)
{
	const uint64_t mib = UINT64_C(1024) * 1024;

	if (bytes >= 1024 * mib && bytes % (1024 * mib) == 0)
		snprintf(ret_text, size, "%" PRIu64 " GiB", bytes / (1024 * mib));
	else if (bytes >= mib && bytes % mib == 0)
		snprintf(ret_text, size, "%" PRIu64 " MiB", bytes / mib);
	else
		snprintf(ret_text, size, "%" PRIu64 " kB", bytes / 1024);
}

void probe_format_summary(const struct probe_summary *summary, char *ret_line, size_t size)
{
	char bytes[32], ways[96] = "", reason[128] = "";

	format_bytes(summary->set_aside_bytes, bytes, sizeof(bytes));
	if (summary->passthrough)
		strcat(ways, ", passthrough");
	if (summary->direct)
		strcat(ways, summary->by_kernel ? ", direct (faults by the kernel)"
						: ", direct (userfaultfd)");
	if (summary->cached)
		strcat(ways, ", cached");
	if (summary->reason)
		snprintf(reason, sizeof(reason), " (%s)", summary->reason);
	snprintf(ret_line, size, "%lu kB pages, %s%s, %s%s%s; mapping: %s", summary->page_kb,
		 summary->backing, reason, summary->at_most ? "at most " : "", bytes,
		 summary->at_most ? "" : " set aside", ways[0] ? ways + 2 : "none");
}
