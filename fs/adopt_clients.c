/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Each mapping that was written down is looked for in what its process has mapped of the same
 * file: at the address where it was, or, if it was moved since, anywhere. What of a file
 * without a name is mapped and was never written down gets a mapping all the same, so that the
 * pages are known to be in use until the process ends.
 */
#include "fs/adopt_clients.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "fs/adopt.h"
#include "fs/backing_hugetlb.h"
#include "fs/client.h"
#include "fs/clock.h"
#include "fs/log.h"
#include "fs/reconcile.h"

#define LOOK_AFTER_NS 1000000000ULL

struct adopting {
	struct mount *mount;
	struct control *control;
	struct vma_list *vmas;
	int64_t nr_mappings;
};

/* The inode number in data/, as /proc/PID/maps shows it; 0: there is none. Or -errno. */
static int read_data_ino(const struct mount *mount, const struct inode *inode,
			 uint64_t *ret_ino)
{
	char name[24];
	struct stat st;

	snprintf(name, sizeof(name), "%" PRIu64, inode->ino);
	st.st_ino = 0;
	if (fstatat(backing_hugetlb_dir_fd(mount->backing), name, &st, AT_SYMLINK_NOFOLLOW) <
		    0 &&
	    errno != ENOENT)
		return -errno;
	*ret_ino = st.st_ino;
	return 0;
}

/* The inode that had number @ino, with a reference, or NULL. */
static struct inode *find_inode(struct mount *mount, uint64_t ino)
{
	const struct adopted *adopted = mount->adopted;

	for (size_t i = 0; i < adopted->nr_nameless; i++) {
		if (adopted->nameless[i].old_ino == ino)
			return inode_ref(adopted->nameless[i].inode);
	}
	return inode_find(mount, ino);
}

/* 0, -ESRCH: it has ended, or -errno. */
static int get_client(struct adopting *adopting, pid_t pid, uid_t uid,
		      struct client **ret_client)
{
	struct client *client = control_find_adopted(adopting->control, pid);
	int r = client ? 0 : control_adopt_client(adopting->control, pid, uid, &client);

	if (r == 0)
		*ret_client = client;
	return r;
}

/* Take [start, end) out of @vma, which is somebody's now; what is left at the end is a new one.
 */
static int claim(struct vma_list *list, size_t i, uint64_t start, uint64_t end)
{
	struct vma rest = list->vma[i];

	rest.offset += end - rest.start;
	rest.start = end;
	list->vma[i].end = start;
	return rest.start < rest.end ? vma_list_add(list, &rest) : 0;
}

/* What of @vma may be the mapping's: pages [*from, *to) of the file. */
static bool overlap(const struct adopting *adopting, const struct state_mapping *record,
		    const struct vma *vma, int64_t *from, int64_t *to)
{
	uint64_t page_size = adopting->mount->backing->page_size;
	int64_t first = (int64_t)(vma->offset / page_size);

	*from = first > record->from ? first : record->from;
	*to = first + (int64_t)((vma->end - vma->start) / page_size);
	if (*to > record->to)
		*to = record->to;
	if (*from >= *to)
		return false;
	return record->moved ||
	       vma->start + (uint64_t)(*from - first) * page_size ==
		       record->address + (uint64_t)(*from - record->from) * page_size;
}

static int add_segments(struct adopting *adopting, const struct state_mapping *record,
			uint64_t ino, struct mapping *mapping)
{
	uint64_t page_size = adopting->mount->backing->page_size;
	struct vma_list *list = adopting->vmas;
	struct segment segment;
	int64_t from, to;
	int r = 0;

	for (size_t i = 0; i < list->nr && r == 0; i++) {
		const struct vma *vma = &list->vma[i];

		if (vma->pid != record->pid || vma->ino != ino ||
		    vma->shared != !(record->flags & HUGEFUSE_MAP_PRIVATE) ||
		    !overlap(adopting, record, vma, &from, &to))
			continue;
		segment.idx = from;
		segment.start =
			vma->start + ((uint64_t)from - vma->offset / page_size) * page_size;
		segment.end = segment.start + (uint64_t)(to - from) * page_size;
		r = mapping_add_segment(mapping, &segment);
		if (r == -ENOSPC) {
			adopting->mount->adopted->lost_reservations = true;
			r = 0;
		}
		if (r == 0)
			r = claim(list, i, segment.start, segment.end);
	}
	return r;
}

static int attach(struct adopting *adopting, const struct state_mapping *record, uint64_t ino,
		  struct mapping *mapping)
{
	struct client *client = NULL;
	int r;

	r = add_segments(adopting, record, ino, mapping);
	if (r == 0 && !mapping->segments)
		r = -ESRCH;
	if (r == 0)
		r = get_client(adopting, record->pid, record->uid, &client);
	if (r < 0)
		return r;
	client_add_mapping(client, mapping);
	reconcile_mapping(mapping);
	adopting->nr_mappings++;
	return 0;
}

/* 1: made; 0: it is not mapped any more; or -errno. */
static int adopt_mapping(struct adopting *adopting, const struct state_mapping *record)
{
	struct inode *inode = find_inode(adopting->mount, record->ino);
	struct mapping *mapping;
	uint64_t ino = 0; /* for compilers that do not see that it is set where r is 0 */
	int r;

	if (!inode)
		return 0;
	r = read_data_ino(adopting->mount, inode, &ino);
	if (r == 0)
		r = mapping_new_adopted(adopting->mount, inode, record, &mapping);
	if (r == 0) {
		r = attach(adopting, record, ino, mapping);
		if (r < 0)
			mapping_put(mapping);
	}
	inode_put(adopting->mount, inode, 1);
	if (r == -ESRCH)
		return 0;
	return r < 0 ? r : 1;
}

/* Made again or over: what was written down follows. */
static int adopt_record(struct adopting *adopting, struct state_mapping *record)
{
	struct state *state = &adopting->mount->state;
	struct inode *inode;
	uint64_t start;
	int r;

	r = process_read_start_time(record->pid, &start);
	if (r == 0 && start == record->start_time)
		r = adopt_mapping(adopting, record);
	if (r < 0 && r != -ESRCH)
		return r;
	if (r == -ESRCH)
		r = 0;
	if (r == 0)
		return state_drop_mapping(state, record->id);
	inode = find_inode(adopting->mount, record->ino);
	if (inode && inode->ino != record->ino) {
		record->ino = inode->ino;
		r = state_add_mapping(state, record);
	}
	inode_put(adopting->mount, inode, inode != NULL);
	return r < 0 ? r : 0;
}

static int adopt_records(struct adopting *adopting, bool moved)
{
	struct state_mapping *records;
	int64_t nr = state_mappings(&adopting->mount->state, &records);
	int r = 0;

	if (nr < 0)
		return (int)nr;
	for (int64_t i = 0; i < nr && r == 0; i++) {
		if (records[i].moved == moved)
			r = adopt_record(adopting, &records[i]);
	}
	free(records);
	return r;
}

/* A mapping that nobody wrote down, of a file that has no name but for this. */
static int adopt_unknown(struct adopting *adopting, struct inode *inode, const struct vma *vma)
{
	uint64_t page_size = adopting->mount->backing->page_size;
	struct state_mapping record = {
		.id = 0,
		.from = (int64_t)(vma->offset / page_size),
		.flags = HUGEFUSE_MAP_NORESERVE | (vma->shared ? 0 : HUGEFUSE_MAP_PRIVATE),
		.access_mode = O_RDONLY,
		.forked = true,
	};
	struct segment segment = {vma->start, vma->end, record.from};
	struct mapping *mapping;
	struct client *client = NULL;
	int r;

	r = get_client(adopting, vma->pid, 0, &client);
	if (r < 0)
		return r == -ESRCH ? 0 : r;
	record.to = record.from + (int64_t)((vma->end - vma->start) / page_size);
	record.id = mapping_next_id();
	r = mapping_new_adopted(adopting->mount, inode, &record, &mapping);
	if (r < 0)
		return r;
	r = mapping_add_segment(mapping, &segment);
	if (r < 0) {
		mapping_put(mapping);
		return r;
	}
	client_add_mapping(client, mapping);
	reconcile_mapping(mapping);
	adopting->nr_mappings++;
	return 0;
}

static int adopt_rest(struct adopting *adopting, struct inode *inode)
{
	uint64_t ino = 0; /* for compilers that do not see that it is set where r is 0 */
	int r;

	r = read_data_ino(adopting->mount, inode, &ino);
	for (size_t i = 0; i < adopting->vmas->nr && r == 0; i++) {
		const struct vma *vma = &adopting->vmas->vma[i];

		if (vma->ino == ino && vma->start < vma->end)
			r = adopt_unknown(adopting, inode, vma);
	}
	return r;
}

int adopt_clients(struct mount *mount, struct control *control)
{
	struct adopted *adopted = mount->adopted;
	struct adopting adopting = {.mount = mount, .control = control};
	int r = 0;

	if (!adopted)
		return 0;
	adopting.vmas = &adopted->vmas;
	if (!mount->is_thp) {
		r = adopt_records(&adopting, false);
		if (r == 0)
			r = adopt_records(&adopting, true);
		for (size_t i = 0; i < adopted->nr_nameless && r == 0; i++)
			r = adopt_rest(&adopting, adopted->nameless[i].inode);
	}
	if (r == 0 && adopted->lost_reservations)
		log_warning("%s: there are not enough pages for all that was reserved",
			    mount->mountpoint);
	if (r == 0)
		r = state_rewrite(&mount->state);
	if (r == 0)
		log_debug(LOG_AREA_MOUNT,
			  "%s: taken over: %" PRId64 " files, %" PRId64 " mappings, %" PRId64
			  " files that were garbage",
			  mount->mountpoint, adopted->nr_files, adopting.nr_mappings,
			  adopted->nr_garbage);
	if (r == 0)
		mount->adopting = false;
	else
		mount_abandon(mount); /* before what is put here could be given up */
	adopted_free(mount, adopted);
	mount->adopted = NULL;
	return r;
}

/* ---- later ---- */

/* Unmap what of [start, end) is not in @list any more. */
static void unmap_gaps(struct mapping *mapping, const struct vma_list *list,
		       const struct segment *segment)
{
	uint64_t at = segment->start;

	for (size_t i = 0; i < list->nr && at < segment->end; i++) {
		const struct vma *vma = &list->vma[i];

		if (vma->end <= at || vma->start >= segment->end)
			continue;
		if (vma->start > at)
			mapping_unmap(mapping, at, vma->start);
		at = vma->end;
	}
	if (at < segment->end)
		mapping_unmap(mapping, at, segment->end);
}

static void look_at_mapping(struct mapping *mapping, const struct vma_list *list)
{
	struct segment *segments;
	int nr = mapping_segments(mapping, &segments);

	for (int i = 0; i < nr; i++)
		unmap_gaps(mapping, list, &segments[i]);
	if (nr >= 0)
		free(segments);
}

void adopt_look_after(struct client *client)
{
	struct mapping *mapping;
	struct vma_list list;
	struct stat st;

	if (clock_now_ns() - client->disconnected_ns < LOOK_AFTER_NS)
		return;
	client->disconnected_ns = clock_now_ns();
	mapping = client->mappings; /* changed by this thread alone */
	if (!mapping || client_has_exited(client) ||
	    fstat(backing_hugetlb_dir_fd(mapping->mount->backing), &st) < 0 ||
	    vma_list_read_process(client->pid, st.st_dev, &list) < 0)
		return;
	/* Nothing at all may mean that it is about to end: its pidfd tells. */
	for (; list.nr > 0 && mapping; mapping = mapping->next)
		look_at_mapping(mapping, &list);
	vma_list_free(&list);
}
