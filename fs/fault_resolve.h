/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a fault thread does with the messages of a userfaultfd. */
#pragma once

#include <linux/userfaultfd.h>
#include <stdint.h>
#include <sys/types.h>

struct fault_thread;
struct mapping;

/*
 * Answer the page fault messages among @nr @messages, which were read at @now. With more than
 * one, threads that sleep are given their share.
 */
void fault_resolve_messages(struct fault_thread *thread, struct mapping *mapping,
			    const struct uffd_msg *messages, ssize_t nr, uint64_t now);
/* Follow an unmap, remap or remove message. */
void fault_resolve_event(struct fault_thread *thread, struct mapping *mapping,
			 const struct uffd_msg *message);
