/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * libhugefuse: mapping, unmapping, moving, and following fork(2).
 *
 * The library lock guards the regions and the connections. It is held over a whole mmap, and
 * over fork, so that a child finds both in order. The fork handlers only make system calls.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client.h"
#include "connection.h"
#include "fault_fd.h"
#include "fork.h"
#include "hugefuse.h"
#include "hugefuse_protocol.h"
#include "reattach.h"
#include "region.h"
#include "system.h"

#define POLICY_FLAGS (7 << 13) /* MPOL_MODE_FLAGS */

#define EXPORT __attribute__((visibility("default")))

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

#define POPULATE_SLICE \
	(256UL << 20) /* bytes, at least a page; the lock is given up in between */

/*
 * Signals are blocked and cancellation is off while it is held: a handler that maps or unmaps
 * would wait for itself.
 */
static pthread_mutex_t library_mutex = PTHREAD_MUTEX_INITIALIZER;
static sigset_t mask_before;    /* library_mutex */
static int cancel_state_before; /* library_mutex */

void lock_library(void)
{
	sigset_t all, mask;
	int cancel_state;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &mask);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	pthread_mutex_lock(&library_mutex);
	mask_before = mask;
	cancel_state_before = cancel_state;
}

void unlock_library(void)
{
	sigset_t mask = mask_before;
	int cancel_state = cancel_state_before;

	pthread_mutex_unlock(&library_mutex);
	pthread_setcancelstate(cancel_state, NULL);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

static size_t round_up(size_t length, size_t page_size)
{
	return (length + page_size - 1) / page_size * page_size;
}

int call_with_fault_fds(const struct region *region, struct hugefuse_msg *msg,
			struct hugefuse_reply *ret_reply)
{
	int fds[HUGEFUSE_MAX_SHARDS], r;

	msg->address = (uintptr_t)region->addr;
	msg->length = region->length;
	msg->shard_length = region->shard_length;
	if (region->shard_length > 0)
		msg->nr_shards =
			fault_fd_cover(region->addr, region->length, region->shard_length, fds);
	r = connection_call(region->connection, msg, fds, msg->nr_shards, ret_reply, NULL);
	fault_fd_close(fds, msg->nr_shards);
	return r;
}

int register_region(struct region *region)
{
	struct hugefuse_msg msg = {
		.type = HUGEFUSE_MSG_REGISTER,
		.mapping = region->mapping,
	};

	return call_with_fault_fds(region, &msg, NULL);
}

/* Tell the daemon that a part of a mapping has gone. If it has gone itself, it knows. */
void tell_unmapped(const struct region *part, void *data)
{
	struct hugefuse_msg msg = {
		.type = HUGEFUSE_MSG_UNMAP,
		.mapping = part->mapping,
		.address = (uintptr_t)part->addr,
		.length = part->length,
	};

	if (part->mapping)
		reattach_call(part->connection, &msg, NULL, NULL);
}

static int check_flags(int flags)
{
	const int known = MAP_TYPE | MAP_FIXED | MAP_FIXED_NOREPLACE | MAP_NORESERVE |
			  MAP_POPULATE | MAP_LOCKED | MAP_NONBLOCK | MAP_HUGETLB | MAP_STACK |
			  MAP_EXECUTABLE | MAP_DENYWRITE;

	return flags & ~known ? -EINVAL : 0;
}

static int check_arguments(size_t length, int flags, off_t offset)
{
	int type = flags & MAP_TYPE;

	if (type != MAP_SHARED && type != MAP_PRIVATE && type != MAP_SHARED_VALIDATE)
		return -EINVAL;
	if (length == 0 || offset < 0)
		return -EINVAL;
	return 0;
}

/*
 * The memory policy of this thread: the kernel would follow it for what the thread touches, and
 * here the daemon does.
 */
static void tell_policy(struct hugefuse_ioc_map *map)
{
	unsigned long nodes[1024 / (8 * sizeof(unsigned long))] = {0};
	int mode = 0;

	if (syscall(SYS_get_mempolicy, &mode, nodes, 1024, NULL, 0) < 0)
		return; /* a kernel without nodes */
	map->policy = (uint32_t)(mode & ~POLICY_FLAGS);
	map->policy_nodes = nodes[0];
}

/* Ask the daemon. What is not a file of a hugefuse mount has no such ioctl. */
static int request_map(int fd, size_t length, int prot, int flags, off_t offset,
		       struct hugefuse_ioc_map *map)
{
	*map = (struct hugefuse_ioc_map){
		.version = HUGEFUSE_PROTOCOL_VERSION,
		.flags = (prot & PROT_WRITE ? HUGEFUSE_MAP_WRITE : 0) |
			 ((flags & MAP_TYPE) == MAP_PRIVATE ? HUGEFUSE_MAP_PRIVATE : 0) |
			 (flags & MAP_NORESERVE ? HUGEFUSE_MAP_NORESERVE : 0),
		.offset = (uint64_t)offset,
		.length = length,
	};
	tell_policy(map);
	return ioctl(fd, HUGEFUSE_IOC_MAP, map) < 0 ? -errno : 0;
}

/* The token was not used, or is not known to have been: then it is gone. */
static void cancel(int fd, const struct hugefuse_ioc_map *map)
{
	struct hugefuse_ioc_cancel token = {{map->token[0], map->token[1]}};
	int saved_errno = errno;

	ioctl(fd, HUGEFUSE_IOC_CANCEL, &token);
	errno = saved_errno;
}

/* Use the token: the daemon's numbers go to @region, the descriptor of the pages is returned.
 */
static int attach(const struct hugefuse_ioc_map *map, struct region *region)
{
	struct hugefuse_msg msg = {
		.type = HUGEFUSE_MSG_ATTACH,
		.key = {map->token[0], map->token[1]},
	};
	struct hugefuse_reply reply;
	int fd, r;

	region->connection = reattach_connection(map->socket);
	if (!region->connection)
		return -errno;
	r = reattach_call(region->connection, &msg, &reply, &fd);
	if (r < 0)
		return r;
	region->mapping = reply.mapping;
	region->key[0] = reply.key[0];
	region->key[1] = reply.key[1];
	if (fd >= 0)
		return fd;
	/* It has come, and there was no number free for it here. */
	tell_unmapped(region, NULL);
	return -EMFILE;
}

static int map_descriptor(void *addr, int prot, int flags, int fd, struct region *region)
{
	const int by_the_daemon = MAP_POPULATE | MAP_NONBLOCK | MAP_HUGETLB | MAP_LOCKED;
	int r;

	r = region_prepare_cut();
	if (r < 0)
		return r;
	/* Mapping for writing would make the pages' file longer than the daemon has it: it has
	 * made it so where that is right, and the file may have been truncated since. */
	region->addr = system_mmap(addr, region->length, prot & ~PROT_WRITE,
				   flags & ~by_the_daemon, fd, (off_t)region->offset);
	if (region->addr == MAP_FAILED)
		return -errno;
	/* MAP_FIXED has replaced what was there, whatever comes. */
	region_cut(region->addr, region->length, tell_unmapped, NULL);
	if (prot & PROT_WRITE && mprotect(region->addr, region->length, prot) < 0) {
		r = -errno;
		system_munmap(region->addr, region->length);
		return r;
	}
	return 0;
}

static int map_locked(void *addr, int prot, int flags, int file_fd,
		      const struct hugefuse_ioc_map *map, struct region *region)
{
	int fd, r;

	fd = attach(map, region);
	if (fd < 0) {
		cancel(file_fd, map);
		return fd;
	}
	r = map_descriptor(addr, prot, flags, fd, region);
	close(fd);
	if (r < 0) {
		region->addr = NULL;
		tell_unmapped(region, NULL); /* all of nothing: it ends */
		return r;
	}
	r = register_region(region);
	if (r == 0)
		r = region_add(region);
	if (r < 0) {
		system_munmap(region->addr, region->length);
		tell_unmapped(region, NULL);
	}
	return r;
}

/* The daemon instantiates with all its threads; then the page table is filled here. */
static void populate(const struct region *region, int prot, int flags)
{
	size_t slice = round_up(POPULATE_SLICE, region->page_size), part;
	struct hugefuse_msg msg = {.type = HUGEFUSE_MSG_POPULATE, .mapping = region->mapping};
	bool private = (flags & MAP_TYPE) == MAP_PRIVATE;

	for (size_t done = 0; region->shard_length > 0 && done < region->length && !private;
	     done += part) {
		part = region->length - done < slice ? region->length - done : slice;
		msg.address = (uintptr_t)region->addr + done;
		msg.length = part;
		lock_library();
		reattach_call(region->connection, &msg, NULL, NULL);
		unlock_library();
	}
	/* As with mmap(2), it is no error if that does not work. */
	madvise(region->addr, region->length,
		prot & PROT_WRITE ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
}

/*
 * What mmap(2) would refuse to do at a fixed address, it must refuse before anything is
 * reserved. With MAP_FIXED_NOREPLACE the addresses are taken, to be replaced.
 */
static int claim_address(char *addr, size_t length, int *flags, int fd, size_t *ret_claimed)
{
	struct hugefuse_ioc_mount mount;

	if (!(*flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)))
		return 0;
	if (ioctl(fd, HUGEFUSE_IOC_MOUNT, &mount) < 0)
		return -errno;
	if (mount.page_size == 0)
		return -EPROTO;
	if ((uintptr_t)addr % mount.page_size != 0)
		return -EINVAL;
	if (!(*flags & MAP_FIXED_NOREPLACE))
		return 0;
	length = round_up(length, mount.page_size);
	if (system_mmap(addr, length, PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1,
			0) == MAP_FAILED)
		return -errno;
	*flags = (*flags & ~MAP_FIXED_NOREPLACE) | MAP_FIXED;
	*ret_claimed = length;
	return 0;
}

/* The file's pages need nothing from the daemon: they are reserved as far as it is long. */
static int map_plainly(void *addr, int prot, int flags, int fd, struct region *region)
{
	int r = region_prepare_cut();

	if (r < 0)
		return r;
	region->page_size = (size_t)sysconf(_SC_PAGESIZE);
	region->length = round_up(region->length, region->page_size);
	region->shard_length = region->length;
	region->addr = system_mmap(addr, region->length, prot, flags & ~MAP_HUGETLB, fd,
				   (off_t)region->offset);
	if (region->addr == MAP_FAILED) {
		region->addr = NULL;
		return -errno;
	}
	region_cut(region->addr, region->length, tell_unmapped, NULL);
	r = region_add(region);
	if (r < 0)
		system_munmap(region->addr, region->length);
	return r;
}

void client_install(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, fork_install_handlers);
}

int client_mmap(void *addr, size_t length, int prot, int flags, int fd, off_t offset,
		void **ret_addr)
{
	struct hugefuse_ioc_map map = {0};
	struct region region = {0};
	size_t claimed = 0;
	int r;

	client_install();
	r = check_arguments(length, flags, offset);
	if (r == 0)
		r = claim_address(addr, length, &flags, fd, &claimed);
	if (r == 0)
		r = request_map(fd, length, prot, flags, offset, &map);
	if (r == 0 && map.page_size == 0)
		r = -EPROTO;
	if (r != 0)
		goto out_error;
	region.page_size = map.page_size;
	region.length = round_up(length, map.page_size);
	region.offset = region.first_offset = (uint64_t)offset;
	lock_library();
	if (map.socket[0] == '\0') {
		region.length = length;
		r = map_plainly(addr, prot, flags, fd, &region);
	} else {
		if (map.shards > 0)
			region.shard_length = round_up(
				(region.length + map.shards - 1) / map.shards, map.page_size);
		r = map_locked(addr, prot, flags, fd, &map, &region);
	}
	unlock_library();
	if (r < 0)
		goto out_error;
	if (flags & (MAP_POPULATE | MAP_LOCKED) && region.mapping)
		populate(&region, prot, flags);
	*ret_addr = region.addr;
	return 0;

out_error:
	if (claimed > 0 && !region.addr)
		system_munmap(addr, claimed);
	return r;
}

EXPORT void *hugefuse_mmap(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
{
	void *mapped = MAP_FAILED;
	int r;

	r = check_flags(flags);
	if (r == 0)
		r = client_mmap(addr, length, prot, flags, fd, offset, &mapped);
	if (r < 0)
		errno = -r;
	return mapped;
}

static int unmap_locked(char *addr, size_t length)
{
	struct region *region = region_find(addr);
	int r;

	if (!region || (uintptr_t)addr % region->page_size != 0 || length == 0)
		return -EINVAL;
	length = round_up(length, region->page_size);
	r = region_prepare_cut();
	if (r < 0)
		return r;
	if (system_munmap(addr, length) < 0)
		return -errno;
	region_cut(addr, length, tell_unmapped, NULL);
	return 0;
}

bool client_may_have(const void *addr, size_t length)
{
	return region_may_overlap(addr, length);
}

int client_munmap(void *addr, size_t length)
{
	size_t rounded = round_up(length, (size_t)getpagesize());
	int r;

	lock_library();
	r = region_first_in(addr, rounded) ? region_prepare_cut() : 0;
	if (r == 0 && system_munmap(addr, length) < 0)
		r = -errno;
	if (r == 0)
		region_cut(addr, rounded, tell_unmapped, NULL);
	unlock_library();
	return r;
}

void client_forget(void *addr, size_t length)
{
	length = round_up(length, (size_t)getpagesize());
	lock_library();
	if (region_first_in(addr, length) && region_prepare_cut() == 0)
		region_cut(addr, length, tell_unmapped, NULL);
	unlock_library();
}

EXPORT int hugefuse_munmap(void *addr, size_t length)
{
	int r;

	lock_library();
	r = unmap_locked(addr, length);
	unlock_library();
	if (r < 0) {
		errno = -r;
		return -1;
	}
	return 0;
}

/* The end of the userfaultfd's range that @addr of @region is in: what one mremap(2) may move.
 */
static char *shard_end(const struct region *region, char *addr)
{
	uint64_t offset =
		region->offset + (uint64_t)(addr - region->addr) - region->first_offset;
	char *end = region->addr + region->length;
	size_t rest;

	if (region->shard_length == 0)
		return end;
	rest = region->shard_length - offset % region->shard_length;
	return rest < (size_t)(end - addr) ? addr + rest : end;
}

/* The kernel has told the daemon, by the userfaultfds; where there are none, we do. */
static void tell_moved(const struct region *part, void *data)
{
	if (part->shard_length == 0)
		tell_unmapped(part, data);
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
	region_cut(to, length, tell_unmapped, NULL);
	if (region_prepare_cut() < 0)
		return -ENOMEM;
	if (moved.mapping && moved.shard_length == 0 && fork_attach(&moved) < 0)
		moved.mapping = 0;
	region_cut(from, length, tell_moved, NULL);
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
		r = unmap_locked(addr + new_length, old_length - new_length);
	region = region_find(addr);
	if (r == 0 && flags & MREMAP_FIXED)
		r = move_locked(region, addr, new_length, to);
	return r;
}

int client_mremap(void *addr, size_t old_length, size_t new_length, int flags, void *to,
		  void **ret_addr)
{
	int r = -ENOENT;

	lock_library();
	if (region_find(addr)) {
		r = -EINVAL;
		if ((flags & ~(MREMAP_MAYMOVE | MREMAP_FIXED)) == 0)
			r = remap_locked(addr, old_length, new_length, flags, to);
		if (r == 0)
			*ret_addr = flags & MREMAP_FIXED ? to : addr;
	}
	unlock_library();
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
		lock_library();
		r = remap_locked(addr, old_length, new_length, flags, to);
		unlock_library();
	}
	if (r < 0) {
		errno = -r;
		return MAP_FAILED;
	}
	return to;
}
