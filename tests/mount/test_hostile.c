/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Hostile clients: messages that are wrong, others' mappings, floods, dying at any step, and
 * everything at random. A witness is served all the time, and after it all is as before.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "hostile.h"
#include "hugefuse.h"
#include "raw_client.h"
#include "witness.h"

#define USER     12345
#define PAGES    16
#define FUZZ_MS  12000
#define TOKEN_MS 12000 /* longer than a token lives */

/* Messages that are wrong. */

/* An address where nothing is, for lies. */
#define LIE 0x7000000000UL

static int send_wrong_registers(void *data)
{
	const uint64_t length = 2 * PAGE_2M;
	struct raw_mapping mapping;
	struct hugefuse_msg good = {.type = HUGEFUSE_MSG_REGISTER, .nr_shards = 1}, msg;
	int uffd, null, uninitialised, pipes[2], fds[16];

	child_check(attach(&mapping, "wrong", HUGEFUSE_MAP_WRITE, 2) == 0);
	uffd = raw_uffd(0);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	uninitialised = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	child_check(uffd >= 0 && null >= 0 && uninitialised >= 0 && pipe(pipes) == 0);
	good.mapping = mapping.attached.mapping;
	good.address = LIE;
	good.length = good.shard_length = length;
#define wrong(change, error, ...)                                                              \
	do {                                                                                   \
		int sent[] = {__VA_ARGS__};                                                    \
		msg = good;                                                                    \
		change;                                                                        \
		child_check(raw_call(mapping.sock, &msg, sent, sizeof(sent) / sizeof(sent[0]), \
				     NULL, NULL) == error);                                    \
	} while (0)
	wrong(msg.mapping++, -ENOENT, uffd);
	wrong(msg.mapping = UINT64_MAX, -ENOENT, uffd);
	wrong(msg.length = 0, -EINVAL, uffd);
	wrong(msg.length = PAGE_2M, -EINVAL, uffd);
	wrong(msg.length = UINT64_MAX, -EINVAL, uffd);
	wrong(msg.address = 0, -EINVAL, uffd);
	wrong(msg.address = LIE + 1, -EINVAL, uffd);
	wrong(msg.address = LIE + 4096, -EINVAL, uffd);
	wrong(msg.address = UINT64_MAX - PAGE_2M + 1, -EINVAL, uffd);
	wrong(msg.nr_shards = 2, -EINVAL, uffd);
	wrong(msg.nr_shards = UINT32_MAX, -EINVAL, uffd);
	wrong(msg.nr_shards = 0, -EINVAL, uffd);
	wrong(msg.shard_length = 0, -EINVAL, uffd);
	wrong(msg.shard_length = 1, -EINVAL, uffd);
	wrong(msg.shard_length = UINT64_MAX, -EINVAL, uffd);
	wrong(msg.shard_length = PAGE_2M, -EINVAL, uffd);
	wrong(msg.nr_shards = 2, -EINVAL, uffd, uffd);
	wrong(msg.nr_shards = 1, -EINVAL, null);
	wrong(msg.nr_shards = 1, -EINVAL, pipes[0]);
	wrong(msg.nr_shards = 1, -EINVAL, mapping.sock);
	wrong(msg.nr_shards = 1, -EINVAL, mapping.backing);
	wrong(msg.nr_shards = 1, -EINVAL, uninitialised);
	for (int i = 0; i < 16; i++)
		fds[i] = uffd;
	msg = good;
	msg.nr_shards = 16;
	child_check(raw_call(mapping.sock, &msg, fds, 16, NULL, NULL) == -EINVAL);
	/* Right at last, and then once more. */
	wrong(msg.nr_shards = 1, 0, uffd);
	wrong(msg.nr_shards = 1, -EEXIST, uffd);
	child_check(unlink(fixture_path(&fixture, "wrong")) == 0);
	return 0;
}

static int send_wrong_others(void *data)
{
	struct raw_mapping mapping;
	struct hugefuse_msg msg;
	static const uint64_t bad[] = {
		1, 4096, PAGE_2M - 1, UINT64_MAX, UINT64_MAX - PAGE_2M + 1, INT64_MAX};

	child_check(attach(&mapping, "wrong", HUGEFUSE_MAP_WRITE, 2) == 0);
	child_check(raw_mapping_register(&mapping, HUGEFUSE_MAP_WRITE, raw_uffd(0)) == 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		msg = (struct hugefuse_msg){.type = HUGEFUSE_MSG_UNMAP,
					    .mapping = mapping.attached.mapping,
					    .address = (uintptr_t)mapping.addr,
					    .length = bad[i]};
		child_check(raw_call(mapping.sock, &msg, NULL, 0, NULL, NULL) == -EINVAL);
		msg.type = HUGEFUSE_MSG_POPULATE;
		child_check(raw_call(mapping.sock, &msg, NULL, 0, NULL, NULL) == -EINVAL);
		msg.address = bad[i];
		msg.length = PAGE_2M;
		child_check(raw_call(mapping.sock, &msg, NULL, 0, NULL, NULL) == -EINVAL);
		msg.mapping = UINT64_MAX;
		child_check(raw_call(mapping.sock, &msg, NULL, 0, NULL, NULL) == -ENOENT);
		msg = (struct hugefuse_msg){
			.type = HUGEFUSE_MSG_FORK,
			.mapping = mapping.attached.mapping,
			.key = {mapping.attached.key[0], mapping.attached.key[1]},
			.length = 2 * PAGE_2M,
			.offset = PAGE_2M * (bad[i] / PAGE_2M + 2)};
		child_check(raw_call(mapping.sock, &msg, NULL, 0, NULL, NULL) == -EINVAL);
		msg.offset = 0;
		msg.length = bad[i];
		child_check(raw_call(mapping.sock, &msg, NULL, 0, NULL, NULL) == -EINVAL);
		msg.length = 2 * PAGE_2M;
		/* It would be registered too. */
		msg.address = PAGE_2M + 1;
		child_check(raw_call(mapping.sock, &msg, NULL, 0, NULL, NULL) == -EINVAL);
		msg.address = 0;
		child_check(raw_call(mapping.sock, &msg, &mapping.sock, 1, NULL, NULL) ==
			    -EINVAL);
		/* One that no daemon has died under. */
		msg.type = HUGEFUSE_MSG_REATTACH;
		child_check(raw_call(mapping.sock, &msg, NULL, 0, NULL, NULL) == -EPERM);
		msg.type = HUGEFUSE_MSG_FORK;
		msg.key[i % 2] ^= bad[i];
		child_check(raw_call(mapping.sock, &msg, NULL, 0, NULL, NULL) == -EPERM);
		msg.mapping = bad[i];
		child_check(raw_call(mapping.sock, &msg, NULL, 0, NULL, NULL) == -EPERM);
	}
	/* It works all the same. */
	mapping.addr[0] = 1;
	mapping.addr[PAGE_2M] = 1;
	child_check(unlink(fixture_path(&fixture, "wrong")) == 0);
	return 0;
}

static void test_wrong_messages(void **state)
{
	witness_begin("size=32M,mode=1777", PAGES);
	hostile(send_wrong_registers, NULL, 0);
	hostile(send_wrong_others, NULL, 0);
	witness_end();
}

/* What the daemon does not understand ends the connection, and no more than that. */
static int send_no_messages(void *data)
{
	char bytes[4096] = "";
	struct hugefuse_reply reply;
	struct raw_mapping mapping;
	int fds[253], r, sock;
	unsigned int nr;

	for (int kind = 0; kind < 9; kind++) {
		child_check(attach(&mapping, "no-message", HUGEFUSE_MAP_NORESERVE, 1) == 0);
		sock = mapping.sock;
		for (int i = 0; i < 253; i++)
			fds[i] = sock;
		memset(bytes, kind == 8 ? 0xff : 0, sizeof(bytes));
		nr = 0;
		switch (kind) {
		case 0: /* a message of no type */
			r = raw_send(sock, bytes, 64, NULL, 0);
			break;
		case 1:
			bytes[0] = HUGEFUSE_MSG_REATTACH + 1;
			r = raw_send(sock, bytes, 64, NULL, 0);
			break;
		case 2:
			bytes[0] = HUGEFUSE_MSG_UNMAP;
			r = raw_send(sock, bytes, 63, NULL, 0);
			break;
		case 3:
			bytes[0] = HUGEFUSE_MSG_UNMAP;
			r = raw_send(sock, bytes, 65, NULL, 0);
			break;
		case 4:
			r = raw_send(sock, bytes, sizeof(bytes), NULL, 0);
			break;
		case 5:
			r = raw_send(sock, bytes, 1, fds, 1);
			break;
		case 6:
			nr = 17;
			break;
		case 7:
			nr = 253;
			break;
		default:
			r = raw_send(sock, bytes, 64, NULL, 0);
		}
		if (nr) {
			bytes[0] = HUGEFUSE_MSG_UNMAP;
			r = raw_send(sock, bytes, 64, fds, nr);
		}
		child_check(r == 0);
		/* Nothing more is said on that connection. */
		child_check(shutdown(sock, SHUT_WR) == 0);
		child_check(raw_receive(sock, &reply, NULL) < 0);
		raw_mapping_close(&mapping);
	}
	child_check(unlink(fixture_path(&fixture, "no-message")) == 0);
	return 0;
}

static void test_no_messages(void **state)
{
	witness_begin("size=32M,mode=1777", PAGES);
	hostile(send_no_messages, NULL, USER);
	witness_end();
}

/* Other clients' mappings. */

struct victim {
	int to_us[2], to_it[2];
	struct raw_mapping mapping;
};

static int run_victim(void *data)
{
	struct victim *victim = data;
	char byte;

	child_check(attach(&victim->mapping, "victim", HUGEFUSE_MAP_WRITE, 2) == 0);
	child_check(raw_mapping_register(&victim->mapping, HUGEFUSE_MAP_WRITE, raw_uffd(0)) ==
		    0);
	child_check(write(victim->to_us[1], &victim->mapping, sizeof(victim->mapping)) ==
		    sizeof(victim->mapping));
	child_check(read(victim->to_it[0], &byte, 1) == 1);
	victim->mapping.addr[0] = 1;
	victim->mapping.addr[PAGE_2M] = 1;
	child_check(unlink(fixture_path(&fixture, "victim")) == 0);
	return 0;
}

static int use_victims_mapping(void *data)
{
	const struct raw_mapping *theirs = data;
	struct hugefuse_msg msg = {
		.mapping = theirs->attached.mapping,
		.address = (uintptr_t)theirs->addr,
		.length = theirs->length,
	};
	int sock = raw_connect(theirs->map.socket, 5000), uffd = raw_uffd(UFFD_USER_MODE_ONLY);

	child_check(sock >= 0);
	msg.type = HUGEFUSE_MSG_UNMAP;
	child_check(raw_call(sock, &msg, NULL, 0, NULL, NULL) == 0); /* as one that is gone */
	msg.type = HUGEFUSE_MSG_POPULATE;
	child_check(raw_call(sock, &msg, NULL, 0, NULL, NULL) == -ENOENT);
	if (uffd >= 0) {
		msg.type = HUGEFUSE_MSG_REGISTER;
		msg.nr_shards = 1;
		msg.shard_length = msg.length;
		child_check(raw_call(sock, &msg, &uffd, 1, NULL, NULL) == -ENOENT);
	}
	msg = (struct hugefuse_msg){.type = HUGEFUSE_MSG_FORK,
				    .mapping = theirs->attached.mapping,
				    .length = theirs->length};
	child_check(raw_call(sock, &msg, NULL, 0, NULL, NULL) == -EPERM);
	/* Even with the key, if that has leaked: another user's. */
	msg.key[0] = theirs->attached.key[0];
	msg.key[1] = theirs->attached.key[1];
	child_check(raw_call(sock, &msg, NULL, 0, NULL, NULL) == -EPERM);
	return 0;
}

static void test_others_mappings(void **state)
{
	struct victim victim;
	struct raw_mapping theirs;
	long mapped;
	pid_t child;

	witness_begin("size=32M,mode=1777", PAGES);
	assert_int_equal(pipe2(victim.to_us, O_CLOEXEC), 0);
	assert_int_equal(pipe2(victim.to_it, O_CLOEXEC), 0);
	child = start_child(run_victim, &victim, 0);
	assert_int_equal(read(victim.to_us[0], &theirs, sizeof(theirs)), sizeof(theirs));
	mapped = fixture_nr_mapped(&fixture);
	hostile(use_victims_mapping, &theirs, USER);
	assert_int_equal(fixture_nr_mapped(&fixture), mapped);
	assert_int_equal(write(victim.to_it[1], "", 1), 1);
	assert_int_equal(wait_child(child, 5000), 0);
	for (int i = 0; i < 2; i++) {
		close(victim.to_us[i]);
		close(victim.to_it[i]);
	}
	witness_end();
}

/* Floods. */

static int flood_connections(void *data)
{
	struct hugefuse_ioc_map map;
	struct hugefuse_reply reply;
	int fd = open_file("flood", O_RDWR | O_CREAT), ours, sock;
	uint64_t key[2];

	child_check(fd >= 0);
	child_check(raw_request(fd, HUGEFUSE_MAP_WRITE, 0, PAGE_2M, &map) == 0);
	ours = raw_connect(map.socket, 5000);
	child_check(ours >= 0);
	memcpy(key, map.token, sizeof(key));
	for (int i = 0; i < 600; i++) {
		sock = raw_connect(map.socket, 5000);
		child_check(sock >= 0);
		if (i % 3 == 0)
			close(sock);
		else if (i % 3 == 1)
			raw_send(sock, "", 1, NULL, 0);
	}
	/* The one that was there first is still good. */
	child_check(raw_attach(ours, key, &reply, NULL) == 0);
	/* And so is that of another process of this user. */
	child_check(run_child(send_no_messages, NULL, 0, 20000) == 0);
	child_check(unlink(fixture_path(&fixture, "flood")) == 0);
	return 0;
}

/* Tokens are few a process, and what is refused reserves nothing. */
static int flood_tokens(void *data)
{
	struct hugefuse_ioc_map map;
	struct hugefuse_info info;
	int fd = open_file("tokens", O_RDWR | O_CREAT), r = 0, nr = 0;

	child_check(fd >= 0);
	while (nr < 10000 && r == 0) {
		r = raw_request(fd, HUGEFUSE_MAP_NORESERVE, 0, PAGE_2M, &map);
		nr += r == 0;
	}
	child_check(r == -EMFILE && nr >= 8);
	close(fd);
	fd = open_file("tokens2", O_RDWR | O_CREAT);
	child_check(raw_request(fd, HUGEFUSE_MAP_WRITE, 0, PAGE_2M, &map) == -EMFILE);
	child_check(hugefuse_query(fd, &info) == 0 && info.file_reserved == 0);
	child_check(unlink(fixture_path(&fixture, "tokens")) == 0);
	child_check(unlink(fixture_path(&fixture, "tokens2")) == 0);
	return 0;
}

/* Never read a reply. */
static int flood_messages(void *data)
{
	struct hugefuse_msg msg = {.type = HUGEFUSE_MSG_UNMAP};
	struct raw_mapping mapping;
	int r = 0;

	child_check(attach(&mapping, "flood", HUGEFUSE_MAP_WRITE, 2) == 0);
	child_check(raw_mapping_register(&mapping, HUGEFUSE_MAP_WRITE, raw_uffd(0)) == 0);
	if (data)
		msg = (struct hugefuse_msg){.type = HUGEFUSE_MSG_POPULATE,
					    .mapping = mapping.attached.mapping,
					    .address = (uintptr_t)mapping.addr,
					    .length = mapping.length};
	for (int i = 0; i < 100000 && r == 0; i++)
		r = raw_send(mapping.sock, &msg, sizeof(msg), NULL, 0);
	child_check(r == -EPIPE || r == -ECONNRESET);
	child_check(unlink(fixture_path(&fixture, "flood")) == 0);
	return 0;
}

static void test_floods(void **state)
{
	int yes = 1;

	witness_begin("size=32M,mode=1777", PAGES);
	hostile(flood_connections, NULL, USER);
	hostile(flood_tokens, NULL, USER);
	hostile(flood_messages, NULL, 0);
	hostile(flood_messages, &yes, 0);
	witness_end();
}

/* Dying, at each step. */

static int die_at_step(void *data)
{
	int step = *(int *)data, fd = open_file("dying", O_RDWR | O_CREAT);
	struct hugefuse_msg msg = {.type = HUGEFUSE_MSG_POPULATE};
	struct raw_mapping mapping = {.sock = -1};
	uint32_t flags = HUGEFUSE_MAP_WRITE | (step >= 10 ? HUGEFUSE_MAP_PRIVATE : 0);

	step %= 10;
	child_check(fd >= 0);
	if (step == 0)
		raw_request(fd, flags, 0, 4 * PAGE_2M, &mapping.map);
	if (step > 0)
		child_check(raw_mapping_attach(&mapping, fd, flags, 0, 4 * PAGE_2M) == 0);
	if (step == 2)
		close(mapping.sock);
	if (step > 2)
		child_check(raw_mapping_register(&mapping, flags, raw_uffd(0)) == 0);
	if (step == 4)
		mapping.addr[0] = 1;
	if (step == 5) {
		/* In the middle of populating. */
		msg.mapping = mapping.attached.mapping;
		msg.address = (uintptr_t)mapping.addr;
		msg.length = mapping.length;
		raw_send(mapping.sock, &msg, sizeof(msg), NULL, 0);
	}
	if (step == 6)
		close(mapping.uffd);
	if (step == 7) {
		close(mapping.sock);
		mapping.addr[PAGE_2M] = 1; /* served without a connection, too */
	}
	if (step == 8)
		munmap(mapping.addr, mapping.length); /* and never say so */
	if (step == 9 && fork() == 0) {
		mapping.addr[0] = 1; /* the child has no userfaultfd */
		_exit(0);
	}
	unlink(fixture_path(&fixture, "dying"));
	kill(getpid(), SIGKILL);
	return 1;
}

/* But for what the witness has. */
static bool all_is_given_back(void *data)
{
	struct statfs st;

	return statfs(fixture.dir, &st) == 0 && st.f_bfree == PAGES - WITNESS_PAGES &&
	       fixture_nr_mapped(&fixture) == 1;
}

static void test_dying(void **state)
{
	witness_begin("size=32M,mode=1777", PAGES);
	assert_true(all_is_given_back(NULL));
	for (int step = 0; step < 20; step++) {
		assert_int_equal(run_child(die_at_step, &step, 0, 5000), 1000 + SIGKILL);
		if (!wait_until(all_is_given_back, NULL, 1000))
			fail_msg("step %d: not everything is given back", step);
	}
	witness_end();
}

/* Everything at random. */

#define FUZZ_SOCKETS 8

struct fuzzer {
	int socks[FUZZ_SOCKETS];
	int fds[8]; /* what is sent along */
	int file;
	char socket[HUGEFUSE_SOCKET_PATH_MAX];
	uint64_t ids[16], keys[16][2];
	unsigned int nr_ids;
	char *memory;
};

static unsigned int below(unsigned int n)
{
	return (unsigned int)(rand() % (int)n);
}

static uint64_t any_number(const struct fuzzer *fuzzer)
{
	switch (below(6)) {
	case 0:
		return (uint64_t)absurd[below(NR_ABSURD)];
	case 1:
		return PAGE_2M * below(6);
	case 2:
		return fuzzer->ids[below(16)];
	case 3:
		return (uintptr_t)fuzzer->memory + PAGE_2M * below(4);
	case 4:
		return (uint64_t)rand() << below(40);
	default:
		return below(5);
	}
}

static void fuzz_message(struct fuzzer *fuzzer, int sock)
{
	unsigned int id = below(16), nr_fds = below(4) ? 0 : below(below(8) ? 20 : 254);
	int fds[253];
	struct hugefuse_msg msg = {
		.type = below(8),
		.nr_shards = below(3) ? nr_fds : (uint32_t)any_number(fuzzer),
		.mapping = below(4) ? fuzzer->ids[id] : any_number(fuzzer),
		.key = {fuzzer->keys[id][0], fuzzer->keys[id][1]},
		.address = below(2) ? (uintptr_t)fuzzer->memory : any_number(fuzzer),
		.length = below(2) ? 4 * PAGE_2M : any_number(fuzzer),
		.shard_length = below(2) ? 4 * PAGE_2M : any_number(fuzzer),
		.offset = below(2) ? 0 : any_number(fuzzer),
	};
	size_t len = below(20) ? sizeof(msg) : below(sizeof(msg) + 1);

	for (unsigned int i = 0; i < nr_fds; i++)
		fds[i] = fuzzer->fds[below(8)];
	raw_send(sock, &msg, len, fds, nr_fds);
}

static void fuzz_attach(struct fuzzer *fuzzer, int sock)
{
	struct hugefuse_reply reply;
	struct hugefuse_ioc_map map;
	uint32_t flags = below(8) | (below(2) ? HUGEFUSE_MAP_NORESERVE : 0);
	uint64_t length = below(4) ? 4 * PAGE_2M : any_number(fuzzer);
	unsigned int id = fuzzer->nr_ids++ % 16;

	if (raw_request(fuzzer->file, flags, below(4) ? 0 : any_number(fuzzer), length, &map) <
		    0 ||
	    below(8) == 0)
		return;
	/* Replies to what was sent before come first. */
	while (recv(sock, &reply, sizeof(reply), MSG_DONTWAIT) > 0)
		;
	if (raw_attach(sock, map.token, &reply, NULL) == 0) {
		fuzzer->ids[id] = reply.mapping;
		memcpy(fuzzer->keys[id], reply.key, sizeof(reply.key));
	}
}

static void fuzz_step(struct fuzzer *fuzzer)
{
	int *sock = &fuzzer->socks[below(FUZZ_SOCKETS)];
	struct hugefuse_reply reply;
	char garbage[256];

	switch (*sock < 0 ? 0 : below(12)) {
	case 0:
		if (*sock >= 0)
			close(*sock);
		*sock = raw_connect(fuzzer->socket, 200);
		break;
	case 1:
		for (size_t i = 0; i < sizeof(garbage); i++)
			garbage[i] = (char)rand();
		raw_send(*sock, garbage, below(sizeof(garbage)), NULL, 0);
		break;
	case 2:
	case 3:
		fuzz_attach(fuzzer, *sock);
		break;
	case 4:
		while (recv(*sock, &reply, sizeof(reply), MSG_DONTWAIT) > 0)
			;
		break;
	case 5:
		fcntl(fuzzer->fds[0], F_SETFL, below(2) ? O_NONBLOCK : 0);
		break;
	case 6:
		shutdown(*sock, (int)below(3));
		break;
	default:
		fuzz_message(fuzzer, *sock);
	}
}

static int run_fuzz(void *data)
{
	struct fuzzer fuzzer = {.file = open_file("fuzz", O_RDWR | O_CREAT)};
	unsigned int seed = *(unsigned int *)data;
	struct hugefuse_ioc_map map;
	long until = now_ms() + FUZZ_MS / 2, nr = 0;

	srand(seed);
	fuzzer.fds[0] = raw_uffd(0);
	fuzzer.fds[1] = raw_uffd(UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_UNMAP);
	fuzzer.fds[2] = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	fuzzer.fds[3] = open("/dev/null", O_RDWR | O_CLOEXEC);
	fuzzer.fds[4] = fuzzer.file;
	fuzzer.fds[5] = memfd_create("fuzz", MFD_CLOEXEC);
	fuzzer.fds[6] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	fuzzer.fds[7] = open(fixture.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* With half of the seeds as a user, who has the userfaultfds from before. */
	if (seed % 2) {
		child_check(fchmod(fuzzer.file, 0666) == 0);
		child_check(setresgid(USER, USER, USER) == 0 &&
			    setresuid(USER, USER, USER) == 0);
	}
	fuzzer.memory = mmap(NULL, 4 * PAGE_2M, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	child_check(fuzzer.memory != MAP_FAILED);
	/* Aligned, as the daemon wants it. */
	fuzzer.memory = (char *)(((uintptr_t)fuzzer.memory + PAGE_2M - 1) & ~(PAGE_2M - 1));
	/* What the one before has asked for and not taken is kept for it for ten seconds. */
	while (raw_request(fuzzer.file, 0, 0, PAGE_2M, &map) != 0) {
		child_check(errno == ENOMEM && now_ms() < until + TOKEN_MS);
		poll(NULL, 0, 50);
	}
	until = now_ms() + FUZZ_MS / 2;
	memcpy(fuzzer.socket, map.socket, sizeof(fuzzer.socket));
	for (int i = 0; i < FUZZ_SOCKETS; i++)
		fuzzer.socks[i] = -1;
	for (; now_ms() < until; nr++)
		fuzz_step(&fuzzer);
	printf("%ld random steps\n", nr);
	fflush(NULL);
	return 0;
}

static void test_fuzz(void **state)
{
	const char *given = getenv("SEED");
	unsigned int seed = given ? (unsigned int)strtoul(given, NULL, 10)
				  : (unsigned int)time(NULL);

	witness_begin("size=32M,mode=1777", PAGES);
	for (int i = 0; i < 2; i++, seed++) {
		printf("SEED=%u\n", seed);
		hostile(run_fuzz, &seed, 0);
		assert_int_equal(unlink(fixture_path(&fixture, "fuzz")), 0);
	}
	witness_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wrong_messages),  cmocka_unit_test(test_no_messages),
		cmocka_unit_test(test_others_mappings), cmocka_unit_test(test_floods),
		cmocka_unit_test(test_dying),           cmocka_unit_test(test_fuzz),
	};

	require_root();
	require_pages(PAGE_2M, PAGES);
	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
