/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Running a configuration: a mount's counters and locks over the memory backing, whose populate
 * is replaced by a wait until a point in time, page spaces for the files, and the threads. All
 * threads begin together; each notes when it ends.
 */
#include "bench/contention_run.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "fs/backing_mem.h"
#include "fs/clock.h"

#define PRIVATE_OBJECT (1ULL << 63)
#define SAMPLE_NS      250000000ULL /* how long one thread is measured for, about */
#define MIN_SAMPLE     16
#define STACK_BYTES    (128 << 10)

/* Files and what they share. */
struct stage {
	struct backing_mem mem; /* first: the backing of the files */
	struct backing_ops ops;
	const struct backing_ops *mem_ops;
	uint64_t clear_ns;
	struct page_core core;
	uint32_t nr_files; /* that are set up */
	int64_t pages_per_file;
	struct backing_file **files;
	struct page_space *spaces;
};

struct worker {
	pthread_t thread;
	const struct contention_config *config;
	struct stage *stage;
	uint32_t number;
	pthread_barrier_t *barrier;
	int64_t *pages;
	int64_t nr_pages;
	uint64_t start_ns, end_ns, populate_ns;
	int64_t outcomes[NR_PAGE_OUTCOMES];
	int error;
};

static _Thread_local uint64_t populate_ns; /* what this thread has populated for */
static _Thread_local uint64_t late_ns;     /* what of that was more than was asked */

static uint64_t next_random(uint64_t *state)
{
	uint64_t word = *state += 0x9e3779b97f4a7c15ULL; /* splitmix64 */

	word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9ULL;
	word = (word ^ (word >> 27)) * 0x94d049bb133111ebULL;
	return word ^ (word >> 31);
}

static void wait_until(uint64_t deadline_ns)
{
	struct timespec deadline = {
		.tv_sec = (time_t)(deadline_ns / 1000000000),
		.tv_nsec = (long)(deadline_ns % 1000000000),
	};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, NULL) == EINTR)
		;
}

/*
 * A thread runs again some time after its timer: by as much its next waits are shorter, so that
 * the mean is what was asked.
 */
static int timed_populate(struct backing_file *file, int64_t idx, int node)
{
	struct stage *stage = (struct stage *)file->backing;
	uint64_t start_ns = clock_now_ns(), clear_ns = stage->clear_ns, took_ns;
	uint64_t shorter_ns = late_ns < clear_ns / 2 ? late_ns : clear_ns / 2;
	int r;

	if (clear_ns)
		wait_until(start_ns + clear_ns - shorter_ns);
	r = stage->mem_ops->populate(file, idx, node);
	took_ns = clock_now_ns() - start_ns;
	populate_ns += took_ns;
	late_ns = late_ns + took_ns > clear_ns ? late_ns + took_ns - clear_ns : 0;
	return r;
}

/* Schedules */

static int64_t common_pages(const struct contention_config *config)
{
	return (int64_t)((double)config->nr_pages * config->same_page / 100);
}

static int64_t schedule_every_page(const struct contention_config *config, uint32_t number,
				   int64_t *ret_pages)
{
	uint64_t state = config->seed + ((uint64_t)number << 32);

	for (int64_t i = 0; i < config->nr_pages; i++) {
		int64_t other = (int64_t)(next_random(&state) % (uint64_t)(i + 1));

		ret_pages[i] = ret_pages[other];
		ret_pages[other] = i;
	}
	return config->nr_pages;
}

int64_t contention_schedule(const struct contention_config *config, uint32_t number,
			    int64_t *ret_pages)
{
	int64_t nr_common = common_pages(config), common = 0, nr = 0;
	int64_t nr_divided = config->nr_pages - nr_common;
	int64_t own = nr_divided * number / config->nr_threads;
	int64_t end = nr_divided * (number + 1) / config->nr_threads, nr_own = end - own;

	if (config->every_page)
		return schedule_every_page(config, number, ret_pages);
	/* The first nr_common pages are everybody's, spread evenly among a thread's own. */
	while (own < end || common < nr_common) {
		if (own == end ||
		    (common < nr_common && common * nr_own <= (nr - common) * nr_common))
			ret_pages[nr++] = common++;
		else
			ret_pages[nr++] = nr_common + own++;
	}
	return nr;
}

double contention_best_seconds(const struct contention_config *config)
{
	int64_t nr = (config->nr_pages + config->nr_threads - 1) / config->nr_threads;

	return (double)nr * (double)config->clear_ns / 1e9;
}

/* The stage */

static void stage_deinit(struct stage *stage)
{
	for (uint32_t i = 0; i < stage->nr_files; i++) {
		stage->mem_ops->file_close(stage->files[i], true);
		page_space_deinit(&stage->spaces[i]);
	}
	free(stage->files);
	free(stage->spaces);
	page_core_deinit(&stage->core);
}

static int stage_add_file(struct stage *stage, const struct contention_config *config,
			  uint64_t number)
{
	uint32_t i = stage->nr_files;
	bool private = config->private_mappings;
	uint64_t object = private ? PRIVATE_OBJECT | 1 : number + i;
	int64_t offset = private ? (int64_t)(number + i * (uint64_t)stage->pages_per_file) : 0;
	int r = stage->ops.file_open(&stage->mem.backing, object, -1, &stage->files[i]);

	if (r < 0)
		return r;
	r = stage->ops.resize(stage->files[i], stage->pages_per_file);
	if (r == 0)
		r = page_space_init(&stage->spaces[i], &stage->core, stage->files[i], object,
				    offset, stage->pages_per_file);
	if (r < 0) {
		stage->mem_ops->file_close(stage->files[i], true);
		return r;
	}
	stage->nr_files++;
	if (config->reserved) {
		int64_t got = page_reserve(&stage->spaces[i], 0, stage->pages_per_file, NULL);

		r = got < 0 ? (int)got : 0;
	}
	return r;
}

static int stage_init(struct stage *stage, const struct contention_config *config)
{
	uint64_t state = config->seed, number = 2 + next_random(&state) % 1000000;
	long nr_cpus = sysconf(_SC_NPROCESSORS_CONF);
	uint32_t nr_mutexes = config->nr_mutexes;
	int64_t nr_pages;
	int r;

	*stage = (struct stage){.clear_ns = config->clear_ns};
	backing_mem_init(&stage->mem, config->page_size, 1);
	stage->mem_ops = stage->mem.backing.ops;
	stage->ops = *stage->mem_ops;
	stage->ops.populate = timed_populate;
	stage->mem.backing.ops = &stage->ops;
	stage->pages_per_file = (config->nr_pages + config->nr_files - 1) / config->nr_files;
	nr_pages = stage->pages_per_file * config->nr_files;
	if (nr_mutexes == 0)
		nr_mutexes = fault_mutex_default_count(
			nr_cpus > config->nr_threads ? (unsigned)nr_cpus : config->nr_threads);
	r = page_core_init(&stage->core, 1, &nr_pages, SUBPOOL_NO_LIMIT, 0, nr_mutexes,
			   config->region_lock_global);
	if (r < 0)
		return r;
	stage->core.faults.hash = config->hash;
	stage->files = calloc(config->nr_files, sizeof(stage->files[0]));
	stage->spaces = aligned_alloc(_Alignof(struct page_space),
				      config->nr_files * sizeof(stage->spaces[0]));
	r = stage->files && stage->spaces ? 0 : -ENOMEM;
	while (r == 0 && stage->nr_files < config->nr_files)
		r = stage_add_file(stage, config, number);
	if (r < 0)
		stage_deinit(stage);
	return r;
}

/* The threads */

static int fault(struct worker *worker, int64_t page)
{
	struct stage *stage = worker->stage;
	struct page_space *space = &stage->spaces[page / stage->pages_per_file];
	int r = page_instantiate(space, page % stage->pages_per_file, POOL_ANY_NODE);

	if (r >= 0)
		worker->outcomes[r]++;
	return r;
}

static void *work(void *argument)
{
	struct worker *worker = argument;

	prctl(PR_SET_TIMERSLACK, 1UL);
	pthread_barrier_wait(worker->barrier);
	worker->start_ns = clock_now_ns();
	if (worker->config->stagger_ns)
		wait_until(worker->start_ns + worker->number * worker->config->stagger_ns);
	for (int64_t i = 0; i < worker->nr_pages && worker->error >= 0; i++) {
		worker->error = fault(worker, worker->pages[i]);
		if (worker->config->think_ns)
			wait_until(clock_now_ns() + worker->config->think_ns);
	}
	worker->end_ns = clock_now_ns();
	worker->populate_ns = populate_ns;
	return NULL;
}

static void run_workers(struct worker *workers, uint32_t nr, pthread_barrier_t *barrier)
{
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	for (uint32_t i = 0; i < nr; i++) {
		/* Those that have started wait for it: there is no way back. */
		if (pthread_create(&workers[i].thread, &attr, work, &workers[i]) != 0)
			abort();
	}
	pthread_attr_destroy(&attr);
	pthread_barrier_wait(barrier);
	for (uint32_t i = 0; i < nr; i++)
		pthread_join(workers[i].thread, NULL);
}

static void read_locks(const struct stage *stage, struct contention_result *result)
{
	const struct fault_mutex_table *faults = &stage->core.faults;
	struct lock_class_stat stat;

	lock_stat_read(LOCK_RANK_FAULT_MUTEX, &stat);
	result->mutexes = stat.exclusive;
	lock_stat_read(LOCK_RANK_REGION_MAP, &result->region);
	lock_stat_read(LOCK_RANK_POOL, &result->pool);
	result->nr_mutexes = faults->nr_mutexes;
	for (uint32_t i = 0; i < faults->nr_mutexes; i++) {
		if (faults->mutexes[i].nr_acquisitions > result->busiest)
			result->busiest = faults->mutexes[i].nr_acquisitions;
	}
}

/* Sum up what the threads have found. Returns the first error. */
static int sum_up(const struct worker *workers, uint32_t nr, struct contention_result *result)
{
	uint64_t start_ns = UINT64_MAX, end_ns = 0, total_ns = 0;
	int64_t nr_populated;
	int r = 0;

	for (uint32_t i = 0; i < nr; i++) {
		const struct worker *worker = &workers[i];

		start_ns = worker->start_ns < start_ns ? worker->start_ns : start_ns;
		end_ns = worker->end_ns > end_ns ? worker->end_ns : end_ns;
		total_ns += worker->populate_ns;
		for (int j = 0; j < NR_PAGE_OUTCOMES; j++) {
			result->outcomes[j] += worker->outcomes[j];
			result->nr_faults += worker->outcomes[j];
		}
		if (worker->error < 0 && r == 0)
			r = worker->error;
	}
	nr_populated = result->nr_faults - result->outcomes[PAGE_PRESENT];
	result->seconds = (double)(end_ns - start_ns) / 1e9;
	if (nr_populated)
		result->populate_seconds = (double)total_ns / 1e9 / (double)nr_populated;
	return r;
}

static int run_once(const struct contention_config *config, struct contention_result *result)
{
	uint32_t nr = config->nr_threads;
	struct worker *workers = calloc(nr, sizeof(*workers));
	pthread_barrier_t barrier;
	struct stage stage;
	int r;

	*result = (struct contention_result){0};
	if (!workers)
		return -ENOMEM;
	r = stage_init(&stage, config);
	if (r < 0)
		goto out_workers;
	pthread_barrier_init(&barrier, NULL, nr + 1);
	for (uint32_t i = 0; i < nr; i++) {
		workers[i] = (struct worker){
			.config = config,
			.stage = &stage,
			.number = i,
			.barrier = &barrier,
			.pages = malloc((size_t)config->nr_pages * sizeof(int64_t)),
		};
		if (!workers[i].pages)
			goto out_pages;
		workers[i].nr_pages = contention_schedule(config, i, workers[i].pages);
	}
	lock_stat_clear();
	run_workers(workers, nr, &barrier);
	read_locks(&stage, result);
	r = sum_up(workers, nr, result);
out_pages:
	for (uint32_t i = 0; i < nr; i++)
		free(workers[i].pages);
	pthread_barrier_destroy(&barrier);
	stage_deinit(&stage);
out_workers:
	free(workers);
	return r;
}

/* What one thread takes, from some of the pages where all would take long. */
static int measure_one_thread(const struct contention_config *config,
			      struct contention_result *result)
{
	struct contention_config sample = *config;
	struct contention_result one;
	int64_t nr = MIN_SAMPLE;
	int r;

	while ((uint64_t)nr * config->clear_ns < SAMPLE_NS && nr < 4096)
		nr *= 2;
	sample.nr_threads = 1;
	sample.nr_files = 1;
	sample.every_page = false;
	sample.same_page = 0;
	sample.think_ns = sample.stagger_ns = 0;
	if (sample.nr_pages > nr)
		sample.nr_pages = nr;
	r = run_once(&sample, &one);
	if (r < 0)
		return r;
	result->one_thread_pages = sample.nr_pages;
	result->one_thread_seconds =
		one.seconds * (double)config->nr_pages / (double)sample.nr_pages;
	return 0;
}

int contention_run(const struct contention_config *config, struct contention_result *ret_result)
{
	struct contention_result one = {0}, result;
	int r = 0;

	if (config->nr_threads > 1)
		r = measure_one_thread(config, &one);
	if (r == 0)
		r = run_once(config, &result);
	if (r < 0)
		return r;
	result.one_thread_pages = one.one_thread_pages;
	result.one_thread_seconds = one.one_thread_seconds;
	if (config->nr_threads == 1) {
		result.one_thread_pages = config->nr_pages;
		result.one_thread_seconds = result.seconds;
	}
	result.best_seconds = contention_best_seconds(config);
	*ret_result = result;
	return 0;
}
