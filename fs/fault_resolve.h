/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a fault thread does with the messages of a userfaultfd. */
#pragma once

#include <linux/userfaultfd.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "fs/fault_thread.h"

/* A client's thread waits for a page. */
struct fault {
	struct mapping *mapping;
	int uffd; /* the one that it came from */
	int64_t idx;
	uint64_t address;
	uint64_t start; /* clock_now_ns() when it was read */
	enum fault_kind kind;
	bool waited; /* has waited for a page */
	int node;    /* of the page, when it is there */
	pid_t tid;   /* the thread; 0: not known */
};

/*
 * Answer the page fault messages among @nr @messages, which were read from @uffd at @now. With
 * more than one, threads that sleep are given their share.
 */
void fault_resolve_messages(struct fault_thread *thread, struct mapping *mapping, int uffd,
			    const struct uffd_msg *messages, ssize_t nr, uint64_t now);
/* Follow an unmap, remap or remove message. */
void fault_resolve_event(struct fault_thread *thread, struct mapping *mapping,
			 const struct uffd_msg *message);

/*
 * Instantiate page @idx, which thread @tid faulted on: what page_instantiate_for() returns,
 * after looking for pages that the kernel has given or taken where that could make it succeed.
 */
int fault_instantiate(struct mapping *mapping, int64_t idx, pid_t tid, int *ret_node);
/* Try @fault again on @thread, soon. */
void fault_retry(struct fault_thread *thread, const struct fault *fault);
/* Let the kernel decide what becomes of it, which without a free page is SIGBUS. */
void fault_refuse(struct fault_thread *thread, struct fault *fault, enum fault_outcome why);
/*
 * The page of @fault was instantiated with the result @r, or could not be: wake, wait or
 * refuse. false: try again when the messages have been read.
 */
bool fault_resolved(struct fault_thread *thread, struct fault *fault, int r);
