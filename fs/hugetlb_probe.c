/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A mapping whose userfaultfd answers missing pages with SIGBUS tells the two apart without
 * allocating: populating it for reading works, or fails with EFAULT.
 */
#include "fs/hugetlb_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

#define PAGES_AT_A_TIME 4096 /* in one mapping */

int hugetlb_open_probe(void)
{
	struct uffdio_api api = {.api = UFFD_API,
				 .features = UFFD_FEATURE_MISSING_HUGETLBFS |
					     UFFD_FEATURE_SIGBUS};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	/* It is never asked who has faulted, so any user's will do. */
	if (fd < 0)
		fd = (int)syscall(SYS_userfaultfd,
				  O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
	if (fd >= 0 && ioctl(fd, UFFDIO_API, &api) < 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

const char *hugetlb_lacks(void)
{
	int fd = hugetlb_open_probe();

	if (fd < 0)
		return "userfaultfd(2) of huge pages (CONFIG_USERFAULTFD)";
	close(fd);
	fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	if (fd < 0)
		return "pidfd_open(2) (Linux 5.3)";
	close(fd);
	if (madvise(NULL, 0, MADV_POPULATE_WRITE) < 0)
		return "MADV_POPULATE_WRITE (Linux 5.14)";
	return NULL;
}

static int is_there(char *page, uint64_t page_size)
{
	int r;

	do
		r = madvise(page, page_size, MADV_POPULATE_READ) < 0 ? -errno : 1;
	while (r == -EINTR);
	return r == -EFAULT ? 0 : r;
}

/* Map [from, from + nr) of @fd so that missing pages are not made; NULL and errno. */
static char *map_pages(int probe, int fd, uint64_t page_size, int64_t from, int64_t nr)
{
	struct uffdio_register reg = {.mode = UFFDIO_REGISTER_MODE_MISSING};
	size_t length = (size_t)nr * page_size;
	char *addr;
	int saved_errno;

	addr = mmap(NULL, length, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd,
		    (off_t)((uint64_t)from * page_size));
	if (addr == MAP_FAILED)
		return NULL;
	reg.range.start = (uintptr_t)addr;
	reg.range.len = length;
	if (ioctl(probe, UFFDIO_REGISTER, &reg) == 0)
		return addr;
	saved_errno = errno;
	munmap(addr, length);
	errno = saved_errno;
	return NULL;
}

int hugetlb_probe_page(int probe, int fd, uint64_t page_size, int64_t idx)
{
	char *addr;
	int r;

	if (probe < 0)
		return -EOPNOTSUPP;
	addr = map_pages(probe, fd, page_size, idx, 1);
	if (!addr)
		return -errno;
	r = is_there(addr, page_size);
	munmap(addr, page_size);
	return r;
}

int hugetlb_probe_range(int probe, int fd, uint64_t page_size, int64_t from, int64_t to,
			int (*found)(void *data, int64_t idx), void *data)
{
	int64_t nr;
	char *addr;
	int r = 0;

	if (probe < 0)
		return -EOPNOTSUPP;
	for (; from < to && r == 0; from += nr) {
		nr = to - from < PAGES_AT_A_TIME ? to - from : PAGES_AT_A_TIME;
		addr = map_pages(probe, fd, page_size, from, nr);
		if (!addr)
			return -errno;
		for (int64_t i = 0; i < nr && r == 0; i++) {
			r = is_there(addr + (uint64_t)i * page_size, page_size);
			if (r > 0)
				r = found(data, from + i);
		}
		munmap(addr, (size_t)nr * page_size);
	}
	return r;
}
