/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How much memory a node has, and how much of it could be had. */
#pragma once

#include <stdint.h>

struct node_memory {
	uint64_t total_kb;
	uint64_t available_kb; /* free, or of the page cache, which gives way */
};

/* 0, -ENOENT for a node that there is not, -errno. */
int node_memory_read(int node, struct node_memory *ret_memory);
/* The text of a node's meminfo, which is changed; -EBADMSG. */
int node_memory_parse(char *text, struct node_memory *ret_memory);
