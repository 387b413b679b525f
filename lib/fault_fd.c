/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Userfaultfds. Only one that reports faults of system calls too is of use: with
 * UFFD_USER_MODE_ONLY a read(2) into a page that was never touched would fail. A process gets
 * one with CAP_SYS_PTRACE, with vm.unprivileged_userfaultfd=1, or if it may open
 * /dev/userfaultfd (Linux 6.1).
 */
#include "fault_fd.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0x00)
#endif

#define WANTED_FEATURES                                              \
	(UFFD_FEATURE_MISSING_HUGETLBFS | UFFD_FEATURE_EVENT_REMAP | \
	 UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_THREAD_ID)

static int new_fault_fd(void)
{
	struct uffdio_api api = {.api = UFFD_API, .features = WANTED_FEATURES};
	int fd, device;

	fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (fd < 0) {
		device = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
		if (device < 0)
			return -1;
		fd = ioctl(device, USERFAULTFD_IOC_NEW, O_CLOEXEC | O_NONBLOCK);
		close(device);
	}
	if (fd >= 0 && ioctl(fd, UFFDIO_API, &api) < 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static int cover(char *addr, size_t length)
{
	struct uffdio_register reg = {
		.range = {(uintptr_t)addr, length},
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	int fd = new_fault_fd();

	/* A shared mapping of a descriptor that is not open for writing cannot be registered.
	 */
	if (fd >= 0 && ioctl(fd, UFFDIO_REGISTER, &reg) < 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

unsigned int fault_fd_cover(void *addr, size_t length, size_t shard_length, int *ret_fds)
{
	unsigned int nr = 0;
	size_t part;

	for (size_t done = 0; done < length; done += part) {
		part = length - done < shard_length ? length - done : shard_length;
		ret_fds[nr] = cover((char *)addr + done, part);
		if (ret_fds[nr] < 0) {
			/* All or nothing: closing unregisters. */
			fault_fd_close(ret_fds, nr);
			return 0;
		}
		nr++;
	}
	return nr;
}

void fault_fd_close(const int *fds, unsigned int nr)
{
	for (unsigned int i = 0; i < nr; i++)
		close(fds[i]);
}
