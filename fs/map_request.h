/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Requests for direct mappings (HUGEFUSE_IOC_MAP): what is checked, and what differs by
 * backing. */
#pragma once

#include "fs/mount.h"
#include "hugefuse_protocol.h"

/* What mmap(2) would check, and offset and length; 0 or -errno. */
int map_request_check(const struct mount *mount, int open_flags,
		      const struct hugefuse_ioc_map *map);
/*
 * What is reserved by its size, and mapped through FUSE, needs nothing from us to be mapped:
 * the answer names no socket. Like every writable mapping this one makes the file longer.
 */
int map_request_plain(struct mount *mount, struct inode *inode, int open_flags,
		      struct hugefuse_ioc_map *map);
/* What the thread has for its memory, as a rule; none where it has nothing to say here. */
struct numa_rule map_request_rule(const struct mount *mount,
				  const struct hugefuse_ioc_map *map);
/*
 * Whether @uid may have a descriptor of the pages. Where the size is what is reserved, whoever
 * has one can make the file longer without our knowing, and take the room that others have
 * reserved: it is given to those who could do that without it.
 */
bool map_request_may_attach(const struct mount *mount, uid_t uid);
/* Make the file as long as what is mapped, which ends before page @to: by whole pages where
 * hugetlbfs does so. 0, -ENOMEM, -errno. */
int map_request_grow(struct mount *mount, struct inode *inode, int64_t to,
		     const struct hugefuse_ioc_map *map);
