/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The thread that runs the shrinker of deferred splits (fs/split.h) when memory is short. */
#pragma once

struct mount;
struct split_thread;

/* Starts it; none, and NULL, where nothing is deferred. 0 or -errno. */
int split_thread_new(struct mount *mount, struct split_thread **ret_thread);
/* Waits until it has ended. NULL-safe. */
void split_thread_free(struct split_thread *thread);
