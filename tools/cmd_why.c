/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hugefuse why: why a file, a directory or a process holds pages, in words.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/cmd.h"
#include "tools/mount_snapshot.h"
#include "tools/mountpoint.h"
#include "tools/output.h"
#include "tools/why.h"

struct why_request {
	const struct verb *verb;
	json_object *reports; /* NULL: print text */
	bool printed;
};

static json_object *json_lines(const struct why_lines *lines)
{
	json_object *array = json_object_new_array();

	for (size_t i = 0; i < lines->count; i++)
		json_object_array_add(array, output_json_string(lines->lines[i]));
	return array;
}

static void add_json(json_object *reports, const struct why_report *report)
{
	json_object *object = json_object_new_object();

	json_object_object_add(object, "subject", output_json_string(report->subject));
	json_object_object_add(object, "instantiated_bytes",
			       json_object_new_uint64(report->resident));
	json_object_object_add(object, "reserved_bytes",
			       json_object_new_uint64(report->reserved));
	json_object_object_add(object, "reasons", json_lines(&report->reasons));
	json_object_object_add(object, "remedies", json_lines(&report->remedies));
	json_object_array_add(reports, object);
}

/* With a hanging indent, broken at spaces. */
static void print_wrapped(const char *text, unsigned int width)
{
	size_t column = 4, length;

	printf("  - ");
	while (*text != '\0') {
		length = strcspn(text, " ");
		if (width != 0 && column + length > width && column > 4) {
			printf("\n    ");
			column = 4;
		}
		printf("%.*s", (int)length, text);
		column += length;
		text += length;
		if (*text == ' ') {
			if (width == 0 || column + 1 + strcspn(text + 1, " ") <= width) {
				putchar(' ');
				column++;
			}
			text++;
		}
	}
	putchar('\n');
}

static void print_text(const struct why_report *report)
{
	unsigned int width = output_width();
	size_t i;

	printf("%s: %s instantiated, %s reserved\n", report->subject,
	       quantity_bytes(report->resident).text, quantity_bytes(report->reserved).text);
	for (i = 0; i < report->reasons.count; i++)
		print_wrapped(report->reasons.lines[i], width);
	if (report->remedies.count != 0)
		printf("what would free them:\n");
	for (i = 0; i < report->remedies.count; i++)
		print_wrapped(report->remedies.lines[i], width);
}

/* Takes over @report. */
static void show(struct why_request *request, struct why_report *report)
{
	if (request->reports) {
		add_json(request->reports, report);
	} else {
		if (request->printed)
			putchar('\n');
		print_text(report);
	}
	request->printed = true;
	why_report_deinit(report);
}

static int fail(const struct why_request *request, int r)
{
	return cmd_fail(request->verb, EXIT_FAILED, "%s", strerror(-r));
}

/* A snapshot with everything that the answer needs, or one line on stderr. */
static int read_mount(const struct why_request *request, const char *mountpoint,
		      struct mount_snapshot *mount)
{
	struct snapshot_error error;

	if (mount_snapshot_read(mountpoint, PART_FILES | PART_MAPS | PART_TENANTS | PART_FAULTS,
				mount, &error) < 0)
		return cmd_fail_at(request->verb, mountpoint, error.text);
	if (holders_are_known(mount))
		return EXIT_OK;
	mount_snapshot_deinit(mount);
	return cmd_fail(request->verb, EXIT_FAILED,
			"%s: who holds what is for root to see; try it as root", mountpoint);
}

static dev_t device_of(const char *mountpoint)
{
	struct stat st;

	return stat(mountpoint, &st) == 0 ? st.st_dev : 0;
}

/* ---- paths ---- */

static int show_file(struct why_request *request, const struct mount_snapshot *mount,
		     const struct snapshot_file *file)
{
	struct proc_uses uses = {0};
	struct why_report report;
	int r;

	r = proc_uses_find("/proc", device_of(mount->mountpoint), file->inode, 0, &uses);
	if (r == 0)
		r = why_file(mount, file, &uses, &report);
	proc_uses_free(&uses);
	if (r < 0)
		return fail(request, r);
	show(request, &report);
	return EXIT_OK;
}

static int show_directory(struct why_request *request, const struct mount_snapshot *mount,
			  const char *path)
{
	struct why_report report;
	int r = why_directory(mount, path, &report);

	if (r < 0)
		return fail(request, r);
	show(request, &report);
	return EXIT_OK;
}

/* @path is absolute; @below is what of it is below the mountpoint, "" or "/...". */
static int show_path(struct why_request *request, const struct mount_snapshot *mount,
		     const char *path, const char *below)
{
	int exit_code = EXIT_OK;
	struct stat st;
	bool found = false, exists = lstat(path, &st) == 0;

	if (*below == '\0' || (exists && S_ISDIR(st.st_mode)))
		return show_directory(request, mount, below);
	for (size_t i = 0; i < mount->files.count && exit_code == EXIT_OK; i++) {
		const struct snapshot_file *file = &mount->files.files[i];

		if (exists ? file->inode != st.st_ino : strcmp(file->path, below) != 0)
			continue;
		found = true;
		exit_code = show_file(request, mount, file);
	}
	if (found)
		return exit_code;
	return cmd_fail(request->verb, EXIT_FAILED,
			"%s: no file with huge pages; 'hugefuse ls %s' lists what there is",
			path, mount->mountpoint);
}

/* The mount that @path is on: the longest mountpoint that it begins with. */
static int find_mount(const struct mountpoint *list, int count, const char *path)
{
	size_t length, longest = 0;
	int i, found = -1;

	for (i = 0; i < count; i++) {
		length = strlen(list[i].path);
		if (strncmp(list[i].path, path, length) == 0 &&
		    (path[length] == '/' || path[length] == '\0') && length >= longest) {
			longest = length;
			found = i;
		}
	}
	return found;
}

static int explain_path(struct why_request *request, const struct mountpoint *list, int count,
			const char *operand)
{
	char *path = mountpoint_absolute(operand);
	struct mount_snapshot mount;
	int i, exit_code;

	if (!path)
		return cmd_fail(request->verb, EXIT_FAILED, "%s: %s", operand, strerror(errno));
	i = find_mount(list, count, path);
	if (i < 0) {
		exit_code = cmd_fail(request->verb, EXIT_FAILED,
				     "%s: not on a hugefuse mount; 'hugefuse stat' lists the "
				     "mounts",
				     path);
	} else {
		exit_code = read_mount(request, list[i].path, &mount);
		if (exit_code == EXIT_OK) {
			exit_code =
				show_path(request, &mount, path, path + strlen(list[i].path));
			mount_snapshot_deinit(&mount);
		}
	}
	free(path);
	return exit_code;
}

/* ---- processes ---- */

static int explain_process(struct why_request *request, const struct mountpoint *list,
			   int count, uint64_t pid)
{
	struct mount_snapshot mount;
	struct why_report report = {0};
	struct proc_uses uses;
	char path[32];
	struct stat st;
	int i, r;

	for (i = 0; i < count; i++) {
		/* where one cannot be read, which it says, the others may */
		if (read_mount(request, list[i].path, &mount) != EXIT_OK)
			continue;
		uses = (struct proc_uses){0};
		r = proc_uses_find("/proc", device_of(list[i].path), 0, (pid_t)pid, &uses);
		if (r == 0)
			r = why_process(&mount, pid, &uses, &report);
		proc_uses_free(&uses);
		mount_snapshot_deinit(&mount);
		if (r < 0)
			return fail(request, r);
		if (report.reasons.count != 0)
			show(request, &report);
		else
			why_report_deinit(&report);
	}
	if (request->printed)
		return EXIT_OK;
	snprintf(path, sizeof(path), "/proc/%" PRIu64, pid);
	return cmd_fail(
		request->verb, EXIT_FAILED,
		"process %" PRIu64 ": %s; 'hugefuse maps MOUNTPOINT' lists those who do", pid,
		stat(path, &st) == 0 ? "has no pages of a hugefuse mount"
				     : "there is none, and it holds nothing any more");
}

/* A process id, or 0: a path, then. */
static uint64_t parse_pid(const char *text)
{
	if (*text == '\0' || text[strspn(text, "0123456789")] != '\0' || strlen(text) > 9)
		return 0;
	return strtoull(text, NULL, 10);
}

static int explain(struct why_request *request, const char *operand)
{
	uint64_t pid = parse_pid(operand);
	struct mountpoint *list;
	int count, exit_code;

	count = mountpoint_list("/proc/self/mountinfo", &list);
	if (count < 0)
		return cmd_fail(request->verb, EXIT_FAILED, "/proc/self/mountinfo: %s",
				strerror(-count));
	exit_code = pid ? explain_process(request, list, count, pid)
			: explain_path(request, list, count, operand);
	mountpoint_list_free(list, count);
	return exit_code;
}

int cmd_why(const struct verb *verb, int argc, char **argv)
{
	static const struct option long_options[] = {
		{"json", no_argument, NULL, CMD_OPT_JSON},
		CMD_COMMON_OPTIONS,
	};
	struct why_request request = {.verb = verb};
	json_object *root = NULL;
	int c, exit_code;
	bool json = false;

	while ((c = cmd_getopt(verb, argc, argv, ":h", long_options, &exit_code)) != -1) {
		if (c == CMD_EXIT)
			return exit_code;
		json = true;
	}
	if (argc - optind != 1)
		return cmd_fail(verb, EXIT_USAGE, "one PATH or PID is to be given, not %d",
				argc - optind);
	if (json) {
		root = output_json_new();
		request.reports = json_object_new_array();
		json_object_object_add(root, "reports", request.reports);
	}
	exit_code = explain(&request, argv[optind]);
	if (root && request.printed)
		output_json_print(root);
	else
		json_object_put(root);
	return exit_code;
}
