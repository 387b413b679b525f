/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hugefuse probe: what this machine can do, what follows for each way of mapping, and what to
 * change. Text of at most 80 columns, or JSON as in docs/json.md.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "tools/cmd.h"
#include "tools/output.h"
#include "tools/probe_ways.h"

#define LABEL_WIDTH 14
#define LINE_WIDTH  80

/* The text after the label, with lines broken at spaces. */
static void print_line(const char *label, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void print_line(const char *label, const char *format, ...)
{
	char text[1024], *word, *rest = text;
	size_t column = LABEL_WIDTH;
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	printf("%-*s", LABEL_WIDTH - 1, label);
	while ((word = strtok_r(rest, " ", &rest))) {
		if (column + strlen(word) > LINE_WIDTH && column > LABEL_WIDTH) {
			printf("\n%-*s", LABEL_WIDTH - 1, "");
			column = LABEL_WIDTH;
		}
		printf(" %s", word);
		column += strlen(word) + 1;
	}
	printf("\n");
}

static const char *answer_name(enum probe_answer answer)
{
	static const char *const names[] = {"no", "yes", "unknown"};

	return names[answer];
}

static const char *uffd_name(enum probe_uffd uffd)
{
	static const char *const names[] = {"none", "user-mode", "full"};

	return names[uffd];
}

static const char *or_none(const char *text)
{
	return text[0] ? text : "not there";
}

static struct quantity limit_text(uint64_t limit, bool bytes)
{
	struct quantity infinite = {"unlimited"};

	if (limit == RLIM_INFINITY)
		return infinite;
	return bytes ? quantity_bytes(limit) : quantity_count(limit);
}

static void print_features(uint64_t features)
{
	char text[256] = "";
	int i;

	for (i = 0; uffd_features[i].name; i++) {
		if ((features & uffd_features[i].bits) != uffd_features[i].bits)
			continue;
		strcat(text, text[0] ? " " : "");
		strcat(text, uffd_features[i].name);
	}
	print_line("", "%s", text);
}

static void print_userfaultfd(const struct probe *probe)
{
	static const char *const meaning[] = {
		"none for this user",
		"for this user without the faults of system calls",
		"for this user, with the faults of system calls",
	};
	char mode[32] = "not there";

	if (probe->uffd_device_mode >= 0)
		snprintf(mode, sizeof(mode), "mode %04lo", probe->uffd_device_mode);
	print_line("userfaultfd", "%s", meaning[probe->uffd]);
	print_line("", "/dev/userfaultfd: %s; vm.unprivileged_userfaultfd=%ld", mode,
		   probe->uffd_unprivileged);
	if (probe->uffd != PROBE_UFFD_NONE)
		print_features(probe->uffd_features);
}

static void print_pages(const struct probe *probe)
{
	const struct probe_pages *pages;
	int i, j;

	if (probe->nr_sizes == 0)
		print_line("huge pages", "not there");
	for (i = 0; i < probe->nr_sizes; i++) {
		pages = &probe->sizes[i];
		print_line(i == 0 ? "huge pages" : "",
			   "%lu kB: %ld, free %ld, reserved %ld, surplus %ld, overcommit %ld",
			   pages->kb, pages->nr, pages->free, pages->resv, pages->surplus,
			   pages->overcommit);
		for (j = 0; j < pages->nr_nodes; j++)
			print_line("", "node %d: %ld, free %ld, surplus %ld",
				   pages->nodes[j].node, pages->nodes[j].nr,
				   pages->nodes[j].free, pages->nodes[j].surplus);
	}
	print_line("THP", "enabled: %s, shmem: %s, tmpfs huge=within_size: %s",
		   or_none(probe->thp_enabled), or_none(probe->thp_shmem_enabled),
		   answer_name(probe->huge_tmpfs));
}

static void print_conclusions(const struct probe *probe)
{
	struct remedy remedies[PROBE_MAX_REMEDIES];
	struct way ways[PROBE_NR_WAYS];
	int i, nr = probe_remedies(probe, remedies);

	probe_ways(probe, ways);
	printf("\nWays of mapping\n");
	for (i = 0; i < PROBE_NR_WAYS; i++)
		print_line(ways[i].name, "%s: %s", way_state_name(ways[i].state), ways[i].why);
	if (nr)
		printf("\nWhat to change\n");
	for (i = 0; i < nr; i++)
		printf("  %s:\n      %s\n", remedies[i].missing, remedies[i].command);
}

static const char *fuse_error_text(const struct probe *probe)
{
	return probe->fuse_error ? strerror(probe->fuse_error) : "no";
}

static void print_text(const struct probe *probe)
{
	print_line("kernel", "%s", probe->kernel);
	print_line("libfuse", "%s", probe->libfuse);
	print_line("user", "%s", probe->root ? "root" : "not root");
	print_line("mounting", "%s",
		   probe->root ? "with pages of the kernel's pool, or by source="
		   : probe->mount_why[0]
			   ? probe->mount_why
			   : "by -o source=DIR, a directory on hugetlbfs or tmpfs that "
			     "this user may write to");
	print_line("FUSE", "/dev/fuse: %s, passthrough: %s, io_uring: %s",
		   probe->has_fuse ? "yes" : fuse_error_text(probe),
		   answer_name(probe->passthrough), answer_name(probe->fuse_uring));
	if (probe->fuse_why[0])
		print_line("", "%s", probe->fuse_why);
	print_userfaultfd(probe);
	print_pages(probe);
	print_line("memory", "%s, of which %s are available",
		   quantity_bytes((uint64_t)probe->memory_kb << 10).text,
		   quantity_bytes((uint64_t)probe->available_kb << 10).text);
	print_line("limits",
		   "open files %s (hard %s), locked memory %s (hard %s),"
		   " vm.max_map_count %ld",
		   limit_text(probe->nofile_soft, false).text,
		   limit_text(probe->nofile_hard, false).text,
		   limit_text(probe->memlock_soft, true).text,
		   limit_text(probe->memlock_hard, true).text, probe->max_map_count);
	print_conclusions(probe);
}

/* ---- JSON: what is not known is null ---- */

static void add_string(json_object *object, const char *key, const char *text)
{
	json_object_object_add(object, key, text[0] ? output_json_string(text) : NULL);
}

static void add_number(json_object *object, const char *key, long value)
{
	json_object_object_add(object, key, value < 0 ? NULL : json_object_new_int64(value));
}

static void add_limit(json_object *object, const char *key, uint64_t limit)
{
	json_object_object_add(object, key,
			       limit == RLIM_INFINITY ? NULL
						      : json_object_new_int64((int64_t)limit));
}

static void add_answer(json_object *object, const char *key, enum probe_answer answer)
{
	json_object_object_add(
		object, key,
		answer == PROBE_UNKNOWN ? NULL : json_object_new_boolean(answer == PROBE_YES));
}

static json_object *add_object(json_object *object, const char *key)
{
	json_object *member = json_object_new_object();

	json_object_object_add(object, key, member);
	return member;
}

static json_object *add_array(json_object *object, const char *key)
{
	json_object *member = json_object_new_array();

	json_object_object_add(object, key, member);
	return member;
}

static json_object *append_object(json_object *array)
{
	json_object *member = json_object_new_object();

	json_object_array_add(array, member);
	return member;
}

static void add_pages(json_object *array, const struct probe_pages *pages)
{
	json_object *object = append_object(array), *nodes, *node;
	int i;

	json_object_object_add(object, "kb", json_object_new_int64((int64_t)pages->kb));
	add_number(object, "nr", pages->nr);
	add_number(object, "free", pages->free);
	add_number(object, "reserved", pages->resv);
	add_number(object, "surplus", pages->surplus);
	add_number(object, "overcommit", pages->overcommit);
	nodes = add_array(object, "nodes");
	for (i = 0; i < pages->nr_nodes; i++) {
		node = append_object(nodes);
		add_number(node, "node", pages->nodes[i].node);
		add_number(node, "nr", pages->nodes[i].nr);
		add_number(node, "free", pages->nodes[i].free);
		add_number(node, "surplus", pages->nodes[i].surplus);
	}
}

static void add_kernel(json_object *root, const struct probe *probe)
{
	json_object *object, *array;
	int i;

	object = add_object(root, "mounting");
	json_object_object_add(
		object, "possible",
		json_object_new_boolean(probe->has_fuse && !probe->mount_why[0]));
	add_string(object, "why", probe->mount_why);
	object = add_object(root, "memory");
	add_number(object, "total_kb", probe->memory_kb);
	add_number(object, "available_kb", probe->available_kb);
	object = add_object(root, "fuse");
	json_object_object_add(object, "device", json_object_new_boolean(probe->has_fuse));
	add_answer(object, "passthrough", probe->passthrough);
	add_answer(object, "io_uring", probe->fuse_uring);
	add_string(object, "unknown_because", probe->fuse_why);
	object = add_object(root, "userfaultfd");
	add_string(object, "access", uffd_name(probe->uffd));
	add_number(object, "device_mode", probe->uffd_device_mode);
	add_number(object, "unprivileged", probe->uffd_unprivileged);
	array = add_array(object, "features");
	for (i = 0; uffd_features[i].name; i++) {
		if ((probe->uffd_features & uffd_features[i].bits) == uffd_features[i].bits)
			json_object_array_add(array,
					      json_object_new_string(uffd_features[i].name));
	}
	array = add_array(root, "hugetlb");
	for (i = 0; i < probe->nr_sizes; i++)
		add_pages(array, &probe->sizes[i]);
	object = add_object(root, "thp");
	add_string(object, "enabled", probe->thp_enabled);
	add_string(object, "shmem_enabled", probe->thp_shmem_enabled);
	add_answer(object, "tmpfs_huge", probe->huge_tmpfs);
	object = add_object(root, "limits");
	add_limit(object, "nofile_soft", probe->nofile_soft);
	add_limit(object, "nofile_hard", probe->nofile_hard);
	add_limit(object, "memlock_soft", probe->memlock_soft);
	add_limit(object, "memlock_hard", probe->memlock_hard);
	add_number(object, "max_map_count", probe->max_map_count);
}

static void add_conclusions(json_object *root, const struct probe *probe)
{
	struct remedy remedies[PROBE_MAX_REMEDIES];
	struct way ways[PROBE_NR_WAYS];
	json_object *array, *object;
	int i, nr = probe_remedies(probe, remedies);

	probe_ways(probe, ways);
	object = add_object(root, "mapping");
	for (i = 0; i < PROBE_NR_WAYS; i++) {
		json_object *way = add_object(object, ways[i].name);

		add_string(way, "state", way_state_name(ways[i].state));
		add_string(way, "why", ways[i].why);
	}
	array = add_array(root, "changes");
	for (i = 0; i < nr; i++) {
		object = append_object(array);
		add_string(object, "missing", remedies[i].missing);
		add_string(object, "command", remedies[i].command);
	}
}

static void print_json(const struct probe *probe)
{
	json_object *root = output_json_new();

	add_string(root, "kernel", probe->kernel);
	add_string(root, "libfuse", probe->libfuse);
	json_object_object_add(root, "root", json_object_new_boolean(probe->root));
	add_kernel(root, probe);
	add_conclusions(root, probe);
	output_json_print(root);
}

int cmd_probe(const struct verb *verb, int argc, char **argv)
{
	static const struct option long_options[] = {
		{"json", no_argument, NULL, CMD_OPT_JSON},
		CMD_COMMON_OPTIONS,
	};
	struct probe *probe;
	bool json = false;
	int c, exit_code;

	while ((c = cmd_getopt(verb, argc, argv, ":h", long_options, &exit_code)) != -1) {
		if (c == CMD_EXIT)
			return exit_code;
		json = true;
	}
	if (argc != optind)
		return cmd_fail(verb, EXIT_USAGE, "takes no operand: '%s'", argv[optind]);
	probe = malloc(sizeof(*probe));
	if (!probe)
		return cmd_fail(verb, EXIT_FAILED, "out of memory");
	probe_machine(probe);
	if (json)
		print_json(probe);
	else
		print_text(probe);
	free(probe);
	return EXIT_OK;
}
