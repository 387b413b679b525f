/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Neither recursion nor a descriptor for each level: directories inside of others are moved to
 * the top first, so that depth costs nothing.
 */
#include "fs/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct tree {
	int top_fd;
	dev_t dev;
	unsigned long nr_moved; /* names that were given at the top */
	bool progress;
	int error; /* the first one of this pass */
};

static void note(struct tree *tree, int error)
{
	if (tree->error == 0)
		tree->error = -error;
}

static DIR *open_stream(int fd)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = copy < 0 ? NULL : fdopendir(copy);

	if (!stream && copy >= 0)
		close(copy);
	return stream;
}

static const char *next_name(DIR *stream)
{
	struct dirent *entry;

	do
		entry = readdir(stream);
	while (entry && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0));
	return entry ? entry->d_name : NULL;
}

/* Open a directory, and be allowed to change it. */
static int open_dir(int at, const char *name)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	int fd = openat(at, name, flags);

	/* It is our own, and nobody else is here. */
	if (fd < 0 && errno == EACCES && fchmodat(at, name, 0700, 0) == 0)
		fd = openat(at, name, flags);
	if (fd >= 0)
		fchmod(fd, 0700);
	return fd;
}

/* To a name at the top that nothing has. */
static int move_to_top(struct tree *tree, int fd, const char *name)
{
	char moved[32];
	int r;

	do {
		snprintf(moved, sizeof(moved), "moved-%lu", tree->nr_moved++);
		r = renameat2(fd, name, tree->top_fd, moved, RENAME_NOREPLACE);
	} while (r < 0 && errno == EEXIST);
	return r;
}

/* Remove what is in @fd, a directory at the top; directories go to the top. */
static void empty(struct tree *tree, int fd)
{
	DIR *stream = open_stream(fd);
	const char *name;
	int child;

	if (!stream) {
		note(tree, errno);
		return;
	}
	while ((name = next_name(stream))) {
		if (unlinkat(fd, name, 0) == 0 || errno == ENOENT)
			continue;
		if (errno != EISDIR && errno != EPERM) {
			note(tree, errno);
			continue;
		}
		/* A directory is moved by who may write to it. */
		child = open_dir(fd, name);
		if (child >= 0)
			close(child);
		if (move_to_top(tree, fd, name) < 0)
			note(tree, errno);
	}
	closedir(stream);
}

static void remove_dir(struct tree *tree, const char *name)
{
	int fd = open_dir(tree->top_fd, name);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0) {
		note(tree, errno);
	} else if (st.st_dev != tree->dev) {
		note(tree, EXDEV);
	} else {
		empty(tree, fd);
		if (unlinkat(tree->top_fd, name, AT_REMOVEDIR) < 0)
			note(tree, errno);
		else
			tree->progress = true;
	}
	if (fd >= 0)
		close(fd);
}

/* Once through the top. Directories that were moved there may be found in the next pass. */
static void remove_all(struct tree *tree)
{
	DIR *stream = open_stream(tree->top_fd);
	const char *name;

	tree->progress = false;
	tree->error = 0;
	if (!stream) {
		note(tree, errno);
		return;
	}
	while ((name = next_name(stream))) {
		if (unlinkat(tree->top_fd, name, 0) == 0)
			tree->progress = true;
		else if (errno == EISDIR || errno == EPERM)
			remove_dir(tree, name);
		else if (errno != ENOENT)
			note(tree, errno);
	}
	closedir(stream);
}

int tree_remove(int dir_fd, const char *name)
{
	struct tree tree = {0};
	struct stat st;
	int r = 0;

	tree.top_fd = open_dir(dir_fd, name);
	if (tree.top_fd < 0)
		return errno == ENOENT ? 0 : -errno;
	if (fstat(tree.top_fd, &st) < 0)
		note(&tree, errno);
	tree.dev = st.st_dev;
	do
		remove_all(&tree);
	while (tree.progress);
	if (unlinkat(dir_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		r = tree.error ? tree.error : -errno;
	close(tree.top_fd);
	return r;
}
