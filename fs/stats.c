// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The tree of .hugefuse: a table of entries, each of which stands for one node, or for one node
 * per memory node. A node id is STATS_NODE_FLAG, the memory node, and the entry's kind.
 *
 * Nothing is kept: no state, no locks.
 */
#include "fs/stats.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fs/stats_text.h"

#define NODE_KIND_BITS 8

enum stats_kind {
	KIND_NONE,
	KIND_ROOT, /* STATS_NODE_ROOT */
	KIND_POOL,
	KIND_POOL_NR,
	KIND_POOL_FREE,
	KIND_POOL_RESV,
	KIND_POOL_SURPLUS,
	KIND_POOL_OVERCOMMIT,
	KIND_NODES,
	KIND_NODE, /* from here to KIND_NODE_SURPLUS: one per memory node */
	KIND_NODE_POOL,
	KIND_NODE_NR,
	KIND_NODE_FREE,
	KIND_NODE_SURPLUS,
	KIND_LOCK_STAT,
	KIND_FAULT_STAT,
	KIND_FILES,
	KIND_MAPS,
	KIND_REGIONS,
	KIND_TENANTS,
	KIND_OPTIONS,
	KIND_POOL_TABLE,
	KIND_RESERVED,
	KIND_SPLIT,
	KIND_KERNEL,
	KIND_KERNEL_MEMINFO,
	KIND_KERNEL_NR,
	KIND_KERNEL_NR_MEMPOLICY,
	KIND_KERNEL_OVERCOMMIT,
	KIND_KERNEL_POOL, /* from here to KIND_KERNEL_POOL_SURPLUS: as the kernel's sysfs */
	KIND_KERNEL_POOL_NR,
	KIND_KERNEL_POOL_NR_MEMPOLICY,
	KIND_KERNEL_POOL_OVERCOMMIT,
	KIND_KERNEL_POOL_FREE,
	KIND_KERNEL_POOL_RESV,
	KIND_KERNEL_POOL_SURPLUS,
	NR_KINDS,
};

struct stats_node {
	enum stats_kind kind;
	int node; /* memory node, or 0 */
};

/* What is to be waited and looked for before a text is made. */
enum stats_settle {
	SETTLE_COUNTERS, /* stats_settle() */
	SETTLE_EACH,
	SETTLE_MAPPINGS,
	SETTLE_FAULTS,
	SETTLE_NOTHING,
};

static void settle_nothing(struct mount *mount)
{
}

static void (*const settle[])(struct mount *mount) = {
	[SETTLE_COUNTERS] = stats_settle,          [SETTLE_EACH] = stats_settle_each,
	[SETTLE_MAPPINGS] = stats_settle_mappings, [SETTLE_FAULTS] = stats_settle_faults,
	[SETTLE_NOTHING] = settle_nothing,
};

struct stats_entry_type {
	enum stats_kind parent;
	const char *name; /* NULL: made by entry_name() */
	mode_t mode;
	int (*text)(struct mount *mount,
		    FILE *out);            /* NULL: a number of the pool's, or a directory */
	int (*clear)(struct mount *mount); /* what writing 0 does */
	/* what writing a number does */
	int64_t (*set)(struct mount *mount, int node, int64_t value);
	enum stats_settle settle;
};

static int clear_lock_stat(struct mount *mount)
{
	lock_stat_clear();
	return 0;
}

static const struct stats_entry_type entry_types[NR_KINDS] = {
	[KIND_ROOT] = {KIND_NONE, ".hugefuse", S_IFDIR | 0555},
	[KIND_POOL] = {KIND_ROOT, NULL, S_IFDIR | 0555},
	[KIND_POOL_NR] = {KIND_POOL, "nr_hugepages", S_IFREG | 0644, .set = mount_set_nr_pages},
	[KIND_POOL_FREE] = {KIND_POOL, "free_hugepages", S_IFREG | 0444},
	[KIND_POOL_RESV] = {KIND_POOL, "resv_hugepages", S_IFREG | 0444},
	[KIND_POOL_SURPLUS] = {KIND_POOL, "surplus_hugepages", S_IFREG | 0444},
	[KIND_POOL_OVERCOMMIT] = {KIND_POOL, "nr_overcommit_hugepages", S_IFREG | 0644,
				  .set = mount_set_overcommit, .settle = SETTLE_NOTHING},
	[KIND_NODES] = {KIND_ROOT, "node", S_IFDIR | 0555},
	[KIND_NODE] = {KIND_NODES, NULL, S_IFDIR | 0555},
	[KIND_NODE_POOL] = {KIND_NODE, NULL, S_IFDIR | 0555},
	[KIND_NODE_NR] = {KIND_NODE_POOL, "nr_hugepages", S_IFREG | 0644,
			  .set = mount_set_nr_pages},
	[KIND_NODE_FREE] = {KIND_NODE_POOL, "free_hugepages", S_IFREG | 0444},
	[KIND_NODE_SURPLUS] = {KIND_NODE_POOL, "surplus_hugepages", S_IFREG | 0444},
	[KIND_LOCK_STAT] = {KIND_ROOT, "lock_stat", S_IFREG | 0644, stats_text_lock_stat,
			    clear_lock_stat, .settle = SETTLE_NOTHING},
	[KIND_FAULT_STAT] = {KIND_ROOT, "fault_stat", S_IFREG | 0644, stats_text_fault_stat,
			     stats_clear_fault_stat, .settle = SETTLE_FAULTS},
	[KIND_FILES] = {KIND_ROOT, "files", S_IFREG | 0400, stats_text_files,
			.settle = SETTLE_MAPPINGS},
	[KIND_MAPS] = {KIND_ROOT, "maps", S_IFREG | 0400, stats_text_maps,
		       .settle = SETTLE_EACH},
	[KIND_REGIONS] = {KIND_ROOT, "regions", S_IFREG | 0400, stats_text_regions,
			  .settle = SETTLE_EACH},
	[KIND_TENANTS] = {KIND_ROOT, "tenants", S_IFREG | 0400, stats_text_tenants},
	[KIND_OPTIONS] = {KIND_ROOT, "options", S_IFREG | 0444, stats_text_options,
			  .settle = SETTLE_NOTHING},
	[KIND_POOL_TABLE] = {KIND_ROOT, "pool", S_IFREG | 0444, stats_text_pool},
	[KIND_RESERVED] = {KIND_ROOT, "reserved", S_IFREG | 0400, stats_text_reserved,
			   .settle = SETTLE_FAULTS},
	[KIND_SPLIT] = {KIND_ROOT, "split", S_IFREG | 0400, stats_text_split,
			.settle = SETTLE_NOTHING},
	[KIND_KERNEL] = {KIND_ROOT, "kernel", S_IFDIR | 0555},
	[KIND_KERNEL_MEMINFO] = {KIND_KERNEL, "meminfo", S_IFREG | 0444, stats_text_meminfo},
	[KIND_KERNEL_NR] = {KIND_KERNEL, "nr_hugepages", S_IFREG | 0644, stats_text_persistent,
			    NULL, mount_set_nr_pages},
	[KIND_KERNEL_NR_MEMPOLICY] = {KIND_KERNEL, "nr_hugepages_mempolicy", S_IFREG | 0644,
				      stats_text_persistent, NULL, mount_set_nr_pages},
	[KIND_KERNEL_OVERCOMMIT] = {KIND_KERNEL, "nr_overcommit_hugepages", S_IFREG | 0644,
				    stats_text_overcommit, NULL, mount_set_overcommit},
	[KIND_KERNEL_POOL] = {KIND_KERNEL, NULL, S_IFDIR | 0555},
	[KIND_KERNEL_POOL_NR] = {KIND_KERNEL_POOL, "nr_hugepages", S_IFREG | 0644,
				 stats_text_nr, NULL, mount_set_nr_pages},
	[KIND_KERNEL_POOL_NR_MEMPOLICY] = {KIND_KERNEL_POOL, "nr_hugepages_mempolicy",
					   S_IFREG | 0644, stats_text_nr, NULL,
					   mount_set_nr_pages},
	[KIND_KERNEL_POOL_OVERCOMMIT] = {KIND_KERNEL_POOL, "nr_overcommit_hugepages",
					 S_IFREG | 0644, stats_text_overcommit, NULL,
					 mount_set_overcommit},
	[KIND_KERNEL_POOL_FREE] = {KIND_KERNEL_POOL, "free_hugepages", S_IFREG | 0444,
				   stats_text_free},
	[KIND_KERNEL_POOL_RESV] = {KIND_KERNEL_POOL, "resv_hugepages", S_IFREG | 0444,
				   stats_text_resv},
	[KIND_KERNEL_POOL_SURPLUS] = {KIND_KERNEL_POOL, "surplus_hugepages", S_IFREG | 0444,
				      stats_text_surplus},
};

static uint64_t encode_node(struct stats_node node)
{
	return STATS_NODE_FLAG | (uint64_t)node.node << NODE_KIND_BITS | node.kind;
}

static int decode_node(const struct mount *mount, uint64_t node_id, struct stats_node *ret_node)
{
	uint64_t kind = node_id & ((1 << NODE_KIND_BITS) - 1);
	uint64_t node = (node_id & ~STATS_NODE_FLAG) >> NODE_KIND_BITS;
	bool per_node = kind >= KIND_NODE && kind <= KIND_NODE_SURPLUS;

	if (!stats_is_node(node_id) || kind == KIND_NONE || kind >= NR_KINDS ||
	    node >= (per_node ? (uint64_t)mount->nr_nodes : 1))
		return -ENOENT;
	*ret_node = (struct stats_node){.kind = kind, .node = node};
	return 0;
}

static void entry_name(const struct mount *mount, struct stats_node node, char *ret_name,
		       size_t name_size)
{
	if (entry_types[node.kind].name)
		snprintf(ret_name, name_size, "%s", entry_types[node.kind].name);
	else if (node.kind == KIND_NODE)
		snprintf(ret_name, name_size, "node%d", node.node);
	else
		snprintf(ret_name, name_size, "hugepages-%" PRIu64 "kB",
			 mount->backing->huge_page_size / 1024);
}

/* The @index-th entry of @parent. */
static int find_entry(const struct mount *mount, struct stats_node parent, size_t index,
		      struct stats_node *ret_node)
{
	int kind;

	if (parent.kind == KIND_NODES) {
		if (index >= (size_t)mount->nr_nodes)
			return -ENOENT;
		*ret_node = (struct stats_node){.kind = KIND_NODE, .node = index};
		return 0;
	}
	for (kind = KIND_ROOT; kind < NR_KINDS; kind++) {
		if (entry_types[kind].parent != parent.kind || index--)
			continue;
		*ret_node = (struct stats_node){.kind = kind, .node = parent.node};
		return 0;
	}
	return -ENOENT;
}

static void fill_stat(const struct mount *mount, struct stats_node node, struct stat *ret_stat)
{
	const struct stats_entry_type *type = &entry_types[node.kind];
	struct stats_node entry;
	size_t index;

	*ret_stat = (struct stat){
		.st_ino = encode_node(node),
		.st_mode = type->mode,
		.st_nlink = S_ISDIR(type->mode) ? 2 : 1,
		.st_uid = geteuid(),
		.st_gid = getegid(),
		.st_blksize = 4096,
	};
	clock_gettime(CLOCK_REALTIME, &ret_stat->st_mtim);
	ret_stat->st_atim = ret_stat->st_ctim = ret_stat->st_mtim;
	if (!S_ISDIR(type->mode))
		return;
	for (index = 0; find_entry(mount, node, index, &entry) == 0; index++)
		ret_stat->st_nlink += S_ISDIR(entry_types[entry.kind].mode);
}

int stats_stat(struct mount *mount, uint64_t node_id, struct stat *ret_stat)
{
	struct stats_node node;
	int err = decode_node(mount, node_id, &node);

	if (!err)
		fill_stat(mount, node, ret_stat);
	return err;
}

static int decode_dir(const struct mount *mount, uint64_t node_id, struct stats_node *ret_node)
{
	int err = decode_node(mount, node_id, ret_node);

	if (!err && !S_ISDIR(entry_types[ret_node->kind].mode))
		err = -ENOTDIR;
	return err;
}

int stats_entry(struct mount *mount, uint64_t parent, size_t index, char *ret_name,
		size_t name_size, struct stat *ret_stat)
{
	struct stats_node dir, node;
	int err;

	err = decode_dir(mount, parent, &dir);
	if (!err)
		err = find_entry(mount, dir, index, &node);
	if (err)
		return err;
	entry_name(mount, node, ret_name, name_size);
	fill_stat(mount, node, ret_stat);
	return 0;
}

int stats_lookup(struct mount *mount, uint64_t parent, const char *name, struct stat *ret_stat)
{
	char entry[NAME_MAX + 1];
	struct stats_node dir, node;
	size_t index;
	int err;

	err = decode_dir(mount, parent, &dir);
	if (err)
		return err;
	for (index = 0; find_entry(mount, dir, index, &node) == 0; index++) {
		entry_name(mount, node, entry, sizeof(entry));
		if (!strcmp(entry, name)) {
			fill_stat(mount, node, ret_stat);
			return 0;
		}
	}
	return -ENOENT;
}

static int64_t pool_number(const struct pool_counts *counts, struct stats_node node)
{
	switch (node.kind) {
	case KIND_POOL_NR:
		return counts->nr;
	case KIND_POOL_FREE:
		return counts->free;
	case KIND_POOL_RESV:
		return counts->resv;
	case KIND_POOL_SURPLUS:
		return counts->surplus;
	case KIND_POOL_OVERCOMMIT:
		return counts->overcommit;
	case KIND_NODE_NR:
		return counts->node[node.node].nr;
	case KIND_NODE_FREE:
		return counts->node[node.node].free;
	default:
		return counts->node[node.node].surplus;
	}
}

int stats_text_options(struct mount *mount, FILE *out)
{
	int len = options_print(mount->options, NULL, 0);
	char *text;

	if (len < 0)
		return len;
	text = malloc(len + 1);
	if (!text)
		return -ENOMEM;
	options_print(mount->options, text, len + 1);
	fprintf(out, "%s\n", text);
	free(text);
	return 0;
}

static int write_text(struct mount *mount, struct stats_node node, FILE *out)
{
	struct pool_counts counts;

	settle[entry_types[node.kind].settle](mount);
	if (entry_types[node.kind].text)
		return entry_types[node.kind].text(mount, out);
	pool_read(&mount->core.pool, &counts);
	fprintf(out, "%" PRId64 "\n",
		pool_number(&counts, node) / backing_chunk(mount->backing));
	return 0;
}

int stats_read(struct mount *mount, uint64_t node_id, char **ret_text, size_t *ret_len)
{
	struct stats_node node;
	char *text = NULL;
	size_t len = 0;
	FILE *out;
	int err;

	err = decode_node(mount, node_id, &node);
	if (err)
		return err;
	if (S_ISDIR(entry_types[node.kind].mode))
		return -EISDIR;
	out = open_memstream(&text, &len);
	if (!out)
		return -ENOMEM;
	err = write_text(mount, node, out);
	if (fclose(out) && !err)
		err = -ENOMEM;
	if (err) {
		free(text);
		return err;
	}
	*ret_text = text;
	*ret_len = len;
	return 0;
}

/* "0", with or without an end of line. */
static bool is_zero(const char *text, size_t len)
{
	return len >= 1 && text[0] == '0' && (len == 1 || (len == 2 && text[1] == '\n'));
}

/*
 * As kstrtoul() takes it: a decimal number, which may have a plus before it and an end of line
 * behind it; -ERANGE above ULONG_MAX. No pool is as large as that.
 */
static int parse_number(const char *text, size_t len, int64_t *ret_value)
{
	const char *end = text + strnlen(text, len);
	uint64_t value = 0;

	if (text < end && *text == '+')
		text++;
	if (text < end && end[-1] == '\n')
		end--;
	if (text == end)
		return -EINVAL;
	for (; text < end; text++) {
		if (!isdigit((unsigned char)*text))
			return -EINVAL;
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
			return -ERANGE;
	}
	*ret_value = value > INT64_MAX ? INT64_MAX : (int64_t)value;
	return 0;
}

static int node_to_set(struct stats_node node)
{
	return node.kind == KIND_NODE_NR ? node.node : POOL_ANY_NODE;
}

ssize_t stats_write(struct mount *mount, uint64_t node_id, const char *text, size_t len)
{
	struct stats_node node;
	int64_t value;
	int err;

	err = decode_node(mount, node_id, &node);
	if (err)
		return err;
	if (entry_types[node.kind].set) {
		err = parse_number(text, len, &value);
		if (!err)
			value = entry_types[node.kind].set(mount, node_to_set(node), value);
		return err ? err : (value < 0 ? value : (ssize_t)len);
	}
	if (!entry_types[node.kind].clear)
		return -EACCES;
	if (!is_zero(text, len))
		return -EINVAL;
	err = entry_types[node.kind].clear(mount);
	return err ? err : (ssize_t)len;
}
