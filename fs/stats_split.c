/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The text of .hugefuse/split: a line for each queue of huge pages with holes that were only
 * noted, each of one instant. Numbers of huge pages, and kB of what could be freed or was.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "fs/split.h"
#include "fs/stats_text.h"
#include "fs/tenant.h"

/* Which directory a set is of: "/" for the mount, "-" for all tenants together. */
static void print_tenant(struct mount *mount, FILE *out, const struct split_set *set,
			 const struct tenant_info *infos, int64_t nr_infos)
{
	char path[PATH_MAX] = "";

	if (!set->subpool) {
		fputs("-", out);
		return;
	}
	if (set->subpool == &mount->core.subpool)
		strcpy(path, "/");
	for (int64_t i = 0; i < nr_infos; i++) {
		if (infos[i].reading.subpool == set->subpool && infos[i].dir &&
		    inode_path(mount, infos[i].dir, path, sizeof(path)) < 0)
			path[0] = '\0';
	}
	/* A tenant that is no more, but has files still, has no directory. */
	stats_text_escape(out, path[0] ? path : "?");
}

static void print_counts(FILE *out, const struct split_counts *counts, int64_t page_kb)
{
	fprintf(out, "%" PRId64 " %" PRId64 " %" PRIu64, counts->nr_huge,
		counts->nr_noted * page_kb, counts->nr_deferred);
	for (int why = 0; why < NR_SPLIT_ENDS; why++)
		fprintf(out, " %" PRIu64, counts->nr_ended[why]);
	fprintf(out, " %" PRIu64 " %" PRIu64 " ", counts->nr_elsewhere,
		counts->nr_freed * (uint64_t)page_kb);
}

static void print_set(struct mount *mount, FILE *out, struct split_set *set,
		      const struct tenant_info *infos, int64_t nr_infos)
{
	int64_t page_kb = (int64_t)(mount->backing->page_size / 1024);
	struct split_counts counts;

	for (int node = 0; node < set->nr_queues; node++) {
		split_queue_read(&set->queues[node], &counts);
		if (mount->split.queues.mode == SPLIT_TENANT_NODE)
			fprintf(out, "%d ", node);
		else
			fputs("- ", out);
		print_counts(out, &counts, page_kb);
		print_tenant(mount, out, set, infos, nr_infos);
		fputc('\n', out);
	}
}

int stats_text_split(struct mount *mount, FILE *out)
{
	struct tenant_info *infos;
	struct split_set **sets;
	int64_t nr_infos, nr;

	fputs("node queued could_free_kb deferred split emptied refilled settled cut "
	      "elsewhere freed_kb tenant\n",
	      out);
	nr = split_sets_read(&mount->split.queues, &sets);
	if (nr < 0)
		return (int)nr;
	nr_infos = tenants_read(mount, &infos);
	for (int64_t i = nr - 1; i >= 0 && nr_infos >= 0; i--)
		print_set(mount, out, sets[i], infos, nr_infos);
	if (nr_infos >= 0)
		tenants_free(mount, infos, nr_infos);
	split_sets_free(&mount->split.queues, sets, nr);
	return nr_infos < 0 ? (int)nr_infos : 0;
}
