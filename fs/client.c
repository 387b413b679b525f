/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Clients: processes that map. */
#include "fs/client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fs/mapping.h"
#include "fs/process_maps.h"

int client_new(pid_t pid, uid_t uid, int socket, struct client **ret_client)
{
	struct client *client = aligned_alloc(_Alignof(struct client), sizeof(*client));

	if (!client)
		return -ENOMEM;
	memset(client, 0, sizeof(*client));
	client->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (client->pidfd < 0) {
		free(client);
		return -errno;
	}
	client->pid = pid;
	client->start_time = process_start_time(pid);
	client->uid = uid;
	client->socket = socket;
	client->pagemap_fd = -1;
	client->nr_refs = 1;
	mutex_init(&client->lock, LOCK_RANK_CLIENT);
	process_read_of_user(pid, uid, &client->process);
	/* Now: once the process's first thread has ended it shows nothing any more. */
	client_pagemap(client);
	*ret_client = client;
	return 0;
}

struct client *client_ref(struct client *client)
{
	client->nr_refs++;
	return client;
}

void client_put(struct client *client)
{
	if (!client || --client->nr_refs > 0)
		return;
	close(client->pidfd);
	if (client->socket >= 0)
		close(client->socket);
	if (client->pagemap_fd >= 0)
		close(client->pagemap_fd);
	mutex_deinit(&client->lock);
	free(client);
}

void client_add_mapping(struct client *client, struct mapping *mapping)
{
	mutex_lock(&client->lock);
	mapping->client = client_ref(client);
	mapping->next = client->mappings;
	client->mappings = mapping;
	client->nr_mappings++;
	if (mapping->dead)
		client->nr_died++;
	mutex_unlock(&client->lock);
}

struct mapping *client_find_mapping(struct client *client, uint64_t id)
{
	struct mapping *mapping;

	mutex_lock(&client->lock);
	for (mapping = client->mappings; mapping; mapping = mapping->next) {
		if (mapping->id == id) {
			mapping_ref(mapping);
			break;
		}
	}
	mutex_unlock(&client->lock);
	return mapping;
}

struct mapping *client_take_mappings(struct client *client, bool all)
{
	struct mapping **link, *mapping, *taken = NULL;

	/* Before looking: one that dies meanwhile is found now or the next time. */
	if (atomic_exchange(&client->nr_died, 0) == 0 && !all)
		return NULL;
	mutex_lock(&client->lock);
	link = &client->mappings;
	while ((mapping = *link)) {
		if (!all && !mapping->dead) {
			link = &mapping->next;
			continue;
		}
		*link = mapping->next;
		mapping->dead = true;
		mapping->next = taken;
		taken = mapping;
		client->nr_mappings--;
	}
	mutex_unlock(&client->lock);
	return taken;
}

void client_abandon_unregistered(struct client *client)
{
	mutex_lock(&client->lock);
	for (struct mapping *mapping = client->mappings; mapping; mapping = mapping->next) {
		if (!mapping->segments)
			mapping->dead = true;
	}
	mutex_unlock(&client->lock);
}

bool client_has_exited(const struct client *client)
{
	struct pollfd poll_fd = {.fd = client->pidfd, .events = POLLIN};

	return poll(&poll_fd, 1, 0) > 0;
}

int client_pagemap(struct client *client)
{
	char path[40];
	int fd = client->pagemap_fd, none = -1;

	if (fd >= 0)
		return fd;
	snprintf(path, sizeof(path), "/proc/%d/pagemap", client->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* The pid may have been used again; the pidfd tells. */
	if (client_has_exited(client)) {
		close(fd);
		return -ESRCH;
	}
	if (!atomic_compare_exchange_strong(&client->pagemap_fd, &none, fd)) {
		close(fd);
		fd = none;
	}
	return fd;
}

/* Its pagemap was opened when it connected, and is that memory's. */
bool client_memory_is_gone(struct client *client)
{
	int fd = client->pagemap_fd;
	uint64_t entry;

	return fd >= 0 && pread(fd, &entry, sizeof(entry), 0) == 0;
}

pid_t client_process_of(pid_t tid)
{
	char path[40], line[128];
	pid_t pid = -ESRCH;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", tid);
	file = fopen(path, "re");
	if (!file)
		return -errno;
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "Tgid: %d", &pid) == 1)
			break;
	}
	fclose(file);
	return pid;
}
