/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Requests for direct mappings: what is checked, and what differs by backing. */
#include "fs/map_request.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "fs/file.h"

int map_request_check(const struct mount *mount, int open_flags,
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

int map_request_plain(struct mount *mount, struct inode *inode, int open_flags,
		      struct hugefuse_ioc_map *map)
{
	int r = 0;

	if (map->flags & HUGEFUSE_MAP_WRITE && (open_flags & O_ACCMODE) == O_RDWR)
		r = file_grow(mount, inode, (off_t)(map->offset + map->length));
	if (r < 0)
		return r == -ENOSPC ? -ENOMEM : r;
	map->page_size = mount->backing->huge_page_size;
	map->shards = 0;
	map->socket[0] = '\0';
	return 0;
}

bool map_request_may_attach(const struct mount *mount, uid_t uid)
{
	return !mount->backing->reserves_size || uid == 0 || uid == geteuid();
}

int map_request_grow(struct mount *mount, struct inode *inode, int64_t to,
		     const struct hugefuse_ioc_map *map)
{
	int r;

	if (!mount->backing->reserves_size)
		return file_grow(mount, inode, to * (off_t)mount->backing->page_size);
	r = file_grow(mount, inode, (off_t)(map->offset + map->length));
	return r == -ENOSPC ? -ENOMEM : r;
}
