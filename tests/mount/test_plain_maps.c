/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a program without library may do with a mapping of a file of transparent huge pages, and
 * of one of a tmpfs with huge=always: the same result, the same signals, the same bytes.
 */
#include "plain.h"

#include <sys/wait.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

/* ---- mappings ---- */

static long move(int side, size_t old_length, size_t length, int flags, void *to)
{
	char *p = mremap(map[side], old_length, length, flags, to);

	if (p == MAP_FAILED)
		return -1;
	map[side] = p;
	return 0;
}

static int mremap_body(void *data)
{
	char *to[2];

	beside_open();
	fill_both("file", 4 * PAGE);
	unmap_both(4 * PAGE);
	map_both(PAGE);
	both_give(0, move(side, PAGE, 3 * PAGE, MREMAP_MAYMOVE, NULL));
	same_maps(3 * PAGE);
	both_give(0, move(side, 3 * PAGE, 6 * PAGE, MREMAP_MAYMOVE, NULL));
	same_maps(4 * PAGE);
	both_equal(raises_sigbus(map[side] + 4 * PAGE, true));
	size_both(5 * PAGE + 1);
	both_equal(raises_sigbus(map[side] + 5 * PAGE, true));
	for (int i = 0; i < 2; i++) {
		to[i] = mmap(NULL, 8 * PAGE_2M, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		map[i][PAGE + 9] = 'r';
	}
	both_give(0, move(side, 6 * PAGE, 6 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to[side]));
	same_maps(5 * PAGE);
	both_give(0, move(side, 6 * PAGE, PAGE + 4096, 0, NULL));
	same_maps(PAGE + 4096);
	both_give(0, move(side, PAGE + 4096, PAGE + 4096, MREMAP_MAYMOVE | MREMAP_DONTUNMAP,
			  NULL));
	same_maps(PAGE + 4096);
	both_give(0, munmap(to[side], 8 * PAGE));
	/* a second mapping of the same pages */
	to[0] = map[0];
	to[1] = map[1];
	both(move(side, 0, PAGE, MREMAP_MAYMOVE, NULL));
	to[0][1] = to[1][1] = 'x';
	same_maps(PAGE);
	both_give(0, munmap(to[side], PAGE + 4096));
	compare_content("file", 6 * PAGE);
	remove_both("file");
	return 0;
}

static int advise_body(void *data)
{
	static const int advice[] = {MADV_NORMAL,        MADV_RANDOM,         MADV_SEQUENTIAL,
				     MADV_WILLNEED,      MADV_HUGEPAGE,       MADV_DONTNEED,
				     MADV_POPULATE_READ, MADV_POPULATE_WRITE, MADV_FREE,
				     MADV_COLD,          MADV_REMOVE,         MADV_DONTDUMP,
				     MADV_DODUMP,        MADV_DONTFORK,       MADV_DOFORK,
				     MADV_NOHUGEPAGE,    MADV_POPULATE_READ,  12345};
	static const int kinds[] = {MAP_SHARED, MAP_PRIVATE};
	static const size_t ranges[][2] = {{0, 4 * PAGE_2M},
					   {0, 4096},
					   {4096, PAGE_2M},
					   {PAGE_2M, PAGE_2M},
					   {2 * PAGE_2M - 8192, 12288},
					   {100, 4096},
					   {4096, 100}};

	beside_open();
	for (int kind = 0; kind < 2; kind++) {
		fill_both("file", 3 * PAGE + 4097);
		unmap_both(3 * PAGE + 4097);
		both_give(0, map_at(side, 4 * PAGE, RW, kinds[kind], 0));
		for (int i = 0; i < 2; i++)
			memset(map[i] + 4090, 'p', PAGE_2M);
		for (size_t i = 0; i < sizeof(advice) / sizeof(advice[0]); i++) {
			for (size_t j = 0; j < sizeof(ranges) / sizeof(ranges[0]); j++) {
				both(madvise(map[side] + ranges[j][0], ranges[j][1],
					     advice[i]));
				same_maps(3 * PAGE + 4097);
			}
			compare_content("file", 4 * PAGE);
		}
		unmap_both(4 * PAGE);
		remove_both("file");
	}
	return 0;
}

static int read_only_advise_body(void *data)
{
	static const int advice[] = {MADV_REMOVE, MADV_DONTNEED, MADV_POPULATE_READ,
				     MADV_POPULATE_WRITE};

	beside_open();
	fill_both("file", 2 * PAGE);
	unmap_both(2 * PAGE);
	close_both();
	open_both("file", O_RDONLY | O_CLOEXEC);
	for (int kind = 0; kind < 2; kind++) {
		both_give(0, map_at(side, 2 * PAGE, PROT_READ, kind ? MAP_PRIVATE : MAP_SHARED,
				    0));
		for (int i = 0; i < 4; i++)
			both(madvise(map[side], PAGE, advice[i]));
		same_maps(2 * PAGE);
		unmap_both(2 * PAGE);
	}
	remove_both("file");
	return 0;
}

static long resident(int side, size_t length)
{
	unsigned char pages[4 * 512];
	long nr = 0;

	if (mincore(map[side], length, pages) < 0)
		return -1;
	for (size_t i = 0; i < length / 4096; i++)
		nr += pages[i] & 1;
	return nr;
}

static int sync_and_lock_body(void *data)
{
	static const int flags[] = {
		MS_ASYNC, MS_SYNC, MS_INVALIDATE, MS_SYNC | MS_INVALIDATE, MS_ASYNC | MS_SYNC,
		0,        64};

	beside_open();
	fill_both("file", 3 * PAGE);
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		both(msync(map[side], 3 * PAGE, flags[i]));
		both(msync(map[side] + 4096, 5000, flags[i]));
		both(msync(map[side] + 1, 5000, flags[i]));
	}
	both(mlock(map[side], 3 * PAGE));
	both(msync(map[side], 3 * PAGE, MS_INVALIDATE));
	both(munlock(map[side], 3 * PAGE));
	both(mlock2(map[side] + PAGE, PAGE, MLOCK_ONFAULT));
	both(munlock(map[side] + PAGE, PAGE));
	both_equal(resident(side, 3 * PAGE));
	both(fsync(fd[side]));
	both(fdatasync(fd[side]));
	both(sync_file_range(fd[side], 0, PAGE, SYNC_FILE_RANGE_WRITE));
	both(readahead(fd[side], 0, PAGE));
	both(posix_fadvise(fd[side], 0, PAGE, POSIX_FADV_DONTNEED));
	same_maps(3 * PAGE);
	/* beyond the end: what cannot be populated cannot be locked */
	size_both(PAGE + 1);
	both(mlock(map[side], 3 * PAGE));
	both(munlock(map[side], 3 * PAGE));
	both(madvise(map[side], 3 * PAGE, MADV_POPULATE_READ));
	both(madvise(map[side], 3 * PAGE, MADV_POPULATE_WRITE));
	both_equal(read(fd[side], map[side] + 2 * PAGE, 1));
	both_equal(write(fd[side], map[side] + 2 * PAGE, 1));
	unmap_both(3 * PAGE);
	remove_both("file");
	return 0;
}

/* ---- fork ---- */

static long child_stores(char *p, char *own)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		p[10] = 'c';
		own[10] = 'o';
		_exit(p[PAGE_2M] == 'p' && own[PAGE_2M] == 'p' ? 7 : 8);
	}
	return waitpid(child, &status, 0) == child ? status : -1;
}

static int fork_body(void *data)
{
	char *own[2];

	beside_open();
	fill_both("file", 2 * PAGE);
	both_give(0,
		  (own[side] = mmap(NULL, 2 * PAGE, RW, MAP_PRIVATE, fd[side], 0)) == MAP_FAILED
			  ? -1
			  : 0);
	both_equal(map[side][PAGE] = own[side][PAGE] = 'p');
	both_equal(child_stores(map[side], own[side]));
	both_equal(map[side][10]);
	both_equal(own[side][10]);
	both_equal(own[side][PAGE + 1]);
	map[0][PAGE + 1] = map[1][PAGE + 1] = 'q';
	both_equal(own[side][PAGE + 1]);
	both_give(0, munmap(own[side], 2 * PAGE));
	same_maps(2 * PAGE);
	unmap_both(2 * PAGE);
	remove_both("file");
	return 0;
}

/* ---- where the file ends ---- */

static void same_signals(size_t length, bool write)
{
	for (size_t i = 0; i < length; i += 4096) {
		both_equal(raises_sigbus(map[side] + i, write));
		both_equal(raises_sigbus(map[side] + i + 4095, write));
	}
}

static int end_body(void *data)
{
	static const off_t sizes[] = {
		0,        1,        4095,        4096, 4097,     PAGE - 1,        PAGE,
		PAGE + 1, 2 * PAGE, PAGE + 4096, 100,  3 * PAGE, 3 * PAGE - 4096, 0,
		PAGE / 2};

	beside_open();
	open_both("file", MODE);
	map_both(3 * PAGE);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_both(sizes[i]);
		same_signals(3 * PAGE_2M, i % 2);
		compare_content("file", 3 * PAGE);
		both_equal(pwrite(fd[side], "end", 3, sizes[i] + 4094));
		same_signals(3 * PAGE_2M, !(i % 2));
		compare_content("file", 3 * PAGE);
	}
	unmap_both(3 * PAGE);
	both_give(0, map_at(side, PAGE, RW, MAP_PRIVATE, 0));
	same_signals(PAGE, false);
	unmap_both(PAGE);
	both_give(0, map_at(side, PAGE, RW, MAP_SHARED, 8 * PAGE));
	same_signals(PAGE, true);
	unmap_both(PAGE);
	remove_both("file");
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BESIDE(mremap_body),        BESIDE(advise_body), BESIDE(read_only_advise_body),
		BESIDE(sync_and_lock_body), BESIDE(fork_body),   BESIDE_BASE_PAGES(end_body),
	};

	require_root();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
