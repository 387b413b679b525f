/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Resolving faults. Every path ends with the faulting thread woken, or, with on_exhausted=wait,
 * kept by the exhaustion thread, which wakes it in the end. A thread that was woken in vain
 * faults again, which is harmless; one that is not woken hangs.
 *
 * Where no page is to be had, or the backing fails, the page is taken out of the userfaultfd
 * before the thread is woken: then the kernel decides, and raises the SIGBUS that hugetlbfs
 * would. A tenant at its size is refused while the kernel has pages, and would give one, and so
 * is a page that may be on one node only: there the page is marked to raise SIGBUS.
 */
#include "fs/fault_resolve.h"

#include <errno.h>
#include <linux/userfaultfd.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "fs/clock.h"
#include "fs/control.h"
#include "fs/exhaustion.h"
#include "fs/fault_service.h"
#include "fs/fault_thread.h"
#include "fs/log.h"
#include "fs/mapping.h"
#include "fs/mount.h"
#include "fs/populate_ahead.h"
#include "fs/reconcile.h"
#include "fs/tenant.h"
#include "fs/trace.h"

static const enum fault_outcome outcome_of[NR_PAGE_OUTCOMES] = {
	[PAGE_PRESENT] = FAULT_PRESENT,
	[PAGE_FROM_RESERVATION] = FAULT_RESERVATION,
	[PAGE_FROM_FREE] = FAULT_FREE,
	[PAGE_FROM_SURPLUS] = FAULT_SURPLUS,
};

#ifndef UFFDIO_POISON /* Linux 6.6 */
struct uffdio_poison {
	struct uffdio_range range;
	__u64 mode;
	__s64 updated;
};
#define UFFDIO_POISON _IOWR(UFFDIO, 0x08, struct uffdio_poison)
#endif

/* Whether the kernel would give a page where we do not: a tenant at its size; a page that is to
 * be on a node that has none. */
static bool kernel_would_give(const struct mapping *mapping)
{
	struct numa_rule rule;

	if (subpool_is_full(mapping->space->subpool))
		return true;
	if (mapping->mount->nr_nodes == 1)
		return false;
	rule = page_space_rule(mapping->space);
	return numa_rule_is_strict(&rule);
}

/* Let whoever touches the page have SIGBUS, until it is unmapped, and wake who waits. */
static bool poison(const struct fault *fault, struct uffdio_range page)
{
	struct uffdio_poison poison = {.range = page};

	return kernel_would_give(fault->mapping) &&
	       ioctl(fault->uffd, UFFDIO_POISON, &poison) == 0;
}

/* @fault is over, and its thread awake. */
static void end_fault(struct fault_thread *thread, const struct fault *fault,
		      enum fault_outcome outcome, int node)
{
	uint64_t latency = clock_now_ns() - fault->start;

	trace_fault_end(fault->mapping->id, fault->idx, outcome, node, latency);
	if (fault->waited)
		fault_service_add_waiting(thread->service, -1);
	fault_stat_end(&thread->stat, fault_service_base(thread->service), fault->kind, outcome,
		       node, latency);
}

void fault_refuse(struct fault_thread *thread, struct fault *fault, enum fault_outcome why)
{
	uint64_t page_size = fault->mapping->mount->backing->page_size;
	struct uffdio_range page = {fault->address & ~(page_size - 1), page_size};

	log_debug(LOG_AREA_FAULT, "mapping %lu, page %ld: %s",
		  (unsigned long)fault->mapping->id, (long)fault->idx,
		  why == FAULT_REFUSED ? "no page is free, SIGBUS" : "left to the kernel");
	if (why == FAULT_REFUSED) {
		tenant_note(fault->mapping->mount, fault->mapping->inode, -ENOSPC);
		if (poison(fault, page))
			return;
	}
	exhaustion_note_refused(fault_service_exhaustion(thread->service), fault->mapping);
	/* This wakes, too. It fails where the page is not mapped any more. */
	if (ioctl(fault->uffd, UFFDIO_UNREGISTER, &page) < 0)
		mapping_wake(fault->mapping, fault->uffd, fault->address);
	end_fault(thread, fault, why, -1);
}

int fault_instantiate(struct mapping *mapping, int64_t idx, pid_t tid, int *ret_node)
{
	bool keep = mapping_has_own_pages(mapping) && mapping_keeps_reservation(mapping);
	struct page_hint hint = mapping_hint(mapping, tid);
	int r = page_instantiate_for(mapping->space, idx, &hint, ret_node);

	/* It may have gone without a word (MADV_REMOVE); then waking would be in vain for ever.
	 */
	if (r == PAGE_PRESENT && page_reconcile(mapping->space, idx, keep) > 0)
		r = page_instantiate_for(mapping->space, idx, &hint, ret_node);
	if (!reconcile_may_help(mapping->mount, r))
		return r;
	return page_instantiate_for(mapping->space, idx, &hint, ret_node);
}

/* Behind the end of a file that is longer only for the kernel, the fault would come again. */
static int cut_file(struct backing_file *file)
{
	const struct backing_ops *ops = file->backing->ops;

	return ops->cut ? ops->cut(file) : 0;
}

bool fault_resolved(struct fault_thread *thread, struct fault *fault, int r)
{
	struct mapping *mapping = fault->mapping;

	if (r == -EAGAIN)
		return false;
	if (r == -ENOSPC && exhaustion_wait(thread, fault))
		return true;
	if (r == -ENOSPC) {
		fault_refuse(thread, fault, FAULT_REFUSED);
	} else if (r == -ERANGE && cut_file(mapping->space->file) == 0) {
		mapping_wake(mapping, fault->uffd, fault->address);
		end_fault(thread, fault, FAULT_REFUSED, -1);
	} else if (r < 0) {
		fault_refuse(thread, fault, FAULT_FAILED);
	} else {
		/* UFFDIO_COPY has woken who waits for a private page, if there was one to copy.
		 */
		if (r == PAGE_PRESENT || !mapping_has_own_pages(mapping))
			mapping_wake(mapping, fault->uffd, fault->address);
		end_fault(thread, fault, fault->waited ? FAULT_WAITED : outcome_of[r],
			  fault->node);
	}
	return true;
}

/* An attempt at @fault. false: it has to be tried again when the messages were read. */
static bool fault_resolve(struct fault_thread *thread, struct fault *fault)
{
	struct mapping *mapping = fault->mapping;
	int64_t ahead = fault_service_ahead_pages(thread->service);
	int r;

	if (mapping->dead) {
		mapping_wake(mapping, fault->uffd, fault->address);
		end_fault(thread, fault, FAULT_STALE, -1);
		return true;
	}
	if (populate_window(thread, fault, ahead))
		return true;
	r = fault_instantiate(mapping, fault->idx, fault->tid, &fault->node);
	if (!fault_resolved(thread, fault, r))
		return false;
	if (r >= 0)
		populate_ahead(thread, mapping, ahead);
	return true;
}

struct fault_job {
	struct fault_work work;
	struct fault fault; /* with a reference on the mapping */
};

static void run_fault(struct fault_thread *thread, struct fault_work *work)
{
	struct fault_job *job = (struct fault_job *)work;

	if (!fault_resolve(thread, &job->fault)) {
		fault_thread_send(thread, work);
		return;
	}
	mapping_put(job->fault.mapping);
	free(job);
}

void fault_retry(struct fault_thread *thread, const struct fault *fault)
{
	struct fault_job *job = malloc(sizeof(*job));

	if (!job) {
		/* Let it come again by itself. */
		mapping_wake(fault->mapping, fault->uffd, fault->address);
		end_fault(thread, fault, FAULT_STALE, -1);
		return;
	}
	job->work.run = run_fault;
	job->fault = *fault;
	mapping_ref(fault->mapping);
	fault_thread_send(thread, &job->work);
}

/* Give a fault to a thread that sleeps. */
static bool hand_over(struct fault_thread *thread, const struct fault *fault)
{
	struct fault_job *job = malloc(sizeof(*job));

	if (!job)
		return false;
	job->work.run = run_fault;
	job->fault = *fault;
	mapping_ref(fault->mapping);
	if (fault_service_send_to_sleeping(thread->service, &job->work))
		return true;
	mapping_put(fault->mapping);
	free(job);
	return false;
}

/* Userfaultfds are registered for missing pages only, by clients that do as they should. */
static enum fault_kind kind_of(const struct uffd_msg *message)
{
	if (message->arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WP)
		return FAULT_WRITE_PROTECT;
	if (message->arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_MINOR)
		return FAULT_MINOR;
	return FAULT_MISSING;
}

void fault_resolve_messages(struct fault_thread *thread, struct mapping *mapping, int uffd,
			    const struct uffd_msg *messages, ssize_t nr, uint64_t now)
{
	struct fault fault = {.mapping = mapping, .uffd = uffd, .start = now};

	for (ssize_t i = nr - 1; i >= 0; i--) {
		if (messages[i].event != UFFD_EVENT_PAGEFAULT)
			continue;
		fault_stat_count(&thread->stat.nr_started);
		mapping->nr_faults++;
		fault.kind = kind_of(&messages[i]);
		fault.address = messages[i].arg.pagefault.address;
		fault.tid = (pid_t)messages[i].arg.pagefault.feat.ptid;
		fault.idx = mapping_index_at(mapping, fault.address);
		trace_fault_begin(mapping->id, fault.idx, fault.address, fault.kind);
		if (fault.idx < 0) {
			mapping_wake(mapping, uffd, fault.address);
			end_fault(thread, &fault, FAULT_STALE, -1);
			continue;
		}
		/* The last one, the first that came, is this thread's own. */
		if (i > 0 && hand_over(thread, &fault))
			continue;
		if (!fault_resolve(thread, &fault))
			fault_retry(thread, &fault);
	}
}

void fault_resolve_event(struct fault_thread *thread, struct mapping *mapping,
			 const struct uffd_msg *message)
{
	fault_stat_count(&thread->stat.nr_events);
	switch (message->event) {
	case UFFD_EVENT_UNMAP:
		mapping_unmap(mapping, message->arg.remove.start, message->arg.remove.end);
		if (mapping->dead)
			control_poke(mapping->mount->control);
		break;
	case UFFD_EVENT_REMAP:
		mapping_move(mapping, message->arg.remap.from, message->arg.remap.to,
			     message->arg.remap.len);
		break;
	case UFFD_EVENT_FORK:
		/* Nobody asked for it: reading it has made a descriptor of ours. */
		close((int)message->arg.fork.ufd);
		break;
	case UFFD_EVENT_REMOVE:
		mapping_discard(mapping, message->arg.remove.start, message->arg.remove.end);
		break;
	}
}
