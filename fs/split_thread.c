/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The shrinker's thread. Whoever finds the pool short wakes it and goes on; of the machine's
 * memory nobody tells, and so it is looked at as long as there is something to be split; what
 * fails for want of memory runs the shrinker itself (fs/reconcile.c).
 */
#include "fs/split_thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "fs/mount.h"
#include "fs/split.h"

#define LOOK_NS 100000000 /* how often the machine's memory is looked at */

struct split_thread {
	struct mount *mount; /* set at init */
	_Atomic bool stopping;
	pthread_t thread; /* set at init */
};

static void *run(void *data)
{
	struct split_thread *self = data;
	struct waitqueue *pressure = &self->mount->split.pressure;
	uint32_t count;

	pthread_setname_np(pthread_self(), "hf-split");
	for (;;) {
		count = waitqueue_read(pressure);
		if (self->stopping)
			return NULL;
		/* What is still short after that has nothing left in the queues. */
		split_relieve(self->mount);
		waitqueue_wait(pressure, count,
			       split_queues_hold(&self->mount->split.queues) ? LOOK_NS
									     : UINT64_MAX);
	}
}

int split_thread_new(struct mount *mount, struct split_thread **ret_thread)
{
	struct split_thread *self;
	int err;

	*ret_thread = NULL;
	if (mount->split.queues.mode == SPLIT_OFF)
		return 0;
	self = calloc(1, sizeof(*self));
	if (!self)
		return -ENOMEM;
	self->mount = mount;
	err = pthread_create(&self->thread, NULL, run, self);
	if (err) {
		free(self);
		return -err;
	}
	*ret_thread = self;
	return 0;
}

void split_thread_free(struct split_thread *self)
{
	if (!self)
		return;
	self->stopping = true;
	waitqueue_wake_all(&self->mount->split.pressure);
	pthread_join(self->thread, NULL);
	free(self);
}
