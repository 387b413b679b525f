/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The library's regions against a table with an entry for each page: what is mapped there, and
 * which page of its file that is. Random mappings replace others as MAP_FIXED does, and random
 * ranges are cut out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "region.h"

#define PAGE     UINT64_C(4096)
#define BASE     UINT64_C(0x100000000)
#define NR_PAGES 2048
#define ROUNDS   20000

struct entry {
	uint64_t mapping; /* 0: nothing */
	uint64_t offset;
};

static struct entry model[NR_PAGES];

static char *address_of(size_t page)
{
	return (char *)(BASE + page * PAGE);
}

/* Each part is told with what was there, once. */
static void note_cut(const struct region *part, void *data)
{
	size_t first = ((uintptr_t)part->addr - BASE) / PAGE;
	size_t *nr_cut = data;

	for (size_t i = 0; i < part->length / PAGE; i++) {
		assert_int_equal(model[first + i].mapping, part->mapping);
		assert_int_equal(model[first + i].offset, part->offset + i * PAGE);
		model[first + i].mapping = 0;
		++*nr_cut;
	}
}

static size_t nr_mapped(size_t from, size_t nr)
{
	size_t mapped = 0;

	for (size_t i = from; i < from + nr; i++)
		mapped += model[i].mapping != 0;
	return mapped;
}

static void cut(size_t from, size_t nr)
{
	size_t expected = nr_mapped(from, nr), nr_cut = 0;

	assert_int_equal(region_prepare_cut(), 0);
	region_cut(address_of(from), nr * PAGE, note_cut, &nr_cut);
	assert_int_equal(nr_cut, expected);
	assert_int_equal(nr_mapped(from, nr), 0);
}

static void add(size_t from, size_t nr, uint64_t mapping)
{
	struct region region = {
		.addr = address_of(from),
		.length = nr * PAGE,
		.page_size = PAGE,
		.offset = mapping * PAGE,
		.mapping = mapping,
	};

	assert_int_equal(region_add(&region), 0);
	for (size_t i = 0; i < nr; i++)
		model[from + i] = (struct entry){mapping, region.offset + i * PAGE};
}

static void check_page(size_t page)
{
	const struct region *region = region_find(address_of(page));

	if (!model[page].mapping) {
		assert_null(region);
		return;
	}
	assert_non_null(region);
	assert_int_equal(region->mapping, model[page].mapping);
	assert_int_equal(region->offset + (uintptr_t)(address_of(page) - region->addr),
			 model[page].offset);
	assert_true(region_may_overlap(address_of(page), 1));
}

/* From each one's end on the next: all of them, in order. */
static void check_order(void)
{
	const struct region *region;
	size_t mapped = 0;

	for (char *end = NULL; (region = region_behind(end));
	     end = region->addr + region->length) {
		assert_true(region->addr >= end);
		mapped += region->length / PAGE;
	}
	assert_int_equal(mapped, nr_mapped(0, NR_PAGES));
}

static void check_first_in(size_t from, size_t nr)
{
	const struct region *region = region_first_in(address_of(from), nr * PAGE);
	size_t first = from;

	while (first < from + nr && !model[first].mapping)
		first++;
	if (first == from + nr) {
		assert_null(region);
		return;
	}
	assert_non_null(region);
	assert_true(region->addr <= address_of(first));
	assert_true(address_of(first) < region->addr + region->length);
}

static void test_random(void **state)
{
	unsigned int seed = 1;

	for (uint64_t round = 1; round <= ROUNDS; round++) {
		/* Mostly small, so that there are many; now and then a large range goes. */
		size_t max = rand_r(&seed) % 100 ? 8 : NR_PAGES;
		size_t from = rand_r(&seed) % NR_PAGES;
		size_t nr = 1 + rand_r(&seed) % max;

		if (nr > NR_PAGES - from)
			nr = NR_PAGES - from;
		cut(from, nr);
		if (nr <= 8 && rand_r(&seed) % 3)
			add(from, nr, round);
		check_page(rand_r(&seed) % NR_PAGES);
		check_first_in(from, nr);
		if (round % 100 == 0)
			check_order();
	}
	cut(0, NR_PAGES);
	assert_null(region_behind(NULL));
}

/* More than the first table has room for, made from the middle outwards. */
static void test_many(void **state)
{
	const size_t nr = NR_PAGES / 2;

	for (size_t i = 0; i < nr; i++)
		add(2 * (i % 2 ? (nr - 1 - i) / 2 : (nr + i) / 2), 1, i + 1);
	check_order();
	for (size_t page = 0; page < NR_PAGES; page++)
		check_page(page);
	cut(0, NR_PAGES);
	assert_null(region_behind(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
