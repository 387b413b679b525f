/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The journal and the state in it: what is read back is what was written, up to the last whole
 * record wherever the file was cut, and nothing of a file that was damaged in the middle.
 * TEST_SEED in the environment repeats a random run.
 */
#include "fs/state.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define JOURNAL  "journal"
#define NR_FILES 4
#define NR_PAGES 200

static char dir_path[64];
static int dir_fd;

static int setup(void **data)
{
	snprintf(dir_path, sizeof(dir_path), "/tmp/hugefuse-test-XXXXXX");
	if (!mkdtemp(dir_path))
		return -1;
	dir_fd = open(dir_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dir_fd < 0 ? -1 : 0;
}

/* Nothing but the journal may have been left: else the directory is not empty. */
static int teardown(void **data)
{
	unlinkat(dir_fd, JOURNAL, 0);
	close(dir_fd);
	return rmdir(dir_path);
}

static off_t journal_size(void)
{
	struct stat st;

	assert_int_equal(fstatat(dir_fd, JOURNAL, &st, 0), 0);
	return st.st_size;
}

/* ---- the journal ---- */

struct seen {
	int nr;
	uint32_t type[64];
	size_t length[64];
	char last[64];
};

static int see(void *data, uint32_t type, const void *payload, size_t length)
{
	struct seen *seen = data;

	seen->type[seen->nr] = type;
	seen->length[seen->nr] = length;
	memcpy(seen->last, payload, length < sizeof(seen->last) ? length : sizeof(seen->last));
	seen->nr++;
	return 0;
}

static int reopen(struct seen *seen, struct journal_damage *damage)
{
	struct journal journal;
	int r;

	*seen = (struct seen){0};
	r = journal_open(dir_fd, JOURNAL, see, seen, damage, &journal);
	if (r == 0)
		journal_close(&journal);
	return r;
}

/* Records of 0 to @nr - 1 bytes; @ends: where each ends in the file. */
static void write_records(int nr, off_t *ends)
{
	struct journal_damage damage;
	struct journal journal;
	struct seen seen = {0};
	char text[64];

	memset(text, 'x', sizeof(text));
	assert_int_equal(journal_open(dir_fd, JOURNAL, see, &seen, &damage, &journal), 0);
	assert_int_equal(seen.nr, 0);
	for (int i = 0; i < nr; i++) {
		text[0] = (char)('a' + i);
		assert_int_equal(journal_append(&journal, (uint32_t)i, text, (size_t)i), 0);
		ends[i] = journal_size();
	}
	journal_close(&journal);
}

/* CRC-32 as everybody has it. */
static void test_crc(void **data)
{
	assert_int_equal(journal_crc32("123456789", 9), 0xcbf43926);
	assert_int_equal(journal_crc32("", 0), 0);
}

static void test_what_is_written_is_read(void **data)
{
	struct journal_damage damage;
	struct seen seen;
	off_t ends[20];

	write_records(20, ends);
	assert_int_equal(reopen(&seen, &damage), 0);
	assert_int_equal(seen.nr, 20);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(seen.type[i], i);
		assert_int_equal(seen.length[i], i);
	}
	assert_memory_equal(seen.last, "txxx", 4);
	assert_int_equal(damage.torn_bytes, 0);
	assert_int_equal(damage.nr_records, 20);
}

static void cut_to(off_t size)
{
	int fd = openat(dir_fd, JOURNAL, O_RDWR | O_CLOEXEC);

	assert_int_equal(ftruncate(fd, size), 0);
	close(fd);
}

/* Wherever a write ended early, what was whole before it is there, and writing goes on. */
static void test_torn_tail(void **data)
{
	struct journal_damage damage;
	struct journal journal;
	struct seen seen;
	off_t ends[5];
	int whole;

	for (off_t cut = 0;; cut++) {
		unlinkat(dir_fd, JOURNAL, 0);
		write_records(5, ends);
		if (cut > ends[4])
			break;
		for (whole = 0; whole < 5 && ends[whole] <= cut; whole++)
			;
		cut_to(cut);
		assert_int_equal(reopen(&seen, &damage), 0);
		assert_int_equal(seen.nr, whole);
		assert_int_equal(damage.torn_bytes, cut - (whole ? ends[whole - 1] : 0));
		assert_int_equal(journal_size(), whole ? ends[whole - 1] : 0);
		assert_int_equal(journal_open(dir_fd, JOURNAL, see, &seen, &damage, &journal),
				 0);
		assert_int_equal(journal_append(&journal, 7, "new", 3), 0);
		journal_close(&journal);
		assert_int_equal(reopen(&seen, &damage), 0);
		assert_int_equal(seen.nr, whole + 1);
		assert_memory_equal(seen.last, "new", 3);
	}
}

static void flip(off_t at)
{
	int fd = openat(dir_fd, JOURNAL, O_RDWR | O_CLOEXEC);
	char byte;

	assert_int_equal(pread(fd, &byte, 1, at), 1);
	byte ^= 0x10;
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	close(fd);
}

/* One byte of any record but the last: refused, with its place, and nothing is cut off. */
static void test_corrupt_middle(void **data)
{
	static const int padding[] = {0, 7, 6, 5, 4};
	struct journal_damage damage;
	struct seen seen;
	off_t ends[5];

	write_records(5, ends);
	for (int record = 0; record < 4; record++) {
		off_t start = record ? ends[record - 1] : 0;

		for (off_t at = start; at < ends[record] - padding[record]; at++) {
			flip(at);
			assert_int_equal(reopen(&seen, &damage), -EUCLEAN);
			assert_int_equal(damage.offset, start);
			assert_int_equal(damage.lost_bytes, ends[record] - start);
			assert_int_equal(seen.nr, record);
			assert_int_equal(journal_size(), ends[4]);
			seen = (struct seen){0};
			assert_int_equal(journal_salvage(dir_fd, JOURNAL, see, &seen, &damage),
					 0);
			assert_int_equal(seen.nr, 4);
			flip(at);
		}
	}
	assert_int_equal(reopen(&seen, &damage), 0);
	assert_int_equal(seen.nr, 5);
}

static void test_too_long(void **data)
{
	static const char text[JOURNAL_PAYLOAD_MAX + 1];
	struct journal_damage damage;
	struct journal journal;
	struct seen seen = {0};

	assert_int_equal(journal_open(dir_fd, JOURNAL, see, &seen, &damage, &journal), 0);
	assert_int_equal(journal_append(&journal, 1, text, sizeof(text)), -EMSGSIZE);
	assert_int_equal(journal_append(&journal, 1, text, sizeof(text) - 1), 0);
	journal_close(&journal);
	assert_int_equal(reopen(&seen, &damage), 0);
	assert_int_equal(seen.nr, 1);
}

/* ---- the state ---- */

static void open_state(struct state *state)
{
	struct journal_damage damage;

	assert_int_equal(state_open(state, dir_fd, &damage), 0);
	assert_int_equal(damage.torn_bytes, 0);
}

static void test_mount(void **data)
{
	struct state_setup setup_data = {
		.page_size = 2 << 20, .min = 3, .max = 5, .data_max = 7, .nr_nodes = 2};
	struct kernel_pool_loan loan = {
		.page_size = 2 << 20, .nr_nodes = 2, .node_pages = {4, 5}, .overcommit = 6};
	struct kernel_pool_step step = {.node = 1, .before = 10, .add = 2};
	struct state_size size = {.nr = 9, .overcommit = 1, .first_loan = 3};
	struct state state;

	open_state(&state);
	assert_false(state.ready || state.has_loan || state.has_setup || state.has_size);
	assert_int_equal(state_set_options(&state, "size=4M"), 0);
	assert_int_equal(state_set_setup(&state, &setup_data), 0);
	assert_int_equal(state_add_step(&state, &step), 0);
	state_close(&state);
	open_state(&state);
	assert_int_equal(state.nr_steps, 1);
	assert_memory_equal(&state.steps[0], &step, sizeof(step));
	assert_int_equal(state_set_loan(&state, &loan), 0);
	assert_int_equal(state.nr_steps, 0);
	assert_int_equal(state_set_size(&state, &size), 0);
	assert_int_equal(state_set_ready(&state), 0);
	assert_int_equal(state_rewrite(&state), 0);
	state_close(&state);
	open_state(&state);
	assert_true(state.ready && state.has_loan && state.has_setup && state.has_size);
	assert_string_equal(state.options, "size=4M");
	assert_memory_equal(&state.setup, &setup_data, sizeof(setup_data));
	assert_memory_equal(&state.loan, &loan, sizeof(loan));
	assert_memory_equal(&state.size, &size, sizeof(size));
	state_close(&state);
}

/* Of a newer version, or nobody's: it is not guessed at. */
static void test_unknown_record(void **data)
{
	struct journal_damage damage;
	struct journal journal;
	struct seen seen = {0};
	struct state state;

	assert_int_equal(journal_open(dir_fd, JOURNAL, see, &seen, &damage, &journal), 0);
	assert_int_equal(journal_append(&journal, 999, "?", 1), 0);
	journal_close(&journal);
	assert_int_equal(state_open(&state, dir_fd, &damage), -EPROTO);
	assert_int_equal(state_salvage(&state, dir_fd, &damage), 0);
	assert_int_equal(state_set_ready(&state), -EROFS);
	state_close(&state);
}

struct model {
	bool reserved[NR_FILES][NR_PAGES];
	bool mapped[64];
};

static uint32_t random_below(uint64_t *seed, uint32_t limit)
{
	*seed = *seed * 6364136223846793005U + 1442695040888963407U;
	return (uint32_t)(((*seed >> 32) * limit) >> 32);
}

static void random_step(struct state *state, struct model *model, uint64_t *seed)
{
	uint32_t file = random_below(seed, NR_FILES), what = random_below(seed, 100);
	int64_t from = random_below(seed, NR_PAGES - 1);
	int64_t to = from + 1 + random_below(seed, (uint32_t)(NR_PAGES - from));
	struct state_mapping mapping = {.id = random_below(seed, 64), .from = 1, .to = 2};

	if (to > NR_PAGES)
		to = NR_PAGES;
	if (what < 40) {
		assert_int_equal(state_reserve(state, file, from, to), 0);
		memset(&model->reserved[file][from], 1, (size_t)(to - from));
	} else if (what < 70) {
		assert_int_equal(state_unreserve(state, file, from, to), 0);
		memset(&model->reserved[file][from], 0, (size_t)(to - from));
	} else if (what < 75) {
		assert_int_equal(state_forget(state, file), 0);
		memset(&model->reserved[file], 0, NR_PAGES);
	} else if (what < 90) {
		assert_int_equal(state_add_mapping(state, &mapping), 0);
		model->mapped[mapping.id] = true;
	} else {
		assert_int_equal(state_drop_mapping(state, mapping.id), 0);
		model->mapped[mapping.id] = false;
	}
}

static void check_model(struct state *state, const struct model *model)
{
	struct state_mapping *mappings;
	struct state_range *ranges;
	struct model found = {0};
	int64_t nr;

	nr = state_ranges(state, &ranges);
	assert_true(nr >= 0);
	for (int64_t i = 0; i < nr; i++)
		memset(&found.reserved[ranges[i].ino][ranges[i].from], 1,
		       (size_t)(ranges[i].to - ranges[i].from));
	nr = state_mappings(state, &mappings);
	assert_true(nr >= 0);
	for (int64_t i = 0; i < nr; i++)
		found.mapped[mappings[i].id] = true;
	assert_memory_equal(&found, model, sizeof(found));
	free(ranges);
	free(mappings);
}

/* The same after it was read again, at any time, and however often it was compacted. */
static void test_random(void **data)
{
	const char *text = getenv("TEST_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 0) : (uint64_t)time(NULL);
	struct model model = {0};
	struct state state;
	off_t largest = 0;

	print_message("TEST_SEED=%" PRIu64 "\n", seed);
	open_state(&state);
	for (int i = 0; i < 20000; i++) {
		random_step(&state, &model, &seed);
		if (i % 500 == 0) {
			state_close(&state);
			open_state(&state);
			check_model(&state, &model);
		}
		if (journal_size() > largest)
			largest = journal_size();
	}
	check_model(&state, &model);
	state_close(&state);
	assert_in_range(largest, 60000, 400000); /* it is compacted, and not all the time */
}

/* What is reserved already, or is not, needs no record. */
static void test_nothing_new(void **data)
{
	struct state state;
	off_t size;

	open_state(&state);
	assert_int_equal(state_reserve(&state, 1, 10, 20), 0);
	size = journal_size();
	assert_int_equal(state_reserve(&state, 1, 12, 20), 0);
	assert_int_equal(state_unreserve(&state, 1, 20, 30), 0);
	assert_int_equal(state_unreserve(&state, 2, 0, 30), 0);
	assert_int_equal(state_forget(&state, 2), 0);
	assert_int_equal(state_drop_mapping(&state, 5), 0);
	assert_int_equal(journal_size(), size);
	state_close(&state);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_crc),
		TEST(test_what_is_written_is_read),
		TEST(test_torn_tail),
		TEST(test_corrupt_middle),
		TEST(test_too_long),
		TEST(test_mount),
		TEST(test_unknown_record),
		TEST(test_random),
		TEST(test_nothing_new),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
