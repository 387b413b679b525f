/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The loan from the kernel's pool as a file: what is written is what is read, and nothing else
 * is read. The kernel's pool itself is not touched here.
 */
#include "fs/kernel_pool.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define FILE_NAME         "kernel-pool"

struct fixture {
	char path[64];
	int fd;
};

static int setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	if (!fixture)
		return -1;
	snprintf(fixture->path, sizeof(fixture->path), "/tmp/hugefuse-test-XXXXXX");
	if (!mkdtemp(fixture->path))
		return -1;
	fixture->fd = open(fixture->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = fixture;
	return fixture->fd < 0 ? -1 : 0;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;

	unlinkat(fixture->fd, FILE_NAME, 0);
	close(fixture->fd);
	/* It is empty: nothing else was written. */
	if (rmdir(fixture->path) < 0)
		return -1;
	free(fixture);
	return 0;
}

static int dir_of(void **state)
{
	return ((struct fixture *)*state)->fd;
}

static void write_file(int dir_fd, const char *text, size_t len)
{
	int fd = openat(dir_fd, FILE_NAME, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, len), len);
	close(fd);
}

static void assert_round_trip(int dir_fd, const struct kernel_pool_loan *loan)
{
	struct kernel_pool_loan loaded;

	memset(&loaded, 0x5a, sizeof(loaded));
	assert_int_equal(kernel_pool_save(loan, dir_fd, FILE_NAME), 0);
	assert_int_equal(kernel_pool_load(&loaded, dir_fd, FILE_NAME), 0);
	assert_true(loaded.page_size == loan->page_size);
	assert_int_equal(loaded.nr_nodes, loan->nr_nodes);
	assert_true(loaded.overcommit == loan->overcommit);
	for (int node = 0; node < loan->nr_nodes; node++)
		assert_true(loaded.node_pages[node] == loan->node_pages[node]);
	/* Nothing was lent on nodes that there are not. */
	for (int node = loan->nr_nodes; node < POOL_MAX_NODES; node++)
		assert_true(loaded.node_pages[node] == 0);
}

static void test_round_trip(void **state)
{
	static const struct kernel_pool_loan loans[] = {
		{.page_size = 2 << 20, .nr_nodes = 1, .node_pages = {512}},
		{.page_size = 1 << 30, .nr_nodes = 1, .overcommit = 3},
		{.page_size = 2 << 20, .nr_nodes = 3, .node_pages = {1, 0, 7}, .overcommit = 9},
		{.page_size = 1ULL << 34,
		 .nr_nodes = 2,
		 .node_pages = {INT64_MAX, INT64_MAX},
		 .overcommit = INT64_MAX},
	};
	struct kernel_pool_loan all = {.page_size = 2 << 20, .nr_nodes = POOL_MAX_NODES};

	for (size_t i = 0; i < ARRAY_SIZE(loans); i++)
		assert_round_trip(dir_of(state), &loans[i]);
	for (int node = 0; node < POOL_MAX_NODES; node++)
		all.node_pages[node] = 1000000 + node;
	assert_round_trip(dir_of(state), &all);
	/* A longer file was there before. */
	assert_round_trip(dir_of(state), &loans[0]);
}

static void test_only_the_owner_can_read_it(void **state)
{
	struct kernel_pool_loan loan = {.page_size = 2 << 20, .nr_nodes = 1};
	struct stat st;

	assert_int_equal(kernel_pool_save(&loan, dir_of(state), FILE_NAME), 0);
	assert_int_equal(fstatat(dir_of(state), FILE_NAME, &st, 0), 0);
	assert_int_equal(st.st_mode & 077, 0);
}

static const char *const malformed[] = {
	"",
	"\n",
	"0",
	"hugefuse",
	"hugefuse-kernel-pool",
	"hugefuse-kernel-pool 1",
	"hugefuse-kernel-pool 1 2097152",
	"hugefuse-kernel-pool 1 2097152 1",
	"hugefuse-kernel-pool 1 2097152 1 0",
	"hugefuse-kernel-pool 1 2097152 1 0\n",
	/* Cut off, perhaps inside a number. */
	"hugefuse-kernel-pool 1 2097152 1 0\n51",
	"hugefuse-kernel-pool 1 2097152 2 0\n512\n",
	/* Another format, or something else altogether. */
	"hugefuse-kernel-pool 2 2097152 1 0\n512\n",
	"hugefuse-kernel-pool 12 97152 1 0\n512\n",
	"hugefuse-kernel-pool 12097152 1 0\n512\n",
	"Hugefuse-kernel-pool 1 2097152 1 0\n512\n",
	" hugefuse-kernel-pool 1 2097152 1 0\n512\n",
	"hugefuse-kernel-pool 1 2097152 1 0\n512\n7\n",
	"hugefuse-kernel-pool 1 2097152 1 0\n512 more\n",
	"hugefuse-kernel-pool 1 2097152 1 0 0\n512\n",
	/* Not numbers. */
	"hugefuse-kernel-pool 1 x 1 0\n512\n",
	"hugefuse-kernel-pool 1 2097152 x 0\n512\n",
	"hugefuse-kernel-pool 1 2097152 1 x\n512\n",
	"hugefuse-kernel-pool 1 2097152 1 0\nx\n",
	"hugefuse-kernel-pool 1 2097152 1 0\n0x200\n",
	"hugefuse-kernel-pool 1 2097152 1 0\n5.5\n",
	/* Numbers that cannot be: of nodes, of bytes, of pages that were added. */
	"hugefuse-kernel-pool 1 2097152 0 0\n",
	"hugefuse-kernel-pool 1 2097152 -1 0\n",
	"hugefuse-kernel-pool 1 2097152 65 0\n512\n",
	"hugefuse-kernel-pool 1 2097152 4294967297 0\n512\n",
	"hugefuse-kernel-pool 1 0 1 0\n512\n",
	"hugefuse-kernel-pool 1 -2097152 1 0\n512\n",
	"hugefuse-kernel-pool 1 2097153 1 0\n512\n",
	"hugefuse-kernel-pool 1 2097152 1 -1\n512\n",
	"hugefuse-kernel-pool 1 2097152 1 99999999999999999999\n512\n",
	"hugefuse-kernel-pool 1 2097152 1 0\n99999999999999999999\n",
};

static void test_malformed_files(void **state)
{
	struct kernel_pool_loan loan, untouched;
	int nr_accepted = 0;

	memset(&loan, 0x5a, sizeof(loan));
	memcpy(&untouched, &loan, sizeof(loan));
	for (size_t i = 0; i < ARRAY_SIZE(malformed); i++) {
		write_file(dir_of(state), malformed[i], strlen(malformed[i]));
		if (kernel_pool_load(&loan, dir_of(state), FILE_NAME) != -EINVAL) {
			print_message("accepted: %s\n", malformed[i]);
			nr_accepted++;
		}
	}
	assert_int_equal(nr_accepted, 0);
	assert_memory_equal(&loan, &untouched, sizeof(loan));
	write_file(dir_of(state), "hugefuse-kernel-pool 1 2097152 1 0\n512\n\0", 41);
	assert_int_equal(kernel_pool_load(&loan, dir_of(state), FILE_NAME), -EINVAL);
	write_file(dir_of(state), "hugefuse-kernel-pool 1 2097152 1 0\n512\n", 40);
	assert_int_equal(kernel_pool_load(&loan, dir_of(state), FILE_NAME), -EINVAL);
	assert_memory_equal(&loan, &untouched, sizeof(loan));
}

/* Every prefix of a good file, every byte of it changed: never a crash, never half a loan. */
static void test_damaged_files(void **state)
{
	static const char text[] = "hugefuse-kernel-pool 1 2097152 2 4\n512\n64\n";
	struct kernel_pool_loan loan, untouched;
	char damaged[sizeof(text)];

	memset(&untouched, 0x5a, sizeof(untouched));
	for (size_t len = 0; len < sizeof(text) - 1; len++) {
		memcpy(&loan, &untouched, sizeof(loan));
		write_file(dir_of(state), text, len);
		assert_int_equal(kernel_pool_load(&loan, dir_of(state), FILE_NAME), -EINVAL);
		assert_memory_equal(&loan, &untouched, sizeof(loan));
		for (int byte = 0; byte < 256; byte++) {
			int r;

			memcpy(damaged, text, sizeof(text));
			damaged[len] = (char)byte;
			write_file(dir_of(state), damaged, sizeof(text) - 1);
			memcpy(&loan, &untouched, sizeof(loan));
			r = kernel_pool_load(&loan, dir_of(state), FILE_NAME);
			assert_true(r == 0 || r == -EINVAL);
			if (r < 0)
				assert_memory_equal(&loan, &untouched, sizeof(loan));
			else
				assert_in_range(loan.nr_nodes, 1, POOL_MAX_NODES);
		}
	}
}

static void test_errors_of_the_file(void **state)
{
	struct kernel_pool_loan loan = {.page_size = 2 << 20, .nr_nodes = 1};

	assert_int_equal(kernel_pool_load(&loan, dir_of(state), FILE_NAME), -ENOENT);
	assert_int_equal(kernel_pool_save(&loan, dir_of(state), "none/file"), -ENOENT);
	assert_int_equal(kernel_pool_save(&loan, -1, FILE_NAME), -EBADF);
	/* It is not known to be written before it is. */
	if (access("/dev/full", W_OK) == 0)
		assert_int_equal(kernel_pool_save(&loan, dir_of(state), "/dev/full"), -ENOSPC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_round_trip, setup, teardown),
		cmocka_unit_test_setup_teardown(test_only_the_owner_can_read_it, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_malformed_files, setup, teardown),
		cmocka_unit_test_setup_teardown(test_damaged_files, setup, teardown),
		cmocka_unit_test_setup_teardown(test_errors_of_the_file, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
