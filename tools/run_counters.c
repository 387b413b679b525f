/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel's files about huge pages are covered by those of .hugefuse/kernel, one by one,
 * with bind mounts that only this process and its children see. What the kernel has of other
 * page sizes stays.
 */
#include "tools/run_counters.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/pool.h"
#include "fs/run_dir.h"
#include "hugefuse_protocol.h"

struct cover {
	const char *target; /* after a slash at the end comes hugepages-NkB, in both */
	const char *source; /* in .hugefuse */
	bool optional;      /* not there in every kernel */
};

static const struct cover covers[] = {
	{"/proc/meminfo", "kernel/meminfo", false},
	{"/proc/sys/vm/nr_hugepages", "kernel/nr_hugepages", false},
	{"/proc/sys/vm/nr_hugepages_mempolicy", "kernel/nr_hugepages_mempolicy", true},
	{"/proc/sys/vm/nr_overcommit_hugepages", "kernel/nr_overcommit_hugepages", false},
	{"/sys/kernel/mm/hugepages/", "kernel/", false},
};

static int enter_namespace(const struct verb *verb)
{
	if (unshare(CLONE_NEWNS) < 0)
		return cmd_fail(verb, EXIT_FAILED,
				"--counters needs a mount namespace of its own: %s%s",
				strerror(errno), errno == EPERM ? "; run it as root" : "");
	/* What is mounted outside is seen inside, not the other way round. */
	if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
		return cmd_fail(verb, EXIT_FAILED, "cannot make the mounts private: %s",
				strerror(errno));
	return EXIT_OK;
}

static int bind_over(const struct verb *verb, const char *source, const char *target)
{
	if (mount(source, target, NULL, MS_BIND, NULL) < 0)
		return cmd_fail(verb, EXIT_FAILED, "cannot cover %s with %s: %s", target,
				source, strerror(errno));
	return EXIT_OK;
}

/* Each memory node has files of its own. */
static int cover_nodes(const struct verb *verb, const char *mountpoint, uint64_t page_kb)
{
	char source[PATH_MAX], target[128];
	struct stat st;
	int r = EXIT_OK;

	for (int node = 0; r == EXIT_OK && node < POOL_MAX_NODES; node++) {
		snprintf(target, sizeof(target),
			 "/sys/devices/system/node/node%d/hugepages/hugepages-%lukB", node,
			 (unsigned long)page_kb);
		if (stat(target, &st) < 0)
			continue;
		if (snprintf(source, sizeof(source), "%s/.hugefuse/node/node%d/hugepages-%lukB",
			     mountpoint, node, (unsigned long)page_kb) >= (int)sizeof(source))
			return cmd_fail(verb, EXIT_FAILED, "%s: the path is too long",
					mountpoint);
		if (stat(source, &st) == 0)
			r = bind_over(verb, source, target);
	}
	return r;
}

/*
 * Programs that look for hugetlbfs in /proc/mounts are to find the mount: its own private
 * hugetlbfs is mounted below it. They must not find that one where it really is, whose files
 * the daemon would know nothing of: the mount goes on top of it there.
 */
static int show_hugetlbfs(const struct verb *verb, const char *mountpoint)
{
	char run_dir[PATH_MAX], data[PATH_MAX + 8], root[64];
	int fd, r = EXIT_OK;

	if (run_dir_path(RUN_DIR, mountpoint, run_dir) < 0)
		return EXIT_OK;
	snprintf(data, sizeof(data), "%s/data", run_dir);
	if (access(data, F_OK) < 0)
		return EXIT_OK;
	fd = open(mountpoint, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return cmd_fail(verb, EXIT_FAILED, "%s: %s", mountpoint, strerror(errno));
	snprintf(root, sizeof(root), "/proc/self/fd/%d", fd);
	r = bind_over(verb, data, mountpoint);
	if (r == EXIT_OK)
		r = bind_over(verb, root, mountpoint);
	if (r == EXIT_OK)
		r = bind_over(verb, root, data);
	close(fd);
	return r;
}

/* The kernel's counters are those of hugetlb pages; other mounts have nothing to say there. */
static int read_page_size(const struct verb *verb, const char *mountpoint,
			  uint64_t *ret_page_kb)
{
	struct hugefuse_ioc_mount about = {0};
	int fd = open(mountpoint, O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;

	r = fd < 0 ? -errno : (ioctl(fd, HUGEFUSE_IOC_MOUNT, &about) < 0 ? -errno : 0);
	if (fd >= 0)
		close(fd);
	if (r < 0)
		return cmd_fail(verb, EXIT_FAILED, "%s: %s", mountpoint, strerror(-r));
	if (about.backing != HUGEFUSE_BACKING_HUGETLB)
		return cmd_fail(
			verb, EXIT_FAILED,
			"%s: --counters needs a mount with hugetlb pages; mount it with "
			"-o backing=hugetlb",
			mountpoint);
	*ret_page_kb = about.page_size >> 10;
	return EXIT_OK;
}

int run_counters(const struct verb *verb, const char *mountpoint)
{
	char source[PATH_MAX], target[128], pool[64] = "";
	uint64_t page_kb = 0;
	int r;

	r = read_page_size(verb, mountpoint, &page_kb);
	if (r == EXIT_OK)
		r = enter_namespace(verb);
	for (size_t i = 0; r == EXIT_OK && i < sizeof(covers) / sizeof(covers[0]); i++) {
		const struct cover *cover = &covers[i];

		if (cover->target[strlen(cover->target) - 1] == '/')
			snprintf(pool, sizeof(pool), "hugepages-%lukB", (unsigned long)page_kb);
		snprintf(target, sizeof(target), "%s%s", cover->target, pool);
		if (snprintf(source, sizeof(source), "%s/.hugefuse/%s%s", mountpoint,
			     cover->source, pool) >= (int)sizeof(source))
			return cmd_fail(verb, EXIT_FAILED, "%s: the path is too long",
					mountpoint);
		if (cover->optional && access(target, F_OK) < 0)
			continue;
		r = bind_over(verb, source, target);
	}
	if (r == EXIT_OK)
		r = cover_nodes(verb, mountpoint, page_kb);
	return r == EXIT_OK ? show_hugetlbfs(verb, mountpoint) : r;
}
