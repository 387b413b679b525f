/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * memfd_create(2), and what a mount with hugetlb pages says that it is: programs look for
 * hugetlbfs by the type that statfs(2) reports.
 */
#undef _FILE_OFFSET_BITS /* statfs() is to be statfs() here */
#include "preload.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGETLBFS_MAGIC 0x958458f6
#define FUSE_MAGIC      0x65735546
#define MEMFD_NAME_MAX  249

#ifndef MFD_HUGE_SHIFT
#define MFD_HUGE_SHIFT 26
#define MFD_HUGE_MASK  0x3f
#endif

EXPORT int memfd_create(const char *name, unsigned int flags)
{
	const unsigned int known = MFD_CLOEXEC | MFD_HUGETLB |
				   (unsigned int)MFD_HUGE_MASK << MFD_HUGE_SHIFT;
	size_t page_size;
	int saved_errno = errno, fd;

	if (!(flags & MFD_HUGETLB))
		return next_memfd_create(name, flags);
	if (flags & ~known || strnlen(name, MEMFD_NAME_MAX + 1) > MEMFD_NAME_MAX) {
		preload_say("memfd_create(MFD_HUGETLB) goes to the kernel: the mount's files "
			    "cannot be sealed");
		return next_memfd_create(name, flags);
	}
	fd = preload_unlinked_file("memfd_create(MFD_HUGETLB)",
				   flags >> MFD_HUGE_SHIFT & MFD_HUGE_MASK, 0, &page_size);
	if (fd == -ENODEV)
		return next_memfd_create(name, flags);
	if (fd < 0) {
		errno = -fd;
		return -1;
	}
	if (!(flags & MFD_CLOEXEC))
		fcntl(fd, F_SETFD, 0);
	errno = saved_errno;
	return fd;
}

static void say_hugetlbfs(int fd, struct statfs *buf)
{
	size_t page_size;

	if (fd < 0 || !preload_is_direct(fd, &page_size))
		return;
	buf->f_type = (__typeof__(buf->f_type))HUGETLBFS_MAGIC;
	buf->f_bsize = (__typeof__(buf->f_bsize))page_size;
}

EXPORT int statfs(const char *path, struct statfs *buf)
{
	int r = next_statfs(path, buf), saved_errno = errno, fd;

	if (r == 0 && buf->f_type == FUSE_MAGIC) {
		fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
		say_hugetlbfs(fd, buf);
		if (fd >= 0)
			close(fd);
		errno = saved_errno;
	}
	return r;
}

EXPORT int fstatfs(int fd, struct statfs *buf)
{
	int r = next_fstatfs(fd, buf);

	if (r == 0 && buf->f_type == FUSE_MAGIC)
		say_hugetlbfs(fd, buf);
	return r;
}

EXPORT int statfs64(const char *path, struct statfs64 *buf)
{
	_Static_assert(sizeof(struct statfs) == sizeof(struct statfs64), "64 bits");
	return statfs(path, (struct statfs *)buf);
}

EXPORT int fstatfs64(int fd, struct statfs64 *buf)
{
	return fstatfs(fd, (struct statfs *)buf);
}
