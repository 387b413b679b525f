/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the files of the library have in common. */
#pragma once

#include <stddef.h>

#include "region.h"

#define EXPORT __attribute__((visibility("default")))

static inline size_t round_up(size_t length, size_t page_size)
{
	return (length + page_size - 1) / page_size * page_size;
}

/* The lock of the regions and the connections; meanwhile signals are blocked. */
void library_lock(void);
void library_unlock(void);

/* Tell the daemon that a part of a mapping has gone. If it has gone itself, it knows. */
void library_tell_unmapped(const struct region *part, void *data);
/* hugefuse_munmap() under the lock. 0 or -errno. */
int library_unmap(char *addr, size_t length);
