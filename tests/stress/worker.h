/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Workers: the client processes. Each executes the operations that come over its socket, one
 * after the other, and answers each. A worker can fork a child, which has a socket of its own.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "model.h"

struct target;

struct worker_set {
	const struct target *target;
	pid_t pid[NR_PROCS];   /* 0: none */
	int socket[NR_PROCS];  /* the driver's ends */
	void (*explain)(void); /* called before the test fails: what was going on */
};

void workers_start(struct worker_set *set, const struct target *target, void (*explain)(void));
/* Kill them all. */
void workers_stop(struct worker_set *set);
/*
 * Execute an operation. @expected is what the model says: a mapping that should have failed and
 * did not is undone at once, so that what follows finds what it expects.
 */
struct result workers_execute(struct worker_set *set, const struct op *op,
			      const struct result *expected);

/* The client's side, client.c: never returns. @child_socket is for its forked child. */
struct client_message {
	struct op op;
	bool should_fail;
};
struct client_reply {
	struct result result;
	pid_t pid; /* FORK: the child's */
};
void client_run(const struct target *target, int worker, int socket, int child_socket)
	__attribute__((noreturn));
