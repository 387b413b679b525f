/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Changing the size of a mount's pool while it is in use. The pool's counters follow the
 *kernel's set_max_huge_pages(); below them, what data/ can have is made to be the same:
 *
 *	data_min - nr_parked + nr_extra + overcommit = nr - surplus + overcommit
 *
 * A hugetlbfs keeps its min_size= for life. So pages of min_size= that the pool does not
 * have any more are parked: a file in data/ reserves them. Pages beyond min_size= are added to
 *the kernel's pool, and go back when the pool is made smaller.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fs/mount.h"
#include "fs/mount_thp.h"

static int64_t max_pages(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t min_pages(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Let the file that parks pages reserve @nr of them. A shared mapping's reservation stays. */
static int resize_park(struct mount *mount, int64_t nr)
{
	size_t length = (size_t)nr * mount->backing->page_size;
	char path[PATH_MAX + 16];
	void *addr;
	int fd, r = 0;

	snprintf(path, sizeof(path), "%s/data/parked", mount->run_dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)length) < 0)
		r = -errno;
	if (r == 0 && nr > 0) {
		addr = mmap(NULL, length, PROT_READ, MAP_SHARED, fd, 0);
		r = addr == MAP_FAILED ? -errno : munmap(addr, length);
	}
	close(fd);
	if (r == 0)
		mount->nr_parked = nr;
	return r;
}

/* Of what should be parked some may be in use still. */
static void park_locked(struct mount *mount, const struct pool_counts *pool)
{
	int64_t persistent = pool->nr - pool->surplus;
	int64_t target = max_pages(0, mount->data_min - persistent - pool->overcommit);
	int64_t in_use = pool->nr - pool->free;
	int64_t most = max_pages(0, mount->data_min - in_use - pool->resv);

	mutex_assert_held(&mount->size_lock);
	target = min_pages(target, most);
	if (target != mount->nr_parked)
		resize_park(mount, target);
}

/* Make the kernel's side follow the counters, which have changed on @node. */
static void follow_locked(struct mount *mount, int node)
{
	struct pool_counts pool;
	int64_t persistent, extra, overcommit;

	mutex_assert_held(&mount->size_lock);
	pool_read(&mount->core.pool, &pool);
	persistent = pool.nr - pool.surplus;
	extra = max_pages(0, persistent - mount->data_min);
	overcommit = max_pages(0, persistent + pool.overcommit -
					  max_pages(persistent, mount->data_min));
	kernel_pool_change(&mount->loan, node, extra - mount->nr_extra,
			   overcommit - mount->loan.overcommit);
	mount->nr_extra = extra;
	mount_save_loan(mount);
	park_locked(mount, &pool);
}

/*
 * Put pages of min_size= back into the pool, on @node or, with POOL_ANY_NODE, on the nodes
 * where they had been as far as known.
 */
static void unpark_locked(struct mount *mount, int on, int64_t nr)
{
	struct pool_counts pool;
	int64_t room;

	mutex_assert_held(&mount->size_lock);
	if (mount->nr_parked > 0)
		resize_park(mount, max_pages(0, mount->nr_parked - nr));
	pool_read(&mount->core.pool, &pool);
	if (on != POOL_ANY_NODE) {
		pool_resize(&mount->core.pool, on, nr);
		return;
	}
	for (int node = 0; node < mount->nr_nodes && nr > 0; node++) {
		room = max_pages(0, mount->node_pages[node] - pool.node[node].nr);
		if (node == mount->nr_nodes - 1)
			room = nr;
		pool_resize(&mount->core.pool, node, min_pages(room, nr));
		nr -= min_pages(room, nr);
	}
}

/* Add @missing pages to @node: what there is of min_size=, then new ones of the kernel's. */
static void grow_locked(struct mount *mount, int node, int64_t missing)
{
	int64_t before[POOL_MAX_NODES], extra;
	struct pool_counts pool;

	mutex_assert_held(&mount->size_lock);
	pool_read(&mount->core.pool, &pool);
	extra = max_pages(0, pool.nr - pool.surplus + missing - mount->data_min);
	extra = max_pages(0, extra - mount->nr_extra);
	if (missing > extra)
		unpark_locked(mount, node, missing - extra);
	memcpy(before, mount->loan.node_pages, sizeof(before));
	if (extra == 0 || kernel_pool_change(&mount->loan, node, extra, 0) <= 0)
		return;
	mount_save_loan(mount);
	for (int i = 0; i < mount->nr_nodes; i++) {
		extra = mount->loan.node_pages[i] - before[i];
		pool_resize(&mount->core.pool, i, extra);
		mount->nr_extra += extra;
	}
}

/* What the pool is about to be. Where it cannot be written down it is not changed. */
static int note_size_locked(struct mount *mount, int64_t nr, int64_t overcommit)
{
	struct state_size size = {.nr = nr, .overcommit = overcommit};

	mutex_assert_held(&mount->size_lock);
	for (int node = 0; node < mount->loan.nr_nodes; node++)
		size.first_loan += mount->loan.node_pages[node];
	size.first_loan -= mount->nr_extra;
	return state_set_size(&mount->state, &size);
}

/* @nr, and what it returns, in huge pages. All of a tmpfs is one node. */
static int64_t set_nr_thp(struct mount *mount, int64_t nr)
{
	int64_t chunk = backing_chunk(mount->backing), r;

	nr = min_pages(nr, INT64_MAX / (int64_t)mount->backing->huge_page_size) * chunk;
	mutex_lock(&mount->size_lock);
	r = note_size_locked(mount, nr, 0);
	if (r == 0) {
		atomic_store(&mount->is_resized, true);
		subpool_drop_limits(&mount->core.subpool);
		r = mount_thp_set_nr(mount, nr);
		/* What could not be had, or is in use, is not to be tried again. */
		if (r != nr)
			note_size_locked(mount, r, 0);
		r /= chunk;
	}
	mutex_unlock(&mount->size_lock);
	return r;
}

int64_t mount_set_nr_pages(struct mount *mount, int node, int64_t nr)
{
	int64_t left[POOL_MAX_NODES], missing, others = 0;
	struct pool_counts pool;
	int r;

	if (mount_has_source(mount))
		return -EOPNOTSUPP;
	if (mount->is_thp)
		return set_nr_thp(mount, nr);
	mutex_lock(&mount->size_lock);
	pool_read(&mount->core.pool, &pool);
	if (node != POOL_ANY_NODE)
		others =
			pool.nr - pool.surplus - (pool.node[node].nr - pool.node[node].surplus);
	nr = min_pages(nr,
		       max_pages(pool.nr - pool.surplus, mount->data_max - pool.overcommit) -
			       others);
	r = note_size_locked(mount, nr + others, pool.overcommit);
	if (r < 0) {
		mutex_unlock(&mount->size_lock);
		return r;
	}
	atomic_store(&mount->is_resized, true);
	subpool_drop_limits(&mount->core.subpool);
	missing = pool_set_nr(&mount->core.pool, node, nr, left);
	if (missing > 0)
		grow_locked(mount, node, missing);
	follow_locked(mount, node);
	pool_read(&mount->core.pool, &pool);
	mutex_unlock(&mount->size_lock);
	return pool.nr - pool.surplus;
}

int64_t mount_set_overcommit(struct mount *mount, int node, int64_t overcommit)
{
	struct pool_counts pool;
	int r;

	if (mount->is_thp || mount_has_source(mount))
		return -EOPNOTSUPP;
	mutex_lock(&mount->size_lock);
	pool_read(&mount->core.pool, &pool);
	overcommit = min_pages(overcommit, mount->data_max - (pool.nr - pool.surplus));
	overcommit = max_pages(0, overcommit);
	r = note_size_locked(mount, pool.nr - pool.surplus, overcommit);
	if (r < 0) {
		mutex_unlock(&mount->size_lock);
		return r;
	}
	atomic_store(&mount->is_resized, true);
	subpool_drop_limits(&mount->core.subpool);
	pool_set_overcommit(&mount->core.pool, overcommit);
	follow_locked(mount, POOL_ANY_NODE);
	mutex_unlock(&mount->size_lock);
	return overcommit;
}

/* The counters follow a page that the kernel has added on @node in place of a surplus one. */
static void adopt_page_locked(struct mount *mount, int node, int64_t overcommit)
{
	mutex_assert_held(&mount->size_lock);
	kernel_pool_change(&mount->loan, node, 0, -1);
	mount->nr_extra++;
	mount_save_loan(mount);
	pool_set_overcommit(&mount->core.pool, overcommit - 1);
	pool_resize(&mount->core.pool, node, 1);
}

int mount_refill_node(struct mount *mount, int node)
{
	struct pool_counts pool;
	int64_t r;

	mutex_lock(&mount->size_lock);
	pool_read(&mount->core.pool, &pool);
	if (pool.overcommit - pool.surplus <= 0) {
		r = 0;
		goto out_unlock;
	}
	r = kernel_pool_change(&mount->loan, node, 1, 0);
	if (r == 1)
		adopt_page_locked(mount, node, pool.overcommit);
	else if (r >= 0)
		r = -ENOMEM;
out_unlock:
	mutex_unlock(&mount->size_lock);
	return (int)r;
}

void mount_settle_size(struct mount *mount)
{
	struct pool_counts pool;

	if (!atomic_load(&mount->is_resized) || mount->is_thp)
		return;
	mutex_lock(&mount->size_lock);
	pool_read(&mount->core.pool, &pool);
	park_locked(mount, &pool);
	mutex_unlock(&mount->size_lock);
}
