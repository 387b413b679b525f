/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Checking the journal of a dead daemon, and writing it anew where it is damaged.
 *
 * What whole records say is kept. The rest is asked of the kernel: what was set up, of the
 * mounts; the loan, of the copy beside the journal; which pages are reserved, of the private
 * hugetlbfs itself: a page is reserved already if mapping it charges nothing to the filesystem.
 * Where it did, the page is made and punched, which undoes that and leaves the file as it was.
 * That works where the hugetlbfs has a size=. Where it has none, and for private mappings, what
 * processes have mapped is taken to be reserved.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/falloc.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "fs/adopt.h"
#include "fs/daemon.h"
#include "fs/hugetlb_probe.h"
#include "fs/mount_thp.h"
#include "fs/numa_policy.h"
#include "fs/run_dir.h"
#include "hugefuse_protocol.h"

#define HOLES_MAX (1 << 20) /* of one file that are looked at */

struct check {
	const char *mountpoint;
	char run_dir[PATH_MAX];
	int state_fd, names_fd, data_fd; /* data_fd: -1 with backing=thp */
	struct state state;
	struct journal_damage damage;
	int64_t nr_found; /* reserved pages that the journal did not have any more */
};

static void say(const struct check *check, const char *text)
{
	printf("%s: %s\n", check->mountpoint, text);
}

/* ---- which pages are reserved ---- */

struct probe {
	int dir_fd, fd, uffd;
	uint64_t page_size;
};

/* Pages that the filesystem has given or promised, or -1 where it does not count. */
static int64_t pages_charged(int dir_fd)
{
	struct statfs fs;

	if (fstatfs(dir_fd, &fs) < 0 || fs.f_blocks == (fsblkcnt_t)-1 || fs.f_blocks == 0)
		return -1;
	return (int64_t)(fs.f_blocks - fs.f_bfree);
}

/* Whether page @idx, which is not there, is reserved: 1, 0 or -errno. */
static int is_reserved(const struct probe *probe, int64_t idx)
{
	off_t offset = (off_t)((uint64_t)idx * probe->page_size);
	int64_t before = pages_charged(probe->dir_fd), after;
	void *addr;

	addr = mmap(NULL, probe->page_size, PROT_READ, MAP_SHARED, probe->fd, offset);
	if (addr == MAP_FAILED)
		return errno == ENOMEM ? 0 : -errno;
	munmap(addr, probe->page_size);
	after = pages_charged(probe->dir_fd);
	if (after == before)
		return 1;
	if (fallocate(probe->fd, FALLOC_FL_KEEP_SIZE, offset, (off_t)probe->page_size) < 0 ||
	    fallocate(probe->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset,
		      (off_t)probe->page_size) < 0)
		return -errno;
	return 0;
}

static int probe_file(struct check *check, struct probe *probe, uint64_t ino, int64_t nr_pages)
{
	int64_t nr = nr_pages < HOLES_MAX ? nr_pages : HOLES_MAX;
	int r = 0;

	for (int64_t idx = 0; idx < nr && r >= 0; idx++) {
		r = hugetlb_probe_page(probe->uffd, probe->fd, probe->page_size, idx);
		if (r != 0)
			continue;
		r = is_reserved(probe, idx);
		if (r <= 0)
			continue;
		check->nr_found += state_is_reserved(&check->state, ino, idx) ? 0 : 1;
		r = state_note_reserved(&check->state, ino, idx, idx + 1);
	}
	return r < 0 ? r : 0;
}

static int probe_entry(struct check *check, struct probe *probe, const char *name)
{
	struct stat st;
	uint64_t ino;
	char *end;
	int r = 0;

	ino = strtoull(name, &end, 10);
	if (*end || end == name)
		return 0;
	probe->fd = openat(check->data_fd, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (probe->fd < 0)
		return -errno;
	if (fstat(probe->fd, &st) == 0)
		r = probe_file(check, probe, ino, st.st_size / (int64_t)probe->page_size);
	close(probe->fd);
	return r;
}

static int probe_files(struct check *check)
{
	struct probe probe = {.dir_fd = check->data_fd};
	int fd = openat(check->data_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!dir)
		return -errno;
	probe.page_size = check->state.setup.page_size;
	probe.uffd = hugetlb_open_probe();
	while (r == 0 && (entry = readdir(dir)))
		r = probe_entry(check, &probe, entry->d_name);
	if (probe.uffd >= 0)
		close(probe.uffd);
	closedir(dir);
	return r;
}

/* ---- what processes have mapped ---- */

/* The number that the file of data/ with inode number @data_ino is called by, or 0. */
static uint64_t name_of(const struct check *check, uint64_t data_ino)
{
	int fd = openat(check->data_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	uint64_t ino = 0;

	while (dir && !ino && (entry = readdir(dir))) {
		if (entry->d_ino == data_ino)
			ino = strtoull(entry->d_name, NULL, 10);
	}
	if (dir)
		closedir(dir);
	return ino;
}

static bool has_record(const struct state_mapping *mappings, int64_t nr, const struct vma *vma,
		       uint64_t ino, int64_t from)
{
	for (int64_t i = 0; i < nr; i++) {
		if (mappings[i].pid == vma->pid && mappings[i].ino == ino &&
		    !(mappings[i].flags & HUGEFUSE_MAP_PRIVATE) == vma->shared &&
		    from >= mappings[i].from && from < mappings[i].to)
			return true;
	}
	return false;
}

/* Write down what @vma maps as if it had been. */
static int add_mapping(struct check *check, const struct vma *vma, uint64_t ino, uint64_t id,
		       bool reserves)
{
	uint64_t page_size = check->state.setup.page_size;
	struct state_mapping mapping = {
		.id = id,
		.ino = ino,
		.address = vma->start,
		.length = vma->end - vma->start,
		.from = (int64_t)(vma->offset / page_size),
		.start_time = process_start_time(vma->pid),
		.pid = vma->pid,
		.flags = vma->shared ? 0 : HUGEFUSE_MAP_PRIVATE,
	};

	mapping.to = mapping.from + (int64_t)(mapping.length / page_size);
	if (vma->shared && reserves)
		return state_note_reserved(&check->state, ino, mapping.from, mapping.to);
	return vma->shared ? 0 : state_note_mapping(&check->state, &mapping);
}

static int add_mappings(struct check *check, bool reserves)
{
	struct state_mapping *mappings = NULL;
	struct vma_list vmas;
	struct stat st;
	uint64_t ino, last = 0;
	int64_t nr;
	int r;

	if (fstat(check->data_fd, &st) < 0)
		return -errno;
	nr = state_mappings(&check->state, &mappings);
	if (nr < 0)
		return (int)nr;
	for (int64_t i = 0; i < nr; i++)
		last = mappings[i].id > last ? mappings[i].id : last;
	r = vma_list_read(st.st_dev, &vmas);
	for (size_t i = 0; r == 0 && i < vmas.nr; i++) {
		ino = name_of(check, vmas.vma[i].ino);
		if (ino &&
		    !has_record(mappings, nr, &vmas.vma[i], ino,
				(int64_t)(vmas.vma[i].offset / check->state.setup.page_size)))
			r = add_mapping(check, &vmas.vma[i], ino, ++last, reserves);
	}
	if (r == 0)
		vma_list_free(&vmas);
	free(mappings);
	return r;
}

/* ---- what was set up ---- */

/* As the mounts have it; on which nodes the pages were is not known any more. */
static int rebuild_setup(struct check *check)
{
	struct state_setup *setup = &check->state.setup;
	struct statfs fs;

	if (check->state.has_setup)
		return 0;
	if (fstatfs(check->data_fd >= 0 ? check->data_fd : check->names_fd, &fs) < 0)
		return -errno;
	if (fs.f_blocks == (fsblkcnt_t)-1)
		return -ENODATA; /* of a pool that could be resized nobody can tell the size */
	setup->is_thp = check->data_fd < 0;
	setup->page_size = setup->is_thp ? THP_PAGE_SIZE : (uint64_t)fs.f_bsize;
	setup->nr_nodes = setup->is_thp ? 1 : (uint32_t)numa_policy_nr_nodes();
	setup->max = (int64_t)fs.f_blocks;
	if (setup->is_thp)
		setup->max -= (int64_t)(NAMES_BYTES / THP_PAGE_SIZE);
	setup->min = setup->max;
	setup->data_max = setup->is_thp ? MOUNT_THP_NO_LIMIT : setup->max;
	setup->node_pages[0] = setup->max;
	check->state.has_setup = true;
	return 0;
}

static int rebuild(struct check *check)
{
	struct kernel_pool_loan loan;
	bool counts;
	int r;

	r = rebuild_setup(check);
	if (r == 0 && check->data_fd >= 0) {
		if (kernel_pool_load(&loan, check->state_fd, "kernel-pool") == 0) {
			check->state.loan = loan;
			check->state.has_loan = true;
			check->state.nr_steps = 0;
		}
		counts = pages_charged(check->data_fd) >= 0;
		r = counts ? probe_files(check) : 0;
		if (r == 0)
			r = add_mappings(check, !counts);
	}
	check->state.ready = true;
	return r < 0 ? r : state_rewrite(&check->state);
}

static int report(const struct check *check)
{
	char text[160];

	if (check->damage.lost_bytes > 0) {
		snprintf(text, sizeof(text),
			 "the journal is damaged at byte %" PRIu64 ", %" PRIu64 " bytes",
			 check->damage.offset, check->damage.lost_bytes);
		say(check, text);
	}
	if (check->damage.torn_bytes > 0) {
		snprintf(text, sizeof(text),
			 "the last %" PRIu64
			 " bytes of the journal were not written to the end",
			 check->damage.torn_bytes);
		say(check, text);
	}
	if (check->names_fd < 0)
		say(check, "its private filesystems are not mounted: there is nothing to "
			   "take over; 'hugefuse reap' gives back what is left");
	else if (!check->state.has_setup || !check->state.ready)
		say(check, "the journal does not say what was set up");
	else if (check->damage.lost_bytes == 0)
		say(check, "clean");
	return check->damage.lost_bytes == 0 && check->names_fd >= 0 &&
			       check->state.has_setup && check->state.ready
		       ? EXIT_OK
		       : EXIT_FAILED;
}

static int fsck_locked(struct check *check, bool repair)
{
	char text[160];
	int exit_code, r;

	check->names_fd = run_dir_open_mount(check->run_dir, "names", TMPFS_MAGIC);
	check->data_fd = run_dir_open_mount(check->run_dir, "data", HUGETLBFS_MAGIC);
	r = state_salvage(&check->state, check->state_fd, &check->damage);
	if (r < 0) {
		fprintf(stderr, "hugefuse: fsck: %s/state/journal: %s\n", check->run_dir,
			strerror(-r));
		return EXIT_FAILED;
	}
	exit_code = report(check);
	if (exit_code != EXIT_OK && repair && check->names_fd >= 0) {
		r = rebuild(check);
		snprintf(text, sizeof(text),
			 r < 0 ? "the journal cannot be written anew: %s"
			       : "the journal is written anew",
			 strerror(-r));
		say(check, text);
		if (r == 0) {
			exit_code = EXIT_OK;
			printf("%s: %" PRId64 " reserved pages were found in the pages alone\n",
			       check->mountpoint, check->nr_found);
		}
	}
	state_close(&check->state);
	return exit_code;
}

int daemon_fsck(const char *mountpoint, bool repair)
{
	struct check check = {.mountpoint = mountpoint, .names_fd = -1, .data_fd = -1};
	int exit_code;
	pid_t pid = 0;

	check.state_fd = run_dir_find(mountpoint, check.run_dir, &pid);
	if (check.state_fd < 0 || pid) {
		if (pid)
			fprintf(stderr,
				"hugefuse: fsck: %s: it is mounted (process %d); only what a "
				"daemon has left that died can be checked\n",
				mountpoint, pid);
		else
			fprintf(stderr, "hugefuse: fsck: %s: %s\n", mountpoint,
				check.state_fd == -ENOENT ? "no hugefuse was mounted there"
							  : strerror(-check.state_fd));
		if (check.state_fd >= 0)
			close(check.state_fd);
		return EXIT_FAILED;
	}
	exit_code = fsck_locked(&check, repair);
	if (check.names_fd >= 0)
		close(check.names_fd);
	if (check.data_fd >= 0)
		close(check.data_fd);
	close(check.state_fd);
	return exit_code;
}
