/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The text of .hugefuse/fault_stat. */
#include <inttypes.h>

#include "fs/backing_thp.h"
#include "fs/fault_service.h"
#include "fs/stats.h"
#include "fs/stats_text.h"

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
	return r;
}
