/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the clients of kills.c share with it and with those that come after them: what is in
 * their files, how far they are, and how long they have waited.
 */
#pragma once

#include <stdatomic.h>

#include "fixture.h"

#define NR_CLIENTS    3
#define CLIENT_PAGES  4 /* of its file */
#define PRIVATE_PAGES 2

/* What a page has: the settled value, or, while an operation is under way or was cut short, the
 * other one. */
struct content {
	atomic_ulong settled, pending;
};

struct client {
	struct content pages[CLIENT_PAGES]; /* written by the client alone */
	atomic_ulong nr_done;               /* operations */
	unsigned int seed;                  /* set before it starts */
	atomic_ulong longest_touch_us;      /* of a page that is reserved */
	atomic_ulong longest_refused_us;    /* from a call that failed to one that did not */
};

struct kills {
	struct fixture *fixture; /* not shared: fork(2) writes to it on both sides */
	atomic_bool stop;
	struct client clients[NR_CLIENTS];
};

struct client_turn {
	struct kills *kills;
	int number;
};

/* Operations at random until kills->stop; start_child()'s function. The file exists. */
int kills_client_run(void *turn);
/* Whether the file of client @number has what it is to have; it ends the test where not. */
void kills_client_check(struct kills *kills, int number);
/* "client-1", in a static buffer. */
const char *kills_client_name(int number);
