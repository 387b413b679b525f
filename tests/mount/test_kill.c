/* SPDX-License-Identifier: GPL-2.0-or-later */
/* kill -9: the daemon's while clients fault, and clients' at every step. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "hugefuse.h"
#include "hugefuse_protocol.h"
#include "side.h"

#define RW             (PROT_READ | PROT_WRITE)
#define POOL           24
#define FILE_PAGES     48 /* half of them with data */
#define OWN_PAGES      16 /* of a private mapping of the first pages, half of them with data */
#define NR_CLIENTS     2
#define NR_THREADS     3
#define DAEMON_POOL    (FILE_PAGES + NR_CLIENTS * OWN_PAGES)
#define LONGEST_MS     1000
#define DAEMON_OPTIONS "size=160M"

static char *page(char *p, long idx)
{
	return p + idx * (long)PAGE_2M;
}

/* ---- the daemon ---- */

struct crash {
	struct fixture *fixture;
	atomic_int nr_mapped;  /* clients that have mapped */
	atomic_int nr_touched; /* pages, by all clients */
	atomic_bool killed;
};

struct crash_client {
	struct crash *crash;
	char *shared, *own;
	atomic_int next;
};

static int with_data(long idx)
{
	return idx % 2 == 0;
}

static void write_data(const struct fixture *fixture)
{
	int fd = fixture_file(fixture, "file", O_RDWR | O_CREAT, FILE_PAGES * PAGE_2M);
	char *p = hugefuse_mmap(NULL, FILE_PAGES * PAGE_2M, RW, MAP_SHARED, fd, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	for (long i = 0; i < FILE_PAGES; i++) {
		if (with_data(i))
			memset(page(p, i), (int)i + 1, PAGE_2M);
	}
	assert_int_equal(hugefuse_munmap(p, FILE_PAGES * PAGE_2M), 0);
	close(fd);
}

static int write_data_in_child(void *data)
{
	write_data(data);
	return 0;
}

static void check_page(volatile char *at, long idx, bool own)
{
	uint64_t start = clock_ms(), took;
	char byte = at[PAGE_2M - 1];

	took = clock_ms() - start;
	if (took >= LONGEST_MS)
		fail_msg("page %ld took %lu ms", idx, (unsigned long)took);
	if (byte != (with_data(idx) ? (char)(idx + 1) : 0) || at[PAGE_2M / 2] != byte)
		fail_msg("page %ld of the %s mapping has %d", idx, own ? "private" : "shared",
			 byte);
	at[own] = (char)(idx + 101);
}

static void *touch_until_all(void *data)
{
	struct crash_client *client = data;
	int number;

	while ((number = client->next++) < FILE_PAGES + OWN_PAGES) {
		if (number % 4 == 3)
			check_page(page(client->own, number / 4), number / 4, true);
		else
			check_page(page(client->shared, number / 4 * 3 + number % 4),
				   number / 4 * 3 + number % 4, false);
		client->crash->nr_touched++;
	}
	return NULL;
}

/* All pages once more, as they were left. */
static void check_all(struct crash_client *client)
{
	for (long i = 0; i < FILE_PAGES; i++) {
		assert_int_equal(page(client->shared, i)[0], (char)(i + 101));
		assert_int_equal(page(client->shared, i)[PAGE_2M - 1],
				 with_data(i) ? i + 1 : 0);
	}
	for (long i = 0; i < OWN_PAGES; i++) {
		assert_int_equal(page(client->own, i)[1], (char)(i + 101));
		assert_int_equal(page(client->own, i)[PAGE_2M - 1], with_data(i) ? i + 1 : 0);
		assert_int_equal(page(client->shared, i)[1], with_data(i) ? i + 1 : 0);
	}
}

static int run_crash_client(void *data)
{
	struct crash_client client = {data};
	struct fixture *fixture = client.crash->fixture;
	int fd = fixture_file(fixture, "file", O_RDWR, 0);
	pthread_t thread[NR_THREADS];

	client.shared = hugefuse_mmap(NULL, FILE_PAGES * PAGE_2M, RW, MAP_SHARED, fd, 0);
	client.own = hugefuse_mmap(NULL, OWN_PAGES * PAGE_2M, RW, MAP_PRIVATE, fd, 0);
	assert_true(client.shared != MAP_FAILED && client.own != MAP_FAILED);
	client.crash->nr_mapped++;
	for (int i = 0; i < NR_THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, touch_until_all, &client), 0);
	for (int i = 0; i < NR_THREADS; i++)
		pthread_join(thread[i], NULL);
	check_all(&client);
	while (!client.crash->killed)
		usleep(1000);
	assert_ptr_equal(hugefuse_mmap(NULL, PAGE_2M, RW, MAP_SHARED, fd, 0), MAP_FAILED);
	assert_int_equal(errno, ENOTCONN);
	assert_int_equal(hugefuse_munmap(client.own, PAGE_2M), 0);
	assert_false(is_mapped(client.own));
	assert_int_equal(page(client.own, 1)[1], 102);
	return 0;
}

struct progress {
	struct crash *crash;
	int least;
};

static bool has_progressed(void *data)
{
	struct progress *progress = data;

	return progress->crash->nr_mapped == NR_CLIENTS &&
	       progress->crash->nr_touched >= progress->least;
}

/*
 * Interleaving: clients of several threads fault without pause; at some moment, with threads
 * asleep in the daemon's userfaultfds, the daemon is gone.
 */
static void kill_daemon_after(int nr_touched, const char *options)
{
	struct fixture fixture = {0};
	struct crash *crash = shared_memory(sizeof(*crash));
	struct progress progress = {crash, nr_touched};
	pid_t client[NR_CLIENTS];
	int prepared, result[NR_CLIENTS];
	bool progressed;

	crash->fixture = &fixture;
	fixture_mount(&fixture, options);
	prepared = reap_child(start_child(write_data_in_child, &fixture, 0), 10000);
	for (int i = 0; i < NR_CLIENTS; i++)
		client[i] = start_child(run_crash_client, crash, 0);
	progressed = wait_until(has_progressed, &progress, 10000);
	fixture_kill(&fixture);
	crash->killed = true;
	for (int i = 0; i < NR_CLIENTS; i++)
		result[i] = reap_child(client[i], 10000);
	fixture_umount(&fixture);
	assert_int_equal(prepared, 0);
	assert_true(progressed);
	for (int i = 0; i < NR_CLIENTS; i++)
		assert_int_equal(result[i], 0);
	munmap(crash, sizeof(*crash));
}

static void test_daemon_dies(void **state)
{
	for (int nr_touched = 1; nr_touched <= 60; nr_touched += 4)
		kill_daemon_after(nr_touched, DAEMON_OPTIONS);
}

static void test_daemon_dies_populating(void **state)
{
	for (int nr_touched = 1; nr_touched <= 40; nr_touched += 10)
		kill_daemon_after(nr_touched, DAEMON_OPTIONS ",ahead=16M,fault_threads=4");
}

static int wait_for_a_page(void *data)
{
	const struct fixture *fixture = data;
	int fd = fixture_file(fixture, "file", O_RDWR | O_CREAT, 2 * PAGE_2M);
	char *p = hugefuse_mmap(NULL, 2 * PAGE_2M, RW, MAP_SHARED | MAP_NORESERVE, fd, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	*p = 1;
	return raises_sigbus(page(p, 1), true) ? 0 : 1;
}

static bool has_waited(void *data)
{
	return fixture_fault_stat(data, "waiting") > 0;
}

/* Who waits for a page when the daemon dies learns from the kernel that there is none. */
static void test_daemon_dies_with_waiters(void **state)
{
	struct fixture fixture = {0};
	uint64_t start;
	pid_t child;
	bool waited;
	int result;

	fixture_mount(&fixture, "size=2M,on_exhausted=wait");
	child = start_child(wait_for_a_page, &fixture, 0);
	waited = wait_until(has_waited, &fixture, 5000);
	fixture_kill(&fixture);
	start = clock_ms();
	result = reap_child(child, 5000);
	start = clock_ms() - start;
	fixture_umount(&fixture);
	assert_true(waited);
	assert_int_equal(result, 0);
	assert_true(start < LONGEST_MS);
}

/* ---- clients ---- */

/* How far a client gets. */
enum step {
	STEP_ASKED,      /* has a token */
	STEP_ATTACHED,   /* has the descriptor */
	STEP_MAPPED,     /* has mapped it */
	STEP_REGISTERED, /* all of hugefuse_mmap() */
	STEP_TOUCHED,
	NR_STEPS,
};

struct victim {
	struct side *side;
	enum step step;
	int flags; /* MAP_SHARED or MAP_PRIVATE */
	int ready[2];
};

static void ask(int fd, int flags, struct hugefuse_ioc_map *map)
{
	*map = (struct hugefuse_ioc_map){
		.version = HUGEFUSE_PROTOCOL_VERSION,
		.flags = HUGEFUSE_MAP_WRITE | (flags & MAP_PRIVATE ? HUGEFUSE_MAP_PRIVATE : 0),
		.length = 4 * PAGE_2M,
	};
	assert_int_equal(ioctl(fd, HUGEFUSE_IOC_MAP, map), 0);
}

static int attach(const struct hugefuse_ioc_map *map)
{
	struct hugefuse_msg attach_msg = {
		.type = HUGEFUSE_MSG_ATTACH,
		.key = {map->token[0], map->token[1]},
	};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char control[CMSG_SPACE(sizeof(int))];
	struct hugefuse_reply reply;
	struct iovec iov = {&reply, sizeof(reply)};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control,
			     .msg_controllen = sizeof(control)};
	int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), fd;

	memcpy(address.sun_path, map->socket, sizeof(map->socket));
	assert_int_equal(connect(s, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(send(s, &attach_msg, sizeof(attach_msg), 0), sizeof(attach_msg));
	assert_int_equal(recvmsg(s, &msg, 0), sizeof(reply));
	assert_int_equal(reply.error, 0);
	assert_non_null(CMSG_FIRSTHDR(&msg));
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	return fd;
}

static void go_to(struct victim *victim)
{
	int fd = side_file(victim->side, "file", 4), pages;
	struct hugefuse_ioc_map map;
	char *p;

	if (victim->step >= STEP_REGISTERED) {
		p = side_map_pages(victim->side, victim->flags, fd, 0, 4);
		if (victim->step == STEP_TOUCHED)
			*p = *page(p, 2) = 1;
		return;
	}
	ask(fd, victim->flags, &map);
	if (victim->step == STEP_ASKED)
		return;
	pages = attach(&map);
	if (victim->step == STEP_MAPPED)
		assert_ptr_not_equal(mmap(NULL, 4 * PAGE_2M, RW, victim->flags, pages, 0),
				     MAP_FAILED);
}

static int run_victim(void *data)
{
	struct victim *victim = data;

	go_to(victim);
	assert_int_equal(write(victim->ready[1], "", 1), 1);
	pause();
	return 0;
}

static void kill_at(struct side *side, enum step step, int flags)
{
	struct victim victim = {side, step, flags};
	char byte;
	pid_t child;

	assert_int_equal(pipe(victim.ready), 0);
	child = start_child(run_victim, &victim, 0);
	assert_int_equal(read(victim.ready[0], &byte, 1), 1);
	side_expect(side, step == STEP_TOUCHED ? 2 : 0, step == STEP_TOUCHED ? 2 : 4);
	kill(child, SIGKILL);
	assert_int_equal(wait_child(child, 1000), 1000 + SIGKILL);
	close(victim.ready[0]);
	close(victim.ready[1]);
}

static void private_client_dies(struct side *side)
{
	int first = side->kernel ? STEP_REGISTERED : STEP_ASKED;

	for (int step = first; step < NR_STEPS; step++) {
		kill_at(side, (enum step)step, MAP_PRIVATE);
		side_expect(side, 0, 0); /* within a second */
	}
}

/* From ATTACH on the reservation is the file's, as it is from mmap(2) on with the kernel. */
static void shared_client_dies(struct side *side)
{
	int first = side->kernel ? STEP_REGISTERED : STEP_ASKED;

	for (int step = first; step < NR_STEPS; step++) {
		kill_at(side, (enum step)step, MAP_SHARED);
		if (step == STEP_ASKED)
			side_expect(side, 0, 0);
		else if (step >= STEP_REGISTERED)
			side_expect(side, step == STEP_TOUCHED ? 2 : 0,
				    step == STEP_TOUCHED ? 2 : 4);
		assert_int_equal(unlink(fixture_path(&side->fixture, "file")), 0);
		side_expect(side, 0, 0);
	}
}

static bool nothing_is_reserved(void *data)
{
	return side_resv(data) == 0;
}

/* A client that lives but never comes with its token. */
static void token_expires(struct side *side)
{
	int fd = side_file(side, "file", 4);
	struct hugefuse_ioc_map map;

	ask(fd, MAP_SHARED, &map);
	ask(fd, MAP_PRIVATE, &map);
	side_expect(side, 0, 8);
	assert_true(wait_until(nothing_is_reserved, side, 12000));
}

struct faulting {
	struct side *side;
	atomic_int nr_touched;
	atomic_int next;
	char *own, *shared;
};

static void *fault_for_ever(void *data)
{
	struct faulting *faulting = data;

	for (;;) {
		int idx = faulting->next++ % 8;

		*page(faulting->own, idx) = 1;
		*page(faulting->shared, idx) = 1;
		faulting->nr_touched++;
		madvise(page(faulting->own, idx), PAGE_2M, MADV_DONTNEED);
		madvise(page(faulting->shared, idx), PAGE_2M, MADV_REMOVE);
	}
	return NULL;
}

static int run_faulting(void *data)
{
	struct faulting *faulting = data;
	int fd = side_file(faulting->side, "file", 8);
	pthread_t thread;

	faulting->own = side_map_pages(faulting->side, MAP_PRIVATE, fd, 0, 8);
	faulting->shared = side_map_pages(faulting->side, MAP_SHARED, fd, 0, 8);
	for (int i = 0; i < NR_THREADS; i++)
		assert_int_equal(pthread_create(&thread, NULL, fault_for_ever, faulting), 0);
	pause();
	return 0;
}

static bool is_faulting(void *data)
{
	struct faulting *faulting = data;

	return faulting->nr_touched > 20;
}

/*
 * Interleaving: a client is killed with threads asleep in a userfaultfd, and the daemon about
 * to give them pages.
 */
static void client_dies_faulting(struct side *side)
{
	struct faulting *faulting = shared_memory(sizeof(*faulting));
	pid_t child;

	for (int round = 0; round < 30; round++) {
		memset(faulting, 0, sizeof(*faulting));
		faulting->side = side;
		child = start_child(run_faulting, faulting, 0);
		assert_true(wait_until(is_faulting, faulting, 5000));
		kill(child, SIGKILL);
		assert_int_equal(wait_child(child, 1000), 1000 + SIGKILL);
		assert_int_equal(unlink(fixture_path(&side->fixture, "file")), 0);
		side_expect(side, 0, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_daemon_dies),
		cmocka_unit_test(test_daemon_dies_populating),
		cmocka_unit_test(test_daemon_dies_with_waiters),
		ON_BOTH(private_client_dies, POOL),
		ON_BOTH(shared_client_dies, POOL),
		ON_HUGEFUSE(token_expires, "", POOL),
		ON_BOTH(client_dies_faulting, POOL),
	};

	require_root();
	require_pages(PAGE_2M, DAEMON_POOL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
