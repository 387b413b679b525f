/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A file is truncated to nothing under a process that has it mapped: the next touch is SIGBUS,
 * which it can handle, and no counter wraps; when the file has grown again the mapping works.
 * And a segment of more than 1 GB that several processes use is freed entirely when they exit.
 */
#include <unistd.h>

#include "reports.h"

#define POOL          4
#define SEGMENT_PAGES 520 /* 1.02 GB */
#define NR_USERS      3

static void truncate_and_touch(struct side *side)
{
	int fd = side_file(side, "file", POOL);
	char *p = side_map_pages(side, MAP_SHARED, fd, 0, POOL);

	for (int round = 0; round < 200; round++) {
		*p = *page(p, POOL - 1) = 1;
		assert_int_equal(ftruncate(fd, 0), 0);
		for (int i = 0; i < POOL; i++) {
			assert_true(raises_sigbus(page(p, i), false));
			assert_true(raises_sigbus(page(p, i), true));
		}
		if (round % 20 == 0)
			side_expect(side, 0, 0);
		assert_int_equal(ftruncate(fd, POOL * PAGE_2M), 0);
		assert_int_equal(*p, 0);
	}
	side_expect(side, 1, 0);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(side_unmap(side, p, POOL * PAGE_2M), 0);
	side_expect(side, 0, 0);
	/* All of it can be reserved again, and not a page more. */
	assert_int_equal(ftruncate(fd, 2 * POOL * PAGE_2M), 0);
	assert_ptr_equal(side_map(side, NULL, (POOL + 1) * PAGE_2M, RW, MAP_PRIVATE, fd, 0),
			 MAP_FAILED);
	side_map_pages(side, MAP_PRIVATE | MAP_POPULATE, fd, 0, POOL);
	side_expect(side, POOL, 0);
}

static int truncate_in_child(void *data)
{
	return ftruncate(*(int *)data, 0);
}

/* Not by the process that has it mapped, but behind its back. */
static void truncated_by_another(struct side *side)
{
	int fd = side_file(side, "file", POOL);
	char *p = side_map_pages(side, MAP_SHARED, fd, 0, POOL);

	*page(p, 1) = 1;
	assert_int_equal(run_child(truncate_in_child, &fd, 0, 10000), 0);
	assert_true(raises_sigbus(page(p, 1), true));
	assert_true(raises_sigbus(page(p, 2), false));
	side_expect(side, 0, 0);
}

struct segment {
	struct side *side;
	int fd;
	int ready[2];
};

/* Each writes a part, reads what another wrote, and ends without unmapping. */
static int use_segment(void *data)
{
	struct segment *segment = data;
	char *p = side_map_pages(segment->side, MAP_SHARED, segment->fd, 0, SEGMENT_PAGES);

	for (int i = 0; i < SEGMENT_PAGES; i++)
		*page(p, i) |= 1;
	p[1L << 30] = 2;
	assert_int_equal(write(segment->ready[1], "", 1), 1);
	return 0;
}

static void segment_is_freed(struct side *side)
{
	struct segment segment = {side, side_file(side, "segment", SEGMENT_PAGES)};
	pid_t user[NR_USERS];
	char byte;

	assert_int_equal(pipe(segment.ready), 0);
	for (int i = 0; i < NR_USERS; i++)
		user[i] = start_child(use_segment, &segment, 0);
	assert_int_equal(unlink(fixture_path(&side->fixture, "segment")), 0);
	for (int i = 0; i < NR_USERS; i++)
		assert_int_equal(read(segment.ready[0], &byte, 1), 1);
	assert_int_equal(pages_of(segment.fd), SEGMENT_PAGES);
	assert_int_equal(pread(segment.fd, &byte, 1, 1L << 30), 1);
	assert_int_equal(byte, 2);
	close(segment.fd);
	for (int i = 0; i < NR_USERS; i++)
		assert_int_equal(wait_child(user[i], 20000), 0);
	side_expect(side, 0, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(truncate_and_touch, POOL),
		ON_BOTH(truncated_by_another, POOL),
		ON_BOTH(segment_is_freed, SEGMENT_PAGES),
	};

	require_root();
	require_pages(PAGE_2M, SEGMENT_PAGES);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
