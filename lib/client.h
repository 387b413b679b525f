/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What libhugefuse-preload.so asks of the library besides include/hugefuse.h: mmap(2),
 * munmap(2) and mremap(2) as the kernel has them for huge pages, on ranges that may be
 * hugefuse's or not. Signals are blocked while the library's lock is held, and no memory is
 * taken from malloc(3). All return 0 or a result, or -errno.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* As hugefuse_mmap(), but of flags that it does not know those are passed on that mmap(2)
 * ignores. */
int client_mmap(void *addr, size_t length, int prot, int flags, int fd, off_t offset,
		void **ret_addr);
/* Whether something of [addr, addr + length) may be mapped through hugefuse. Takes no lock. */
bool client_may_have(const void *addr, size_t length);
/* munmap(2), with the kernel's idea of what may be unmapped. */
int client_munmap(void *addr, size_t length);
/* mremap(2); -ENOENT with nothing done where @addr is not hugefuse's. */
int client_mremap(void *addr, size_t old_length, size_t new_length, int flags, void *to,
		  void **ret_addr);
/* Something else has been mapped over [addr, addr + length). */
void client_forget(void *addr, size_t length);
/* Install the fork handlers now rather than at the first mapping. */
void client_install(void);
