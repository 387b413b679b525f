/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Fault service: the set of fault threads, what is spread over them, and what they have
 * counted. */
#include "fs/fault_service.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/clock.h"
#include "fs/exhaustion.h"

struct fault_service {
	struct mount *mount;
	struct exhaustion *exhaustion;
	uint32_t nr_threads;        /* set at init */
	int64_t ahead_pages;        /* set at init; largest window */
	_Atomic uint32_t next_home; /* where the next mapping's first userfaultfd goes */
	struct fault_thread *threads;
	struct fault_stat_base base; /* what was counted when it was cleared */
	_Atomic uint64_t nr_waiting; /* faults that wait for a page */
};

int fault_service_new(struct mount *mount, uint32_t nr_threads,
		      struct fault_service **ret_service)
{
	struct fault_service *service;
	int r;

	if (nr_threads == 0)
		nr_threads = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
	service = aligned_alloc(_Alignof(struct fault_service), sizeof(*service));
	if (!service)
		return -ENOMEM;
	memset(service, 0, sizeof(*service));
	service->threads = aligned_alloc(_Alignof(struct fault_thread),
					 nr_threads * sizeof(*service->threads));
	if (!service->threads) {
		free(service);
		return -ENOMEM;
	}
	memset(service->threads, 0, nr_threads * sizeof(*service->threads));
	service->mount = mount;
	service->nr_threads = nr_threads;
	service->ahead_pages =
		(int64_t)(mount->options->ahead_bytes / mount->backing->page_size);
	r = fault_stat_base_init(&service->base, mount->nr_nodes);
	if (r == 0)
		r = exhaustion_new(mount, &service->exhaustion);
	for (uint32_t i = 0; i < nr_threads && r == 0; i++)
		r = fault_thread_start(&service->threads[i], service, (int)i, mount->nr_nodes);
	if (r < 0) {
		fault_service_free(service);
		return r;
	}
	*ret_service = service;
	return 0;
}

void fault_service_free(struct fault_service *service)
{
	if (!service)
		return;
	exhaustion_free(service->exhaustion);
	for (uint32_t i = 0; i < service->nr_threads; i++)
		fault_thread_stop(&service->threads[i]);
	fault_stat_base_deinit(&service->base);
	free(service->threads);
	free(service);
}

uint32_t fault_service_nr_threads(const struct fault_service *service)
{
	return service->nr_threads;
}

struct exhaustion *fault_service_exhaustion(struct fault_service *service)
{
	return service->exhaustion;
}

/* What the threads that have sources of a mapping do to end its service; made when it begins,
 * so that the end cannot fail. */
struct removal {
	struct mapping *mapping; /* a reference, once it is under way */
	_Atomic uint32_t nr_left;
	struct remove_work {
		struct fault_work work;
		struct removal *removal;
		struct fault_source *sources; /* of the thread with this number */
	} work[];
};

static void removal_put(struct removal *removal)
{
	if (--removal->nr_left > 0)
		return;
	mapping_put(removal->mapping);
	free(removal);
}

static void run_remove(struct fault_thread *thread, struct fault_work *work)
{
	struct remove_work *remove = (struct remove_work *)work;

	fault_thread_drop_sources(thread, &remove->sources);
	removal_put(remove->removal);
}

static struct removal *removal_new(uint32_t nr_threads)
{
	struct removal *removal;

	removal = calloc(1, sizeof(*removal) + nr_threads * sizeof(removal->work[0]));
	if (!removal)
		return NULL;
	for (uint32_t i = 0; i < nr_threads; i++) {
		removal->work[i].work.run = run_remove;
		removal->work[i].removal = removal;
	}
	return removal;
}

int fault_service_add(struct fault_service *service, struct mapping *mapping)
{
	uint32_t home = atomic_fetch_add(&service->next_home, mapping->nr_uffds), thread;
	struct removal *removal;
	int r = 0;

	if (mapping->nr_uffds == 0)
		return 0; /* the kernel serves it */
	removal = removal_new(service->nr_threads);
	if (!removal)
		return -ENOMEM;
	for (uint32_t i = 0; i < mapping->nr_uffds && r == 0; i++) {
		thread = (home + i) % service->nr_threads;
		r = fault_thread_add_source(&service->threads[thread], mapping,
					    mapping->uffd[i], &removal->work[thread].sources);
	}
	mapping->removal = removal;
	if (r < 0)
		fault_service_remove(service, mapping);
	return r;
}

void fault_service_remove(struct fault_service *service, struct mapping *mapping)
{
	struct removal *removal = atomic_exchange(&mapping->removal, NULL);

	if (!removal)
		return;
	removal->mapping = mapping_ref(mapping);
	removal->nr_left = 1;
	for (uint32_t i = 0; i < service->nr_threads; i++) {
		if (!removal->work[i].sources)
			continue;
		removal->nr_left++;
		fault_thread_send(&service->threads[i], &removal->work[i].work);
	}
	removal_put(removal);
}

bool fault_service_send_to_sleeping(struct fault_service *service, struct fault_work *work)
{
	for (uint32_t i = 0; i < service->nr_threads; i++) {
		if (fault_thread_send_if_sleeping(&service->threads[i], work))
			return true;
	}
	return false;
}

int64_t fault_service_ahead_pages(const struct fault_service *service)
{
	return service->ahead_pages;
}

struct fault_thread *fault_service_thread(struct fault_service *service, uint32_t number)
{
	return &service->threads[number];
}

/* Draining: freed by the last of the threads and the one that waits. */
struct drain {
	_Atomic uint32_t nr_busy, nr_refs;
	struct waitqueue done;
};

struct drain_work {
	struct fault_work work;
	struct drain *drain;
};

static void drain_put(struct drain *drain)
{
	if (--drain->nr_refs == 0)
		free(drain);
}

static void run_drain(struct fault_thread *thread, struct fault_work *work)
{
	struct drain *drain = ((struct drain_work *)work)->drain;

	fault_thread_poll(thread);
	if (--drain->nr_busy == 0)
		waitqueue_wake_all(&drain->done);
	drain_put(drain);
	free(work);
}

/*
 * Whether all that clients had sent is done, without asking the threads, which would disturb
 * them. What was sent is to be read while the thread's epoll is readable; what was read is
 * begun when the thread sleeps, which it did since; and what was begun, by whatever thread, is
 * over if as many have ended as begun. Both numbers only grow: if the older one of what ended
 * is the younger one of what began, that was so in between.
 */
static bool is_idle(struct fault_service *service)
{
	uint64_t nr_ended = 0, nr_started = 0;

	for (uint32_t i = 0; i < service->nr_threads; i++) {
		if (!fault_thread_is_idle(&service->threads[i]))
			return false;
	}
	for (uint32_t i = 0; i < service->nr_threads; i++)
		nr_ended += service->threads[i].stat.nr_ended;
	for (uint32_t i = 0; i < service->nr_threads; i++)
		nr_started += service->threads[i].stat.nr_started;
	return nr_ended == nr_started;
}

static int drain_threads(struct fault_service *service, uint64_t timeout_ns)
{
	struct drain *drain = calloc(1, sizeof(*drain));
	uint64_t until = clock_now_ns() + timeout_ns, now;
	struct drain_work *work;
	uint32_t count;
	int r = 0;

	if (!drain)
		return -ENOMEM;
	drain->nr_busy = service->nr_threads;
	drain->nr_refs = 1;
	for (uint32_t i = 0; i < service->nr_threads; i++) {
		work = malloc(sizeof(*work));
		if (!work) {
			drain->nr_busy--;
			continue;
		}
		work->work.run = run_drain;
		work->drain = drain;
		drain->nr_refs++;
		fault_thread_send(&service->threads[i], &work->work);
	}
	while (r == 0) {
		count = waitqueue_read(&drain->done);
		if (drain->nr_busy == 0)
			break;
		now = clock_now_ns();
		r = now >= until ? -ETIMEDOUT : 0;
		if (r == 0)
			waitqueue_wait(&drain->done, count, until - now);
	}
	drain_put(drain);
	return r;
}

int fault_service_drain(struct fault_service *service, uint64_t timeout_ns)
{
	return is_idle(service) ? 0 : drain_threads(service, timeout_ns);
}

static struct fault_stat *stat_of(void *data, uint32_t number)
{
	struct fault_service *service = data;

	return &service->threads[number].stat;
}

const struct fault_stat_base *fault_service_base(const struct fault_service *service)
{
	return &service->base;
}

void fault_service_add_waiting(struct fault_service *service, int nr)
{
	service->nr_waiting += (uint64_t)nr;
}

int fault_service_clear(struct fault_service *service)
{
	return fault_stat_clear(&service->base, stat_of, service, service->nr_threads);
}

int fault_service_read(struct fault_service *service, struct fault_sum *ret_sum,
		       uint64_t *ret_waiting, uint64_t *ret_age_ns)
{
	*ret_waiting = service->nr_waiting;
	return fault_stat_read(&service->base, stat_of, service, service->nr_threads, ret_sum,
			       ret_age_ns);
}
