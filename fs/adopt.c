/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Adopting a dead daemon's mount: the lock, the journal, the options, the private filesystems,
 * the loan. The files are fs/adopt_files.c's, the clients fs/adopt_clients.c's.
 *
 * What was left before the journal said that all is ready, or after names/ was unmounted, is
 * nothing to adopt: no file has been in it, or it was being given back.
 */
#include "fs/adopt.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/backing_hugetlb.h"
#include "fs/backing_thp.h"
#include "fs/log.h"
#include "fs/mount_thp.h"
#include "fs/run_dir.h"

#define OPTIONS_MAX 4096

/* The loan as it is after what was under way when the daemon died. */
static int settle_loan(struct state *state, struct kernel_pool_loan *ret_loan)
{
	struct kernel_pool_loan loan = state->loan;
	int r = 0;

	if (!state->has_loan) {
		loan.page_size = state->setup.page_size;
		loan.nr_nodes = (int)state->setup.nr_nodes;
	}
	if (state->nr_steps > 0)
		r = kernel_pool_settle(&loan, state->steps, state->nr_steps);
	if (r == 0)
		*ret_loan = loan;
	return r;
}

/* The loan from the journal; where that is damaged, from the copy. -ENOENT: there was none. */
static int read_loan(int state_fd, struct kernel_pool_loan *ret_loan)
{
	struct journal_damage damage;
	struct state state;
	bool has_loan;
	int r;

	r = state_salvage(&state, state_fd, &damage);
	if (r < 0)
		return kernel_pool_load(ret_loan, state_fd, "kernel-pool");
	has_loan = state.has_setup && (state.has_loan || state.nr_steps > 0);
	if (damage.lost_bytes > 0 && kernel_pool_load(ret_loan, state_fd, "kernel-pool") == 0)
		r = 0;
	else
		r = has_loan ? settle_loan(&state, ret_loan) : -ENOENT;
	state_close(&state);
	return r;
}

int64_t adopt_loan_pages(int state_fd)
{
	struct kernel_pool_loan loan = {0};
	int64_t nr = 0;

	if (read_loan(state_fd, &loan) < 0)
		return 0;
	for (int node = 0; node < loan.nr_nodes; node++)
		nr += loan.node_pages[node];
	return nr;
}

void adopt_clean_up(const char *run_dir, int state_fd)
{
	struct kernel_pool_loan loan = {0};

	run_dir_unmount(run_dir);
	mount_source_clean_up(state_fd);
	if (geteuid() == 0 && read_loan(state_fd, &loan) == 0)
		kernel_pool_return(&loan);
	run_dir_remove(run_dir, state_fd);
}

/* 0: it is there, -ENOENT: it is not; else whether it is there cannot be told. */
static int close_found(int fd)
{
	if (fd >= 0)
		close(fd);
	if (fd == -ENOTDIR || fd == -ELOOP)
		return -ENOENT;
	return fd < 0 ? fd : 0;
}

/* 0 if names/ and what else there has to be is mounted, -ENOENT if not, or -errno: then nothing
 * may be given up. */
static int check_whole(const struct mount *mount)
{
	const struct state *state = &mount->state;
	int r;

	if (!state->ready || !state->has_setup)
		return -ENOENT;
	r = close_found(run_dir_open_mount(mount->run_dir, "names", TMPFS_MAGIC));
	if (r < 0)
		return r;
	return close_found(state->setup.is_thp ? run_dir_open_hidden(mount->run_dir, "reserve")
					       : run_dir_open_mount(mount->run_dir, "data",
								    HUGETLBFS_MAGIC));
}

/* ---- options ---- */

static bool is_same_size(const struct option_size *a, const struct option_size *b)
{
	return a->is_percent == b->is_percent &&
	       (a->is_percent ? a->percent == b->percent : a->bytes == b->bytes);
}

/* What the private filesystems have for life, and so cannot be asked for otherwise. */
static const char *find_difference(const struct mount_options *wanted,
				   const struct mount_options *stored, bool is_thp)
{
	if (wanted->pagesize != stored->pagesize)
		return "pagesize";
	if (wanted->backing != BACKING_AUTO && (wanted->backing == BACKING_THP) != is_thp)
		return "backing";
	if (!is_same_size(&wanted->size, &stored->size) ||
	    memcmp(&wanted->node_sizes, &stored->node_sizes, sizeof(wanted->node_sizes)) != 0)
		return "size";
	if (!is_same_size(&wanted->min_size, &stored->min_size))
		return "min_size";
	if (!is_same_size(&wanted->max_size, &stored->max_size))
		return "max_size";
	return NULL;
}

/* The end of the option that @list begins with. */
static char *option_end(char *list)
{
	/* Lists of nodes have commas, and no option begins with a digit. */
	for (; *list && (*list != ',' || isdigit((unsigned char)list[1])); list++) {
		if (*list == '\\' && list[1])
			list++;
	}
	return list;
}

/* Let what is not given be as it was: an option that was given is refused a second time. */
static void add_stored(struct mount_options *options, char *list)
{
	char error[1024], *end, last;
	bool has_fsname = options->fsname;

	for (; *list; list = last ? end + 1 : end) {
		end = option_end(list);
		last = *end;
		*end = '\0';
		if (!has_fsname || strncmp(list, "fsname=", 7) != 0)
			options_parse(options, list, error, sizeof(error));
	}
}

static int refuse_option(const struct mount *mount, const char *name, char *error,
			 size_t error_size)
{
	snprintf(
		error, error_size,
		"the mount whose daemon died has another %s= (it was mounted with '%s'); leave "
		"%s= out to go on with it, or give its files and pages up by 'hugefuse umount "
		"%s'",
		name, mount->state.options, name, mount->mountpoint);
	return -EINVAL;
}

static int merge_options(struct mount *mount, char *error, size_t error_size)
{
	struct mount_options stored, *merged = &mount->adopted_options;
	char *list = strdup(mount->state.options ? mount->state.options : "");
	const char *different = NULL;
	int r;

	*merged = *mount->options;
	if (merged->fsname)
		merged->fsname = strdup(merged->fsname);
	mount->has_adopted_options = true;
	if (!mount->state.setup.is_thp && !mount->state.options)
		merged->pagesize = mount->state.setup.page_size;
	options_init(&stored);
	r = list ? options_parse(&stored, list, error, error_size) : -ENOMEM;
	if (r == 0 && *list) {
		add_stored(merged, list);
		different = find_difference(merged, &stored, mount->state.setup.is_thp);
	}
	if (different)
		r = refuse_option(mount, different, error, error_size);
	options_deinit(&stored);
	free(list);
	if (r == 0)
		mount->options = merged;
	return r;
}

/* ---- finding ---- */

static int refuse_damaged(const struct mount *mount, const struct journal_damage *damage,
			  char *error, size_t error_size)
{
	snprintf(error, error_size,
		 "%s/state/journal is damaged at byte %" PRIu64 ", %" PRIu64
		 " bytes; 'hugefuse fsck --repair %s' rebuilds it from the files and pages",
		 mount->run_dir, damage->offset, damage->lost_bytes, mount->mountpoint);
	return -EUCLEAN;
}

static int open_journal(struct mount *mount, char *error, size_t error_size)
{
	struct journal_damage damage;
	int r;

	r = state_open(&mount->state, mount->state_fd, &damage);
	if (r == -EUCLEAN)
		return refuse_damaged(mount, &damage, error, error_size);
	if (r < 0) {
		snprintf(error, error_size, "%s/state/journal: %s", mount->run_dir,
			 r == -EPROTO ? "written by another version" : strerror(-r));
		return r;
	}
	mount->has_state = true;
	if (damage.torn_bytes > 0)
		log_warning(
			"%s: the last %" PRIu64
			" bytes of the journal were not written to the end, and are cut off",
			mount->mountpoint, damage.torn_bytes);
	return 0;
}

int adopt_find(struct mount *mount, char *error, size_t error_size)
{
	char source[PATH_MAX];
	int r;

	r = run_dir_take(mount->mountpoint, mount->run_dir, &mount->state_fd, error,
			 error_size);
	if (r <= 0)
		return r;
	mount->keep = true;
	if (run_dir_read_note(mount->state_fd, "source", source) == 0) {
		snprintf(error, error_size,
			 "a daemon that died has left pages in %s; run 'hugefuse umount %s' to "
			 "give them back",
			 source, mount->mountpoint);
		return -EBUSY;
	}
	r = open_journal(mount, error, error_size);
	if (r < 0)
		return r;
	r = check_whole(mount);
	if (r == 0) {
		r = merge_options(mount, error, error_size);
		return r < 0 ? r : 1;
	}
	if (r != -ENOENT) {
		snprintf(error, error_size, "%s: %s", mount->run_dir, strerror(-r));
		return r;
	}
	state_close(&mount->state);
	mount->has_state = mount->keep = false;
	adopt_clean_up(mount->run_dir, mount->state_fd);
	mount->state_fd = -1;
	return 0;
}

/* ---- setting up ---- */

/* stat(2) may be answered by what the kernel remembers. */
static bool is_dead_mount(const char *mountpoint)
{
	int fd = open(mountpoint, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOTCONN;
	close(fd);
	return false;
}

/* The dead mount itself, under which the mount point is. */
void adopt_detach_dead(const char *mountpoint)
{
	while (is_dead_mount(mountpoint) &&
	       umount2(mountpoint, UMOUNT_NOFOLLOW | MNT_DETACH) == 0)
		;
}

static int open_backing(struct mount *mount)
{
	int fd, r;

	mount->names_fd = run_dir_open_mount(mount->run_dir, "names", TMPFS_MAGIC);
	if (mount->names_fd < 0)
		return mount->names_fd;
	fd = mount->is_thp ? run_dir_open_hidden(mount->run_dir, "reserve")
			   : run_dir_open_mount(mount->run_dir, "data", HUGETLBFS_MAGIC);
	if (fd < 0)
		return fd;
	r = mount->is_thp ? backing_thp_new(fd, &mount->backing)
			  : backing_hugetlb_new(fd, mount->options->pagesize, mount->nr_nodes,
						mount->data_min, &mount->backing);
	if (r < 0)
		close(fd);
	return r;
}

static int adopt_loan(struct mount *mount)
{
	int r;

	if (mount->is_thp)
		return 0;
	r = settle_loan(&mount->state, &mount->loan);
	if (r < 0)
		return r;
	mount->loan.log = &mount->pool_log;
	mount->has_loan = true;
	return mount->state.nr_steps > 0 ? mount_save_loan(mount) : 0;
}

/* A size of the pool that was set since it was mounted, before the files are counted. */
static void adopt_size(struct mount *mount)
{
	const struct state_size *size = &mount->state.size;
	int64_t total = 0, more;

	if (!mount->state.has_size)
		return;
	for (int node = 0; node < mount->loan.nr_nodes; node++)
		total += mount->loan.node_pages[node];
	mount->nr_extra = total - size->first_loan;
	mount->is_resized = true;
	subpool_drop_limits(&mount->core.subpool);
	pool_set_overcommit(&mount->core.pool, size->overcommit);
	/* What is too much goes when the files are counted. */
	more = mount->is_thp ? mount_thp_room(mount) - mount->state.setup.max : mount->nr_extra;
	if (more > 0)
		pool_resize(&mount->core.pool, 0, more);
}

int adopt_set_up(struct mount *mount, char *error, size_t error_size)
{
	const struct state_setup *setup = &mount->state.setup;
	struct mount_pages pages = {
		.max = setup->max, .min = setup->min, .data_max = setup->data_max};
	struct state_size size;
	int r;

	mount->adopted = calloc(1, sizeof(*mount->adopted));
	if (!mount->adopted)
		return -ENOMEM;
	mount->adopting = true;
	mount->is_thp = setup->is_thp;
	mount->nr_nodes = (int)setup->nr_nodes;
	mount->data_max = pages.data_max;
	mount->data_min = pages.min;
	adopt_detach_dead(mount->mountpoint);
	r = open_backing(mount);
	if (r == 0)
		r = adopt_loan(mount);
	if (r == 0)
		r = mount_init_objects(mount, &pages, setup->node_pages, error, error_size);
	if (r < 0) {
		snprintf(error, error_size, "cannot take over %s: %s", mount->run_dir,
			 strerror(-r));
		return r;
	}
	adopt_size(mount);
	/* Who has one is not written down anywhere else. */
	mount->has_numa_rules = true;
	r = adopt_files(mount, mount->adopted);
	if (r < 0)
		snprintf(error, error_size, "cannot take over the files in %s: %s",
			 mount->run_dir, strerror(-r));
	size = mount->state.size;
	if (r == 0 && mount->state.has_size)
		mount_set_nr_pages(mount, POOL_ANY_NODE,
				   size.nr / backing_chunk(mount->backing));
	return r;
}

int adopted_add_nameless(struct adopted *adopted, uint64_t old_ino, struct inode *inode)
{
	struct nameless *grown;

	grown = realloc(adopted->nameless, (adopted->nr_nameless + 1) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	adopted->nameless = grown;
	grown[adopted->nr_nameless++] = (struct nameless){old_ino, inode};
	return 0;
}

void adopted_free(struct mount *mount, struct adopted *adopted)
{
	if (!adopted)
		return;
	for (size_t i = 0; i < adopted->nr_nameless; i++)
		inode_put(mount, adopted->nameless[i].inode, 1);
	free(adopted->nameless);
	vma_list_free(&adopted->vmas);
	free(adopted);
}
