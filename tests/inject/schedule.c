/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "schedule.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fixture.h"

static struct inject *control;

void schedule_init(void)
{
	const char *dir = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/hugefuse-inject-XXXXXX", dir);
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0 || ftruncate(fd, sizeof(*control)) < 0)
		fail_msg("%s: %s", path, strerror(errno));
	control = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (control == MAP_FAILED)
		fail_msg("%s: %s", path, strerror(errno));
	unlink(path);
	/* The program opens it through this process, whose end is the file's. */
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", getpid(), fd);
	setenv(INJECT_ENV, path, 1);
	if (inject_use)
		inject_use(control);
}

void schedule_arm(uint32_t kinds, int64_t nth, uint32_t stall_ms)
{
	atomic_store(&control->kinds, 0);
	memset(control->sites, 0, sizeof(control->sites));
	atomic_store(&control->countdown, nth);
	atomic_store(&control->stall_ms, stall_ms);
	atomic_store(&control->nr_fired, 0);
	atomic_store(&control->nr_calls, 0);
	atomic_store(&control->kinds, kinds);
}

bool schedule_disarm(void)
{
	atomic_store(&control->kinds, 0);
	return schedule_nr_fired() > 0;
}

unsigned int schedule_nr_fired(void)
{
	return atomic_load(&control->nr_fired);
}

const char *schedule_what(void)
{
	static char text[64];

	snprintf(text, sizeof(text), "%s at +%#" PRIx64, control->function, control->caller);
	return text;
}
