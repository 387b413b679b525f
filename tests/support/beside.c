/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Beside: hugefuse and a tmpfs. */
#include "beside.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

#define CHILD_MS 60000

struct fixture beside_fixture;
int beside_root[2];
char beside_op[512];
const char *const beside_name[2] = {"hugefuse", "tmpfs"};

void beside_mount(const char *options)
{
	beside_mount_with(options, "mode=1777,size=256m");
}

void beside_mount_with(const char *options, const char *tmpfs_options)
{
	char dir[] = "/tmp/hugefuse-tmpfs-XXXXXX";

	memset(&beside_fixture, 0, sizeof(beside_fixture));
	fixture_mount(&beside_fixture, options);
	assert_non_null(mkdtemp(dir));
	assert_int_equal(mount("tmpfs", dir, "tmpfs", MS_NOSUID | MS_NODEV, tmpfs_options), 0);
	/* From here on it lasts as long as the descriptor, also if the test fails. */
	beside_root[1] = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(umount2(dir, MNT_DETACH), 0);
	assert_int_equal(rmdir(dir), 0);
	assert_true(beside_root[1] >= 0);
}

void beside_umount(void)
{
	close(beside_root[1]);
	fixture_umount(&beside_fixture);
}

void beside_open(void)
{
	beside_root[0] = open(beside_fixture.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (beside_root[0] < 0) {
		perror("cannot open the root");
		_exit(1);
	}
}

void differ(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "after '%s': ", beside_op);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	_exit(1);
}

void compare_number(const char *path, const char *what, long long a, long long b)
{
	if (a != b)
		differ("%s of '%s' is %lld (0%llo) on hugefuse, %lld (0%llo) on the tmpfs",
		       what, path, a, a, b, b);
}

void compare_stat(const char *path, const struct stat *a, const struct stat *b)
{
	compare_number(path, "mode", a->st_mode, b->st_mode);
	compare_number(path, "uid", a->st_uid, b->st_uid);
	compare_number(path, "gid", a->st_gid, b->st_gid);
	compare_number(path, "nlink", a->st_nlink, b->st_nlink);
	compare_number(path, "size", a->st_size, b->st_size);
	compare_number(path, "rdev", (long long)a->st_rdev, (long long)b->st_rdev);
}

static void compare_link(const char *path)
{
	char target[2][PATH_MAX + 1];
	ssize_t len[2];

	for (int side = 0; side < 2; side++)
		len[side] = readlinkat(beside_root[side], path, target[side], PATH_MAX);
	if (len[0] != len[1] || (len[0] > 0 && memcmp(target[0], target[1], (size_t)len[0])))
		differ("the targets of '%s' are different", path);
}

void compare_content(const char *path, off_t size)
{
	static char bytes[2][1 << 16];
	int fd[2];

	for (int side = 0; side < 2; side++)
		fd[side] = openat(beside_root[side], path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	compare_number(path, "being opened", fd[0] >= 0, fd[1] >= 0);
	for (off_t offset = 0; fd[0] >= 0 && offset <= size;
	     offset += (off_t)sizeof(bytes[0])) {
		ssize_t n[2];

		for (int side = 0; side < 2; side++)
			n[side] = pread(fd[side], bytes[side], sizeof(bytes[side]), offset);
		compare_number(path, "bytes read", n[0], n[1]);
		if (n[0] > 0 && memcmp(bytes[0], bytes[1], (size_t)n[0]))
			differ("the content of '%s' is different behind %lld", path,
			       (long long)offset);
	}
	for (int side = 0; side < 2; side++) {
		if (fd[side] >= 0)
			close(fd[side]);
	}
}

/* What a name stands for. Returns the type, 0 for nothing. */
mode_t compare_name(const char *path)
{
	int r[2], error[2];
	struct stat st[2];

	for (int side = 0; side < 2; side++) {
		r[side] = fstatat(beside_root[side], path, &st[side], AT_SYMLINK_NOFOLLOW);
		error[side] = r[side] < 0 ? errno : 0;
	}
	if (error[0] != error[1])
		differ("stat of '%s': %s on hugefuse, %s on the tmpfs", path,
		       strerror(error[0]), strerror(error[1]));
	if (r[0] < 0)
		return 0;
	compare_stat(path, &st[0], &st[1]);
	if (S_ISLNK(st[0].st_mode))
		compare_link(path);
	return st[0].st_mode & S_IFMT;
}

static int compare_strings(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The sorted names of a directory, or -errno. */
static int read_names(int side, const char *path, char ***ret_names)
{
	int fd = openat(beside_root[side], path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), nr = 0;
	struct dirent *entry;
	char **names = NULL;
	DIR *dir;

	if (fd < 0)
		return -errno;
	dir = fdopendir(fd);
	while ((entry = readdir(dir))) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (nr % 64 == 0)
			names = realloc(names, (size_t)(nr + 64) * sizeof(*names));
		names[nr++] = strdup(entry->d_name);
	}
	closedir(dir);
	if (nr > 0)
		qsort(names, (size_t)nr, sizeof(*names), compare_strings);
	*ret_names = names;
	return nr;
}

void compare_tree(const char *path, bool content)
{
	char **names[2] = {NULL, NULL}, child[PATH_MAX];
	struct stat st;
	int nr[2];

	for (int side = 0; side < 2; side++)
		nr[side] = read_names(side, path, &names[side]);
	compare_number(path, "entries", nr[0], nr[1]);
	for (int i = 0; i < nr[0]; i++) {
		if (strcmp(names[0][i], names[1][i]))
			differ("'%s' has '%s' on hugefuse, '%s' on the tmpfs", path,
			       names[0][i], names[1][i]);
		snprintf(child, sizeof(child), "%s/%s", path, names[0][i]);
		switch (compare_name(child)) {
		case S_IFDIR:
			compare_tree(child, content);
			break;
		case S_IFREG:
			if (content && fstatat(beside_root[0], child, &st, 0) == 0)
				compare_content(child, st.st_size);
			break;
		}
		free(names[0][i]);
		free(names[1][i]);
	}
	free(names[0]);
	free(names[1]);
}

int close_after(int fd)
{
	if (fd >= 0)
		close(fd);
	return fd;
}

int make_file(int at, const char *path)
{
	return close_after(openat(at, path, O_RDWR | O_CREAT | O_CLOEXEC, 0666));
}

long truncate_at(int at, const char *name, off_t size)
{
	int fd = openat(at, name, O_PATH | O_CLOEXEC), r;
	char path[40];

	if (fd < 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	r = truncate(path, size);
	close(fd);
	return r;
}

static int remove_tree(int dir_fd)
{
	DIR *dir = fdopendir(dir_fd);
	struct dirent *entry;

	while ((entry = readdir(dir))) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (unlinkat(dir_fd, entry->d_name, 0) == 0)
			continue;
		if (remove_tree(openat(dir_fd, entry->d_name, O_RDONLY | O_DIRECTORY)) < 0 ||
		    unlinkat(dir_fd, entry->d_name, AT_REMOVEDIR) < 0)
			return -1;
	}
	closedir(dir);
	return 0;
}

static int empty_both(void *data)
{
	beside_open();
	return remove_tree(beside_root[0]) < 0 || remove_tree(beside_root[1]) < 0;
}

void beside_run(int (*function)(void *data), void *data, uid_t uid)
{
	assert_int_equal(run_child(function, data, uid, CHILD_MS), 0);
}

void beside_empty(void)
{
	beside_run(empty_both, NULL, 0);
}
