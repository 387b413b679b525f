/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Populating ahead. A thread takes part by a background work for the mapping, which ends when
 * there is no page left to claim.
 */
#include "fs/populate_ahead.h"

#include <errno.h>
#include <stdlib.h>
#include <urcu/compiler.h>

#include "fs/fault_service.h"
#include "fs/mapping.h"

/* A fault that waits for its window. */
struct waiting_fault {
	struct fault fault; /* with a reference on the mapping */
	int result;         /* of its page; set by who claims that */
};

/* One thread's share. */
struct ahead_work {
	struct fault_work work;
	struct fault_background background;
	struct mapping *mapping; /* a reference */
};

static void finish_window(struct fault_thread *thread, struct waiting_fault *waiting,
			  int64_t end)
{
	struct fault *fault = &waiting->fault;

	if (waiting->result >= 0)
		mapping_enter(fault->mapping, fault->idx, end);
	if (!fault_resolved(thread, fault, waiting->result))
		fault_retry(thread, fault);
	mapping_put(fault->mapping);
	free(waiting);
}

/* Populate a page of @mapping. false: there is none, or @thread stops. */
static bool populate_next(struct fault_thread *thread, struct mapping *mapping)
{
	struct ahead_claim claim;
	struct waiting_fault *waiting;
	int r;

	if (mapping->dead || thread->stop ||
	    !ahead_claim(&mapping->ahead, mapping->space, &claim))
		return false;
	waiting = claim.waiter;
	if (waiting) {
		r = fault_instantiate(mapping, claim.idx, waiting->fault.tid,
				      &waiting->fault.node);
		waiting->result = r;
	} else {
		r = mapping_instantiate(mapping, claim.idx);
		if (r > PAGE_PRESENT)
			fault_stat_count(&thread->stat.nr_ahead);
	}
	ahead_done(&mapping->ahead, &claim, r < 0);
	return true;
}

static bool ahead_step(struct fault_thread *thread, struct fault_background *background)
{
	struct ahead_work *work = caa_container_of(background, struct ahead_work, background);
	struct mapping *mapping = work->mapping;
	bool more = populate_next(thread, mapping), over = mapping->dead || thread->stop;
	struct waiting_fault *waiting;
	int64_t end;

	while ((waiting = ahead_take_ready(&mapping->ahead, !more && over, &end)))
		finish_window(thread, waiting, end);
	if (more)
		return true;
	mapping_put(mapping);
	free(work);
	return false;
}

static bool takes_part(const struct fault_thread *thread, const struct mapping *mapping)
{
	for (struct fault_background *b = thread->background; b; b = b->next) {
		if (b->step == ahead_step &&
		    caa_container_of(b, struct ahead_work, background)->mapping == mapping)
			return true;
	}
	return false;
}

static void run_ahead(struct fault_thread *thread, struct fault_work *work)
{
	struct ahead_work *ahead = (struct ahead_work *)work;

	if (takes_part(thread, ahead->mapping)) {
		mapping_put(ahead->mapping);
		free(ahead);
		return;
	}
	ahead->background.step = ahead_step;
	fault_thread_add_background(thread, &ahead->background);
}

static struct ahead_work *work_new(struct mapping *mapping)
{
	struct ahead_work *work = malloc(sizeof(*work));

	if (work) {
		work->work.run = run_ahead;
		work->mapping = mapping_ref(mapping);
	}
	return work;
}

/* Let the threads that sleep take part. */
static void call_others(struct fault_thread *thread, struct mapping *mapping)
{
	uint32_t nr = fault_service_nr_threads(thread->service);
	struct ahead_work *work;

	while (nr-- > 0 && (work = work_new(mapping))) {
		if (!fault_service_send_to_sleeping(thread->service, &work->work)) {
			mapping_put(mapping);
			free(work);
			break;
		}
	}
}

bool populate_window(struct fault_thread *thread, const struct fault *fault, int64_t max_pages)
{
	struct mapping *mapping = fault->mapping;
	struct waiting_fault *waiting;
	struct ahead_work *work;

	if (max_pages == 0 || thread->stop || mapping_has_own_pages(mapping))
		return false;
	waiting = malloc(sizeof(*waiting));
	work = work_new(mapping);
	if (!waiting || !work)
		goto out_free;
	waiting->fault = *fault;
	waiting->result = -EAGAIN; /* if nobody comes to it */
	mapping_ref(mapping);
	if (!ahead_fault(&mapping->ahead, fault->idx, max_pages, mapping->to, waiting)) {
		mapping_put(mapping);
		goto out_free;
	}
	run_ahead(thread, &work->work);
	call_others(thread, mapping);
	return true;

out_free:
	free(waiting);
	if (work)
		mapping_put(mapping);
	free(work);
	return false;
}

void populate_ahead(struct fault_thread *thread, struct mapping *mapping, int64_t max_pages)
{
	struct ahead_work *work;

	if (max_pages == 0 || thread->stop || mapping_has_own_pages(mapping))
		return;
	work = work_new(mapping);
	if (work)
		run_ahead(thread, &work->work);
}
