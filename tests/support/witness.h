/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Witness: a client that has pages reserved of its own, and that has to be served within a
 * second all the time, whatever others do to the daemon meanwhile.
 */
#pragma once

#include "fixture.h"

#define WITNESS_PAGES 3 /* that it has, as long as it runs */
#define SERVED_MS     1000

extern struct fixture fixture; /* of the test with a witness */

/* Mount with @options, which have to make @nr_pages pages, and start the witness. */
void witness_begin(const char *options, long nr_pages);
/* Assert that it was served all the time, and that descriptors, counters and mappings are as
 * they were; and unmount. */
void witness_end(void);
/* Descriptors of the daemon before. */
long witness_fds_before(void);
/* Run @function(@data) in a child as user @uid, and fail unless it returns 0. */
void hostile(int (*function)(void *data), void *data, uid_t uid);

/* The clock; and whether that which began at *@start took longer than SERVED_MS, and begin
 * anew. */
long now_ms(void);
int took_long(long *start, const char *what);
int open_file(const char *name, int flags);
