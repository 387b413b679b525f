/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * libhugefuse: mremap(2). The parts of a mapping, each with a userfaultfd of its own, move one
 * by one; of a move the kernel tells the daemon by itself.
 */
#include <errno.h>
#include <stdarg.h>
#include <sys/mman.h>

#include "client.h"
#include "hugefuse.h"
#include "library.h"
#include "region.h"
#include "system.h"

/* The end of the userfaultfd's range that @addr of @region is in: what one mremap(2) may move.
 */
static char *shard_end(const struct region *region, char *addr)
{
	uint64_t offset =
		region->offset + (uint64_t)(addr - region->addr) - region->first_offset;
	size_t rest = region->shard_length - offset % region->shard_length;
	char *end = region->addr + region->length;

	return rest < (size_t)(end - addr) ? addr + rest : end;
}

static void keep_quiet(const struct region *part, void *data)
{
}

/* Move [from, from + length) of @region to @to, whose pages are unmapped first. */
static int move_locked(struct region *region, char *from, size_t length, char *to)
{
	struct region moved = *region;
	size_t part;
	int r;

	r = region_prepare_cut();
	if (r < 0)
		return r;
	moved.offset += (uint64_t)(from - region->addr);
	moved.addr = to;
	moved.length = length;
	for (size_t done = 0; done < length; done += part) {
		part = (size_t)(shard_end(region, from + done) - (from + done));
		if (part > length - done)
			part = length - done;
		/* Advice of no consequence, but it makes a vm_area of its own: of a private
		 * one that was moved in part the kernel (6.18) forgets all reservations. */
		madvise(from + done, part, MADV_SEQUENTIAL);
		if (system_mremap(from + done, part, part, MREMAP_MAYMOVE | MREMAP_FIXED,
				  to + done) == MAP_FAILED)
			return -errno;
	}
	region_cut(to, length, library_tell_unmapped, NULL);
	if (region_prepare_cut() < 0)
		return -ENOMEM;
	region_cut(from, length, keep_quiet, NULL); /* the daemon was told by the kernel */
	return region_add(&moved);
}

static int remap_locked(char *addr, size_t old_length, size_t new_length, int flags, char *to)
{
	struct region *region = region_find(addr);
	int r = 0;

	if (!region || (uintptr_t)addr % region->page_size != 0 || old_length == 0 ||
	    new_length == 0)
		return -EINVAL;
	old_length = round_up(old_length, region->page_size);
	new_length = round_up(new_length, region->page_size);
	if (addr + old_length > region->addr + region->length)
		return -EFAULT;
	if (new_length > old_length)
		return -EINVAL;
	if (flags & MREMAP_FIXED) {
		if (!(flags & MREMAP_MAYMOVE) || (uintptr_t)to % region->page_size != 0 ||
		    (to < addr + old_length && addr < to + new_length))
			return -EINVAL;
	}
	if (new_length < old_length)
		r = library_unmap(addr + new_length, old_length - new_length);
	region = region_find(addr);
	if (r == 0 && flags & MREMAP_FIXED)
		r = move_locked(region, addr, new_length, to);
	return r;
}

int client_mremap(void *addr, size_t old_length, size_t new_length, int flags, void *to,
		  void **ret_addr)
{
	int r = -ENOENT;

	library_lock();
	if (region_find(addr)) {
		r = -EINVAL;
		if ((flags & ~(MREMAP_MAYMOVE | MREMAP_FIXED)) == 0)
			r = remap_locked(addr, old_length, new_length, flags, to);
		if (r == 0)
			*ret_addr = flags & MREMAP_FIXED ? to : addr;
	}
	library_unlock();
	return r;
}

EXPORT void *hugefuse_mremap(void *addr, size_t old_length, size_t new_length, int flags, ...)
{
	void *to = addr;
	va_list args;
	int r = -EINVAL;

	if (flags & MREMAP_FIXED) {
		va_start(args, flags);
		to = va_arg(args, void *);
		va_end(args);
	}
	if ((flags & ~(MREMAP_MAYMOVE | MREMAP_FIXED)) == 0) {
		library_lock();
		r = remap_locked(addr, old_length, new_length, flags, to);
		library_unlock();
	}
	if (r < 0) {
		errno = -r;
		return MAP_FAILED;
	}
	return to;
}
