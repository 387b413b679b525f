/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The model of hugefuse top, and what the other verbs compute: rates from two samples made
 * here, sorting, filters and keys; a screen as text; the sizes that resize takes; and the lines
 * of /proc/PID/maps.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "tools/proc_use.h"
#include "tools/resize.h"
#include "tools/top_view.h"
#include "tools/why.h"

#define MIB (UINT64_C(1) << 20)

/* A mount with 2 MiB pages: two files, a private mapping and two locks. */
static struct snapshot_pool pools[] = {
	{.page_size = 2 * MIB, .node = -1, .nr = 32, .free = 20, .resv = 12, .surplus = 0},
	{.page_size = 2 * MIB, .node = 0, .nr = 16, .free = 12},
	{.page_size = 2 * MIB, .node = 1, .nr = 16, .free = 8},
};
static struct snapshot_file files[] = {
	{.inode = 5,
	 .path = "/big",
	 .way = "none",
	 .instantiated_kb = 16384,
	 .links = 1,
	 .holders = "",
	 .changed_ms = SNAPSHOT_UNKNOWN,
	 .user_pid = SNAPSHOT_UNKNOWN},
	{.inode = 6,
	 .path = "/wide (deleted)",
	 .way = "direct",
	 .reserved_kb = 8192,
	 .instantiated_kb = 4096,
	 .links = 0,
	 .holders = "",
	 .changed_ms = 1000000,
	 .user_pid = SNAPSHOT_UNKNOWN},
};
static struct snapshot_mapping mappings[] = {
	{.mapping = 1,
	 .pid = 42,
	 .inode = 6,
	 .kind = "shared",
	 .comm = "qemu",
	 .path = "/wide",
	 .end = 12 * MIB,
	 .reserved = 4,
	 .instantiated = 2,
	 .reserved_kb = SNAPSHOT_UNKNOWN,
	 .instantiated_kb = SNAPSHOT_UNKNOWN,
	 .made_ms = SNAPSHOT_UNKNOWN,
	 .namespaces = "",
	 .state = ""},
	{.mapping = 2,
	 .pid = 43,
	 .inode = 5,
	 .kind = "private",
	 .comm = "reader",
	 .path = "/big",
	 .end = 4 * MIB,
	 .reserved = 1,
	 .instantiated = 1,
	 .reserved_kb = SNAPSHOT_UNKNOWN,
	 .instantiated_kb = SNAPSHOT_UNKNOWN,
	 .made_ms = SNAPSHOT_UNKNOWN,
	 .namespaces = "",
	 .state = ""},
};

struct scene {
	struct snapshot_value faults[4];
	struct snapshot_lock locks[2];
	struct top_mount mount;
	struct top_sample sample;
	char numbers[2][24];
};

/* A sample at @time, with so many faults and so much waited for the first lock. */
static void make_scene(struct scene *scene, double time, unsigned int missing,
		       unsigned int minor, double waited, unsigned int acquired)
{
	memset(scene, 0, sizeof(*scene));
	snprintf(scene->numbers[0], sizeof(scene->numbers[0]), "%u", missing);
	snprintf(scene->numbers[1], sizeof(scene->numbers[1]), "%u", minor);
	scene->faults[0] = (struct snapshot_value){"faults_missing", scene->numbers[0]};
	scene->faults[1] = (struct snapshot_value){"faults_minor", scene->numbers[1]};
	scene->faults[2] = (struct snapshot_value){"latency_ns_p50", "85000"};
	scene->faults[3] = (struct snapshot_value){"faults", "7"}; /* no kind */
	scene->locks[0] = (struct snapshot_lock){.name = "region_map",
						 .mode = 'W',
						 .wait_total = waited,
						 .acquisitions = acquired};
	scene->locks[1] = (struct snapshot_lock){
		.name = "pool", .wait_total = 50, .acquisitions = 10 * acquired};
	scene->mount = (struct top_mount){
		.mountpoint = (char *)"/mnt/a",
		.snapshot =
			{
				.mountpoint = (char *)"/mnt/a",
				.page_size = 2 * MIB,
				.time = time,
				.epoch_ms = 1000000 + 90000,
				.options = (char *)"rw,size=64M",
				.pools = pools,
				.nr_pools = 3,
				.parts = PART_ALL,
				.faults = {.count = 4, .values = scene->faults},
				.files = {.count = 2, .files = files},
				.maps = {.count = 2, .mappings = mappings},
				.locks = {.count = 2, .locks = scene->locks},
			},
	};
	scene->sample = (struct top_sample){.mounts = &scene->mount, .nr_mounts = 1};
}

static void test_rate(void **state)
{
	assert_true(top_rate(100, 150, 2) == 25);
	assert_true(top_rate(100, 100, 2) == 0);
	assert_true(top_rate(100, 30, 2) == 15); /* cleared in between */
	assert_true(top_rate(100, 150, 0) == TOP_UNKNOWN);
}

static void test_rates(void **state)
{
	struct top_settings settings = {0};
	struct scene before, now;
	struct top_model model;

	make_scene(&before, 10, 100, 10, 1000, 50);
	make_scene(&now, 12, 300, 30, 5000, 150);
	assert_int_equal(top_model_build(&before.sample, &now.sample, &settings, &model), 0);
	assert_int_equal(model.nr_pools, 3);
	assert_int_equal(model.pools[0].total, 64 * MIB);
	assert_int_equal(model.pools[0].used, 24 * MIB);
	assert_int_equal(model.pools[0].free, 40 * MIB);
	assert_int_equal(model.pools[0].reserved, 24 * MIB);
	assert_true(model.pools[0].faults_per_s == 110);
	assert_int_equal(model.pools[0].p50, 85000);
	assert_true(model.pools[0].p99 == SNAPSHOT_UNKNOWN);
	assert_int_equal(model.pools[1].used + model.pools[2].used, model.pools[0].used);
	assert_string_equal(model.locks[0].name, "region_map");
	assert_string_equal(model.locks[0].mode, "write");
	assert_true(model.locks[0].waited_us_per_s == 2000);
	assert_true(model.locks[0].acquisitions_per_s == 50);
	assert_true(model.locks[1].waited_us_per_s == 0);
	assert_true(model.locks[1].acquisitions_per_s == 500);
	top_model_deinit(&model);

	assert_int_equal(top_model_build(NULL, &now.sample, &settings, &model), 0);
	assert_true(model.pools[0].faults_per_s == TOP_UNKNOWN);
	assert_true(model.locks[0].waited_us_per_s == TOP_UNKNOWN);
	top_model_deinit(&model);

	/* another mount of that name does not count */
	before.mount.mountpoint = (char *)"/mnt/b";
	assert_int_equal(top_model_build(&before.sample, &now.sample, &settings, &model), 0);
	assert_true(model.pools[0].faults_per_s == TOP_UNKNOWN);
	top_model_deinit(&model);
}

static void expect_order(struct top_settings settings, const char *first, const char *last,
			 size_t nr)
{
	struct top_model model;
	struct scene now;

	make_scene(&now, 1, 0, 0, 0, 0);
	assert_int_equal(top_model_build(NULL, &now.sample, &settings, &model), 0);
	assert_int_equal(model.nr_holders, nr);
	assert_int_equal(model.nr_holders + model.nr_hidden, 4);
	if (nr > 0) {
		assert_string_equal(model.holders[0].name, first);
		assert_string_equal(model.holders[nr - 1].name, last);
	}
	top_model_deinit(&model);
}

/* The mount's own share is 24 MiB reserved less 8 of a file's and 2 of a private mapping's. */
static void test_holders(void **state)
{
	static const char private[] = "reader (43), private copy of /big";
	static const char aside[] = "set aside for the mount";
	struct top_settings settings = {0};
	struct top_model model;
	struct scene now;

	expect_order(settings, "/big", private, 4);
	settings.reverse = true;
	expect_order(settings, private, "/big", 4);
	settings.reverse = false;
	settings.sort = TOP_SORT_RESERVED;
	expect_order(settings, aside, "/big", 4);
	settings.sort = TOP_SORT_NAME;
	expect_order(settings, "/big", aside, 4);
	strcpy(settings.filter, "BIG");
	expect_order(settings, "/big", private, 2);
	strcpy(settings.filter, "qemu"); /* who maps it */
	expect_order(settings, "/wide (deleted)", "/wide (deleted)", 1);
	strcpy(settings.filter, "nothing");
	expect_order(settings, "", "", 0);

	make_scene(&now, 1, 0, 0, 0, 0);
	settings = (struct top_settings){.sort = TOP_SORT_RESERVED};
	assert_int_equal(top_model_build(NULL, &now.sample, &settings, &model), 0);
	assert_int_equal(model.holders[0].reserved, 14 * MIB);
	assert_int_equal(model.holders[1].reserved, 8 * MIB);
	assert_int_equal(model.holders[1].seconds, 90);
	assert_string_equal(model.holders[1].mappers, "qemu (42)");
	assert_int_equal(model.holders[2].reserved, 2 * MIB);
	top_model_deinit(&model);
}

static void test_missing(void **state)
{
	struct top_settings settings = {0};
	struct top_model model;
	struct scene now;

	make_scene(&now, 1, 0, 0, 0, 0);
	now.mount.snapshot.parts = PART_FAULTS;
	assert_int_equal(top_model_build(NULL, &now.sample, &settings, &model), 0);
	assert_false(model.holders_known);
	assert_int_equal(model.nr_holders, 0);
	top_model_deinit(&model);

	now.mount.error = (char *)"its daemon has gone";
	now.mount.snapshot = (struct mount_snapshot){0};
	assert_int_equal(top_model_build(NULL, &now.sample, &settings, &model), 0);
	assert_int_equal(model.nr_pools, 1);
	assert_non_null(model.pools[0].error);
	top_model_deinit(&model);
}

/* ---- the view ---- */

static char *draw(const struct top_state *screen, int rows, int columns)
{
	struct scene before, now;
	struct top_model model;
	char *text = NULL;
	size_t length;
	FILE *file = open_memstream(&text, &length);
	struct top_canvas canvas = {.file = file, .rows = rows, .columns = columns};

	assert_non_null(file);
	make_scene(&before, 10, 100, 0, 0, 0);
	make_scene(&now, 12, 300, 0, 0, 0);
	assert_int_equal(
		top_model_build(&before.sample, &now.sample, &screen->settings, &model), 0);
	assert_int_equal(top_view_draw(&model, screen, &canvas), 0);
	top_model_deinit(&model);
	fclose(file);
	return text;
}

/* Every line fits, and so does their number. */
static void expect_fit(const struct top_state *screen, int rows, int columns)
{
	char *text = draw(screen, rows, columns), *line, *save = NULL;
	int nr = 0;

	for (size_t i = 0; text[i] != '\0'; i++)
		nr += text[i] == '\n';
	assert_true(nr <= rows);
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		assert_true(strlen(line) <= (size_t)columns);
	free(text);
}

static void test_view(void **state)
{
	struct top_state screen = {.clock = "12:34:56", .delay = 2};
	char *text = draw(&screen, 24, 80);

	assert_non_null(strstr(text, "hugefuse top  12:34:56  every 2 s  1 mount  by total"));
	assert_non_null(strstr(text, "  POOL\n"));
	assert_non_null(strstr(text, "\n64 MiB  24 MiB  40 MiB    24 MiB       100  85 us"));
	assert_non_null(strstr(text, "   node1\n"));
	assert_non_null(strstr(text, "\nregion_map  write"));
	assert_non_null(strstr(text, "qemu (42)  /wide (deleted)\n"));
	free(text);
	for (int columns = 1; columns < 200; columns += 3) {
		for (int rows = 1; rows < 30; rows++)
			expect_fit(&screen, rows, columns);
	}
	screen.scroll = 3;
	text = draw(&screen, 0, 0);
	assert_null(strstr(text, "qemu"));
	assert_non_null(strstr(text, "private copy"));
	free(text);
	screen.help = true;
	text = draw(&screen, 24, 80);
	assert_non_null(strstr(text, "q            quit"));
	free(text);
}

static enum top_action type(struct top_state *screen, const char *keys)
{
	enum top_action action = TOP_NOTHING;

	for (; *keys != '\0'; keys++)
		action = top_state_key(screen, (unsigned char)*keys);
	return action;
}

static void test_keys(void **state)
{
	struct top_state screen = {0};

	assert_int_equal(type(&screen, "s"), TOP_BUILD);
	assert_int_equal(screen.settings.sort, TOP_SORT_RESIDENT);
	type(&screen, "sss");
	assert_int_equal(screen.settings.sort, TOP_SORT_TOTAL);
	assert_int_equal(type(&screen, "r"), TOP_BUILD);
	assert_true(screen.settings.reverse);
	assert_int_equal(type(&screen, "n"), TOP_BUILD);
	assert_int_equal(screen.settings.sort, TOP_SORT_NAME);
	assert_int_equal(type(&screen, "/quit"), TOP_NOTHING);
	assert_true(screen.editing);
	assert_string_equal(screen.settings.filter, "");
	assert_int_equal(type(&screen, "\x7f\x7f\n"), TOP_BUILD);
	assert_string_equal(screen.settings.filter, "qu");
	type(&screen, "/xyz\x1b");
	assert_false(screen.editing);
	assert_string_equal(screen.settings.filter, "qu");
	type(&screen, "/\x15\r");
	assert_string_equal(screen.settings.filter, "");
	type(&screen, "/");
	for (int i = 0; i < 200; i++)
		type(&screen, "x");
	type(&screen, "\n");
	assert_int_equal(strlen(screen.settings.filter), TOP_FILTER_SIZE - 1);
	top_state_key(&screen, KEY_UP);
	assert_int_equal(screen.scroll, 0);
	top_state_key(&screen, KEY_DOWN);
	top_state_key(&screen, KEY_NPAGE);
	assert_int_equal(screen.scroll, 11);
	top_state_key(&screen, KEY_PPAGE);
	assert_int_equal(screen.scroll, 1);
	type(&screen, "h");
	assert_true(screen.help);
	type(&screen, "?");
	assert_false(screen.help);
	assert_int_equal(type(&screen, " "), TOP_SAMPLE);
	assert_int_equal(type(&screen, "\f"), TOP_REDRAW);
	assert_int_equal(type(&screen, "q"), TOP_QUIT);
}

/* ---- resize, why ---- */

static void expect_size(const char *text, uint64_t wanted)
{
	uint64_t bytes = 0;

	assert_int_equal(resize_parse(text, 64 * MIB, &bytes), 0);
	assert_int_equal(bytes, wanted);
}

static void test_sizes(void **state)
{
	static const char *const bad[] = {"",     "+",   "-",   "x",        "1x",
					  "%",    "5%%", "+-5", "++5",      "-5%x",
					  "1.5G", " 5",  "5 ",  "99999999%"};
	uint64_t bytes = 7;

	expect_size("0", 0);
	expect_size("128M", 128 * MIB);
	expect_size("+2M", 66 * MIB);
	expect_size("-2m", 62 * MIB);
	expect_size("-64M", 0);
	expect_size("50%", 32 * MIB);
	expect_size("+50%", 96 * MIB);
	expect_size("-25%", 48 * MIB);
	expect_size("0x200000", 2 * MIB);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(resize_parse(bad[i], 64 * MIB, &bytes), -EINVAL);
	assert_int_equal(resize_parse("-65M", 64 * MIB, &bytes), -ERANGE);
	assert_int_equal(resize_parse("-101%", 64 * MIB, &bytes), -ERANGE);
	assert_int_equal(resize_parse("+9223372036854775807", 64 * MIB, &bytes), -ERANGE);
	assert_int_equal(bytes, 7);
}

static void test_proc_maps(void **state)
{
	static const char line[] =
		"7f8bdbe00000-7f8bdc300000 rw-s 00000000 00:27 4     /m/a b\n";
	static const char private[] = "7f0000000000-7f0000200000 r--p 00200000 00:27 9 /m/x\n";
	static const char *const others[] = {"",
					     "\n",
					     "7f00-7f10 rw-p 0 00:00 0 [heap]\n",
					     "7f00-7f10 rw-s 0 00:28 4 /x\n",
					     "7f10-7f00 rw-s 0 00:27 4 /x\n",
					     "x-y rw-s 0 00:27 4 /x\n",
					     "7f00-7f10 rw-s 0 00:27\n"};
	uint64_t inode, length;
	bool shared;

	assert_true(proc_use_parse_maps_line(line, makedev(0, 0x27), &inode, &length, &shared));
	assert_int_equal(inode, 4);
	assert_int_equal(length, 5 * MIB);
	assert_true(shared);
	assert_true(
		proc_use_parse_maps_line(private, makedev(0, 0x27), &inode, &length, &shared));
	assert_int_equal(inode, 9);
	assert_false(shared);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_false(proc_use_parse_maps_line(others[i], makedev(0, 0x27), &inode,
						      &length, &shared));
}

static bool has_line(const struct why_lines *lines, const char *text)
{
	for (size_t i = 0; i < lines->count; i++) {
		if (strstr(lines->lines[i], text))
			return true;
	}
	return false;
}

static void test_why(void **state)
{
	struct proc_use use = {.pid = 44, .open = true, .inode = 5, .comm = "tail\x1b[31m"};
	struct proc_uses none = {0}, some = {.list = &use, .count = 1};
	struct why_report report;
	struct scene now;
	const struct mount_snapshot *mount = &now.mount.snapshot;

	make_scene(&now, 1, 0, 0, 0, 0);
	assert_int_equal(why_file(mount, &files[1], &none, &report), 0);
	assert_string_equal(report.subject, "/mnt/a/wide (deleted)");
	assert_int_equal(report.resident, 4 * MIB);
	assert_true(has_line(&report.reasons,
			     "8 MiB are reserved but were never touched, for 1 min"));
	assert_true(has_line(&report.reasons, "it has no name any more"));
	assert_true(has_line(&report.reasons, "qemu (42)"));
	assert_true(has_line(&report.remedies,
			     "the last of these unmaps and closes it, or ends: "
			     "qemu (42)"));
	why_report_deinit(&report);

	assert_int_equal(why_file(mount, &files[0], &some, &report), 0);
	assert_true(has_line(&report.reasons, "it has a name"));
	assert_true(has_line(&report.reasons, "tail\\033[31m (44) of "));
	assert_true(has_line(&report.reasons, "reader (43)"));
	assert_true(has_line(&report.remedies, "rm '/mnt/a/big'"));
	why_report_deinit(&report);

	assert_int_equal(why_directory(mount, "", &report), 0);
	assert_int_equal(report.resident, 22 * MIB);
	assert_int_equal(report.reserved, 24 * MIB);
	assert_true(has_line(&report.reasons, "14 MiB are set aside for the mount"));
	why_report_deinit(&report);
	assert_int_equal(why_directory(mount, "/none", &report), 0);
	assert_true(has_line(&report.reasons, "nothing in it"));
	why_report_deinit(&report);

	assert_int_equal(why_process(mount, 43, &none, &report), 0);
	assert_true(has_line(&report.reasons, "all its own"));
	why_report_deinit(&report);
	assert_int_equal(why_process(mount, 99, &none, &report), 0);
	assert_int_equal(report.reasons.count, 0);
	why_report_deinit(&report);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rate),    cmocka_unit_test(test_rates),
		cmocka_unit_test(test_holders), cmocka_unit_test(test_missing),
		cmocka_unit_test(test_view),    cmocka_unit_test(test_keys),
		cmocka_unit_test(test_sizes),   cmocka_unit_test(test_proc_maps),
		cmocka_unit_test(test_why),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
