/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Logging: what arrives at stderr, which is a packet socket here, so that each write is seen
 * as what it was.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "fs/log.h"

static int old_stderr, far_end;

static int setup(void **state)
{
	int ends[2];

	old_stderr = dup(STDERR_FILENO);
	if (old_stderr < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends))
		return -1;
	dup2(ends[1], STDERR_FILENO);
	close(ends[1]);
	far_end = ends[0];
	return log_set_debug("");
}

static int teardown(void **state)
{
	dup2(old_stderr, STDERR_FILENO);
	close(old_stderr);
	close(far_end);
	return 0;
}

/* The next write, or NULL if there was none. */
static const char *next_write(void)
{
	static char text[4096];
	ssize_t length = recv(far_end, text, sizeof(text) - 1, MSG_DONTWAIT);

	if (length < 0)
		return NULL;
	text[length] = 0;
	return text;
}

static void test_levels(void **state)
{
	log_info("mounted %s", "/huge");
	log_warning("%d pages short", 3);
	log_error("gone");
	assert_string_equal(next_write(), "hugefuse: info: mounted /huge\n");
	assert_string_equal(next_write(), "hugefuse: warning: 3 pages short\n");
	assert_string_equal(next_write(), "hugefuse: error: gone\n");
	assert_null(next_write());
}

static void test_debug_areas(void **state)
{
	log_debug(LOG_AREA_FUSE, "silent");
	assert_int_equal(log_set_debug("fuse,fault"), 0);
	assert_true(log_debug_enabled(LOG_AREA_FUSE));
	assert_true(log_debug_enabled(LOG_AREA_FAULT));
	assert_false(log_debug_enabled(LOG_AREA_MOUNT));
	log_debug(LOG_AREA_FUSE, "getattr %d", 7);
	log_debug(LOG_AREA_MOUNT, "silent");
	assert_string_equal(next_write(), "hugefuse: debug: fuse: getattr 7\n");
	assert_null(next_write());

	/* What is wrong changes nothing. */
	assert_int_equal(log_set_debug("mount,fus"), -EINVAL);
	assert_int_equal(log_set_debug("fusefault"), -EINVAL);
	assert_int_equal(log_set_debug("mount,"), -EINVAL);
	assert_int_equal(log_set_debug(",mount"), -EINVAL);
	assert_false(log_debug_enabled(LOG_AREA_MOUNT));
	assert_true(log_debug_enabled(LOG_AREA_FUSE));

	assert_int_equal(log_set_debug("all"), 0);
	for (int area = 0; area < NR_LOG_AREAS; area++)
		assert_true(log_debug_enabled((enum log_area)area));
	assert_int_equal(log_set_debug(""), 0);
	assert_false(log_debug_enabled(LOG_AREA_FUSE));
}

static void test_once(void **state)
{
	static bool first, second;

	for (int i = 0; i < 3; i++) {
		log_warning_once(&first, "first %d", i);
		log_warning_once(&second, "second %d", i);
	}
	assert_string_equal(next_write(), "hugefuse: warning: first 0\n");
	assert_string_equal(next_write(), "hugefuse: warning: second 0\n");
	assert_null(next_write());
}

static void test_one_line_each(void **state)
{
	char name[3000];
	const char *text;

	log_warning("name %s", "a\nhugefuse: error: forged\x1b[1m\x7f");
	assert_string_equal(next_write(),
			    "hugefuse: warning: name a?hugefuse: error: forged?[1m?\n");
	log_warning("na\xc3\xafve");
	assert_string_equal(next_write(), "hugefuse: warning: na\xc3\xafve\n");

	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = 0;
	log_warning("%s", name);
	text = next_write();
	assert_int_equal(strlen(text), 1024);
	assert_int_equal(text[1023], '\n');
	assert_int_equal(text[1022], 'x');
	assert_null(next_write());
}

static void test_errno_stays(void **state)
{
	errno = ENOSPC;
	log_error("%m");
	assert_int_equal(errno, ENOSPC);
	assert_string_equal(next_write(), "hugefuse: error: No space left on device\n");
	/* Nor does it change where nobody can be told. */
	close(STDERR_FILENO);
	log_error("lost");
	assert_int_equal(errno, ENOSPC);
}

/* Last: there is no way back from it. */
static void test_syslog(void **state)
{
	log_open_syslog("hugefuse-test");
	log_info("a test of hugefuse");
	assert_null(next_write());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_levels, setup, teardown),
		cmocka_unit_test_setup_teardown(test_debug_areas, setup, teardown),
		cmocka_unit_test_setup_teardown(test_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_one_line_each, setup, teardown),
		cmocka_unit_test_setup_teardown(test_errno_stays, setup, teardown),
		cmocka_unit_test_setup_teardown(test_syslog, setup, teardown),
	};

	return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
