/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * libhugefuse: huge pages of a hugefuse mount in a process's address space.
 *
 *	int fd = open("/mnt/huge/shared", O_RDWR | O_CREAT, 0600);
 *	char *p = hugefuse_mmap(NULL, 1UL << 30, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
 *
 * All functions are thread-safe, none is async-signal-safe, and all set errno as the system
 * calls that they stand for do. A forked child keeps its mappings, and the library attaches
 * them for it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * mmap(2) of a file on a hugefuse mount. @length is rounded up to the page size of the mount;
 * @offset must be a multiple of it. MAP_SHARED and MAP_PRIVATE reserve all pages, so that no
 * later access fails for want of one; MAP_NORESERVE does not. MAP_POPULATE instantiates them
 * before it returns. MAP_FIXED and MAP_FIXED_NOREPLACE take an address that is a multiple of
 * the page size. With PROT_WRITE and a descriptor for reading and writing a mapping beyond the
 * end of the file makes the file longer, as on hugetlbfs.
 *
 * Returns MAP_FAILED with EINVAL (offset, length, flags), ENOMEM (the pages cannot be reserved,
 * nothing was changed), EACCES (the descriptor does not allow it), ENOTTY (not a file of a
 * hugefuse mount), EOPNOTSUPP (the same; or without passthrough, on a mount with backing=thp,
 * neither root nor the daemon's user), EBUSY (somebody else has it open with the page cache, on
 * a mount with plain=cached), ENOTCONN (the daemon has gone), or an error of mmap(2).
 */
void *hugefuse_mmap(void *addr, size_t length, int prot, int flags, int fd, off_t offset);

/*
 * munmap(2) for what hugefuse_mmap() returned, or a part of it. @length is rounded up to the
 * page size. When it returns, the daemon has counted the pages as unmapped. EINVAL for an
 * address that is not a multiple of the page size, or not mapped through hugefuse.
 */
int hugefuse_munmap(void *addr, size_t length);

/*
 * mremap(2): shrinking, and moving with MREMAP_MAYMOVE or MREMAP_FIXED at the same or a smaller
 * size. Growing is refused with EINVAL, as the kernel refuses it for huge page mappings.
 */
void *hugefuse_mremap(void *addr, size_t old_length, size_t new_length, int flags, ...);

/*
 * Reserve the pages of [offset, offset + length) of the file, as a shared mapping would.
 * Returns the number of pages newly reserved, or -1: ENOMEM, EBADF (not open for writing),
 * EINVAL.
 */
ssize_t hugefuse_reserve(int fd, off_t offset, size_t length);

struct hugefuse_info {
	uint64_t page_size;                                          /* bytes */
	uint64_t size;                                               /* of the file, bytes */
	uint64_t file_reserved, file_instantiated;                   /* pages of the file */
	uint64_t pool_total, pool_free, pool_reserved, pool_surplus; /* pages of the mount */
	uint64_t mappings; /* direct mappings of the file */
};

/* What the daemon knows of the file and its mount. 0, or -1: ENOTTY, EOPNOTSUPP, ENOTCONN,
 * EBADF. */
int hugefuse_query(int fd, struct hugefuse_info *info);

#ifdef __cplusplus
}
#endif
