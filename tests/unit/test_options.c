/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Mount options: what is accepted and refused, that a refusal changes nothing and says why in
 * one line, and that what is printed reads back to the same.
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
#include <unistd.h>

#include "fs/options.h"

#define K(n) ((uint64_t)(n) << 10)
#define M(n) ((uint64_t)(n) << 20)
#define G(n) ((uint64_t)(n) << 30)
#define T(n) ((uint64_t)(n) << 40)

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

static char error[2048];

static void assert_same_size(const struct option_size *a, const struct option_size *b)
{
	assert_int_equal(a->is_percent, b->is_percent);
	assert_int_equal(a->percent, b->percent);
	assert_true(a->bytes == b->bytes);
}

/* All that a caller may look at. */
static void assert_same_options(const struct mount_options *a, const struct mount_options *b)
{
	assert_true(a->pagesize == b->pagesize);
	assert_same_size(&a->size, &b->size);
	assert_same_size(&a->min_size, &b->min_size);
	assert_same_size(&a->max_size, &b->max_size);
	assert_true(a->nr_inodes == b->nr_inodes);
	assert_int_equal(a->uid, b->uid);
	assert_int_equal(a->gid, b->gid);
	assert_int_equal(a->mode, b->mode);
	assert_int_equal(a->fault_mutexes, b->fault_mutexes);
	assert_int_equal(a->region_lock_global, b->region_lock_global);
	assert_int_equal(a->fault_threads, b->fault_threads);
	assert_true(a->ahead_bytes == b->ahead_bytes);
	assert_int_equal(a->on_exhausted, b->on_exhausted);
	assert_true(a->wait_seconds == b->wait_seconds);
	assert_int_equal(a->lockstat, b->lockstat);
	assert_int_equal(a->ro, b->ro);
	assert_int_equal(a->nosuid, b->nosuid);
	assert_int_equal(a->nodev, b->nodev);
	assert_int_equal(a->noexec, b->noexec);
	assert_int_equal(a->noatime, b->noatime);
	assert_int_equal(a->allow_other, b->allow_other);
	assert_int_equal(a->fsname == NULL, b->fsname == NULL);
	if (a->fsname)
		assert_string_equal(a->fsname, b->fsname);
}

static void parse_good(struct mount_options *options, const char *list)
{
	int r = options_parse(options, list, error, sizeof(error));

	if (r != 0)
		fail_msg("'%s' was refused: %s", list, error);
}

/* Refused, with one line, and nothing changed. */
static void parse_bad(struct mount_options *options, const char *list)
{
	struct mount_options before = *options;

	memset(error, 0, sizeof(error));
	if (options_parse(options, list, error, sizeof(error)) != -EINVAL)
		fail_msg("'%.100s' was accepted", list);
	assert_memory_equal(&before, options, sizeof(before));
	assert_int_not_equal(error[0], '\0');
	assert_null(strchr(error, '\n'));
}

static void test_sizes(void **state)
{
	static const struct {
		const char *value;
		uint64_t bytes;
	} good[] = {
		{"0", 0},
		{"1", 1},
		{"2097152", M(2)},
		{"2048k", M(2)},
		{"2048K", M(2)},
		{"2M", M(2)},
		{"2m", M(2)},
		{"3g", G(3)},
		{"1T", T(1)},
		{"1p", T(1024)},
		{"1E", T(1048576)},
		{"7E", T(7 * 1048576)},
		{"0x10M", M(16)},
		{"0XfK", K(15)},
		{"010K", K(8)},
		{"0x7fffffffffffffff", INT64_MAX},
		{"9223372036854775807", INT64_MAX},
		{"0xeE", UINT64_MAX}, /* 0xee: hexadecimal takes the E */
	};
	static const char *const names[] = {"size", "min_size", "max_size"};
	struct mount_options options;
	const struct option_size *const sizes[] = {&options.size, &options.min_size,
						   &options.max_size};
	char list[128];
	size_t i, n;

	for (n = 0; n < ARRAY_SIZE(names); n++) {
		for (i = 0; i < ARRAY_SIZE(good); i++) {
			uint64_t bytes = good[i].bytes == UINT64_MAX ? 0xee : good[i].bytes;

			options_init(&options);
			snprintf(list, sizeof(list), "%s=%s", names[n], good[i].value);
			parse_good(&options, list);
			assert_true(sizes[n]->bytes == bytes);
			assert_false(sizes[n]->is_percent);
			options_deinit(&options);
		}
	}
}

static void test_percent(void **state)
{
	struct mount_options options;

	options_init(&options);
	parse_good(&options, "size=100%,min_size=0x10%");
	assert_true(options.size.is_percent);
	assert_int_equal(options.size.percent, 100);
	assert_true(options.min_size.is_percent);
	assert_int_equal(options.min_size.percent, 16);
	options_deinit(&options);
}

static void test_numbers(void **state)
{
	static const struct {
		const char *given;
		uint32_t rounded;
	} mutexes[] = {{"1", 1},       {"2", 2},
		       {"3", 4},       {"0x11", 32},
		       {"64", 64},     {"010", 8},
		       {"1000", 1024}, {"524289", 1048576},
		       {"1025", 2048}, {"1048576", 1048576}};
	struct mount_options options;
	char list[64];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(mutexes); i++) {
		options_init(&options);
		snprintf(list, sizeof(list), "fault_mutexes=%s", mutexes[i].given);
		parse_good(&options, list);
		assert_int_equal(options.fault_mutexes, mutexes[i].rounded);
		options_deinit(&options);
	}
	options_init(&options);
	parse_good(&options, "uid=0,gid=4294967294,mode=1777,nr_inodes=2k,fault_threads=256");
	assert_int_equal(options.uid, 0);
	assert_true(options.gid == 4294967294u);
	assert_int_equal(options.mode, 01777);
	assert_int_equal(options.nr_inodes, 2048);
	assert_int_equal(options.fault_threads, 256);
	options_deinit(&options);
}

static void test_words(void **state)
{
	struct mount_options options;

	options_init(&options);
	parse_good(&options,
		   "pagesize=1G,region_lock=global,ahead=on,on_exhausted=wait,nolockstat");
	assert_true(options.pagesize == G(1));
	assert_true(options.region_lock_global);
	assert_true(options.ahead_bytes == M(32));
	assert_int_equal(options.on_exhausted, ON_EXHAUSTED_WAIT);
	assert_true(options.wait_seconds == UINT64_MAX);
	assert_false(options.lockstat);
	options_deinit(&options);

	options_init(&options);
	parse_good(&options, "pagesize=2048K,region_lock=inode,ahead=64M,on_exhausted=wait=30");
	assert_true(options.pagesize == M(2));
	assert_false(options.region_lock_global);
	assert_true(options.ahead_bytes == M(64));
	assert_true(options.wait_seconds == 30);
	options_deinit(&options);

	options_init(&options);
	parse_good(&options, "ahead=off,on_exhausted=sigbus,lockstat");
	assert_true(options.ahead_bytes == 0);
	assert_int_equal(options.on_exhausted, ON_EXHAUSTED_SIGBUS);
	assert_true(options.lockstat);
	options_deinit(&options);
}

static void test_generic(void **state)
{
	struct mount_options options;

	options_init(&options);
	parse_good(&options, "defaults,_netdev,nofail,noauto,x-systemd.automount,"
			     "x-systemd.requires=a,x-systemd.requires=b,comment=c,user=joe");
	parse_good(&options, "ro,nosuid,nodev,noexec,noatime,allow_other,fsname=pool,"
			     "source=/dev/shm");
	assert_true(options.ro && options.nosuid && options.nodev && options.noexec);
	assert_true(options.noatime && options.allow_other);
	assert_string_equal(options.fsname, "pool");
	assert_string_equal(options.source, "/dev/shm");
	assert_true(options_is_given(&options, "source"));
	assert_true(options_is_given(&options, "nosuid"));
	assert_false(options_is_given(&options, "suid"));
	assert_false(options_is_given(&options, "pagesize"));
	/* as mount(8) has it: the last one counts */
	parse_good(&options, "rw,exec,relatime");
	assert_false(options.ro || options.noexec || options.noatime);
	options_deinit(&options);

	options_init(&options);
	parse_good(&options, "");
	parse_good(&options, ",,ro,,");
	parse_good(&options, "fsname=a\\,b\\\\c=d\\n");
	assert_string_equal(options.fsname, "a,b\\c=d\\n");
	options_deinit(&options);
}

static void test_refused(void **state)
{
	/* clang-format off */
	static const char *const bad[] = {
		"size", "size=", "size=M", "size=-1", "size=+1", "size= 1", "size=1 ",
		"size=1Q", "size=1GB", "size=1G1", "size=1MM", "size=08", "size=0x",
		"size=0b1", "size=1.5G", "size=8E", "size=16E", "size=18446744073709551616",
		"size=18446744073709551615", "size=9223372036854775808",
		"size=0xffffffffffffffffffff", "size=101%", "size=%", "size=1%%", "size=1%1",
		"size=-1%", "size=18446744073709551617%", "size=\x80", "min_size",
		"min_size=x", "min_size=101%", "min_size=99E", "pagesize", "pagesize=",
		"pagesize=4K", "pagesize=0", "pagesize=3M", "pagesize=2", "pagesize=2Mx",
		"pagesize=50%", "pagesize=16G", "pagesize=9999E", "nr_inodes", "nr_inodes=",
		"nr_inodes=-1", "nr_inodes=1%", "nr_inodes=99E", "uid", "uid=", "uid=root",
		"uid=-1", "uid=4294967295", "uid=4294967296", "uid=1K", "gid", "gid=root",
		"gid=4294967295", "gid=99999999999999999999", "mode", "mode=", "mode=8",
		"mode=2000", "mode=2777", "mode=0x1ff", "mode=-1", "mode=rwx",
		"fault_mutexes", "fault_mutexes=0", "fault_mutexes=1048577",
		"fault_mutexes=-1", "fault_mutexes=1K", "fault_mutexes=x",
		"fault_mutexes=99999999999999999999", "region_lock", "region_lock=",
		"region_lock=none", "region_lock=Inode", "fault_threads", "fault_threads=0",
		"fault_threads=257", "fault_threads=two", "ahead", "ahead=", "ahead=yes",
		"ahead=10%", "ahead=-1", "ahead=ON", "ahead=16E", "on_exhausted",
		"on_exhausted=", "on_exhausted=kill", "on_exhausted=wait=",
		"on_exhausted=wait=0", "on_exhausted=wait=-1",
		"on_exhausted=wait=4294967296", "on_exhausted=waits", "on_exhausted=wait=1s",
		"on_exhausted=sigbus=1", "lockstat=1", "nolockstat=", "ro=1", "rw=",
		"allow_other=yes", "fsname", "fsname=", "source=", "Size=1G", "SIZE=1G",
		"sizes=1G", "si", "remount", "=", "=1", "x", "x=", " ro", "ro ", "ro;rw",
		"sync", "backing=tmpfs", "\n", "a\nb=c",
	};
	/* clang-format on */
	struct mount_options options;
	char list[256];
	size_t i;

	options_init(&options);
	parse_good(&options, "fsname=before,noatime");
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		parse_bad(&options, bad[i]);
		/* nor does what came before it in the same list stay */
		snprintf(list, sizeof(list), "nosuid,%s,nodev", bad[i]);
		parse_bad(&options, list);
	}
	assert_string_equal(options.fsname, "before");
	options_deinit(&options);
}

static void test_error_names_option_and_value(void **state)
{
	struct mount_options options;

	options_init(&options);
	parse_bad(&options, "ro,fault_threads=300");
	assert_non_null(strstr(error, "fault_threads=300"));
	assert_non_null(strstr(error, "1 to 256"));
	parse_bad(&options, "region_lock=some");
	assert_non_null(strstr(error, "region_lock=some"));
	assert_non_null(strstr(error, "inode or global"));
	parse_bad(&options, "sizzle=1G");
	assert_non_null(strstr(error, "sizzle"));
	assert_non_null(strstr(error, "min_size="));
	/* a buffer that is too small is filled as far as it goes */
	memset(error, 'x', sizeof(error));
	assert_int_equal(options_parse(&options, "sizzle=1G", error, 8), -EINVAL);
	assert_string_equal(error, "unknown");
	assert_int_equal(error[8], 'x');
	assert_int_equal(options_parse(&options, "sizzle=1G", NULL, 0), -EINVAL);
	options_deinit(&options);
}

static void test_repeated(void **state)
{
	static const char *const once[] = {"backing=thp",
					   "plain=deny",
					   "pagesize=2M",
					   "size=1G",
					   "min_size=50%",
					   "nr_inodes=1",
					   "uid=1",
					   "gid=1",
					   "mode=700",
					   "fault_mutexes=4",
					   "region_lock=inode",
					   "fault_threads=2",
					   "ahead=off",
					   "on_exhausted=wait=9",
					   "split_queue=tenant",
					   "split_marks=0:100",
					   "lockstat",
					   "nolockstat",
					   "fsname=a",
					   "source=/a",
					   "allow_other",
					   "ro",
					   "rw",
					   "nosuid",
					   "noexec"};
	struct mount_options options;
	char list[128];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(once); i++) {
		options_init(&options);
		snprintf(list, sizeof(list), "%s,%s", once[i], once[i]);
		parse_bad(&options, list);
		parse_good(&options, once[i]);
		parse_bad(&options, once[i]);
		options_deinit(&options);
	}
	options_init(&options);
	parse_bad(&options, "lockstat,nolockstat");
	/* one that was refused may still be given */
	parse_good(&options, "lockstat,fsname=a");
	options_deinit(&options);
}

static void check_round_trip(const struct mount_options *options)
{
	struct mount_options again;
	char first[1024], second[1024], short_buf[8];
	int length;

	length = options_print(options, first, sizeof(first));
	assert_int_equal(length, strlen(first));
	assert_int_equal(options_print(options, NULL, 0), length);
	assert_int_equal(options_print(options, short_buf, sizeof(short_buf)), length);
	assert_int_equal(strlen(short_buf), sizeof(short_buf) - 1);

	options_init(&again);
	parse_good(&again, first);
	assert_same_options(options, &again);
	options_print(&again, second, sizeof(second));
	assert_string_equal(first, second);
	options_deinit(&again);
}

static void test_print_round_trip(void **state)
{
	static const char *const lists[] = {
		"",
		"size=1G,min_size=512M",
		"size=50%,min_size=25%,pagesize=1G,backing=hugetlb",
		"size=12345,min_size=0,nr_inodes=100,uid=7,gid=8,mode=1700",
		"fault_mutexes=1,region_lock=global,fault_threads=3,ahead=on,nolockstat",
		"ahead=100,on_exhausted=wait,plain=cached",
		"split_queue=tenant-node,split_marks=0:7",
		"on_exhausted=wait=7,ro,nosuid,nodev,noexec,noatime,allow_other",
		"fsname=a\\,size=1G\\\\,lockstat",
		"source=/a\\,b\\\\c,nosuid",
		"fsname=\\\\\\,",
		"size=7E,min_size=9223372036854775807"};
	struct mount_options options;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(lists); i++) {
		options_init(&options);
		parse_good(&options, lists[i]);
		check_round_trip(&options);
		options_deinit(&options);
	}
}

static void test_long_lists(void **state)
{
	static char list[100 * 1024 + 1];
	const size_t length = sizeof(list) - 1;
	struct mount_options options;

	options_init(&options);
	memset(list, 'a', length);
	list[length] = '\0';
	parse_bad(&options, list);
	memcpy(list, "size=", 5);
	memset(list + 5, '9', length - 5);
	parse_bad(&options, list);
	memset(list + 5, '0', length - 5);
	parse_good(&options, list);
	memset(list, ',', length);
	parse_good(&options, list);
	memset(list, '\\', length);
	parse_bad(&options, list);
	memset(list, '=', length);
	parse_bad(&options, list);
	memset(list, 'n', length);
	memcpy(list, "fsname=", 7);
	parse_good(&options, list);
	assert_int_equal(strlen(options.fsname), length - 7);
	options_deinit(&options);
}

/* Pieces of real options put together at random, and a byte changed here and there. */
static size_t random_list(char *list, size_t size, unsigned int *seed)
{
	static const char *const pieces[] = {"size=",
					     "min_size=",
					     "pagesize=2M",
					     "ro",
					     ",",
					     ",",
					     "=",
					     "\\",
					     "%",
					     "1",
					     "99",
					     "0x",
					     "G",
					     "E",
					     "mode=",
					     "7",
					     "wait",
					     "on_exhausted=",
					     "ahead=",
					     "off",
					     "fsname=",
					     "uid=",
					     "fault_mutexes=",
					     "x-",
					     "lockstat",
					     "nosuid",
					     "\xff",
					     "\n",
					     "-"};
	size_t length = 0;
	int i, count = rand_r(seed) % 12;

	list[0] = '\0';
	for (i = 0; i < count; i++) {
		const char *piece = pieces[(size_t)rand_r(seed) % ARRAY_SIZE(pieces)];

		length += (size_t)snprintf(list + length, size - length, "%s", piece);
	}
	if (length && rand_r(seed) % 4 == 0)
		list[(size_t)rand_r(seed) % length] = (char)(1 + rand_r(seed) % 255);
	return length;
}

static void test_random_garbage(void **state)
{
	const char *given = getenv("TEST_SEED");
	unsigned int seed = given ? (unsigned int)strtoul(given, NULL, 0)
				  : (unsigned int)getpid();
	struct mount_options options;
	int i, nr_good = 0;

	print_message("TEST_SEED=%u\n", seed);
	for (i = 0; i < 50000; i++) {
		char list[512], *exact;

		random_list(list, sizeof(list), &seed);
		exact = strdup(list); /* of its own size, so that ASan sees a read beyond it */
		assert_non_null(exact);
		options_init(&options);
		if (options_parse(&options, exact, error, sizeof(error)) == 0) {
			check_round_trip(&options);
			nr_good++;
		} else {
			parse_bad(&options, exact);
		}
		options_deinit(&options);
		free(exact);
	}
	assert_in_range(nr_good, 1, i - 1);
}

static void check_bad(const char *list, const char *named)
{
	struct mount_options options;

	options_init(&options);
	parse_good(&options, list);
	memset(error, 0, sizeof(error));
	assert_int_equal(options_check(&options, error, sizeof(error)), -EINVAL);
	assert_non_null(strstr(error, named));
	assert_null(strchr(error, '\n'));
	options_deinit(&options);
}

static void check_good(const char *list)
{
	struct mount_options options;

	options_init(&options);
	parse_good(&options, list);
	if (options_check(&options, error, sizeof(error)) != 0)
		fail_msg("'%s' was refused: %s", list, error);
	options_deinit(&options);
}

static void test_check(void **state)
{
	if (access("/sys/kernel/mm/hugepages/hugepages-2048kB", F_OK) != 0) {
		check_bad("", "pagesize=2M");
		skip();
	}
	check_good("");
	check_good("size=1G,min_size=1G");
	check_good("size=10%,min_size=10%");
	check_good("min_size=0,size=2M");
	check_good("min_size=3M");
	check_bad("size=1G,min_size=1025M", "min_size");
	check_bad("size=10%,min_size=11%", "min_size");
	check_bad("size=0%,min_size=2M", "min_size");
	check_bad("size=0", "size=0");
	check_bad("size=2097151", "size=2097151");
	check_bad("min_size=1", "min_size=1");
	if (access("/sys/kernel/mm/hugepages/hugepages-1048576kB", F_OK) == 0)
		check_bad("pagesize=1G,size=512M", "size=");
	else
		check_bad("pagesize=1G", "2M");
}

static void test_defaults(void **state)
{
	struct mount_options options;

	options_init(&options);
	assert_true(options.pagesize == M(2));
	assert_true(options.size.bytes == OPTIONS_SIZE_UNSET);
	assert_true(options.min_size.bytes == OPTIONS_SIZE_UNSET);
	assert_int_equal(options.uid, geteuid());
	assert_int_equal(options.mode, 0755);
	assert_null(options.fsname);
	check_round_trip(&options);
	options_deinit(&options);
	options_deinit(&options);
	options_deinit(NULL);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_percent),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_generic),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_error_names_option_and_value),
		cmocka_unit_test(test_repeated),
		cmocka_unit_test(test_print_round_trip),
		cmocka_unit_test(test_long_lists),
		cmocka_unit_test(test_random_garbage),
		cmocka_unit_test(test_check)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
