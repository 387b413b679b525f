/* SPDX-License-Identifier: GPL-2.0-or-later */
/* HUGEFUSE_IOC_MAP: what a client asks before it comes to the socket. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "fs/cached.h"
#include "fs/client.h"
#include "fs/control_struct.h"
#include "fs/fault_service.h"
#include "fs/file.h"
#include "fs/reconcile.h"

#define SHARD_MIN_PAGES 16

/* What mmap(2) would check, and offset and length; 0 or -errno. */
static int check_map(const struct mount *mount, int open_flags,
		     const struct hugefuse_ioc_map *map)
{
	const uint32_t known = HUGEFUSE_MAP_WRITE | HUGEFUSE_MAP_PRIVATE |
			       HUGEFUSE_MAP_NORESERVE;
	uint64_t page_size = mount->backing->huge_page_size;
	int access_mode = open_flags & O_ACCMODE;

	if (map->version != HUGEFUSE_PROTOCOL_VERSION)
		return -EPROTONOSUPPORT;
	if (map->flags & ~known || map->reserved)
		return -EINVAL;
	if (map->length == 0 || map->offset % page_size != 0 ||
	    map->offset > INT64_MAX - page_size ||
	    map->length > INT64_MAX - page_size - map->offset)
		return -EINVAL;
	/* Mode 3 is open(2)'s "for ioctl(2) only". */
	if (access_mode != O_RDONLY && access_mode != O_RDWR)
		return -EACCES;
	if (access_mode == O_RDONLY && map->flags & HUGEFUSE_MAP_WRITE &&
	    !(map->flags & HUGEFUSE_MAP_PRIVATE))
		return -EACCES;
	return 0;
}

static uint32_t nr_shards(const struct control *control, int64_t nr_pages)
{
	int64_t shards = nr_pages / SHARD_MIN_PAGES;
	int64_t threads = fault_service_nr_threads(control->mount->fault_service);

	if (shards > threads)
		shards = threads;
	if (shards > HUGEFUSE_MAX_SHARDS)
		shards = HUGEFUSE_MAX_SHARDS;
	return shards < 1 ? 1 : (uint32_t)shards;
}

/*
 * What is reserved by its size needs nothing from us to be mapped: the answer names no socket.
 * Like every writable mapping this one makes the file longer.
 */
static int request_plain_map(struct mount *mount, struct inode *inode, int open_flags,
			     struct hugefuse_ioc_map *map)
{
	int r = 0;

	if (!mount->has_passthrough)
		return -EOPNOTSUPP;
	if (map->flags & HUGEFUSE_MAP_WRITE && (open_flags & O_ACCMODE) == O_RDWR)
		r = file_grow(mount, inode, (off_t)(map->offset + map->length));
	if (r < 0)
		return r == -ENOSPC ? -ENOMEM : r;
	map->page_size = mount->backing->huge_page_size;
	map->shards = 0;
	map->socket[0] = '\0';
	return 0;
}

int control_request_map(struct control *control, struct inode *inode, int open_flags,
			bool is_cached, pid_t tid, uid_t uid, struct hugefuse_ioc_map *map)
{
	struct mount *mount = control->mount;
	int access_mode = (open_flags & O_ACCMODE) == O_RDWR ? O_RDWR : O_RDONLY;
	struct mapping *mapping;
	int64_t from, to;
	pid_t pid;
	int r;

	r = check_map(mount, open_flags, map);
	if (r < 0)
		return r;
	if (mount->backing->reserves_size)
		return request_plain_map(mount, inode, open_flags, map);
	pid = client_process_of(tid);
	if (pid < 0)
		return pid;
	from = mount_bytes_to_pages(mount, map->offset);
	to = from + mount_bytes_to_pages(mount, map->length);
	r = mapping_new(mount, inode, map->flags, access_mode, from, to, &mapping);
	if (reconcile_or_wait(mount, r))
		r = mapping_new(mount, inode, map->flags, access_mode, from, to, &mapping);
	if (r < 0)
		return r;
	/* By whole pages, as on hugetlbfs. */
	if (cached_is_busy(inode, is_cached))
		r = -EBUSY;
	else if (map->flags & HUGEFUSE_MAP_WRITE && access_mode == O_RDWR)
		r = file_grow(mount, inode, to * (off_t)mount->backing->page_size);
	if (r == 0)
		r = token_new(&control->tokens, mapping, pid, uid, map->token);
	if (r < 0) {
		mapping_abort(mapping);
		return r;
	}
	map->page_size = mount->backing->page_size;
	map->shards = nr_shards(control, to - from);
	strcpy(map->socket, control->socket_path);
	return 0;
}
