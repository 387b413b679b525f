/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Direct mappings: their life, and their address ranges. */
#include "fs/mapping.h"

#include <assert.h>
#include <errno.h>
#include <linux/userfaultfd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <unistd.h>

#include "fs/client.h"
#include "fs/clock.h"
#include "fs/mount.h"
#include "fs/private_backing.h"

#define SEGMENTS_MAX   65536        /* as many as a process can have: vm.max_map_count */
#define PRIVATE_OBJECT (1ULL << 63) /* fault_key.object of a private mapping */

static _Atomic uint64_t next_mapping_id = 1;

uint64_t mapping_next_id(void)
{
	return atomic_fetch_add(&next_mapping_id, 1);
}

bool mapping_has_own_pages(const struct mapping *mapping)
{
	return mapping->flags & HUGEFUSE_MAP_PRIVATE && !mapping->mount->backing->reserves_size;
}

/* Whether the mapping counts on the file's reservations. */
static bool relies_on_file(const struct mapping *mapping)
{
	return !mapping->mount->backing->reserves_size &&
	       !(mapping->flags & (HUGEFUSE_MAP_PRIVATE | HUGEFUSE_MAP_NORESERVE));
}

static int mapping_init(struct mapping *mapping, struct mount *mount, struct inode *inode,
			int64_t from, int64_t to)
{
	struct page_space *pages;
	int r;

	rwsem_read_lock(&inode->lock);
	r = inode_pages(mount, inode, &pages);
	rwsem_read_unlock(&inode->lock);
	if (r < 0)
		return r;
	if (getrandom(mapping->key, sizeof(mapping->key), 0) != sizeof(mapping->key))
		return -EAGAIN;
	mapping->id = mapping_next_id();
	mapping->mount = mount;
	mapping->inode = inode;
	mapping->space = pages;
	mapping->from = from;
	mapping->to = to;
	mapping->nr_refs = 1;
	if (mapping_has_own_pages(mapping)) {
		private_backing_init(mapping);
		r = page_space_init(&mapping->own_space, &mount->core,
				    &mapping->private_file.file, PRIVATE_OBJECT | mapping->id,
				    0, REGION_END);
		if (r < 0)
			return r;
		if (mount->has_numa_rules)
			page_space_set_rule(&mapping->own_space, &pages->rule);
		page_space_set_subpool(&mapping->own_space, pages->subpool, false);
		mapping->space = &mapping->own_space;
	}
	mutex_init(&mapping->lock, LOCK_RANK_MAPPING);
	ahead_init(&mapping->ahead);
	region_map_init(&mapping->added, mapping->space->lock);
	inode_ref(inode);
	inode->nr_mappings++;
	inode->was_mapped = true;
	mapping->counted = true;
	inode->nr_relying += relies_on_file(mapping);
	return 0;
}

static struct mapping *mapping_alloc(void)
{
	return aligned_alloc(_Alignof(struct mapping), sizeof(struct mapping));
}

static int mapping_make(struct mount *mount, struct inode *inode, uint32_t flags,
			int access_mode, int64_t from, int64_t to, struct mapping **ret_mapping)
{
	struct mapping *mapping = mapping_alloc();
	int r;

	if (!mapping)
		return -ENOMEM;
	memset(mapping, 0, sizeof(*mapping));
	mapping->flags = flags;
	mapping->access_mode = access_mode;
	mapping->made_ms = clock_time_ms();
	mapping->local_node = POOL_ANY_NODE;
	r = mapping_init(mapping, mount, inode, from, to);
	if (r < 0) {
		free(mapping);
		return r;
	}
	*ret_mapping = mapping;
	return 0;
}

/* Before it is charged: what is charged and given back refills min_size=, which it may not have
 * come from. */
static int64_t reserve(struct mapping *mapping)
{
	struct page_space *space = mapping->space;
	bool shared = !(mapping->flags & HUGEFUSE_MAP_PRIVATE);
	int64_t from = mapping->from, to = mapping->to, nr = to - from;
	int r;

	if (shared)
		nr -= region_map_count(&space->resv, from, to);
	r = backing_can_reserve(mapping->mount->backing, nr);
	return r < 0 ? r : page_reserve(space, from, to, shared ? &mapping->added : NULL);
}

int mapping_new(struct mount *mount, struct inode *inode, uint32_t flags, int access_mode,
		int64_t from, int64_t to, struct mapping **ret_mapping)
{
	struct mapping *mapping;
	int64_t r;

	r = mapping_make(mount, inode, flags, access_mode, from, to, &mapping);
	if (r < 0)
		return (int)r;
	if (!(flags & HUGEFUSE_MAP_NORESERVE) && !mount->backing->reserves_size) {
		rwsem_read_lock(&inode->lock);
		r = reserve(mapping);
		rwsem_read_unlock(&inode->lock);
		if (r < 0) {
			mapping_put(mapping);
			return (int)r;
		}
	}
	*ret_mapping = mapping;
	return 0;
}

int mapping_new_adopted(struct mount *mount, struct inode *inode,
			const struct state_mapping *record, struct mapping **ret_mapping)
{
	struct mapping *mapping;
	uint64_t next;
	int r = mapping_make(mount, inode, record->flags, record->access_mode, record->from,
			     record->to, &mapping);

	if (r < 0)
		return r;
	mapping->id = record->id;
	mapping->own_space.object = PRIVATE_OBJECT | record->id;
	mapping->key[0] = record->key[0];
	mapping->key[1] = record->key[1];
	mapping->forked = record->forked;
	mapping->adopted = true;
	next = atomic_load(&next_mapping_id);
	while (next <= record->id &&
	       !atomic_compare_exchange_weak(&next_mapping_id, &next, record->id + 1))
		;
	*ret_mapping = mapping;
	return 0;
}

int mapping_new_forked(struct mapping *parent, int64_t from, int64_t to,
		       struct mapping **ret_mapping)
{
	int r = mapping_make(parent->mount, parent->inode, parent->flags, parent->access_mode,
			     from, to, ret_mapping);

	if (r == 0)
		(*ret_mapping)->forked = true;
	if (r == 0)
		(*ret_mapping)->thread_rule = parent->thread_rule;
	return r;
}

/*
 * What this mapping has reserved, another one, or hugefuse_reserve(), may have found reserved
 * and rely on by now: then it stays with the file, as after munmap. A mapping is counted before
 * it reserves, and reserves with the inode's lock held: whoever is not counted here yet will
 * find these pages not reserved.
 */
void mapping_abort(struct mapping *mapping)
{
	struct inode *inode = mapping->inode;

	rwsem_write_lock(&inode->lock);
	if (inode->nr_relying <= 1 && !inode->reserved)
		page_unreserve_map(mapping->space, &mapping->added);
	rwsem_write_unlock(&inode->lock);
	mapping_commit(mapping);
	mapping_put(mapping);
}

void mapping_commit(struct mapping *mapping)
{
	region_map_truncate(&mapping->added, 0);
}

static void mapping_free_rcu(struct rcu_head *head)
{
	struct mapping *mapping = caa_container_of(head, struct mapping, rcu);

	free(mapping->segments);
	mutex_deinit(&mapping->lock);
	ahead_deinit(&mapping->ahead);
	free(mapping);
}

struct mapping *mapping_ref(struct mapping *mapping)
{
	mapping->nr_refs++;
	return mapping;
}

/* Nothing is mapped any more, though the mapping itself lives for a moment. */
static void uncount(struct mapping *mapping)
{
	if (atomic_exchange(&mapping->counted, false))
		mapping->inode->nr_mappings--;
}

void mapping_put(struct mapping *mapping)
{
	if (!mapping || --mapping->nr_refs > 0)
		return;
	for (uint32_t i = 0; i < mapping->nr_uffds; i++)
		close(mapping->uffd[i]);
	free(mapping->removal);
	region_map_deinit(&mapping->added);
	page_space_deinit(&mapping->own_space);
	uncount(mapping);
	mapping->inode->nr_relying -= relies_on_file(mapping);
	inode_put(mapping->mount, mapping->inode, 1);
	client_put(mapping->client);
	call_rcu(&mapping->rcu, mapping_free_rcu);
}

static struct segments *segments_alloc(uint32_t nr)
{
	struct segments *segments;

	segments = malloc(sizeof(*segments) + nr * sizeof(segments->segment[0]));
	if (segments)
		segments->nr = 0;
	return segments;
}

static void segments_add(struct segments *segments, uint64_t start, uint64_t end, int64_t idx)
{
	if (start < end)
		segments->segment[segments->nr++] = (struct segment){start, end, idx};
}

static void segments_free_rcu(struct rcu_head *head)
{
	free(caa_container_of(head, struct segments, rcu));
}

void mapping_replace_segments_locked(struct mapping *mapping, struct segments *segments)
{
	struct segments *old = mapping->segments;

	mutex_assert_held(&mapping->lock);
	rcu_assign_pointer(mapping->segments, segments);
	if (segments->nr == 0) {
		client_mapping_died(mapping);
		uncount(mapping);
	}
	if (old)
		call_rcu(&old->rcu, segments_free_rcu);
}

int mapping_set_address(struct mapping *mapping, uint64_t address, uint64_t length)
{
	struct segments *segments = segments_alloc(1);

	if (!segments)
		return -ENOMEM;
	segments_add(segments, address, address + length, mapping->from);
	mutex_lock(&mapping->lock);
	mapping_replace_segments_locked(mapping, segments);
	mutex_unlock(&mapping->lock);
	return 0;
}

int64_t mapping_index_at(struct mapping *mapping, uint64_t address)
{
	uint64_t page_size = mapping->mount->backing->page_size;
	const struct segments *segments;
	int64_t idx = -1;

	rcu_read_lock();
	segments = rcu_dereference(mapping->segments);
	for (uint32_t i = 0; segments && i < segments->nr; i++) {
		const struct segment *segment = &segments->segment[i];

		if (address >= segment->start && address < segment->end) {
			idx = segment->idx + (int64_t)((address - segment->start) / page_size);
			break;
		}
	}
	rcu_read_unlock();
	return idx;
}

uint64_t mapping_address_of(struct mapping *mapping, int64_t idx)
{
	uint64_t page_size = mapping->mount->backing->page_size;
	const struct segments *segments;
	uint64_t address = 0;

	rcu_read_lock();
	segments = rcu_dereference(mapping->segments);
	for (uint32_t i = 0; segments && i < segments->nr; i++) {
		const struct segment *segment = &segments->segment[i];
		int64_t nr = (int64_t)((segment->end - segment->start) / page_size);

		if (idx >= segment->idx && idx < segment->idx + nr) {
			address = segment->start + (uint64_t)(idx - segment->idx) * page_size;
			break;
		}
	}
	rcu_read_unlock();
	return address;
}

int mapping_uffd_of(const struct mapping *mapping, int64_t idx)
{
	uint64_t shard;

	if (mapping->nr_uffds == 0 || idx < mapping->from || idx >= mapping->to)
		return -1;
	shard = (uint64_t)(idx - mapping->from) / (uint64_t)mapping->shard_pages;
	return shard < mapping->nr_uffds ? mapping->uffd[shard] : -1;
}

int64_t mapping_shard_end(const struct mapping *mapping, int64_t idx)
{
	if (mapping->nr_uffds == 0)
		return mapping->to;
	return idx + mapping->shard_pages - (idx - mapping->from) % mapping->shard_pages;
}

void mapping_wake(const struct mapping *mapping, int uffd, uint64_t address)
{
	uint64_t page_size = mapping->mount->backing->page_size;
	struct uffdio_range range = {address & ~(page_size - 1), page_size};

	/* It fails only where the memory has gone, and then nobody waits. */
	ioctl(uffd, UFFDIO_WAKE, &range);
}

/*
 * How many of the pages [from, to) follow each other in one segment and one userfaultfd: at
 * least the first, which *ret_address is of. 0: it is not mapped. Lock-free.
 */
static int64_t run_at(struct mapping *mapping, int64_t from, int64_t to, uint64_t *ret_address)
{
	uint64_t page_size = mapping->mount->backing->page_size;
	const struct segments *segments;
	int64_t end = from;

	rcu_read_lock();
	segments = rcu_dereference(mapping->segments);
	for (uint32_t i = 0; segments && i < segments->nr && end == from; i++) {
		const struct segment *segment = &segments->segment[i];
		int64_t nr = (int64_t)((segment->end - segment->start) / page_size);

		if (from >= segment->idx && from < segment->idx + nr) {
			*ret_address =
				segment->start + (uint64_t)(from - segment->idx) * page_size;
			end = segment->idx + nr;
		}
	}
	rcu_read_unlock();
	if (end > mapping_shard_end(mapping, from))
		end = mapping_shard_end(mapping, from);
	return (end < to ? end : to) - from;
}

void mapping_enter(struct mapping *mapping, int64_t from, int64_t to)
{
	int64_t page_size = (int64_t)mapping->mount->backing->page_size, nr;
	struct uffdio_continue enter = {0};
	uint64_t address = 0;

	for (; from < to; from += nr) {
		nr = run_at(mapping, from, to, &address);
		if (nr <= 0)
			return;
		enter.range = (struct uffdio_range){address, (uint64_t)(nr * page_size)};
		enter.mapped = 0;
		if (ioctl(mapping_uffd_of(mapping, from), UFFDIO_CONTINUE, &enter) == 0)
			continue;
		if (enter.mapped > 0)
			nr = enter.mapped / page_size;
		else if (errno == EEXIST)
			nr = 1;
		else
			return;
	}
}

/* What is cut out of a segment by [start, end): the index of its first page, and how many. */
static int64_t cut_pages(const struct segment *segment, uint64_t start, uint64_t end,
			 uint64_t page_size, int64_t *ret_idx)
{
	if (start < segment->start)
		start = segment->start;
	if (end > segment->end)
		end = segment->end;
	if (start >= end)
		return 0;
	*ret_idx = segment->idx + (int64_t)((start - segment->start) / page_size);
	return (int64_t)((end - start) / page_size);
}

/* Copy @old without [start, end) to @segments. */
static void segments_cut(struct segments *segments, const struct segments *old, uint64_t start,
			 uint64_t end, uint64_t page_size)
{
	for (uint32_t i = 0; old && i < old->nr; i++) {
		struct segment s = old->segment[i];

		if (end <= s.start || start >= s.end) {
			segments_add(segments, s.start, s.end, s.idx);
			continue;
		}
		segments_add(segments, s.start, start, s.idx);
		segments_add(segments, end, s.end,
			     s.idx + (int64_t)((end - s.start) / page_size));
	}
}

/* Uncharge what a private mapping had in [start, end) of @old. */
static int forget_pages(struct mapping *mapping, const struct segments *old, uint64_t start,
			uint64_t end)
{
	uint64_t page_size = mapping->mount->backing->page_size;
	int64_t idx, nr;
	int r = 0;

	for (uint32_t i = 0; old && i < old->nr && r == 0; i++) {
		nr = cut_pages(&old->segment[i], start, end, page_size, &idx);
		if (nr > 0)
			r = page_forget(mapping->space, idx, idx + nr);
	}
	return r;
}

int mapping_unmap(struct mapping *mapping, uint64_t start, uint64_t end)
{
	uint64_t page_size = mapping->mount->backing->page_size;
	struct segments *segments, *old;
	uint32_t nr_old;
	int r = 0;

	mutex_lock(&mapping->lock);
	old = mapping->segments;
	nr_old = old ? old->nr : 0;
	segments = segments_alloc(2 * nr_old + 1);
	if (segments)
		segments_cut(segments, old, start, end, page_size);
	if (!segments || (segments->nr > SEGMENTS_MAX && segments->nr > nr_old))
		r = -ENOMEM;
	else if (mapping_has_own_pages(mapping))
		r = forget_pages(mapping, old, start, end);
	if (r == 0) {
		mapping_replace_segments_locked(mapping, segments);
	} else {
		free(segments);
	}
	mutex_unlock(&mapping->lock);
	return r;
}

int mapping_move(struct mapping *mapping, uint64_t from, uint64_t to, uint64_t length)
{
	uint64_t page_size = mapping->mount->backing->page_size;
	struct segments *segments, *old;
	int64_t idx, nr;

	mutex_lock(&mapping->lock);
	old = mapping->segments;
	segments = segments_alloc(3 * (old ? old->nr : 0) + 1);
	if (!segments) {
		mutex_unlock(&mapping->lock);
		return -ENOMEM;
	}
	segments_cut(segments, old, from, from + length, page_size);
	for (uint32_t i = 0; old && i < old->nr; i++) {
		nr = cut_pages(&old->segment[i], from, from + length, page_size, &idx);
		if (nr > 0) {
			uint64_t start = from > old->segment[i].start ? from
								      : old->segment[i].start;

			segments_add(segments, start - from + to,
				     start - from + to + (uint64_t)nr * page_size, idx);
		}
	}
	mapping_replace_segments_locked(mapping, segments);
	mutex_unlock(&mapping->lock);
	/* Without it the mapping would be found at its old address, or not at all. */
	state_move_mapping(&mapping->mount->state, mapping->id);
	return 0;
}

bool mapping_keeps_reservation(const struct mapping *mapping)
{
	return !mapping->forked && !(mapping->flags & HUGEFUSE_MAP_NORESERVE);
}

void mapping_discard(struct mapping *mapping, uint64_t start, uint64_t end)
{
	uint64_t page_size = mapping->mount->backing->page_size;
	bool keep = mapping_keeps_reservation(mapping);
	struct segment *segments;
	int64_t idx, to;
	int nr;

	if (!mapping_has_own_pages(mapping))
		return;
	nr = mapping_segments(mapping, &segments);
	for (int i = 0; i < nr; i++) {
		to = cut_pages(&segments[i], start, end, page_size, &idx);
		if (to == 0)
			continue;
		to += idx;
		for (; (idx = page_next_instantiated(mapping->space, idx, to)) >= 0; idx++)
			page_discard(mapping->space, idx, keep);
	}
	if (nr >= 0)
		free(segments);
}

bool mapping_memory_is_gone(struct mapping *mapping)
{
	struct uffdio_writeprotect wp = {0};
	const struct segments *segments;
	uint64_t start = 0;

	rcu_read_lock();
	segments = rcu_dereference(mapping->segments);
	if (segments && segments->nr > 0)
		start = segments->segment[0].start;
	rcu_read_unlock();
	if (start == 0)
		return mapping->dead;
	if (mapping->nr_uffds == 0)
		return mapping->dead ||
		       (mapping->client && client_memory_is_gone(mapping->client));
	/* Nothing is write-protected, so this changes nothing, but looks whether there is
	 * memory. */
	wp.range.start = start;
	wp.range.len = mapping->mount->backing->page_size;
	return ioctl(mapping->uffd[0], UFFDIO_WRITEPROTECT, &wp) < 0 && errno == ESRCH;
}

int mapping_segments(struct mapping *mapping, struct segment **ret_segments)
{
	const struct segments *segments;
	struct segment *copy;
	int nr = 0;

	mutex_lock(&mapping->lock);
	segments = mapping->segments;
	copy = malloc((segments ? segments->nr : 0) * sizeof(*copy) + 1);
	if (copy && segments) {
		nr = (int)segments->nr;
		memcpy(copy, segments->segment, nr * sizeof(*copy));
	}
	mutex_unlock(&mapping->lock);
	if (!copy)
		return -ENOMEM;
	*ret_segments = copy;
	return nr;
}
