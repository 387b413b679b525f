/* SPDX-License-Identifier: GPL-2.0-or-later */
/* NUMA rules: text and back, what is refused, and the node of a page. */
#include "fs/numa_rule.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fs/node_share.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

static struct numa_rule parse(const char *text)
{
	struct numa_rule rule;

	if (numa_rule_parse(text, &rule) != 0)
		fail_msg("'%s' is not understood", text);
	return rule;
}

static void test_round_trip(void **state)
{
	static const char *const texts[] = {
		"local",
		"preferred:0",
		"preferred:63",
		"bind:0",
		"bind:0-3",
		"bind:0,2-3,63",
		"interleave",
		"interleave:1,3",
		"local,fallback=small",
		"bind:0,2,fallback=wait",
		"interleave,fallback=fail",
		"preferred:1,fallback=remote",
	};
	char text[NUMA_RULE_TEXT_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct numa_rule rule = parse(texts[i]);

		assert_int_equal(numa_rule_print(&rule, text, sizeof(text)), strlen(texts[i]));
		assert_string_equal(text, texts[i]);
		assert_int_equal(numa_rule_print(&rule, text, 4), strlen(texts[i]));
	}
}

static void test_longest_list(void **state)
{
	struct numa_rule rule = {NUMA_BIND, NUMA_REMOTE, UINT64_C(0x5555555555555555)};
	char text[NUMA_RULE_TEXT_MAX];
	struct numa_rule again;

	assert_true(numa_rule_print(&rule, text, sizeof(text)) < (int)sizeof(text));
	again = parse(text);
	assert_memory_equal(&again, &rule, sizeof(rule));
}

static void test_refused(void **state)
{
	static const struct {
		const char *text;
		int error;
	} bad[] = {
		{"", -EINVAL},
		{"near", -EINVAL},
		{"local:0", -EINVAL},
		{"preferred", -EINVAL},
		{"preferred:", -EINVAL},
		{"preferred:0-1", -EINVAL},
		{"preferred:0,1", -EINVAL},
		{"bind", -EINVAL},
		{"bind:", -EINVAL},
		{"bind:a", -EINVAL},
		{"bind:0-", -EINVAL},
		{"bind:3-1", -EINVAL},
		{"bind:0,", -EINVAL},
		{"bind:-1", -EINVAL},
		{"bind:64", -ERANGE},
		{"bind:99999999999999999999", -ERANGE},
		{"interleave:", -EINVAL},
		{"local,fallback=", -EINVAL},
		{"local,fallback=near", -EINVAL},
		{"local,fallback=fail,fallback=fail", -EINVAL},
		{"fallback=fail", -EINVAL},
		{"local ", -EINVAL},
	};
	const struct numa_rule untouched = {NUMA_INTERLEAVE, NUMA_WAIT, 5};
	struct numa_rule rule = untouched;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		if (numa_rule_parse(bad[i].text, &rule) != bad[i].error)
			fail_msg("'%s'", bad[i].text);
		assert_memory_equal(&rule, &untouched, sizeof(rule));
	}
}

static void test_inside(void **state)
{
	const struct numa_rule outer = {NUMA_BIND, NUMA_FAIL, 6};
	struct numa_rule none = {NUMA_NONE, NUMA_FALLBACK_NONE, 0}, own = parse("local"), r;

	r = numa_rule_inside(&none, &outer);
	assert_memory_equal(&r, &outer, sizeof(r));
	r = numa_rule_inside(&own, &outer);
	assert_int_equal(r.kind, NUMA_LOCAL);
	assert_int_equal(r.fallback, NUMA_FAIL);
	assert_int_equal(r.nodes, 0);
}

static void test_reserved_on(void **state)
{
	static const struct {
		const char *text;
		uint64_t nodes;
	} cases[] = {
		{"local", 0},
		{"local,fallback=fail", 0},
		{"preferred:2", 0},
		{"preferred:2,fallback=remote", 0},
		{"preferred:2,fallback=small", 0},
		{"preferred:2,fallback=fail", 4},
		{"preferred:2,fallback=wait", 4},
		{"bind:0,2", 5},
		{"bind:0,2,fallback=remote", 5},
		{"interleave:0,2,fallback=fail", 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct numa_rule rule = parse(cases[i].text);

		assert_int_equal(numa_rule_reserved_on(&rule), cases[i].nodes);
	}
}

/* On a machine whose nodes 0, 1 and 3 have memory. */
static void test_place(void **state)
{
	static const struct {
		const char *text;
		int local;
		int64_t idx;
		struct numa_place place;
	} cases[] = {
		{"local", 1, 7, {1, 0xb}},
		{"local", -1, 7, {-1, 0xb}},
		{"local,fallback=fail", 3, 7, {3, 0x8}},
		/* a thread on a node without memory is not to fail for that */
		{"local,fallback=fail", 2, 7, {2, 0xb}},
		{"preferred:3", 0, 7, {3, 0xb}},
		{"preferred:3,fallback=wait", 0, 7, {3, 0x8}},
		{"preferred:2,fallback=fail", 0, 7, {-1, 0}},
		{"bind:1,3", 3, 7, {3, 0xa}},
		{"bind:1,3", 0, 7, {-1, 0xa}},
		{"bind:2", 0, 7, {-1, 0}},
		{"bind:1,2,fallback=remote", 2, 7, {-1, 0x2}},
		{"interleave", 0, 0, {0, 0xb}},
		{"interleave", 0, 1, {1, 0xb}},
		{"interleave", 0, 2, {3, 0xb}},
		{"interleave", 0, 3, {0, 0xb}},
		{"interleave:1,3", 0, 4, {1, 0xb}},
		{"interleave:1,3,fallback=fail", 0, 5, {3, 0x8}},
		{"interleave:2", 0, 5, {-1, 0xb}},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct numa_rule rule = parse(cases[i].text);
		struct numa_place place =
			numa_rule_place(&rule, 0xb, cases[i].local, cases[i].idx);

		if (place.first != cases[i].place.first || place.nodes != cases[i].place.nodes)
			fail_msg("%s: node %d of %#lx", cases[i].text, place.first,
				 (unsigned long)place.nodes);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),  cmocka_unit_test(test_longest_list),
		cmocka_unit_test(test_refused),     cmocka_unit_test(test_inside),
		cmocka_unit_test(test_reserved_on), cmocka_unit_test(test_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
