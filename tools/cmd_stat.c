/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hugefuse stat: pools, tenants, what is stranded, faults and options of the mounts given, or
 * of all that there are.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cmd.h"
#include "tools/mount_snapshot.h"
#include "tools/mountpoint.h"
#include "tools/output.h"
#include "tools/stat_output.h"

#define OPT_PROMETHEUS 0x200

enum stat_format {
	FORMAT_TEXT,
	FORMAT_JSON,
	FORMAT_PROMETHEUS,
};

/* What was read, in the order of the operands; text is printed at once. */
struct stat_request {
	const struct verb *verb;
	enum stat_format format;
	json_object *mounts;
	struct mount_snapshot *snapshots; /* FORMAT_PROMETHEUS */
	size_t nr_snapshots;
	bool printed;
};

static json_object *json_failed_mount(const char *mountpoint, const char *error)
{
	json_object *object = json_object_new_object();

	json_object_object_add(object, "mountpoint", output_json_string(mountpoint));
	json_object_object_add(object, "error", output_json_string(error));
	return object;
}

/* Takes over @mount. */
static int keep_snapshot(struct stat_request *request, struct mount_snapshot *mount)
{
	struct mount_snapshot *bigger;

	bigger = reallocarray(request->snapshots, request->nr_snapshots + 1, sizeof(*bigger));
	if (!bigger)
		return -ENOMEM;
	request->snapshots = bigger;
	bigger[request->nr_snapshots++] = *mount;
	*mount = (struct mount_snapshot){0};
	return 0;
}

static int show_mount(struct stat_request *request, struct mount_snapshot *mount)
{
	switch (request->format) {
	case FORMAT_JSON:
		return json_object_array_add(request->mounts, stat_json(mount)) < 0 ? -ENOMEM
										    : 0;
	case FORMAT_PROMETHEUS:
		return keep_snapshot(request, mount);
	default:
		if (request->printed)
			putchar('\n');
		request->printed = true;
		return stat_print_text(mount);
	}
}

static int stat_one(struct stat_request *request, const char *mountpoint)
{
	unsigned int parts = PART_FAULTS | PART_RESERVED | PART_TENANTS | PART_SPLITS;
	struct mount_snapshot mount = {0};
	struct snapshot_error error;
	int r;

	if (request->format == FORMAT_PROMETHEUS)
		parts |= PART_LOCKS;
	r = mount_snapshot_read(mountpoint, parts, &mount, &error);
	if (r == 0 && !(mount.parts & PART_RESERVED)) {
		/* a daemon without that table: look through all files */
		mount_snapshot_deinit(&mount);
		r = mount_snapshot_read(mountpoint, parts | PART_FILES | PART_MAPS, &mount,
					&error);
	}
	if (r < 0 && request->format == FORMAT_JSON)
		json_object_array_add(request->mounts,
				      json_failed_mount(mountpoint, error.text));
	if (r == 0) {
		r = show_mount(request, &mount);
		if (r < 0)
			snapshot_fail(&error, r, "out of memory");
	}
	if (r < 0)
		cmd_fail_at(request->verb, mountpoint, error.text);
	mount_snapshot_deinit(&mount);
	return r < 0 ? EXIT_FAILED : EXIT_OK;
}

static int stat_all(struct stat_request *request)
{
	struct mountpoint *list;
	int i, count, exit_code = EXIT_OK;

	count = mountpoint_list("/proc/self/mountinfo", &list);
	if (count < 0)
		return cmd_fail(request->verb, EXIT_FAILED, "/proc/self/mountinfo: %s",
				strerror(-count));
	for (i = 0; i < count; i++) {
		if (stat_one(request, list[i].path) != EXIT_OK)
			exit_code = EXIT_FAILED;
	}
	mountpoint_list_free(list, count);
	if (count == 0 && request->format == FORMAT_TEXT)
		printf("no hugefuse filesystem is mounted; 'hugefuse mount MOUNTPOINT' mounts one\n");
	return exit_code;
}

static int stat_mounts(struct stat_request *request, char **mountpoints, int count)
{
	json_object *root = NULL;
	int i, exit_code = EXIT_OK;

	if (request->format == FORMAT_JSON) {
		root = output_json_new();
		request->mounts = json_object_new_array();
		json_object_object_add(root, "mounts", request->mounts);
	}
	if (count == 0)
		exit_code = stat_all(request);
	for (i = 0; i < count; i++) {
		if (stat_one(request, mountpoints[i]) != EXIT_OK)
			exit_code = EXIT_FAILED;
	}
	if (root)
		output_json_print(root);
	if (request->format == FORMAT_PROMETHEUS)
		stat_print_prometheus(request->snapshots, request->nr_snapshots, stdout);
	for (size_t j = 0; j < request->nr_snapshots; j++)
		mount_snapshot_deinit(&request->snapshots[j]);
	free(request->snapshots);
	return exit_code;
}

int cmd_stat(const struct verb *verb, int argc, char **argv)
{
	static const struct option long_options[] = {
		{"json", no_argument, NULL, CMD_OPT_JSON},
		{"prometheus", no_argument, NULL, OPT_PROMETHEUS},
		CMD_COMMON_OPTIONS,
	};
	struct stat_request request = {.verb = verb};
	bool json = false, prometheus = false;
	int c, exit_code = EXIT_OK;

	while ((c = cmd_getopt(verb, argc, argv, ":h", long_options, &exit_code)) != -1) {
		if (c == CMD_EXIT)
			return exit_code;
		json |= c == CMD_OPT_JSON;
		prometheus |= c == OPT_PROMETHEUS;
	}
	if (json && prometheus)
		return cmd_fail(verb, EXIT_USAGE, "one of --json and --prometheus, not both");
	request.format = json ? FORMAT_JSON : (prometheus ? FORMAT_PROMETHEUS : FORMAT_TEXT);
	return stat_mounts(&request, argv + optind, argc - optind);
}
