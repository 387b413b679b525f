/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Leftovers, counted as the filesystems have them: the journal may be damaged. */
#include "fs/leftovers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "fs/adopt.h"
#include "fs/run_dir.h"

/* Files and pages of a directory that has no others in it. */
static void count_files(int dir_fd, struct leftovers *leftovers)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	struct stat st;

	while (dir && (entry = readdir(dir))) {
		if (fstatat(dir_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !S_ISREG(st.st_mode) || st.st_blocks == 0)
			continue;
		leftovers->nr_files++;
		leftovers->nr_pages += st.st_blocks / (int64_t)(leftovers->page_size / 512);
	}
	if (dir)
		closedir(dir);
}

static void count_hugetlb(int data_fd, struct leftovers *leftovers)
{
	struct statfs fs;
	struct stat st;

	if (fstatfs(data_fd, &fs) == 0)
		leftovers->page_size = (uint64_t)fs.f_bsize;
	if (leftovers->page_size >= 4096)
		count_files(data_fd, leftovers);
	if (fstat(data_fd, &st) == 0)
		vma_list_read(st.st_dev, &leftovers->vmas);
}

/* The files may be anywhere, and the reserve is none of them: only pages are told. */
static void count_thp(int names_fd, struct leftovers *leftovers)
{
	struct statfs fs;

	leftovers->page_size = (uint64_t)2 << 20;
	leftovers->is_thp = true;
	if (fstatfs(names_fd, &fs) == 0)
		leftovers->nr_pages =
			(int64_t)((fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize +
				  leftovers->page_size - 1) /
			(int64_t)leftovers->page_size;
}

int leftovers_read(const char *run_dir, const char *name, int state_fd,
		   struct leftovers *ret_leftovers)
{
	int names_fd, data_fd, r;

	memset(ret_leftovers, 0, sizeof(*ret_leftovers));
	r = run_dir_mountpoint(name, ret_leftovers->mountpoint);
	if (r < 0)
		return r;
	names_fd = run_dir_open_mount(run_dir, "names", TMPFS_MAGIC);
	data_fd = run_dir_open_mount(run_dir, "data", HUGETLBFS_MAGIC);
	if (data_fd >= 0)
		count_hugetlb(data_fd, ret_leftovers);
	else if (names_fd >= 0)
		count_thp(names_fd, ret_leftovers);
	ret_leftovers->nr_lent = adopt_loan_pages(state_fd);
	if (names_fd >= 0)
		close(names_fd);
	if (data_fd >= 0)
		close(data_fd);
	return 0;
}

void leftovers_free(struct leftovers *leftovers)
{
	vma_list_free(&leftovers->vmas);
}
