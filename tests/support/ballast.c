/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Ballast: an anonymous mapping that is never touched. */
#include "ballast.h"

#include <errno.h>
#include <linux/mman.h>
#include <string.h>
#include <sys/mman.h>

#include "fixture.h"

void ballast_take(struct ballast *ballast, unsigned long page_size)
{
	struct kernel_counts counts = kernel_counts_read(page_size);
	int size_flag = page_size == PAGE_2M ? MAP_HUGE_2MB : MAP_HUGE_1GB;
	long nr = counts.free - counts.resv;

	*ballast = (struct ballast){0};
	if (nr <= 0)
		return;
	ballast->length = (size_t)nr * page_size;
	ballast->addr = mmap(NULL, ballast->length, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | size_flag, -1, 0);
	if (ballast->addr == MAP_FAILED)
		fail_msg("cannot reserve %ld free pages of the machine's pool: %s", nr,
			 strerror(errno));
	madvise(ballast->addr, ballast->length, MADV_DONTFORK);
}

void ballast_drop(struct ballast *ballast)
{
	if (ballast->addr)
		munmap(ballast->addr, ballast->length);
	ballast->addr = NULL;
}
