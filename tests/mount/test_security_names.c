/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names in a directory that everybody may write to: what one user cannot do to another by
 * links, by being first, by device nodes or by a quota; beside a tmpfs.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "beside.h"
#include "raw_client.h"

#define ALICE        12345
#define BOB          23456
#define NR_PROCESSES 4
#define NR_NAMES     300

static int alice_makes(void *data)
{
	umask(0);
	beside_open();
	both_give(0, close_after(openat(at, "alices", O_RDWR | O_CREAT | O_CLOEXEC, 0666)));
	both_give(0, symlinkat("alices", at, "link"));
	both_give(0, symlinkat("/etc/passwd", at, "out"));
	both_give(0, mkdirat(at, "dir", 0777));
	both_give(0, mkdirat(at, "closed", 0700));
	both_give(0, mkfifoat(at, "fifo", 0666));
	return 0;
}

static int bob_tries(void *data)
{
	const int create = O_RDWR | O_CREAT | O_NONBLOCK | O_CLOEXEC;

	umask(0);
	beside_open();
	both(close_after(openat(at, "alices", create, 0666)));
	both(close_after(openat(at, "fifo", create, 0666)));
	both(close_after(openat(at, "link", O_RDONLY | O_CLOEXEC)));
	both(close_after(openat(at, "link", create, 0666)));
	both(close_after(openat(at, "out", O_RDONLY | O_CLOEXEC)));
	both_give(EEXIST, close_after(openat(at, "alices", create | O_EXCL, 0666)));
	both_give(EEXIST, close_after(openat(at, "link", create | O_EXCL, 0666)));
	both_give(ELOOP, close_after(openat(at, "link", O_RDONLY | O_NOFOLLOW | O_CLOEXEC)));
	both_give(0, close_after(openat(at, "dir/../alices", O_RDONLY | O_CLOEXEC)));
	both_give(EACCES, close_after(openat(at, "closed/../alices", O_RDONLY | O_CLOEXEC)));
	both(linkat(at, "alices", at, "hard", 0));
	both_give(EPERM, unlinkat(at, "alices", 0));
	both_give(EPERM, unlinkat(at, "link", 0));
	both_give(EPERM, renameat(at, "dir", at, "mine"));
	both_give(0, close_after(openat(at, "bobs", create, 0666)));
	both_give(EPERM, renameat(at, "bobs", at, "alices"));
	both_give(EPERM, mknodat(at, "null", S_IFCHR | 0666, makedev(1, 3)));
	both_give(EPERM, mknodat(at, "disk", S_IFBLK | 0666, makedev(7, 0)));
	both_give(EPERM, fchownat(at, "bobs", ALICE, (gid_t)-1, 0));
	compare_tree(".", true);
	return 0;
}

static void test_links_and_nodes(void **state)
{
	beside_mount_with("mode=1777,size=16M", "mode=1777");
	beside_run(alice_makes, NULL, ALICE);
	beside_run(bob_tries, NULL, BOB);
	beside_umount();
}

static struct fixture fixture;

struct race {
	atomic_int nr_won[NR_NAMES];
};

/*
 * Interleaving: all make the same names at the same time with O_EXCL, and some by a hard link.
 * Of each name one is first.
 */
static int make_names(void *data)
{
	struct race *race = data;
	char name[32], own[32];
	int fd, r;

	snprintf(own, sizeof(own), "own-%d", getpid());
	fd = open(fixture_path(&fixture, own), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	child_check(fd >= 0);
	for (int i = 0; i < NR_NAMES; i++) {
		char path[256];

		snprintf(name, sizeof(name), "name-%d", i);
		snprintf(path, sizeof(path), "%s", fixture_path(&fixture, name));
		if ((i + getpid()) % 3 == 0) {
			r = link(fixture_path(&fixture, own), path);
		} else {
			r = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
			if (r >= 0)
				close(r);
		}
		child_check(r >= 0 || errno == EEXIST);
		race->nr_won[i] += r >= 0;
	}
	return 0;
}

static void test_one_is_first(void **state)
{
	struct race *race = mmap(NULL, sizeof(*race), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t process[NR_PROCESSES];

	fixture_mount(&fixture, "mode=1777,size=16M");
	for (int i = 0; i < NR_PROCESSES; i++)
		process[i] = start_child(make_names, race, i % 2 ? ALICE : BOB);
	for (int i = 0; i < NR_PROCESSES; i++)
		assert_int_equal(wait_child(process[i], 20000), 0);
	for (int i = 0; i < NR_NAMES; i++)
		assert_int_equal(race->nr_won[i], 1);
	fixture_umount(&fixture);
}

static int set_quota_of_own(void *data)
{
	const char *dir = fixture_path(&fixture, "own");

	child_check(mkdir(dir, 0777) == 0);
	child_check(setxattr(dir, "user.hugefuse.size", "4M", 2, 0) < 0 && errno == EPERM);
	child_check(setxattr(dir, "user.hugefuse.quota", "size=4M", 7, 0) < 0 &&
		    errno == EPERM);
	child_check(removexattr(dir, "user.hugefuse.size") < 0);
	return 0;
}

static int set_quota_of_others(void *data)
{
	const char *dir = fixture_path(&fixture, "own");

	child_check(setxattr(dir, "user.hugefuse.min_size", "4M", 2, 0) < 0);
	child_check(errno == EPERM || errno == EACCES);
	return 0;
}

/* Owning a directory does not give pages. */
static void test_quota(void **state)
{
	fixture_mount(&fixture, "mode=1777,size=16M");
	assert_int_equal(run_child(set_quota_of_own, NULL, ALICE, 10000), 0);
	assert_int_equal(run_child(set_quota_of_others, NULL, BOB, 10000), 0);
	assert_int_equal(
		setxattr(fixture_path(&fixture, "own"), "user.hugefuse.size", "4M", 2, 0), 0);
	fixture_umount(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_links_and_nodes),
		cmocka_unit_test(test_one_is_first),
		cmocka_unit_test(test_quota),
	};

	require_root();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
