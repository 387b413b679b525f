// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * files: a line for every regular file. The tree is walked with a list of directories still to
 * be read, not by recursion: how deep it is, is up to the users of the mount. They may also put
 * a symbolic link where a directory was while we walk, which must not lead us out:
 * RESOLVE_BENEATH.
 *
 * No lock is held; a file that is renamed meanwhile may be missed or found twice, and is
 * printed once if it has several links.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fs/rcu.h"
#include "fs/reconcile.h"
#include "fs/stats_holders.h"
#include "fs/stats_text.h"

struct path_node {
	struct path_node *next;
	char path[]; /* from the mount's root, "" for that */
};

struct walk {
	struct mount *mount;
	FILE *out;
	struct path_node *todo;
	struct holders holders;
	uint64_t *printed; /* numbers of those that have pages */
	size_t nr_printed, max_printed;
	void *linked; /* tsearch() tree of the numbers of printed files with several links */
};

/* As mangle_path() with the characters of /proc/mounts. */
void stats_text_escape(FILE *out, const char *string)
{
	for (; *string; string++) {
		if (strchr(" \t\n\\#", *string))
			fprintf(out, "\\%03o", (unsigned char)*string);
		else
			fputc(*string, out);
	}
}

/* How processes map it, or may map it while it is open. */
static const char *way_of(const struct inode *inode, uint32_t nr_mappings)
{
	if (nr_mappings)
		return "direct";
	return inode && inode->passthrough_id ? "passthrough" : "none";
}

/* Behind the path: since when, and by whom. */
static void print_use(const struct walk *walk, uint64_t ino, const struct inode *inode,
		      const struct page_space *pages)
{
	pid_t user = inode ? inode->user_pid : 0;

	fprintf(walk->out, " %" PRIu64 " %" PRIu64 " ", pages ? pages->made_ms : 0,
		pages ? (uint64_t)pages->changed_ms : 0);
	holders_print(&walk->holders, ino, walk->out);
	if (user)
		fprintf(walk->out, " %d %u\n", user, inode->user_uid);
	else
		fputs(" - -\n", walk->out);
}

/* Remember that the file was printed; without memory it may be printed again. */
static void note_printed(struct walk *walk, uint64_t ino)
{
	size_t size = walk->max_printed ? 2 * walk->max_printed : 1024;
	uint64_t *bigger;

	if (walk->nr_printed == walk->max_printed) {
		bigger = reallocarray(walk->printed, size, sizeof(*bigger));
		if (!bigger)
			return;
		walk->printed = bigger;
		walk->max_printed = size;
	}
	walk->printed[walk->nr_printed++] = ino;
}

/* @inode is the table's, or NULL where it has none. Inside an RCU read side. */
static void print_file(const struct walk *walk, const struct stat *st, struct inode *inode,
		       const char *path)
{
	struct mount *mount = walk->mount;
	FILE *out = walk->out;
	struct page_space *pages = inode ? atomic_load(&inode->pages) : NULL;
	uint32_t nr_mappings = inode ? atomic_load(&inode->nr_mappings) : 0;
	int64_t page_kb = (int64_t)(mount->backing->page_size / 1024);
	struct page_space_counts counts = {};

	if (pages) {
		reconcile_look(mount, inode, st);
		page_space_read(pages, &counts);
	}
	fprintf(out, "%" PRIu64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRIu32 " %s %ju %u ",
		(uint64_t)st->st_ino, (int64_t)st->st_size, counts.resv * page_kb,
		counts.instantiated * page_kb, nr_mappings, way_of(inode, nr_mappings),
		(uintmax_t)st->st_nlink, st->st_uid);
	stats_text_escape(out, path);
	print_use(walk, st->st_ino, inode, pages);
}

static int compare_inos(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Whether the file with several links is new to us. */
static bool note_linked(struct walk *walk, uint64_t ino)
{
	uint64_t *key = malloc(sizeof(*key));
	uint64_t **found;

	if (!key)
		return true;
	*key = ino;
	found = tsearch(key, &walk->linked, compare_inos);
	if (found && *found == key)
		return true;
	free(key);
	return !found;
}

static int push_dir(struct walk *walk, const char *parent, const char *name)
{
	size_t parent_len = strlen(parent), name_len = strlen(name);
	struct path_node *node = malloc(sizeof(*node) + parent_len + 1 + name_len + 1);

	if (!node)
		return -ENOMEM;
	memcpy(node->path, parent, parent_len);
	node->path[parent_len] = '/';
	memcpy(node->path + parent_len + 1, name, name_len + 1);
	node->next = walk->todo;
	walk->todo = node;
	return 0;
}

static void visit_file(struct walk *walk, const char *dir, const char *name,
		       const struct stat *st)
{
	char path[PATH_MAX + NAME_MAX + 2];
	struct inode *inode;

	if (st->st_nlink > 1 && !note_linked(walk, st->st_ino))
		return;
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	rcu_reader_lock();
	inode = inode_lookup(walk->mount, st->st_ino);
	if (inode && atomic_load(&inode->pages))
		note_printed(walk, st->st_ino);
	print_file(walk, st, inode, path);
	rcu_reader_unlock();
}

/* A directory that has gone, or is too deep for a path, has nothing to show. */
static DIR *open_dir(struct mount *mount, const char *path)
{
	struct open_how how = {
		.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	DIR *dir;
	int fd;

	fd = syscall(SYS_openat2, mount->names_fd, *path ? path + 1 : ".", &how, sizeof(how));
	if (fd < 0)
		return NULL;
	dir = fdopendir(fd);
	if (!dir)
		close(fd);
	return dir;
}

static int visit_dir(struct walk *walk, const char *path)
{
	DIR *dir = open_dir(walk->mount, path);
	struct dirent *dirent;
	struct stat st;
	int err = 0;

	if (!dir)
		return 0;
	while (!err && (dirent = readdir(dir))) {
		if (!strcmp(dirent->d_name, ".") || !strcmp(dirent->d_name, ".."))
			continue;
		if (dirent->d_type == DT_DIR)
			err = push_dir(walk, path, dirent->d_name);
		else if (dirent->d_type == DT_REG &&
			 fstatat(dirfd(dir), dirent->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			 S_ISREG(st.st_mode))
			visit_file(walk, path, dirent->d_name, &st);
	}
	closedir(dir);
	return err;
}

/* Where nothing was, there is no array, which bsearch(3) does not take. */
static bool was_printed(const struct walk *walk, uint64_t ino)
{
	return walk->nr_printed > 0 && bsearch(&ino, walk->printed, walk->nr_printed,
					       sizeof(*walk->printed), compare_inos);
}

static int visit_unlinked(struct mount *mount, struct inode *inode, void *data)
{
	const struct walk *walk = data;
	char path[PATH_MAX];
	struct stat st;

	if (was_printed(walk, inode->ino))
		return 0;
	if (fstat(inode->fd, &st) < 0 || st.st_nlink ||
	    inode_path(mount, inode, path, sizeof(path)))
		return 0;
	print_file(walk, &st, inode, path);
	return 0;
}

static int visit_orphan(struct page_space *pages, void *data)
{
	const struct walk *walk = data;
	struct page_space_counts counts;
	int64_t page_kb = (int64_t)(walk->mount->backing->page_size / 1024);

	page_space_read(pages, &counts);
	fprintf(walk->out, "%" PRIu64 " %" PRId64 " %" PRId64 " %" PRId64 " 0 passthrough 0 0 ",
		pages->object, pages->nr_pages * page_kb * 1024, counts.resv * page_kb,
		counts.instantiated * page_kb);
	stats_text_escape(walk->out, STATS_ORPHAN_PATH);
	print_use(walk, pages->object, NULL, pages);
	return 0;
}

int stats_text_files(struct mount *mount, FILE *out)
{
	struct walk walk = {.mount = mount, .out = out};
	struct path_node *node;
	int err;

	err = holders_init(mount, &walk.holders);
	if (err)
		return err;
	fputs("inode size reserved_kb instantiated_kb mappings way links uid path "
	      "made_ms changed_ms holders user_pid user_uid\n",
	      out);
	err = visit_dir(&walk, "");
	while ((node = walk.todo)) {
		walk.todo = node->next;
		if (!err)
			err = visit_dir(&walk, node->path);
		free(node);
	}
	tdestroy(walk.linked, free);
	if (walk.nr_printed > 0)
		qsort(walk.printed, walk.nr_printed, sizeof(*walk.printed), compare_inos);
	if (!err)
		err = inode_for_each(mount, visit_unlinked, &walk);
	free(walk.printed);
	if (!err && mount->has_orphans)
		err = orphans_for_each(&mount->orphans, visit_orphan, &walk);
	holders_deinit(&walk.holders);
	return err;
}
