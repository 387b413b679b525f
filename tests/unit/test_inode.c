// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * inode: references, what becomes of a file and its pages when the last one goes, and paths.
 *
 * names/ is any directory; the backing is the one in memory, wrapped so that the test sees
 * which files are closed, and whether for good.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/backing_mem.h"
#include "fs/mount.h"

#define PAGE_SIZE ((uint64_t)2 << 20)
#define NR_PAGES  64
#define NR_ROUNDS 2000

struct fixture {
	struct mount mount;
	struct backing_mem mem;
	struct backing_ops ops;
	const struct backing_ops *mem_ops;
	char dir[64];
	_Atomic int nr_open, nr_removed;
};

static struct fixture *fixture;

static int counting_open(struct backing *backing, uint64_t ino, int names_fd,
			 struct backing_file **ret_file)
{
	int err = fixture->mem_ops->file_open(backing, ino, names_fd, ret_file);

	if (!err)
		fixture->nr_open++;
	return err;
}

static void counting_close(struct backing_file *file, bool remove)
{
	fixture->nr_open--;
	fixture->nr_removed += remove;
	fixture->mem_ops->file_close(file, remove);
}

static int setup(void **state)
{
	const int64_t nr_pages = NR_PAGES;
	struct mount *mount;

	fixture = aligned_alloc(_Alignof(struct fixture), sizeof(*fixture));
	if (!fixture)
		return -1;
	memset(fixture, 0, sizeof(*fixture));
	mount = &fixture->mount;
	backing_mem_init(&fixture->mem, PAGE_SIZE, 1);
	fixture->mem.max_pages = NR_PAGES;
	fixture->mem_ops = fixture->mem.backing.ops;
	fixture->ops = *fixture->mem_ops;
	fixture->ops.file_open = counting_open;
	fixture->ops.file_close = counting_close;
	fixture->mem.backing.ops = &fixture->ops;
	mount->backing = &fixture->mem.backing;
	mount->nr_nodes = 1;
	assert_int_equal(page_core_init(&mount->core, 1, &nr_pages, NR_PAGES, 0, 0, false), 0);
	strcpy(fixture->dir, "/tmp/hugefuse-test-inode.XXXXXX");
	assert_non_null(mkdtemp(fixture->dir));
	mount->names_fd = open(fixture->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(mount->names_fd >= 0);
	assert_int_equal(inode_table_init(&mount->inodes, dup(mount->names_fd)), 0);
	*state = fixture;
	return 0;
}

static int64_t nr_used(void)
{
	struct subpool_counts counts;

	subpool_read(&fixture->mount.core.subpool, &counts);
	return counts.used;
}

/* Everything is given back. */
static int teardown(void **state)
{
	struct mount *mount = &fixture->mount;

	inode_table_deinit(mount);
	assert_int_equal(fixture->nr_open, 0);
	assert_int_equal(nr_used(), 0);
	page_core_deinit(&mount->core);
	close(mount->names_fd);
	assert_int_equal(rmdir(fixture->dir), 0);
	free(fixture);
	return 0;
}

static struct inode *root(void)
{
	return inode_lookup(&fixture->mount, 1);
}

static void make_file(const char *name, off_t size)
{
	int fd = openat(root()->fd, name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, size), 0);
	close(fd);
}

static struct inode *get(const char *name)
{
	struct inode *inode;

	assert_int_equal(inode_get_child(&fixture->mount, root(), name, &inode, NULL), 0);
	return inode;
}

static void put(struct inode *inode)
{
	inode_put(&fixture->mount, inode, 1);
}

static void unlink_name(const char *name)
{
	assert_int_equal(unlinkat(root()->fd, name, 0), 0);
}

static void reserve(struct inode *inode, int64_t nr)
{
	struct page_space *pages;

	assert_int_equal(inode_pages(&fixture->mount, inode, &pages), 0);
	assert_int_equal(page_reserve(pages, 0, nr, NULL), nr);
}

static void test_root(void **state)
{
	struct inode *inode = root();
	struct page_space *pages;
	struct stat st;
	char path[8];

	assert_non_null(inode);
	assert_int_equal(inode_node_id(&fixture->mount, inode), 1);
	assert_int_equal(inode_stat(&fixture->mount, inode, &st), 0);
	assert_int_equal(st.st_ino, 1);
	assert_int_equal(inode_path(&fixture->mount, inode, path, sizeof(path)), 0);
	assert_string_equal(path, "/");
	assert_int_equal(inode_pages(&fixture->mount, inode, &pages), -EISDIR);
	assert_null(inode_lookup(&fixture->mount, UINT64_MAX >> 1));
}

static void test_same_inode_for_each_name(void **state)
{
	struct inode *inode, *same;
	struct stat st;

	make_file("a", 5);
	assert_int_equal(linkat(root()->fd, "a", root()->fd, "b", 0), 0);
	inode = get("a");
	same = get("b");
	assert_ptr_equal(inode, same);
	assert_ptr_equal(inode_lookup(&fixture->mount, inode_node_id(&fixture->mount, inode)),
			 inode);
	assert_int_equal(inode_stat(&fixture->mount, inode, &st), 0);
	assert_int_equal(st.st_size, 5);
	assert_int_equal(st.st_blksize, PAGE_SIZE);
	assert_int_equal(st.st_blocks, 0);
	inode_put(&fixture->mount, inode, 2);
	assert_null(inode_lookup(&fixture->mount, st.st_ino));
	unlink_name("a");
	unlink_name("b");
}

static void test_errors(void **state)
{
	struct inode *inode = NULL, *file;
	char name[300];

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(inode_get_child(&fixture->mount, root(), "a", &inode, NULL), -ENOENT);
	assert_int_equal(inode_get_child(&fixture->mount, root(), name, &inode, NULL),
			 -ENAMETOOLONG);
	make_file("a", 0);
	file = get("a");
	assert_int_equal(inode_get_child(&fixture->mount, file, "b", &inode, NULL), -ENOTDIR);
	assert_null(inode);
	put(file);
	inode_put(&fixture->mount, NULL, 1);
	unlink_name("a");
}

static void test_reserved_file_stays(void **state)
{
	struct inode *inode, *again;

	make_file("a", 3 * PAGE_SIZE);
	inode = get("a");
	reserve(inode, 3);
	put(inode);
	again = get("a");
	assert_ptr_equal(again, inode);
	assert_int_equal(nr_used(), 3);
	assert_int_equal(fixture->nr_open, 1);
	unlink_name("a");
	put(again);
	assert_int_equal(nr_used(), 0);
	assert_int_equal(fixture->nr_removed, 1);
}

static void test_blocks_are_instantiated_pages(void **state)
{
	struct page_space *pages;
	struct inode *inode;
	struct stat st;

	make_file("a", PAGE_SIZE + 1);
	inode = get("a");
	assert_int_equal(inode_pages(&fixture->mount, inode, &pages), 0);
	assert_int_equal(page_instantiate(pages, 1, 0), PAGE_FROM_FREE);
	assert_int_equal(page_instantiate(pages, 2, 0), -ERANGE);
	assert_int_equal(inode_stat(&fixture->mount, inode, &st), 0);
	assert_int_equal(st.st_blocks, PAGE_SIZE / 512);
	unlink_name("a");
	put(inode);
	assert_int_equal(fixture->mem.nr_pages, 0);
}

/* A file without pages is closed and removed, and as long as before when it is used again. */
static void test_empty_file_is_closed(void **state)
{
	struct page_space *pages;
	struct inode *inode;
	uint64_t ino;

	make_file("a", PAGE_SIZE);
	inode = get("a");
	ino = inode->ino;
	assert_int_equal(inode_pages(&fixture->mount, inode, &pages), 0);
	put(inode);
	assert_null(inode_lookup(&fixture->mount, ino));
	assert_int_equal(fixture->nr_open, 0);

	inode = get("a");
	assert_int_equal(inode_pages(&fixture->mount, inode, &pages), 0);
	assert_int_equal(page_instantiate(pages, 0, 0), PAGE_FROM_FREE);
	unlink_name("a");
	put(inode);
}

static void test_unlinked_file_lives_while_used(void **state)
{
	struct inode *inode, *open_inode;
	char path[64];

	make_file("a", PAGE_SIZE);
	inode = get("a");
	inode_add_lookup(inode);
	reserve(inode, 1);
	open_inode = inode_get(&fixture->mount, inode);
	unlink_name("a");
	inode_ref(inode);
	inode_drop_unlinked(&fixture->mount, inode);
	put(inode);
	assert_int_equal(nr_used(), 1);
	assert_int_equal(inode_path(&fixture->mount, inode, path, sizeof(path)), 0);
	assert_string_equal(path, "/a (deleted)");
	inode_forget(&fixture->mount, inode, 1);
	assert_int_equal(nr_used(), 1);
	put(open_inode);
	assert_int_equal(nr_used(), 0);
	assert_int_equal(fixture->nr_removed, 1);
}

/* What only FUSE has looked up is nobody's: rm, then a reservation of everything succeeds. */
static void test_drop_unlinked(void **state)
{
	struct page_space *pages;
	struct inode *inode;
	struct stat st;

	make_file("a", 4 * PAGE_SIZE);
	inode = get("a");
	inode_add_lookup(inode);
	reserve(inode, 4);
	inode_ref(inode);
	inode_drop_unlinked(&fixture->mount, inode);
	assert_int_equal(nr_used(), 4);
	unlink_name("a");
	inode_drop_unlinked(&fixture->mount, inode);
	put(inode);
	assert_int_equal(nr_used(), 0);
	assert_int_equal(fixture->nr_removed, 1);

	assert_null(inode_get(&fixture->mount, inode));
	assert_int_equal(inode_pages(&fixture->mount, inode, &pages), -ESTALE);
	assert_int_equal(inode_stat(&fixture->mount, inode, &st), 0);
	assert_int_equal(st.st_size, 4 * PAGE_SIZE);
	/* More than there were: the kernel never does, and we survive it. */
	inode_forget(&fixture->mount, inode, 7);
	assert_null(inode_lookup(&fixture->mount, st.st_ino));
}

static void test_drop_unlinked_without_pages(void **state)
{
	struct page_space *pages;
	struct inode *inode;
	struct stat st;

	make_file("a", 4 * PAGE_SIZE);
	inode = get("a");
	inode_add_lookup(inode);
	assert_int_equal(inode_pages(&fixture->mount, inode, &pages), 0);
	inode_ref(inode);
	unlink_name("a");
	inode_drop_unlinked(&fixture->mount, inode);
	put(inode);

	/* It goes when FUSE forgets it, and until then nobody can open it. */
	assert_null(inode_get(&fixture->mount, inode));
	assert_int_equal(fixture->nr_removed, 0);
	assert_int_equal(inode_stat(&fixture->mount, inode, &st), 0);
	assert_int_equal(st.st_nlink, 0);
	inode_forget(&fixture->mount, inode, 1);
	assert_null(inode_lookup(&fixture->mount, st.st_ino));
	assert_int_equal(fixture->nr_removed, 1);
}

static void test_find_child(void **state)
{
	struct inode *inode;

	assert_null(inode_find_child(&fixture->mount, root(), "a"));
	make_file("a", 4 * PAGE_SIZE);
	/* The table has it not before it has been looked up. */
	assert_null(inode_find_child(&fixture->mount, root(), "a"));
	inode = get("a");
	assert_ptr_equal(inode_find_child(&fixture->mount, root(), "a"), inode);
	put(inode);
	/* Pages keep it there without references. */
	reserve(inode, 4);
	put(inode);
	assert_ptr_equal(inode_find_child(&fixture->mount, root(), "a"), inode);
	unlink_name("a");
	put(inode);
	assert_int_equal(nr_used(), 0);
}

static void test_path_of_renamed_link(void **state)
{
	struct inode *inode;
	char path[64];

	assert_int_equal(mkdirat(root()->fd, "d", 0755), 0);
	make_file("a", 0);
	inode = get("a");
	assert_int_equal(linkat(root()->fd, "a", root()->fd, "d/b", 0), 0);
	unlink_name("a");
	assert_int_equal(inode_path(&fixture->mount, inode, path, sizeof(path)), 0);
	assert_null(strstr(path, "deleted"));
	assert_int_equal(inode_path(&fixture->mount, inode, path, 2), -ENAMETOOLONG);
	put(inode);
	make_file("x (deleted)", 0);
	inode = get("x (deleted)");
	assert_int_equal(inode_path(&fixture->mount, inode, path, sizeof(path)), 0);
	assert_string_equal(path, "/x (deleted)");
	put(inode);
	unlink_name("x (deleted)");
	unlink_name("d/b");
	assert_int_equal(unlinkat(root()->fd, "d", AT_REMOVEDIR), 0);
}

/*
 * Thread 1 puts the last reference and takes the inode out of the table, while thread 2 finds
 * the number in the table: it must get either the old inode alive or a new one.
 */
static void *get_and_put(void *arg)
{
	struct inode *inode;
	struct stat st;
	int round;

	for (round = 0; round < NR_ROUNDS; round++) {
		if (inode_get_child(&fixture->mount, root(), "a", &inode, &st))
			abort();
		if (inode->ino != st.st_ino)
			abort();
		put(inode);
	}
	return NULL;
}

static void test_race_of_last_put_and_lookup(void **state)
{
	pthread_t thread;

	make_file("a", 0);
	assert_int_equal(pthread_create(&thread, NULL, get_and_put, NULL), 0);
	get_and_put(NULL);
	pthread_join(thread, NULL);
	unlink_name("a");
}

static int visit(struct mount *mount, struct inode *inode, void *data)
{
	struct page_space *pages = atomic_load(&inode->pages);
	struct page_space_counts counts;

	if (pages)
		page_space_read(pages, &counts);
	return 0;
}

static void *open_and_visit(void *stop)
{
	struct inode *inode;
	struct stat st;

	while (!atomic_load((_Atomic bool *)stop)) {
		inode_for_each(&fixture->mount, visit, NULL);
		if (inode_get_child(&fixture->mount, root(), "a", &inode, &st) == 0)
			put(inode);
	}
	return NULL;
}

/*
 * Thread 1 makes, reserves, unlinks and puts; thread 2 opens by name at any moment of that, and
 * visits the table, and must never see pages that are freed.
 */
static void test_race_of_unlink_and_lookup(void **state)
{
	_Atomic bool stop = false;
	struct inode *inode;
	pthread_t thread;
	int round;

	assert_int_equal(pthread_create(&thread, NULL, open_and_visit, &stop), 0);
	for (round = 0; round < NR_ROUNDS / 10; round++) {
		make_file("a", PAGE_SIZE);
		inode = get("a");
		inode_add_lookup(inode);
		reserve(inode, 1);
		inode_ref(inode);
		unlink_name("a");
		if (round % 2)
			inode_drop_unlinked(&fixture->mount, inode);
		put(inode);
		inode_forget(&fixture->mount, inode, 1);
	}
	stop = true;
	pthread_join(thread, NULL);
	assert_int_equal(nr_used(), 0);
}

#define INODE_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		INODE_TEST(test_root),
		INODE_TEST(test_same_inode_for_each_name),
		INODE_TEST(test_errors),
		INODE_TEST(test_reserved_file_stays),
		INODE_TEST(test_blocks_are_instantiated_pages),
		INODE_TEST(test_empty_file_is_closed),
		INODE_TEST(test_unlinked_file_lives_while_used),
		INODE_TEST(test_drop_unlinked),
		INODE_TEST(test_drop_unlinked_without_pages),
		INODE_TEST(test_find_child),
		INODE_TEST(test_path_of_renamed_link),
		INODE_TEST(test_race_of_last_put_and_lookup),
		INODE_TEST(test_race_of_unlink_and_lookup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
