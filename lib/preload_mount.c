/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The mount that requests without a file are served from, and its unlinked files. Nothing is
 * kept: it is asked anew each time, so that it may be mounted, unmounted, or not be reachable
 * from a process's namespace or root directory any more.
 */
#include "preload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hugefuse_protocol.h"

#define FUSE_MAGIC         0x65735546
#define NAME_TRIES         16
#define SMALLEST_HUGE_PAGE (64UL << 10)

const char *preload_mount(const char **ret_why)
{
	const char *path = getenv("HUGEFUSE_MOUNT");

	if (path && *path == '/')
		return path;
	*ret_why = "HUGEFUSE_MOUNT is not set";
	return NULL;
}

static unsigned int read_default_shift(void)
{
	unsigned int shift = 0;
	unsigned long kb = 0;
	char text[8192], *line;
	ssize_t len = 0, n;
	int fd;

	fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	while (len < (ssize_t)sizeof(text) - 1 &&
	       (n = read(fd, text + len, sizeof(text) - 1 - (size_t)len)) > 0)
		len += n;
	close(fd);
	text[len] = '\0';
	line = strstr(text, "Hugepagesize:");
	if (line)
		kb = strtoul(line + strlen("Hugepagesize:"), NULL, 10);
	while (kb << 10 >> shift > 1)
		shift++;
	return shift;
}

unsigned int preload_default_shift(void)
{
	static _Atomic(unsigned int) known;
	unsigned int shift = atomic_load(&known);

	if (shift == 0) {
		shift = read_default_shift();
		atomic_store(&known, shift);
	}
	return shift;
}

bool preload_is_direct(int fd, size_t *ret_page_size)
{
	struct hugefuse_ioc_mount mount;
	int saved_errno = errno;
	struct statfs st;
	bool direct;

	/* Nobody else's descriptor is asked by an ioctl that it may not expect. */
	direct = next_fstatfs(fd, &st) == 0 && st.f_type == FUSE_MAGIC &&
		 (unsigned long)st.f_bsize >= SMALLEST_HUGE_PAGE &&
		 ioctl(fd, HUGEFUSE_IOC_MOUNT, &mount) == 0 &&
		 mount.backing == HUGEFUSE_BACKING_HUGETLB;
	if (direct)
		*ret_page_size = mount.page_size;
	errno = saved_errno;
	return direct;
}

/* A new file, whose name is gone when this returns. */
static int make_file(const char *mount)
{
	char path[PATH_MAX];
	uint64_t number;
	int fd = -1;

	for (int i = 0; i < NAME_TRIES; i++) {
		if (getrandom(&number, sizeof(number), 0) != sizeof(number))
			return -errno;
		if (snprintf(path, sizeof(path), "%s/.anonymous-%016llx", mount,
			     (unsigned long long)number) >= (int)sizeof(path))
			return -ENAMETOOLONG;
		fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd >= 0 || errno != EEXIST)
			break;
	}
	if (fd < 0)
		return -errno;
	if (unlink(path) < 0) {
		close(fd);
		return -errno;
	}
	return fd;
}

int preload_check(const char *what, unsigned int page_shift, size_t *ret_page_size)
{
	const char *why, *mount = preload_mount(&why);
	bool direct = false;
	size_t page_size;
	int fd;

	if (!mount) {
		preload_say("%s goes to the kernel: %s", what, why);
		return -ENODEV;
	}
	fd = open(mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0) {
		direct = preload_is_direct(fd, &page_size);
		close(fd);
	}
	if (!direct) {
		preload_say("%s goes to the kernel: %s is not mounted with hugetlb pages", what,
			    mount);
		return -ENODEV;
	}
	if (page_shift == 0)
		page_shift = preload_default_shift();
	if (page_shift >= 8 * sizeof(size_t) || (size_t)1 << page_shift != page_size) {
		preload_say("%s goes to the kernel: it asks for pages of 2^%u bytes, those of "
			    "%s have %zu kB",
			    what, page_shift, mount, page_size >> 10);
		return -ENODEV;
	}
	*ret_page_size = page_size;
	return 0;
}

int preload_unlinked_file(const char *what, unsigned int page_shift, size_t size,
			  size_t *ret_page_size)
{
	int saved_errno = errno, fd, r;
	const char *why;

	r = preload_check(what, page_shift, ret_page_size);
	errno = saved_errno;
	if (r < 0)
		return r;
	fd = make_file(preload_mount(&why));
	errno = saved_errno;
	if (fd < 0) {
		preload_say("%s goes to the kernel: cannot make a file on the mount: %s", what,
			    strerror(-fd));
		return -ENODEV;
	}
	if (size > 0) {
		size = (size + *ret_page_size - 1) & ~(*ret_page_size - 1);
		/* what is too long for a file is too long for an address space */
		if (size == 0 || ftruncate(fd, (off_t)size) < 0)
			r = -ENOMEM;
	}
	if (r < 0) {
		close(fd);
		return r;
	}
	return fd;
}
