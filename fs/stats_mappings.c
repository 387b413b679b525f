/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The texts of .hugefuse/maps and .hugefuse/fault_stat, and what must be settled before
 * counting. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>

#include "fs/backing_thp.h"
#include "fs/client.h"
#include "fs/control.h"
#include "fs/fault_service.h"
#include "fs/fuse_device.h"
#include "fs/mapping.h"
#include "fs/reconcile.h"
#include "fs/stats.h"
#include "fs/stats_text.h"

#define SETTLE_NS 1000000000ULL

static const char *kind_of(const struct mapping *mapping)
{
	if (mapping->flags & HUGEFUSE_MAP_PRIVATE)
		return mapping->flags & HUGEFUSE_MAP_NORESERVE ? "private,noreserve"
							       : "private";
	return mapping->flags & HUGEFUSE_MAP_NORESERVE ? "shared,noreserve" : "shared";
}

struct maps_writer {
	struct mount *mount;
	FILE *out;
};

/* A line for each address range of a mapping. */
static int write_mapping(struct mapping *mapping, void *data)
{
	struct maps_writer *writer = data;
	uint64_t page_size = writer->mount->backing->page_size;
	struct segment *segments;
	char path[PATH_MAX];
	int nr;

	if (!mapping->client)
		return 0;
	if (inode_path(writer->mount, mapping->inode, path, sizeof(path)) < 0)
		path[0] = '\0';
	nr = mapping_segments(mapping, &segments);
	if (nr < 0)
		return nr;
	for (int i = 0; i < nr; i++) {
		const struct segment *s = &segments[i];
		int64_t from = s->idx, to = from + (int64_t)((s->end - s->start) / page_size);
		int64_t resv, instantiated;

		page_space_count(mapping->space, from, to, &resv, &instantiated);
		fprintf(writer->out, "%" PRIu64 " %d ", mapping->id, mapping->client->pid);
		stats_text_escape(writer->out, mapping->client->comm);
		fprintf(writer->out,
			" %u %" PRIx64 " %" PRIx64 " %" PRIx64 " %" PRIu64 " %s %s %" PRId64
			" %" PRId64 " ",
			mapping->client->uid, s->start, s->end, (uint64_t)from * page_size,
			mapping->inode->ino, kind_of(mapping),
			mapping->nr_uffds ? "direct" : "kernel", resv, instantiated);
		stats_text_escape(writer->out, path);
		fputc('\n', writer->out);
	}
	free(segments);
	return 0;
}

int stats_text_maps(struct mount *mount, FILE *out)
{
	struct maps_writer writer = {mount, out};
	int r;

	fputs("mapping pid comm uid start end offset inode kind way reserved instantiated path\n",
	      out);
	r = control_for_each_mapping(mount->control, write_mapping, &writer);
	/* What is not listed has no fault in flight either. */
	fault_service_drain(mount->fault_service, SETTLE_NS);
	return r;
}

int stats_text_fault_stat(struct mount *mount, FILE *out)
{
	fault_service_print(mount->fault_service, out);
	fprintf(out, "base_fallback %" PRId64 "\n",
		mount->is_thp ? backing_thp_nr_fallbacks(mount->backing) : 0);
	return 0;
}

int stats_clear_fault_stat(struct mount *mount)
{
	fault_service_clear(mount->fault_service);
	if (mount->is_thp)
		backing_thp_clear_fallbacks(mount->backing);
	return 0;
}

void stats_settle(struct mount *mount)
{
	/* If a thread takes longer than that, its faults are still in flight, and counted as
	 * such. */
	fuse_device_settle(SETTLE_NS);
	fault_service_drain(mount->fault_service, SETTLE_NS);
	reconcile_mount(mount);
	mount_settle_size(mount);
}
