/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Counters before and after a restart. */
#include "restart.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "hugefuse.h"

char *map_file(int fd, long pages, int flags)
{
	char *p = hugefuse_mmap(NULL, (size_t)pages * PAGE_2M, RW, flags, fd, 0);

	if (p == MAP_FAILED)
		fail_msg("hugefuse_mmap of %ld pages: %s", pages, strerror(errno));
	return p;
}

struct counts read_counts(const struct fixture *fixture)
{
	struct kernel_counts now = kernel_counts_read(PAGE_2M), before = fixture->before;

	return (struct counts){
		.used = fixture_counter(fixture, "nr_hugepages") -
			fixture_counter(fixture, "free_hugepages"),
		.resv = fixture_counter(fixture, "resv_hugepages"),
		.kernel_used = now.nr - now.free - (before.nr - before.free),
		.kernel_resv = now.resv - before.resv,
		.kernel_nr = now.nr - before.nr,
	};
}

void expect_counts(const struct fixture *fixture, struct counts expected)
{
	struct counts now = read_counts(fixture);

	if (memcmp(&now, &expected, sizeof(now)) != 0)
		fail_msg(
			"used %ld resv %ld, kernel's used %ld resv %ld nr %ld; expected %ld %ld, "
			"%ld %ld %ld",
			now.used, now.resv, now.kernel_used, now.kernel_resv, now.kernel_nr,
			expected.used, expected.resv, expected.kernel_used,
			expected.kernel_resv, expected.kernel_nr);
}

struct expectation {
	const struct fixture *fixture;
	long used, resv;
};

static bool has_counts(void *data)
{
	const struct expectation *expected = data;
	struct counts now = read_counts(expected->fixture);

	return now.used == expected->used && now.resv == expected->resv &&
	       now.kernel_used == now.used && now.kernel_resv == now.resv;
}

void expect(const struct fixture *fixture, long used)
{
	struct expectation expected = {fixture, used, POOL - used};
	struct counts now;

	if (!wait_until(has_counts, &expected, 3000)) {
		now = read_counts(fixture);
		fail_msg("used %ld resv %ld, kernel's used %ld resv %ld; expected %ld %ld",
			 now.used, now.resv, now.kernel_used, now.kernel_resv, used,
			 POOL - used);
	}
}

long can_reserve(const struct fixture *fixture)
{
	int fd = fixture_file(fixture, "probe", O_RDWR | O_CREAT, 0);
	long nr = 0;
	char *p;

	for (long pages = POOL; pages > 0 && nr == 0; pages--) {
		p = hugefuse_mmap(NULL, (size_t)pages * PAGE_2M, RW, MAP_PRIVATE, fd, 0);
		if (p == MAP_FAILED)
			continue;
		assert_int_equal(hugefuse_munmap(p, (size_t)pages * PAGE_2M), 0);
		nr = pages;
	}
	close(fd);
	assert_int_equal(unlink(fixture_path(fixture, "probe")), 0);
	return nr;
}
