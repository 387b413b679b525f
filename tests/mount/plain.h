/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A file of transparent huge pages and one of a tmpfs, open and mapped side by side, and the
 * tests that run on both: for test_plain.c and test_plain_maps.c.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "beside.h"

#define RW   (PROT_READ | PROT_WRITE)
#define PAGE ((off_t)PAGE_2M)
#define MODE (O_RDWR | O_CREAT | O_CLOEXEC)

static int fd[2];
static char *map[2];

static inline void open_both(const char *name, int flags)
{
	both_give(0, (fd[side] = openat(at, name, flags, 0600)) < 0 ? -1 : 0);
}

static inline void close_both(void)
{
	both_give(0, close(fd[side]));
}

static inline void size_both(off_t size)
{
	both_give(0, ftruncate(fd[side], size));
}

static inline long map_at(int side, size_t length, int prot, int flags, off_t offset)
{
	map[side] = mmap(NULL, length, prot, flags, fd[side], offset);
	return map[side] == MAP_FAILED ? -1 : 0;
}

static inline void map_both(size_t length)
{
	both_give(0, map_at(side, length, RW, MAP_SHARED, 0));
}

static inline void unmap_both(size_t length)
{
	both_give(0, munmap(map[side], length));
}

/* A file of @size bytes, each of which tells its page and its place. */
static inline void fill_both(const char *name, off_t size)
{
	open_both(name, MODE);
	size_both(size);
	map_both((size_t)size);
	for (int side = 0; side < 2; side++) {
		for (off_t i = 0; i < size; i++)
			map[side][i] = (char)(i / 4096 * 31 + i % 251);
	}
}

static inline void remove_both(const char *name)
{
	close_both();
	both_give(0, unlinkat(at, name, 0));
}

static inline void same_maps(size_t length)
{
	for (size_t i = 0; i < length; i += 4096) {
		if (memcmp(map[0] + i, map[1] + i, length - i < 4096 ? length - i : 4096))
			differ("the mappings differ behind %zu", i);
	}
}

static inline off_t size_of(int side)
{
	struct stat st;

	return fstat(fd[side], &st) < 0 ? -1 : st.st_size;
}

/* ---- to run one ---- */

static inline void run_with(int (*body)(void *data), const char *tmpfs_options)
{
	beside_mount_with("backing=thp,size=64M", tmpfs_options);
	beside_run(body, NULL, 0);
	beside_umount();
}

static inline void run_beside(void **state)
{
	run_with((int (*)(void *)) * state, "mode=1777,size=512m,huge=always");
}

/* A huge page of a tmpfs can be touched as a whole, wherever the file ends: what is asked about
 * the end is one of base pages. */
static inline void run_beside_base_pages(void **state)
{
	run_with((int (*)(void *)) * state, "mode=1777,size=512m,huge=never");
}

#define BESIDE(body)                                        \
	{                                                   \
#body, run_beside, NULL, NULL, (void *)body \
	}
#define BESIDE_BASE_PAGES(body)                                        \
	{                                                              \
#body, run_beside_base_pages, NULL, NULL, (void *)body \
	}
