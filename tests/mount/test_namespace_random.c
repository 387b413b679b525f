/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The namespace: a random sequence of operations beside a tmpfs, directories that change while
 * they are read, and nr_inodes= beside hugetlbfs.
 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "beside.h"

#define USER       12345
#define RANDOM_OPS 4000
#define ENTRIES    5000

/* A random sequence. */

static unsigned int random_below(unsigned int n)
{
	return (unsigned int)(rand() % (int)n);
}

static void random_path(char path[32])
{
	static const char *const dirs[] = {".", "d0", "d1", "d0/e"};
	static const char *const names[] = {"a", "b", "c", "d0", "d1", "e"};

	sprintf(path, "%s/%s", dirs[random_below(4)], names[random_below(6)]);
}

#define NR_OPEN 6
static int open_fds[NR_OPEN][2];

static void random_open(const char *path)
{
	static const int flags[] = {O_CREAT,  O_EXCL,      O_TRUNC,
				    O_APPEND, O_DIRECTORY, O_NOFOLLOW};
	unsigned int slot = random_below(NR_OPEN);
	int how = (int[]){O_RDONLY, O_RDWR, O_RDWR, O_WRONLY}[random_below(4)] | O_NONBLOCK;
	mode_t mode = (mode_t)random_below(010000) | 0600;

	for (int i = 0; i < 6; i++)
		how |= random_below(i ? 5 : 2) == 0 ? flags[i] : 0;
	/* Creating a directory by open(2): the answers vary between kernels. */
	if (how & O_DIRECTORY)
		how &= ~O_CREAT;
	if (open_fds[slot][0] >= 0)
		both_give(0, close(open_fds[slot][side]));
	both((open_fds[slot][side] = openat(at, path, how | O_CLOEXEC, mode)));
	snprintf(beside_op, sizeof(beside_op), "open %s %o, mode %o", path, (unsigned int)how,
		 mode);
}

static void random_content(void)
{
	static char bytes[3][100000];
	const int *fd = open_fds[random_below(NR_OPEN)];
	off_t offset = (off_t)random_below(2 * PAGE_2M);
	size_t len = random_below(sizeof(bytes[0]));
	struct stat st;

	/* What a fifo says depends on who else has it open. */
	if (fd[0] < 0 || fstat(fd[0], &st) < 0 || !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
		return;
	memset(bytes[2], 'A' + (int)random_below(26), len);
	if (offset + len > 2 * PAGE_2M)
		len = 1;
	switch (random_below(5)) {
	case 0:
		both_equal(pwrite(fd[side], bytes[2], len, offset));
		break;
	case 1:
		/* Appending for ever would take more pages than there are. */
		if (st.st_size < (off_t)PAGE_2M)
			both_equal(write(fd[side], bytes[2], len % 1000));
		break;
	case 2:
		both_equal(pread(fd[side], bytes[side], len, offset));
		break;
	case 3:
		both(ftruncate(fd[side], offset));
		break;
	case 4:
		both(fallocate(fd[side], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset,
			       (off_t)len + 1));
		break;
	}
	if (random_below(10) == 0 && S_ISREG(st.st_mode)) {
		struct stat now[2];

		both_give(0, fstat(fd[side], &now[side]));
		compare_stat("an open file", &now[0], &now[1]);
	}
}

static void random_op(void)
{
	static const unsigned int rename_flags[] = {0, 0, RENAME_NOREPLACE, RENAME_EXCHANGE};
	char path[32], to[32], what[128];
	mode_t mode = (mode_t)random_below(010000) | 0700;
	unsigned int op = random_below(16), flags = rename_flags[random_below(4)];
	/* Chosen before: what both() is given is done twice. */
	mode_t type = random_below(2) ? S_IFIFO : S_IFREG;
	int follow = random_below(2) ? AT_SYMLINK_FOLLOW : 0;
	uid_t uid = geteuid() ? geteuid() : random_below(3);
	gid_t gid = geteuid() ? getegid() : random_below(3);

	random_path(path);
	random_path(to);
	snprintf(what, sizeof(what), "random op %u on %s and %s, mode %o flags %u", op, path,
		 to, mode, flags);
	switch (op) {
	case 0:
	case 1:
	case 2:
		random_open(path);
		break;
	case 3:
	case 4:
		both(mkdirat(at, path, mode));
		break;
	case 5:
		both(symlinkat(to, at, path));
		break;
	case 6:
		both(linkat(at, path, at, to, follow));
		break;
	case 7:
	case 8:
		both(renameat2(at, path, at, to, flags));
		break;
	case 9:
		both(unlinkat(at, path, 0));
		break;
	case 10:
		both(unlinkat(at, path, AT_REMOVEDIR));
		break;
	case 11:
		both(fchmodat(at, path, mode, 0));
		break;
	case 12:
		both(fchownat(at, path, uid, gid, AT_SYMLINK_NOFOLLOW));
		break;
	case 13:
		both(mknodat(at, path, type | mode, 0));
		break;
	default:
		random_content();
		return;
	}
	strcpy(beside_op, what);
	compare_name(path);
	compare_name(to);
}

static int run_random(void *data)
{
	unsigned int seed = *(unsigned int *)data;

	beside_open();
	umask(022);
	srand(seed);
	for (int i = 0; i < NR_OPEN; i++)
		open_fds[i][0] = open_fds[i][1] = -1;
	for (int i = 0; i < RANDOM_OPS; i++) {
		random_op();
		if (i % 250 == 0)
			compare_tree(".", true);
	}
	for (int i = 0; i < NR_OPEN; i++) {
		if (open_fds[i][0] >= 0)
			both_give(0, close(open_fds[i][side]));
	}
	compare_tree(".", true);
	return 0;
}

static void test_random(void **state)
{
	const char *given = getenv("SEED");
	unsigned int seed = given ? (unsigned int)strtoul(given, NULL, 10)
				  : (unsigned int)time(NULL);

	beside_mount("size=160M,mode=1777,nosuid,nodev");
	printf("SEED=%u\n", seed);
	beside_run(run_random, &seed, 0);
	beside_empty();
	seed++;
	printf("SEED=%u\n", seed);
	beside_run(run_random, &seed, USER);
	beside_empty();
	beside_umount();
}

/* readdir(3) while others create and remove: who stays is seen once. */

static int come_and_go(void *data)
{
	char name[32];
	int dir =
		open(fixture_path(&beside_fixture, "many"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (unsigned int i = 0;; i++) {
		snprintf(name, sizeof(name), "passing%u", i % 97);
		if (unlinkat(dir, name, 0) < 0)
			make_file(dir, name);
		snprintf(name, sizeof(name), "renamed%u", i % 7);
		renameat(dir, i % 14 < 7 ? "wanderer" : name, dir,
			 i % 14 < 7 ? name : "wanderer");
	}
	return 0;
}

static void count_entries(DIR *dir, int *seen, bool seeking)
{
	struct dirent *entry;
	int nr;

	memset(seen, 0, ENTRIES * sizeof(*seen));
	while ((entry = readdir(dir))) {
		if (sscanf(entry->d_name, "stable%d", &nr) == 1)
			seen[nr]++;
		if (seeking && random_below(50) == 0)
			seekdir(dir, telldir(dir));
	}
	for (int i = 0; i < ENTRIES; i++) {
		if (seen[i] != 1)
			fail_msg("entry %d was seen %d times", i, seen[i]);
	}
}

static void test_readdir(void **state)
{
	static int seen[ENTRIES];
	char name[32];
	pid_t child;
	int fd;
	DIR *dir;

	memset(&beside_fixture, 0, sizeof(beside_fixture));
	fixture_mount(&beside_fixture, "size=2M,mode=1777");
	assert_int_equal(mkdir(fixture_path(&beside_fixture, "many"), 0777), 0);
	fd = open(fixture_path(&beside_fixture, "many"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < ENTRIES; i++) {
		snprintf(name, sizeof(name), "stable%d", i);
		assert_true(make_file(fd, name) >= 0);
	}
	make_file(fd, "wanderer");
	child = start_child(come_and_go, NULL, 0);
	dir = fdopendir(fd);
	for (int i = 0; i < 4; i++) {
		rewinddir(dir);
		count_entries(dir, seen, i >= 2);
	}
	kill(child, SIGKILL);
	assert_int_equal(wait_child(child, 5000), 1000 + SIGKILL);
	/* And while the reader itself removes what it has seen. */
	rewinddir(dir);
	for (struct dirent *entry; (entry = readdir(dir));)
		unlinkat(fd, entry->d_name, 0);
	closedir(dir);
	assert_int_equal(rmdir(fixture_path(&beside_fixture, "many")), 0);
	fixture_umount(&beside_fixture);
}

/* nr_inodes=, as hugetlbfs counts it. */

static bool can_make_dir(void *path)
{
	return mkdir(path, 0777) == 0;
}

static int make_until_full(const char *dir)
{
	char path[PATH_MAX];
	int fd, nr = 0;

	for (;; nr++) {
		snprintf(path, sizeof(path), "%s/file%d", dir, nr);
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
		if (fd < 0)
			break;
		close(fd);
	}
	assert_int_equal(errno, ENOSPC);
	snprintf(path, sizeof(path), "%s/file0", dir);
	assert_int_equal(unlink(path), 0);
	/* The kernel tells the daemon in its own time that it has forgotten the file. */
	assert_true(wait_until(can_make_dir, path, 2000));
	return nr;
}

static void test_nr_inodes(void **state)
{
	struct statfs ours, theirs;
	char dir[] = "/tmp/hugefuse-hugetlbfs-XXXXXX", path[40];
	int fd, nr;

	memset(&beside_fixture, 0, sizeof(beside_fixture));
	fixture_mount(&beside_fixture, "size=4M,nr_inodes=10");
	assert_non_null(mkdtemp(dir));
	assert_int_equal(mount("none", dir, "hugetlbfs", 0, "pagesize=2M,size=4M,nr_inodes=10"),
			 0);
	/* From here on it lasts as long as the descriptor, also if the test fails. */
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(umount2(dir, MNT_DETACH), 0);
	rmdir(dir);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	nr = make_until_full(beside_fixture.dir);
	assert_int_equal(statfs(beside_fixture.dir, &ours), 0);
	assert_int_equal(nr, make_until_full(path));
	assert_int_equal(fstatfs(fd, &theirs), 0);
	close(fd);
	assert_int_equal(ours.f_files, theirs.f_files);
	assert_int_equal(ours.f_ffree, theirs.f_ffree);
	/* thp counts base pages. */
	if (strcmp(fixture_backing(), "hugetlb") == 0)
		assert_int_equal(ours.f_bsize, theirs.f_bsize);
	assert_int_equal(ours.f_blocks * ours.f_bsize, theirs.f_blocks * theirs.f_bsize);
	assert_int_equal(ours.f_bfree * ours.f_bsize, theirs.f_bfree * theirs.f_bsize);
	assert_int_equal(ours.f_namelen, theirs.f_namelen);
	fixture_umount(&beside_fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_readdir),
		cmocka_unit_test(test_nr_inodes),
	};

	require_root();
	require_pages(PAGE_2M, 80);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
