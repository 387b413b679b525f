/* SPDX-License-Identifier: GPL-2.0-or-later */
/* NUMA rules: parsing, printing, and the node of a page. */
#include "fs/numa_rule.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fs/node_share.h"

static const char *const kind_names[] = {
	[NUMA_NONE] = "",     [NUMA_LOCAL] = "local",           [NUMA_PREFERRED] = "preferred",
	[NUMA_BIND] = "bind", [NUMA_INTERLEAVE] = "interleave",
};

static const char *const fallback_names[] = {
	[NUMA_FALLBACK_NONE] = "", [NUMA_REMOTE] = "remote", [NUMA_SMALL] = "small",
	[NUMA_WAIT] = "wait",      [NUMA_FAIL] = "fail",
};

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define FALLBACK          ",fallback="

const char *numa_fallback_name(enum numa_fallback fallback)
{
	return fallback_names[fallback];
}

int numa_fallback_parse(const char *text, enum numa_fallback *ret_fallback)
{
	for (size_t i = NUMA_REMOTE; i < ARRAY_SIZE(fallback_names); i++) {
		if (strcmp(text, fallback_names[i]) == 0) {
			*ret_fallback = (enum numa_fallback)i;
			return 0;
		}
	}
	return -EINVAL;
}

static int parse_node(const char **text, int *ret_node)
{
	int node = 0;

	if (!isdigit((unsigned char)**text))
		return -EINVAL;
	for (; isdigit((unsigned char)**text); (*text)++) {
		node = node * 10 + (**text - '0');
		if (node >= NUMA_RULE_MAX_NODES)
			return -ERANGE;
	}
	*ret_node = node;
	return 0;
}

int numa_nodes_parse(const char *text, uint64_t *ret_nodes)
{
	uint64_t nodes = 0;
	int from, to, r;

	for (;;) {
		r = parse_node(&text, &from);
		if (r < 0)
			return r;
		to = from;
		if (*text == '-') {
			text++;
			r = parse_node(&text, &to);
			if (r < 0)
				return r;
		}
		if (to < from)
			return -EINVAL;
		for (int node = from; node <= to; node++)
			nodes |= NODE_BIT(node);
		if (*text == '\0')
			break;
		if (*text++ != ',')
			return -EINVAL;
	}
	*ret_nodes = nodes;
	return 0;
}

int numa_nodes_print(uint64_t nodes, char *buf, size_t size)
{
	int len = 0, to;

	if (size > 0)
		*buf = '\0';
	for (int node = 0; node < NUMA_RULE_MAX_NODES; node = to + 1) {
		to = node;
		if (!(nodes & NODE_BIT(node)))
			continue;
		while (to + 1 < NUMA_RULE_MAX_NODES && nodes & NODE_BIT(to + 1))
			to++;
		if ((size_t)len < size)
			snprintf(buf + len, size - (size_t)len, "%s%d", len ? "," : "", node);
		len += snprintf(NULL, 0, "%s%d", len ? "," : "", node);
		if (to == node)
			continue;
		if ((size_t)len < size)
			snprintf(buf + len, size - (size_t)len, "-%d", to);
		len += snprintf(NULL, 0, "-%d", to);
	}
	return len;
}

static int parse_kind(char *text, struct numa_rule *rule)
{
	char *list = strchr(text, ':');
	size_t kind;

	if (list)
		*list++ = '\0';
	for (kind = NUMA_LOCAL; kind < ARRAY_SIZE(kind_names); kind++) {
		if (strcmp(text, kind_names[kind]) == 0)
			break;
	}
	if (kind == ARRAY_SIZE(kind_names))
		return -EINVAL;
	rule->kind = (enum numa_kind)kind;
	/* All but interleave either have to have one or have none. */
	if (!list)
		return kind == NUMA_PREFERRED || kind == NUMA_BIND ? -EINVAL : 0;
	if (kind == NUMA_LOCAL || (kind == NUMA_PREFERRED && strpbrk(list, ",-")))
		return -EINVAL;
	return numa_nodes_parse(list, &rule->nodes);
}

int numa_rule_parse(const char *text, struct numa_rule *ret_rule)
{
	struct numa_rule rule = {NUMA_NONE, NUMA_FALLBACK_NONE, 0};
	char copy[NUMA_RULE_TEXT_MAX], *fallback;
	int r;

	if (strlen(text) >= sizeof(copy))
		return -EINVAL;
	strcpy(copy, text);
	fallback = strstr(copy, FALLBACK);
	if (fallback) {
		*fallback = '\0';
		r = numa_fallback_parse(fallback + strlen(FALLBACK), &rule.fallback);
		if (r < 0)
			return r;
	}
	r = parse_kind(copy, &rule);
	if (r == 0)
		*ret_rule = rule;
	return r;
}

int numa_rule_print(const struct numa_rule *rule, char *buf, size_t size)
{
	char nodes[NUMA_RULE_TEXT_MAX] = "";

	if (rule->nodes)
		numa_nodes_print(rule->nodes, nodes, sizeof(nodes));
	return snprintf(buf, size, "%s%s%s%s%s", kind_names[rule->kind], *nodes ? ":" : "",
			nodes, rule->fallback ? FALLBACK : "", fallback_names[rule->fallback]);
}

struct numa_rule numa_rule_inside(const struct numa_rule *rule, const struct numa_rule *outer)
{
	struct numa_rule whole = *rule;

	if (whole.kind == NUMA_NONE) {
		whole.kind = outer->kind;
		whole.nodes = outer->nodes;
	}
	if (whole.fallback == NUMA_FALLBACK_NONE)
		whole.fallback = outer->fallback;
	return whole;
}

bool numa_rule_is_strict(const struct numa_rule *rule)
{
	return rule->kind == NUMA_BIND || rule->fallback == NUMA_WAIT ||
	       rule->fallback == NUMA_FAIL;
}

uint64_t numa_rule_reserved_on(const struct numa_rule *rule)
{
	if (rule->kind == NUMA_BIND)
		return rule->nodes;
	return rule->kind == NUMA_PREFERRED && numa_rule_is_strict(rule) ? rule->nodes : 0;
}

/* The @nth node of @nodes, which are not none, counted round and round. */
static int nth_node(uint64_t nodes, int64_t nth)
{
	int node = 0;

	nth %= __builtin_popcountll(nodes);
	for (;; node++) {
		if (nodes & NODE_BIT(node) && nth-- == 0)
			return node;
	}
}

struct numa_place numa_rule_place(const struct numa_rule *rule, uint64_t memory, int local,
				  int64_t idx)
{
	uint64_t nodes = rule->nodes ? rule->nodes & memory : memory;
	struct numa_place place = {NUMA_ANY_NODE, memory};

	switch (rule->kind) {
	case NUMA_NONE:
	case NUMA_LOCAL:
		place.first = local;
		break;
	case NUMA_PREFERRED:
		place.first = nodes ? __builtin_ctzll(nodes) : NUMA_ANY_NODE;
		break;
	case NUMA_BIND:
		place.first = local != NUMA_ANY_NODE && nodes & NODE_BIT(local) ? local
										: NUMA_ANY_NODE;
		place.nodes = nodes;
		return place;
	case NUMA_INTERLEAVE:
		place.first = nodes ? nth_node(nodes, idx) : NUMA_ANY_NODE;
		break;
	}
	/* A thread may be on a node without memory. */
	if (numa_rule_is_strict(rule) && place.first != NUMA_ANY_NODE &&
	    memory & NODE_BIT(place.first))
		place.nodes = NODE_BIT(place.first);
	else if (numa_rule_is_strict(rule) && rule->kind == NUMA_PREFERRED)
		place.nodes = 0;
	return place;
}
