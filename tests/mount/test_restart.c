/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A daemon is killed and started again on the same mount point: files, data, owners and
 * reservations are as before, clients have noticed nothing, and the counters are the kernel's.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "hugefuse.h"
#include "restart.h"
#include "side.h"

static const char *const options = "size=48M";

static void kill_and_restart(struct fixture *fixture)
{
	fixture_kill(fixture);
	fixture_restart(fixture, options);
}

/* ---- files ---- */

struct file_facts {
	struct stat st;
	unsigned char bytes[3];
	char xattr[16], link[256];
};

static struct file_facts read_facts(const struct fixture *fixture, const char *name)
{
	const char *path = fixture_path(fixture, name);
	struct file_facts facts;
	int fd;

	memset(&facts, 0, sizeof(facts));
	assert_int_equal(lstat(path, &facts.st), 0);
	memset(&facts.st.st_dev, 0, sizeof(facts.st.st_dev));
	memset(&facts.st.st_atim, 0, sizeof(facts.st.st_atim));
	if (S_ISLNK(facts.st.st_mode)) {
		assert_true(readlink(path, facts.link, sizeof(facts.link) - 1) > 0);
		return facts;
	}
	lgetxattr(path, "user.test", facts.xattr, sizeof(facts.xattr));
	if (!S_ISREG(facts.st.st_mode))
		return facts;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	for (int i = 0; i < 3; i++)
		pread(fd, &facts.bytes[i], 1, (facts.st.st_size - 1) * i / 2);
	close(fd);
	return facts;
}

static const char *const names[] = {"data",   "dir/other", "dir",      "link",
				    "sparse", "empty",     "dir/fifo", "long"};

static void make_files(const struct fixture *fixture)
{
	char text[256];
	int fd;

	assert_int_equal(mkdir(fixture_path(fixture, "dir"), 0750), 0);
	fd = fixture_file(fixture, "data", O_RDWR | O_CREAT, 0);
	memset(text, 'd', sizeof(text));
	for (int i = 0; i < 20000; i++)
		assert_int_equal(write(fd, text, sizeof(text)), sizeof(text));
	close(fd);
	assert_int_equal(link(fixture_path(fixture, "data"), "/dev/null/no"), -1);
	snprintf(text, sizeof(text), "%s", fixture_path(fixture, "data"));
	assert_int_equal(link(text, fixture_path(fixture, "dir/other")), 0);
	assert_int_equal(chown(text, 1234, 5678), 0);
	assert_int_equal(chmod(text, 0640), 0);
	setxattr(text, "user.test", "value", 5, 0);
	assert_int_equal(symlink("dir/other", fixture_path(fixture, "link")), 0);
	memset(text, 'l', sizeof(text));
	text[200] = '\0';
	assert_int_equal(symlink(text, fixture_path(fixture, "long")), 0);
	fd = fixture_file(fixture, "sparse", O_RDWR | O_CREAT, 6 * PAGE_2M);
	assert_int_equal(pwrite(fd, "s", 1, 4 * PAGE_2M), 1);
	close(fd);
	close(fixture_file(fixture, "empty", O_RDWR | O_CREAT, 0));
	assert_int_equal(mkfifo(fixture_path(fixture, "dir/fifo"), 0600), 0);
}

/* Each file, but not since when and for whom: that begins again. */
static char *read_files(const struct fixture *fixture)
{
	char *text = fixture_text(fixture, "files"), *to = text;
	int column = 0;

	for (const char *from = text; *from; from++) {
		column = *from == '\n' ? 0 : column + (*from == ' ');
		if (column < 9)
			*to++ = *from;
	}
	*to = '\0';
	return text;
}

static void files_stay(const char *backing)
{
	struct file_facts before[8], after;
	struct fixture fixture = {0};
	char all[64], also[64];
	char *files;

	snprintf(also, sizeof(also), "backing=%s", backing);
	snprintf(all, sizeof(all), "backing=%s,size=48M", backing);
	fixture_mount(&fixture, all);
	make_files(&fixture);
	for (int i = 0; i < 8; i++)
		before[i] = read_facts(&fixture, names[i]);
	files = read_files(&fixture);
	for (int round = 0; round < 3; round++) {
		struct counts counts = read_counts(&fixture);
		char *now;

		fixture_kill(&fixture);
		fixture_restart(&fixture, round == 1 ? also : all);
		expect_counts(&fixture, counts);
		now = read_files(&fixture);
		assert_string_equal(now, files);
		free(now);
		for (int i = 0; i < 8; i++) {
			after = read_facts(&fixture, names[i]);
			if (memcmp(&after, &before[i], sizeof(after)) != 0)
				fail_msg("%s is not as before", names[i]);
		}
	}
	free(files);
	fixture_umount(&fixture);
}

static void test_files_hugetlb(void **state)
{
	files_stay("hugetlb");
}

static void test_files_thp(void **state)
{
	files_stay("thp");
}

/* What a directory may have, and what is charged to it. */
static void quotas_stay(const char *backing)
{
	struct fixture fixture = {0};
	char all[64], size[16] = "";
	int fd;

	snprintf(all, sizeof(all), "backing=%s,size=48M", backing);
	fixture_mount(&fixture, all);
	assert_int_equal(mkdir(fixture_path(&fixture, "dir"), 0755), 0);
	assert_int_equal(
		setxattr(fixture_path(&fixture, "dir"), "user.hugefuse.size", "8M", 2, 0), 0);
	fd = fixture_file(&fixture, "dir/file", O_RDWR | O_CREAT, 0);
	assert_int_equal(fallocate(fd, 0, 0, 3 * PAGE_2M), 0);
	close(fd);
	fixture_kill(&fixture);
	fixture_restart(&fixture, all);
	assert_int_equal(getxattr(fixture_path(&fixture, "dir"), "user.hugefuse.size", size,
				  sizeof(size) - 1),
			 2);
	assert_string_equal(size, "8M");
	fd = fixture_file(&fixture, "dir/other", O_RDWR | O_CREAT, 0);
	assert_int_equal(fallocate(fd, 0, 0, 2 * PAGE_2M), -1);
	assert_int_equal(errno, ENOSPC);
	assert_int_equal(fallocate(fd, 0, 0, PAGE_2M), 0);
	close(fd);
	fixture_umount(&fixture);
}

static void test_quotas(void **state)
{
	quotas_stay("hugetlb");
	quotas_stay("thp");
}

/* ---- reservations ---- */

/* Reserved pages that were touched and punched are no more reserved; others are. */
static int reserve_and_punch(void *data)
{
	const struct fixture *fixture = data;
	int fd = fixture_file(fixture, "file", O_RDWR | O_CREAT, 12 * PAGE_2M);
	char *p = map_file(fd, 12, MAP_SHARED);

	*page(p, 2) = *page(p, 3) = *page(p, 9) = 1;
	assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 2 * PAGE_2M,
				   3 * PAGE_2M),
			 0);
	return 0;
}

static void test_reservations(void **state)
{
	struct fixture fixture = {0};
	int fd;

	fixture_mount(&fixture, options);
	assert_int_equal(run_child(reserve_and_punch, &fixture, 0, 5000), 0);
	/* Of 12 two are punched: 9 are reserved, one is used, of 24. */
	expect(&fixture, 1);
	assert_int_equal(can_reserve(&fixture), POOL - 10);
	for (int round = 0; round < 2; round++) {
		kill_and_restart(&fixture);
		expect(&fixture, 1);
		assert_int_equal(can_reserve(&fixture), POOL - 10);
	}
	fd = fixture_file(&fixture, "file", O_RDWR, 0);
	assert_int_equal(ftruncate(fd, 6 * PAGE_2M), 0);
	/* What is behind the end goes, and stays gone. */
	assert_int_equal(can_reserve(&fixture), POOL - 4);
	kill_and_restart(&fixture);
	assert_int_equal(can_reserve(&fixture), POOL - 4);
	close(fd);
	assert_int_equal(unlink(fixture_path(&fixture, "file")), 0);
	kill_and_restart(&fixture);
	assert_int_equal(can_reserve(&fixture), POOL);
	expect(&fixture, 0);
	fixture_umount(&fixture);
}

static void test_hugefuse_reserve(void **state)
{
	struct fixture fixture = {0};
	int fd;

	fixture_mount(&fixture, options);
	fd = fixture_file(&fixture, "file", O_RDWR | O_CREAT, 8 * PAGE_2M);
	assert_int_equal(hugefuse_reserve(fd, PAGE_2M, 5 * PAGE_2M), 5);
	close(fd);
	kill_and_restart(&fixture);
	assert_int_equal(can_reserve(&fixture), POOL - 5);
	fd = fixture_file(&fixture, "file", O_RDWR, 0);
	assert_int_equal(hugefuse_reserve(fd, 0, 8 * PAGE_2M), 3);
	close(fd);
	kill_and_restart(&fixture);
	assert_int_equal(can_reserve(&fixture), POOL - 8);
	fixture_umount(&fixture);
}

static void damage_journal(const struct fixture *fixture)
{
	char path[256] = "/run/hugefuse/", *to = path + strlen(path);
	char noise[64];
	int fd;

	for (const char *c = fixture->dir + 1; *c; c++)
		to += sprintf(to, *c == '/' ? "-" : *c == '-' ? "\\x2d" : "%c", *c);
	strcpy(to, "/state/journal");
	fd = open(path, O_RDWR | O_TRUNC | O_CLOEXEC);
	if (fd < 0)
		fail_msg("%s: %s", path, strerror(errno));
	memset(noise, 0x5a, sizeof(noise));
	assert_int_equal(write(fd, noise, sizeof(noise)), sizeof(noise));
	close(fd);
}

/* Without a word of it in the journal, the pages tell what is reserved. */
static void test_fsck_finds_reservations(void **state)
{
	struct fixture fixture = {0};

	fixture_mount(&fixture, options);
	assert_int_equal(run_child(reserve_and_punch, &fixture, 0, 5000), 0);
	assert_int_equal(can_reserve(&fixture), POOL - 10);
	fixture_kill(&fixture);
	damage_journal(&fixture);
	assert_int_equal(run_hugefuse("fsck", fixture.dir, NULL), 1);
	assert_int_equal(run_hugefuse("fsck", "--repair", fixture.dir, NULL), 0);
	fixture_restart(&fixture, options);
	expect(&fixture, 1);
	assert_int_equal(can_reserve(&fixture), POOL - 10);
	fixture_umount(&fixture);
}

/* ---- clients that live on ---- */

enum phase {
	PHASE_MAPPED = 1, /* the client has all that it wants mapped */
	PHASE_RESTARTED,  /* it may come back */
	PHASE_BACK,       /* it has */
	PHASE_END,
};

struct client_test {
	struct fixture *fixture;
	atomic_int phase;
	atomic_long nr_rounds;
};

static bool has_phase(void *data)
{
	struct client_test *test = data;

	return test->phase % 2 == 0;
}

static bool is_mapped_now(void *data)
{
	struct client_test *test = data;

	return test->phase == PHASE_MAPPED || test->phase == PHASE_BACK;
}

static void next_phase(struct client_test *test, enum phase phase)
{
	test->phase = (int)phase;
	assert_true(wait_until(has_phase, test, 20000));
}

static void wait_for_client(struct client_test *test, pid_t child)
{
	if (!wait_until(is_mapped_now, test, 10000)) {
		reap_child(child, 10);
		fail_msg("the client did not come to phase %d", test->phase + 1);
	}
}

/* Whether a fault of this process comes to the daemon: it counts what it answers. */
static void expect_daemon_serves(const struct fixture *fixture, char *untouched)
{
	long before = fixture_fault_stat(fixture, "outcome_reservation");

	*(volatile char *)untouched = 1;
	assert_int_equal(fixture_fault_stat(fixture, "outcome_reservation"), before + 1);
}

static int run_shared_and_private(void *data)
{
	struct client_test *test = data;
	int fd = fixture_file(test->fixture, "file", O_RDWR | O_CREAT, 8 * PAGE_2M);
	int other = fixture_file(test->fixture, "other", O_RDWR | O_CREAT, PAGE_2M);
	char *shared = map_file(fd, 8, MAP_SHARED), *own = map_file(fd, 8, MAP_PRIVATE);

	for (int i = 0; i < 3; i++)
		*page(shared, i) = *page(own, i + 2) = (char)(i + 1);
	next_phase(test, PHASE_MAPPED);
	/* Without a daemon, and without having come back: the kernel gives what is reserved. */
	*page(shared, 3) = 4;
	*page(own, 5) = 4;
	expect(test->fixture, 8);
	/* Any call of the library on the mount brings us back. */
	close(other);
	other = fixture_file(test->fixture, "other", O_RDWR, 0);
	assert_int_equal(hugefuse_munmap(map_file(other, 1, MAP_SHARED), PAGE_2M), 0);
	expect_daemon_serves(test->fixture, page(shared, 6));
	expect_daemon_serves(test->fixture, page(own, 7)); /* 0 is in the file */
	assert_int_equal(fixture_nr_mapped(test->fixture), 2);
	next_phase(test, PHASE_BACK);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(*page(shared, i), i + 1);
		assert_int_equal(*page(own, i + 2), i + 1);
	}
	assert_int_equal(hugefuse_munmap(own, 8 * PAGE_2M), 0);
	return 0;
}

/*
 * The reservations of both stay: 8 shared pages and 8 private ones, whatever of them is
 * touched, and by whom.
 */
static void test_client(void **state)
{
	struct client_test *test = shared_memory(sizeof(*test));
	struct fixture fixture = {0};
	pid_t child;

	test->fixture = &fixture;
	fixture_mount(&fixture, options);
	child = start_child(run_shared_and_private, test, 0);
	wait_for_client(test, child);
	assert_int_equal(can_reserve(&fixture), POOL - 16);
	expect(&fixture, 6);
	kill_and_restart(&fixture);
	assert_int_equal(can_reserve(&fixture), POOL - 16);
	expect(&fixture, 6);
	test->phase = PHASE_RESTARTED;
	wait_for_client(test, child);
	assert_int_equal(can_reserve(&fixture), POOL - 17);
	expect(&fixture, 10);
	/* Once more, now with mappings that were attached again. */
	kill_and_restart(&fixture);
	assert_int_equal(can_reserve(&fixture), POOL - 17);
	expect(&fixture, 10);
	test->phase = PHASE_END;
	assert_int_equal(wait_child(child, 10000), 0);
	/* The private one is gone, the shared one's reservations are the file's. */
	fixture_expect_counter(&fixture, "free_hugepages", POOL - 5);
	assert_int_equal(can_reserve(&fixture), POOL - 9);
	fixture_umount(&fixture);
	munmap(test, sizeof(*test));
}

/* A client that never comes back, and what it had ends with it. */
static int run_and_stay(void *data)
{
	struct client_test *test = data;
	int fd = fixture_file(test->fixture, "file", O_RDWR | O_CREAT, 4 * PAGE_2M);
	char *shared = map_file(fd, 4, MAP_SHARED), *own = map_file(fd, 4, MAP_PRIVATE);

	assert_int_equal(unlink(fixture_path(test->fixture, "file")), 0);
	close(fd);
	*page(shared, 0) = *page(own, 1) = 7;
	next_phase(test, PHASE_MAPPED);
	assert_int_equal(*page(shared, 0), 7);
	assert_int_equal(*page(own, 1), 7);
	*page(shared, 1) = *page(own, 2) = 8;
	next_phase(test, PHASE_BACK);
	return 0;
}

/* A file without a name, that somebody has mapped. */
static void test_unlinked(void **state)
{
	struct client_test *test = shared_memory(sizeof(*test));
	struct fixture fixture = {0};
	pid_t child;

	test->fixture = &fixture;
	fixture_mount(&fixture, options);
	child = start_child(run_and_stay, test, 0);
	wait_for_client(test, child);
	expect(&fixture, 2);
	assert_int_equal(can_reserve(&fixture), POOL - 8);
	kill_and_restart(&fixture);
	expect(&fixture, 2);
	assert_int_equal(can_reserve(&fixture), POOL - 8);
	test->phase = PHASE_RESTARTED;
	wait_for_client(test, child);
	expect(&fixture, 4);
	kill_and_restart(&fixture);
	expect(&fixture, 4);
	test->phase = PHASE_END;
	assert_int_equal(wait_child(child, 10000), 0);
	expect(&fixture, 0);
	assert_int_equal(can_reserve(&fixture), POOL);
	fixture_umount(&fixture);
	munmap(test, sizeof(*test));
}

/* Who ends while there is no daemon leaves nothing but the files that have a name. */
static void test_client_ends_meanwhile(void **state)
{
	struct client_test *test = shared_memory(sizeof(*test));
	struct fixture fixture = {0};
	pid_t child;

	test->fixture = &fixture;
	fixture_mount(&fixture, options);
	child = start_child(run_and_stay, test, 0);
	wait_for_client(test, child);
	fixture_kill(&fixture);
	kill(child, SIGKILL);
	assert_int_equal(wait_child(child, 5000), 1000 + SIGKILL);
	fixture_restart(&fixture, options);
	expect(&fixture, 0);
	assert_int_equal(can_reserve(&fixture), POOL);
	fixture_umount(&fixture);
	munmap(test, sizeof(*test));
}

/* On thp a process maps by itself, and the pages of a file without a name are its own. */
static int map_plainly(void *data)
{
	struct client_test *test = data;
	int fd = fixture_file(test->fixture, "file", O_RDWR | O_CREAT, 4 * PAGE_2M);
	int gone = fixture_file(test->fixture, "gone", O_RDWR | O_CREAT, 4 * PAGE_2M);
	char *named = mmap(NULL, 4 * PAGE_2M, RW, MAP_SHARED, fd, 0);
	char *nameless = mmap(NULL, 4 * PAGE_2M, RW, MAP_SHARED, gone, 0);

	assert_true(named != MAP_FAILED && nameless != MAP_FAILED);
	memset(named, 1, PAGE_2M);
	memset(nameless, 2, PAGE_2M);
	close(fd);
	close(gone);
	assert_int_equal(unlink(fixture_path(test->fixture, "gone")), 0);
	next_phase(test, PHASE_MAPPED);
	assert_int_equal(named[PAGE_2M - 1], 1);
	assert_int_equal(nameless[PAGE_2M - 1], 2);
	memset(page(named, 3), 3, PAGE_2M);
	memset(page(nameless, 3), 4, PAGE_2M);
	next_phase(test, PHASE_BACK);
	return 0;
}

static bool all_is_free(void *data)
{
	return fixture_counter(data, "free_hugepages") == POOL;
}

static void test_thp_client(void **state)
{
	struct client_test *test = shared_memory(sizeof(*test));
	struct fixture fixture = {0};
	char byte = 0;
	pid_t child;
	int fd;

	test->fixture = &fixture;
	fixture_mount(&fixture, "backing=thp,size=48M");
	child = start_child(map_plainly, test, 0);
	wait_for_client(test, child);
	fixture_expect_counter(&fixture, "free_hugepages", POOL - 8);
	fixture_kill(&fixture);
	fixture_restart(&fixture, "backing=thp,size=48M");
	fixture_expect_counter(&fixture, "free_hugepages", POOL - 8);
	test->phase = PHASE_RESTARTED;
	wait_for_client(test, child);
	fd = fixture_file(&fixture, "file", O_RDWR, 0);
	assert_int_equal(pread(fd, &byte, 1, 3 * PAGE_2M), 1);
	assert_int_equal(byte, 3);
	close(fd);
	test->phase = PHASE_END;
	assert_int_equal(wait_child(child, 10000), 0);
	fixture_expect_counter(&fixture, "free_hugepages", POOL - 4);
	assert_int_equal(unlink(fixture_path(&fixture, "file")), 0);
	assert_true(wait_until(all_is_free, &fixture, 3000));
	fixture_umount(&fixture);
	munmap(test, sizeof(*test));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_files_hugetlb),
		cmocka_unit_test(test_files_thp),
		cmocka_unit_test(test_quotas),
		cmocka_unit_test(test_reservations),
		cmocka_unit_test(test_hugefuse_reserve),
		cmocka_unit_test(test_fsck_finds_reservations),
		cmocka_unit_test(test_client),
		cmocka_unit_test(test_unlinked),
		cmocka_unit_test(test_client_ends_meanwhile),
		cmocka_unit_test(test_thp_client),
	};

	require_root();
	require_pages(PAGE_2M, POOL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
