/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Refiller. It sleeps while a page is expected on every node. A failure wakes it. If nothing
 * was freed there alloc_sleep_ms later, it lets the kernel's pool of each such node grow by
 * some pages, where the kernel compacts and reclaims as much as it can; and if that fails it
 * tries again as much later, as khugepaged does.
 */
#include "fs/refill.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "fs/reconcile.h"

struct refill {
	struct mount *mount;
	pthread_t thread;
	struct waitqueue stopped;
	_Atomic bool stop;
};

/* Pages that are had at once tell that there is memory for more; and these are enough. */
#define REFILL_PAGES 8

static int64_t free_pages(struct mount *mount, int node)
{
	struct pool_counts pool;

	pool_read(&mount->core.pool, &pool);
	return pool.node[node].free - pool.node[node].bound;
}

static void try_node(struct mount *mount, int node)
{
	struct avail_mask *avail = &mount->core.avail;
	int nr, r = 1;

	/* It may have failed for a page that the kernel gave somebody without a word. */
	reconcile_counters(mount);
	if (free_pages(mount, node) >= REFILL_PAGES) {
		avail_mask_found(avail, node);
		return;
	}
	for (nr = 0; nr < REFILL_PAGES; nr++) {
		r = mount_refill_node(mount, node);
		if (r == 0)
			break; /* all that size= allows is there */
		avail->nr_refills++;
		avail->nr_refill_failed += r < 0;
		if (r < 0)
			break;
	}
	avail_mask_found(avail, node);
	if (nr > 0 && r >= 0)
		avail_mask_set(avail, node);
	if (nr > 0)
		waitqueue_wake_all(&mount->core.pool.freed);
}

/* Where nothing can be added to the kernel's pool, a fault is to look again. */
static void expect_again(struct mount *mount, uint64_t missing)
{
	for (int node = 0; node < mount->nr_nodes; node++) {
		if (missing & NODE_BIT(node))
			avail_mask_set(&mount->core.avail, node);
	}
	waitqueue_wake_all(&mount->core.pool.freed);
}

static uint64_t missing_nodes(const struct refill *refill)
{
	struct page_core *core = &refill->mount->core;

	return core->memory_nodes &
	       (~avail_mask_nodes(&core->avail) | avail_mask_stolen(&core->avail));
}

static void *refill_main(void *data)
{
	struct refill *refill = data;
	struct mount *mount = refill->mount;
	uint64_t sleep_ns = mount->options->alloc_sleep_ms * UINT64_C(1000000), missing;
	uint32_t failed, stopped;

	while (!refill->stop) {
		failed = waitqueue_read(&mount->core.avail.failed);
		stopped = waitqueue_read(&refill->stopped);
		if (refill->stop)
			break;
		missing = missing_nodes(refill);
		if (!missing) {
			waitqueue_wait(&mount->core.avail.failed, failed, UINT64_MAX);
			continue;
		}
		/* What was short for a moment only is there again by itself. */
		waitqueue_wait(&refill->stopped, stopped, sleep_ns);
		missing = missing_nodes(refill);
		if (mount_has_source(mount))
			expect_again(mount, missing);
		for (int node = 0;
		     node < mount->nr_nodes && !mount_has_source(mount) && !refill->stop;
		     node++) {
			if (missing & NODE_BIT(node))
				try_node(mount, node);
		}
	}
	return NULL;
}

int refill_new(struct mount *mount, struct refill **ret_refill)
{
	struct refill *refill;
	int r;

	*ret_refill = NULL;
	if (!mount->core.avail.enabled)
		return 0;
	refill = calloc(1, sizeof(*refill));
	if (!refill)
		return -ENOMEM;
	refill->mount = mount;
	r = -pthread_create(&refill->thread, NULL, refill_main, refill);
	if (r < 0) {
		free(refill);
		return r;
	}
	pthread_setname_np(refill->thread, "hf-refill");
	*ret_refill = refill;
	return 0;
}

void refill_free(struct refill *refill)
{
	if (!refill)
		return;
	refill->stop = true;
	waitqueue_wake_all(&refill->stopped);
	waitqueue_wake_all(&refill->mount->core.avail.failed);
	pthread_join(refill->thread, NULL);
	free(refill);
}
