/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where a mapping's pages are after munmap and mremap of parts of it, without a client: a
 * mapping over an in-memory page space. TEST_SEED in the environment repeats a random run.
 */
#include "fs/mapping.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fs/mount.h"

#include "page_util.h"

#include "lock_threads.h"

/*
 * ThreadSanitizer does not see the order that liburcu's barriers and grace periods make, and
 * takes every pointer published by RCU for a race. AddressSanitizer sees what is freed early.
 */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
	return "race:liburcu\nrace:segments_free_rcu\nrace:mapping_index_at\n"
	       "race:mapping_address_of\n";
}

enum {
	FROM = 3, /* the mapping's first page */
	NR = 20,  /* pages */
};

#define PAGE    ((uint64_t)TEST_PAGE_SIZE)
#define ADDRESS (0x700000000000ULL) /* of the first page */

static const struct page_config config = {.nr_pages = {NR}, .max = NR};

struct fixture {
	struct page_test test;
	struct mount mount;
	struct mapping mapping;
};

static struct fixture *fixture_new(uint32_t flags)
{
	struct fixture *fixture = aligned_alloc(_Alignof(struct fixture), sizeof(*fixture));
	struct mapping *mapping;

	assert_non_null(fixture);
	memset(fixture, 0, sizeof(*fixture));
	page_test_init(&fixture->test, &config);
	fixture->mount.backing = &fixture->test.mem.backing;
	mapping = &fixture->mapping;
	mapping->mount = &fixture->mount;
	mapping->flags = flags;
	mapping->space = &fixture->test.space[1];
	mapping->from = FROM;
	mapping->to = FROM + NR;
	mutex_init(&mapping->lock, LOCK_RANK_MAPPING);
	assert_int_equal(mapping_set_address(mapping, ADDRESS, NR * PAGE), 0);
	return fixture;
}

static void fixture_free(struct fixture *fixture)
{
	rcu_barrier();
	free(fixture->mapping.segments);
	mutex_deinit(&fixture->mapping.lock);
	page_test_deinit(&fixture->test, &config);
	free(fixture);
}

/* Page @idx, and just it, is at @address; 0: it is nowhere. */
static void assert_at(struct mapping *mapping, int64_t idx, uint64_t address)
{
	assert_true(mapping_address_of(mapping, idx) == address);
	if (!address)
		return;
	assert_int_equal(mapping_index_at(mapping, address), idx);
	assert_int_equal(mapping_index_at(mapping, address + 1), idx);
	assert_int_equal(mapping_index_at(mapping, address + PAGE - 1), idx);
}

static void test_first_segment(void **state)
{
	struct fixture *fixture = fixture_new(0);
	struct mapping *mapping = &fixture->mapping;

	for (int i = 0; i < NR; i++)
		assert_at(mapping, FROM + i, ADDRESS + (uint64_t)i * PAGE);
	assert_at(mapping, FROM - 1, 0);
	assert_at(mapping, FROM + NR, 0);
	assert_at(mapping, -1, 0);
	assert_int_equal(mapping_index_at(mapping, 0), -1);
	assert_int_equal(mapping_index_at(mapping, ADDRESS - 1), -1);
	assert_int_equal(mapping_index_at(mapping, ADDRESS + NR * PAGE), -1);
	assert_int_equal(mapping_index_at(mapping, UINT64_MAX), -1);
	fixture_free(fixture);
}

static void test_no_segment_yet(void **state)
{
	struct fixture *fixture = fixture_new(0);
	struct mapping *mapping = &fixture->mapping;
	struct segments *segments = mapping->segments;
	struct segment *copy;

	mapping->segments = NULL;
	assert_int_equal(mapping_index_at(mapping, ADDRESS), -1);
	assert_at(mapping, FROM, 0);
	assert_int_equal(mapping_segments(mapping, &copy), 0);
	free(copy);
	mapping->segments = segments;
	fixture_free(fixture);
}

/* What is unmapped of 20 pages, and how many segments and pages are left. */
static const struct {
	uint64_t from, to; /* pages from ADDRESS - 100 pages on */
	int nr_segments, nr_pages;
} cuts[] = {
	{0, 100, 1, 20},   {120, 500, 1, 20}, {0, 101, 1, 19},  {119, 120, 1, 19},
	{119, 500, 1, 19}, {105, 106, 2, 19}, {101, 119, 2, 2}, {100, 120, 0, 0},
	{0, 500, 0, 0},    {100, 119, 1, 1},
};

static void test_unmap(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(cuts); i++) {
		struct fixture *fixture = fixture_new(0);
		struct mapping *mapping = &fixture->mapping;
		uint64_t base = ADDRESS - 100 * PAGE;
		struct segment *segments;
		int nr = 0;

		print_message("cut %zu\n", i);
		assert_int_equal(mapping_unmap(mapping, base + cuts[i].from * PAGE,
					       base + cuts[i].to * PAGE),
				 0);
		for (uint64_t page = 100; page < 120; page++) {
			bool gone = page >= cuts[i].from && page < cuts[i].to;

			assert_at(mapping, FROM + (int64_t)page - 100,
				  gone ? 0 : base + page * PAGE);
			assert_int_equal(mapping_index_at(mapping, base + page * PAGE) < 0,
					 gone);
			nr += !gone;
		}
		assert_int_equal(nr, cuts[i].nr_pages);
		assert_int_equal(mapping_segments(mapping, &segments), cuts[i].nr_segments);
		free(segments);
		assert_int_equal(mapping->dead, nr == 0);
		fixture_free(fixture);
	}
}

static void test_everything_is_unmapped(void **state)
{
	struct fixture *fixture = fixture_new(0);

	assert_int_equal(mapping_move(&fixture->mapping, ADDRESS + 3 * PAGE, PAGE, PAGE), 0);
	assert_false(fixture->mapping.dead);
	assert_int_equal(mapping_unmap(&fixture->mapping, 0, UINT64_MAX), 0);
	assert_true(fixture->mapping.dead);
	for (int64_t idx = 0; idx < FROM + NR; idx++)
		assert_at(&fixture->mapping, idx, 0);
	fixture_free(fixture);
}

static void test_move(void **state)
{
	struct fixture *fixture = fixture_new(0);
	struct mapping *mapping = &fixture->mapping;
	const uint64_t there = 0x100000000000ULL;
	struct segment *segments;

	/* Out of the middle, */
	assert_int_equal(mapping_move(mapping, ADDRESS + 5 * PAGE, there, 4 * PAGE), 0);
	assert_int_equal(mapping_segments(mapping, &segments), 3);
	free(segments);
	assert_at(mapping, FROM + 4, ADDRESS + 4 * PAGE);
	assert_at(mapping, FROM + 5, there);
	assert_at(mapping, FROM + 8, there + 3 * PAGE);
	assert_at(mapping, FROM + 9, ADDRESS + 9 * PAGE);
	assert_int_equal(mapping_index_at(mapping, ADDRESS + 5 * PAGE), -1);
	assert_int_equal(mapping_index_at(mapping, ADDRESS + 9 * PAGE - 1), -1);
	/* and a part of that back again, to another place of it; */
	assert_int_equal(mapping_move(mapping, there + PAGE, ADDRESS + 6 * PAGE, 2 * PAGE), 0);
	assert_at(mapping, FROM + 5, there);
	assert_at(mapping, FROM + 6, ADDRESS + 6 * PAGE);
	assert_at(mapping, FROM + 7, ADDRESS + 7 * PAGE);
	assert_at(mapping, FROM + 8, there + 3 * PAGE);
	/* what was never ours does not come, */
	assert_int_equal(mapping_move(mapping, PAGE, 100 * PAGE, 50 * PAGE), 0);
	assert_int_equal(mapping_index_at(mapping, 100 * PAGE), -1);
	/* and all together, with its holes. */
	assert_int_equal(mapping_unmap(mapping, ADDRESS + PAGE, ADDRESS + 2 * PAGE), 0);
	assert_int_equal(mapping_move(mapping, ADDRESS, 1000 * PAGE, NR * PAGE), 0);
	assert_at(mapping, FROM, 1000 * PAGE);
	assert_at(mapping, FROM + 1, 0);
	assert_int_equal(mapping_index_at(mapping, 1001 * PAGE), -1);
	assert_at(mapping, FROM + 2, 1002 * PAGE);
	assert_at(mapping, FROM + 5, there);
	assert_int_equal(mapping_index_at(mapping, 1005 * PAGE), -1);
	assert_at(mapping, FROM + NR - 1, (1000 + NR - 1) * PAGE);
	assert_false(mapping->dead);
	fixture_free(fixture);
}

/* The pages of a private mapping go with its memory, those of a shared one are the file's. */
static void test_unmap_forgets_private_pages(void **state)
{
	static const uint32_t flags[] = {0, HUGEFUSE_MAP_PRIVATE};

	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		struct fixture *fixture = fixture_new(flags[i]);
		struct mapping *mapping = &fixture->mapping;
		struct page_test *test = &fixture->test;

		assert_int_equal(page_reserve(mapping->space, FROM, FROM + NR, NULL), NR);
		for (int64_t idx = FROM; idx < FROM + 10; idx++)
			assert_int_equal(page_instantiate(mapping->space, idx, 0),
					 PAGE_FROM_RESERVATION);
		assert_int_equal(mapping_move(mapping, ADDRESS, PAGE, 2 * PAGE), 0);
		assert_space(test, 1, NR - 10, 10);
		if (flags[i])
			assert_int_equal(
				test->mem_ops->punch(test->file[1], FROM + 1, FROM + 4), 0);
		assert_int_equal(mapping_unmap(mapping, 2 * PAGE, ADDRESS + 4 * PAGE), 0);
		assert_space(test, 1, NR - 10, flags[i] ? 7 : 10);
		assert_int_equal(
			mapping_unmap(mapping, ADDRESS + 15 * PAGE, ADDRESS + 25 * PAGE), 0);
		assert_space(test, 1, flags[i] ? NR - 15 : NR - 10, flags[i] ? 7 : 10);
		assert_true(page_is_instantiated(mapping->space, FROM));
		assert_int_equal(page_is_instantiated(mapping->space, FROM + 1), !flags[i]);
		fixture_free(fixture);
	}
}

/* MADV_DONTNEED: the pages go, the memory stays, and its reservation if there was one. */
static void test_discard(void **state)
{
	static const struct {
		uint32_t flags;
		bool forked;
		int nr_reserved, nr_left; /* of four that are discarded */
	} cases[] = {
		{HUGEFUSE_MAP_PRIVATE, false, 4, 0},
		{HUGEFUSE_MAP_PRIVATE | HUGEFUSE_MAP_NORESERVE, false, 0, 0},
		{HUGEFUSE_MAP_PRIVATE, true, 0, 0},
		{0, false, 0, 4},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fixture *fixture = fixture_new(cases[i].flags);
		struct mapping *mapping = &fixture->mapping;
		struct page_test *test = &fixture->test;

		print_message("case %zu\n", i);
		mapping->forked = cases[i].forked;
		for (int64_t idx = FROM; idx < FROM + 6; idx++)
			assert_int_equal(page_instantiate(mapping->space, idx, 0),
					 PAGE_FROM_FREE);
		if (cases[i].flags & HUGEFUSE_MAP_PRIVATE)
			assert_int_equal(test->mem_ops->punch(test->file[1], FROM, FROM + 4),
					 0);
		mapping_discard(mapping, ADDRESS - 4 * PAGE, ADDRESS + 4 * PAGE);
		assert_space(test, 1, cases[i].nr_reserved, cases[i].nr_left + 2);
		assert_at(mapping, FROM, ADDRESS);
		fixture_free(fixture);
	}
}

/* Each userfaultfd has a fixed range of page indexes, wherever they are mapped. */
static void test_uffd_of(void **state)
{
	struct fixture *fixture = fixture_new(0);
	struct mapping *mapping = &fixture->mapping;

	assert_int_equal(mapping_uffd_of(mapping, FROM), -1);
	mapping->nr_uffds = 3;
	mapping->shard_pages = 7;
	for (int i = 0; i < 3; i++)
		mapping->uffd[i] = 100 + i;
	assert_int_equal(mapping_uffd_of(mapping, FROM - 1), -1);
	assert_int_equal(mapping_uffd_of(mapping, FROM + NR), -1);
	for (int i = 0; i < NR; i++)
		assert_int_equal(mapping_uffd_of(mapping, FROM + i), 100 + i / 7);
	fixture_free(fixture);
}

/* Where each page is, as told by whoever unmaps and moves. */
struct model {
	uint64_t address[NR];
	uint64_t next; /* memory that was never used */
};

static void model_check(struct mapping *mapping, const struct model *model)
{
	struct segment *segments;
	int64_t nr_pages = 0;
	int nr, nr_left = 0;

	for (int i = 0; i < NR; i++) {
		assert_at(mapping, FROM + i, model->address[i]);
		nr_left += model->address[i] != 0;
	}
	nr = mapping_segments(mapping, &segments);
	for (int i = 0; i < nr; i++) {
		assert_true(segments[i].start < segments[i].end);
		nr_pages += (int64_t)((segments[i].end - segments[i].start) / PAGE);
	}
	free(segments);
	assert_int_equal(nr_pages, nr_left);
	assert_int_equal(mapping->dead, nr_left == 0);
}

static void model_step(struct mapping *mapping, struct model *model, uint64_t *seed)
{
	/* Around a page, wherever that is now. */
	uint64_t start = model->address[random_below(seed, NR)], end;
	bool move = random_below(seed, 8) != 0;
	uint64_t to = model->next;

	if (!start)
		start = ADDRESS;
	start -= random_below(seed, 3) * PAGE;
	end = start + (1 + random_below(seed, move ? 8 : 2)) * PAGE;
	for (int i = 0; i < NR; i++) {
		if (model->address[i] < start || model->address[i] >= end)
			continue;
		model->address[i] = move ? model->address[i] - start + to : 0;
	}
	if (move) {
		assert_int_equal(mapping_move(mapping, start, to, end - start), 0);
		/* Now and then right behind, so that neighbours come to be. */
		model->next += end - start + random_below(seed, 2) * PAGE;
	} else {
		assert_int_equal(mapping_unmap(mapping, start, end), 0);
	}
}

/* One thread: ThreadSanitizer has nothing to see, and takes half a second a round. */
#ifdef __SANITIZE_THREAD__
#define RANDOM_ROUNDS 10
#else
#define RANDOM_ROUNDS 200
#endif

static void test_random_moves(void **state)
{
	uint64_t seed = start_seed();

	for (int round = 0; round < RANDOM_ROUNDS; round++) {
		struct fixture *fixture = fixture_new(0);
		struct model model = {.next = 0x10000000000ULL};

		for (int i = 0; i < NR; i++)
			model.address[i] = ADDRESS + (uint64_t)i * PAGE;
		for (int step = 0; step < 60; step++) {
			model_step(&fixture->mapping, &model, &seed);
			model_check(&fixture->mapping, &model);
		}
		fixture_free(fixture);
	}
}

struct readers {
	struct mapping *mapping;
	_Atomic bool done;
	_Atomic int64_t nr_wrong, nr_found;
};

/* Pages are moved by whole multiples of 2^40 only, so that an address tells its index. */
#define STRIDE (1ULL << 40)

static void read_run(void *context)
{
	struct readers *readers = context;
	uint64_t address;
	int64_t idx;

	while (!readers->done) {
		for (int i = 0; i < NR; i++) {
			address = mapping_address_of(readers->mapping, FROM + i);
			readers->nr_wrong += address &&
					     (address % STRIDE) / PAGE != (uint64_t)i;
			readers->nr_found += address != 0;
			idx = mapping_index_at(readers->mapping, STRIDE + (uint64_t)i * PAGE);
			readers->nr_wrong += idx >= 0 && idx != FROM + i;
		}
	}
}

/*
 *	fault thread			reader of events
 *	reads the segments
 *					replaces them, frees the old ones
 *	looks at freed memory
 */
static void test_lookups_beside_moves(void **state)
{
	struct fixture *fixture = fixture_new(0);
	struct mapping *mapping = &fixture->mapping;
	struct readers readers = {.mapping = mapping};
	struct test_thread threads[2];

	for (int i = 0; i < 2; i++)
		start_thread(&threads[i], read_run, &readers);
	for (int i = 0; i < 2000 || readers.nr_found < 1000; i++) {
		uint64_t first = (uint64_t)(i % NR) * PAGE;

		assert_int_equal(mapping_set_address(mapping, STRIDE, NR * PAGE), 0);
		assert_int_equal(
			mapping_move(mapping, STRIDE + first, 5 * STRIDE + first, 3 * PAGE), 0);
		assert_int_equal(
			mapping_move(mapping, 5 * STRIDE + first, 9 * STRIDE + first, PAGE), 0);
		assert_int_equal(mapping_unmap(mapping, STRIDE, STRIDE + first), 0);
	}
	readers.done = true;
	for (int i = 0; i < 2; i++)
		join_thread(&threads[i]);
	assert_int_equal(readers.nr_wrong, 0);
	fixture_free(fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_segment),
		cmocka_unit_test(test_no_segment_yet),
		cmocka_unit_test(test_unmap),
		cmocka_unit_test(test_everything_is_unmapped),
		cmocka_unit_test(test_move),
		cmocka_unit_test(test_unmap_forgets_private_pages),
		cmocka_unit_test(test_discard),
		cmocka_unit_test(test_uffd_of),
		cmocka_unit_test(test_random_moves),
		cmocka_unit_test(test_lookups_beside_moves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
