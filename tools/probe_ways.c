/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What follows from a probe. */
#include "tools/probe_ways.h"

#include <stdio.h>

/* include/uapi/linux/userfaultfd.h, which is older here and there. */
#define UFFD_WP              (1 << 0)
#define UFFD_EVENTS          (1 << 2 | 1 << 3 | 1 << 6) /* remap, remove, unmap */
#define UFFD_HUGETLBFS       (1 << 4)
#define UFFD_SHMEM           (1 << 5)
#define UFFD_SIGBUS          (1 << 7)
#define UFFD_MINOR_HUGETLBFS (1 << 9)
#define UFFD_MINOR_SHMEM     (1 << 10)
#define UFFD_WP_SHARED       (1 << 12)
#define UFFD_NEEDED          (UFFD_EVENTS | UFFD_HUGETLBFS | UFFD_SIGBUS)

const struct uffd_feature uffd_features[] = {
	{"missing-hugetlbfs", UFFD_HUGETLBFS},
	{"missing-shmem", UFFD_SHMEM},
	{"minor-hugetlbfs", UFFD_MINOR_HUGETLBFS},
	{"minor-shmem", UFFD_MINOR_SHMEM},
	{"wp", UFFD_WP},
	{"wp-hugetlbfs-shmem", UFFD_WP_SHARED},
	{"events", UFFD_EVENTS},
	{"sigbus", UFFD_SIGBUS},
	{0},
};

const char *way_state_name(enum way_state state)
{
	static const char *const names[] = {"available", "limited", "unavailable", "unknown"};

	return names[state];
}

static void set(struct way *way, enum way_state state, const char *why)
{
	way->state = state;
	snprintf(way->why, sizeof(way->why), "%s", why);
}

static void judge_passthrough(const struct probe *probe, struct way *way)
{
	if (!probe->has_fuse)
		set(way, WAY_UNAVAILABLE, "there is no /dev/fuse");
	else if (probe->passthrough == PROBE_NO)
		set(way, WAY_UNAVAILABLE,
		    "this kernel does not offer it; it takes Linux 6.9 and "
		    "CONFIG_FUSE_PASSTHROUGH");
	else if (probe->passthrough == PROBE_UNKNOWN) {
		way->state = WAY_UNKNOWN;
		snprintf(way->why, sizeof(way->why), "could not ask the kernel: %s",
			 probe->fuse_why);
	} else if (probe->huge_tmpfs == PROBE_NO)
		set(way, WAY_LIMITED, "pages of 4 kB only: tmpfs has no huge pages here");
	else
		set(way, WAY_AVAILABLE,
		    "on backing=thp, to every process; the mount has to be root's");
}

static void judge_direct(const struct probe *probe, struct way *way)
{
	if (!probe->has_fuse)
		set(way, WAY_UNAVAILABLE, "there is no /dev/fuse");
	else if (probe->uffd == PROBE_UFFD_FULL &&
		 (probe->uffd_features & UFFD_NEEDED) == UFFD_NEEDED)
		set(way, WAY_AVAILABLE,
		    "by libhugefuse; the daemon answers this user's faults");
	else if (probe->uffd == PROBE_UFFD_FULL)
		set(way, WAY_LIMITED,
		    "by libhugefuse; userfaultfd lacks features, the kernel serves the faults");
	else
		set(way, WAY_LIMITED,
		    "by libhugefuse; the kernel serves the faults, as this user has no "
		    "userfaultfd for those of system calls");
}

static void judge_cached(const struct probe *probe, struct way *way)
{
	if (!probe->has_fuse)
		set(way, WAY_UNAVAILABLE, "there is no /dev/fuse");
	else
		set(way, WAY_AVAILABLE, "by mmap(2), as copies in pages of 4 kB");
}

void probe_ways(const struct probe *probe, struct way ret_ways[PROBE_NR_WAYS])
{
	ret_ways[0] = (struct way){.name = "passthrough"};
	ret_ways[1] = (struct way){.name = "direct"};
	ret_ways[2] = (struct way){.name = "cached"};
	judge_passthrough(probe, &ret_ways[0]);
	judge_direct(probe, &ret_ways[1]);
	judge_cached(probe, &ret_ways[2]);
}

static long nr_pages(const struct probe *probe)
{
	long nr = 0;
	int i;

	for (i = 0; i < probe->nr_sizes; i++)
		nr += probe->sizes[i].nr;
	return nr;
}

int probe_remedies(const struct probe *probe, struct remedy ret_remedies[PROBE_MAX_REMEDIES])
{
	const struct {
		bool missing;
		struct remedy remedy;
	} all[] = {
		{!probe->root,
		 {"root, for mounting and for asking all of this", "sudo hugefuse probe"}},
		{!probe->has_fuse, {"/dev/fuse", "modprobe fuse"}},
		{probe->passthrough == PROBE_NO,
		 {"FUSE passthrough",
		  "boot Linux 6.9 or newer with CONFIG_FUSE_PASSTHROUGH=y"}},
		{probe->uffd != PROBE_UFFD_FULL && probe->uffd_device_mode >= 0,
		 {"userfaultfd, for this user", "setfacl -m u:USER:rw /dev/userfaultfd"}},
		{probe->uffd != PROBE_UFFD_FULL,
		 {"userfaultfd, for all users", "sysctl vm.unprivileged_userfaultfd=1"}},
		{probe->nr_sizes == 0,
		 {"hugetlb pages", "boot a kernel with CONFIG_HUGETLBFS=y"}},
		{probe->nr_sizes > 0 && nr_pages(probe) == 0,
		 {"a pool of huge pages, which a mount makes by itself while memory is free",
		  "sysctl vm.nr_hugepages=512"}},
		{probe->huge_tmpfs == PROBE_NO,
		 {"huge pages in tmpfs", "boot a kernel with CONFIG_TRANSPARENT_HUGEPAGE=y"}},
		{probe->fuse_uring == PROBE_NO && probe->fuse_uring_parameter == 0,
		 {"FUSE over io_uring", "echo Y > /sys/module/fuse/parameters/enable_uring"}},
		{probe->nofile_hard < 65536,
		 {"open files, one for each mapped file", "ulimit -n 65536"}},
	};
	size_t i;
	int nr = 0;

	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (all[i].missing)
			ret_remedies[nr++] = all[i].remedy;
	}
	return nr;
}
