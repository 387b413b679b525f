/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Hostile users: what their tests share. */
#include "hostile.h"

#include <fcntl.h>
#include <unistd.h>

#include "fixture.h"
#include "witness.h"

const int64_t absurd[NR_ABSURD] = {
	0,
	1,
	-1,
	INT32_MAX,
	1L << 32,
	1L << 46,
	1L << 59,
	1L << 60,
	(1L << 60) + 1,
	INT64_MAX,
	INT64_MIN,
	INT64_MAX - 1,
	INT64_MAX - (int64_t)PAGE_2M,
	INT64_MAX - (int64_t)PAGE_2M + 1,
	4095,
	(int64_t)PAGE_2M,
};

int attach(struct raw_mapping *mapping, const char *name, uint32_t flags, uint64_t pages)
{
	int fd = open_file(name, O_RDWR | O_CREAT);

	child_check(fd >= 0);
	child_check(raw_mapping_attach(mapping, fd, flags, 0, pages * PAGE_2M) == 0);
	close(fd);
	return 0;
}
