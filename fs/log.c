/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Logging. A line is made up in a buffer of its own and leaves in one write, so that lines of
 * different threads do not mix; no locks. Control characters are replaced: a file's name, which
 * may come from anybody, cannot forge a line. A log call leaves errno as it was.
 */
#include "fs/log.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

/* With the newline; longer ones are cut. */
#define MAX_LINE_BYTES 1024

static const char *const area_names[NR_LOG_AREAS] = {
	[LOG_AREA_MOUNT] = "mount",
	[LOG_AREA_FUSE] = "fuse",
	[LOG_AREA_CONTROL] = "control",
	[LOG_AREA_FAULT] = "fault",
};

static const char *const level_names[] = {
	[LOG_ERR] = "error",
	[LOG_WARNING] = "warning",
	[LOG_INFO] = "info",
	[LOG_DEBUG] = "debug",
};

static _Atomic uint32_t debug_areas; /* atomic; a bit per area */
static _Atomic bool to_syslog;       /* atomic */

/* The bits of the area named by @length bytes at @name, 0 if there is none. */
static uint32_t area_bits(const char *name, size_t length)
{
	if (length == 3 && !memcmp(name, "all", 3))
		return (1u << NR_LOG_AREAS) - 1;
	for (int area = 0; area < NR_LOG_AREAS; area++)
		if (strlen(area_names[area]) == length &&
		    !memcmp(name, area_names[area], length))
			return 1u << area;
	return 0;
}

int log_set_debug(const char *areas)
{
	uint32_t all_bits = 0;

	while (*areas) {
		size_t length = strcspn(areas, ",");
		uint32_t bits = area_bits(areas, length);

		if (!bits)
			return -EINVAL;
		all_bits |= bits;
		areas += length;
		if (*areas == ',' && !*++areas)
			return -EINVAL;
	}
	atomic_store_explicit(&debug_areas, all_bits, memory_order_relaxed);
	return 0;
}

bool log_debug_enabled(enum log_area area)
{
	return atomic_load_explicit(&debug_areas, memory_order_relaxed) & (1u << area);
}

void log_open_syslog(const char *ident)
{
	openlog(ident, LOG_PID | LOG_NDELAY, LOG_DAEMON);
	atomic_store_explicit(&to_syslog, true, memory_order_release);
}

static void write_line(const char *line, size_t nr_bytes)
{
	ssize_t result;

	/* There is nowhere to tell of a failure. */
	do
		result = write(STDERR_FILENO, line, nr_bytes);
	while (result < 0 && errno == EINTR);
}

/* @area: its name and a colon stand before the message; NULL: none. */
__attribute__((format(printf, 3, 0))) static void log_line(int level, const char *area,
							   const char *format, va_list args)
{
	int saved_errno = errno;
	char line[MAX_LINE_BYTES];
	size_t prefix_length, length;

	prefix_length = (size_t)snprintf(line, sizeof(line), "hugefuse: %s: %s%s",
					 level_names[level], area ? area : "",
					 area ? ": " : "");
	errno = saved_errno; /* for %m */
	if (vsnprintf(line + prefix_length, sizeof(line) - prefix_length, format, args) < 0)
		strcpy(line + prefix_length, "(unprintable)");
	length = strlen(line);
	for (size_t i = prefix_length; i < length; i++)
		if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
			line[i] = '?';
	if (atomic_load_explicit(&to_syslog, memory_order_acquire)) {
		/* syslog has the program's name already. */
		syslog(level, "%s", line + strlen("hugefuse: "));
	} else {
		line[length++] = '\n';
		write_line(line, length);
	}
	errno = saved_errno;
}

void log_debug(enum log_area area, const char *format, ...)
{
	va_list args;

	if (!log_debug_enabled(area))
		return;
	va_start(args, format);
	log_line(LOG_DEBUG, area_names[area], format, args);
	va_end(args);
}

void log_info(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	log_line(LOG_INFO, NULL, format, args);
	va_end(args);
}

void log_warning(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	log_line(LOG_WARNING, NULL, format, args);
	va_end(args);
}

void log_error(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	log_line(LOG_ERR, NULL, format, args);
	va_end(args);
}

void log_warning_once(bool *once, const char *format, ...)
{
	va_list args;

	if (__atomic_exchange_n(once, true, __ATOMIC_RELAXED))
		return;
	va_start(args, format);
	log_line(LOG_WARNING, NULL, format, args);
	va_end(args);
}
