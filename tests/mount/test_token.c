/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Tokens: good once, for their process, for a while. As real users, in children. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixture.h"
#include "hugefuse.h"
#include "raw_client.h"

#define ALICE    12345
#define BOB      23456
#define PAGES    16
#define CHILD_MS 20000
#define TOKEN_MS 15000 /* longer than a token is good for */

#define PER_PROCESS 64
#define PER_USER    2048
#define HOARDERS    (PER_USER / PER_PROCESS + 1)

struct hoard {
	int count[2], end[2]; /* pipes */
};

static struct fixture fixture;

static void mount_it(void)
{
	memset(&fixture, 0, sizeof(fixture));
	fixture_mount(&fixture, "size=32M,mode=1777");
}

static int open_file(const char *name, int flags)
{
	return open(fixture_path(&fixture, name), flags | O_CLOEXEC, 0666);
}

static void assert_child(int (*function)(void *data), void *data, uid_t uid)
{
	assert_int_equal(run_child(function, data, uid, CHILD_MS), 0);
}

/* Tokens. */

static int token_pipe[2];

static int make_token(struct hugefuse_ioc_map *ret_map)
{
	int fd = open_file("token", O_RDWR | O_CREAT);

	child_check(fd >= 0);
	child_check(raw_request(fd, HUGEFUSE_MAP_WRITE, 0, 4 * PAGE_2M, ret_map) == 0);
	return 0;
}

/* Whether the token that came through the pipe, or with the fork, is refused. */
static int token_is_refused(void *data)
{
	struct hugefuse_ioc_map map;
	struct hugefuse_reply reply;
	int sock, fd;

	if (data)
		map = *(struct hugefuse_ioc_map *)data;
	else
		child_check(read(token_pipe[0], &map, sizeof(map)) == sizeof(map));
	sock = raw_connect(map.socket, 5000);
	child_check(sock >= 0);
	child_check(raw_attach(sock, map.token, &reply, &fd) == -EPERM);
	child_check(fd < 0);
	return 0;
}

/* A token of this process: refused to others, good here, and good once. */
static int use_token_once(void *data)
{
	struct hugefuse_ioc_map map;
	struct hugefuse_reply reply;
	uint64_t wrong[2];
	int sock, fd;

	child_check(make_token(&map) == 0);
	child_check(run_child(token_is_refused, &map, *(uid_t *)data, 5000) == 0);
	sock = raw_connect(map.socket, 5000);
	child_check(sock >= 0);
	for (int bit = 0; bit < 128; bit++) {
		memcpy(wrong, map.token, sizeof(wrong));
		wrong[bit / 64] ^= 1ULL << (bit % 64);
		child_check(raw_attach(sock, wrong, &reply, &fd) == -EPERM && fd < 0);
	}
	child_check(raw_attach(sock, map.token, &reply, &fd) == 0 && fd >= 0);
	child_check(raw_attach(sock, map.token, &reply, &fd) == -EPERM && fd < 0);
	close(sock);
	sock = raw_connect(map.socket, 5000);
	child_check(raw_attach(sock, map.token, &reply, &fd) == -EPERM && fd < 0);
	return 0;
}

static int give_token_away(void *data)
{
	struct hugefuse_ioc_map map;

	child_check(make_token(&map) == 0);
	child_check(write(token_pipe[1], &map, sizeof(map)) == sizeof(map));
	return 0;
}

static void *make_token_thread(void *data)
{
	return (void *)(intptr_t)make_token(data);
}

/* A token belongs to the process, whichever thread asked for it. */
static int token_of_a_thread(void *data)
{
	struct hugefuse_ioc_map map;
	struct hugefuse_reply reply;
	pthread_t thread;
	void *result;
	int fd;

	child_check(pthread_create(&thread, NULL, make_token_thread, &map) == 0);
	child_check(pthread_join(thread, &result) == 0 && result == NULL);
	child_check(raw_attach(raw_connect(map.socket, 5000), map.token, &reply, &fd) == 0);
	return 0;
}

static bool nothing_is_reserved(void *data)
{
	struct hugefuse_info info;

	return hugefuse_query(*(int *)data, &info) == 0 && info.file_reserved == 0;
}

/* A token that was never used is refused when its time is over, and its pages are free again.
 */
static int token_expires(void *data)
{
	struct hugefuse_ioc_map map;
	struct hugefuse_reply reply;
	int fd, pages;

	child_check(make_token(&map) == 0);
	fd = open_file("token", O_RDWR);
	child_check(fd >= 0 && !nothing_is_reserved(&fd));
	child_check(wait_until(nothing_is_reserved, &fd, TOKEN_MS));
	child_check(raw_attach(raw_connect(map.socket, 5000), map.token, &reply, &pages) ==
		    -EPERM);
	return 0;
}

/* Take as many tokens as there are to be had, and keep them until the pipe is closed. */
static int hoard_tokens(void *data)
{
	struct hoard *hoard = data;
	int fd = open_file("token", O_RDWR);
	struct hugefuse_ioc_map map;
	int r = 0, nr = -1;

	close(hoard->end[1]);
	child_check(fd >= 0);
	for (; r == 0; nr++)
		r = raw_request(fd, HUGEFUSE_MAP_NORESERVE, 0, PAGE_2M, &map);
	child_check(r == -EMFILE);
	child_check(write(hoard->count[1], &nr, sizeof(nr)) == sizeof(nr));
	child_check(read(hoard->end[0], &nr, 1) == 0);
	return 0;
}

/* No process, and no user, can have all the tokens there are. */
static void test_limits(void **state)
{
	pid_t children[HOARDERS];
	struct hoard hoard;
	int nr, total = 0;

	mount_it();
	close(fixture_file(&fixture, "token", O_RDWR | O_CREAT, 0));
	assert_int_equal(chmod(fixture_path(&fixture, "token"), 0666), 0);
	assert_int_equal(pipe2(hoard.count, O_CLOEXEC), 0);
	assert_int_equal(pipe2(hoard.end, O_CLOEXEC), 0);
	for (int i = 0; i < HOARDERS; i++) {
		children[i] = start_child(hoard_tokens, &hoard, ALICE);
		assert_int_equal(read(hoard.count[0], &nr, sizeof(nr)), sizeof(nr));
		assert_in_range(nr, 0, PER_PROCESS);
		total += nr;
	}
	assert_int_equal(total, PER_USER);
	assert_child(token_of_a_thread, NULL, BOB);
	close(hoard.end[1]);
	for (int i = 0; i < HOARDERS; i++)
		assert_int_equal(wait_child(children[i], CHILD_MS), 0);
	for (int i = 0; i < 2; i++)
		close(hoard.count[i]);
	close(hoard.end[0]);
	assert_int_equal(unlink(fixture_path(&fixture, "token")), 0);
	fixture_umount(&fixture);
}

/* The pages that a mapping of the whole mount leaves for nobody else. */
static int map_everything(void *data)
{
	int fd = open_file("everything", O_RDWR | O_CREAT);

	child_check(fd >= 0);
	child_check(hugefuse_mmap(NULL, PAGES * PAGE_2M, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
				  0) != MAP_FAILED);
	child_check(unlink(fixture_path(&fixture, "everything")) == 0);
	return 0;
}

static void test_tokens(void **state)
{
	uid_t other = BOB, same = 0;

	mount_it();
	assert_int_equal(pipe2(token_pipe, O_CLOEXEC), 0);
	assert_child(use_token_once, &other, 0);
	unlink(fixture_path(&fixture, "token"));
	assert_child(use_token_once, &same, ALICE);
	unlink(fixture_path(&fixture, "token"));
	assert_child(token_of_a_thread, NULL, ALICE);
	unlink(fixture_path(&fixture, "token"));
	/* Of a process that has gone, by its own user and by another. */
	assert_child(give_token_away, NULL, ALICE);
	assert_child(token_is_refused, NULL, ALICE);
	assert_child(give_token_away, NULL, ALICE);
	assert_child(token_is_refused, NULL, BOB);
	unlink(fixture_path(&fixture, "token"));
	assert_child(map_everything, NULL, BOB);
	assert_child(token_expires, NULL, ALICE);
	unlink(fixture_path(&fixture, "token"));
	assert_child(map_everything, NULL, BOB);
	close(token_pipe[0]);
	close(token_pipe[1]);
	fixture_umount(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tokens),
		cmocka_unit_test(test_limits),
	};

	require_root();
	require_pages(PAGE_2M, 16);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
