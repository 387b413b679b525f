/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A mount for fuzzers. */
#include "fuzz_mount.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fs/control.h"
#include "fs/fault_service.h"
#include "fs/file.h"

#define NR_FILES 4

static struct fuzz_mount *the_mount;

_Noreturn void fuzz_fail(const char *what)
{
	fprintf(stderr, "fuzz: %s\n", what);
	abort();
}

static int give_descriptor(struct backing_file *file, int access_mode)
{
	int fd = fcntl(the_mount->content_fd, F_DUPFD_CLOEXEC, 0);

	return fd < 0 ? -errno : fd;
}

static void remove_files(void)
{
	char path[80];

	for (int i = 0; i < NR_FILES; i++) {
		snprintf(path, sizeof(path), "%s/%d", the_mount->dir, i);
		unlink(path);
	}
	rmdir(the_mount->dir);
	snprintf(path, sizeof(path), "%s.sock", the_mount->dir);
	unlink(path);
	snprintf(path, sizeof(path), "%s.state/journal", the_mount->dir);
	unlink(path);
	snprintf(path, sizeof(path), "%s.state", the_mount->dir);
	rmdir(path);
}

static void make_files(struct fuzz_mount *fuzz)
{
	char name[8];
	int fd;

	for (int i = 0; i < NR_FILES; i++) {
		snprintf(name, sizeof(name), "%d", i);
		fd = openat(fuzz->mount.names_fd, name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC,
			    0666);
		if (fd < 0)
			fuzz_fail("cannot make a file");
		close(fd);
	}
}

static int start_state(struct fuzz_mount *fuzz)
{
	struct mount *mount = &fuzz->mount;
	struct journal_damage damage;
	char path[80];
	int r;

	snprintf(path, sizeof(path), "%s.state", fuzz->dir);
	if (mkdir(path, 0700) < 0)
		return -errno;
	mount->state_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = mount->state_fd < 0 ? -errno : state_open(&mount->state, mount->state_fd, &damage);
	mount->has_state = r == 0;
	return r;
}

static int start_services(struct fuzz_mount *fuzz)
{
	struct mount *mount = &fuzz->mount;
	char path[80];
	int r;

	snprintf(path, sizeof(path), "%s.sock", fuzz->dir);
	r = fault_service_new(mount, 2, &mount->fault_service);
	return r < 0 ? r : control_new(mount, path, &mount->control);
}

void fuzz_mount_restart(struct fuzz_mount *fuzz)
{
	struct mount *mount = &fuzz->mount;

	control_stop(mount->control);
	fault_service_free(mount->fault_service);
	control_free(mount->control);
	if (start_services(fuzz) < 0)
		fuzz_fail("the services cannot be started again");
}

static int set_up(struct fuzz_mount *fuzz)
{
	const int64_t nr_pages = FUZZ_PAGES;
	struct mount *mount = &fuzz->mount;
	int r;

	options_init(&fuzz->options);
	mount->options = &fuzz->options;
	mount->mountpoint = fuzz->dir;
	mount->state_fd = mount->passthrough_fd = -1;
	backing_mem_init(&fuzz->mem, FUZZ_PAGE_SIZE, 1);
	fuzz->ops = *fuzz->mem.backing.ops;
	fuzz->ops.file_descriptor = give_descriptor;
	fuzz->mem.backing.ops = &fuzz->ops;
	mount->backing = &fuzz->mem.backing;
	mount->nr_nodes = 1;
	mutex_init(&mount->size_lock, LOCK_RANK_NAMESPACE);
	tenants_init(&mount->tenants);
	r = page_core_init(&mount->core, 1, &nr_pages, FUZZ_PAGES, FUZZ_PAGES, 0, false);
	if (r < 0)
		return r;
	mount->data_min = mount->data_max = FUZZ_PAGES;
	snprintf(fuzz->dir, sizeof(fuzz->dir), "/tmp/hugefuse-fuzz-XXXXXX");
	if (!mkdtemp(fuzz->dir))
		return -errno;
	mount->names_fd = open(fuzz->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	fuzz->content_fd = memfd_create("content", MFD_CLOEXEC);
	r = inode_table_init(&mount->inodes, dup(mount->names_fd));
	if (r == 0)
		r = start_state(fuzz);
	return r < 0 ? r : start_services(fuzz);
}

struct fuzz_mount *fuzz_mount_new(void)
{
	struct fuzz_mount *fuzz = aligned_alloc(_Alignof(struct fuzz_mount), sizeof(*fuzz));

	if (!fuzz)
		fuzz_fail("no memory");
	memset(fuzz, 0, sizeof(*fuzz));
	the_mount = fuzz;
	if (set_up(fuzz) < 0)
		fuzz_fail("cannot set up a mount");
	make_files(fuzz);
	atexit(remove_files);
	return fuzz;
}

struct inode *fuzz_mount_file(struct fuzz_mount *fuzz, int number)
{
	struct inode *root = inode_lookup(&fuzz->mount, 1), *inode;
	struct stat st;
	char name[8];

	snprintf(name, sizeof(name), "%d", number % NR_FILES);
	if (inode_get_child(&fuzz->mount, root, name, &inode, &st) < 0)
		fuzz_fail("a file is not there any more");
	return inode;
}

void fuzz_mount_check(struct fuzz_mount *fuzz)
{
	const struct timespec tick = {.tv_nsec = 100000};
	struct subpool_counts subpool;
	struct pool_counts pool;

	for (int i = 0; i < NR_FILES; i++) {
		struct inode *inode = fuzz_mount_file(fuzz, i);

		/* What is reserved behind the end goes with a truncation to less than there is.
		 */
		if (file_resize(&fuzz->mount, inode, FUZZ_PAGE_SIZE) < 0 ||
		    file_resize(&fuzz->mount, inode, 0) < 0)
			fuzz_fail("a file cannot be truncated");
		inode_put(&fuzz->mount, inode, 1);
	}
	/* A fault thread, or the control thread, may be about to let go. */
	for (int i = 0; i < 10000; i++) {
		subpool_read(&fuzz->mount.core.subpool, &subpool);
		pool_read(&fuzz->mount.core.pool, &pool);
		if (subpool.used == 0 && pool.free == pool.nr &&
		    control_nr_mappings(fuzz->mount.control) == 0)
			return;
		control_poke(fuzz->mount.control);
		nanosleep(&tick, NULL);
	}
	fprintf(stderr, "fuzz: %ld pages used, %ld of %ld free, %u mappings\n",
		(long)subpool.used, (long)pool.free, (long)pool.nr,
		control_nr_mappings(fuzz->mount.control));
	fuzz_fail("something is left over");
}
