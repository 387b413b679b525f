/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Exhaustion. One thread, which sleeps on its own queue while nothing waits, so that freeing a
 * page costs no wake-up then, and on the pool's while something does. Pages that the kernel
 * frees without a word are found by looking ten times a second.
 */
#include "fs/exhaustion.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "fs/client.h"
#include "fs/clock.h"
#include "fs/control.h"
#include "fs/fault_service.h"
#include "fs/mapping.h"
#include "fs/reconcile.h"

#define LOOK_AGAIN_NS   100000000ULL
#define WATCH_PAGES_MAX 1048576
#define FOREVER_NS      1000000000ULL /* a look a second is as good as none */

struct waiting_fault {
	struct fault fault; /* with a reference on the mapping */
	struct fault_thread *thread;
	struct waiting_fault *next;
};

struct exhaustion {
	struct mount *mount;
	pthread_t thread;
	struct waitqueue wake;
	_Atomic bool stop;
	_Atomic bool refused;          /* some mapping has pages that were refused */
	struct mutex lock;             /* LOCK_RANK_LEAF */
	struct waiting_fault *waiting; /* lock */
};

/* The mount has it so, or the file where a page of its node is waited for. */
static bool waits(const struct mount *mount, struct mapping *mapping)
{
	if (mount->options->on_exhausted == ON_EXHAUSTED_WAIT)
		return true;
	return mount->nr_nodes > 1 && page_space_rule(mapping->space).fallback == NUMA_WAIT;
}

bool exhaustion_wait(struct fault_thread *thread, const struct fault *fault)
{
	struct mount *mount = fault->mapping->mount;
	struct exhaustion *exhaustion = fault_service_exhaustion(thread->service);
	uint64_t seconds = mount->options->wait_seconds;
	struct waiting_fault *waiting;

	if (exhaustion->stop || !waits(mount, fault->mapping))
		return false;
	if (seconds < UINT64_MAX / 1000000000 &&
	    clock_now_ns() - fault->start >= seconds * 1000000000)
		return false;
	waiting = malloc(sizeof(*waiting));
	if (!waiting)
		return false;
	waiting->fault = *fault;
	waiting->fault.waited = true;
	waiting->thread = thread;
	mapping_ref(fault->mapping);
	if (!fault->waited)
		fault_service_add_waiting(thread->service, 1);
	mutex_lock(&exhaustion->lock);
	waiting->next = exhaustion->waiting;
	exhaustion->waiting = waiting;
	mutex_unlock(&exhaustion->lock);
	waitqueue_wake_all(&exhaustion->wake);
	return true;
}

void exhaustion_note_refused(struct exhaustion *exhaustion, struct mapping *mapping)
{
	mapping->refused = true;
	exhaustion->refused = true;
	waitqueue_wake_all(&exhaustion->wake);
}

static void retry_waiting(struct exhaustion *exhaustion)
{
	struct waiting_fault *waiting, *next;

	mutex_lock(&exhaustion->lock);
	waiting = exhaustion->waiting;
	exhaustion->waiting = NULL;
	mutex_unlock(&exhaustion->lock);
	for (; waiting; waiting = next) {
		next = waiting->next;
		fault_retry(waiting->thread, &waiting->fault);
		mapping_put(waiting->fault.mapping);
		free(waiting);
	}
}

static int watch(int uffd, uint64_t start, uint64_t end)
{
	struct uffdio_register reg = {
		.range = {start, end - start},
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};

	return ioctl(uffd, UFFDIO_REGISTER, &reg) < 0 ? -errno : 0;
}

/*
 * Watch a range of one userfaultfd, page by page: over a whole range it succeeds if anything is
 * mapped in it. But how long the range is says the client, which may be lying: what is behind
 * the first pages is watched as one. A page that was unmapped while it was not watched was
 * unmapped without a word from the kernel: it is forgotten here.
 */
static void watch_range(struct mapping *mapping, int uffd, uint64_t start, uint64_t end)
{
	uint64_t page_size = mapping->mount->backing->page_size;

	for (int i = 0; i < WATCH_PAGES_MAX && start < end; i++, start += page_size) {
		if (watch(uffd, start, start + page_size) == -EINVAL)
			mapping_unmap(mapping, start, start + page_size);
	}
	if (start < end)
		watch(uffd, start, end);
	if (mapping->dead)
		control_poke(mapping->mount->control);
}

/* What is watched by another userfaultfd stays so: before Linux 6.17 any could end that. */
static void forget_range(struct mapping *mapping, int uffd, uint64_t start, uint64_t end)
{
	uint64_t page_size = mapping->mount->backing->page_size;
	struct uffdio_range page = {start, page_size};

	for (; page.start < end; page.start += page_size) {
		if (watch(uffd, page.start, page.start + page_size) == 0)
			ioctl(uffd, UFFDIO_UNREGISTER, &page);
	}
	mapping_unmap(mapping, start, end);
	if (mapping->dead)
		control_poke(mapping->mount->control);
}

typedef void visit_range_fn(struct mapping *mapping, int uffd, uint64_t start, uint64_t end);

/* Visit what the mapping has of [from, to), whole pages, one userfaultfd after the other. */
static void for_each_range(struct mapping *mapping, uint64_t from, uint64_t to,
			   visit_range_fn *visit)
{
	uint64_t page_size = mapping->mount->backing->page_size, start, stop, end;
	struct segment *segments;
	int nr;

	nr = mapping_segments(mapping, &segments);
	for (int i = 0; i < nr; i++) {
		const struct segment *s = &segments[i];

		start = from > s->start ? from : s->start;
		stop = to < s->end ? to : s->end;
		for (; start < stop; start = end) {
			int64_t idx = s->idx + (int64_t)((start - s->start) / page_size);
			int64_t shard = mapping_shard_end(mapping, idx) - idx;

			end = stop;
			if (shard < (int64_t)((stop - start) / page_size))
				end = start + (uint64_t)shard * page_size;
			visit(mapping, mapping_uffd_of(mapping, idx), start, end);
		}
	}
	if (nr >= 0)
		free(segments);
}

static int stat_file(struct mapping *mapping, struct stat *ret_st)
{
	struct page_space *pages = atomic_load(&mapping->inode->pages);
	int fd, r;

	fd = pages->file->backing->ops->file_descriptor(pages->file, O_RDONLY);
	if (fd < 0)
		return fd;
	r = fstat(fd, ret_st) < 0 ? -errno : 0;
	close(fd);
	return r;
}

/*
 * Forget the pages in whose place the process has mapped something else, while they were not
 * watched: nobody tells of that.
 */
static void forget_replaced(struct mapping *mapping)
{
	uint64_t mask = mapping->mount->backing->page_size - 1;
	unsigned long start, end, ino;
	unsigned int major, minor;
	char line[PATH_MAX + 128];
	struct stat st;
	FILE *maps;

	snprintf(line, sizeof(line), "/proc/%d/maps", mapping->client->pid);
	maps = fopen(line, "re");
	if (!maps)
		return;
	/* The pid may have been used again. */
	if (stat_file(mapping, &st) < 0 || client_has_exited(mapping->client))
		goto out_close;
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx %*s %*s %x:%x %lu", &start, &end, &major, &minor,
			   &ino) != 5)
			continue;
		if (ino != st.st_ino || makedev(major, minor) != st.st_dev)
			for_each_range(mapping, start & ~mask, (end + mask) & ~mask,
				       forget_range);
	}
out_close:
	fclose(maps);
}

/* Watch every page of the mapping again. Those that are watched already stay as they are. */
static int watch_again(struct mapping *mapping, void *data)
{
	if (!atomic_exchange(&mapping->refused, false))
		return 0;
	forget_replaced(mapping);
	for_each_range(mapping, 0, UINT64_MAX, watch_range);
	/* What has been replaced in between was watched then. */
	forget_replaced(mapping);
	return 0;
}

static bool something_waits(struct exhaustion *exhaustion)
{
	bool waits;

	mutex_lock(&exhaustion->lock);
	waits = exhaustion->waiting != NULL;
	mutex_unlock(&exhaustion->lock);
	return waits;
}

static void *exhaustion_main(void *data)
{
	struct exhaustion *exhaustion = data;
	struct waitqueue *freed = &exhaustion->mount->core.pool.freed;
	uint32_t asleep, count;

	while (!exhaustion->stop) {
		asleep = waitqueue_read(&exhaustion->wake);
		count = waitqueue_read(freed);
		if (!something_waits(exhaustion) && !exhaustion->refused) {
			waitqueue_wait(&exhaustion->wake, asleep, FOREVER_NS);
			continue;
		}
		waitqueue_wait(freed, count, LOOK_AGAIN_NS);
		if (atomic_exchange(&exhaustion->refused, false))
			control_for_each_mapping(exhaustion->mount->control, watch_again, NULL);
		if (something_waits(exhaustion))
			retry_waiting(exhaustion);
	}
	return NULL;
}

int exhaustion_new(struct mount *mount, struct exhaustion **ret_exhaustion)
{
	struct exhaustion *exhaustion;
	int r;

	exhaustion = aligned_alloc(_Alignof(struct exhaustion), sizeof(*exhaustion));
	if (!exhaustion)
		return -ENOMEM;
	*exhaustion = (struct exhaustion){.mount = mount};
	mutex_init(&exhaustion->lock, LOCK_RANK_LEAF);
	r = -pthread_create(&exhaustion->thread, NULL, exhaustion_main, exhaustion);
	if (r < 0) {
		mutex_deinit(&exhaustion->lock);
		free(exhaustion);
		return r;
	}
	pthread_setname_np(exhaustion->thread, "hf-exhaustion");
	*ret_exhaustion = exhaustion;
	return 0;
}

void exhaustion_free(struct exhaustion *exhaustion)
{
	if (!exhaustion)
		return;
	exhaustion->stop = true;
	waitqueue_wake_all(&exhaustion->wake);
	waitqueue_wake_all(&exhaustion->mount->core.pool.freed);
	pthread_join(exhaustion->thread, NULL);
	/* Nobody waits again after stop: what is retried now is resolved or refused. */
	retry_waiting(exhaustion);
	mutex_deinit(&exhaustion->lock);
	free(exhaustion);
}
