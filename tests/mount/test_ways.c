/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The ways in which a mapping reaches the pages (passthrough, direct, cached) on either
 * backing: what the page table has, who decides the faults, what is seen of the others' writes,
 * and which ways refuse each other.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixture.h"
#include "hugefuse.h"
#include "raw_client.h"

#define RW       (PROT_READ | PROT_WRITE)
#define SIZE     (4 * PAGE_2M)
#define CHILD_MS 10000
#define NOBODY   65534

enum kind {
	HUGE_PMD,
	HUGE_TLB,
	BASE
};

struct way {
	const char *options;
	bool direct;           /* by hugefuse_mmap(), else by mmap(2) */
	enum kind kind;        /* of the page table entries */
	bool daemon_decides;   /* faults come by userfaultfd */
	const char *listed_as; /* the way in .hugefuse/maps; NULL: not there */
};

static const struct way passthrough = {"backing=thp", false, HUGE_PMD, false, NULL};
static const struct way direct_hugetlb = {"backing=hugetlb,ahead=off", true, HUGE_TLB, true,
					  "direct"};
static const struct way direct_passthrough = {"backing=thp", true, HUGE_PMD, false, NULL};
static const struct way direct_thp = {"backing=thp,plain=cached", true, HUGE_PMD, false,
				      "kernel"};
static const struct way direct_denied = {"backing=thp,plain=deny", true, HUGE_PMD, false,
					 "kernel"};
static const struct way cached_hugetlb = {"backing=hugetlb,plain=cached", false, BASE, false,
					  NULL};
static const struct way cached_thp = {"backing=thp,plain=cached", false, BASE, false, NULL};

static struct fixture fixture;

static void mount_it(const char *ways)
{
	char options[96];

	memset(&fixture, 0, sizeof(fixture));
	snprintf(options, sizeof(options), "%s,size=32M,mode=1777", ways);
	fixture_mount(&fixture, options);
}

static int open_file(int flags)
{
	return open(fixture_path(&fixture, "file"), flags | O_CLOEXEC, 0666);
}

static int make_file(off_t size)
{
	return fixture_file(&fixture, "file", O_RDWR | O_CREAT, size);
}

static void remove_and_umount(int fd)
{
	close(fd);
	assert_int_equal(unlink(fixture_path(&fixture, "file")), 0);
	fixture_umount(&fixture);
}

static char *map(bool direct, int fd, size_t length)
{
	return direct ? hugefuse_mmap(NULL, length, RW, MAP_SHARED, fd, 0)
		      : mmap(NULL, length, RW, MAP_SHARED, fd, 0);
}

static void unmap(bool direct, char *addr, size_t length)
{
	assert_int_equal(direct ? hugefuse_munmap(addr, length) : munmap(addr, length), 0);
}

/* kB of [addr, addr + length) that smaps has for @name. */
static long mapped_kb(const char *addr, size_t length, const char *name)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	unsigned long start, end;
	bool inside = false;
	long kb = 0, value;
	char line[512];

	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			inside = start >= (unsigned long)addr &&
				 end <= (unsigned long)addr + length;
		else if (inside && strncmp(line, name, strlen(name)) == 0 &&
			 sscanf(line + strlen(name), ": %ld", &value) == 1)
			kb += value;
	}
	fclose(file);
	return kb;
}

static void expect_kind(const char *addr, size_t length, enum kind kind)
{
	long all = (long)(length / 1024);

	assert_int_equal(mapped_kb(addr, length, "ShmemPmdMapped") +
				 mapped_kb(addr, length, "FilePmdMapped"),
			 kind == HUGE_PMD ? all : 0);
	assert_int_equal(mapped_kb(addr, length, "Shared_Hugetlb") +
				 mapped_kb(addr, length, "Private_Hugetlb"),
			 kind == HUGE_TLB ? all : 0);
}

/* The only line of .hugefuse/maps has @way and says that all is instantiated. */
static void expect_listed(const char *way, size_t length)
{
	char *text = fixture_text(&fixture, "maps"), found[16], kind[32];
	long reserved_kb, instantiated_kb;

	assert_int_equal(fixture_nr_mapped(&fixture), 1);
	assert_int_equal(sscanf(strchr(text, '\n'),
				" %*s %*s %*s %*s %*s %*s %*s %*s %31s %15s"
				" %*s %*s %*s %*s %ld %ld",
				kind, found, &reserved_kb, &instantiated_kb),
			 4);
	assert_string_equal(kind, "shared");
	assert_string_equal(found, way);
	assert_int_equal(instantiated_kb, length / 1024);
	assert_int_equal(reserved_kb, 0);
	free(text);
}

static int read_and_write(void *data)
{
	int fd = open_file(O_RDWR);
	char byte;

	child_check(pread(fd, &byte, 1, PAGE_2M + 1) == 1 && byte == 'm');
	child_check(pwrite(fd, "w", 1, 2) == 1);
	return 0;
}

/* close(2) tells the daemon in its own time. */
static bool can_map_directly(void *data)
{
	char *p = map(true, *(int *)data, SIZE);

	if (p == MAP_FAILED)
		return false;
	return hugefuse_munmap(p, SIZE) == 0;
}

static int map_the_same(void *data)
{
	const struct way *way = data;
	int fd = open_file(O_RDWR);
	char *p;

	child_check(!way->direct || wait_until(can_map_directly, &fd, 2000));
	p = map(way->direct, fd, SIZE);
	child_check(p != MAP_FAILED && p[PAGE_2M + 1] == 'm' && p[2] == 'w');
	p[SIZE - 1] = 'e';
	return 0;
}

static void test_way(void **state)
{
	const struct way *way = *state;
	char *p, byte;
	int fd;

	mount_it(way->options);
	fd = make_file(SIZE);
	p = map(way->direct, fd, SIZE);
	assert_ptr_not_equal(p, MAP_FAILED);
	for (size_t at = 0; at < SIZE; at += 4096)
		p[at + 1] = 'm';
	expect_kind(p, SIZE, way->kind);
	assert_int_equal(fixture_fault_stat(&fixture, "faults_missing"),
			 way->daemon_decides ? SIZE / PAGE_2M : 0);
	assert_int_equal(fixture_fault_stat(&fixture, "base_fallback"), 0);
	if (way->listed_as)
		expect_listed(way->listed_as, SIZE);
	else
		assert_int_equal(fixture_nr_mapped(&fixture), 0);
	/* Another process writes and maps it, which an open descriptor of before may prevent.
	 */
	close(fd);
	fd = open_file(O_RDWR);
	if (way->kind == BASE)
		msync(p, SIZE, MS_SYNC);
	assert_int_equal(run_child(read_and_write, NULL, 0, CHILD_MS), 0);
	if (way->kind != BASE) {
		assert_int_equal(p[2], 'w');
		assert_int_equal(run_child(map_the_same, (void *)way, 0, CHILD_MS), 0);
		assert_int_equal(p[SIZE - 1], 'e');
		assert_int_equal(pread(fd, &byte, 1, SIZE - 1), 1);
		assert_int_equal(byte, 'e');
	}
	unmap(way->direct, p, SIZE);
	remove_and_umount(fd);
}

/* ---- the ways and each other ---- */

static int map_plainly_in_vain(void *data)
{
	int fd = open_file(O_RDWR);
	char byte;

	child_check(fd >= 0);
	child_check(mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED);
	child_check(errno == ENODEV);
	child_check(pread(fd, &byte, 1, 5) == 1 && byte == 'd');
	child_check(pwrite(fd, "c", 1, 6) == 1);
	return 0;
}

/* Mapped directly: others read and write it, and cannot map copies of it. */
static void test_direct_denies_cached(void **state)
{
	char *p, *q;
	int fd;

	mount_it(*state);
	fd = make_file(SIZE);
	p = map(true, fd, SIZE);
	assert_ptr_not_equal(p, MAP_FAILED);
	p[5] = 'd';
	assert_int_equal(run_child(map_plainly_in_vain, NULL, 0, CHILD_MS), 0);
	assert_int_equal(p[6], 'c');
	q = map(true, fd, SIZE); /* twice is no hindrance */
	assert_ptr_not_equal(q, MAP_FAILED);
	assert_int_equal(q[6], 'c');
	unmap(true, q, SIZE);
	unmap(true, p, SIZE);
	remove_and_umount(fd);
}

/* Open for cached use: nobody maps it directly. */
static void test_cached_denies_direct(void **state)
{
	struct stat st;
	int fd, other;
	char *p;

	mount_it(*state);
	fd = make_file(SIZE);
	other = open_file(O_RDWR);
	p = map(false, other, SIZE);
	assert_ptr_not_equal(p, MAP_FAILED);
	p[7] = 'p';
	assert_ptr_equal(map(true, fd, 2 * SIZE), MAP_FAILED);
	assert_int_equal(errno, EBUSY);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, SIZE);
	assert_int_equal(fixture_nr_mapped(&fixture), 0);
	unmap(false, p, SIZE);
	close(other);
	assert_true(wait_until(can_map_directly, &fd, 2000));
	p = map(true, fd, SIZE);
	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_equal(p[7], 'p');
	unmap(true, p, SIZE);
	remove_and_umount(fd);
}

static int map_other_way(void *data)
{
	bool direct = *(bool *)data;
	char *p = map(direct, open_file(O_RDWR), SIZE);

	child_check(p != MAP_FAILED && p[3] == 'x');
	p[4] = 'y';
	return 0;
}

/* Passthrough and direct are the same pages. */
static void test_passthrough_beside_direct(void **state)
{
	bool other;
	char *p;
	int fd;

	mount_it("backing=thp");
	fd = make_file(SIZE);
	for (int direct = 0; direct < 2; direct++) {
		p = map(direct, fd, SIZE);
		assert_ptr_not_equal(p, MAP_FAILED);
		p[3] = 'x';
		p[4] = 0;
		other = !direct;
		assert_int_equal(run_child(map_other_way, &other, 0, CHILD_MS), 0);
		assert_int_equal(p[4], 'y');
		unmap(direct, p, SIZE);
	}
	remove_and_umount(fd);
}

/* hugetlb without plain=cached: no mapping but the direct one. */
static void test_hugetlb_denies_plain(void **state)
{
	int fd;

	mount_it("backing=hugetlb");
	fd = make_file(SIZE);
	assert_ptr_equal(map(false, fd, SIZE), MAP_FAILED);
	assert_int_equal(errno, ENODEV);
	remove_and_umount(fd);
}

/* ---- direct on thp without passthrough ---- */

static void mount_direct_thp(void)
{
	mount_it(direct_thp.options);
}

/* As much as there is, and no byte more; a mapping makes the file longer. */
static void test_direct_thp_reserves(void **state)
{
	struct stat st;
	char *p;
	int fd;

	mount_direct_thp();
	fd = make_file(100);
	assert_ptr_equal(map(true, fd, 17 * PAGE_2M), MAP_FAILED);
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 100);
	assert_int_equal(fixture_nr_mapped(&fixture), 0);
	p = map(true, fd, 16 * PAGE_2M);
	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 16 * PAGE_2M);
	assert_int_equal(fixture_counter(&fixture, "free_hugepages"), 0);
	for (size_t at = 0; at < 16 * PAGE_2M; at += 4096)
		assert_false(raises_sigbus(p + at, true));
	/* What is cut off is gone, for the mapping too. */
	assert_int_equal(ftruncate(fd, PAGE_2M), 0);
	assert_false(raises_sigbus(p + PAGE_2M - 1, true));
	assert_true(raises_sigbus(p + PAGE_2M, true));
	fixture_expect_counter(&fixture, "free_hugepages", 15);
	unmap(true, p, 16 * PAGE_2M);
	remove_and_umount(fd);
}

static void test_direct_thp_private(void **state)
{
	char *p, byte;
	int fd;

	mount_direct_thp();
	fd = make_file(SIZE);
	assert_int_equal(pwrite(fd, "f", 1, 3), 1);
	p = hugefuse_mmap(NULL, SIZE, RW, MAP_PRIVATE | MAP_POPULATE, fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_equal(p[3], 'f');
	p[3] = 'p';
	assert_int_equal(pread(fd, &byte, 1, 3), 1);
	assert_int_equal(byte, 'f');
	free(fixture_text(&fixture, "regions"));
	unmap(true, p, SIZE);
	assert_int_equal(fixture_nr_mapped(&fixture), 0);
	remove_and_umount(fd);
}

static int use_inherited(void *data)
{
	char *p = data;

	child_check(fixture_nr_mapped(&fixture) == 2);
	child_check(p[9] == 'p');
	p[10] = 'c';
	child_check(hugefuse_munmap(p, SIZE) == 0);
	child_check(fixture_nr_mapped(&fixture) == 1);
	return 0;
}

/* The daemon knows where it is: after fork, mremap and the munmap of parts. */
static void test_direct_thp_follows(void **state)
{
	char *p, *area, *to;
	int fd;

	mount_direct_thp();
	fd = make_file(SIZE);
	p = map(true, fd, SIZE);
	assert_ptr_not_equal(p, MAP_FAILED);
	p[9] = 'p';
	assert_int_equal(run_child(use_inherited, p, 0, CHILD_MS), 0);
	assert_int_equal(p[10], 'c');
	area = mmap(NULL, 2 * SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(area, MAP_FAILED);
	to = area + (PAGE_2M - (uintptr_t)area % PAGE_2M) % PAGE_2M;
	assert_ptr_equal(hugefuse_mremap(p, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, to), to);
	assert_int_equal(to[9], 'p');
	expect_listed("kernel", SIZE);
	assert_int_equal(hugefuse_munmap(to + PAGE_2M, PAGE_2M), 0);
	assert_int_equal(fixture_nr_mapped(&fixture), 2);
	assert_int_equal(hugefuse_munmap(to, PAGE_2M), 0);
	assert_int_equal(hugefuse_munmap(to + 2 * PAGE_2M, SIZE - 2 * PAGE_2M), 0);
	assert_int_equal(fixture_nr_mapped(&fixture), 0);
	munmap(area, 2 * SIZE);
	remove_and_umount(fd);
}

static int map_and_die(void *data)
{
	char *p = map(true, open_file(O_RDWR), SIZE);

	child_check(p != MAP_FAILED);
	p[0] = 'd';
	_exit(0);
}

static bool nobody_maps(void *data)
{
	return fixture_nr_mapped(&fixture) == 0;
}

/* Who dies has it mapped no longer. */
static void test_direct_thp_ends(void **state)
{
	char *p;
	int fd;

	mount_direct_thp();
	fd = make_file(SIZE);
	close(fd);
	assert_int_equal(run_child(map_and_die, NULL, 0, CHILD_MS), 0);
	assert_true(wait_until(nobody_maps, NULL, 2000));
	fd = open_file(O_RDWR);
	p = map(false, fd, SIZE);
	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_equal(p[0], 'd');
	unmap(false, p, SIZE);
	remove_and_umount(fd);
}

static int map_as_user(void *data)
{
	int fd = open_file(O_RDWR);
	struct hugefuse_ioc_map request;
	char *p;

	child_check(fd >= 0);
	child_check(map(true, fd, SIZE) == MAP_FAILED && errno == EOPNOTSUPP);
	child_check(raw_request(fd, 0, 0, SIZE, &request) == -EOPNOTSUPP);
	p = map(false, fd, SIZE);
	child_check(p != MAP_FAILED);
	p[1] = 'u';
	return msync(p, SIZE, MS_SYNC);
}

/* A descriptor of the pages could be used to take what others have reserved. */
static void test_direct_thp_is_not_for_all(void **state)
{
	char byte;
	int fd;

	mount_direct_thp();
	fd = make_file(SIZE);
	assert_int_equal(fchmod(fd, 0666), 0);
	close(fd);
	assert_int_equal(run_child(map_as_user, NULL, NOBODY, CHILD_MS), 0);
	fd = open_file(O_RDWR);
	assert_int_equal(pread(fd, &byte, 1, 1), 1);
	assert_int_equal(byte, 'u');
	remove_and_umount(fd);
}

/* Messages that have no place there. */
static int send_what_is_not_needed(void *data)
{
	struct hugefuse_msg populate = {.type = HUGEFUSE_MSG_POPULATE, .length = SIZE};
	struct raw_mapping mapping;
	int fd = open_file(O_RDWR), uffd;

	child_check(raw_mapping_attach(&mapping, fd, HUGEFUSE_MAP_WRITE, 0, SIZE) == 0);
	uffd = raw_uffd(0);
	child_check(uffd >= 0);
	child_check(raw_mapping_register(&mapping, HUGEFUSE_MAP_WRITE, uffd) == -EINVAL);
	populate.mapping = mapping.attached.mapping;
	populate.address = (uintptr_t)mapping.addr;
	child_check(raw_call(mapping.sock, &populate, NULL, 0, NULL, NULL) == 0);
	raw_mapping_close(&mapping);
	return 0;
}

static void test_direct_thp_bears_messages(void **state)
{
	int fd;

	mount_direct_thp();
	fd = make_file(SIZE);
	close(fd);
	assert_int_equal(run_child(send_what_is_not_needed, NULL, 0, CHILD_MS), 0);
	assert_true(wait_until(nobody_maps, NULL, 2000));
	fd = open_file(O_RDWR);
	remove_and_umount(fd);
}

#define WAY(name)                                                         \
	{                                                                 \
		"test_way: " #name, test_way, NULL, NULL, (void *)&(name) \
	}
#define ON(test, options)                                               \
	{                                                               \
#test ": " options, test, NULL, NULL, (void *)(options) \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WAY(passthrough),
		WAY(direct_hugetlb),
		WAY(direct_passthrough),
		WAY(direct_thp),
		WAY(direct_denied),
		WAY(cached_hugetlb),
		WAY(cached_thp),
		ON(test_direct_denies_cached, "backing=hugetlb,plain=cached"),
		ON(test_direct_denies_cached, "backing=thp,plain=cached"),
		ON(test_direct_denies_cached, "backing=thp,plain=deny"),
		ON(test_cached_denies_direct, "backing=hugetlb,plain=cached"),
		ON(test_cached_denies_direct, "backing=thp,plain=cached"),
		cmocka_unit_test(test_passthrough_beside_direct),
		cmocka_unit_test(test_hugetlb_denies_plain),
		cmocka_unit_test(test_direct_thp_reserves),
		cmocka_unit_test(test_direct_thp_private),
		cmocka_unit_test(test_direct_thp_follows),
		cmocka_unit_test(test_direct_thp_ends),
		cmocka_unit_test(test_direct_thp_is_not_for_all),
		cmocka_unit_test(test_direct_thp_bears_messages),
	};

	require_root();
	require_pages(PAGE_2M, 16);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
