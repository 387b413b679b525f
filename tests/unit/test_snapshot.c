/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The tools' readers of .hugefuse, against directories made here: what the formats allow is
 * read, what they do not is refused with a line that names the file, and nothing is read beyond
 * its end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/escape.h"
#include "tools/mountpoint.h"
#include "tools/output.h"
#include "tools/snapshot.h"

#define FILES_HEADING "inode size reserved_kb instantiated_kb mappings way links uid path\n"
#define MAPS_HEADING                                                                  \
	"mapping pid comm uid start end offset inode kind way reserved instantiated " \
	"path\n"

struct fixture {
	char root[64];
	int dir_fd; /* of root/.hugefuse */
};

static struct snapshot_error error;

static void write_file(const struct fixture *fixture, const char *name, const char *text)
{
	int fd = openat(fixture->dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void make_dir(const struct fixture *fixture, const char *name)
{
	assert_int_equal(mkdirat(fixture->dir_fd, name, 0700), 0);
}

static int setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	char path[96];

	assert_non_null(fixture);
	strcpy(fixture->root, "/tmp/test-snapshot-XXXXXX");
	assert_non_null(mkdtemp(fixture->root));
	snprintf(path, sizeof(path), "%s/.hugefuse", fixture->root);
	assert_int_equal(mkdir(path, 0700), 0);
	fixture->dir_fd = snapshot_open(fixture->root, &error);
	assert_true(fixture->dir_fd >= 0);
	*state = fixture;
	return 0;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;

	close(fixture->dir_fd);
	nftw(fixture->root, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
	free(fixture);
	return 0;
}

static void make_pool(const struct fixture *fixture, const char *dir, unsigned int nr,
		      unsigned int nr_free)
{
	char path[128], text[32];

	make_dir(fixture, dir);
	snprintf(path, sizeof(path), "%s/nr_hugepages", dir);
	snprintf(text, sizeof(text), "%u\n", nr);
	write_file(fixture, path, text);
	snprintf(path, sizeof(path), "%s/free_hugepages", dir);
	snprintf(text, sizeof(text), "%u\n", nr_free);
	write_file(fixture, path, text);
	snprintf(path, sizeof(path), "%s/surplus_hugepages", dir);
	write_file(fixture, path, "3\n");
}

static void test_open(void **state)
{
	struct fixture *fixture = *state;
	char path[96];

	snprintf(path, sizeof(path), "%s/.hugefuse", fixture->root);
	assert_int_equal(snapshot_open(path, &error), -ENOENT);
	assert_non_null(strstr(error.text, "not the root of a hugefuse mount"));
	snprintf(path, sizeof(path), "%s/nothing", fixture->root);
	assert_int_equal(snapshot_open(path, &error), -ENOENT);
	assert_non_null(strstr(error.text, path));
}

static void test_pools(void **state)
{
	struct fixture *fixture = *state;
	struct snapshot_pool *pools;

	assert_int_equal(snapshot_read_pools(fixture->dir_fd, &pools, &error), -ENOENT);
	make_pool(fixture, "hugepages-2048kB", 512, 100);
	assert_int_equal(snapshot_read_pools(fixture->dir_fd, &pools, &error), -ENOENT);
	assert_non_null(strstr(error.text, "resv_hugepages"));
	write_file(fixture, "hugepages-2048kB/resv_hugepages", "50\n");
	write_file(fixture, "hugepages-2048kB/nr_overcommit_hugepages", "0");
	make_dir(fixture, "hugepages-x");
	make_dir(fixture, "node");
	make_dir(fixture, "node/node10");
	make_dir(fixture, "node/node2");
	make_pool(fixture, "node/node10/hugepages-2048kB", 10, 1);
	make_pool(fixture, "node/node2/hugepages-2048kB", 20, 2);

	assert_int_equal(snapshot_read_pools(fixture->dir_fd, &pools, &error), 3);
	assert_int_equal(pools[0].node, -1);
	assert_int_equal(pools[0].page_size, 2 << 20);
	assert_int_equal(pools[0].nr, 512);
	assert_int_equal(pools[0].free, 100);
	assert_int_equal(pools[0].resv, 50);
	assert_int_equal(pools[0].surplus, 3);
	assert_int_equal(pools[1].node, 2);
	assert_int_equal(pools[1].nr, 20);
	assert_int_equal(pools[2].node, 10);
	free(pools);

	write_file(fixture, "hugepages-2048kB/resv_hugepages", "-50\n");
	assert_int_equal(snapshot_read_pools(fixture->dir_fd, &pools, &error), -EBADMSG);
	assert_non_null(strstr(error.text, "resv_hugepages: '-50'"));
}

/* The table that has them all of one instant is preferred. */
static void test_pool_table(void **state)
{
	struct fixture *fixture = *state;
	struct snapshot_pool *pools;

	make_pool(fixture, "hugepages-2048kB", 512, 100);
	write_file(fixture, "pool",
		   "node page_kb total_kb free_kb surplus_kb resv_kb overcommit_kb\n"
		   "1 2048 4096 2048 0 - -\nall 2048 8192 6144 2048 4096 1024\n"
		   "0 2048 4096 4096 2048 - -\n");
	assert_int_equal(snapshot_read_pools(fixture->dir_fd, &pools, &error), 3);
	assert_int_equal(pools[0].node, -1);
	assert_int_equal(pools[0].page_size, 2 << 20);
	assert_int_equal(pools[0].nr, 4);
	assert_int_equal(pools[0].free, 3);
	assert_int_equal(pools[0].surplus, 1);
	assert_int_equal(pools[0].resv, 2);
	assert_int_equal(pools[0].overcommit, 0);
	assert_int_equal(pools[1].node, 0);
	assert_int_equal(pools[2].node, 1);
	assert_int_equal(pools[2].resv, 0);
	free(pools);
	write_file(fixture, "pool", "node page_kb total_kb free_kb surplus_kb\n0 2048 0 0 0\n");
	assert_int_equal(snapshot_read_pools(fixture->dir_fd, &pools, &error), -EBADMSG);
	write_file(fixture, "pool", "node page_kb total_kb free_kb surplus_kb\nall 0 1 x 1\n");
	assert_int_equal(snapshot_read_pools(fixture->dir_fd, &pools, &error), -EBADMSG);
}

/* Columns that an older daemon does not have. */
static void test_optional_columns(void **state)
{
	struct fixture *fixture = *state;
	struct snapshot_rows rows;

	write_file(fixture, "files", FILES_HEADING "1 0 0 0 0 none 1 0 a\n");
	assert_int_equal(snapshot_read_files(fixture->dir_fd, &rows, &error), 0);
	assert_true(rows.files[0].changed_ms == SNAPSHOT_UNKNOWN);
	assert_string_equal(rows.files[0].holders, "");
	snapshot_rows_free(&rows);
	write_file(fixture, "files",
		   "inode size reserved_kb instantiated_kb mappings way links uid path "
		   "made_ms changed_ms holders user_pid\n"
		   "1 0 0 0 0 none 1 0 a 5 6 7,8 -\n");
	assert_int_equal(snapshot_read_files(fixture->dir_fd, &rows, &error), 0);
	assert_int_equal(rows.files[0].changed_ms, 6);
	assert_string_equal(rows.files[0].holders, "7,8");
	assert_true(rows.files[0].user_pid == SNAPSHOT_UNKNOWN);
	snapshot_rows_free(&rows);
	write_file(fixture, "tenants",
		   "size_kb min_size_kb used_kb reserved_kb files refused path\n"
		   "- 0 0 0 0 0 /\n4096 2048 1024 1024 3 1 /a\\040b\n");
	assert_int_equal(snapshot_read_tenants(fixture->dir_fd, &rows, &error), 0);
	assert_true(rows.tenants[0].size_kb == SNAPSHOT_UNKNOWN);
	assert_int_equal(rows.tenants[1].size_kb, 4096);
	assert_string_equal(rows.tenants[1].path, "/a b");
	snapshot_rows_free(&rows);
	write_file(fixture, "split",
		   "node queued could_free_kb deferred split emptied refilled settled cut "
		   "elsewhere freed_kb tenant\n"
		   "1 2 3 4 5 6 7 8 9 10 11 /a\\040b\n- 0 0 0 0 0 0 0 0 0 0 -\n");
	assert_int_equal(snapshot_read_splits(fixture->dir_fd, &rows, &error), 0);
	assert_int_equal(rows.count, 2);
	assert_int_equal(rows.splits[0].node, 1);
	assert_int_equal(rows.splits[0].could_free_kb, 3);
	assert_int_equal(rows.splits[0].elsewhere, 10);
	assert_int_equal(rows.splits[0].freed_kb, 11);
	assert_string_equal(rows.splits[0].tenant, "/a b");
	assert_true(rows.splits[1].node == SNAPSHOT_UNKNOWN);
	assert_string_equal(rows.splits[1].tenant, "-");
	snapshot_rows_free(&rows);
	write_file(fixture, "reserved",
		   "kind number reserved_kb instantiated_kb changed_ms holders path\n"
		   "file 6 8192 4096 17 24,25 /map\n");
	assert_int_equal(snapshot_read_reserved(fixture->dir_fd, &rows, &error), 0);
	assert_int_equal(rows.reserved[0].reserved_kb, 8192);
	assert_string_equal(rows.reserved[0].holders, "24,25");
	snapshot_rows_free(&rows);
}

static void test_files(void **state)
{
	struct fixture *fixture = *state;
	struct snapshot_rows rows;

	write_file(fixture, "files",
		   FILES_HEADING
		   "1 0 0 0 0 none 1 0 a\n"
		   "18446744073709551615 4096 1 2 3 direct 4 5 d/e\\040f\\134g\\012h\n"
		   "3 0 0 0 0 none 0 0 \n");
	assert_int_equal(snapshot_read_files(fixture->dir_fd, &rows, &error), 0);
	assert_int_equal(rows.count, 3);
	assert_string_equal(rows.files[0].path, "a");
	assert_string_equal(rows.files[0].way, "none");
	assert_true(rows.files[1].inode == UINT64_MAX);
	assert_int_equal(rows.files[1].size, 4096);
	assert_int_equal(rows.files[1].reserved_kb, 1);
	assert_int_equal(rows.files[1].instantiated_kb, 2);
	assert_int_equal(rows.files[1].mappings, 3);
	assert_int_equal(rows.files[1].links, 4);
	assert_int_equal(rows.files[1].uid, 5);
	assert_string_equal(rows.files[1].path, "d/e f\\g\nh");
	assert_string_equal(rows.files[2].path, "");
	snapshot_rows_free(&rows);

	/* columns in another order, and one that is not known here */
	write_file(fixture, "files",
		   "size inode reserved_kb age instantiated_kb mappings way links uid path\n"
		   "7 8 0 old 0 0 none 1 0 a");
	assert_int_equal(snapshot_read_files(fixture->dir_fd, &rows, &error), 0);
	assert_int_equal(rows.count, 1);
	assert_int_equal(rows.files[0].size, 7);
	assert_int_equal(rows.files[0].inode, 8);
	snapshot_rows_free(&rows);

	write_file(fixture, "files", FILES_HEADING);
	assert_int_equal(snapshot_read_files(fixture->dir_fd, &rows, &error), 0);
	assert_int_equal(rows.count, 0);
	snapshot_rows_free(&rows);
}

static void test_bad_files(void **state)
{
	static const char *const bad[] = {"",
					  "\n",
					  "inode size\n",
					  "1 0 0 0 0 none 1 0 a\n",
					  FILES_HEADING "1 0 0 0 0 none 1\n",
					  FILES_HEADING "1 0 0 0 0 none 1 0 a b\n",
					  FILES_HEADING "x 0 0 0 0 none 1 0 a\n",
					  FILES_HEADING "-1 0 0 0 0 none 1 0 a\n",
					  FILES_HEADING "1 0x1 0 0 0 none 1 0 a\n",
					  FILES_HEADING
					  "18446744073709551616 0 0 0 0 none 1 0 a\n",
					  FILES_HEADING "1 1a 0 0 0 none 1 0 a\n"};
	struct fixture *fixture = *state;
	struct snapshot_rows rows;
	size_t i;

	assert_int_equal(snapshot_read_files(fixture->dir_fd, &rows, &error), -ENOENT);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		write_file(fixture, "files", bad[i]);
		assert_int_equal(snapshot_read_files(fixture->dir_fd, &rows, &error), -EBADMSG);
		assert_non_null(strstr(error.text, ".hugefuse/files: line "));
		assert_null(strchr(error.text, '\n'));
	}
}

static void test_many_files(void **state)
{
	struct fixture *fixture = *state;
	struct snapshot_rows rows;
	const int count = 50000;
	FILE *file;
	int i;

	file = fdopen(openat(fixture->dir_fd, "files", O_WRONLY | O_CREAT, 0600), "w");
	assert_non_null(file);
	fputs(FILES_HEADING, file);
	for (i = 0; i < count; i++)
		fprintf(file, "%d %d 1 1 0 none 1 0 dir/file-%d\n", i, i * 2, i);
	fclose(file);
	assert_int_equal(snapshot_read_files(fixture->dir_fd, &rows, &error), 0);
	assert_int_equal(rows.count, count);
	assert_int_equal(rows.files[count - 1].size, (count - 1) * 2);
	assert_string_equal(rows.files[count - 1].path, "dir/file-49999");
	snapshot_rows_free(&rows);
}

static void test_maps(void **state)
{
	struct fixture *fixture = *state;
	struct snapshot_rows rows;

	write_file(fixture, "maps",
		   MAPS_HEADING "1 99 my\\040prog 1000 7f0000000000 7f0000400000 200000 5 "
				"shared,noreserve direct 0 2 a\\134b\n");
	assert_int_equal(snapshot_read_maps(fixture->dir_fd, &rows, &error), 0);
	assert_int_equal(rows.count, 1);
	assert_string_equal(rows.mappings[0].comm, "my prog");
	assert_true(rows.mappings[0].start == 0x7f0000000000);
	assert_true(rows.mappings[0].end == 0x7f0000400000);
	assert_int_equal(rows.mappings[0].offset, 2 << 20);
	assert_string_equal(rows.mappings[0].kind, "shared,noreserve");
	assert_string_equal(rows.mappings[0].path, "a\\b");
	snapshot_rows_free(&rows);
}

static void test_values(void **state)
{
	struct fixture *fixture = *state;
	struct snapshot_rows rows;

	write_file(fixture, "fault_stat", "faults 12\nlatency_p99_us 34.5\n\nlast 1");
	assert_int_equal(snapshot_read_values(fixture->dir_fd, "fault_stat", &rows, &error), 0);
	assert_int_equal(rows.count, 3);
	assert_string_equal(rows.values[1].name, "latency_p99_us");
	assert_string_equal(rows.values[1].value, "34.5");
	assert_string_equal(rows.values[2].value, "1");
	snapshot_rows_free(&rows);
	write_file(fixture, "fault_stat", "");
	assert_int_equal(snapshot_read_values(fixture->dir_fd, "fault_stat", &rows, &error), 0);
	assert_int_equal(rows.count, 0);
	snapshot_rows_free(&rows);
	write_file(fixture, "fault_stat", "faults 1 2\n");
	assert_int_equal(snapshot_read_values(fixture->dir_fd, "fault_stat", &rows, &error),
			 -EBADMSG);
}

static void test_locks(void **state)
{
	static const char text[] =
		"lock_stat version 0.4\n"
		"-----------------------\n"
		"        class name    con-bounces    contentions   waittime-min   waittime-max "
		"waittime-total   waittime-avg    acq-bounces   acquisitions   holdtime-min   "
		"holdtime-max holdtime-total   holdtime-avg\n"
		"-----------------------\n"
		"\n"
		"       region_map-W:            46             84           0.26         939.10   "
		"    16371.53         194.90          47291        2922365           0.16     "
		"2220301.69 17464026916.32        5975.99\n"
		"       region_map-R:  37 100 1.31 299502.61 325629.52 3256.30 212344 34316685 0.10 "
		"7744.91 95016910.20 2.77\n"
		"       ---------------\n"
		"         region_map              1          [<ffffffff811502a7>] fault+0x57/0x280\n"
		"\n"
		"        &(&x->lock): 0 0 0.00 0.00 0.00 0.00 0 1 0.50 0.50 0.50 0.50";
	struct fixture *fixture = *state;
	struct snapshot_locks locks;
	char buf[8];
	int fd;

	write_file(fixture, "lock_stat", text);
	assert_int_equal(snapshot_read_locks(fixture->dir_fd, &locks, &error), 0);
	assert_int_equal(locks.count, 3);
	assert_string_equal(locks.locks[0].name, "region_map");
	assert_int_equal(locks.locks[0].mode, 'W');
	assert_int_equal(locks.locks[0].con_bounces, 46);
	assert_int_equal(locks.locks[0].contentions, 84);
	assert_true(locks.locks[0].wait_total == 16371.53);
	assert_int_equal(locks.locks[0].acquisitions, 2922365);
	assert_true(locks.locks[0].hold_avg == 5975.99);
	assert_int_equal(locks.locks[1].mode, 'R');
	assert_string_equal(locks.locks[2].name, "&(&x->lock)");
	assert_int_equal(locks.locks[2].mode, 0);
	snapshot_locks_free(&locks);

	assert_int_equal(snapshot_reset_locks(fixture->dir_fd, &error), 0);
	fd = openat(fixture->dir_fd, "lock_stat", O_RDONLY);
	assert_int_equal(read(fd, buf, 1), 1);
	assert_int_equal(buf[0], '0');
	close(fd);

	write_file(fixture, "lock_stat", "lock_stat version 0.5\n");
	assert_int_equal(snapshot_read_locks(fixture->dir_fd, &locks, &error), -EBADMSG);
	write_file(fixture, "lock_stat", "");
	assert_int_equal(snapshot_read_locks(fixture->dir_fd, &locks, &error), -EBADMSG);
	write_file(fixture, "lock_stat",
		   "lock_stat version 0.4\na: 1\n: 1 2 3\nb: 1 1 1 1 1 1 1 1 "
		   "1 1 1 nan\n");
	assert_int_equal(snapshot_read_locks(fixture->dir_fd, &locks, &error), 0);
	assert_int_equal(locks.count, 0);
	snapshot_locks_free(&locks);
}

static void test_garbage(void **state)
{
	struct fixture *fixture = *state;
	unsigned int seed = (unsigned int)getpid();
	struct snapshot_locks locks;
	struct snapshot_rows rows;
	char text[400];
	size_t i;
	int round;

	print_message("seed %u\n", seed);
	for (round = 0; round < 3000; round++) {
		static const char alphabet[] = "0123 \n:\\-.aR\xff";
		size_t length = (size_t)rand_r(&seed) % 120, head;

		snprintf(text, sizeof(text), "%s",
			 round % 2 ? FILES_HEADING : "lock_stat version 0.4\n");
		head = strlen(text);
		for (i = 0; i < length; i++)
			text[head + i] =
				alphabet[(size_t)rand_r(&seed) % (sizeof(alphabet) - 1)];
		text[head + length] = '\0';
		write_file(fixture, "files", text);
		write_file(fixture, "lock_stat", text);
		if (snapshot_read_files(fixture->dir_fd, &rows, &error) == 0)
			snapshot_rows_free(&rows);
		if (snapshot_read_values(fixture->dir_fd, "files", &rows, &error) == 0)
			snapshot_rows_free(&rows);
		if (snapshot_read_locks(fixture->dir_fd, &locks, &error) == 0)
			snapshot_locks_free(&locks);
	}
}

static void test_mountinfo(void **state)
{
	static const char text[] =
		"22 1 254:0 / / rw - ext4 /dev/root rw\n"
		"30 22 0:40 / /mnt/a\\040b rw,nosuid shared:1 master:2 - fuse.hugefuse my\\040pool rw\n"
		"31 22 0:41 / /mnt/c rw - fuse.sshfs x rw\n"
		"broken\n"
		"32 22 0:42 / /mnt/d rw - fuse.hugefuse hugefuse rw,user_id=0,allow_other\n"
		"33 22 0:43 / /mnt/e rw - fuse.hugefuse hugefuse rw,user_id=4000000000\n";
	struct fixture *fixture = *state;
	struct mountpoint *list;
	char path[128];

	write_file(fixture, "mountinfo", text);
	snprintf(path, sizeof(path), "%s/.hugefuse/mountinfo", fixture->root);
	assert_int_equal(mountpoint_list(path, &list), 2);
	assert_string_equal(list[0].path, "/mnt/a b");
	assert_string_equal(list[0].source, "my pool");
	assert_string_equal(list[1].path, "/mnt/d");
	mountpoint_list_free(list, 2);
	assert_int_equal(mountpoint_list("/nowhere/mountinfo", &list), -ENOENT);
}

static void assert_escaped(const char *text, const char *expected)
{
	char *escaped = escape_for_terminal(text);

	assert_non_null(escaped);
	assert_string_equal(escaped, expected);
	free(escaped);
}

static void test_escapes(void **state)
{
	char text[] = "a\\040\\134\\011\\012b\\04x\\400\\000\\";

	unescape(text);
	assert_string_equal(text, "a \\\t\nb\\04x\\400\\000\\");
	assert_escaped("plain text", "plain text");
	assert_escaped("\x1b[31m\n\\", "\\033[31m\\012\\134");
	assert_escaped("gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f");
	assert_escaped("\xff\xc3\xc0\x80", "\\377\\303\\300\\200");
	assert_escaped("\xc2\x9b", "\\302\\233");
	assert_escaped("\xed\xa0\x80", "\\355\\240\\200");
	assert_escaped("\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80");
}

static void test_quantities(void **state)
{
	assert_string_equal(quantity_bytes(0).text, "0");
	assert_string_equal(quantity_bytes(1023).text, "1023 B");
	assert_string_equal(quantity_bytes(2 << 20).text, "2 MiB");
	assert_string_equal(quantity_bytes(3ull << 29).text, "1.5 GiB");
	assert_string_equal(quantity_bytes(UINT64_MAX).text, "16.0 EiB");
	assert_string_equal(quantity_microseconds(0).text, "0");
	assert_string_equal(quantity_microseconds(0.25).text, "250 ns");
	assert_string_equal(quantity_microseconds(12.34).text, "12.3 us");
	assert_string_equal(quantity_microseconds(1500).text, "1.5 ms");
	assert_string_equal(quantity_microseconds(76.9e6).text, "76.90 s");
	assert_string_equal(quantity_seconds(0.5).text, "500 ms");
	assert_string_equal(quantity_seconds(59).text, "59.00 s");
	assert_string_equal(quantity_seconds(125).text, "2 min");
	assert_string_equal(quantity_seconds(3 * 3600 + 7 * 60).text, "3:07 h");
	assert_string_equal(quantity_seconds(12 * 86400).text, "12 days");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_open, setup, teardown),
		cmocka_unit_test_setup_teardown(test_pools, setup, teardown),
		cmocka_unit_test_setup_teardown(test_pool_table, setup, teardown),
		cmocka_unit_test_setup_teardown(test_optional_columns, setup, teardown),
		cmocka_unit_test_setup_teardown(test_files, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bad_files, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_files, setup, teardown),
		cmocka_unit_test_setup_teardown(test_maps, setup, teardown),
		cmocka_unit_test_setup_teardown(test_values, setup, teardown),
		cmocka_unit_test_setup_teardown(test_locks, setup, teardown),
		cmocka_unit_test_setup_teardown(test_garbage, setup, teardown),
		cmocka_unit_test_setup_teardown(test_mountinfo, setup, teardown),
		cmocka_unit_test(test_escapes),
		cmocka_unit_test(test_quantities),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
