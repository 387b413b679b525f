/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What is asked of the daemon by one ioctl on the file. */
#include <sys/ioctl.h>
#include <sys/types.h>

#include "hugefuse.h"
#include "hugefuse_protocol.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT ssize_t hugefuse_reserve(int fd, off_t offset, size_t length)
{
	struct hugefuse_ioc_reserve reserve = {(uint64_t)offset, length, 0};

	if (ioctl(fd, HUGEFUSE_IOC_RESERVE, &reserve) < 0)
		return -1;
	return (ssize_t)reserve.nr_reserved;
}

EXPORT int hugefuse_query(int fd, struct hugefuse_info *info)
{
	struct hugefuse_ioc_query query;

	if (ioctl(fd, HUGEFUSE_IOC_QUERY, &query) < 0)
		return -1;
	*info = (struct hugefuse_info){
		.page_size = query.page_size,
		.size = query.size,
		.file_reserved = query.file_reserved,
		.file_instantiated = query.file_instantiated,
		.pool_total = query.pool_total,
		.pool_free = query.pool_free,
		.pool_reserved = query.pool_reserved,
		.pool_surplus = query.pool_surplus,
		.mappings = query.mappings,
	};
	return 0;
}
