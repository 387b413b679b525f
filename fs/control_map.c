/* SPDX-License-Identifier: GPL-2.0-or-later */
/* HUGEFUSE_IOC_MAP: what a client asks before it comes to the socket. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "fs/cached.h"
#include "fs/client.h"
#include "fs/control_struct.h"
#include "fs/fault_service.h"
#include "fs/log.h"
#include "fs/map_request.h"
#include "fs/reconcile.h"

#define SHARD_MIN_PAGES 16

static uint32_t nr_shards(const struct control *control, int64_t nr_pages)
{
	int64_t shards = nr_pages / SHARD_MIN_PAGES;
	int64_t threads = fault_service_nr_threads(control->mount->fault_service);

	if (shards > threads)
		shards = threads;
	if (shards > HUGEFUSE_MAX_SHARDS)
		shards = HUGEFUSE_MAX_SHARDS;
	return shards < 1 ? 1 : (uint32_t)shards;
}

/* Said once: how often it was is in fault_stat. */
static void explain_bound(struct mount *mount, const struct inode *inode, int64_t nr_pages)
{
	static bool said;
	struct page_space *pages = atomic_load(&inode->pages);
	char nodes[NUMA_RULE_TEXT_MAX];
	struct pool_counts pool;
	struct numa_rule rule;
	int64_t left = 0;
	uint64_t on;

	if (mount->nr_nodes == 1 || !pages)
		return;
	rule = page_space_rule(pages);
	on = numa_rule_reserved_on(&rule);
	pool_read(&mount->core.pool, &pool);
	for (int node = 0; node < pool.nr_nodes; node++) {
		if (on & NODE_BIT(node))
			left += pool.node[node].free - pool.node[node].bound;
	}
	if (!on || left >= nr_pages)
		return;
	numa_nodes_print(on, nodes, sizeof(nodes));
	log_warning_once(
		&said,
		"a mapping of %ld pages that are to be on node %s was refused: %ld are "
		"left there (said once; .hugefuse/fault_stat counts on)",
		(long)nr_pages, nodes, (long)left);
}

int control_request_map(struct control *control, struct inode *inode, int open_flags,
			bool is_cached, pid_t tid, uid_t uid, struct hugefuse_ioc_map *map)
{
	struct mount *mount = control->mount;
	int access_mode = (open_flags & O_ACCMODE) == O_RDWR ? O_RDWR : O_RDONLY;
	struct mapping *mapping;
	int64_t from, to;
	pid_t pid;
	int r;

	r = map_request_check(mount, open_flags, map);
	if (r < 0)
		return r;
	if (mount->has_passthrough)
		return map_request_plain(mount, inode, open_flags, map);
	/* Others do not get to the socket. */
	if (geteuid() != 0 && uid != geteuid())
		return -EACCES;
	if (!map_request_may_attach(mount, uid))
		return -EOPNOTSUPP;
	pid = client_process_of(tid);
	if (pid < 0)
		return pid;
	from = mount_bytes_to_pages(mount, map->offset);
	to = from + mount_bytes_to_pages(mount, map->length);
	r = mapping_new(mount, inode, map->flags, access_mode, from, to, &mapping);
	if (reconcile_or_wait(mount, r))
		r = mapping_new(mount, inode, map->flags, access_mode, from, to, &mapping);
	if (r == -ENOMEM)
		explain_bound(mount, inode, to - from);
	if (r < 0)
		return r;
	mapping->thread_rule = map_request_rule(mount, map);
	if (cached_is_busy(inode, is_cached))
		r = -EBUSY;
	else if (map->flags & HUGEFUSE_MAP_WRITE && access_mode == O_RDWR)
		r = map_request_grow(mount, inode, to, map);
	if (r == 0)
		r = token_new(&control->tokens, mapping, pid, uid, map->token);
	if (r < 0) {
		mapping_abort(mapping);
		return r;
	}
	inode_note_user(inode, pid, uid);
	map->page_size = mount->backing->page_size;
	map->shards = mount->backing->reserves_size ? 0 : nr_shards(control, to - from);
	strcpy(map->socket, control->socket_path);
	return 0;
}

int control_cancel(struct control *control, pid_t tid, const uint64_t token[2])
{
	pid_t pid = client_process_of(tid);

	return pid < 0 ? pid : token_cancel(&control->tokens, token, pid);
}

void control_expire_tokens(struct control *control)
{
	if (control)
		token_expire(&control->tokens);
}
