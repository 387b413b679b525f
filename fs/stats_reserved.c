/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The text of .hugefuse/reserved: what is reserved and not instantiated, since when, and by
 * whom. Only what has such pages is looked at in detail, so that it is quick with many files.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "fs/client.h"
#include "fs/control.h"
#include "fs/mapping.h"
#include "fs/stats_holders.h"
#include "fs/stats_text.h"

struct reserved_writer {
	struct mount *mount;
	FILE *out;
	struct holders holders; /* found when the first file is printed */
	bool has_holders;
};

/* Up to the pid: 0 where nothing is to be said. */
static int print_pages(struct reserved_writer *writer, const char *kind, uint64_t number,
		       struct page_space *pages)
{
	int64_t page_kb = (int64_t)(writer->mount->backing->page_size / 1024);
	struct page_space_counts counts;
	int r;

	page_space_read(pages, &counts);
	if (counts.resv == 0)
		return 0;
	if (!writer->has_holders) {
		r = holders_init(writer->mount, &writer->holders);
		if (r < 0)
			return r;
		writer->has_holders = true;
	}
	fprintf(writer->out, "%s %" PRIu64 " %" PRId64 " %" PRId64 " %" PRIu64 " ", kind,
		number, counts.resv * page_kb, counts.instantiated * page_kb,
		(uint64_t)pages->changed_ms);
	return 1;
}

static void print_path(struct reserved_writer *writer, struct inode *inode)
{
	char path[PATH_MAX];

	if (inode_path(writer->mount, inode, path, sizeof(path)) < 0)
		strcpy(path, "?");
	stats_text_escape(writer->out, path);
	fputc('\n', writer->out);
}

static int write_file(struct mount *mount, struct inode *inode, void *data)
{
	struct reserved_writer *writer = data;
	int r = print_pages(writer, "file", inode->ino, inode->pages);

	if (r <= 0)
		return r;
	holders_print(&writer->holders, inode->ino, writer->out);
	if (inode->user_pid)
		fprintf(writer->out, " %d %u ", inode->user_pid, inode->user_uid);
	else
		fputs(" - - ", writer->out);
	print_path(writer, inode);
	return 0;
}

static int write_orphan(struct page_space *pages, void *data)
{
	struct reserved_writer *writer = data;
	int r = print_pages(writer, "file", pages->object, pages);

	if (r <= 0)
		return r;
	holders_print(&writer->holders, pages->object, writer->out);
	fputs(" - - ", writer->out);
	stats_text_escape(writer->out, STATS_ORPHAN_PATH);
	fputc('\n', writer->out);
	return 0;
}

static int write_private(struct mapping *mapping, void *data)
{
	struct reserved_writer *writer = data;
	int r;

	if (!mapping_has_own_pages(mapping) || !mapping->client)
		return 0;
	r = print_pages(writer, "mapping", mapping->id, mapping->space);
	if (r <= 0)
		return r;
	fprintf(writer->out, "%d %d %u ", mapping->client->pid, mapping->client->pid,
		mapping->client->uid);
	print_path(writer, mapping->inode);
	return 0;
}

int stats_text_reserved(struct mount *mount, FILE *out)
{
	struct reserved_writer writer = {.mount = mount, .out = out};
	int r;

	fputs("kind number reserved_kb instantiated_kb changed_ms holders user_pid user_uid "
	      "path\n",
	      out);
	r = inode_for_each(mount, write_file, &writer);
	if (r == 0 && mount->has_orphans)
		r = orphans_for_each(&mount->orphans, write_orphan, &writer);
	if (r == 0)
		r = control_for_each_mapping(mount->control, write_private, &writer);
	holders_deinit(&writer.holders);
	return r;
}
