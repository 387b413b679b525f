/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fault thread. The loop: sleep in epoll_wait(2), or only look there while there is background
 * work; read each ready userfaultfd once; run the work that was sent.
 *
 * A client holds the other end of the userfaultfd's file and may make it blocking; reading with
 * RWF_NOWAIT (Linux 6.10) does not block all the same.
 */
#include "fs/fault_thread.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fs/clock.h"
#include "fs/fault_resolve.h"
#include "fs/mapping.h"

#define READ_MESSAGES 16

static const struct timespec no_time;

struct fault_source {
	int uffd;
	struct mapping *mapping;            /* a reference */
	struct fault_source *next, **link;  /* thread->lock: the thread's list */
	struct fault_source *next_of_owner; /* set at init; see fault_thread_add_source() */
};

static void wake_thread(struct fault_thread *thread)
{
	uint64_t one = 1;
	ssize_t n;

	do
		n = write(thread->event_fd, &one, sizeof(one));
	while (n < 0 && errno == EINTR);
}

void fault_thread_send(struct fault_thread *thread, struct fault_work *work)
{
	work->next = NULL;
	mutex_lock(&thread->lock);
	*thread->work_tail = work;
	thread->work_tail = &work->next;
	mutex_unlock(&thread->lock);
	wake_thread(thread);
}

bool fault_thread_send_if_sleeping(struct fault_thread *thread, struct fault_work *work)
{
	if (!atomic_exchange(&thread->sleeping, false))
		return false;
	fault_thread_send(thread, work);
	return true;
}

void fault_thread_add_background(struct fault_thread *thread,
				 struct fault_background *background)
{
	struct fault_background **link = &thread->background;

	while (*link)
		link = &(*link)->next;
	background->next = NULL;
	*link = background;
}

static void run_work(struct fault_thread *thread)
{
	struct fault_work *work, *next;

	mutex_lock(&thread->lock);
	work = thread->work;
	thread->work = NULL;
	thread->work_tail = &thread->work;
	mutex_unlock(&thread->lock);
	for (; work; work = next) {
		next = work->next;
		work->run(thread, work);
	}
}

static void background_step(struct fault_thread *thread)
{
	struct fault_background *background = thread->background;

	/* In turns: the one that was served goes to the end. */
	thread->background = background->next;
	if (background->step(thread, background))
		fault_thread_add_background(thread, background);
}

int fault_thread_add_source(struct fault_thread *thread, struct mapping *mapping, int uffd,
			    struct fault_source **owner)
{
	struct fault_source *source = malloc(sizeof(*source));
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = source};

	if (!source)
		return -ENOMEM;
	source->uffd = uffd;
	source->mapping = mapping_ref(mapping);
	source->next_of_owner = *owner;
	*owner = source;
	mutex_lock(&thread->lock);
	source->next = thread->sources;
	source->link = &thread->sources;
	if (source->next)
		source->next->link = &source->next;
	thread->sources = source;
	mutex_unlock(&thread->lock);
	if (epoll_ctl(thread->epoll_fd, EPOLL_CTL_ADD, uffd, &event) == 0)
		return 0;
	/* It stays in the list, unheard, until the mapping is removed. */
	return -errno;
}

static void drop_source(struct fault_thread *thread, struct fault_source *source)
{
	mutex_lock(&thread->lock);
	*source->link = source->next;
	if (source->next)
		source->next->link = source->link;
	mutex_unlock(&thread->lock);
	epoll_ctl(thread->epoll_fd, EPOLL_CTL_DEL, source->uffd, NULL);
	mapping_put(source->mapping);
	free(source);
}

void fault_thread_drop_sources(struct fault_thread *thread, struct fault_source **owner)
{
	struct fault_source *source;

	while ((source = *owner)) {
		*owner = source->next_of_owner;
		drop_source(thread, source);
	}
}

/* Whole messages read without ever blocking; 0 or -errno where there are none. */
static ssize_t read_messages(int uffd, struct uffd_msg *messages, size_t nr)
{
	struct iovec iov = {messages, nr * sizeof(*messages)};
	ssize_t n = preadv2(uffd, &iov, 1, -1, RWF_NOWAIT);

	if (n < 0 && (errno == EOPNOTSUPP || errno == ENOSYS))
		n = read(uffd, messages, nr * sizeof(*messages));
	return n < 0 ? -errno : n / (ssize_t)sizeof(*messages);
}

/*
 * A userfaultfd that blocks, or was never initialised, polls as an error, for ever. The first
 * its client has done, which shares the file: it is undone. The second is not listened to.
 */
static ssize_t read_failing(struct fault_thread *thread, struct fault_source *source,
			    struct uffd_msg *messages)
{
	ssize_t nr;

	fcntl(source->uffd, F_SETFL, O_NONBLOCK);
	nr = read_messages(source->uffd, messages, READ_MESSAGES);
	if (nr < 0 && nr != -EAGAIN)
		epoll_ctl(thread->epoll_fd, EPOLL_CTL_DEL, source->uffd, NULL);
	return nr;
}

static void read_source(struct fault_thread *thread, struct fault_source *source, bool failing)
{
	struct uffd_msg messages[READ_MESSAGES];
	ssize_t nr = failing ? read_failing(thread, source, messages)
			     : read_messages(source->uffd, messages, READ_MESSAGES);
	uint64_t now = clock_now_ns();

	/* What changes addresses comes first: a fault behind it may depend on it. */
	for (ssize_t i = 0; i < nr; i++) {
		if (messages[i].event != UFFD_EVENT_PAGEFAULT)
			fault_resolve_event(thread, source->mapping, &messages[i]);
	}
	fault_resolve_messages(thread, source->mapping, source->uffd, messages, nr, now);
}

static int poll_once(struct fault_thread *thread, const struct timespec *timeout)
{
	struct epoll_event events[READ_MESSAGES];
	uint64_t count;
	int nr;

	nr = epoll_pwait2(thread->epoll_fd, events, READ_MESSAGES, timeout, NULL);
	atomic_store_explicit(&thread->sleeping, false, memory_order_relaxed);
	for (int i = 0; i < nr; i++) {
		if (events[i].data.ptr)
			read_source(thread, events[i].data.ptr, events[i].events & EPOLLERR);
		else if (read(thread->event_fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
			return -errno;
	}
	return nr < 0 && errno != EINTR ? -errno : nr;
}

void fault_thread_poll(struct fault_thread *thread)
{
	for (int i = 0; i < 64 && poll_once(thread, &no_time) > 0; i++)
		;
}

bool fault_thread_is_idle(struct fault_thread *thread)
{
	struct pollfd poll_fd = {.fd = thread->epoll_fd, .events = POLLIN};

	return poll(&poll_fd, 1, 0) == 0 && thread->sleeping;
}

/* Sleep until something comes. */
static void wait_for_work(struct fault_thread *thread)
{
	thread->sleeping = true;
	poll_once(thread, NULL);
}

static void *fault_thread_main(void *data)
{
	struct fault_thread *thread = data;

	while (!thread->stop) {
		if (thread->background)
			poll_once(thread, &no_time);
		else
			wait_for_work(thread);
		run_work(thread);
		if (thread->background)
			background_step(thread);
	}
	while (thread->background)
		background_step(thread);
	run_work(thread);
	return NULL;
}

int fault_thread_start(struct fault_thread *thread, struct fault_service *service, int number,
		       int nr_nodes)
{
	struct epoll_event event = {.events = EPOLLIN};
	char name[16];
	int r;

	r = fault_stat_init(&thread->stat, nr_nodes);
	if (r < 0)
		return r;
	thread->service = service;
	thread->work_tail = &thread->work;
	mutex_init(&thread->lock, LOCK_RANK_LEAF);
	thread->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	thread->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (thread->epoll_fd < 0 || thread->event_fd < 0 ||
	    epoll_ctl(thread->epoll_fd, EPOLL_CTL_ADD, thread->event_fd, &event) < 0) {
		r = -errno;
		goto out_close;
	}
	r = -pthread_create(&thread->thread, NULL, fault_thread_main, thread);
	if (r < 0)
		goto out_close;
	snprintf(name, sizeof(name), "hf-fault/%d", number);
	pthread_setname_np(thread->thread, name);
	return 0;

out_close:
	if (thread->epoll_fd >= 0)
		close(thread->epoll_fd);
	if (thread->event_fd >= 0)
		close(thread->event_fd);
	fault_stat_deinit(&thread->stat);
	thread->service = NULL;
	return r;
}

void fault_thread_stop(struct fault_thread *thread)
{
	if (!thread->service)
		return;
	thread->stop = true;
	wake_thread(thread);
	pthread_join(thread->thread, NULL);
	run_work(thread);
	while (thread->sources)
		drop_source(thread, thread->sources);
	close(thread->epoll_fd);
	close(thread->event_fd);
	mutex_deinit(&thread->lock);
	fault_stat_deinit(&thread->stat);
	thread->service = NULL;
}
