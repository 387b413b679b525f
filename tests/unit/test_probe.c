/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Probe: what is read from the kernel, and what follows from it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "tools/probe_ways.h"

/* struct fuse_in_header is 40 bytes, and FUSE_INIT 26 (include/uapi/linux/fuse.h). */
#define HEADER_BYTES 40
#define OPCODE_INIT  26
#define FLAGS_AT     (HEADER_BYTES + 12)
#define FLAGS2_AT    (HEADER_BYTES + 16)
#define INIT_BYTES   (HEADER_BYTES + 64)

static void choice(const char *text, const char *expected)
{
	char word[16] = "before";

	probe_parse_choice(text, word, sizeof(word));
	assert_string_equal(word, expected);
}

static void choices(void **state)
{
	choice("always [madvise] never\n", "madvise");
	choice("[always] madvise never", "always");
	choice("always madvise never", "");
	choice("always [madvise never", "");
	choice("[]", "");
	choice("", "");
	choice("[a word that is much too long for it]", "");
}

static void make_init(char *request, uint32_t opcode, uint32_t flags, uint32_t flags2)
{
	memset(request, 0, INIT_BYTES);
	memcpy(request + 4, &opcode, sizeof(opcode));
	memcpy(request + FLAGS_AT, &flags, sizeof(flags));
	memcpy(request + FLAGS2_AT, &flags2, sizeof(flags2));
}

static void expect_init(const char *request, size_t len, enum probe_answer passthrough,
			enum probe_answer uring)
{
	struct probe probe = {.passthrough = PROBE_UNKNOWN, .fuse_uring = PROBE_UNKNOWN};

	probe_parse_init(&probe, request, len);
	assert_int_equal(probe.passthrough, passthrough);
	assert_int_equal(probe.fuse_uring, uring);
}

/* FUSE_PASSTHROUGH is bit 37, FUSE_OVER_IO_URING 41, FUSE_INIT_EXT 30. */
static void init_flags(void **state)
{
	char request[INIT_BYTES];

	make_init(request, OPCODE_INIT, 1U << 30, 1U << 5);
	expect_init(request, INIT_BYTES, PROBE_YES, PROBE_NO);
	make_init(request, OPCODE_INIT, 1U << 30, 1U << 9);
	expect_init(request, INIT_BYTES, PROBE_NO, PROBE_YES);
	/* without FUSE_INIT_EXT what is in flags2 means nothing */
	make_init(request, OPCODE_INIT, 0, ~0U);
	expect_init(request, INIT_BYTES, PROBE_NO, PROBE_NO);
	make_init(request, OPCODE_INIT, 1U << 30, 1U << 5);
	/* before Linux 5.17 it ended with flags */
	expect_init(request, FLAGS2_AT, PROBE_NO, PROBE_NO);
	expect_init(request, FLAGS_AT, PROBE_UNKNOWN, PROBE_UNKNOWN);
	make_init(request, OPCODE_INIT + 1, 1U << 30, 1U << 5);
	expect_init(request, INIT_BYTES, PROBE_UNKNOWN, PROBE_UNKNOWN);
}

static void expect_summary(struct probe_summary summary, const char *expected)
{
	char line[128];

	probe_format_summary(&summary, line, sizeof(line));
	assert_string_equal(line, expected);
}

static void summaries(void **state)
{
	expect_summary((struct probe_summary){2048, "hugetlb", 64UL << 20, false, true, true},
		       "2048 kB pages, hugetlb, 64 MiB set aside; "
		       "mapping: direct (userfaultfd), cached");
	expect_summary((struct probe_summary){2048, "thp", 2UL << 30, true, false, false},
		       "2048 kB pages, thp, 2 GiB set aside; mapping: passthrough");
	expect_summary((struct probe_summary){2048, "hugetlb", 2UL << 20, false, true, false,
					      true, true, "of source="},
		       "2048 kB pages, hugetlb (of source=), at most 2 MiB; mapping: direct "
		       "(faults by the kernel)");
	expect_summary((struct probe_summary){1048576, "hugetlb", 0, false, false, false},
		       "1048576 kB pages, hugetlb, 0 kB set aside; mapping: none");
}

static const struct probe able = {
	.root = true,
	.has_fuse = true,
	.passthrough = PROBE_YES,
	.fuse_uring = PROBE_YES,
	.huge_tmpfs = PROBE_YES,
	.uffd = PROBE_UFFD_FULL,
	.uffd_features = ~0UL,
	.uffd_device_mode = 0600,
	.nofile_hard = 1 << 20,
	.nr_sizes = 1,
	.sizes = {{.kb = 2048, .nr = 1}},
};

static void expect_ways(const struct probe *probe, enum way_state passthrough,
			enum way_state direct, enum way_state cached)
{
	struct way ways[PROBE_NR_WAYS];

	probe_ways(probe, ways);
	assert_int_equal(ways[0].state, passthrough);
	assert_int_equal(ways[1].state, direct);
	assert_int_equal(ways[2].state, cached);
	for (int i = 0; i < PROBE_NR_WAYS; i++)
		assert_int_not_equal(ways[i].why[0], '\0');
}

static void ways_follow(void **state)
{
	struct probe probe = able;

	expect_ways(&probe, WAY_AVAILABLE, WAY_AVAILABLE, WAY_AVAILABLE);
	probe.passthrough = PROBE_NO;
	expect_ways(&probe, WAY_UNAVAILABLE, WAY_AVAILABLE, WAY_AVAILABLE);
	probe.passthrough = PROBE_UNKNOWN;
	expect_ways(&probe, WAY_UNKNOWN, WAY_AVAILABLE, WAY_AVAILABLE);
	probe.passthrough = PROBE_YES;
	probe.huge_tmpfs = PROBE_NO;
	probe.uffd = PROBE_UFFD_USER_MODE;
	expect_ways(&probe, WAY_LIMITED, WAY_LIMITED, WAY_AVAILABLE);
	probe.has_fuse = false;
	expect_ways(&probe, WAY_UNAVAILABLE, WAY_UNAVAILABLE, WAY_UNAVAILABLE);
}

static bool has_remedy(const struct probe *probe, const char *command)
{
	struct remedy remedies[PROBE_MAX_REMEDIES];
	int nr = probe_remedies(probe, remedies);

	for (int i = 0; i < nr; i++) {
		if (strcmp(remedies[i].command, command) == 0)
			return true;
	}
	return false;
}

static void remedies_follow(void **state)
{
	struct remedy remedies[PROBE_MAX_REMEDIES];
	struct probe probe = able;

	assert_int_equal(probe_remedies(&probe, remedies), 0);
	probe.uffd = PROBE_UFFD_NONE;
	assert_true(has_remedy(&probe, "sysctl vm.unprivileged_userfaultfd=1"));
	probe.has_fuse = false;
	assert_true(has_remedy(&probe, "modprobe fuse"));
	probe.sizes[0].nr = 0;
	assert_true(has_remedy(&probe, "sysctl vm.nr_hugepages=512"));
	probe.fuse_error = EACCES;
	assert_true(has_remedy(&probe, "chmod 0666 /dev/fuse"));
	assert_false(has_remedy(&probe, "modprobe fuse"));
	probe.max_map_count = 1000;
	assert_true(has_remedy(&probe, "sysctl vm.max_map_count=262144"));
	probe.memlock_soft = 8 << 20;
	probe.memlock_hard = RLIM_INFINITY;
	assert_false(has_remedy(&probe, "ulimit -l unlimited"));
	probe.root = false;
	assert_true(has_remedy(&probe, "ulimit -l unlimited"));
	/* what cannot be changed is not told to be */
	probe.memlock_hard = 8 << 20;
	assert_false(has_remedy(&probe, "ulimit -l unlimited"));
	probe.fuse_uring = PROBE_NO;
	probe.fuse_uring_parameter = -1;
	assert_false(has_remedy(&probe, "echo Y > /sys/module/fuse/parameters/enable_uring"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(choices),         cmocka_unit_test(init_flags),
		cmocka_unit_test(summaries),       cmocka_unit_test(ways_follow),
		cmocka_unit_test(remedies_follow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
