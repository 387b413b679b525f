/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Populate jobs: what several fault threads work off together. */
#include "fs/populate.h"

#include <errno.h>
#include <stdlib.h>
#include <urcu/compiler.h>

#include "fs/clock.h"
#include "fs/fault_service.h"
#include "fs/mapping.h"

/* How long after a window was there its stream must come back to be called close behind. */
#define CLOSE_NS 500000

struct populate_job {
	struct mapping *mapping; /* a reference */
	_Atomic int64_t next;    /* pages [next, to) whatever they are */
	int64_t to;
	bool ahead; /* and then what the mapping's streams have ahead */
	int stream; /* of a fault: only what is ahead of this one */
	int64_t max_pages;
	_Atomic uint32_t nr_refs; /* threads, and whoever starts it */
	bool has_fault;
	struct fault fault; /* woken in the end */
	_Atomic int result; /* of the fault's own page */
	void (*done)(void *data);
	void *data;
};

/* One thread's share. */
struct populate_work {
	struct fault_work work;
	struct fault_background background;
	struct populate_job *job;
};

static struct populate_job *job_new(struct mapping *mapping, int64_t from, int64_t to)
{
	struct populate_job *job = calloc(1, sizeof(*job));

	if (job) {
		job->mapping = mapping_ref(mapping);
		job->next = from;
		job->to = to;
		job->nr_refs = 1;
	}
	return job;
}

/* The window is there: wake its stream, and remember to go on if it does not come back. */
static void finish_window(struct fault_thread *thread, struct populate_job *job)
{
	struct fault *fault = &job->fault;

	ahead_done(&job->mapping->ahead, fault->idx, clock_now_ns());
	if (!fault_resolved(thread, fault, job->result))
		fault_retry(thread, fault);
	populate_drop_lazy(thread);
	thread->lazy = mapping_ref(job->mapping);
	thread->lazy_idx = fault->idx;
	thread->lazy_max = job->max_pages;
}

static void job_put(struct fault_thread *thread, struct populate_job *job)
{
	if (--job->nr_refs > 0)
		return;
	if (job->has_fault)
		finish_window(thread, job);
	if (job->done)
		job->done(job->data);
	if (job->ahead)
		job->mapping->nr_ahead--;
	mapping_put(job->mapping);
	free(job);
}

/* The next page of the job, or -1. */
static int64_t job_claim(struct populate_job *job)
{
	int64_t idx = job->next < job->to ? atomic_fetch_add(&job->next, 1) : job->to;

	if (idx < job->to)
		return idx;
	if (job->has_fault)
		return ahead_claim_from(&job->mapping->ahead, job->stream, job->mapping->space);
	return job->ahead ? ahead_claim(&job->mapping->ahead, job->mapping->space) : -1;
}

static bool populate_step(struct fault_thread *thread, struct fault_background *background)
{
	struct populate_work *work =
		caa_container_of(background, struct populate_work, background);
	struct populate_job *job = work->job;
	int64_t idx = -1;
	int r = 0;

	if (!job->mapping->dead && !thread->stop)
		idx = job_claim(job);
	if (idx >= 0 && job->has_fault && idx == job->fault.idx) {
		r = fault_instantiate(job->mapping, idx);
		job->result = r;
	} else if (idx >= 0) {
		r = page_instantiate(job->mapping->space, idx, POOL_ANY_NODE);
		if (r > PAGE_PRESENT)
			fault_thread_count(thread, FAULT_AHEAD);
	}
	if (idx >= 0 && r >= 0)
		return true;
	job_put(thread, job);
	free(work);
	return false;
}

static void run_populate(struct fault_thread *thread, struct fault_work *work)
{
	struct populate_work *populate = (struct populate_work *)work;

	populate->background.step = populate_step;
	fault_thread_add_background(thread, &populate->background);
}

static struct populate_work *work_new(struct populate_job *job)
{
	struct populate_work *work = malloc(sizeof(*work));

	if (work) {
		work->work.run = run_populate;
		work->job = job;
		job->nr_refs++;
	}
	return work;
}

/* Let @thread and up to @nr sleeping ones work on @job, and drop the caller's reference. */
static void job_start(struct fault_thread *thread, struct populate_job *job, int64_t nr)
{
	struct populate_work *work = work_new(job);

	if (work)
		run_populate(thread, &work->work);
	for (; nr > 0; nr--) {
		work = work_new(job);
		if (!work)
			break;
		if (!fault_service_send_to_sleeping(thread->service, &work->work)) {
			job->nr_refs--;
			free(work);
			break;
		}
	}
	job_put(thread, job);
}

bool populate_window(struct fault_thread *thread, const struct fault *fault, int64_t max_pages)
{
	struct mapping *mapping = fault->mapping;
	struct populate_job *job;
	int64_t nr;

	if (max_pages == 0 || mapping->dead || mapping->flags & HUGEFUSE_MAP_PRIVATE ||
	    ahead_since_done(&mapping->ahead, fault->idx, fault->start) > CLOSE_NS)
		return false;
	job = job_new(mapping, fault->idx, fault->idx + 1);
	if (!job)
		return false;
	nr = ahead_fault(&mapping->ahead, fault->idx, max_pages, mapping->to);
	job->ahead = true;
	job->max_pages = max_pages;
	job->has_fault = true;
	job->fault = *fault;
	job->stream = ahead_stream_at(&mapping->ahead, fault->idx);
	job->result = -EAGAIN; /* if no thread comes to it */
	mapping->nr_ahead++;
	job_start(thread, job, nr);
	return true;
}

void populate_ahead(struct fault_thread *thread, struct mapping *mapping, int64_t idx,
		    int64_t max_pages)
{
	struct populate_job *job;
	int64_t nr;

	if (max_pages == 0 || mapping->flags & HUGEFUSE_MAP_PRIVATE)
		return;
	nr = ahead_fault(&mapping->ahead, idx, max_pages, mapping->to);
	ahead_done(&mapping->ahead, idx, clock_now_ns());
	/* A job that is under way finds the new window by itself. */
	if (nr == 0 || mapping->nr_ahead > 0)
		return;
	job = job_new(mapping, 0, 0);
	if (!job)
		return;
	job->ahead = true;
	mapping->nr_ahead++;
	job_start(thread, job, nr - 1);
}

void populate_drop_lazy(struct fault_thread *thread)
{
	mapping_put(thread->lazy);
	thread->lazy = NULL;
}

void populate_lazy(struct fault_thread *thread)
{
	if (!thread->lazy->dead)
		populate_ahead(thread, thread->lazy, thread->lazy_idx, thread->lazy_max);
	populate_drop_lazy(thread);
}

int populate_range(struct fault_service *service, struct mapping *mapping, int64_t from,
		   int64_t to, void (*done)(void *data), void *data)
{
	struct populate_job *job = job_new(mapping, from, to);
	uint32_t nr_threads = fault_service_nr_threads(service);
	struct populate_work *work;

	if (!job)
		return -ENOMEM;
	job->done = done;
	job->data = data;
	for (uint32_t i = 0; i < nr_threads && i < (uint64_t)(to - from); i++) {
		work = work_new(job);
		if (!work)
			break; /* the others do it */
		fault_thread_send(fault_service_thread(service, i), &work->work);
	}
	job_put(NULL, job);
	return 0;
}
