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
#include "fs/rcu.h"

/* All that clients have attached, by number, which are the process's; made for the first one.
 */
static struct cds_lfht *_Atomic by_id;

static int make_table(void)
{
	struct cds_lfht *none = NULL, *fresh;

	if (atomic_load(&by_id))
		return 0;
	fresh = cds_lfht_new(64, 64, 0, CDS_LFHT_AUTO_RESIZE | CDS_LFHT_ACCOUNTING, NULL);
	if (!fresh)
		return -ENOMEM;
	if (!atomic_compare_exchange_strong(&by_id, &none, fresh))
		cds_lfht_destroy(fresh, NULL);
	return 0;
}

int client_new(pid_t pid, uid_t uid, int socket, struct client **ret_client)
{
	struct client *client;

	if (make_table() < 0)
		return -ENOMEM;
	client = aligned_alloc(_Alignof(struct client), sizeof(*client));
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

static void push_died(struct mapping *mapping)
{
	struct client *client = mapping->client;

	mapping->next_died = atomic_load(&client->died);
	while (!atomic_compare_exchange_weak(&client->died, &mapping->next_died, mapping))
		;
}

void client_mapping_died(struct mapping *mapping)
{
	if (!atomic_exchange(&mapping->dead, true) && mapping->client)
		push_died(mapping);
}

/* A reference, unless the last one has gone. */
static bool ref_unless_zero(struct mapping *mapping)
{
	uint64_t refs = atomic_load(&mapping->nr_refs);

	while (refs)
		if (atomic_compare_exchange_weak(&mapping->nr_refs, &refs, refs + 1))
			return true;
	return false;
}

/* Fibonacci hashing, mirrored: the table looks at the lowest bits, and numbers are dense. */
static unsigned long hash_id(uint64_t id)
{
	return __builtin_bswap64(id * 0x9e3779b97f4a7c15ULL);
}

static int match_id(struct cds_lfht_node *node, const void *key)
{
	rcu_order_after();
	return caa_container_of(node, struct mapping, id_node)->id == *(const uint64_t *)key;
}

void client_add_mapping(struct client *client, struct mapping *mapping)
{
	bool died = mapping->dead; /* nobody else knows it before the lock is given up */

	mutex_lock(&client->lock);
	mapping->client = client_ref(client);
	mapping->next = client->mappings;
	mapping->link = &client->mappings;
	if (mapping->next)
		mapping->next->link = &mapping->next;
	client->mappings = mapping;
	client->nr_mappings++;
	rcu_reader_lock();
	rcu_order_before();
	cds_lfht_add(by_id, hash_id(mapping->id), &mapping->id_node);
	rcu_reader_unlock();
	if (died)
		push_died(mapping);
	mutex_unlock(&client->lock);
}

struct mapping *client_find_mapping(struct client *client, uint64_t id)
{
	struct mapping *mapping = NULL;
	struct cds_lfht_node *node;
	struct cds_lfht_iter iter;

	if (!by_id)
		return NULL;
	rcu_reader_lock();
	cds_lfht_lookup(by_id, hash_id(id), match_id, &id, &iter);
	node = cds_lfht_iter_get_node(&iter);
	if (node)
		mapping = caa_container_of(node, struct mapping, id_node);
	if (mapping && ((client && mapping->client != client) || !ref_unless_zero(mapping)))
		mapping = NULL;
	rcu_reader_unlock();
	return mapping;
}

/* Put @mapping, which is in the list, before @taken. */
static struct mapping *take_locked(struct client *client, struct mapping *mapping,
				   struct mapping *taken)
{
	mutex_assert_held(&client->lock);
	*mapping->link = mapping->next;
	if (mapping->next)
		mapping->next->link = mapping->link;
	mapping->link = NULL;
	mapping->next = taken;
	client->nr_mappings--;
	rcu_reader_lock();
	cds_lfht_del(by_id, &mapping->id_node);
	rcu_reader_unlock();
	return mapping;
}

struct mapping *client_take_mappings(struct client *client, bool all)
{
	struct mapping *died, *taken = NULL;

	if (!all && !atomic_load(&client->died))
		return NULL;
	mutex_lock(&client->lock);
	/* One that dies only now, and is taken, may come to client->died nevertheless: nobody
	 * takes of a client of which all was taken. */
	for (died = atomic_exchange(&client->died, NULL); died; died = died->next_died)
		taken = take_locked(client, died, taken);
	while (all && client->mappings) {
		client->mappings->dead = true;
		taken = take_locked(client, client->mappings, taken);
	}
	mutex_unlock(&client->lock);
	return taken;
}

void client_abandon_unregistered(struct client *client)
{
	mutex_lock(&client->lock);
	for (struct mapping *mapping = client->mappings; mapping; mapping = mapping->next) {
		if (!mapping->segments)
			client_mapping_died(mapping);
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

/* "Tgid:" of a thread, which is slow: the kernel writes all of its status. */
static pid_t read_process_of(pid_t tid)
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

pid_t client_process_of(pid_t tid)
{
	int fd = (int)syscall(SYS_pidfd_open, tid, 0);

	/* Only the first thread of a process can be opened so. */
	if (fd < 0)
		return read_process_of(tid);
	close(fd);
	return tid;
}
