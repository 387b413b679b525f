// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Paths of inodes, as the kernel tells them for the O_PATH descriptors. No state, no locks; a
 * path may be out of date when it is returned.
 */
#include "fs/inode.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fs/mount.h"

static const char deleted_suffix[] = " (deleted)";

void inode_fd_path(const struct inode *inode, char buf[INODE_FD_PATH_SIZE])
{
	snprintf(buf, INODE_FD_PATH_SIZE, "/proc/self/fd/%d", inode->fd);
}

static int read_fd_link(int fd, char *buf, size_t buf_size)
{
	char link[INODE_FD_PATH_SIZE];
	ssize_t len;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	len = readlink(link, buf, buf_size);
	if (len < 0)
		return -errno;
	if ((size_t)len >= buf_size)
		return -ENAMETOOLONG;
	buf[len] = '\0';
	return len;
}

/*
 * The name that a file with several links was opened by may be gone: the kernel then says
 * "(deleted)", which is not true while another link is left.
 */
static void strip_deleted(struct mount *mount, const struct inode *inode, char *path)
{
	size_t len = strlen(path), suffix_len = sizeof(deleted_suffix) - 1;
	struct stat st;

	if (len <= suffix_len || strcmp(path + len - suffix_len, deleted_suffix) != 0)
		return;
	if (fstatat(mount->names_fd, path + 1, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    st.st_ino == inode->ino)
		return; /* that is its name */
	path[len - suffix_len] = '\0';
}

int inode_path(struct mount *mount, struct inode *inode, char *buf, size_t buf_size)
{
	char root[PATH_MAX], path[PATH_MAX + sizeof(deleted_suffix)];
	struct stat st;
	int root_len, len;

	root_len = read_fd_link(mount->names_fd, root, sizeof(root));
	if (root_len < 0)
		return root_len;
	if (root_len == 1) /* names/ is the root of a detached mount */
		root_len = 0;
	len = read_fd_link(inode->fd, path, sizeof(path));
	if (len < 0)
		return len;
	if (len < root_len || strncmp(path, root, root_len) != 0)
		return -ENOENT;
	if (inode->ino == mount->inodes.root_ino)
		strcpy(path + root_len, "/");
	else if (fstat(inode->fd, &st) == 0 && st.st_nlink)
		strip_deleted(mount, inode, path + root_len);
	if (strlen(path + root_len) >= buf_size)
		return -ENAMETOOLONG;
	strcpy(buf, path + root_len);
	return 0;
}
