/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The text of .hugefuse/fault_stat. */
#include <inttypes.h>

#include "fs/backing_thp.h"
#include "fs/fault_service.h"
#include "fs/stats.h"
#include "fs/stats_text.h"

static void print_nodes(struct page_core *core, FILE *out)
{
	const struct avail_mask *avail = &core->avail;
	uint64_t missing = core->memory_nodes &
			   (~avail_mask_nodes(&core->avail) | avail_mask_stolen(&core->avail));

	fprintf(out, "remote_pages %" PRIu64 "\nbind_refused %" PRIu64 "\n", core->nr_remote,
		core->nr_unbound);
	for (int node = 0; node < POOL_MAX_NODES; node++) {
		if (core->nr_unbound_of[node])
			fprintf(out, "bind_refused_node%d %" PRIu64 "\n", node,
				core->nr_unbound_of[node]);
	}
	fprintf(out, "attempts_failed %" PRIu64 "\nattempts_spared %" PRIu64 "\n",
		avail->nr_failed, avail->nr_spared);
	fprintf(out, "refills %" PRIu64 "\nrefills_failed %" PRIu64 "\n", avail->nr_refills,
		avail->nr_refill_failed);
	fprintf(out, "nodes_unavailable %d\n", __builtin_popcountll(missing));
}

int stats_text_fault_stat(struct mount *mount, FILE *out)
{
	struct fault_sum sum;
	uint64_t waiting, age_ns;
	int r;

	r = fault_service_read(mount->fault_service, &sum, &waiting, &age_ns);
	if (r < 0)
		return r;
	fault_sum_print(&sum, out);
	fprintf(out, "base_fallback %" PRId64 "\n",
		mount->is_thp ? backing_thp_nr_fallbacks(mount->backing) : 0);
	print_nodes(&mount->core, out);
	fprintf(out, "waiting %" PRIu64 "\nperiod_ms %" PRIu64 "\n", waiting, age_ns / 1000000);
	fault_sum_print_details(&sum, out);
	fault_sum_deinit(&sum);
	return 0;
}

int stats_clear_fault_stat(struct mount *mount)
{
	int r = fault_service_clear(mount->fault_service);

	if (r == 0 && mount->is_thp)
		backing_thp_clear_fallbacks(mount->backing);
	if (r == 0) {
		avail_mask_clear_counts(&mount->core.avail);
		mount->core.nr_remote = mount->core.nr_unbound = 0;
		for (int node = 0; node < POOL_MAX_NODES; node++)
			mount->core.nr_unbound_of[node] = 0;
	}
	return r;
}
