/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The text of .hugefuse/maps, and what must be settled before counting. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/client.h"
#include "fs/control.h"
#include "fs/fault_service.h"
#include "fs/fuse_device.h"
#include "fs/mapping.h"
#include "fs/pagemap.h"
#include "fs/process.h"
#include "fs/rcu.h"
#include "fs/reconcile.h"
#include "fs/stats.h"
#include "fs/stats_plain.h"
#include "fs/stats_text.h"

#define SETTLE_NS 1000000000ULL

struct maps_writer {
	struct mount *mount;
	FILE *out;
	const struct client *client; /* whose mappings are being written */
	struct process process;      /* of that one, or of plain mappings */
	const char *state;
	int pagemap_fd;            /* of plain mappings; -1: none */
	const struct inode *inode; /* whose path is */
	char path[PATH_MAX];
};

struct maps_row {
	uint64_t mapping; /* 0: a plain one */
	uid_t uid;
	uint64_t start, end, offset, ino; /* bytes */
	const char *kind, *way;
	struct page_space *space; /* or NULL */
	int pagemap_fd;           /* or -1 */
	uint64_t made_ms;
	const char *path;
};

static const char *kind_of(const struct mapping *mapping)
{
	if (mapping->flags & HUGEFUSE_MAP_PRIVATE)
		return mapping->flags & HUGEFUSE_MAP_NORESERVE ? "private,noreserve"
							       : "private";
	return mapping->flags & HUGEFUSE_MAP_NORESERVE ? "shared,noreserve" : "shared";
}

static void print_row(const struct maps_writer *writer, const struct maps_row *row)
{
	int64_t page_size = (int64_t)writer->mount->backing->page_size;
	int64_t resv = 0, instantiated = 0, touched = 0, page_kb = page_size / 1024;
	int64_t from = (int64_t)(row->offset / (uint64_t)page_size);
	int64_t to = from + (int64_t)(row->end - row->start) / page_size;
	FILE *out = writer->out;

	if (row->space)
		page_space_count(row->space, from, to, &resv, &instantiated);
	if (row->pagemap_fd >= 0)
		touched = pagemap_present(row->pagemap_fd, row->start, row->end,
					  (uint64_t)page_size);
	touched = touched < 0 ? 0 : touched / page_size;
	fprintf(out, "%" PRIu64 " %d ", row->mapping, writer->process.pid);
	stats_text_escape(out, writer->process.comm);
	fprintf(out, " %u %" PRIx64 " %" PRIx64 " %" PRIx64 " %" PRIu64 " %s %s ", row->uid,
		row->start, row->end, row->offset, row->ino, row->kind, row->way);
	fprintf(out, "%" PRId64 " %" PRId64 " ", resv, instantiated);
	stats_text_escape(out, *row->path ? row->path : "?");
	fprintf(out, " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %d %s %s %" PRIu64 "\n",
		touched, resv * page_kb, instantiated * page_kb, touched * page_kb,
		writer->process.ns_pid, process_namespaces(&writer->process), writer->state,
		row->made_ms);
}

/* What is to be said of the process, once for all its mappings. */
static void begin_client(struct maps_writer *writer, struct client *client)
{
	if (writer->client == client)
		return;
	writer->client = client;
	process_read(client->pid, &writer->process);
	writer->state = client->connected ? "running" : "disconnected";
	if (client_has_exited(client)) { /* and its pid may be another one's by now */
		writer->process = client->process;
		writer->state = "exited";
	}
}

/* Its path, once for all mappings of it that follow each other. */
static void begin_inode(struct maps_writer *writer, struct inode *inode)
{
	if (writer->inode == inode)
		return;
	writer->inode = inode;
	if (inode_path(writer->mount, inode, writer->path, sizeof(writer->path)) < 0)
		writer->path[0] = '\0';
}

/* A line for each address range of a mapping. */
static int write_mapping(struct mapping *mapping, void *data)
{
	struct maps_writer *writer = data;
	struct segment *segments;
	int nr;

	if (!mapping->client)
		return 0;
	nr = mapping_segments(mapping, &segments);
	if (nr <= 0)
		return nr;
	begin_client(writer, mapping->client);
	begin_inode(writer, mapping->inode);
	for (int i = 0; i < nr; i++) {
		struct maps_row row = {
			.mapping = mapping->id,
			.uid = mapping->client->uid,
			.start = segments[i].start,
			.end = segments[i].end,
			.offset = (uint64_t)segments[i].idx * writer->mount->backing->page_size,
			.ino = mapping->inode->ino,
			.kind = kind_of(mapping),
			.way = mapping->nr_uffds ? "direct" : "kernel",
			.space = mapping->space,
			.pagemap_fd = client_pagemap(mapping->client),
			.made_ms = mapping->made_ms,
			.path = writer->path,
		};

		print_row(writer, &row);
	}
	free(segments);
	return 0;
}

static void begin_process(struct maps_writer *writer, pid_t pid)
{
	char path[40];

	if (writer->process.pid == pid)
		return;
	process_read(pid, &writer->process);
	if (writer->pagemap_fd >= 0)
		close(writer->pagemap_fd);
	snprintf(path, sizeof(path), "/proc/%d/pagemap", pid);
	writer->pagemap_fd = open(path, O_RDONLY | O_CLOEXEC);
}

/* The pages of a file that only mappings hold; what is in its row is of one moment. */
struct orphan_row {
	const struct maps_writer *writer;
	struct maps_row *row;
};

static int print_orphan(struct page_space *pages, void *data)
{
	const struct orphan_row *orphan = data;

	if (pages->object != orphan->row->ino)
		return 0;
	orphan->row->space = pages;
	print_row(orphan->writer, orphan->row);
	return 1;
}

/* @row is of a file that has no pages in the table: an orphan's, or none. */
static int print_unknown(const struct maps_writer *writer, struct maps_row *row)
{
	struct orphan_row orphan = {writer, row};
	int r = 0;

	if (writer->mount->has_orphans)
		r = orphans_for_each(&writer->mount->orphans, print_orphan, &orphan);
	if (r == 0)
		print_row(writer, row);
	return r < 0 ? r : 0;
}

static int write_plain(const struct plain_mapping *plain, void *data)
{
	struct maps_writer *writer = data;
	struct mount *mount = writer->mount;
	struct inode *inode;
	char path[PATH_MAX];
	struct maps_row row = {
		.start = plain->start,
		.end = plain->end,
		.offset = plain->offset,
		.ino = plain->ino,
		.kind = plain->is_private ? "private" : "shared",
		.way = mount->has_passthrough ? "plain" : "cached",
		.path = path,
	};

	begin_process(writer, plain->pid);
	row.uid = writer->process.uid;
	row.pagemap_fd = writer->pagemap_fd;
	rcu_reader_lock();
	inode = inode_lookup(mount, plain->ino);
	if (inode)
		row.space = atomic_load(&inode->pages);
	if (!inode || inode->gone || inode_path(mount, inode, path, sizeof(path)) < 0)
		row.path = STATS_ORPHAN_PATH;
	if (row.space)
		print_row(writer, &row);
	rcu_reader_unlock();
	return row.space ? 0 : print_unknown(writer, &row);
}

int stats_text_maps(struct mount *mount, FILE *out)
{
	struct maps_writer writer = {
		.mount = mount,
		.out = out,
		.pagemap_fd = -1,
	};
	int r;

	fputs("mapping pid comm uid start end offset inode kind way reserved instantiated path "
	      "touched reserved_kb instantiated_kb touched_kb ns_pid namespaces state made_ms\n",
	      out);
	r = control_for_each_mapping(mount->control, write_mapping, &writer);
	/* What is not listed has no fault in flight either. */
	fault_service_drain(mount->fault_service, SETTLE_NS);
	writer.process = (struct process){};
	writer.state = "running";
	if (r == 0)
		r = plain_for_each(mount, write_plain, &writer);
	if (writer.pagemap_fd >= 0)
		close(writer.pagemap_fd);
	return r;
}

void stats_settle_faults(struct mount *mount)
{
	fault_service_drain(mount->fault_service, SETTLE_NS);
}

/* If a thread takes longer than that, its faults are still in flight, and counted as such. */
static void wait_for_sent(struct mount *mount)
{
	fuse_device_settle(SETTLE_NS);
	fault_service_drain(mount->fault_service, SETTLE_NS);
}

void stats_settle(struct mount *mount)
{
	wait_for_sent(mount);
	reconcile_counters(mount);
	mount_settle_size(mount);
}

void stats_settle_each(struct mount *mount)
{
	wait_for_sent(mount);
	reconcile_mount(mount);
	mount_settle_size(mount);
}

void stats_settle_mappings(struct mount *mount)
{
	wait_for_sent(mount);
	reconcile_private_mappings(mount);
}
