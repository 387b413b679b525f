/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Every call that a program without library may make on a file of transparent huge pages, and
 * on one of a tmpfs with huge=always: the same result, the same errno, the same bytes after it.
 * test_plain_maps.c has what is done with mappings.
 */
#include "plain.h"

#include <linux/falloc.h>
#include <sys/uio.h>

/* ---- fallocate ---- */

#define PUNCH (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE)

static int fallocate_body(void *data)
{
	static const int modes[] = {0,
				    FALLOC_FL_KEEP_SIZE,
				    FALLOC_FL_PUNCH_HOLE,
				    PUNCH,
				    FALLOC_FL_COLLAPSE_RANGE,
				    FALLOC_FL_INSERT_RANGE,
				    FALLOC_FL_UNSHARE_RANGE,
				    0x4000};
	static const off_t ranges[][2] = {
		{0, 1},
		{1, 4094},
		{0, 4096},
		{4095, 2},
		{4096, PAGE},
		{PAGE, PAGE},
		{PAGE - 1, PAGE + 2},
		{PAGE / 2, 2 * PAGE},
		{4 * PAGE - 5000, 10000},
		{5 * PAGE, 100},
		{0, 0},
		{-1, 4096},
		{0, -4096},
		{0, 6 * PAGE},
	};

	beside_open();
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		fill_both("file", 4 * PAGE + 1000);
		for (size_t j = 0; j < sizeof(ranges) / sizeof(ranges[0]); j++) {
			both(fallocate(fd[side], modes[i], ranges[j][0], ranges[j][1]));
			both_equal(size_of(side));
			compare_content("file", 7 * PAGE);
			same_maps(4 * PAGE + 1000);
		}
		unmap_both(4 * PAGE + 1000);
		remove_both("file");
	}
	return 0;
}

/* tmpfs refuses it; here it does what punching and allocating do there. */
static long zero_range(int side, bool keep_size, off_t offset, off_t len)
{
	int keep = keep_size ? FALLOC_FL_KEEP_SIZE : 0;

	if (side == 0)
		return fallocate(fd[0], FALLOC_FL_ZERO_RANGE | keep, offset, len);
	if (fallocate(fd[1], PUNCH, offset, len) < 0)
		return -1;
	return fallocate(fd[1], keep, offset, len);
}

static int zero_range_body(void *data)
{
	static const off_t ranges[][2] = {{1, 4094},        {4095, 2},    {0, 0},
					  {4096, PAGE},     {PAGE, PAGE}, {-1, 5},
					  {3 * PAGE, PAGE}, {0, 5 * PAGE}};

	beside_open();
	for (int keep = 0; keep < 2; keep++) {
		fill_both("file", 3 * PAGE + 1000);
		for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
			both(zero_range(side, keep, ranges[i][0], ranges[i][1]));
			both_equal(size_of(side));
			same_maps(3 * PAGE + 1000);
			compare_content("file", 6 * PAGE);
		}
		unmap_both(3 * PAGE + 1000);
		remove_both("file");
	}
	return 0;
}

static int posix_fallocate_body(void *data)
{
	static const off_t ranges[][2] = {{0, 1},       {4096, PAGE},     {3 * PAGE, 1},
					  {0, 0},       {-1, 1},          {1, -1},
					  {PAGE, PAGE}, {0, 4 * PAGE + 7}};

	beside_open();
	open_both("file", MODE);
	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		both_equal(posix_fallocate(fd[side], ranges[i][0], ranges[i][1]));
		both_equal(size_of(side));
	}
	compare_content("file", 4 * PAGE + 7);
	close_both();
	open_both("file", O_RDONLY | O_CLOEXEC);
	both_equal(posix_fallocate(fd[side], 0, 4096));
	both(fallocate(fd[side], PUNCH, 0, 4096));
	both(ftruncate(fd[side], 0));
	remove_both("file");
	return 0;
}

/* ---- how it was opened ---- */

static int append_body(void *data)
{
	struct iovec iov[2] = {{(char[]){"abc"}, 3}, {(char[]){"defg"}, 4}};

	beside_open();
	open_both("file", MODE | O_APPEND);
	both_equal(write(fd[side], "first", 5));
	both_equal(pwrite(fd[side], "second", 6, 0));
	size_both(PAGE - 2);
	both_equal(write(fd[side], "across", 6));
	both_equal(lseek(fd[side], 0, SEEK_CUR));
	both_equal(lseek(fd[side], 3, SEEK_SET));
	both_equal(writev(fd[side], iov, 2));
	both_equal(lseek(fd[side], 0, SEEK_CUR));
	both_equal(size_of(side));
	compare_content("file", 2 * PAGE);
	both_give(0, fcntl(fd[side], F_SETFL, 0));
	both_equal(pwrite(fd[side], "third", 5, 1));
	both_equal(size_of(side));
	compare_content("file", 2 * PAGE);
	remove_both("file");
	return 0;
}

/* Two descriptors append in turn: each sees the other's end. */
static int append_twice_body(void *data)
{
	int other[2];

	beside_open();
	open_both("file", MODE | O_APPEND);
	both_give(0, (other[side] = openat(at, "file", O_WRONLY | O_APPEND | O_CLOEXEC)) < 0
			     ? -1
			     : 0);
	for (int i = 0; i < 50; i++) {
		both_equal(write(fd[side], "one", 3));
		both_equal(write(other[side], "three", 5));
	}
	both_equal(size_of(side));
	compare_content("file", 1000);
	both_give(0, close(other[side]));
	remove_both("file");
	return 0;
}

static int truncating_open_body(void *data)
{
	beside_open();
	fill_both("file", 2 * PAGE + 17);
	both_give(0,
		  close_after(openat(at, "file", O_WRONLY | O_TRUNC | O_CLOEXEC)) < 0 ? -1 : 0);
	both_equal(size_of(side));
	both_equal(raises_sigbus(map[side], false));
	both_equal(raises_sigbus(map[side] + PAGE, true));
	size_both(2 * PAGE + 17);
	same_maps(2 * PAGE + 17);
	compare_content("file", 3 * PAGE);
	both_give(0,
		  close_after(openat(at, "file", O_RDONLY | O_TRUNC | O_CLOEXEC)) < 0 ? -1 : 0);
	both_equal(size_of(side));
	unmap_both(2 * PAGE + 17);
	remove_both("file");
	return 0;
}

static int direct_io_body(void *data)
{
	char *bytes = aligned_alloc(4096, PAGE_2M);

	beside_open();
	memset(bytes, 'd', PAGE_2M);
	open_both("file", MODE | O_DIRECT);
	both_equal(pwrite(fd[side], bytes, PAGE_2M, 4096));
	both_equal(pwrite(fd[side], bytes + 1, 4097, PAGE + 1));
	both_equal(pread(fd[side], bytes, 8192, PAGE - 4096));
	both_equal(pread(fd[side], bytes + 3, 100, 5));
	map_both(2 * PAGE);
	both_give(0, raises_sigbus(map[side] + PAGE, true));
	map[0][7] = map[1][7] = 'm';
	both_equal(pread(fd[side], bytes, 1, 7) == 1 && bytes[0] == 'm');
	unmap_both(2 * PAGE);
	compare_content("file", 2 * PAGE);
	remove_both("file");
	free(bytes);
	return 0;
}

static int access_modes_body(void *data)
{
	static const int flags[] = {O_RDONLY, O_WRONLY, O_RDWR};
	static const int prots[] = {PROT_NONE, PROT_READ, PROT_WRITE, RW};
	static const int kinds[] = {MAP_SHARED, MAP_PRIVATE, MAP_SHARED_VALIDATE};

	beside_open();
	fill_both("file", PAGE);
	unmap_both(PAGE);
	close_both();
	for (int i = 0; i < 3 * 4 * 3; i++) {
		int prot = prots[i / 3 % 4];

		open_both("file", flags[i / 12] | O_CLOEXEC);
		if (both(map_at(side, PAGE, prot, kinds[i % 3], 0)) == 0) {
			both(mprotect(map[side], PAGE, PROT_READ));
			both(mprotect(map[side], PAGE, RW));
			unmap_both(PAGE);
		}
		both(write(fd[side], "w", 1));
		both(pread(fd[side], &(char){0}, 1, 0));
		close_both();
	}
	open_both("file", O_RDWR | O_CLOEXEC);
	both(map_at(side, 0, RW, MAP_SHARED, 0));
	both(map_at(side, PAGE, RW, MAP_SHARED, 100));
	both(map_at(side, PAGE, RW, MAP_SHARED_VALIDATE | MAP_SYNC, 0));
	both(map_at(side, PAGE, RW, 0, 0));
	both_give(0, map_at(side, 4096, RW, MAP_SHARED, 4096));
	same_maps(4096);
	unmap_both(4096);
	remove_both("file");
	return 0;
}

/* ---- data and holes ---- */

static int seek_body(void *data)
{
	static const off_t places[] = {0,        1,        PAGE - 1, PAGE,         2 * PAGE,
				       3 * PAGE, 4 * PAGE, 5 * PAGE, 6 * PAGE - 1, 6 * PAGE,
				       -1};
	char *bytes = malloc(PAGE_2M);

	beside_open();
	memset(bytes, 'b', PAGE_2M);
	open_both("file", MODE);
	size_both(6 * PAGE);
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
			both_equal(lseek(fd[side], places[i], SEEK_DATA));
			both_equal(lseek(fd[side], places[i], SEEK_HOLE));
		}
		if (round == 0) {
			both_equal(pwrite(fd[side], bytes, PAGE_2M, PAGE));
			both_equal(pwrite(fd[side], bytes, PAGE_2M, 4 * PAGE));
			both_equal(pwrite(fd[side], bytes, PAGE_2M, 5 * PAGE));
		} else {
			both_give(0, fallocate(fd[side], PUNCH, 4 * PAGE, PAGE));
		}
	}
	both_equal(lseek(fd[side], -5, SEEK_END));
	both_equal(lseek(fd[side], 0, SEEK_CUR));
	remove_both("file");
	free(bytes);
	return 0;
}

/* ---- names of what is open and mapped ---- */

static int rename_over_body(void *data)
{
	int old[2];

	beside_open();
	fill_both("target", 2 * PAGE + 5);
	both_give(0, (old[side] = dup(fd[side])) < 0 ? -1 : 0);
	close_both();
	open_both("source", MODE);
	both_equal(write(fd[side], "new", 3));
	both_give(0, renameat(at, "source", at, "target"));
	same_maps(2 * PAGE + 5);
	both_equal(pwrite(old[side], "w", 1, PAGE + 3));
	both_equal(raises_sigbus(map[side] + 2 * PAGE, true));
	both_equal(ftruncate(old[side], 3 * PAGE));
	same_maps(2 * PAGE + 5);
	compare_content("target", PAGE);
	for (int i = 0; i < 2; i++) {
		if (map[i][PAGE + 3] != 'w')
			differ("%s: what was renamed over is lost", beside_name[i]);
	}
	both_give(0, close(old[side]));
	same_maps(2 * PAGE + 5);
	unmap_both(2 * PAGE + 5);
	remove_both("target");
	return 0;
}

static int unlinked_body(void *data)
{
	beside_open();
	fill_both("file", 2 * PAGE + 5);
	both_give(0, linkat(at, "file", at, "link", 0));
	both_give(0, unlinkat(at, "file", 0));
	same_maps(2 * PAGE + 5);
	both_give(0, unlinkat(at, "link", 0));
	same_maps(2 * PAGE + 5);
	both_equal(pwrite(fd[side], "more", 4, 3 * PAGE));
	both_equal(size_of(side));
	both_give(0, fallocate(fd[side], PUNCH, 0, PAGE));
	same_maps(2 * PAGE + 5);
	both_give(0, map_at(side, 3 * PAGE, RW, MAP_SHARED, 0)); /* the first one stays */
	close_both();
	both_give(0, close_after(openat(at, "file", MODE | O_EXCL, 0600)) < 0 ? -1 : 0);
	same_maps(3 * PAGE);
	for (size_t i = 0; i < 3 * PAGE_2M; i += 4096)
		both_equal(raises_sigbus(map[side] + i, true));
	unmap_both(3 * PAGE);
	both_give(0, unlinkat(at, "file", 0));
	return 0;
}

/* ---- from file to file ---- */

static int copies_body(void *data)
{
	int to[2];

	beside_open();
	fill_both("from", 2 * PAGE + 99);
	both_give(0, (to[side] = openat(at, "to", MODE, 0600)) < 0 ? -1 : 0);
	both_equal(
		copy_file_range(fd[side], &(off_t){5}, to[side], &(off_t){PAGE - 7}, 5000, 0));
	both_equal(copy_file_range(fd[side], &(off_t){2 * PAGE}, to[side], NULL, 4096, 0));
	compare_content("to", 2 * PAGE);
	/* write(2) from the file's own mapping, to itself and to the other */
	both_equal(pwrite(fd[side], map[side] + PAGE + 1, 70000, 3));
	both_equal(pwrite(to[side], map[side], PAGE, 12345));
	both_equal(pread(to[side], map[side] + 100, 9000, 12000));
	same_maps(2 * PAGE + 99);
	compare_content("from", 3 * PAGE);
	compare_content("to", 3 * PAGE);
	both_give(0, close(to[side]));
	both_give(0, unlinkat(at, "to", 0));
	unmap_both(2 * PAGE + 99);
	remove_both("from");
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BESIDE(fallocate_body),       BESIDE(posix_fallocate_body),
		BESIDE(append_body),          BESIDE(append_twice_body),
		BESIDE(truncating_open_body), BESIDE(direct_io_body),
		BESIDE(access_modes_body),    BESIDE(seek_body),
		BESIDE(rename_over_body),     BESIDE(unlinked_body),
		BESIDE(copies_body),          BESIDE(zero_range_body),
	};

	require_root();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
