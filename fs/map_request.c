/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Requests for direct mappings: what is checked, and what differs by backing. */
#include "fs/map_request.h"

#include <errno.h>
#include <fcntl.h>
#include <numaif.h>
#include <unistd.h>

#include "fs/file.h"

#ifndef MPOL_PREFERRED_MANY /* Linux 5.15 */
#define MPOL_PREFERRED_MANY 5
#endif
#ifndef MPOL_WEIGHTED_INTERLEAVE /* Linux 6.9 */
#define MPOL_WEIGHTED_INTERLEAVE 6
#endif

int map_request_check(const struct mount *mount, int open_flags,
		      const struct hugefuse_ioc_map *map)
{
	const uint32_t known = HUGEFUSE_MAP_WRITE | HUGEFUSE_MAP_PRIVATE |
			       HUGEFUSE_MAP_NORESERVE;
	uint64_t page_size = mount->backing->huge_page_size;
	int access_mode = open_flags & O_ACCMODE;

	if (map->version != HUGEFUSE_PROTOCOL_VERSION)
		return -EPROTONOSUPPORT;
	if (map->flags & ~known || map->reserved || map->reserved2)
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

struct numa_rule map_request_rule(const struct mount *mount, const struct hugefuse_ioc_map *map)
{
	struct numa_rule rule = {NUMA_NONE, NUMA_FALLBACK_NONE, 0};
	uint64_t nodes = map->policy_nodes & mount->core.memory_nodes;

	switch (map->policy) {
	case MPOL_LOCAL:
		rule.kind = NUMA_LOCAL;
		return rule;
	case MPOL_PREFERRED:
	case MPOL_PREFERRED_MANY:
		rule.kind = nodes ? NUMA_PREFERRED : NUMA_LOCAL;
		rule.nodes = nodes & -nodes;
		return rule;
	case MPOL_BIND:
		rule.kind = NUMA_BIND;
		break;
	case MPOL_INTERLEAVE:
	case MPOL_WEIGHTED_INTERLEAVE:
		rule.kind = NUMA_INTERLEAVE;
		break;
	}
	/* Nodes that are not this mount's, or that it may not use, are nobody's wish. */
	if (!nodes)
		rule.kind = NUMA_NONE;
	rule.nodes = nodes;
	return rule;
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
