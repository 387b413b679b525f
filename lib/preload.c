/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * mmap, munmap and mremap. A MAP_HUGETLB mapping without a file is one of an unlinked file of
 * the mount, as in the kernel; one of a file on a mount with hugetlb pages goes the direct way;
 * all others are the kernel's. munmap(2) and mremap(2) follow what this library has mapped.
 */
#undef _FILE_OFFSET_BITS /* mmap() is to be mmap() here */
#include "preload.h"

#include <errno.h>
#include <linux/mman.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client.h"

static void *result(int r, void *addr)
{
	if (r == 0)
		return addr;
	errno = -r;
	return MAP_FAILED;
}

/* The kernel has mapped something, perhaps over what was ours. */
static void *mapped_by_kernel(void *addr, size_t length, int flags)
{
	if (addr != MAP_FAILED && flags & MAP_FIXED && client_may_have(addr, length)) {
		client_forget(addr, length);
		preload_shm_unmapped(addr, length);
	}
	return addr;
}

static void *map_anonymous(void *addr, size_t length, int prot, int flags)
{
	unsigned int shift = (unsigned int)flags >> MAP_HUGE_SHIFT & MAP_HUGE_MASK;
	int type = flags & MAP_TYPE, fd, r;
	void *mapped = MAP_FAILED;
	size_t page_size;

	if (length == 0 || (type != MAP_SHARED && type != MAP_PRIVATE))
		return next_mmap(addr, length, prot, flags, -1, 0);
	fd = preload_unlinked_file("mmap(MAP_HUGETLB)", shift, length, &page_size);
	if (fd == -ENODEV)
		return mapped_by_kernel(next_mmap(addr, length, prot, flags, -1, 0), length,
					flags);
	if (fd < 0)
		return result(fd, NULL);
	flags &= ~(MAP_ANONYMOUS | MAP_HUGETLB | MAP_HUGE_MASK << MAP_HUGE_SHIFT);
	r = client_mmap(addr, length, prot, flags, fd, 0, &mapped);
	close(fd);
	return result(r, mapped);
}

EXPORT void *mmap(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
{
	void *mapped = MAP_FAILED;
	size_t page_size;
	int saved_errno = errno, r;

	if (flags & MAP_ANONYMOUS && flags & MAP_HUGETLB) {
		mapped = map_anonymous(addr, length, prot, flags);
		if (mapped != MAP_FAILED)
			errno = saved_errno;
		return mapped;
	}
	if (flags & MAP_ANONYMOUS || fd < 0 || !preload_is_direct(fd, &page_size))
		return mapped_by_kernel(next_mmap(addr, length, prot, flags, fd, offset),
					length, flags);
	r = client_mmap(addr, length, prot, flags & ~MAP_HUGETLB, fd, offset, &mapped);
	if (r == 0)
		errno = saved_errno;
	return result(r, mapped);
}

EXPORT void *mmap64(void *addr, size_t length, int prot, int flags, int fd, off64_t offset)
	__attribute__((alias("mmap")));

EXPORT int munmap(void *addr, size_t length)
{
	int r;

	if (!client_may_have(addr, length))
		return next_munmap(addr, length);
	r = client_munmap(addr, length);
	if (r < 0) {
		errno = -r;
		return -1;
	}
	preload_shm_unmapped(addr, length);
	return 0;
}

EXPORT void *mremap(void *addr, size_t old_length, size_t new_length, int flags, ...)
{
	void *to = NULL, *mapped = MAP_FAILED;
	va_list args;
	int r = -ENOENT;

	/* The kernel looks at it with MREMAP_DONTUNMAP too. */
	va_start(args, flags);
	if (flags & (MREMAP_FIXED | MREMAP_DONTUNMAP))
		to = va_arg(args, void *);
	va_end(args);
	if (client_may_have(addr, old_length ? old_length : 1))
		r = client_mremap(addr, old_length, new_length, flags, to, &mapped);
	if (r != -ENOENT)
		return result(r, mapped);
	mapped = next_mremap(addr, old_length, new_length, flags, to);
	return mapped_by_kernel(mapped, new_length, flags & MREMAP_FIXED ? MAP_FIXED : 0);
}
