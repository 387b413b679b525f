/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The ioctl PAGEMAP_SCAN (Linux 6.7) tells ranges of pages in one call. Before, an entry is
 * read for each page; all small pages of a huge one are there with it.
 */
#include "fs/pagemap.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* include/uapi/linux/fs.h, which is older here and there. */
struct page_region {
	uint64_t start, end, categories;
};

struct pm_scan_arg {
	uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
	uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};

#define SCAN_PAGEMAP _IOWR('f', 16, struct pm_scan_arg)
#define IS_FILE      (1ULL << 2)
#define IS_PRESENT   (1ULL << 3)
#define IS_HUGE      (1ULL << 6)
#define NR_REGIONS   64

#define ENTRY_PRESENT (1ULL << 63)
#define SMALL_PAGE    4096

static int64_t scan(int fd, uint64_t start, uint64_t end)
{
	struct page_region regions[NR_REGIONS];
	struct pm_scan_arg arg = {
		.size = sizeof(arg),
		.start = start,
		.end = end,
		.vec = (uintptr_t)regions,
		.vec_len = NR_REGIONS,
		.category_mask = IS_PRESENT,
		.return_mask = IS_PRESENT,
	};
	int64_t present = 0;
	int nr;

	do {
		nr = ioctl(fd, SCAN_PAGEMAP, &arg);
		if (nr < 0)
			return -errno;
		for (int i = 0; i < nr; i++)
			present += (int64_t)(regions[i].end - regions[i].start);
		arg.start = arg.walk_end;
	} while (nr == NR_REGIONS && arg.start < end);
	return present;
}

int pagemap_anonymous(int fd, uint64_t start, uint64_t end, struct pagemap_range *ranges,
		      int room)
{
	struct page_region regions[NR_REGIONS];
	struct pm_scan_arg arg = {
		.size = sizeof(arg),
		.start = start,
		.end = end,
		.vec = (uintptr_t)regions,
		.vec_len = NR_REGIONS,
		.category_inverted = IS_FILE,
		.category_mask = IS_PRESENT | IS_FILE,
		.return_mask = IS_PRESENT,
	};
	int nr = ioctl(fd, SCAN_PAGEMAP, &arg), kept = 0;

	if (nr < 0)
		return -errno;
	if (nr == NR_REGIONS)
		return -E2BIG;
	for (int i = 0; i < nr; i++) {
		if (kept > 0 && ranges[kept - 1].end == regions[i].start) {
			ranges[kept - 1].end = regions[i].end;
			continue;
		}
		if (kept == room)
			return -E2BIG;
		ranges[kept++] = (struct pagemap_range){regions[i].start, regions[i].end};
	}
	return kept;
}

static int64_t read_entries(int fd, uint64_t start, uint64_t end, uint64_t page_size)
{
	int64_t present = 0;
	uint64_t entry;

	for (; start < end; start += page_size) {
		if (pread(fd, &entry, sizeof(entry),
			  (off_t)(start / SMALL_PAGE * sizeof(entry))) != sizeof(entry))
			break;
		if (entry & ENTRY_PRESENT)
			present += (int64_t)page_size;
	}
	return present;
}

int64_t pagemap_present(int fd, uint64_t start, uint64_t end, uint64_t page_size)
{
	int64_t present = scan(fd, start, end);

	if (present == -ENOTTY)
		return read_entries(fd, start, end, page_size);
	return present == -ESRCH ? 0 : present;
}

int pagemap_is_huge(int fd, uint64_t address)
{
	struct page_region region;
	struct pm_scan_arg arg = {
		.size = sizeof(arg),
		.start = address,
		.end = address + SMALL_PAGE,
		.vec = (uintptr_t)&region,
		.vec_len = 1,
		.category_mask = IS_HUGE,
		.return_mask = IS_HUGE,
	};
	int nr = ioctl(fd, SCAN_PAGEMAP, &arg);

	return nr < 0 ? -errno : nr;
}
