/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Notification of a supervisor. What cannot be sent is not sent: it will see for itself. */
#include "fs/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fs/clock.h"

void notify_send(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t length = path ? strlen(path) : 0;
	int fd;

	if (length == 0 || length >= sizeof(address.sun_path) ||
	    (path[0] != '/' && path[0] != '@'))
		return;
	memcpy(address.sun_path, path, length);
	if (path[0] == '@') /* an abstract one */
		address.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	while (sendto(fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT,
		      (struct sockaddr *)&address,
		      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)) < 0 &&
	       errno == EINTR)
		;
	close(fd);
}

static uint64_t watchdog_ns(void)
{
	const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");

	if (!usec || (pid && strtol(pid, NULL, 10) != getpid()))
		return 0;
	return strtoull(usec, NULL, 10) * 1000;
}

void notify_alive(void)
{
	static uint64_t interval_ns = UINT64_MAX, last_ns;

	if (interval_ns == UINT64_MAX)
		interval_ns = watchdog_ns() / 2;
	if (interval_ns == 0 || clock_now_ns() - last_ns < interval_ns)
		return;
	last_ns = clock_now_ns();
	notify_send("WATCHDOG=1");
}
