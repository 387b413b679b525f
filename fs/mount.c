/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Setting a mount up and taking it down. The order is: run directory and its lock, pages from
 * the kernel's pool (written to state/ before anything can go wrong), names/, data/, counters,
 * inodes. mount_deinit() goes the other way and is also what a half-done mount_init() calls.
 */
#include "fs/mount.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/adopt.h"
#include "fs/backing_hugetlb.h"
#include "fs/backing_thp.h"
#include "fs/file_sized.h"
#include "fs/hugetlb_probe.h"
#include "fs/kernel_pool.h"
#include "fs/mount_numa.h"
#include "fs/mount_thp.h"
#include "fs/numa_policy.h"
#include "fs/owner.h"
#include "fs/rlimits.h"
#include "fs/run_dir.h"

int64_t mount_size_pages(const struct option_size *size, uint64_t page_size, int64_t kernel_nr)
{
	if (size->is_percent)
		return kernel_nr * size->percent / 100;
	return (int64_t)(size->bytes / page_size);
}

/*
 * size= alone sets all of it aside; without either what is free in the kernel's pool is taken.
 * Both are rounded down to pages, and per cent is of the kernel's pool, as with hugetlbfs.
 */
static int resolve_sizes(const struct mount_options *options, const struct pool_counts *kernel,
			 struct mount_pages *ret_pages, char *error, size_t error_size)
{
	struct mount_pages pages;

	if (options_size_is_set(&options->size))
		pages.max = mount_size_pages(&options->size, options->pagesize, kernel->nr);
	else if (options_size_is_set(&options->min_size))
		pages.max = SUBPOOL_NO_LIMIT;
	else
		pages.max = kernel->free - kernel->resv;
	if (options_size_is_set(&options->min_size))
		pages.min = mount_size_pages(&options->min_size, options->pagesize, kernel->nr);
	else
		pages.min = pages.max;
	if (pages.max == 0 || pages.min < 0) {
		snprintf(error, error_size,
			 "no pages: the kernel's pool has %" PRId64
			 " free huge pages of %" PRIu64 " kB; give size=, at least one page",
			 kernel->free - kernel->resv, options->pagesize >> 10);
		return -EINVAL;
	}
	if (pages.max == SUBPOOL_NO_LIMIT)
		pages.max = pages.min;
	if (pages.min > pages.max) {
		snprintf(error, error_size, "min_size is more than size");
		return -EINVAL;
	}
	pages.data_max = pages.max;
	if (options_size_is_set(&options->max_size))
		pages.data_max =
			mount_size_pages(&options->max_size, options->pagesize, kernel->nr);
	if (pages.data_max < pages.max) {
		snprintf(error, error_size, "max_size is less than size");
		return -EINVAL;
	}
	*ret_pages = pages;
	return 0;
}

static int keep_names(struct mount *mount, int fd)
{
	if (fd >= 0)
		mount->names_fd = fd;
	return fd < 0 ? fd : 0;
}

/* With @thp_pages that many base pages of files in it, huge where a file is long enough. */
static int mount_names(struct mount *mount, int64_t thp_pages, char *error, size_t error_size)
{
	const struct mount_options *options = mount->options;
	char data[192];
	int fd;

	if (mount_has_source(mount) && thp_pages > 0)
		return keep_names(mount, mount_source_names(mount, error, error_size));
	if (geteuid() != 0)
		return keep_names(mount, run_dir_make(mount->run_dir, "names", options->mode,
						      error, error_size));
	snprintf(data, sizeof(data),
		 "inode64,size=%" PRIu64 ",mode=%o,uid=%u,gid=%u,nr_inodes=%" PRIu64 "%s",
		 NAMES_BYTES + (uint64_t)thp_pages * THP_PAGE_SIZE, options->mode, options->uid,
		 options->gid,
		 options->nr_inodes ? options->nr_inodes + mount_hidden_inodes(mount) : 0,
		 thp_pages ? ",huge=within_size" : "");
	/* What may be mapped to be executed is what the mount itself allows. */
	fd = run_dir_mount(mount->run_dir, "names", "tmpfs",
			   thp_pages && !options->noexec ? 0 : MS_NOEXEC, data, error,
			   error_size);
	return keep_names(mount, fd);
}

static int mount_hugetlbfs(struct mount *mount, const struct mount_pages *pages, char *error,
			   size_t error_size)
{
	uint64_t page_size = mount->options->pagesize;
	char data[160], size[40] = "";

	/*
	 * A hugetlbfs keeps its size= for life. Where the mount is to grow it has none: if it
	 * had a larger one than there are pages, the kernel (6.18) would count a page as used
	 * for each that it could not give, and never let go of min_size=.
	 */
	if (pages->data_max == pages->max)
		snprintf(size, sizeof(size), ",size=%" PRIu64,
			 (uint64_t)pages->max * page_size);
	snprintf(data, sizeof(data), "pagesize=%" PRIu64 "%s,min_size=%" PRIu64 ",mode=0700",
		 page_size, size, (uint64_t)pages->min * page_size);
	/* What may be mapped to be executed is what the mount itself allows. */
	return run_dir_mount(mount->run_dir, "data", "hugetlbfs",
			     mount->options->noexec ? MS_NOEXEC : 0, data, error, error_size);
}

static int use_source(struct mount *mount, char *error, size_t error_size)
{
	int fd = fcntl(mount->source.fd, F_DUPFD_CLOEXEC, 0);

	if (fd < 0)
		snprintf(error, error_size, "source=%s: %s", mount->options->source,
			 strerror(errno));
	return fd < 0 ? -errno : fd;
}

static int mount_data(struct mount *mount, const struct mount_pages *pages, char *error,
		      size_t error_size)
{
	int64_t min_pages = 0;
	int fd, r;

	fd = mount_has_source(mount) ? use_source(mount, error, error_size)
				     : mount_hugetlbfs(mount, pages, error, error_size);
	if (fd < 0)
		return fd;
	/* Of a hugetlbfs whose min_size= is all of it, or that has no size=, nothing is lost.
	 */
	if (!mount_has_source(mount) && pages->data_max == pages->max &&
	    pages->min < pages->max)
		min_pages = pages->min;
	r = backing_hugetlb_new(fd, mount->options->pagesize, mount->nr_nodes, min_pages,
				&mount->backing);
	if (r < 0) {
		close(fd);
		snprintf(error, error_size, "cannot use the hugetlbfs: %s", strerror(-r));
	}
	return r;
}

/* Take the pages, and write down what was added before going on. */
static int borrow_pages(struct mount *mount, const struct mount_pages *pages,
			int64_t *ret_node_pages, char *error, size_t error_size)
{
	struct kernel_pool_wish wish = {pages->min, pages->max - pages->min};
	int64_t node_pages[POOL_MAX_NODES];
	int r;

	*error = '\0';
	mount->data_max = pages->data_max;
	mount->data_min = pages->min;
	wish.node_pages = mount_numa_node_pages(mount->options, node_pages);
	r = kernel_pool_borrow(mount->options->pagesize, mount->nr_nodes, &wish, &mount->loan,
			       ret_node_pages, error, error_size);
	if (r < 0) {
		if (!*error)
			snprintf(error, error_size,
				 "cannot change the kernel's pool of huge pages: %s",
				 strerror(-r));
		return r;
	}
	mount->has_loan = true;
	r = mount_save_loan(mount);
	if (r < 0)
		snprintf(error, error_size, "%s/state: %s", mount->run_dir, strerror(-r));
	return r;
}

int mount_save_loan(struct mount *mount)
{
	int r = state_set_loan(&mount->state, &mount->loan);

	/* The copy is for fsck, should the journal be damaged. */
	return r < 0 ? r : kernel_pool_save(&mount->loan, mount->state_fd, "kernel-pool");
}

/* Where it cannot be written down, a daemon that comes after this one reserves too much. */
static void note_unreserved(void *data, uint64_t ino, int64_t idx)
{
	state_unreserve(data, ino, idx, idx + 1);
}

int mount_init_objects(struct mount *mount, const struct mount_pages *pages,
		       const int64_t *node_pages, char *error, size_t error_size)
{
	const struct mount_options *options = mount->options;
	int fd, r;

	mutex_init(&mount->size_lock, LOCK_RANK_NAMESPACE);
	r = page_core_init(&mount->core, mount->nr_nodes, node_pages, pages->max, pages->min,
			   options->fault_mutexes, options->region_lock_global);
	if (r < 0)
		goto out_error;
	mount->has_core = true;
	mount_numa_set_up(mount);
	if (!mount->is_thp) {
		mount->core.unreserved = note_unreserved;
		mount->core.unreserved_data = &mount->state;
	}
	if (mount->is_thp) {
		r = orphans_init(&mount->orphans, mount->names_fd);
		if (r < 0)
			goto out_error;
		mount->has_orphans = true;
	}
	memcpy(mount->node_pages, node_pages, sizeof(mount->node_pages));
	fd = fcntl(mount->names_fd, F_DUPFD_CLOEXEC, 0);
	r = fd < 0 ? -errno : inode_table_init(&mount->inodes, fd);
	if (r < 0)
		goto out_error;
	tenants_init(&mount->tenants);
	split_init(&mount->split, options, mount->is_thp);
	mount->has_inodes = true;
	return 0;

out_error:
	snprintf(error, error_size, "cannot set up the counters: %s", strerror(-r));
	return r;
}

/*
 * thp where files can be mapped through FUSE, and transparent huge pages can be had. Without a
 * size, what there is in the kernel's pool is meant.
 */
static bool is_thp(const struct mount_options *options, const struct pool_counts *kernel,
		   const char **ret_why)
{
	bool sized = options_size_is_set(&options->size) ||
		     options_size_is_set(&options->min_size);
	bool thp = false;

	*ret_why = NULL;
	if (options->source)
		*ret_why = "as source= has them";
	if (options->backing != BACKING_AUTO)
		return options->backing == BACKING_THP;
	if (options->pagesize != UINT64_C(2) << 20) {
		*ret_why = "for pages of that size";
	} else if (!mount_thp_is_supported()) {
		*ret_why = "files cannot be mapped through FUSE before Linux 6.9";
	} else if (sized || !kernel || kernel->free == kernel->resv) {
		*ret_why = "files can be mapped through FUSE";
		thp = true;
	} else {
		*ret_why = "without size=, what is free in the kernel's pool";
	}
	return thp;
}

static int state_error(const struct mount *mount, int r, char *error, size_t error_size)
{
	if (r < 0)
		snprintf(error, error_size, "%s/state/journal: %s", mount->run_dir,
			 strerror(-r));
	return r;
}

static struct state_setup state_setup(const struct mount *mount,
				      const struct mount_pages *pages)
{
	return (struct state_setup){
		.page_size = mount->is_thp ? THP_PAGE_SIZE : mount->options->pagesize,
		.min = pages->min,
		.max = pages->max,
		.data_max = pages->data_max,
		.is_thp = mount->is_thp,
		.nr_nodes = (uint32_t)mount->nr_nodes,
	};
}

/* The run directory, and what is to be written down before anything is taken. */
static int start_state(struct mount *mount, const struct mount_pages *pages, char *error,
		       size_t error_size)
{
	struct state_setup setup = state_setup(mount, pages);
	struct journal_damage damage;
	char options[4096];
	int r;

	r = run_dir_create(mount->mountpoint, mount->run_dir, &mount->state_fd, error,
			   error_size);
	if (r < 0)
		return r;
	r = state_open(&mount->state, mount->state_fd, &damage);
	if (r < 0)
		return state_error(mount, r, error, error_size);
	mount->has_state = true;
	options_print(mount->options, options, sizeof(options));
	r = state_set_options(&mount->state, options);
	if (r == 0)
		r = state_set_setup(&mount->state, &setup);
	return state_error(mount, r, error, error_size);
}

/* On which nodes the pages are is known by now, and from now on it can be adopted. */
static int finish_state(struct mount *mount, const struct mount_pages *pages,
			const int64_t *node_pages, char *error, size_t error_size)
{
	struct state_setup setup = state_setup(mount, pages);
	int r;

	memcpy(setup.node_pages, node_pages, sizeof(setup.node_pages));
	r = state_set_setup(&mount->state, &setup);
	if (r == 0)
		r = state_set_ready(&mount->state);
	return state_error(mount, r, error, error_size);
}

static int log_step(void *data, const struct kernel_pool_step *step)
{
	return state_add_step(data, step);
}

static int take_pages(struct mount *mount, const struct pool_counts *kernel,
		      struct mount_pages *pages, int64_t *ret_node_pages, char *error,
		      size_t error_size)
{
	int r;

	if (!mount_has_source(mount))
		return borrow_pages(mount, pages, ret_node_pages, error, error_size);
	r = mount_source_make(mount, error, error_size);
	if (r == 0)
		r = mount_source_resolve(mount, kernel, pages, ret_node_pages, error,
					 error_size);
	return r;
}

static int set_up_hugetlb(struct mount *mount, const struct pool_counts *kernel, char *error,
			  size_t error_size)
{
	int64_t node_pages[POOL_MAX_NODES] = {0};
	struct mount_pages pages = {0};
	int r = 0;

	if (!mount_has_source(mount))
		r = resolve_sizes(mount->options, kernel, &pages, error, error_size);
	if (r == 0 && !mount_has_source(mount))
		r = rlimits_check((uint64_t)pages.max * mount->options->pagesize, error,
				  error_size);
	if (r == 0)
		r = start_state(mount, &pages, error, error_size);
	if (r < 0)
		return r;
	mount->loan.log = &mount->pool_log;
	r = take_pages(mount, kernel, &pages, node_pages, error, error_size);
	if (r == 0)
		r = mount_names(mount, 0, error, error_size);
	if (r == 0)
		r = mount_data(mount, &pages, error, error_size);
	if (r == 0)
		r = mount_init_objects(mount, &pages, node_pages, error, error_size);
	return r < 0 ? r : finish_state(mount, &pages, node_pages, error, error_size);
}

static int set_up_thp(struct mount *mount, char *error, size_t error_size)
{
	int64_t node_pages[POOL_MAX_NODES] = {0};
	struct mount_pages pages;
	int r;

	r = mount_thp_resolve(mount->options, &pages, error, error_size);
	if (r == 0)
		r = rlimits_check((uint64_t)pages.max * THP_PAGE_SIZE, error, error_size);
	if (r == 0)
		r = start_state(mount, &pages, error, error_size);
	if (r < 0)
		return r;
	node_pages[0] = pages.min;
	mount->data_max = pages.data_max;
	if (mount_has_source(mount))
		r = mount_source_make(mount, error, error_size);
	if (r == 0)
		r = mount_names(mount, pages.max, error, error_size);
	if (r == 0)
		r = mount_init_objects(mount, &pages, node_pages, error, error_size);
	if (r == 0)
		r = mount_thp_set_aside(mount, error, error_size);
	return r < 0 ? r : finish_state(mount, &pages, node_pages, error, error_size);
}

/* From nothing. */
static int set_up(struct mount *mount, char *error, size_t error_size)
{
	const struct mount_options *options = mount->options;
	struct pool_counts kernel;
	const char *lacks;
	int r;

	r = kernel_pool_read(options->pagesize, mount->nr_nodes, &kernel);
	mount->is_thp = is_thp(options, r < 0 ? NULL : &kernel, &mount->why_backing);
	if (mount_numa_check(options, mount->is_thp, error, error_size) < 0)
		return -EINVAL;
	if (mount->is_thp) {
		mount->nr_nodes = 1; /* where a page is, is left to the kernel */
		return set_up_thp(mount, error, error_size);
	}
	if (r < 0) {
		snprintf(error, error_size, "this kernel has no huge pages of %" PRIu64 " kB",
			 options->pagesize >> 10);
		return r;
	}
	lacks = hugetlb_lacks();
	if (!lacks)
		return set_up_hugetlb(mount, &kernel, error, error_size);
	snprintf(error, error_size, "this kernel, or this user, lacks %s", lacks);
	return -ENOSYS;
}

int mount_init(struct mount *mount, const struct mount_options *options, const char *mountpoint,
	       char *error, size_t error_size)
{
	int r;

	memset(mount, 0, sizeof(*mount));
	mount->options = options;
	mount->mountpoint = mountpoint;
	mount->names_fd = mount->state_fd = mount->source.dir_fd = mount->source.fd = -1;
	mutex_init(&mount->size_lock, LOCK_RANK_NAMESPACE);
	owner_init();
	mount->nr_nodes = numa_policy_nr_nodes();
	mount->pool_log = (struct kernel_pool_log){log_step, &mount->state};
	if (mount_has_source(mount))
		mount_source_forget(mountpoint);
	r = adopt_find(mount, error, error_size);
	lock_stat_enable(mount->options->lockstat);
	if (r == 0)
		r = set_up(mount, error, error_size);
	else if (r == 1)
		r = adopt_set_up(mount, error, error_size);
	if (r < 0)
		mount_deinit(mount);
	return r;
}

void mount_pages_freed(struct mount *mount)
{
	if (!mount->is_thp)
		return;
	adopt_settle_strays(mount);
	if (orphans_collect(&mount->orphans) > 0)
		waitqueue_wake_all(&mount->core.pool.freed);
	file_sized_balance(mount);
}

static void take_away(struct mount *mount)
{
	run_dir_unmount(mount->run_dir);
	mount_source_deinit(mount);
	if (mount->has_loan)
		kernel_pool_return(&mount->loan);
	if (mount->has_state)
		state_close(&mount->state);
	run_dir_remove(mount->run_dir, mount->state_fd);
}

void mount_deinit(struct mount *mount)
{
	if (mount->has_adopted_options)
		options_deinit(&mount->adopted_options);
	if (mount->state_fd < 0)
		return;
	mount_abandon(mount);
	if (mount->has_inodes) {
		adopted_free(mount, mount->adopted);
		mount->adopted = NULL;
	}
	if (mount->has_strays)
		page_space_deinit(&mount->strays);
	if (mount->has_inodes) {
		tenants_deinit(mount);
		inode_table_deinit(mount);
		split_deinit(&mount->split);
	}
	if (mount->has_orphans)
		orphans_deinit(&mount->orphans);
	if (mount->has_core)
		page_core_deinit(&mount->core);
	if (mount->is_thp)
		backing_thp_free(mount->backing);
	else
		backing_hugetlb_free(mount->backing);
	if (mount->names_fd >= 0)
		close(mount->names_fd);
	if (mount->keep) {
		if (mount->has_state)
			state_close(&mount->state);
		close(mount->state_fd);
	} else {
		take_away(mount);
	}
	mount->state_fd = -1;
}
