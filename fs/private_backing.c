/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Backing of a private mapping. The zeroes to copy come from a mapping of the kernel's zero
 * page, as large as one huge page but 4 KB of memory, which stays in the cache.
 *
 * All of that mapping is in the page table before the first copy. Were a page of the source
 * missing there, the kernel would free the huge page that it has just taken, and, where
 * min_size had paid for it and no mapping had reserved it, never uncharge the subpool
 * (Linux 6.18, hugetlb_mfill_atomic_pte(): the page goes back with HPG_restore_reserve): the
 * private hugetlbfs would keep its whole min_size after the last unmount, until the machine is
 * booted again. The zero page is not reclaimed, so that what is there stays.
 */
#include "fs/private_backing.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fs/client.h"
#include "fs/mapping.h"
#include "fs/mount.h"
#include "fs/numa_policy.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

#define PAGEMAP_PRESENT   (1ULL << 63)
#define PAGEMAP_FILE      (1ULL << 61)
#define PAGEMAP_EXCLUSIVE (1ULL << 56)
#define PAGEMAP_KINDS     (PAGEMAP_FILE | PAGEMAP_EXCLUSIVE)
#define PAGEMAP_MAPPED    1 /* ours */

static struct mapping *to_mapping(struct backing_file *file)
{
	return ((struct private_file *)file)->mapping;
}

static void *zeroes(uint64_t page_size)
{
	static _Atomic(void *) source;
	void *addr = source, *none = NULL;

	if (addr)
		return addr;
	addr = mmap(NULL, page_size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
		    0);
	if (addr == MAP_FAILED)
		return NULL;
	madvise(addr, page_size, MADV_NOHUGEPAGE);
	/*
	 * UFFDIO_COPY looks at the source without faulting first. If it is not mapped the
	 * kernel gives the page that it took back, and, where the node has surplus pages, lets
	 * it leave with the reservation still counted: somebody's reservation would have no
	 * page.
	 */
	madvise(addr, page_size, MADV_POPULATE_READ);
	if (!atomic_compare_exchange_strong(&source, &none, addr)) {
		munmap(addr, page_size);
		addr = none;
	}
	return addr;
}

/* What the client's page table has at @address; 0 where nothing is mapped, or -errno. */
static int64_t pagemap_entry(struct mapping *mapping, uint64_t address)
{
	uint64_t entry;
	ssize_t n;
	int fd;

	if (!address || !mapping->client)
		return 0;
	fd = client_pagemap(mapping->client);
	if (fd < 0)
		return fd;
	n = pread(fd, &entry, sizeof(entry), (off_t)(address / 4096 * sizeof(entry)));
	if (n != sizeof(entry))
		return n < 0 ? -errno : 0;
	/* The frame number is none of our business; bit 63 would be taken for an error. */
	return entry & PAGEMAP_PRESENT ? (int64_t)(PAGEMAP_MAPPED | (entry & PAGEMAP_KINDS))
				       : 0;
}

/*
 * UFFDIO_COPY has said EEXIST, and has woken nobody. The kernel (6.18) says so where it has no
 * page to give, too: then nothing is there. Returns 0 where there is a page of the mapping's.
 */
static int check_exists(struct mapping *mapping, int uffd, uint64_t address)
{
	int64_t entry = pagemap_entry(mapping, address);

	if (entry == 0)
		return -ENOSPC;
	if (entry < 0 || entry & PAGEMAP_FILE)
		return -ERANGE; /* the file has the page: whoever faulted finds it now */
	mapping_wake(mapping, uffd, address);
	return 0;
}

/* The page is there: on @node, if that was said. */
static int node_of(const struct mapping *mapping, uint64_t address, int node)
{
	if (mapping->mount->nr_nodes > 1 && node == POOL_ANY_NODE)
		node = numa_policy_node_in(mapping->client->pid, address);
	return node < 0 ? 0 : node;
}

static int copy_page(int uffd, struct uffdio_copy *copy, int node)
{
	int r = node == POOL_ANY_NODE ? 0 : numa_policy_bind(node);

	if (r < 0)
		return -ENOMEM; /* a node that this process may not use */
	r = ioctl(uffd, UFFDIO_COPY, copy) < 0 ? -errno : 0;
	if (node != POOL_ANY_NODE)
		numa_policy_unbind();
	return r;
}

static int private_populate(struct backing_file *file, int64_t idx, int node)
{
	struct mapping *mapping = to_mapping(file);
	uint64_t page_size = file->backing->page_size;
	struct uffdio_copy copy = {
		.dst = mapping_address_of(mapping, idx),
		.src = (uintptr_t)zeroes(page_size),
		.len = page_size,
	};
	int uffd = mapping_uffd_of(mapping, idx), r;

	if (!copy.src)
		return -ENOMEM;
	if (!copy.dst || uffd < 0)
		return -ERANGE;
	r = copy_page(uffd, &copy, mapping->mount->nr_nodes > 1 ? node : POOL_ANY_NODE);
	switch (-r) {
	case 0:
		return node_of(mapping, copy.dst, node);
	case EEXIST:
		r = check_exists(mapping, uffd, copy.dst);
		return r < 0 ? r : node_of(mapping, copy.dst, POOL_ANY_NODE);
	case ENOENT:
	case ESRCH:
	case EINVAL:
		return -ERANGE; /* unmapped, or the client is gone */
	case ENOMEM:
		return -ENOSPC;
	}
	return r; /* EAGAIN: the address space is changing */
}

/*
 * A page is this mapping's if it is anonymous; of a forked child's, if nobody shares it any
 * more: until the copy on write it is still the parent's.
 */
static int private_present(struct backing_file *file, int64_t idx)
{
	struct mapping *mapping = to_mapping(file);
	int64_t entry = pagemap_entry(mapping, mapping_address_of(mapping, idx));

	if (entry < 0)
		return (int)entry;
	if (entry == 0 || entry & PAGEMAP_FILE)
		return 0;
	return !mapping->forked || (entry & PAGEMAP_EXCLUSIVE);
}

static int private_node(struct backing_file *file, int64_t idx)
{
	struct mapping *mapping = to_mapping(file);

	return node_of(mapping, mapping_address_of(mapping, idx), POOL_ANY_NODE);
}

static const struct backing_ops private_ops = {
	.name = "private",
	.populate = private_populate,
	.present = private_present,
	.node = private_node,
};

void private_backing_init(struct mapping *mapping)
{
	struct private_file *file = &mapping->private_file;

	file->mapping = mapping;
	file->backing = *mapping->mount->backing;
	file->backing.ops = &private_ops;
	file->file.backing = &file->backing;
}
