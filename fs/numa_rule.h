/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * NUMA rules: on which nodes a file's pages are to be, and what happens where those have none:
 * numa= and fallback= of the mount, user.hugefuse.numa of a directory or file. Text and
 * arithmetic: no locks, no system calls.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NUMA_RULE_MAX_NODES 64
#define NUMA_RULE_TEXT_MAX  512
#define NUMA_ANY_NODE       (-1)

enum numa_kind {
	NUMA_NONE, /* not said: of the thread that maps, else local */
	NUMA_LOCAL,
	NUMA_PREFERRED,
	NUMA_BIND,
	NUMA_INTERLEAVE,
};

/* Where the node that the rule names has no huge page. */
enum numa_fallback {
	NUMA_FALLBACK_NONE, /* not said: the mount's, else remote */
	NUMA_REMOTE,        /* a huge page of another node */
	NUMA_SMALL,         /* base pages of that node: backing=thp alone has them */
	NUMA_WAIT,          /* until one is freed there */
	NUMA_FAIL,          /* SIGBUS */
};

struct numa_rule {
	enum numa_kind kind;
	enum numa_fallback fallback;
	uint64_t nodes; /* bind, interleave: a bit each, 0: all; preferred: one */
};

/*
 * "local", "preferred:N", "bind:LIST" or "interleave[:LIST]", with LIST as in "0,2-3"; behind
 * it perhaps ",fallback=remote|small|wait|fail". 0, -EINVAL (malformed), -ERANGE (a node number
 * that no machine has).
 */
int numa_rule_parse(const char *text, struct numa_rule *ret_rule);
/* "remote", "small", "wait" or "fail". 0 or -EINVAL. */
int numa_fallback_parse(const char *text, enum numa_fallback *ret_fallback);
/* What numa_rule_parse() reads back to the same; "" for NUMA_NONE. Returns the length. */
int numa_rule_print(const struct numa_rule *rule, char *buf, size_t size);
const char *numa_fallback_name(enum numa_fallback fallback);
/* A list of nodes, "0,2-3", and back. 0, -EINVAL, -ERANGE; the length. */
int numa_nodes_parse(const char *text, uint64_t *ret_nodes);
int numa_nodes_print(uint64_t nodes, char *buf, size_t size);

/* @rule, and what it leaves open as @outer has it. */
struct numa_rule numa_rule_inside(const struct numa_rule *rule, const struct numa_rule *outer);
/* Whether a page elsewhere is not what is asked for. */
bool numa_rule_is_strict(const struct numa_rule *rule);
/* The nodes that a reservation has to be on; 0: it does not matter, or cannot be said. */
uint64_t numa_rule_reserved_on(const struct numa_rule *rule);

/* Where a page is to be. */
struct numa_place {
	int first;      /* NUMA_ANY_NODE: it does not matter */
	uint64_t nodes; /* others that may have it too; with first, if that is a node */
};

/*
 * Where page @idx is to be that is faulted on from node @local (NUMA_ANY_NODE: not known), on a
 * machine with memory in the nodes @memory. Nodes without memory are left out; where nothing is
 * left, there is no place.
 */
struct numa_place numa_rule_place(const struct numa_rule *rule, uint64_t memory, int local,
				  int64_t idx);
