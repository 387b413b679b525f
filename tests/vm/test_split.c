/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Deferred split where the memory of one node gets short: only huge pages of that node are
 * split with split_queue=tenant-node, and with the other queues others are as well.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <numaif.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <unistd.h>

#include "nodes.h"

#define PAGES     8 /* huge ones, of each file */
#define MAX_STEPS 4096

static struct fixture fixture;

/* A column of the lines of @node in .hugefuse/split; "-": those that are for all nodes. */
static long split_column(const char *name, const char *node)
{
	char *text = fixture_text(&fixture, "split"), *rest = text, *line, *field;
	long value = 0;
	int at = -1;

	line = strsep(&rest, "\n");
	for (int i = 0; (field = strsep(&line, " ")); i++)
		if (strcmp(field, name) == 0)
			at = i;
	assert_int_not_equal(at, -1);
	while ((line = strsep(&rest, "\n")) && *line) {
		if (strcmp(strsep(&line, " "), node) != 0)
			continue;
		for (int i = 1; i < at; i++)
			strsep(&line, " ");
		value += strtol(line, NULL, 10);
	}
	free(text);
	return value;
}

static long of_node(const char *name, int node)
{
	char text[8];

	snprintf(text, sizeof(text), "%d", node);
	return split_column(name, text);
}

/* New files of the mount's tmpfs have their pages on @node. */
static void place_files(int node)
{
	char names[256], dir[128], options[32], *escaped = dir;

	/* as fs/run_dir.c makes the name of the mount point's directory */
	for (const char *c = fixture.dir + 1; *c; c++)
		escaped += sprintf(escaped, *c == '-' ? "\\x2d" : "%c", *c == '/' ? '-' : *c);
	snprintf(names, sizeof(names), "/run/hugefuse/%s/names", dir);
	snprintf(options, sizeof(options), "mpol=bind:%d", node);
	assert_int_equal(
		mount("none", names, "tmpfs", MS_REMOUNT | MS_NOSUID | MS_NODEV, options), 0);
}

/* A file on @node, of whose huge pages half is punched. */
static void make_holes(int node)
{
	char name[16], *bytes = malloc(PAGE_2M);
	int fd;

	place_files(node);
	snprintf(name, sizeof(name), "file%d", node);
	fd = fixture_file(&fixture, name, O_WRONLY | O_CREAT, 0);
	memset(bytes, 'x', PAGE_2M);
	for (int i = 0; i < PAGES; i++)
		assert_int_equal(pwrite(fd, bytes, PAGE_2M, i * (off_t)PAGE_2M), PAGE_2M);
	for (int i = 0; i < PAGES; i++)
		assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					   i * (off_t)PAGE_2M, MB),
				 0);
	free(bytes);
	close(fd);
}

/* What is available of a node's memory, in kB. */
static long available_kb(int node, long *ret_total)
{
	static const char *const parts[] = {"MemFree", "Active(file)", "Inactive(file)",
					    "SReclaimable"};
	char path[64], line[128], name[32];
	long kb, sum = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/meminfo", node);
	file = fopen(path, "re");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "Node %*d %31[^:]: %ld", name, &kb) != 2)
			continue;
		if (strcmp(name, "MemTotal") == 0)
			*ret_total = kb;
		for (int i = 0; i < 4; i++)
			sum += strcmp(name, parts[i]) == 0 ? kb : 0;
	}
	fclose(file);
	return sum;
}

/* Take a node's memory, a megabyte at a time, until little is left: less than the shrinker lets
 * be. */
static char *take_memory(int node)
{
	unsigned long mask = 1UL << node;
	char *addr;
	long total = 0;

	addr = mmap(NULL, MAX_STEPS * MB, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_ptr_not_equal(addr, MAP_FAILED);
	assert_int_equal(madvise(addr, MAX_STEPS * MB, MADV_NOHUGEPAGE), 0);
	assert_int_equal(mbind(addr, MAX_STEPS * MB, MPOL_BIND, &mask, 8 * sizeof(mask) + 1, 0),
			 0);
	for (long i = 0; i < MAX_STEPS; i++) {
		if (available_kb(node, &total) < 48 * 1024)
			break;
		memset(addr + i * (long)MB, 1, MB);
	}
	return addr;
}

struct goal {
	const char *node;
	long before;
};

static bool was_split(void *data)
{
	const struct goal *goal = data;

	return split_column("split", goal->node) > goal->before;
}

static void begin(const char *mode)
{
	char options[128];

	snprintf(options, sizeof(options),
		 "backing=thp,size=%dM,split_queue=%s,split_marks=0:0", 8 * PAGES, mode);
	fixture_mount(&fixture, options);
	make_holes(memory_node(0));
	make_holes(memory_node(-1));
}

static void end(char *taken)
{
	munmap(taken, MAX_STEPS * MB);
	for (int i = 0; i < 2; i++) {
		char name[16];

		snprintf(name, sizeof(name), "file%d", memory_node(-i));
		assert_int_equal(unlink(fixture_path(&fixture, name)), 0);
	}
	fixture_umount(&fixture);
}

static void test_one_node_is_short(void **state)
{
	int other = memory_node(0), node = memory_node(-1);
	char text[8], *taken;
	struct goal goal = {text, 0};

	snprintf(text, sizeof(text), "%d", node);
	begin("tenant-node");
	assert_int_equal(of_node("queued", other), PAGES);
	assert_int_equal(of_node("queued", node), PAGES);
	taken = take_memory(node);
	assert_true(wait_until(was_split, &goal, 5000));
	assert_int_equal(of_node("queued", other), PAGES);
	assert_int_equal(of_node("split", other), 0);
	assert_int_equal(of_node("elsewhere", node), 0);
	assert_int_equal(of_node("elsewhere", other), 0);
	end(taken);
}

/* The file of the other node came first. */
static void test_one_queue_for_all_nodes(void **state)
{
	struct goal goal = {"-", 0};
	char *taken;

	begin("tenant");
	assert_int_equal(split_column("queued", "-"), 2 * PAGES);
	taken = take_memory(memory_node(-1));
	assert_true(wait_until(was_split, &goal, 5000));
	assert_true(split_column("elsewhere", "-") > 0);
	end(taken);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_node_is_short),
		cmocka_unit_test(test_one_queue_for_all_nodes),
	};

	require_nodes(2);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
