/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Escape: strings as /proc/mounts has them, with \040 for a space, \011, \012 and \134.
 */
#pragma once

/* Replace in place every backslash with three octal digits by the byte that they stand for. */
void unescape(char *text);

/*
 * A copy of @text that is safe for a terminal, one line and valid UTF-8: control characters,
 * backslashes and bytes that are no UTF-8 as octal escapes. NULL when out of memory.
 */
char *escape_for_terminal(const char *text);

/* The length of the UTF-8 sequence at @text: 1 to 4, or 0 where it is none or @text is empty.
 */
int utf8_sequence(const char *text);
