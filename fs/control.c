/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Control: one thread that accepts connections, answers messages, and notices the end of
 * clients. It never waits for a client. What takes long, populating, is done by the fault
 * threads.
 *
 * A client ends when its process exits (its pidfd) or when its connection ends and the memory
 * that it had mapped is gone (it called exec). If it only closed the connection (closefrom(2)),
 * its mappings live on, and are looked after until their memory goes.
 */
#include "fs/control.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "fs/adopt.h"
#include "fs/adopt_clients.h"
#include "fs/client.h"
#include "fs/clock.h"
#include "fs/confine.h"
#include "fs/control_struct.h"
#include "fs/fault_service.h"
#include "fs/log.h"
#include "fs/notify.h"
#include "fs/reconcile.h"

#define TICK_MS             100
#define CLIENTS_MAX         4096
#define CLIENTS_PER_PROCESS 64 /* it needs one */

/* What an epoll event is about: a client's address, with bit 0 set for its pidfd. */
#define EVENT_LISTEN 2
#define EVENT_POKE   4
#define EVENT_ORPHAN 6
#define EVENT_PIDFD  1

static int watch(struct control *control, int fd, uint64_t what)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.u64 = what};

	return epoll_ctl(control->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static void unwatch(struct control *control, int fd)
{
	epoll_ctl(control->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

static void release_mappings(struct control *control, struct mapping *mapping)
{
	struct mapping *next;

	for (; mapping; mapping = next) {
		next = mapping->next;
		state_drop_mapping(&control->mount->state, mapping->id);
		/* Uncharges what a private one has, and lets faults in flight find nothing. */
		mapping_unmap(mapping, 0, UINT64_MAX);
		fault_service_remove(control->mount->fault_service, mapping);
		mapping_put(mapping);
	}
	waitqueue_wake_all(&control->released);
}

void control_reap(struct control *control, struct client *client)
{
	struct mapping *dead = client_take_mappings(client, false);

	if (dead)
		release_mappings(control, dead);
}

static void drop_client(struct control *control, struct client *client)
{
	/* First, and with it nothing more is done for them: who does not see them any more may
	 * count on the pages. */
	uint32_t nr_mappings = client->nr_mappings;
	struct mapping *mappings = client_take_mappings(client, true);
	struct client **link;

	control->mount->inodes.nr_freeing++;
	mutex_lock(&control->lock);
	for (link = &control->clients; *link != client; link = &(*link)->next)
		;
	*link = client->next;
	control->nr_clients--;
	client->dropped = true;
	mutex_unlock(&control->lock);
	unwatch(control, client->pidfd);
	if (client->connected)
		unwatch(control, client->socket);
	log_debug(LOG_AREA_CONTROL, "process %d (%s) is gone, with %u mappings", client->pid,
		  client->process.comm, nr_mappings);
	shutdown(client->socket, SHUT_RDWR);
	release_mappings(control, mappings);
	client_put(client);
	inode_end_freeing(control->mount);
}

/* Whether all that the client had mapped has gone with its memory. */
static bool memory_is_gone(struct client *client)
{
	struct mapping *mapping;
	bool gone = true;

	mutex_lock(&client->lock);
	for (mapping = client->mappings; mapping && gone; mapping = mapping->next)
		gone = mapping->dead || mapping_memory_is_gone(mapping);
	mutex_unlock(&client->lock);
	return gone;
}

/*
 * Messages that are not read any more may carry userfaultfds, and as long as one of those is
 * open its client waits in munmap(2) for somebody to read that. After shutdown(2) no more come.
 */
static void discard_messages(int socket)
{
	char byte;
	ssize_t n;

	do
		n = recv(socket, &byte, sizeof(byte), MSG_DONTWAIT);
	while (n > 0 || (n < 0 && errno == EINTR));
}

/* The connection has ended: by exec or exit, or because it was closed. */
static void disconnect(struct control *control, struct client *client)
{
	unwatch(control, client->socket);
	/* If it is us who end it, for a message that is none, the client hears of it at once.
	 */
	shutdown(client->socket, SHUT_RDWR);
	discard_messages(client->socket);
	client->connected = false;
	client->disconnected_ns = clock_now_ns();
	client_abandon_unregistered(client);
	control_reap(control, client);
	if (client_has_exited(client) || client->nr_mappings == 0)
		drop_client(control, client);
}

/*
 * Whether a client without a connection has gone by exec(2). A process that exits closes its
 * connection when its memory is gone, but before it lets go of the files that it had mapped: if
 * it were dropped then, their pages would be counted as free a moment before they are. Its
 * pidfd tells when it is over.
 */
static bool has_gone(struct client *client)
{
	return !client->connected &&
	       clock_now_ns() - client->disconnected_ns >= TICK_MS * 1000000ULL &&
	       memory_is_gone(client);
}

static int peer_credentials(int socket, struct ucred *ret_cred)
{
	socklen_t len = sizeof(*ret_cred);

	if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, ret_cred, &len) < 0)
		return -errno;
	return ret_cred->pid > 0 ? 0 : -ESRCH; /* 0: in a pid namespace that we do not see */
}

/* No process, and no user but root, can have all the connections there are. */
static bool may_connect(const struct control *control, const struct ucred *cred)
{
	uint32_t of_process = 0, of_user = 0;

	for (const struct client *client = control->clients; client; client = client->next) {
		of_process += client->pid == cred->pid;
		of_user += client->uid == cred->uid;
	}
	return control->nr_clients < CLIENTS_MAX && of_process < CLIENTS_PER_PROCESS &&
	       (cred->uid == 0 || of_user < CLIENTS_MAX / 2);
}

static void insert_client(struct control *control, struct client *client)
{
	mutex_lock(&control->lock);
	client->next = control->clients;
	control->clients = client;
	control->nr_clients++;
	mutex_unlock(&control->lock);
}

int control_adopt_client(struct control *control, pid_t pid, uid_t uid,
			 struct client **ret_client)
{
	struct client *client;
	int r;

	r = client_new(pid, uid, -1, &client);
	if (r < 0)
		return r;
	client->adopted = true;
	r = watch(control, client->pidfd, (uintptr_t)client | EVENT_PIDFD);
	if (r < 0) {
		client_put(client);
		return r;
	}
	insert_client(control, client);
	*ret_client = client;
	return 0;
}

struct client *control_find_adopted(struct control *control, pid_t pid)
{
	struct client *client = control->clients;

	while (client && !(client->adopted && client->pid == pid))
		client = client->next;
	return client;
}

/* The process as it was known to a daemon that died; NULL where it was not, or is another. */
static struct client *find_adopted(struct control *control, const struct ucred *cred)
{
	struct client *client = control_find_adopted(control, cred->pid);

	if (!client || !memory_is_gone(client))
		return client;
	drop_client(control, client);
	return NULL;
}

/* It is back, on @socket. */
static int reconnect(struct control *control, struct client *client, int socket)
{
	int r = watch(control, socket, (uintptr_t)client);

	if (r < 0)
		return r;
	client->socket = socket;
	client->connected = true;
	client->adopted = false;
	log_debug(LOG_AREA_CONTROL, "process %d (%s) is connected again", client->pid,
		  client->process.comm);
	return 0;
}

static int add_client(struct control *control, int socket)
{
	struct client *client;
	struct ucred cred;
	int r;

	r = peer_credentials(socket, &cred);
	if (r < 0)
		return r;
	client = find_adopted(control, &cred);
	if (client)
		return reconnect(control, client, socket);
	if (!may_connect(control, &cred))
		return -EMFILE;
	r = client_new(cred.pid, cred.uid, socket, &client);
	if (r < 0)
		return r;
	client->connected = true;
	r = watch(control, client->socket, (uintptr_t)client);
	if (r == 0)
		r = watch(control, client->pidfd, (uintptr_t)client | EVENT_PIDFD);
	if (r < 0) {
		client->socket = -1; /* the caller closes it */
		client_put(client);
		return r;
	}
	insert_client(control, client);
	log_debug(LOG_AREA_CONTROL, "process %d (%s) of user %u is connected", client->pid,
		  client->process.comm, client->uid);
	return 0;
}

static void accept_client(struct control *control)
{
	int socket = accept4(control->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (socket >= 0 && add_client(control, socket) < 0)
		close(socket);
}

static void handle_client(struct control *control, struct client *client)
{
	if (message_receive(&control->context, client) < 0)
		disconnect(control, client);
}

/* Release the mappings that have died, wherever that was noticed. */
static void reap_all(struct control *control)
{
	for (struct client *client = control->clients; client; client = client->next)
		control_reap(control, client);
}

/* Forget the events that are still to come for a client that was dropped. */
static void forget_events(struct epoll_event *events, int nr, const struct client *client)
{
	for (int i = 0; i < nr; i++) {
		if ((events[i].data.u64 & ~(uint64_t)EVENT_PIDFD) == (uintptr_t)client)
			events[i].data.u64 = 0;
	}
}

static void handle_event(struct control *control, uint64_t what, struct epoll_event *rest,
			 int nr)
{
	struct client *client = (struct client *)(uintptr_t)(what & ~(uint64_t)EVENT_PIDFD);
	uint64_t count;

	if (what == EVENT_LISTEN) {
		accept_client(control);
	} else if (what == EVENT_POKE) {
		if (read(control->event_fd, &count, sizeof(count)) >= 0)
			reap_all(control);
	} else if (what == EVENT_ORPHAN) {
		mount_pages_freed(control->mount);
	} else if (what) {
		client_ref(client);
		if (what & EVENT_PIDFD)
			drop_client(control, client);
		else
			handle_client(control, client);
		if (client->dropped)
			forget_events(rest, nr, client);
		client_put(client);
	}
}

/* Look after what no event tells: tokens, dead mappings, clients without a connection. */
static void look_after(struct control *control)
{
	struct client *client, *next;

	notify_alive();
	confine_report();
	token_expire(&control->tokens);
	adopt_settle_strays(control->mount);
	reap_all(control);
	for (client = control->clients; client; client = next) {
		next = client->next;
		if (has_gone(client))
			drop_client(control, client);
		else if (client->adopted)
			adopt_look_after(client);
	}
}

static void *control_main(void *data)
{
	struct control *control = data;
	uint64_t next_look_ns = 0, now;
	struct epoll_event events[32];
	int nr;

	while (!control->stop) {
		nr = epoll_wait(control->epoll_fd, events, 32, TICK_MS);
		for (int i = 0; i < nr; i++)
			handle_event(control, events[i].data.u64, events + i + 1, nr - i - 1);
		now = clock_now_ns();
		if (now < next_look_ns)
			continue;
		look_after(control);
		next_look_ns = now + TICK_MS * 1000000ULL;
	}
	while (control->clients)
		drop_client(control, control->clients);
	return NULL;
}

static int listen_on(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd, r;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	strcpy(address.sun_path, path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	/* Whoever may open files of the mount may connect: the token tells who may map. */
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    chmod(path, 0666) < 0 || listen(fd, 128) < 0) {
		r = -errno;
		close(fd);
		return r;
	}
	return fd;
}

static void close_all(struct control *control)
{
	if (control->listen_fd >= 0)
		unlink(control->socket_path);
	for (int *fd = (int[]){control->listen_fd, control->epoll_fd, control->event_fd, -2};
	     *fd != -2; fd++) {
		if (*fd >= 0)
			close(*fd);
	}
}

int control_new(struct mount *mount, const char *socket_path, struct control **ret_control)
{
	struct control *control = aligned_alloc(_Alignof(struct control), sizeof(*control));
	int r;

	if (!control)
		return -ENOMEM;
	memset(control, 0, sizeof(*control));
	control->mount = mount;
	control->context = (struct message_context){control, mount, &control->tokens};
	strncpy(control->socket_path, socket_path, sizeof(control->socket_path) - 1);
	mutex_init(&control->lock, LOCK_RANK_CONTROL);
	token_table_init(&control->tokens);
	control->listen_fd = listen_on(socket_path);
	control->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	control->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = control->listen_fd < 0 ? control->listen_fd : 0;
	if (r == 0 && (control->epoll_fd < 0 || control->event_fd < 0))
		r = -errno;
	if (r == 0)
		r = watch(control, control->listen_fd, EVENT_LISTEN);
	if (r == 0)
		r = watch(control, control->event_fd, EVENT_POKE);
	if (r == 0 && mount->has_orphans)
		r = watch(control, mount->orphans.inotify_fd, EVENT_ORPHAN);
	if (r == 0)
		r = adopt_clients(mount, control);
	if (r == 0)
		r = -pthread_create(&control->thread, NULL, control_main, control);
	if (r < 0) {
		/* those that were adopted are the next daemon's */
		mount_abandon(mount);
		while (control->clients)
			drop_client(control, control->clients);
		close_all(control);
		free(control);
		return r;
	}
	pthread_setname_np(control->thread, "hf-control");
	*ret_control = control;
	return 0;
}

void control_stop(struct control *control)
{
	if (!control)
		return;
	control->stop = true;
	control_poke(control);
	pthread_join(control->thread, NULL);
}

void control_free(struct control *control)
{
	if (!control)
		return;
	close_all(control);
	token_table_deinit(&control->tokens);
	mutex_deinit(&control->lock);
	free(control);
}

void control_poke(struct control *control)
{
	uint64_t one = 1;

	/* If it cannot be written the counter is full, and the thread awake. */
	if (write(control->event_fd, &one, sizeof(one)) < 0)
		return;
}

struct snapshot {
	struct mapping **mappings; /* each with a reference */
	size_t nr, room;
};

static int snapshot_add(struct snapshot *snapshot, struct mapping *mapping)
{
	struct mapping **grown;

	if (snapshot->nr == snapshot->room) {
		grown = reallocarray(snapshot->mappings, 2 * snapshot->room + 64,
				     sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		snapshot->mappings = grown;
		snapshot->room = 2 * snapshot->room + 64;
	}
	snapshot->mappings[snapshot->nr++] = mapping_ref(mapping);
	return 0;
}

/* All mappings that are attached; or -ENOMEM, and a part of them. */
static int take_snapshot(struct control *control, struct snapshot *snapshot)
{
	struct mapping *mapping;
	struct client *client;
	int r = 0;

	mutex_lock(&control->lock);
	for (client = control->clients; client && r == 0; client = client->next) {
		mutex_lock(&client->lock);
		for (mapping = client->mappings; mapping && r == 0; mapping = mapping->next)
			r = snapshot_add(snapshot, mapping);
		mutex_unlock(&client->lock);
	}
	mutex_unlock(&control->lock);
	return r;
}

int control_for_each_mapping(struct control *control, int (*visit)(struct mapping *, void *),
			     void *data)
{
	struct snapshot snapshot = {0};
	int r;

	if (!control)
		return 0;
	r = take_snapshot(control, &snapshot);
	for (size_t i = 0; i < snapshot.nr; i++) {
		if (r == 0)
			r = visit(snapshot.mappings[i], data);
		mapping_put(snapshot.mappings[i]);
	}
	free(snapshot.mappings);
	return r;
}

bool control_has_exited_client(struct control *control)
{
	struct client *client;
	bool exited = false;

	if (!control)
		return false;
	mutex_lock(&control->lock);
	for (client = control->clients; client && !exited; client = client->next)
		exited = client->nr_mappings > 0 && client_has_exited(client);
	mutex_unlock(&control->lock);
	return exited;
}

uint32_t control_nr_mappings(struct control *control)
{
	struct client *client;
	uint32_t nr = 0;

	mutex_lock(&control->lock);
	for (client = control->clients; client; client = client->next)
		nr += client->nr_mappings;
	mutex_unlock(&control->lock);
	return nr;
}

int control_wait_idle(struct control *control, uint64_t timeout_ns)
{
	uint32_t count = waitqueue_read(&control->released);

	if (control_nr_mappings(control) == 0)
		return 0;
	waitqueue_wait(&control->released, count, timeout_ns);
	return control_nr_mappings(control) == 0 ? 0 : -ETIMEDOUT;
}
