/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * From samples to the rows of hugefuse top. A mount is the same in two samples when it has the
 * same mount point, a lock when it has the same name and mode.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/escape.h"
#include "tools/top_model.h"

static const char *const sort_names[TOP_NR_SORTS] = {"total", "resident", "reserved", "name"};

const char *top_sort_name(enum top_sort sort)
{
	return sort_names[sort];
}

int top_sort_find(const char *name)
{
	for (int i = 0; i < TOP_NR_SORTS; i++) {
		if (strcmp(sort_names[i], name) == 0)
			return i;
	}
	return -1;
}

void top_sample_deinit(struct top_sample *sample)
{
	if (!sample)
		return;
	for (size_t i = 0; i < sample->nr_mounts; i++) {
		mount_snapshot_deinit(&sample->mounts[i].snapshot);
		free(sample->mounts[i].mountpoint);
		free(sample->mounts[i].error);
	}
	free(sample->mounts);
	*sample = (struct top_sample){0};
}

double top_rate(double before, double after, double seconds)
{
	if (seconds <= 0)
		return TOP_UNKNOWN;
	return (after < before ? after : after - before) / seconds;
}

/* The same mount in the sample before, or NULL. */
static const struct mount_snapshot *find_before(const struct top_sample *before,
						const struct top_mount *mount)
{
	for (size_t i = 0; before && i < before->nr_mounts; i++) {
		if (!before->mounts[i].error &&
		    strcmp(before->mounts[i].mountpoint, mount->mountpoint) == 0)
			return &before->mounts[i].snapshot;
	}
	return NULL;
}

/* ---- pools ---- */

static char *escaped(const char *text, bool *failed)
{
	char *copy = escape_for_terminal(text);

	*failed |= !copy;
	return copy;
}

static void add_mount_pool(const struct mount_snapshot *before, const struct top_mount *mount,
			   struct top_pool *pool)
{
	const struct mount_snapshot *now = &mount->snapshot;
	const struct snapshot_pool *whole;

	pool->kind = TOP_POOL_MOUNT;
	pool->error = mount->error;
	pool->faults_per_s = TOP_UNKNOWN;
	pool->p50 = pool->p99 = pool->max = SNAPSHOT_UNKNOWN;
	if (mount->error)
		return;
	whole = mount_snapshot_pool(now);
	pool->total = whole->nr * whole->page_size;
	pool->free = whole->free * whole->page_size;
	pool->used = pool->total - pool->free;
	pool->reserved = whole->resv * whole->page_size;
	pool->p50 = mount_snapshot_fault(now, "latency_ns_p50");
	pool->p99 = mount_snapshot_fault(now, "latency_ns_p99");
	pool->max = mount_snapshot_fault(now, "latency_ns_max");
	if (before)
		pool->faults_per_s = top_rate((double)mount_snapshot_faults(before),
					      (double)mount_snapshot_faults(now),
					      now->time - before->time);
}

static void add_node_pool(const struct snapshot_pool *node, struct top_pool *pool)
{
	*pool = (struct top_pool){
		.kind = TOP_POOL_NODE,
		.total = node->nr * node->page_size,
		.free = node->free * node->page_size,
		.used = (node->nr - node->free) * node->page_size,
		.reserved = SNAPSHOT_UNKNOWN,
	};
}

static void add_tenant_pool(const struct snapshot_tenant *tenant, struct top_pool *pool)
{
	bool limited = tenant->size_kb != SNAPSHOT_UNKNOWN;

	*pool = (struct top_pool){
		.kind = TOP_POOL_TENANT,
		.total = limited ? tenant->size_kb * 1024 : SNAPSHOT_UNKNOWN,
		.used = tenant->used_kb * 1024,
		.free = limited && tenant->size_kb > tenant->used_kb
				? (tenant->size_kb - tenant->used_kb) * 1024
				: (limited ? 0 : SNAPSHOT_UNKNOWN),
		.reserved = tenant->reserved_kb * 1024,
	};
}

static int build_pools(const struct top_sample *before, const struct top_sample *now,
		       struct top_model *model)
{
	bool failed = false;
	size_t nr = 0;
	char name[32];

	for (size_t i = 0; i < now->nr_mounts; i++)
		nr += 1 + (size_t)now->mounts[i].snapshot.nr_pools +
		      now->mounts[i].snapshot.tenants.count;
	model->pools = calloc(nr + 1, sizeof(*model->pools));
	if (!model->pools)
		return -ENOMEM;
	for (size_t i = 0; i < now->nr_mounts; i++) {
		const struct top_mount *mount = &now->mounts[i];
		const struct mount_snapshot *snapshot = &mount->snapshot;
		struct top_pool *pool = &model->pools[model->nr_pools++];

		add_mount_pool(find_before(before, mount), mount, pool);
		pool->name = escaped(mount->mountpoint, &failed);
		for (int j = 0; j < snapshot->nr_pools; j++) {
			if (snapshot->pools[j].node < 0)
				continue;
			pool = &model->pools[model->nr_pools++];
			add_node_pool(&snapshot->pools[j], pool);
			snprintf(name, sizeof(name), "  node%d", snapshot->pools[j].node);
			pool->name = escaped(name, &failed);
		}
		for (size_t j = 1; j < snapshot->tenants.count; j++) {
			pool = &model->pools[model->nr_pools++];
			add_tenant_pool(&snapshot->tenants.tenants[j], pool);
			pool->name = escaped(snapshot->tenants.tenants[j].path, &failed);
		}
	}
	return failed ? -ENOMEM : 0;
}

/* ---- locks ---- */

static const struct snapshot_lock *find_lock(const struct mount_snapshot *mount,
					     const struct snapshot_lock *lock)
{
	for (size_t i = 0; i < mount->locks.count; i++) {
		if (mount->locks.locks[i].mode == lock->mode &&
		    strcmp(mount->locks.locks[i].name, lock->name) == 0)
			return &mount->locks.locks[i];
	}
	return NULL;
}

static struct top_lock make_lock(const struct mount_snapshot *before,
				 const struct top_mount *mount,
				 const struct snapshot_lock *lock)
{
	const struct snapshot_lock *old = before ? find_lock(before, lock) : NULL;
	double seconds = before ? mount->snapshot.time - before->time : 0;

	return (struct top_lock){
		.mountpoint = mount->mountpoint,
		.name = lock->name,
		.mode = snapshot_lock_mode(lock),
		.wait_total = lock->wait_total,
		.wait_max = lock->wait_max,
		.acquisitions_per_s = old ? top_rate((double)old->acquisitions,
						     (double)lock->acquisitions, seconds)
					  : TOP_UNKNOWN,
		.contentions_per_s = old ? top_rate((double)old->contentions,
						    (double)lock->contentions, seconds)
					 : TOP_UNKNOWN,
		.waited_us_per_s = old ? top_rate(old->wait_total, lock->wait_total, seconds)
				       : TOP_UNKNOWN,
	};
}

/* What is waited for most now, then what was, then what is taken most. */
static int compare_locks(const void *a, const void *b)
{
	const struct top_lock *left = a, *right = b;
	int r;

	if (left->waited_us_per_s != right->waited_us_per_s)
		return left->waited_us_per_s > right->waited_us_per_s ? -1 : 1;
	if (left->wait_total != right->wait_total)
		return left->wait_total > right->wait_total ? -1 : 1;
	if (left->acquisitions_per_s != right->acquisitions_per_s)
		return left->acquisitions_per_s > right->acquisitions_per_s ? -1 : 1;
	r = strcmp(left->name, right->name);
	if (r == 0)
		r = strcmp(left->mode, right->mode);
	return r ? r : strcmp(left->mountpoint, right->mountpoint);
}

static int build_locks(const struct top_sample *before, const struct top_sample *now,
		       struct top_model *model)
{
	size_t nr = 0;

	for (size_t i = 0; i < now->nr_mounts; i++)
		nr += now->mounts[i].snapshot.locks.count;
	model->locks = calloc(nr + 1, sizeof(*model->locks));
	if (!model->locks)
		return -ENOMEM;
	for (size_t i = 0; i < now->nr_mounts; i++) {
		const struct top_mount *mount = &now->mounts[i];
		const struct mount_snapshot *old = find_before(before, mount);

		for (size_t j = 0; j < mount->snapshot.locks.count; j++)
			model->locks[model->nr_locks++] =
				make_lock(old, mount, &mount->snapshot.locks.locks[j]);
	}
	qsort(model->locks, model->nr_locks, sizeof(*model->locks), compare_locks);
	return 0;
}

/* ---- holders ---- */

static int compare_numbers(uint64_t left, uint64_t right)
{
	return left == right ? 0 : (left > right ? -1 : 1);
}

/* qsort_r()'s; the order of equals is that of their names. */
static int compare_holders(const void *a, const void *b, void *data)
{
	const struct top_holder *left = a, *right = b;
	const struct top_settings *settings = data;
	int r = 0;

	if (settings->sort == TOP_SORT_TOTAL)
		r = compare_numbers(left->resident + left->reserved,
				    right->resident + right->reserved);
	else if (settings->sort == TOP_SORT_RESIDENT)
		r = compare_numbers(left->resident, right->resident);
	else if (settings->sort == TOP_SORT_RESERVED)
		r = compare_numbers(left->reserved, right->reserved);
	if (r == 0)
		r = strcmp(left->name, right->name);
	if (r == 0)
		r = strcmp(left->mountpoint, right->mountpoint);
	return settings->reverse ? -r : r;
}

static bool matches(const struct top_settings *settings, const struct top_holder *holder)
{
	return settings->filter[0] == '\0' || strcasestr(holder->name, settings->filter) ||
	       strcasestr(holder->mappers, settings->filter);
}

static void free_holder(struct top_holder *holder)
{
	free(holder->name);
	free(holder->mappers);
}

/* Takes over nothing. */
static int add_holder(const struct top_mount *mount, const struct holder *from,
		      const struct top_settings *settings, struct top_model *model)
{
	struct top_holder holder = {
		.name = holder_name(from),
		.mappers = holder_mappers(&mount->snapshot, from),
		.mountpoint = mount->mountpoint,
		.resident = from->resident,
		.reserved = from->reserved,
		.seconds = from->reserved_seconds,
	};

	if (!holder.name || !holder.mappers) {
		free_holder(&holder);
		return -ENOMEM;
	}
	if (matches(settings, &holder)) {
		model->holders[model->nr_holders++] = holder;
	} else {
		model->nr_hidden++;
		free_holder(&holder);
	}
	return 0;
}

static int add_holders(const struct top_mount *mount, const struct top_settings *settings,
		       struct top_model *model)
{
	struct top_holder *bigger;
	struct holders holders;
	int r = 0;

	if (holders_find(&mount->snapshot, &holders) < 0)
		return -ENOMEM;
	bigger = reallocarray(model->holders, model->nr_holders + holders.count + 1,
			      sizeof(*bigger));
	if (!bigger)
		r = -ENOMEM;
	else
		model->holders = bigger;
	for (size_t i = 0; r == 0 && i < holders.count; i++)
		r = add_holder(mount, &holders.list[i], settings, model);
	holders_free(&holders);
	return r;
}

static int build_holders(const struct top_sample *now, const struct top_settings *settings,
			 struct top_model *model)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < now->nr_mounts; i++) {
		if (now->mounts[i].error)
			continue;
		if (!holders_are_known(&now->mounts[i].snapshot)) {
			model->holders_known = false;
			continue;
		}
		r = add_holders(&now->mounts[i], settings, model);
	}
	if (r == 0 && model->nr_holders > 1)
		qsort_r(model->holders, model->nr_holders, sizeof(*model->holders),
			compare_holders, (void *)settings);
	return r;
}

int top_model_build(const struct top_sample *before, const struct top_sample *now,
		    const struct top_settings *settings, struct top_model *ret_model)
{
	struct top_model model = {.nr_mounts = now->nr_mounts, .holders_known = true};
	int r;

	r = build_pools(before, now, &model);
	if (r == 0)
		r = build_locks(before, now, &model);
	if (r == 0)
		r = build_holders(now, settings, &model);
	if (r < 0) {
		top_model_deinit(&model);
		return r;
	}
	*ret_model = model;
	return 0;
}

void top_model_deinit(struct top_model *model)
{
	if (!model)
		return;
	for (size_t i = 0; i < model->nr_pools; i++)
		free(model->pools[i].name);
	for (size_t i = 0; i < model->nr_holders; i++)
		free_holder(&model->holders[i]);
	free(model->pools);
	free(model->locks);
	free(model->holders);
	*model = (struct top_model){0};
}
