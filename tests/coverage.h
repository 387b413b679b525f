/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * In front of each source that tests/coverage builds: what ends by _exit(2) writes down what it
 * has come to, as what ends by exit(3) does. Nothing is included, since the sources say what
 * they want of the C library before they do.
 */
#pragma once

extern void __gcov_dump(void);
extern void exit_at_once(int status) __asm__("_exit") __attribute__((noreturn));

#define _exit coverage_exit
extern void _exit(int status) __attribute__((noreturn));

/* One for each program and library. */
__attribute__((weak, visibility("hidden"))) void _exit(int status)
{
	__gcov_dump();
	exit_at_once(status);
}
