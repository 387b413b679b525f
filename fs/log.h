/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Logging for layer L4 and up: levels as in syslog(3), areas that can be switched on one by one
 * for debugging. Lines go to stderr, or with log_open_syslog() to syslog, each in one write.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>

enum log_area {
	LOG_AREA_MOUNT,
	LOG_AREA_FUSE,
	LOG_AREA_CONTROL,
	LOG_AREA_FAULT,
	NR_LOG_AREAS,
};

/* Set the areas whose debug lines are printed, from a list such as "fuse,fault" or "all".
 * -EINVAL. */
int log_set_debug(const char *areas);
bool log_debug_enabled(enum log_area area);
/* Send everything to syslog from now on (the daemon in the background). */
void log_open_syslog(const char *ident);

void log_debug(enum log_area area, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Like log_warning(), but each call site (@once: a static bool of its own) speaks only once. */
void log_warning_once(bool *once, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
