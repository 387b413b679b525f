/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The text of .hugefuse/pool: all counters of the pool, those of its nodes, of one instant. */
#include <inttypes.h>

#include "fs/stats_text.h"

int stats_text_pool(struct mount *mount, FILE *out)
{
	int64_t kb = (int64_t)(mount->backing->page_size / 1024);
	uint64_t page_kb = mount->backing->huge_page_size / 1024;
	struct pool_counts pool;

	pool_read(&mount->core.pool, &pool);
	fputs("node page_kb total_kb free_kb surplus_kb resv_kb overcommit_kb\n", out);
	fprintf(out,
		"all %" PRIu64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n",
		page_kb, pool.nr * kb, pool.free * kb, pool.surplus * kb, pool.resv * kb,
		pool.overcommit * kb);
	for (int node = 0; node < pool.nr_nodes; node++)
		fprintf(out, "%d %" PRIu64 " %" PRId64 " %" PRId64 " %" PRId64 " - -\n", node,
			page_kb, pool.node[node].nr * kb, pool.node[node].free * kb,
			pool.node[node].surplus * kb);
	return 0;
}
