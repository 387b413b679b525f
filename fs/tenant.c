/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tenants: which directory has a quota, and what belongs to which.
 *
 * The tenant of a directory changes under tenants->lock; that of any other inode never does. A
 * reference to an inode is put without the lock, as the last one takes the table's, which has
 * the same rank.
 */
#include "fs/tenant.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <urcu/compiler.h>

#include "fs/file_sized.h"
#include "fs/mount.h"

struct tenant {
	struct subpool subpool;
	_Atomic bool active; /* tenants->lock, but for a look; has a quota */
	struct inode *dir;   /* tenants->lock; with a reference while it is active */
	struct tenant *next; /* tenants->lock */
};

void tenants_init(struct tenants *tenants)
{
	mutex_init(&tenants->lock, LOCK_RANK_NAMESPACE);
}

static struct tenant *to_tenant(struct subpool *subpool)
{
	return caa_container_of(subpool, struct tenant, subpool);
}

static void release(struct subpool *subpool)
{
	free(to_tenant(subpool));
}

static struct tenant *around(struct tenant *tenant)
{
	struct subpool *parent = tenant->subpool.parent;

	return parent->parent ? to_tenant(parent) : NULL;
}

/* The first from @tenant on outwards that has a quota. */
static struct tenant *effective(struct tenant *tenant)
{
	while (tenant && !tenant->active)
		tenant = around(tenant);
	return tenant;
}

static struct subpool *subpool_of(struct mount *mount, struct tenant *tenant)
{
	tenant = effective(tenant);
	return tenant ? &tenant->subpool : &mount->core.subpool;
}

struct tenant *tenant_of_child(struct mount *mount, struct inode *parent)
{
	struct tenants *tenants = &mount->tenants;
	struct tenant *tenant;

	if (atomic_load(&tenants->nr) == 0)
		return NULL;
	mutex_lock(&tenants->lock);
	tenant = effective(parent->tenant);
	if (tenant)
		subpool_ref(&tenant->subpool);
	mutex_unlock(&tenants->lock);
	return tenant;
}

void tenant_unref(struct tenant *tenant)
{
	if (tenant)
		subpool_unref(&tenant->subpool);
}

struct subpool *tenant_subpool_of_file(struct mount *mount, const struct inode *inode)
{
	return subpool_of(mount, inode->tenant);
}

struct subpool *tenant_subpool(struct mount *mount, const struct inode *inode)
{
	struct subpool *subpool;

	mutex_lock(&mount->tenants.lock);
	subpool = subpool_ref(subpool_of(mount, inode->tenant));
	mutex_unlock(&mount->tenants.lock);
	return subpool;
}

bool tenant_is_same(struct mount *mount, const struct inode *a, const struct inode *b)
{
	bool same;

	if (atomic_load(&mount->tenants.nr) == 0)
		return true;
	mutex_lock(&mount->tenants.lock);
	same = effective(a->tenant) == effective(b->tenant);
	mutex_unlock(&mount->tenants.lock);
	return same;
}

/* The tenant that the directory is itself, or NULL. */
static struct tenant *own_tenant(const struct inode *dir)
{
	struct tenant *tenant = dir->tenant;

	return tenant && tenant->active && tenant->dir == dir ? tenant : NULL;
}

/* 0 if there is nothing in it. */
static int check_empty(const struct inode *dir)
{
	int fd = openat(dir->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	struct dirent *dirent;
	DIR *stream;

	if (fd < 0)
		return -errno;
	stream = fdopendir(fd);
	if (!stream) {
		r = -errno;
		close(fd);
		return r;
	}
	while (r == 0 && (dirent = readdir(stream)))
		if (strcmp(dirent->d_name, ".") != 0 && strcmp(dirent->d_name, "..") != 0)
			r = -ENOTEMPTY;
	closedir(stream);
	return r;
}

static bool is_removed(const struct inode *dir)
{
	struct stat st;

	return fstat(dir->fd, &st) < 0 || st.st_nlink == 0;
}

/*
 * With thp what is set aside is memory, and has to be had. With hugetlb it is what the mount
 * has set aside: surplus pages that no file has reserved are not in data/.
 */
static int set_limits(struct mount *mount, struct tenant *tenant, int64_t max, int64_t min)
{
	struct subpool_counts before;
	int r;

	subpool_read(&tenant->subpool, &before);
	r = subpool_set_limits(&tenant->subpool, max, min, mount->is_thp);
	if (r == 0 && mount->is_thp) {
		r = file_sized_set_aside(mount);
		if (r < 0) {
			subpool_set_limits(&tenant->subpool, before.max, before.min, true);
			file_sized_balance(mount);
		}
	}
	return r == -ENOMEM ? -ENOSPC : r;
}

static int add_locked(struct mount *mount, struct inode *dir, int64_t max, int64_t min,
		      bool adopt)
{
	struct tenants *tenants = &mount->tenants;
	struct tenant *tenant, **link = &tenants->list;
	int r;

	mutex_assert_held(&tenants->lock);
	tenant = aligned_alloc(_Alignof(struct tenant), sizeof(*tenant));
	if (!tenant)
		return -ENOMEM;
	*tenant = (struct tenant){.active = true, .dir = dir};
	subpool_init_tenant(&tenant->subpool, subpool_of(mount, dir->tenant), release);
	/* What is adopted has its memory already, if not in the reserve. */
	if (adopt)
		r = subpool_set_limits(&tenant->subpool, max, min, false);
	else
		r = set_limits(mount, tenant, max, min);
	if (r < 0) {
		tenant_unref(tenant);
		return r;
	}
	inode_ref(dir);
	/* At the end: who is around another one comes first. */
	while (*link)
		link = &(*link)->next;
	*link = tenant;
	tenants->nr++;
	tenant_unref(dir->tenant);
	dir->tenant = tenant;
	return 0;
}

/* The caller puts the reference to the directory. */
static void remove_locked(struct mount *mount, struct tenant *tenant)
{
	struct tenants *tenants = &mount->tenants;
	struct tenant **link = &tenants->list;

	mutex_assert_held(&tenants->lock);
	while (*link != tenant)
		link = &(*link)->next;
	*link = tenant->next;
	tenants->nr--;
	tenant->active = false;
	tenant->dir = NULL;
	subpool_drop_limits(&tenant->subpool);
}

/* After a change: what waits for pages looks again, and the reserve is what is free. */
static void settle(struct mount *mount)
{
	mount_pages_freed(mount);
	waitqueue_wake_all(&mount->core.pool.freed);
}

int tenant_set(struct mount *mount, struct inode *dir, int64_t max, int64_t min)
{
	struct tenants *tenants = &mount->tenants;
	struct subpool_counts now = {.max = SUBPOOL_NO_LIMIT};
	struct tenant *tenant;
	bool removed = false;
	int r = 0;

	if (!S_ISDIR(dir->type))
		return -ENOTDIR;
	if (dir->ino == mount->inodes.root_ino)
		return -EOPNOTSUPP;
	mutex_lock(&tenants->lock);
	tenant = own_tenant(dir);
	if (tenant)
		subpool_read(&tenant->subpool, &now);
	max = max == TENANT_KEEP ? now.max : max;
	min = min == TENANT_KEEP ? now.min : min;
	if (!tenant && (max != SUBPOOL_NO_LIMIT || min > 0))
		r = is_removed(dir) ? -ENOENT : check_empty(dir);
	if (r == 0)
		r = state_set_quota(&mount->state, &(struct state_quota){dir->ino, max, min});
	if (r < 0) {
		/* nothing is changed */
	} else if (max != SUBPOOL_NO_LIMIT || min > 0) {
		r = tenant ? set_limits(mount, tenant, max, min)
			   : add_locked(mount, dir, max, min, false);
		if (r < 0)
			state_set_quota(&mount->state,
					&(struct state_quota){dir->ino, now.max, now.min});
	} else if (tenant) {
		remove_locked(mount, tenant);
		removed = true;
	}
	mutex_unlock(&tenants->lock);
	inode_put(mount, dir, removed);
	settle(mount);
	return r;
}

int tenant_adopt(struct mount *mount, struct inode *dir, int64_t max, int64_t min)
{
	int r;

	mutex_lock(&mount->tenants.lock);
	r = add_locked(mount, dir, max, min, true);
	mutex_unlock(&mount->tenants.lock);
	return r;
}

void tenant_dir_removed(struct mount *mount, struct inode *dir)
{
	struct tenants *tenants = &mount->tenants;
	struct tenant *tenant;

	if (!S_ISDIR(dir->type) || atomic_load(&tenants->nr) == 0)
		return;
	mutex_lock(&tenants->lock);
	tenant = own_tenant(dir);
	if (tenant && !is_removed(dir))
		tenant = NULL;
	if (tenant)
		remove_locked(mount, tenant);
	mutex_unlock(&tenants->lock);
	if (tenant) {
		inode_put(mount, dir, 1);
		settle(mount);
	}
}

void tenants_deinit(struct mount *mount)
{
	struct tenants *tenants = &mount->tenants;
	struct inode *dir;

	do {
		dir = NULL;
		mutex_lock(&tenants->lock);
		if (tenants->list) {
			dir = tenants->list->dir;
			remove_locked(mount, tenants->list);
		}
		mutex_unlock(&tenants->lock);
		inode_put(mount, dir, 1);
	} while (dir);
	mutex_deinit(&tenants->lock);
}

int tenant_read(struct mount *mount, struct inode *dir, struct tenant_info *ret_info)
{
	struct tenants *tenants = &mount->tenants;
	struct subpool *subpool = NULL;
	struct tenant *tenant;

	if (dir->ino == mount->inodes.root_ino)
		subpool = &mount->core.subpool;
	mutex_lock(&tenants->lock);
	tenant = own_tenant(dir);
	if (tenant)
		subpool = &tenant->subpool;
	if (subpool) {
		*ret_info = (struct tenant_info){.dir = dir, .reading.subpool = subpool};
		subpool_read_many(&ret_info->reading, 1, sizeof(*ret_info));
	}
	mutex_unlock(&tenants->lock);
	return subpool ? 0 : -ENODATA;
}

int64_t tenant_size_around(struct mount *mount, const struct inode *dir)
{
	struct tenants *tenants = &mount->tenants;
	int64_t size, nr_free;
	struct tenant *tenant;

	mutex_lock(&tenants->lock);
	tenant = own_tenant(dir);
	subpool_read_space(tenant ? tenant->subpool.parent : subpool_of(mount, dir->tenant),
			   &size, &nr_free);
	mutex_unlock(&tenants->lock);
	return size;
}

int64_t tenants_read(struct mount *mount, struct tenant_info **ret_infos)
{
	struct tenants *tenants = &mount->tenants;
	struct tenant_info *infos;
	int64_t nr = 1;

	mutex_lock(&tenants->lock);
	infos = calloc(tenants->nr + 1, sizeof(*infos));
	if (!infos) {
		mutex_unlock(&tenants->lock);
		return -ENOMEM;
	}
	infos[0].reading.subpool = &mount->core.subpool;
	for (struct tenant *tenant = tenants->list; tenant; tenant = tenant->next) {
		infos[nr].dir = inode_ref(tenant->dir);
		infos[nr++].reading.subpool = &tenant->subpool;
	}
	subpool_read_many(&infos[0].reading, (size_t)nr, sizeof(*infos));
	mutex_unlock(&tenants->lock);
	*ret_infos = infos;
	return nr;
}

void tenants_free(struct mount *mount, struct tenant_info *infos, int64_t nr)
{
	for (int64_t i = 0; i < nr; i++)
		inode_put(mount, infos[i].dir, 1);
	free(infos);
}

int64_t tenant_note(struct mount *mount, const struct inode *inode, int64_t error)
{
	if (error == -ENOSPC || error == -ENOMEM)
		subpool_note_refused(tenant_subpool_of_file(mount, inode));
	return error;
}
