/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Populate jobs: what all fault threads work off together. */
#include "fs/populate.h"

#include <errno.h>
#include <stdlib.h>
#include <urcu/compiler.h>

#include "fs/mapping.h"

struct populate_job {
	struct mapping *mapping; /* a reference */
	_Atomic int64_t next;    /* pages [next, to) are to do */
	int64_t to;
	_Atomic uint32_t nr_refs; /* threads, and whoever starts it */
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

static void job_put(struct populate_job *job)
{
	if (--job->nr_refs > 0)
		return;
	job->done(job->data);
	mapping_put(job->mapping);
	free(job);
}

static bool populate_step(struct fault_thread *thread, struct fault_background *background)
{
	struct populate_work *work =
		caa_container_of(background, struct populate_work, background);
	struct populate_job *job = work->job;
	int64_t idx = job->to;
	int r;

	if (!job->mapping->dead && !thread->stop && job->next < job->to)
		idx = atomic_fetch_add(&job->next, 1);
	if (idx < job->to) {
		r = mapping_instantiate(job->mapping, idx);
		if (r > PAGE_PRESENT)
			fault_stat_count(&thread->stat.nr_ahead);
		if (r >= 0)
			return true;
	}
	job_put(job);
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
	job_put(job);
	return 0;
}
