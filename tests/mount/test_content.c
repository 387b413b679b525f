/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Content of files: beside a model in memory, by pages where hugetlbfs would count pages, when
 * the pool is exhausted, and while others have the file mapped.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "fixture.h"
#include "hugefuse.h"
#include "raw_client.h"

#define USER       12345
#define MODEL_SIZE (6 * PAGE_2M)
#define ROUNDS     600
#define CHILD_MS   20000

static struct fixture fixture;

static void mount_it(const char *options)
{
	memset(&fixture, 0, sizeof(fixture));
	fixture_mount(&fixture, options);
}

static void umount_it(int fd, const char *name, long pages)
{
	close(fd);
	assert_int_equal(unlink(fixture_path(&fixture, name)), 0);
	fixture_expect_counter(&fixture, "free_hugepages", pages);
	fixture_umount(&fixture);
}

/* A file and what it should contain. Behind its end the model is zero. */
struct model {
	int fd;
	off_t size;
	char *bytes, *read;
	char *mapped; /* the same file, mapped; or NULL */
};

static size_t random_below(size_t n)
{
	return (size_t)rand() % n;
}

/* Offsets are often at, or beside, the border of a page. */
static off_t random_offset(void)
{
	off_t offset = (off_t)random_below(MODEL_SIZE);

	if (random_below(2))
		offset = offset / (off_t)PAGE_2M * (off_t)PAGE_2M + (off_t)random_below(3) - 1;
	return offset < 0 ? 0 : offset;
}

static void compare_content(const struct model *model)
{
	struct stat st;

	assert_int_equal(fstat(model->fd, &st), 0);
	assert_int_equal(st.st_size, model->size);
	memset(model->read, 'r', MODEL_SIZE);
	assert_int_equal(pread(model->fd, model->read, MODEL_SIZE, 0), model->size);
	assert_int_equal(memcmp(model->read, model->bytes, (size_t)model->size), 0);
	if (model->mapped)
		assert_int_equal(memcmp(model->mapped, model->bytes, (size_t)model->size), 0);
}

static void model_resize(struct model *model, off_t size)
{
	if (size < model->size)
		memset(model->bytes + size, 0, (size_t)(model->size - size));
	model->size = size;
}

static void model_write(struct model *model, off_t offset, size_t len)
{
	char *from = model->read;

	for (size_t i = 0; i < len; i++)
		from[i] = (char)rand();
	assert_int_equal(pwrite(model->fd, from, len, offset), len);
	memcpy(model->bytes + offset, from, len);
	if (model->size < offset + (off_t)len)
		model->size = offset + (off_t)len;
}

static void model_fallocate(struct model *model, int mode, off_t offset, off_t len)
{
	off_t end = offset + len;

	assert_int_equal(fallocate(model->fd, mode, offset, len), 0);
	if (!(mode & FALLOC_FL_KEEP_SIZE) && end > model->size)
		model->size = end;
	if (end > model->size)
		end = model->size;
	if (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE) && end > offset)
		memset(model->bytes + offset, 0, (size_t)(end - offset));
}

/* Through the mapping, inside the file and behind its end, where it does not count. */
static void model_map_write(struct model *model, off_t offset, size_t len)
{
	off_t last = (model->size + (off_t)PAGE_2M - 1) / (off_t)PAGE_2M * (off_t)PAGE_2M;

	if (!model->mapped || offset + (off_t)len > last)
		return;
	memset(model->mapped + offset, 'm', len);
	if (offset + (off_t)len > model->size)
		len = model->size > offset ? (size_t)(model->size - offset) : 0;
	memset(model->bytes + offset, 'm', len);
}

static void model_step(struct model *model)
{
	static const int modes[] = {0,
				    FALLOC_FL_KEEP_SIZE,
				    FALLOC_FL_ZERO_RANGE,
				    FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE,
				    FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				    FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE};
	off_t offset = random_offset(), end = random_offset();
	size_t len = random_below(5000);

	if (offset + len > MODEL_SIZE)
		len = MODEL_SIZE - (size_t)offset;
	switch (random_below(6)) {
	case 0:
		assert_int_equal(ftruncate(model->fd, offset), 0);
		model_resize(model, offset);
		break;
	case 1:
		if (end > offset)
			model_fallocate(model, modes[random_below(6)], offset, end - offset);
		break;
	case 2:
	case 3:
		model_map_write(model, offset, len);
		break;
	default:
		model_write(model, offset, len);
	}
}

static void run_model(bool mapped)
{
	const char *given = getenv("SEED");
	unsigned int seed = given ? (unsigned int)strtoul(given, NULL, 10)
				  : (unsigned int)time(NULL);
	struct model model = {.bytes = calloc(1, MODEL_SIZE), .read = malloc(MODEL_SIZE)};

	printf("SEED=%u\n", seed);
	srand(seed);
	mount_it("size=12M");
	model.fd = fixture_file(&fixture, "model", O_RDWR | O_CREAT, 0);
	if (mapped) {
		model.mapped =
			hugefuse_mmap(NULL, MODEL_SIZE, PROT_READ, MAP_SHARED, model.fd, 0);
		assert_ptr_not_equal(model.mapped, MAP_FAILED);
		assert_int_equal(mprotect(model.mapped, MODEL_SIZE, PROT_READ | PROT_WRITE), 0);
	}
	for (int i = 0; i < ROUNDS; i++) {
		model_step(&model);
		if (i % 10 == 0)
			compare_content(&model);
	}
	compare_content(&model);
	if (mapped)
		assert_int_equal(hugefuse_munmap(model.mapped, MODEL_SIZE), 0);
	model.mapped = NULL;
	compare_content(&model);
	free(model.bytes);
	free(model.read);
	umount_it(model.fd, "model", 6);
}

static void test_model(void **state)
{
	run_model(false);
}

static void test_model_mapped(void **state)
{
	run_model(true);
}

/* Holes are pages, and so are blocks. */
static void test_holes(void **state)
{
	const off_t page = (off_t)PAGE_2M;
	struct stat st;
	int fd;

	mount_it("size=16M");
	fd = fixture_file(&fixture, "holes", O_RDWR | O_CREAT, 6 * page + 100);
	assert_int_equal(lseek(fd, 0, SEEK_DATA), -1);
	assert_int_equal(errno, ENXIO);
	assert_int_equal(lseek(fd, 0, SEEK_HOLE), 0);
	assert_int_equal(pwrite(fd, "x", 1, page + 5), 1);
	assert_int_equal(pwrite(fd, "x", 1, 2 * page), 1);
	assert_int_equal(pwrite(fd, "x", 1, 6 * page), 1);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_blocks, 3 * page / 512);
	assert_int_equal(st.st_blksize, page);
	assert_int_equal(lseek(fd, 0, SEEK_DATA), page);
	assert_int_equal(lseek(fd, page + 7, SEEK_DATA), page + 7);
	assert_int_equal(lseek(fd, page + 7, SEEK_HOLE), 3 * page);
	assert_int_equal(lseek(fd, 3 * page, SEEK_DATA), 6 * page);
	assert_int_equal(lseek(fd, 4 * page + 1, SEEK_HOLE), 4 * page + 1);
	assert_int_equal(lseek(fd, 6 * page, SEEK_HOLE), 6 * page + 100);
	assert_int_equal(lseek(fd, 6 * page + 99, SEEK_DATA), 6 * page + 99);
	assert_int_equal(lseek(fd, 6 * page + 100, SEEK_DATA), -1);
	assert_int_equal(lseek(fd, 6 * page + 100, SEEK_HOLE), -1);
	assert_int_equal(errno, ENXIO);
	assert_int_equal(lseek(fd, -1, SEEK_HOLE), -1);
	/* Pages that are punched in part stay. */
	assert_int_equal(
		fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, page + 1, page), 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_blocks, 3 * page / 512);
	assert_int_equal(
		fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, page - 1, page + 1),
		0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_blocks, 2 * page / 512);
	umount_it(fd, "holes", 8);
}

static long blocks_free(void)
{
	struct statfs st;

	assert_int_equal(statfs(fixture.dir, &st), 0);
	assert_int_equal(st.f_bsize, PAGE_2M);
	assert_int_equal(st.f_blocks, 4);
	assert_int_equal(st.f_bavail, st.f_bfree);
	return (long)st.f_bfree;
}

/* A write that finds no page writes what it can, and then fails with ENOSPC, changing nothing.
 */
static void test_exhausted(void **state)
{
	char *bytes = calloc(1, 5 * PAGE_2M);
	struct stat st;
	int fd, other;

	mount_it("size=8M");
	assert_int_equal(blocks_free(), 4);
	other = fixture_file(&fixture, "other", O_RDWR | O_CREAT, 0);
	assert_int_equal(write(other, bytes, 10), 10);
	assert_int_equal(blocks_free(), 3);
	fd = fixture_file(&fixture, "full", O_RDWR | O_CREAT, 0);
	for (ssize_t done = 0, n; done < (ssize_t)(3 * PAGE_2M); done += n) {
		n = write(fd, bytes, 5 * PAGE_2M - (size_t)done);
		assert_true(n > 0);
	}
	assert_int_equal(blocks_free(), 0);
	assert_int_equal(write(fd, bytes, 1), -1);
	assert_int_equal(errno, ENOSPC);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 3 * PAGE_2M);
	assert_int_equal(pwrite(fd, bytes, 1, 100 * PAGE_2M), -1);
	assert_int_equal(errno, ENOSPC);
	assert_int_equal(fallocate(fd, 0, 0, 4 * PAGE_2M), -1);
	assert_int_equal(errno, ENOSPC);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 3 * PAGE_2M);
	assert_int_equal(pwrite(fd, "x", 1, 0), 1);
	/* Longer it may be, as long as nothing is in it. */
	assert_int_equal(ftruncate(fd, 10 * PAGE_2M), 0);
	assert_int_equal(pread(fd, bytes, 1, 9 * PAGE_2M), 1);
	assert_int_equal(ftruncate(other, 0), 0);
	assert_int_equal(blocks_free(), 1);
	assert_int_equal(pwrite(fd, "x", 1, 9 * PAGE_2M), 1);
	close(other);
	assert_int_equal(unlink(fixture_path(&fixture, "other")), 0);
	free(bytes);
	umount_it(fd, "full", 4);
}

/* read(2) and write(2) by one, and the mapping of another, show the same. */
static int to_child[2], to_parent[2];

static int map_and_follow(void *data)
{
	int fd = open(fixture_path(&fixture, "both"), O_RDWR | O_CLOEXEC);
	char *p, byte;

	child_check(fd >= 0);
	p = hugefuse_mmap(NULL, 2 * PAGE_2M, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	child_check(p != MAP_FAILED);
	child_check(write(to_parent[1], "", 1) == 1 && read(to_child[0], &byte, 1) == 1);
	child_check(memcmp(p + 10, "written", 7) == 0);
	memcpy(p + PAGE_2M, "mapped", 6);
	child_check(write(to_parent[1], "", 1) == 1 && read(to_child[0], &byte, 1) == 1);
	child_check(p[10] == 0 && p[PAGE_2M] == 0); /* punched */
	memcpy(p, "again", 5);
	child_check(write(to_parent[1], "", 1) == 1 && read(to_child[0], &byte, 1) == 1);
	child_check(raises_sigbus(p + PAGE_2M, false)); /* cut off */
	child_check(memcmp(p, "aga\0", 4) == 0);
	return 0;
}

static void tell_child(void)
{
	char byte;

	assert_int_equal(write(to_child[1], "", 1), 1);
	assert_int_equal(read(to_parent[0], &byte, 1), 1);
}

static void follow(uid_t uid)
{
	char bytes[8] = "";
	pid_t child;
	int fd;

	mount_it("size=8M");
	fd = fixture_file(&fixture, "both", O_RDWR | O_CREAT, 2 * PAGE_2M);
	assert_int_equal(fchmod(fd, 0666), 0);
	assert_int_equal(pipe2(to_child, O_CLOEXEC), 0);
	assert_int_equal(pipe2(to_parent, O_CLOEXEC), 0);
	child = start_child(map_and_follow, NULL, uid);
	assert_int_equal(read(to_parent[0], bytes, 1), 1);
	assert_int_equal(pwrite(fd, "written", 7, 10), 7);
	tell_child();
	assert_int_equal(pread(fd, bytes, 6, PAGE_2M), 6);
	assert_string_equal(bytes, "mapped");
	assert_int_equal(
		fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 2 * PAGE_2M), 0);
	tell_child();
	assert_int_equal(pread(fd, bytes, 5, 0), 5);
	assert_memory_equal(bytes, "again", 5);
	assert_int_equal(ftruncate(fd, 3), 0);
	assert_int_equal(write(to_child[1], "", 1), 1);
	assert_int_equal(wait_child(child, CHILD_MS), 0);
	assert_int_equal(pread(fd, bytes, 8, 0), 3);
	for (int i = 0; i < 2; i++) {
		close(to_child[i]);
		close(to_parent[i]);
	}
	umount_it(fd, "both", 4);
}

static void test_coherent(void **state)
{
	follow(0);
}

/* A user without userfaultfd, whose pages the kernel makes without a word. */
static void test_coherent_as_user(void **state)
{
	follow(USER);
}

/* Pages that came without the daemon are counted, found, zeroed and punched like any other. */
static int map_without_userfaultfd(void *data)
{
	const off_t page = (off_t)PAGE_2M;
	int fd = open(fixture_path(&fixture, "quiet"), O_RDWR | O_CLOEXEC);
	char *p, bytes[4];
	struct stat st;

	child_check(fd >= 0);
	p = hugefuse_mmap(NULL, 4 * PAGE_2M, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	child_check(p != MAP_FAILED);
	for (int i = 1; i < 4; i++)
		memset(p + i * page, 'q', (size_t)page);
	child_check(lseek(fd, 0, SEEK_DATA) == page);
	child_check(fstat(fd, &st) == 0 && st.st_blocks == 3 * page / 512);
	child_check(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, page, page) == 0);
	child_check(lseek(fd, 0, SEEK_DATA) == 2 * page && p[page] == 0);
	child_check(fallocate(fd, FALLOC_FL_ZERO_RANGE, 2 * page + 1, 1) == 0);
	child_check(pread(fd, bytes, 4, 2 * page) == 4 && memcmp(bytes, "q\0qq", 4) == 0);
	child_check(ftruncate(fd, 3 * page + 1) == 0 && ftruncate(fd, 4 * page) == 0);
	child_check(pread(fd, bytes, 4, 3 * page) == 4 && memcmp(bytes, "q\0\0\0", 4) == 0);
	return 0;
}

static void test_without_userfaultfd(void **state)
{
	int fd;

	mount_it("size=8M");
	fd = fixture_file(&fixture, "quiet", O_RDWR | O_CREAT, 4 * PAGE_2M);
	assert_int_equal(fchmod(fd, 0666), 0);
	assert_int_equal(run_child(map_without_userfaultfd, NULL, USER, CHILD_MS), 0);
	umount_it(fd, "quiet", 4);
}

/* What the page cache would copy, mmap(2) refuses; a private copy of what is there it may make.
 */
static void test_plain_mmap(void **state)
{
	char *p;
	int fd;

	mount_it("size=8M");
	fd = fixture_file(&fixture, "plain", O_RDWR | O_CREAT, 100);
	assert_int_equal(pwrite(fd, "plain", 5, 0), 5);
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_equal(p, MAP_FAILED);
	assert_int_equal(errno, ENODEV);
	p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	assert_ptr_equal(p, MAP_FAILED);
	assert_int_equal(errno, ENODEV);
	p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	assert_memory_equal(p, "plain\0", 6);
	assert_int_equal(p[100], 0);
	assert_int_equal(munmap(p, 4096), 0);
	umount_it(fd, "plain", 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_model),
		cmocka_unit_test(test_model_mapped),
		cmocka_unit_test(test_holes),
		cmocka_unit_test(test_exhausted),
		cmocka_unit_test(test_coherent),
		cmocka_unit_test(test_coherent_as_user),
		cmocka_unit_test(test_without_userfaultfd),
		cmocka_unit_test(test_plain_mmap),
	};

	require_root();
	require_pages(PAGE_2M, 8);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
