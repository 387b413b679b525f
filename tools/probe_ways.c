/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What follows from a probe. */
#include "tools/probe_ways.h"

#include <stdio.h>
#include <sys/resource.h>

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

#define NOFILE_FEW    65536
#define MEMLOCK_FEW   (64UL << 20)
#define MAP_COUNT_FEW 65530 /* the kernel's own */

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

/* Without /dev/fuse there is nothing else to say. */
static bool lacks_fuse(const struct probe *probe, struct way *way)
{
	if (!probe->has_fuse)
		set(way, WAY_UNAVAILABLE,
		    probe->fuse_error ? "/dev/fuse cannot be opened" : "there is no /dev/fuse");
	return !probe->has_fuse;
}

static void judge_passthrough(const struct probe *probe, struct way *way)
{
	if (lacks_fuse(probe, way))
		return;
	if (probe->passthrough == PROBE_NO)
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
	if (lacks_fuse(probe, way))
		return;
	if (probe->uffd == PROBE_UFFD_FULL &&
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
	if (!lacks_fuse(probe, way))
		set(way, WAY_AVAILABLE, "by mmap(2), as copies in pages of 4 kB");
}

/* What it preloads maps directly, and needs a program that lets it. */
static void judge_run(const struct probe *probe, const struct way *direct, struct way *way)
{
	if (lacks_fuse(probe, way))
		return;
	set(way, direct->state,
	    probe->root
		    ? "hugefuse run maps directly, with hugetlb pages, for programs that are "
		      "dynamically linked and not set-user-id; --counters for all"
		    : "hugefuse run maps directly, with hugetlb pages, for programs that are "
		      "dynamically linked and not set-user-id; --counters needs root");
}

void probe_ways(const struct probe *probe, struct way ret_ways[PROBE_NR_WAYS])
{
	ret_ways[0] = (struct way){.name = "passthrough"};
	ret_ways[1] = (struct way){.name = "direct"};
	ret_ways[2] = (struct way){.name = "cached"};
	ret_ways[3] = (struct way){.name = "run"};
	judge_passthrough(probe, &ret_ways[0]);
	judge_direct(probe, &ret_ways[1]);
	judge_cached(probe, &ret_ways[2]);
	judge_run(probe, &ret_ways[1], &ret_ways[3]);
}

static long nr_pages(const struct probe *probe)
{
	long nr = 0;
	int i;

	for (i = 0; i < probe->nr_sizes; i++)
		nr += probe->sizes[i].nr;
	return nr;
}

/* Of the machine, which root changes. */
static int machine_remedies(const struct probe *probe, struct remedy *ret_remedies)
{
	const struct {
		bool missing;
		struct remedy remedy;
	} all[] = {
		{!probe->has_fuse && !probe->fuse_error, {"/dev/fuse", "modprobe fuse"}},
		{!probe->has_fuse && probe->fuse_error,
		 {"/dev/fuse, for this user", "chmod 0666 /dev/fuse"}},
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
		 {"a pool of huge pages (root's mounts make one while memory is free)",
		  "sysctl vm.nr_hugepages=512"}},
		{probe->huge_tmpfs == PROBE_NO,
		 {"huge pages in tmpfs", "boot a kernel with CONFIG_TRANSPARENT_HUGEPAGE=y"}},
		{probe->fuse_uring == PROBE_NO && probe->fuse_uring_parameter == 0,
		 {"FUSE over io_uring", "echo Y > /sys/module/fuse/parameters/enable_uring"}},
		{probe->max_map_count > 0 && probe->max_map_count < MAP_COUNT_FEW,
		 {"mappings of a process, one for each file that is in use",
		  "sysctl vm.max_map_count=262144"}},
	};
	int nr = 0;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (all[i].missing)
			ret_remedies[nr++] = all[i].remedy;
	}
	return nr;
}

/* What root has anyway. The daemon itself raises soft limits as far as the hard ones go. */
static int user_remedies(const struct probe *probe, struct remedy *ret_remedies)
{
	const struct {
		bool missing;
		struct remedy remedy;
	} all[] = {
		{true,
		 {"root, for mounts with pages of the kernel's pool, and for asking all of this",
		  "sudo hugefuse probe"}},
		{probe->nr_sizes > 0 && !probe->has_hugetlbfs,
		 {"a directory on hugetlbfs for this user's mounts (source=)",
		  "mount -t hugetlbfs -o uid=USER,mode=0700 none DIR"}},
		{probe->nofile_hard < NOFILE_FEW,
		 {"open files, one for each file that is in use",
		  "echo 'USER - nofile 65536' >> /etc/security/limits.conf"}},
		{probe->memlock_soft < MEMLOCK_FEW && probe->memlock_hard == RLIM_INFINITY,
		 {"locked memory, for programs that lock what they map",
		  "ulimit -l unlimited"}},
		{probe->memlock_soft < MEMLOCK_FEW && probe->memlock_hard != RLIM_INFINITY,
		 {"locked memory, for programs that lock what they map",
		  "echo 'USER - memlock unlimited' >> /etc/security/limits.conf"}},
	};
	int nr = 0;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (all[i].missing)
			ret_remedies[nr++] = all[i].remedy;
	}
	return nr;
}

int probe_remedies(const struct probe *probe, struct remedy ret_remedies[PROBE_MAX_REMEDIES])
{
	int nr = probe->root ? 0 : user_remedies(probe, ret_remedies);

	return nr + machine_remedies(probe, ret_remedies + nr);
}
