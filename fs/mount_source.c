/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Pages from a directory that is there already. */
#include "fs/mount_source.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "fs/adopt.h"
#include "fs/fusermount.h"
#include "fs/mount.h"
#include "fs/mount_thp.h"
#include "fs/rlimits.h"
#include "fs/run_dir.h"
#include "fs/tree.h"

#define PREFIX ".hugefuse-"

/* ---- options ---- */

static int __attribute__((format(printf, 3, 4)))
refuse(char *error, size_t error_size, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(error, error_size, format, args);
	va_end(args);
	return -EINVAL;
}

static bool is_in_group(gid_t gid)
{
	int nr = getgroups(0, NULL);
	gid_t *groups = nr > 0 ? malloc((size_t)nr * sizeof(*groups)) : NULL;
	bool found = gid == getegid();

	nr = groups ? getgroups(nr, groups) : 0;
	for (int i = 0; i < nr && !found; i++)
		found = groups[i] == gid;
	free(groups);
	return found;
}

static int adapt_to_user(struct mount_options *options, char *error, size_t error_size)
{
	if (!options->source)
		return refuse(
			error, error_size,
			"mounting without root needs a directory on hugetlbfs or tmpfs for "
			"the pages, as in: hugefuse mount -o source=/dev/shm,size=64M "
			"MOUNTPOINT (the kernel's pool of huge pages, and filesystems of "
			"its own, only root can have)");
	if (options->uid != geteuid())
		return refuse(error, error_size,
			      "option 'uid=%u': only root makes files for others",
			      options->uid);
	if (!is_in_group(options->gid))
		return refuse(error, error_size,
			      "option 'gid=%u': this user is not in that group", options->gid);
	if (options_is_given(options, "suid") && !options->nosuid)
		return refuse(error, error_size, "option 'suid' is root's; accepted is nosuid");
	if (options_is_given(options, "dev") && !options->nodev)
		return refuse(error, error_size, "option 'dev' is root's; accepted is nodev");
	if (options->nr_inodes)
		return refuse(
			error, error_size,
			"option 'nr_inodes' is root's: it needs a tmpfs of the mount's own");
	options->nosuid = options->nodev = true;
	if (!options_is_given(options, "allow_other"))
		options->allow_other = false;
	return 0;
}

/* The type of the filesystem that @path is on, as mount(8) calls it; "" unknown. */
static void find_type(const char *path, char *ret_type, size_t size)
{
	FILE *file = fopen("/proc/self/mountinfo", "re");
	char *line = NULL, *type;
	struct statx st = {0};
	size_t line_size = 0;
	unsigned long id;

	ret_type[0] = '\0';
	if (statx(AT_FDCWD, path, 0, STATX_MNT_ID, &st) < 0)
		st.stx_mask = 0;
	while (file && st.stx_mask & STATX_MNT_ID && getline(&line, &line_size, file) >= 0) {
		type = strstr(line, " - ");
		if (!type || sscanf(line, "%lu", &id) != 1 || id != st.stx_mnt_id)
			continue;
		type += 3;
		snprintf(ret_type, size, "%.*s", (int)strcspn(type, " "), type);
		break;
	}
	free(line);
	if (file)
		fclose(file);
}

static int adapt_to_hugetlbfs(struct mount_options *options, uint64_t page_size, char *error,
			      size_t error_size)
{
	if (options->backing == BACKING_THP)
		return refuse(error, error_size,
			      "option 'backing=thp': source=%s is a hugetlbfs; accepted is "
			      "hugetlb, or a source= on tmpfs",
			      options->source);
	if (page_size != UINT64_C(2) << 20 && page_size != UINT64_C(1) << 30)
		return refuse(error, error_size,
			      "option 'source=%s': its pages have %" PRIu64
			      " kB; accepted are 2M and 1G",
			      options->source, page_size >> 10);
	if (options_is_given(options, "pagesize") && page_size != options->pagesize)
		return refuse(error, error_size,
			      "option 'pagesize=%" PRIu64
			      "M': the pages of source=%s have %" PRIu64 "M",
			      options->pagesize >> 20, options->source, page_size >> 20);
	if (options_size_is_set(&options->min_size) &&
	    (options->min_size.is_percent || options->min_size.bytes > 0))
		return refuse(
			error, error_size,
			"option 'min_size': in a hugetlbfs that is there already nothing can "
			"be set aside; leave it out, size= is the most that files may use");
	if (options_size_is_set(&options->max_size))
		return refuse(
			error, error_size,
			"option 'max_size': with source= the pool cannot be raised; leave "
			"it out");
	options->backing = BACKING_HUGETLB;
	options->pagesize = page_size;
	return 0;
}

static int adapt_to_tmpfs(struct mount_options *options, char *error, size_t error_size)
{
	if (options->backing == BACKING_HUGETLB)
		return refuse(
			error, error_size,
			"option 'backing=hugetlb': source=%s is a tmpfs; accepted is thp, or "
			"a source= on hugetlbfs",
			options->source);
	if (options->nr_inodes)
		return refuse(error, error_size,
			      "option 'nr_inodes': with source= on a tmpfs that one's holds");
	options->backing = BACKING_THP;
	return 0;
}

static int make_absolute(struct mount_options *options, char *error, size_t error_size)
{
	char *path = realpath(options->source, NULL);

	if (!path)
		return refuse(error, error_size, "option 'source=%s': %s", options->source,
			      strerror(errno));
	free(options->source);
	options->source = path;
	return 0;
}

int mount_source_adapt(struct mount_options *options, char *error, size_t error_size)
{
	char type[64];
	struct statfs fs;
	struct stat st;
	int r = 0;

	if (geteuid() != 0)
		r = adapt_to_user(options, error, error_size);
	if (r == 0 && options->source)
		r = make_absolute(options, error, error_size);
	if (r < 0 || !options->source)
		return r;
	if (statfs(options->source, &fs) < 0 || stat(options->source, &st) < 0)
		return refuse(error, error_size, "option 'source=%s': %s", options->source,
			      strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return refuse(error, error_size, "option 'source=%s': not a directory",
			      options->source);
	find_type(options->source, type, sizeof(type));
	if (fs.f_type != HUGETLBFS_MAGIC &&
	    (fs.f_type != TMPFS_MAGIC || !strcmp(type, "ramfs")))
		return refuse(error, error_size,
			      "option 'source=%s': it is on %s; accepted is a directory on "
			      "hugetlbfs or tmpfs, such as /dev/shm",
			      options->source, type[0] ? type : "another filesystem");
	if (faccessat(AT_FDCWD, options->source, W_OK | X_OK, AT_EACCESS) < 0)
		return refuse(error, error_size,
			      "option 'source=%s': this user cannot make files there: %s",
			      options->source, strerror(errno));
	return fs.f_type == HUGETLBFS_MAGIC
		       ? adapt_to_hugetlbfs(options, (uint64_t)fs.f_bsize, error, error_size)
		       : adapt_to_tmpfs(options, error, error_size);
}

/* ---- what dead daemons have left ---- */

/* Whether a mount of this user's, dead or alive, has its pages in @path. */
static bool is_noted_in(const char *base, const char *path)
{
	DIR *stream = opendir(base);
	char state[PATH_MAX], noted[PATH_MAX];
	struct dirent *entry;
	bool found = false;
	int fd;

	while (stream && !found && (entry = readdir(stream))) {
		if (snprintf(state, sizeof(state), "%s/state", entry->d_name) >=
		    (int)sizeof(state))
			continue;
		fd = openat(dirfd(stream), state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			continue;
		found = run_dir_read_note(fd, "source", noted) == 0 && !strcmp(noted, path);
		close(fd);
	}
	if (stream)
		closedir(stream);
	return found;
}

static bool is_noted(const char *path)
{
	struct run_dir_bases bases;
	bool found = false;

	run_dir_list_bases(&bases);
	for (int i = 0; i < bases.nr && !found; i++)
		found = is_noted_in(bases.path[i], path);
	return found;
}

/* The own directory @name of some mount, locked: a descriptor, or -errno where it is in use. */
static int lock_dir(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st = {0}, now = {0};
	int r = fd < 0 ? -errno : 0;

	if (r == 0 && (flock(fd, LOCK_EX | LOCK_NB) < 0 || fstat(fd, &st) < 0 ||
		       fstatat(dir_fd, name, &now, AT_SYMLINK_NOFOLLOW) < 0))
		r = -errno;
	/* Not one that somebody has removed meanwhile, and only one's own. */
	if (r == 0 && (st.st_ino != now.st_ino || st.st_uid != geteuid()))
		r = -ESTALE;
	if (r < 0 && fd >= 0)
		close(fd);
	return r < 0 ? r : fd;
}

static void remove_leftovers(const struct mount *mount)
{
	int copy = openat(mount->source.dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd;
	DIR *stream = copy < 0 ? NULL : fdopendir(copy);
	char path[PATH_MAX];
	struct dirent *entry;

	while (stream && (entry = readdir(stream))) {
		if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) != 0)
			continue;
		snprintf(path, sizeof(path), "%.*s/%s", PATH_MAX - NAME_MAX - 2,
			 mount->options->source, entry->d_name);
		fd = lock_dir(mount->source.dir_fd, entry->d_name);
		if (fd < 0)
			continue;
		if (!is_noted(path))
			tree_remove(mount->source.dir_fd, entry->d_name);
		close(fd);
	}
	if (stream)
		closedir(stream);
	else if (copy >= 0)
		close(copy);
}

void mount_source_clean_up(int state_fd)
{
	char path[PATH_MAX], *slash;
	int dir_fd, fd;

	if (run_dir_read_note(state_fd, "source", path) < 0)
		return;
	slash = strrchr(path, '/');
	if (!slash || strncmp(slash + 1, PREFIX, strlen(PREFIX)) != 0)
		return;
	*slash = '\0';
	dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fd = dir_fd < 0 ? -errno : lock_dir(dir_fd, slash + 1);
	if (fd >= 0) {
		tree_remove(dir_fd, slash + 1);
		close(fd);
	}
	if (dir_fd >= 0)
		close(dir_fd);
}

void mount_source_forget(const char *mountpoint)
{
	char run_dir[PATH_MAX], path[PATH_MAX];
	pid_t pid = 0;
	uid_t uid;
	gid_t gid;
	int state_fd;

	if (fusermount_find(mountpoint, &uid, &gid))
		return;
	state_fd = run_dir_find(mountpoint, run_dir, &pid);
	if (state_fd < 0)
		return;
	if (pid || run_dir_read_note(state_fd, "source", path) < 0) {
		close(state_fd);
		return;
	}
	adopt_clean_up(run_dir, state_fd);
}

/* ---- the own directory ---- */

static int make_dir(struct mount_source *source)
{
	uint64_t number;
	int r;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return -EAGAIN;
	snprintf(source->name, sizeof(source->name), PREFIX "%016" PRIx64, number);
	if (mkdirat(source->dir_fd, source->name, 0700) < 0) {
		r = -errno;
		source->name[0] = '\0';
		return r;
	}
	r = lock_dir(source->dir_fd, source->name);
	if (r >= 0)
		source->fd = r;
	return r < 0 ? r : 0;
}

int mount_source_make(struct mount *mount, char *error, size_t error_size)
{
	struct mount_source *source = &mount->source;
	char path[PATH_MAX];
	int r;

	source->dir_fd = open(mount->options->source, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = source->dir_fd < 0 ? -errno : 0;
	if (r == 0) {
		remove_leftovers(mount);
		r = make_dir(source);
	}
	if (r == 0) {
		snprintf(path, sizeof(path), "%.*s/%s",
			 PATH_MAX - (int)sizeof(source->name) - 1, mount->options->source,
			 source->name);
		r = run_dir_note(mount->state_fd, "source", path);
	}
	if (r < 0)
		snprintf(error, error_size, "source=%s: cannot make a directory there: %s",
			 mount->options->source, strerror(-r));
	return r;
}

int mount_source_names(struct mount *mount, char *error, size_t error_size)
{
	const struct mount_options *options = mount->options;
	int fd = -1, r = 0;

	if (mkdirat(mount->source.fd, "names", 0700) == 0)
		fd = openat(mount->source.fd, "names",
			    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fchown(fd, options->uid, options->gid) < 0 ||
	    fchmod(fd, options->mode) < 0) {
		r = -errno;
		snprintf(error, error_size, "source=%s: %s", options->source, strerror(-r));
		if (fd >= 0)
			close(fd);
	}
	return r < 0 ? r : fd;
}

void mount_source_deinit(struct mount *mount)
{
	struct mount_source *source = &mount->source;

	if (source->dir_fd < 0)
		return;
	if (source->name[0])
		tree_remove(source->dir_fd, source->name);
	if (source->fd >= 0)
		close(source->fd);
	close(source->dir_fd);
	source->dir_fd = source->fd = -1;
}

/* ---- how many pages ---- */

/* Whether the kernel would reserve @nr pages now, from wherever this hugetlbfs has them. */
static int try_to_reserve(const struct mount *mount, int64_t nr)
{
	size_t length = (size_t)nr * mount->options->pagesize;
	void *addr;
	int fd, r;

	fd = openat(mount->source.fd, "trial", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	addr = mmap(NULL, length, PROT_READ, MAP_SHARED, fd, 0);
	r = addr == MAP_FAILED ? -errno : munmap(addr, length);
	unlinkat(mount->source.fd, "trial", 0);
	close(fd);
	return r;
}

/* The pages that this hugetlbfs has room for, by its size=; those that its min_size= keeps. */
static int64_t read_room(const struct mount *mount)
{
	struct statfs fs;

	if (fstatfs(mount->source.fd, &fs) < 0 || (int64_t)fs.f_blocks <= 0)
		return INT64_MAX;
	return (int64_t)fs.f_bfree;
}

static int too_many(const struct mount *mount, int64_t wanted, int64_t room,
		    const struct pool_counts *kernel, char *error, size_t error_size)
{
	int64_t unused = kernel->free - kernel->resv;
	char limit[64] = "";

	if (room != INT64_MAX)
		snprintf(limit, sizeof(limit), " and source= has room for %" PRId64, room);
	snprintf(error, error_size,
		 "%" PRId64 " huge pages of %" PRIu64
		 " kB are needed, the kernel's pool has %" PRId64
		 " that nobody has reserved%s; ask for a smaller size, or let root add pages "
		 "(sysctl vm.nr_hugepages)",
		 wanted, mount->options->pagesize >> 10, unused, limit);
	return -ENOMEM;
}

static void place(const struct pool_counts *kernel, int64_t nr, int nr_nodes,
		  int64_t *ret_node_pages)
{
	for (int node = 0; node < nr_nodes; node++) {
		int64_t take = kernel->node[node].free < nr ? kernel->node[node].free : nr;

		ret_node_pages[node] = take;
		nr -= take;
	}
	ret_node_pages[0] += nr;
}

int mount_source_resolve(struct mount *mount, const struct pool_counts *kernel,
			 struct mount_pages *ret_pages, int64_t *ret_node_pages, char *error,
			 size_t error_size)
{
	const struct mount_options *options = mount->options;
	int64_t room = read_room(mount), wanted = kernel->free - kernel->resv;
	int r;

	if (options_size_is_set(&options->size))
		wanted = mount_size_pages(&options->size, options->pagesize, kernel->nr);
	else if (wanted > room)
		wanted = room;
	if (wanted <= 0) {
		snprintf(error, error_size,
			 "no pages: source=%s has no free huge pages of %" PRIu64
			 " kB; root adds some: sysctl vm.nr_hugepages=N",
			 options->source, options->pagesize >> 10);
		return -ENOMEM;
	}
	r = rlimits_check((uint64_t)wanted * options->pagesize, error, error_size);
	if (r < 0)
		return r;
	r = wanted > room ? -ENOMEM : try_to_reserve(mount, wanted);
	if (r == -ENOMEM)
		return too_many(mount, wanted, room, kernel, error, error_size);
	if (r < 0) {
		snprintf(error, error_size, "source=%s: cannot map a file there: %s",
			 options->source, strerror(-r));
		return r;
	}
	*ret_pages = (struct mount_pages){.max = wanted, .data_max = wanted};
	place(kernel, wanted, mount->nr_nodes, ret_node_pages);
	return 0;
}
