/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Top screen: the terminal of hugefuse top, which is put back however the program ends: by
 * return, exit(3), or a signal.
 */
#pragma once

#include <stdbool.h>

/* Whether the terminal can be drawn on. If not, *@ret_name is its name, for a message. */
bool top_screen_is_usable(const char **ret_name);
/* Take the terminal over. 0 or -errno. */
int top_screen_begin(void);
void top_screen_end(void);
/* After SIGWINCH. */
void top_screen_resize(void);
