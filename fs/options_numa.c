/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Options that concern nodes. No locks, as fs/options.c. */
#include "fs/options_numa.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/memparse.h"
#include "fs/node_share.h"

#define MAX_ALLOC_SLEEP_MS 3600000

/* "NODE:SIZE". */
static int add_node_size(struct option_node_sizes *sizes, char *text, uint64_t *total)
{
	char *size = strchr(text, ':');
	uint64_t node, bytes;
	int r;

	if (!size)
		return -EINVAL;
	*size++ = '\0';
	r = memparse_number(text, 10, 0, NUMA_RULE_MAX_NODES - 1, &node);
	if (r == 0)
		r = memparse_bytes(size, &bytes);
	if (r < 0)
		return r;
	if (sizes->nodes & NODE_BIT(node))
		return -EINVAL;
	if (bytes > INT64_MAX - *total)
		return -ERANGE;
	sizes->nodes |= NODE_BIT(node);
	sizes->bytes[node] = bytes;
	*total += bytes;
	return 0;
}

int options_set_node_sizes(struct mount_options *options, const char *value)
{
	struct option_node_sizes sizes = {0};
	char *copy = strdup(value), *save = NULL;
	uint64_t total = 0;
	int r = copy ? 0 : -ENOMEM;

	for (char *item = copy ? strtok_r(copy, ",", &save) : NULL; item && r == 0;
	     item = strtok_r(NULL, ",", &save))
		r = add_node_size(&sizes, item, &total);
	free(copy);
	if (r < 0)
		return r;
	options->node_sizes = sizes;
	options->size = (struct option_size){.bytes = total};
	return 0;
}

int options_set_numa(struct mount_options *options, const char *value)
{
	struct numa_rule rule;
	int r = numa_rule_parse(value, &rule);

	if (r < 0)
		return r;
	options->numa.kind = rule.kind;
	options->numa.nodes = rule.nodes;
	return 0;
}

int options_set_fallback(struct mount_options *options, const char *value)
{
	return numa_fallback_parse(value, &options->numa.fallback);
}

int options_set_avail_mask(struct mount_options *options, const char *value)
{
	if (strcmp(value, "on") == 0)
		options->avail_mask = true;
	else if (strcmp(value, "off") == 0)
		options->avail_mask = false;
	else
		return -EINVAL;
	return 0;
}

int options_set_alloc_sleep_ms(struct mount_options *options, const char *value)
{
	uint64_t ms;
	int r = memparse_number(value, 10, 1, MAX_ALLOC_SLEEP_MS, &ms);

	if (r == 0)
		options->alloc_sleep_ms = (uint32_t)ms;
	return r;
}

static int refuse(char *error, size_t error_size, const char *text)
{
	snprintf(error, error_size, "%s", text);
	return -EINVAL;
}

int options_check_numa(const struct mount_options *options, char *error, size_t error_size)
{
	const struct option_node_sizes *sizes = &options->node_sizes;

	if (options->backing == BACKING_HUGETLB && options->numa.fallback == NUMA_SMALL)
		return refuse(error, error_size,
			      "option 'fallback=small': with backing=hugetlb there are no base "
			      "pages; accepted are remote, wait and fail");
	if (!sizes->nodes)
		return 0;
	if (options->backing == BACKING_THP)
		return refuse(
			error, error_size,
			"option 'size=NODE:SIZE': with backing=thp accepted is a size for "
			"all nodes; numa= says where files are");
	if (options_size_is_set(&options->min_size))
		return refuse(error, error_size,
			      "option 'min_size': with a size for each node all of it is set "
			      "aside; accepted is one of the two");
	for (int node = 0; node < NUMA_RULE_MAX_NODES; node++) {
		if (sizes->nodes & NODE_BIT(node) && sizes->bytes[node] % options->pagesize)
			return refuse(error, error_size,
				      "option 'size=NODE:SIZE': accepted are multiples of the "
				      "page size");
	}
	return 0;
}
