/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A node's memory, as its meminfo in sysfs says, which has no MemAvailable: what is taken for
 * it here is what /proc/meminfo adds up for the machine, but for its allowance for watermarks.
 */
#include "fs/node_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool is_available(const char *name)
{
	static const char *const names[] = {"MemFree", "Active(file)", "Inactive(file)",
					    "SReclaimable"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(name, names[i]) == 0)
			return true;
	}
	return false;
}

int node_memory_parse(char *text, struct node_memory *ret_memory)
{
	struct node_memory memory = {0};
	char name[32], *line;
	uint64_t kb;

	while ((line = strsep(&text, "\n"))) {
		if (sscanf(line, "Node %*d %31[^:]: %" SCNu64 " kB", name, &kb) != 2)
			continue;
		if (strcmp(name, "MemTotal") == 0)
			memory.total_kb = kb;
		else if (is_available(name))
			memory.available_kb += kb;
	}
	if (memory.total_kb == 0 && memory.available_kb > 0)
		return -EBADMSG;
	*ret_memory = memory;
	return 0;
}

int node_memory_read(int node, struct node_memory *ret_memory)
{
	char path[64], text[8192];
	ssize_t len;
	int fd;

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/meminfo", node);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	len = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (len < 0)
		return -errno;
	text[len] = '\0';
	return node_memory_parse(text, ret_memory);
}
