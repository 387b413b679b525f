/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hugefuse lockstat: the lock_stat of a mount, by time waited, and its reset.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/cmd.h"
#include "tools/output.h"
#include "tools/snapshot.h"

#define OPT_RESET 0x200

static int print_table(const struct snapshot_locks *locks)
{
	static const struct table_column columns[] = {
		{.title = "LOCK", .left = true},
		{.title = "MODE", .left = true},
		{.title = "CONTENDED"},
		{.title = "ACQUIRED"},
		{.title = "WAITED"},
		{.title = "MAX"},
		{.title = "AVG", .optional = true},
		{.title = "HELD", .optional = true},
		{.title = "MAX", .optional = true},
		{.title = "AVG", .optional = true},
	};
	struct table table;
	size_t i;
	int r;

	table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
	for (i = 0; i < locks->count; i++) {
		const struct snapshot_lock *lock = &locks->locks[i];

		table_add(&table, lock->name);
		table_add(&table, snapshot_lock_mode(lock));
		table_add(&table, quantity_count(lock->contentions).text);
		table_add(&table, quantity_count(lock->acquisitions).text);
		table_add(&table, quantity_microseconds(lock->wait_total).text);
		table_add(&table, quantity_microseconds(lock->wait_max).text);
		table_add(&table, quantity_microseconds(lock->wait_avg).text);
		table_add(&table, quantity_microseconds(lock->hold_total).text);
		table_add(&table, quantity_microseconds(lock->hold_max).text);
		table_add(&table, quantity_microseconds(lock->hold_avg).text);
	}
	r = table_print(&table, output_width());
	table_deinit(&table);
	return r;
}

/* Two decimals, as in the file. */
static json_object *json_microseconds(double value)
{
	char text[64];

	snprintf(text, sizeof(text), "%.2f", value);
	return json_object_new_double_s(value, text);
}

static json_object *json_times(double min, double max, double total, double avg)
{
	json_object *object = json_object_new_object();

	json_object_object_add(object, "min", json_microseconds(min));
	json_object_object_add(object, "max", json_microseconds(max));
	json_object_object_add(object, "total", json_microseconds(total));
	json_object_object_add(object, "avg", json_microseconds(avg));
	return object;
}

static json_object *json_lock(const struct snapshot_lock *lock)
{
	json_object *object = json_object_new_object();

	json_object_object_add(object, "class", output_json_string(lock->name));
	json_object_object_add(object, "mode",
			       json_object_new_string(snapshot_lock_mode(lock)));
	json_object_object_add(object, "con_bounces",
			       json_object_new_uint64(lock->con_bounces));
	json_object_object_add(object, "contentions",
			       json_object_new_uint64(lock->contentions));
	json_object_object_add(object, "acq_bounces",
			       json_object_new_uint64(lock->acq_bounces));
	json_object_object_add(object, "acquisitions",
			       json_object_new_uint64(lock->acquisitions));
	json_object_object_add(
		object, "waittime_us",
		json_times(lock->wait_min, lock->wait_max, lock->wait_total, lock->wait_avg));
	json_object_object_add(
		object, "holdtime_us",
		json_times(lock->hold_min, lock->hold_max, lock->hold_total, lock->hold_avg));
	return object;
}

static void print_json(const char *mountpoint, const struct snapshot_locks *locks)
{
	json_object *root = output_json_new(), *array = json_object_new_array();
	size_t i;

	for (i = 0; i < locks->count; i++)
		json_object_array_add(array, json_lock(&locks->locks[i]));
	json_object_object_add(root, "mountpoint", output_json_string(mountpoint));
	json_object_object_add(root, "locks", array);
	output_json_print(root);
}

static int show_locks(int dir_fd, const char *mountpoint, bool json,
		      struct snapshot_error *error)
{
	struct snapshot_locks locks;
	int r;

	r = snapshot_read_locks(dir_fd, &locks, error);
	if (r == -ENOENT)
		return snapshot_fail(
			error, r, "%s: it keeps no lock statistics; mount it with -o lockstat",
			mountpoint);
	if (r < 0)
		return r;
	if (locks.count > 1)
		qsort(locks.locks, locks.count, sizeof(*locks.locks), snapshot_compare_locks);
	if (json)
		print_json(mountpoint, &locks);
	else if (print_table(&locks) < 0)
		r = snapshot_fail(error, -ENOMEM, "out of memory");
	snapshot_locks_free(&locks);
	return r;
}

int cmd_lockstat(const struct verb *verb, int argc, char **argv)
{
	static const struct option long_options[] = {
		{"json", no_argument, NULL, CMD_OPT_JSON},
		{"reset", no_argument, NULL, OPT_RESET},
		CMD_COMMON_OPTIONS,
	};
	bool json = false, reset = false;
	struct snapshot_error error;
	int c, exit_code, dir_fd, r;

	while ((c = cmd_getopt(verb, argc, argv, ":h", long_options, &exit_code)) != -1) {
		if (c == CMD_EXIT)
			return exit_code;
		json |= c == CMD_OPT_JSON;
		reset |= c == OPT_RESET;
	}
	if (argc - optind != 1)
		return cmd_fail(verb, EXIT_USAGE, "one MOUNTPOINT is to be given, not %d",
				argc - optind);
	dir_fd = snapshot_open(argv[optind], &error);
	if (dir_fd < 0)
		return cmd_fail_at(verb, argv[optind], error.text);
	r = reset ? snapshot_reset_locks(dir_fd, &error)
		  : show_locks(dir_fd, argv[optind], json, &error);
	close(dir_fd);
	return r < 0 ? cmd_fail_at(verb, argv[optind], error.text) : EXIT_OK;
}
