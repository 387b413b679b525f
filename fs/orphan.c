/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Orphans, and the end of them. A watch descriptor is never used twice by the kernel. */
#include "fs/orphan.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "fs/clock.h"
#include "fs/rcu.h"

struct orphan {
	struct orphan *next;
	struct orphan *next_ending;
	bool ending; /* lock; not to be visited any more */
	int watch;
	bool has_handle;
	struct page_space *pages;
	union {
		struct file_handle header;
		char space[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	} handle;
};

int orphans_init(struct orphans *orphans, int names_fd)
{
	orphans->names_fd = names_fd;
	orphans->inotify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (orphans->inotify_fd < 0)
		return -errno;
	orphans->list = NULL;
	mutex_init(&orphans->lock, LOCK_RANK_LEAF);
	return 0;
}

/*
 * The event comes a moment before the inode is freed with its pages. Looking it up by its
 * handle waits for the end of that (ilookup5()), and then finds nothing. It may also find it
 * just before, hence twice.
 */
static void wait_until_freed(const struct orphans *orphans, struct orphan *orphan)
{
	int fd;

	for (int i = 0; i < 2 && orphan->has_handle; i++) {
		fd = open_by_handle_at(orphans->names_fd, &orphan->handle.header,
				       O_PATH | O_CLOEXEC);
		if (fd >= 0)
			close(fd);
		sched_yield();
	}
}

void orphans_deinit(struct orphans *orphans)
{
	struct orphan *orphan;

	while ((orphan = orphans->list)) {
		orphans->list = orphan->next;
		page_space_deinit(orphan->pages);
		free(orphan->pages);
		free(orphan);
	}
	close(orphans->inotify_fd);
	mutex_deinit(&orphans->lock);
}

int orphans_add(struct orphans *orphans, int fd, struct page_space *pages)
{
	struct orphan *orphan = calloc(1, sizeof(*orphan));
	char path[40];
	int r = 0, mount_id;

	if (!orphan)
		return -ENOMEM;
	orphan->handle.header.handle_bytes = MAX_HANDLE_SZ;
	orphan->has_handle = name_to_handle_at(fd, "", &orphan->handle.header, &mount_id,
					       AT_EMPTY_PATH) == 0;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	/* Under the lock: the event may be read by somebody else at once. */
	mutex_lock(&orphans->lock);
	orphan->watch = inotify_add_watch(orphans->inotify_fd, path, IN_DELETE_SELF);
	if (orphan->watch < 0) {
		r = -errno;
	} else {
		orphan->pages = pages;
		orphan->next = orphans->list;
		orphans->list = orphan;
		orphans->added_ns = clock_now_ns();
	}
	mutex_unlock(&orphans->lock);
	if (r < 0)
		free(orphan);
	return r;
}

bool orphans_are_new(struct orphans *orphans, uint64_t age_ns)
{
	bool any;

	mutex_lock(&orphans->lock);
	any = orphans->list && clock_now_ns() - orphans->added_ns < age_ns;
	mutex_unlock(&orphans->lock);
	return any;
}

/* Up to @room of those that may be visited, inside an RCU read side; how many there are. */
static size_t list_pages(struct orphans *orphans, struct page_space **pages, size_t room)
{
	struct orphan *orphan;
	size_t nr = 0;

	mutex_lock(&orphans->lock);
	for (orphan = orphans->list; orphan; orphan = orphan->next) {
		if (orphan->ending)
			continue;
		if (nr < room)
			pages[nr] = orphan->pages;
		nr++;
	}
	mutex_unlock(&orphans->lock);
	return nr;
}

int orphans_for_each(struct orphans *orphans,
		     int (*visit)(struct page_space *pages, void *data), void *data)
{
	size_t nr = list_pages(orphans, NULL, 0), room = nr + 16;
	struct page_space **pages = malloc(room * sizeof(*pages));
	int r = 0;

	if (!pages)
		return -ENOMEM;
	rcu_reader_lock();
	nr = list_pages(orphans, pages, room);
	for (size_t i = 0; i < nr && i < room && r == 0; i++)
		r = visit(pages[i], data);
	rcu_reader_unlock();
	free(pages);
	return r;
}

/* The one with this watch, of which nobody else is told. It stays in the list. */
static struct orphan *find_ending(struct orphans *orphans, int watch)
{
	struct orphan *orphan;

	mutex_lock(&orphans->lock);
	for (orphan = orphans->list; orphan && orphan->watch != watch; orphan = orphan->next)
		;
	if (orphan)
		orphan->ending = true;
	mutex_unlock(&orphans->lock);
	return orphan;
}

static void remove_from_list(struct orphans *orphans, struct orphan *orphan)
{
	struct orphan **link = &orphans->list;

	mutex_lock(&orphans->lock);
	while (*link != orphan)
		link = &(*link)->next;
	*link = orphan->next;
	mutex_unlock(&orphans->lock);
}

/* Uncharged first, and then forgotten: whoever looks for it in between finds it. */
static void end(struct orphans *orphans, struct orphan *orphan)
{
	wait_until_freed(orphans, orphan);
	page_space_deinit(orphan->pages);
	remove_from_list(orphans, orphan);
	free(orphan->pages);
	free(orphan);
}

/* All of a list; visitors have left when the first one ends. Returns how many. */
static int end_all(struct orphans *orphans, struct orphan *ending)
{
	struct orphan *next;
	int nr = 0;

	if (ending)
		rcu_wait_for_readers();
	for (; ending; ending = next) {
		next = ending->next_ending;
		end(orphans, ending);
		nr++;
	}
	return nr;
}

int orphans_collect(struct orphans *orphans)
{
	char buf[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	const struct inotify_event *event;
	struct orphan *orphan, *ending = NULL;
	ssize_t len;

	while ((len = read(orphans->inotify_fd, buf, sizeof(buf))) > 0) {
		for (char *at = buf; at < buf + len; at += sizeof(*event) + event->len) {
			event = (const struct inotify_event *)at;
			/* What ends a watch, whatever the reason. */
			if (!(event->mask & IN_IGNORED))
				continue;
			orphan = find_ending(orphans, event->wd);
			if (!orphan)
				continue;
			orphan->next_ending = ending;
			ending = orphan;
		}
	}
	return end_all(orphans, ending);
}
