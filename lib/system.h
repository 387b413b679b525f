/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The kernel's own calls on mappings: in libhugefuse-preload.so the C library's names are
 * those of the functions that call this library.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static inline void *system_mmap(void *addr, size_t length, int prot, int flags, int fd,
				off_t offset)
{
	return (void *)syscall(SYS_mmap, addr, length, prot, flags, fd, offset);
}

static inline int system_munmap(void *addr, size_t length)
{
	return (int)syscall(SYS_munmap, addr, length);
}

static inline void *system_mremap(void *addr, size_t old_length, size_t new_length, int flags,
				  void *to)
{
	return (void *)syscall(SYS_mremap, addr, old_length, new_length, flags, to);
}
