/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The text of .hugefuse/regions: a line for each range of a file, or of a private mapping, that
 * is reserved or instantiated. The ranges of one file are of one instant.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "fs/client.h"
#include "fs/control.h"
#include "fs/mapping.h"
#include "fs/rcu.h"
#include "fs/stats_text.h"

struct regions_writer {
	struct mount *mount;
	FILE *out;
};

/* @inode: whose path is printed; NULL: an orphan. */
static int print_ranges(const struct regions_writer *writer, struct page_space *space,
			const char *kind, uint64_t number, pid_t pid, struct inode *inode)
{
	int64_t page_kb = (int64_t)(writer->mount->backing->page_size / 1024);
	struct page_range *ranges;
	char path[PATH_MAX] = STATS_ORPHAN_PATH;
	int64_t nr = page_space_ranges(space, &ranges);

	if (nr < 0)
		return (int)nr;
	if (nr > 0 && inode && inode_path(writer->mount, inode, path, sizeof(path)) < 0)
		strcpy(path, "?");
	for (int64_t i = 0; i < nr; i++) {
		const struct page_range *range = &ranges[i];

		fprintf(writer->out, "%s %" PRIu64 " %d %" PRId64 " %" PRId64 " %s ", kind,
			number, pid, range->from * page_kb, range->to * page_kb,
			range->node < 0 ? "reserved" : "instantiated");
		if (range->node < 0)
			fputs("- ", writer->out);
		else
			fprintf(writer->out, "%d ", range->node);
		stats_text_escape(writer->out, path);
		fputc('\n', writer->out);
	}
	free(ranges);
	return 0;
}

static int write_inode(struct mount *mount, struct inode *inode, void *data)
{
	return print_ranges(data, inode->pages, "file", inode->ino, 0, inode);
}

/* Without a name, and mapped by processes only: what the number was is all there is to say. */
static int write_orphan(struct page_space *pages, void *data)
{
	return print_ranges(data, pages, "file", pages->object, 0, NULL);
}

static int write_private(struct mapping *mapping, void *data)
{
	if (!mapping_has_own_pages(mapping) || !mapping->client)
		return 0;
	return print_ranges(data, mapping->space, "mapping", mapping->id, mapping->client->pid,
			    mapping->inode);
}

int stats_text_regions(struct mount *mount, FILE *out)
{
	struct regions_writer writer = {mount, out};
	int r;

	fputs("kind number pid from_kb to_kb state node path\n", out);
	r = inode_for_each(mount, write_inode, &writer);
	if (r == 0 && mount->has_orphans)
		r = orphans_for_each(&mount->orphans, write_orphan, &writer);
	return r ? r : control_for_each_mapping(mount->control, write_private, &writer);
}
