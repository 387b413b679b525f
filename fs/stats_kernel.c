/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * .hugefuse/kernel: the kernel's own files about huge pages as they would be if this mount's
 * pool were the kernel's, for hugefuse run --counters. What min_size= has set aside and no file
 * uses is not reserved here: nobody but the mount's users sees these files.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fs/stats_text.h"

static void read_counts(struct mount *mount, struct pool_counts *ret_pool)
{
	int64_t chunk = backing_chunk(mount->backing);

	pool_read(&mount->core.pool, ret_pool);
	ret_pool->resv -= subpool_read_tree_resv(&mount->core.subpool);
	if (ret_pool->resv < 0)
		ret_pool->resv = 0; /* a page was taken between the two */
	ret_pool->nr /= chunk;
	ret_pool->free /= chunk;
	ret_pool->resv /= chunk;
	ret_pool->surplus /= chunk;
	ret_pool->overcommit /= chunk;
}

static int print_number(FILE *out, int64_t number)
{
	fprintf(out, "%" PRId64 "\n", number);
	return 0;
}

/* /proc/sys/vm/nr_hugepages is h->max_huge_pages, the file in sysfs h->nr_huge_pages. */
int stats_text_persistent(struct mount *mount, FILE *out)
{
	struct pool_counts pool;

	read_counts(mount, &pool);
	return print_number(out, pool.nr - pool.surplus);
}

int stats_text_nr(struct mount *mount, FILE *out)
{
	struct pool_counts pool;

	read_counts(mount, &pool);
	return print_number(out, pool.nr);
}

int stats_text_overcommit(struct mount *mount, FILE *out)
{
	struct pool_counts pool;

	read_counts(mount, &pool);
	return print_number(out, pool.overcommit);
}

int stats_text_free(struct mount *mount, FILE *out)
{
	struct pool_counts pool;

	read_counts(mount, &pool);
	return print_number(out, pool.free);
}

int stats_text_resv(struct mount *mount, FILE *out)
{
	struct pool_counts pool;

	read_counts(mount, &pool);
	return print_number(out, pool.resv);
}

int stats_text_surplus(struct mount *mount, FILE *out)
{
	struct pool_counts pool;

	read_counts(mount, &pool);
	return print_number(out, pool.surplus);
}

/* hugetlb_report_meminfo()'s lines; the others are the kernel's. */
int stats_text_meminfo(struct mount *mount, FILE *out)
{
	uint64_t page_kb = mount->backing->page_size >> 10;
	FILE *file = fopen("/proc/meminfo", "re");
	struct pool_counts pool;
	char line[256];

	if (!file)
		return -errno;
	read_counts(mount, &pool);
	while (fgets(line, sizeof(line), file)) {
		if (strncmp(line, "HugePages_Total:", 16) == 0)
			fprintf(out, "HugePages_Total:   %5" PRId64 "\n", pool.nr);
		else if (strncmp(line, "HugePages_Free:", 15) == 0)
			fprintf(out, "HugePages_Free:    %5" PRId64 "\n", pool.free);
		else if (strncmp(line, "HugePages_Rsvd:", 15) == 0)
			fprintf(out, "HugePages_Rsvd:    %5" PRId64 "\n", pool.resv);
		else if (strncmp(line, "HugePages_Surp:", 15) == 0)
			fprintf(out, "HugePages_Surp:    %5" PRId64 "\n", pool.surplus);
		else if (strncmp(line, "Hugepagesize:", 13) == 0)
			fprintf(out, "Hugepagesize:   %8" PRIu64 " kB\n", page_kb);
		else if (strncmp(line, "Hugetlb:", 8) == 0)
			fprintf(out, "Hugetlb:        %8" PRIu64 " kB\n",
				(uint64_t)pool.nr * page_kb);
		else
			fputs(line, out);
	}
	fclose(file);
	return 0;
}
