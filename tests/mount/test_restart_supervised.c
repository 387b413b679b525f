/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A daemon that is supervised as systemd does it: it tells when it is ready, and all along that
 * it is alive; killed and started again it does so again, with the files of before.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "restart.h"

#define WATCHDOG_MS 400

static int supervisor;

static void listen_for_notifications(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char name[64];
	int length;

	length = snprintf(name, sizeof(name), "@hugefuse-test-%d", getpid());
	memcpy(address.sun_path, name, (size_t)length);
	address.sun_path[0] = '\0';
	supervisor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_int_equal(
		bind(supervisor, (struct sockaddr *)&address,
		     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)length)),
		0);
	setenv("NOTIFY_SOCKET", name, 1);
	setenv("WATCHDOG_USEC", "400000", 1);
}

/* Wait for @expected, at most @timeout_ms. */
static bool is_told(const char *expected, int timeout_ms)
{
	struct pollfd poll_fd = {.fd = supervisor, .events = POLLIN};
	char text[64] = "";

	if (poll(&poll_fd, 1, timeout_ms) != 1)
		return false;
	assert_true(recv(supervisor, text, sizeof(text) - 1, 0) > 0);
	return strcmp(text, expected) == 0;
}

/* Nothing of a daemon that has gone is to be taken for another's. */
static void forget_what_was_told(void)
{
	char text[64];

	while (recv(supervisor, text, sizeof(text), MSG_DONTWAIT) > 0)
		;
}

static void expect_to_be_told(void)
{
	/* It is alive before it is ready, perhaps. */
	while (!is_told("READY=1", 10000))
		;
	for (int i = 0; i < 3; i++)
		assert_true(is_told("WATCHDOG=1", WATCHDOG_MS));
}

static void test_supervised(void **state)
{
	struct fixture fixture = {0};

	listen_for_notifications();
	fixture_mount(&fixture, "size=48M");
	expect_to_be_told();
	close(fixture_file(&fixture, "file", O_RDWR | O_CREAT, 2 * PAGE_2M));
	for (int round = 0; round < 2; round++) {
		fixture_kill(&fixture);
		forget_what_was_told();
		fixture_restart(&fixture, "size=48M");
		expect_to_be_told();
		close(fixture_file(&fixture, "file", O_RDWR, 0));
	}
	/* One that hangs is heard of no more: who watches it kills it. */
	assert_int_equal(kill(fixture.daemon, SIGSTOP), 0);
	forget_what_was_told();
	assert_false(is_told("WATCHDOG=1", 2 * WATCHDOG_MS));
	fixture_kill(&fixture);
	fixture_restart(&fixture, "size=48M");
	expect_to_be_told();
	forget_what_was_told();
	fixture_umount(&fixture);
	unsetenv("NOTIFY_SOCKET");
	close(supervisor);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_supervised),
	};

	require_root();
	require_pages(PAGE_2M, POOL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
