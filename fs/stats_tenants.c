/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The text of .hugefuse/tenants: a line for the mount and one for each directory with a quota,
 * all of one instant. What of the mount's, or a tenant's, use is that of a tenant inside is
 * that one's use and what it has reserved.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>

#include "fs/stats_text.h"
#include "fs/tenant.h"

static void print_tenant(struct mount *mount, FILE *out, const struct tenant_info *info)
{
	const struct subpool_reading *reading = &info->reading;
	int64_t page_kb = (int64_t)(mount->backing->page_size / 1024);
	char path[PATH_MAX] = "/";

	/* One that was removed meanwhile, or is too deep for a path. */
	if (info->dir && inode_path(mount, info->dir, path, sizeof(path)) < 0)
		path[0] = '\0';
	if (reading->counts.max == SUBPOOL_NO_LIMIT)
		fputs("-", out);
	else
		fprintf(out, "%" PRId64, reading->counts.max * page_kb);
	fprintf(out, " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRIu64 " ",
		reading->counts.min * page_kb, reading->counts.used * page_kb,
		reading->counts.resv * page_kb, reading->nr_files, reading->nr_refused);
	stats_text_escape(out, path);
	fputc('\n', out);
}

int stats_text_tenants(struct mount *mount, FILE *out)
{
	struct tenant_info *infos;
	int64_t nr = tenants_read(mount, &infos);

	if (nr < 0)
		return (int)nr;
	fputs("size_kb min_size_kb used_kb reserved_kb files refused path\n", out);
	for (int64_t i = 0; i < nr; i++)
		print_tenant(mount, out, &infos[i]);
	tenants_free(mount, infos, nr);
	return 0;
}
