/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Adopting files. All of it happens before the mount answers, in one thread; what clients do
 * meanwhile is found by fs/reconcile.c later, as always.
 *
 * hugetlb: reservations come from the journal, and are made in the kernel's own map once more,
 * which changes nothing where they are there. Pages are looked for in data/, in what is
 * reserved first. A file of data/ whose name has gone is garbage, unless a process has it
 * mapped: then it gets an inode without a name, which goes when its last mapping does.
 *
 * thp: what is sized is reserved. What files without a name hold cannot be told one by one; it
 * is what names/ has in use beyond the rest, and is charged as such until it is less.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "fs/adopt.h"
#include "fs/backing_hugetlb.h"
#include "fs/backing_thp.h"
#include "fs/file_sized.h"
#include "fs/mount_thp.h"
#include "fs/rcu.h"

#define ROOT_NODE_ID    1
#define BLOCKS_PER_PAGE (int64_t)(THP_PAGE_SIZE / 512) /* of st_blocks */
#define FILE_PAGES_MAX  (INT64_MAX / (int64_t)THP_PAGE_SIZE)

/* A file of data/, named after its inode number in names/. */
struct data_file {
	uint64_t ino;      /* first: what compare_ino() looks at */
	uint64_t data_ino; /* its own, as /proc/PID/maps has it */
	bool found;        /* it has a name */
};

struct adoption {
	struct mount *mount;
	struct adopted *adopted;
	int data_fd;
	dev_t data_dev;
	struct data_file *files; /* by ino */
	size_t nr_files;
	struct state_range *ranges; /* by ino */
	int64_t nr_ranges;
	int64_t nr_known; /* pages of names/ in use by files with a name */
};

static int compare_ino(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static struct data_file *find_data_file(const struct adoption *adoption, uint64_t ino)
{
	return adoption->nr_files ? bsearch(&ino, adoption->files, adoption->nr_files,
					    sizeof(*adoption->files), compare_ino)
				  : NULL;
}

/* ---- names/ ---- */

typedef int (*visit_name)(struct adoption *adoption, struct inode *dir, const char *name,
			  const struct stat *st);

/* Directories that are still to be read, each with a reference. */
struct pending {
	struct inode **dir;
	size_t nr, room;
};

static int push(struct pending *pending, struct inode *dir)
{
	struct inode **grown;

	if (pending->nr == pending->room) {
		pending->room = 2 * pending->room + 64;
		grown = realloc(pending->dir, pending->room * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		pending->dir = grown;
	}
	pending->dir[pending->nr++] = dir;
	return 0;
}

static int visit_entry(struct adoption *adoption, struct pending *pending, struct inode *dir,
		       const char *name, visit_name visit)
{
	struct state_quota quota;
	struct inode *child;
	struct stat st;
	int r;

	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return 0;
	if (fstatat(dir->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return visit(adoption, dir, name, &st);
	r = inode_get_child(adoption->mount, dir, name, &child, NULL);
	/* Before what is in it, which is charged to it. */
	if (r == 0 && state_find_quota(&adoption->mount->state, child->ino, &quota))
		tenant_adopt(adoption->mount, child, quota.max, quota.min);
	if (r == 0)
		r = push(pending, child);
	return r;
}

static int visit_dir(struct adoption *adoption, struct pending *pending, struct inode *dir,
		     visit_name visit)
{
	int fd = openat(dir->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	const struct dirent *entry;
	DIR *stream;

	stream = fd < 0 ? NULL : fdopendir(fd);
	if (!stream) {
		r = -errno;
		if (fd >= 0)
			close(fd);
		return r;
	}
	while (r == 0 && (entry = readdir(stream)))
		r = visit_entry(adoption, pending, dir, entry->d_name, visit);
	closedir(stream);
	return r;
}

static int walk_names(struct adoption *adoption, visit_name visit)
{
	struct pending pending = {0};
	struct inode *dir;
	int r;

	r = push(&pending, inode_ref(inode_lookup(adoption->mount, ROOT_NODE_ID)));
	while (pending.nr > 0) {
		dir = pending.dir[--pending.nr];
		if (r == 0)
			r = visit_dir(adoption, &pending, dir, visit);
		inode_put(adoption->mount, dir, 1);
	}
	free(pending.dir);
	return r;
}

/* ---- hugetlb ---- */

static int64_t first_range(const struct adoption *adoption, uint64_t ino)
{
	int64_t low = 0, high = adoption->nr_ranges;

	while (low < high) {
		int64_t middle = (low + high) / 2;

		if (adoption->ranges[middle].ino < ino)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int count_page(void *data, int64_t idx)
{
	struct page_space *pages = data;
	struct page_space_counts counts;
	int64_t nr;

	page_reconcile(pages, idx, false);
	page_space_read(pages, &counts);
	nr = pages->file->backing->ops->count(pages->file);
	return counts.instantiated >= nr; /* all are found */
}

/* The pages that are there, those that are reserved first. */
static int find_pages(const struct adoption *adoption, struct page_space *pages, uint64_t ino)
{
	const struct state_range *range;
	int64_t nr_pages = pages->nr_pages, to;
	int r = pages->file->backing->ops->count(pages->file) == 0;

	for (int64_t i = first_range(adoption, ino);
	     r == 0 && i < adoption->nr_ranges && adoption->ranges[i].ino == ino; i++) {
		range = &adoption->ranges[i];
		to = range->to < nr_pages ? range->to : nr_pages;
		r = backing_hugetlb_find(pages->file, range->from, to, count_page, pages);
	}
	if (r == 0)
		r = backing_hugetlb_find(pages->file, 0, nr_pages, count_page, pages);
	return r < 0 ? r : 0;
}

/* What a range is not reserved by now, nobody can have lost: it was not reserved when we died.
 */
static int reserve_range(struct adoption *adoption, struct inode *inode,
			 struct page_space *pages, const struct state_range *range)
{
	struct backing_file *file = pages->file;
	struct region_map added;
	int64_t r;

	region_map_init(&added, pages->lock);
	r = page_reserve_or_tell(pages, range->from, range->to, &added);
	if (r >= 0) {
		r = file->backing->ops->reserve(file, range->from, range->to);
		if (r == -ENOMEM)
			r = -ENOSPC; /* the kernel has none */
		if (r < 0)
			page_unreserve_map(pages, &added);
	}
	region_map_deinit(&added);
	inode->reserved = true;
	if (r != -ENOSPC)
		return (int)(r < 0 ? r : 0);
	adoption->adopted->lost_reservations = true;
	return state_unreserve(&adoption->mount->state, range->ino, range->from, range->to);
}

/* The pages and reservations of an inode, under the number @ino that it had. */
static int adopt_pages(struct adoption *adoption, struct inode *inode, uint64_t ino)
{
	struct page_space *pages;
	int r;

	r = inode_pages(adoption->mount, inode, &pages);
	if (r == 0)
		r = find_pages(adoption, pages, ino);
	for (int64_t i = first_range(adoption, ino);
	     r == 0 && i < adoption->nr_ranges && adoption->ranges[i].ino == ino; i++)
		r = reserve_range(adoption, inode, pages, &adoption->ranges[i]);
	adoption->adopted->nr_files += r == 0;
	return r;
}

static int adopt_name(struct adoption *adoption, struct inode *dir, const char *name,
		      const struct stat *st)
{
	struct data_file *file;
	struct inode *inode;
	int r;

	if (!S_ISREG(st->st_mode))
		return 0;
	file = find_data_file(adoption, st->st_ino);
	if (!file || file->found) /* by another of its names */
		return 0;
	file->found = true;
	r = inode_get_child(adoption->mount, dir, name, &inode, NULL);
	if (r < 0)
		return r;
	r = adopt_pages(adoption, inode, inode->ino);
	inode_put(adoption->mount, inode, 1);
	return r;
}

static bool is_mapped(const struct adoption *adoption, uint64_t data_ino)
{
	const struct vma_list *list = &adoption->adopted->vmas;

	for (size_t i = 0; i < list->nr; i++) {
		if (list->vma[i].ino == data_ino)
			return true;
	}
	return false;
}

static void data_name(uint64_t ino, char name[24])
{
	snprintf(name, 24, "%" PRIu64, ino);
}

/* Let a file of data/ belong to an inode without a name, which its mappings will hold. */
static int adopt_nameless(struct adoption *adoption, const struct data_file *file)
{
	struct mount *mount = adoption->mount;
	char old_name[24], new_name[24];
	struct inode *inode;
	struct stat st;
	int r;

	data_name(file->ino, old_name);
	if (fstatat(adoption->data_fd, old_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	r = inode_new_nameless(mount, st.st_size, &inode);
	if (r < 0)
		return r;
	data_name(inode->ino, new_name);
	if (renameat(adoption->data_fd, old_name, adoption->data_fd, new_name) < 0)
		r = -errno;
	if (r == 0)
		r = adopt_pages(adoption, inode, file->ino);
	if (r == 0)
		r = adopted_add_nameless(adoption->adopted, file->ino, inode);
	if (r < 0)
		inode_put(mount, inode, 1);
	return r;
}

static int adopt_unnamed(struct adoption *adoption)
{
	char name[24];
	int r = 0;

	for (size_t i = 0; i < adoption->nr_files && r == 0; i++) {
		const struct data_file *file = &adoption->files[i];

		if (file->found)
			continue;
		if (is_mapped(adoption, file->data_ino)) {
			r = adopt_nameless(adoption, file);
			continue;
		}
		data_name(file->ino, name);
		unlinkat(adoption->data_fd, name, 0);
		adoption->adopted->nr_garbage++;
		state_forget(&adoption->mount->state, file->ino);
	}
	return r;
}

/* What is called by a number; others, such as the parked pages, are not files of names/. */
static int read_data_entry(struct adoption *adoption, const char *name)
{
	struct data_file *grown, file = {0};
	struct stat st;
	char *end;

	file.ino = strtoull(name, &end, 10);
	if (*end || end == name)
		return 0;
	if (fstatat(adoption->data_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	file.data_ino = st.st_ino;
	if (adoption->nr_files % 256 == 0) {
		grown = realloc(adoption->files,
				(adoption->nr_files + 256) * sizeof(*adoption->files));
		if (!grown)
			return -ENOMEM;
		adoption->files = grown;
	}
	adoption->files[adoption->nr_files++] = file;
	return 0;
}

static int read_data_dir(struct adoption *adoption)
{
	const struct dirent *entry;
	struct stat st;
	DIR *dir;
	int fd, r = 0;

	adoption->data_fd = backing_hugetlb_dir_fd(adoption->mount->backing);
	if (fstat(adoption->data_fd, &st) < 0)
		return -errno;
	adoption->data_dev = st.st_dev;
	fd = openat(adoption->data_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir)
		return -errno;
	while (r == 0 && (entry = readdir(dir)))
		r = read_data_entry(adoption, entry->d_name);
	closedir(dir);
	if (adoption->nr_files)
		qsort(adoption->files, adoption->nr_files, sizeof(*adoption->files),
		      compare_ino);
	return r;
}

static int adopt_hugetlb(struct adoption *adoption)
{
	int r;

	adoption->nr_ranges = state_ranges(&adoption->mount->state, &adoption->ranges);
	if (adoption->nr_ranges < 0)
		return (int)adoption->nr_ranges;
	r = read_data_dir(adoption);
	if (r == 0)
		r = vma_list_read(adoption->data_dev, &adoption->adopted->vmas);
	if (r == 0)
		r = walk_names(adoption, adopt_name);
	if (r == 0)
		r = adopt_unnamed(adoption);
	free(adoption->files);
	free(adoption->ranges);
	return r;
}

/* ---- thp ---- */

/* Reserve the runs of [from, to) that are there, behind the end of the file. */
static int reserve_present(struct page_space *pages, int64_t from, int64_t to)
{
	int64_t nr = backing_thp_count(pages->file, from, to), middle;
	int r;

	if (nr <= 0)
		return (int)nr;
	if (nr == to - from)
		return page_reserve(pages, from, to, NULL) < 0 ? -ENOMEM : 0;
	middle = from + (to - from) / 2;
	r = reserve_present(pages, from, middle);
	return r < 0 ? r : reserve_present(pages, middle, to);
}

/* The @nr pages that the file has behind its @end, wherever they are. What of these was swapped
 * out is not found. */
static int reserve_behind(struct page_space *pages, int64_t end, int64_t nr)
{
	int64_t last, found = 0;

	for (last = end + 1; found < nr && last < FILE_PAGES_MAX / 2;
	     last = end + 2 * (last - end)) {
		found = backing_thp_count(pages->file, end, last);
		if (found < 0)
			return (int)found;
	}
	return reserve_present(pages, end, last);
}

static int adopt_sized(struct adoption *adoption, struct inode *inode, const struct stat *st)
{
	struct page_space *pages;
	int64_t end, nr, behind;
	int r;

	r = inode_pages(adoption->mount, inode, &pages);
	if (r < 0)
		return r;
	end = pages->nr_pages;
	nr = end > 0 ? page_reserve(pages, 0, end, NULL) : 0;
	if (nr < 0)
		return (int)nr;
	nr = end > 0 ? backing_thp_count(pages->file, 0, end) : 0;
	if (nr < 0)
		return (int)nr;
	behind = st->st_blocks / BLOCKS_PER_PAGE - nr;
	r = behind > 0 ? reserve_behind(pages, end, behind) : 0;
	file_sized_reconcile(pages);
	adoption->adopted->nr_files++;
	return r;
}

static int64_t pages_of_link(const struct stat *st)
{
	int64_t nr = st->st_blocks / BLOCKS_PER_PAGE;

	return (nr + (int64_t)st->st_nlink - 1) / (int64_t)st->st_nlink;
}

static int adopt_sized_name(struct adoption *adoption, struct inode *dir, const char *name,
			    const struct stat *st)
{
	struct inode *inode;
	int r;

	if (!S_ISREG(st->st_mode)) {
		adoption->nr_known += pages_of_link(st);
		return 0;
	}
	if (st->st_size == 0 && st->st_blocks == 0)
		return 0;
	r = inode_get_child(adoption->mount, dir, name, &inode, NULL);
	if (r < 0)
		return r;
	if (!atomic_load(&inode->pages)) { /* else it has another name */
		adoption->nr_known += st->st_blocks / BLOCKS_PER_PAGE;
		r = adopt_sized(adoption, inode, st);
	}
	inode_put(adoption->mount, inode, 1);
	return r;
}

/* Pages of names/ in use, but for the reserve; -errno. */
static int64_t pages_in_use(struct mount *mount)
{
	struct statfs fs;

	if (fstatfs(mount->names_fd, &fs) < 0)
		return -errno;
	return (int64_t)(fs.f_blocks - fs.f_bfree) * (fs.f_bsize / (int64_t)THP_PAGE_SIZE) -
	       backing_thp_reserved(mount->backing);
}

/* Those of files without a name, as the counters have it. */
static int64_t count_strays(struct mount *mount)
{
	int64_t in_use = pages_in_use(mount);
	struct pool_counts pool;

	pool_read(&mount->core.pool, &pool);
	return in_use - mount->names_pages - (pool.nr - pool.free) + mount->nr_strays;
}

static int charge_strays(struct mount *mount, int64_t nr)
{
	int r;

	mount->stray_file = (struct backing_file){.backing = mount->backing};
	r = page_space_init(&mount->strays, &mount->core, &mount->stray_file, UINT64_MAX, 0,
			    nr);
	if (r < 0)
		return r;
	mount->has_strays = true;
	if (page_reserve(&mount->strays, 0, nr, NULL) < 0)
		return 0; /* it is not as it should be, but nobody is the worse for it */
	mount->nr_strays = nr;
	return page_run_present(&mount->strays, 0, nr);
}

/* Pages that have gone are uncharged when two looks say the same: counters lag behind. */
void adopt_settle_strays(struct mount *mount)
{
	int64_t nr;

	if (!mount->has_strays || mount->nr_strays == 0)
		return;
	nr = count_strays(mount);
	if (nr < 0)
		nr = 0;
	if (nr < mount->nr_strays && nr == mount->last_strays) {
		page_forget(&mount->strays, nr, REGION_END);
		mount->nr_strays = nr;
		waitqueue_wake_all(&mount->core.pool.freed);
		file_sized_balance(mount);
	}
	mount->last_strays = nr;
}

static int adopt_thp(struct adoption *adoption)
{
	struct mount *mount = adoption->mount;
	struct pool_counts pool;
	int64_t in_use, nr;
	int r;

	r = walk_names(adoption, adopt_sized_name);
	if (r < 0)
		return r;
	pool_read(&mount->core.pool, &pool);
	in_use = pages_in_use(mount);
	nr = in_use - adoption->nr_known;
	mount->names_pages = adoption->nr_known - (pool.nr - pool.free);
	if (nr > 0)
		r = charge_strays(mount, nr);
	file_sized_balance(mount);
	return r;
}

int adopt_files(struct mount *mount, struct adopted *adopted)
{
	struct adoption adoption = {.mount = mount, .adopted = adopted};

	return mount->is_thp ? adopt_thp(&adoption) : adopt_hugetlb(&adoption);
}
