/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The order check of -Dlock_check=true: each violation aborts a child and says why.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fs/lock.h"

static void test_rank_names(void **state)
{
	for (int rank = 0; rank < NR_LOCK_RANKS; rank++) {
		assert_non_null(lock_rank_name(rank));
		for (int other = 0; other < rank; other++)
			assert_string_not_equal(lock_rank_name(rank), lock_rank_name(other));
	}
	assert_string_equal(lock_rank_name(LOCK_RANK_FAULT_MUTEX), "fault_mutex");
	assert_string_equal(lock_rank_name(NR_LOCK_RANKS), "invalid");
}

/* Run @action in a child with its stderr in @text. Returns its wait status. */
static int run_in_child(void (*action)(void), char *text, size_t nr_bytes)
{
	const struct rlimit no_core = {0, 0};
	size_t length = 0;
	ssize_t result;
	int status, ends[2];
	pid_t child;

	assert_int_equal(pipe(ends), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		setrlimit(RLIMIT_CORE, &no_core);
		signal(SIGABRT, SIG_DFL);
		dup2(ends[1], STDERR_FILENO);
		action();
		_exit(0);
	}
	close(ends[1]);
	while ((result = read(ends[0], text + length, nr_bytes - 1 - length)) > 0)
		length += (size_t)result;
	text[length] = 0;
	close(ends[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

/* Each child has its own copy. */
static struct mutex first, second;
static struct rwsem sem;

static void take_two(void)
{
	mutex_lock(&first);
	mutex_lock(&second);
}

static void try_two(void)
{
	mutex_lock(&first);
	mutex_trylock(&second);
}

static void read_inside(void)
{
	mutex_lock(&first);
	rwsem_read_lock(&sem);
}

static void release_free(void)
{
	mutex_unlock(&first);
}

static void assert_free(void)
{
	mutex_assert_held(&first);
}

static void assert_write_as_reader(void)
{
	rwsem_read_lock(&sem);
	rwsem_assert_held(&sem);
	rwsem_assert_write_held(&sem);
}

static void assert_write_after_downgrade(void)
{
	rwsem_write_lock(&sem);
	rwsem_assert_write_held(&sem);
	rwsem_downgrade(&sem);
	rwsem_assert_write_held(&sem);
}

static void block_inside(void)
{
	rwsem_read_lock(&sem);
	lock_assert_may_block();
}

static void keep_order(void)
{
	mutex_lock(&first);
	rwsem_write_lock(&sem);
	mutex_lock(&second);
	mutex_assert_held(&first);
	rwsem_assert_held(&sem);
	/* Not in the reverse order, which is nobody's duty. */
	mutex_unlock(&first);
	rwsem_downgrade(&sem);
	rwsem_read_unlock(&sem);
	mutex_unlock(&second);
	mutex_lock(&first);
	lock_assert_may_block();
	mutex_unlock(&first);
}

static void expect_abort(void (*action)(void), const char *rank, const char *other_rank)
{
	char text[2048];
	int status = run_in_child(action, text, sizeof(text));

	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
		fail_msg("status %#x instead of an abort; stderr: %s", status, text);
	assert_non_null(strstr(text, rank));
	assert_non_null(strstr(text, other_rank));
}

static void test_check_aborts(void **state)
{
	char text[2048];

	if (!HF_LOCK_CHECK)
		skip();
	rwsem_init(&sem, LOCK_RANK_REGION_MAP);
	mutex_init(&first, LOCK_RANK_POOL);
	mutex_init(&second, LOCK_RANK_SUBPOOL);
	expect_abort(take_two, "takes subpool", "after pool");
	expect_abort(try_two, "takes subpool", "after pool");
	expect_abort(read_inside, "takes region_map", "after pool");
	expect_abort(release_free, "does not hold pool", "");
	expect_abort(assert_free, "does not hold pool", "");
	expect_abort(assert_write_as_reader, "only shared", "holds region_map");
	expect_abort(assert_write_after_downgrade, "only shared", "holds region_map");
	expect_abort(block_inside, "may block under region_map", "shared");
	/* Two of one rank have no order. */
	mutex_init(&second, LOCK_RANK_POOL);
	expect_abort(take_two, "takes pool", "after pool");
	mutex_init(&first, LOCK_RANK_FAULT_MUTEX);
	assert_int_equal(run_in_child(keep_order, text, sizeof(text)), 0);
	assert_string_equal(text, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rank_names),
		cmocka_unit_test(test_check_aborts),
	};

	return cmocka_run_group_tests_name("lock_check", tests, NULL, NULL);
}
