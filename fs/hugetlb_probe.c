/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the hugetlb backing needs of the kernel. No state. */
#include "fs/hugetlb_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

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
