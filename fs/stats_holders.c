/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A sorted list of files and processes. */
#include "fs/stats_holders.h"

#include <errno.h>
#include <stdlib.h>

#include "fs/client.h"
#include "fs/control.h"
#include "fs/mapping.h"
#include "fs/stats_plain.h"

#define PRINT_MAX 32

struct collector {
	struct holders holders;
	size_t size;
};

static int add(struct collector *collector, uint64_t ino, pid_t pid)
{
	struct holders *holders = &collector->holders;
	struct holder *bigger;

	if (holders->nr > 0 && holders->list[holders->nr - 1].ino == ino &&
	    holders->list[holders->nr - 1].pid == pid)
		return 0;
	if (holders->nr == collector->size) {
		collector->size = collector->size ? 2 * collector->size : 256;
		bigger = realloc(holders->list, collector->size * sizeof(*bigger));
		if (!bigger)
			return -ENOMEM;
		holders->list = bigger;
	}
	holders->list[holders->nr++] = (struct holder){ino, pid};
	return 0;
}

static int add_mapping(struct mapping *mapping, void *data)
{
	if (!mapping->client || mapping->dead)
		return 0;
	return add(data, mapping->inode->ino, mapping->client->pid);
}

static int add_plain(const struct plain_mapping *plain, void *data)
{
	return add(data, plain->ino, plain->pid);
}

static int compare(const void *a, const void *b)
{
	const struct holder *x = a, *y = b;

	if (x->ino != y->ino)
		return x->ino < y->ino ? -1 : 1;
	return (x->pid > y->pid) - (x->pid < y->pid);
}

static void sort(struct holders *holders)
{
	size_t nr = 0;

	if (holders->nr > 0)
		qsort(holders->list, holders->nr, sizeof(*holders->list), compare);
	for (size_t i = 0; i < holders->nr; i++) {
		if (i == 0 || compare(&holders->list[i], &holders->list[nr - 1]) != 0)
			holders->list[nr++] = holders->list[i];
	}
	holders->nr = nr;
}

int holders_init(struct mount *mount, struct holders *ret_holders)
{
	struct collector collector = {};
	int r;

	r = control_for_each_mapping(mount->control, add_mapping, &collector);
	if (r == 0)
		r = plain_for_each(mount, add_plain, &collector);
	if (r < 0) {
		holders_deinit(&collector.holders);
		return r;
	}
	sort(&collector.holders);
	*ret_holders = collector.holders;
	return 0;
}

void holders_deinit(struct holders *holders)
{
	free(holders->list);
	*holders = (struct holders){};
}

/* Where the processes of @ino begin. */
static size_t find(const struct holders *holders, uint64_t ino)
{
	size_t low = 0, high = holders->nr, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (holders->list[middle].ino < ino)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void holders_print(const struct holders *holders, uint64_t ino, FILE *out)
{
	size_t first = find(holders, ino), i;

	for (i = first; i < holders->nr && holders->list[i].ino == ino; i++) {
		if (i - first == PRINT_MAX) {
			fputs(",...", out);
			return;
		}
		fprintf(out, "%s%d", i > first ? "," : "", holders->list[i].pid);
	}
	if (i == first)
		fputc('-', out);
}
