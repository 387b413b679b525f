/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * thp backing. populate_run allocates without clearing (fallocate(2) of a tmpfs): the page is
 * cleared by whoever touches it first, in its own thread and cache.
 *
 * Whether a huge page was had cannot be seen at the file. The kernel counts those that it has
 * made for all tmpfs together; where that does not tell, the page is mapped and looked at.
 */
#include "fs/backing_thp.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/falloc.h>
#include <numaif.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fs/lock.h"
#include "fs/log.h"
#include "fs/numa_policy.h"
#include "fs/owner.h"
#include "fs/pagemap.h"
#include "fs/trace.h"

#define BASE_PAGE_SIZE 4096
#define HUGE_PAGE_SIZE (UINT64_C(2) << 20)
#define POLICY_BYTES   (UINT64_C(1) << 40) /* a file's policy is for all that it may become */

#define THP_STATS "/sys/kernel/mm/transparent_hugepage/hugepages-2048kB/stats/"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif

struct backing_thp {
	struct backing backing;
	struct mutex lock; /* LOCK_RANK_RESERVE */
	int reserve_fd;
	int64_t nr_reserve; /* lock; pages */
	int alloc_fd;       /* counts the huge pages made for files; -1: unknown */
	_Atomic int64_t nr_fallbacks;
	_Atomic bool fallback_logged;
};

struct thp_file {
	struct backing_file file;
	int fd;
};

static struct backing_thp *to_thp(struct backing *backing)
{
	return (struct backing_thp *)backing;
}

static struct thp_file *to_file(struct backing_file *file)
{
	return (struct thp_file *)file;
}

static int thp_file_open(struct backing *backing, uint64_t ino, int names_fd,
			 struct backing_file **ret_file)
{
	struct thp_file *file = calloc(1, sizeof(*file));
	int r;

	if (!file)
		return -ENOMEM;
	file->fd = owner_open(names_fd, O_RDWR | O_NOATIME | O_CLOEXEC);
	if (file->fd < 0) {
		r = file->fd;
		free(file);
		return r;
	}
	file->file.backing = backing;
	*ret_file = &file->file;
	return 0;
}

static void thp_file_close(struct backing_file *file, bool remove)
{
	if (!file)
		return;
	close(to_file(file)->fd);
	free(to_file(file));
}

static int thp_descriptor(struct backing_file *file, int access_mode)
{
	char path[40];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", to_file(file)->fd);
	fd = open(path, access_mode | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* The size is the file's own, exact to the byte: fs/file_sized.c sets it. */
static int thp_resize(struct backing_file *file, int64_t nr_pages)
{
	return 0;
}

/* Allocated, whether it holds anything yet or not, which SEEK_DATA does not tell. */
int64_t backing_thp_count(struct backing_file *file, int64_t from, int64_t to)
{
	struct {
		uint64_t off, len;
	} range = {(uint64_t)from * BASE_PAGE_SIZE, (uint64_t)(to - from) * BASE_PAGE_SIZE};
	struct {
		uint64_t nr_cache, nr_dirty, nr_writeback, nr_evicted, nr_recently_evicted;
	} stat;

	if (syscall(SYS_cachestat, to_file(file)->fd, &range, &stat, 0) < 0)
		return -errno;
	return (int64_t)stat.nr_cache;
}

static int thp_present(struct backing_file *file, int64_t idx)
{
	int64_t nr = backing_thp_count(file, idx, idx + 1);

	return nr < 0 ? (int)nr : nr > 0;
}

static int64_t thp_count(struct backing_file *file)
{
	struct stat st;

	if (fstat(to_file(file)->fd, &st) < 0)
		return -errno;
	return st.st_blocks / (BASE_PAGE_SIZE / 512);
}

static int allocate(int fd, int64_t from, int64_t to)
{
	int r;

	do
		r = fallocate(fd, FALLOC_FL_KEEP_SIZE, from * BASE_PAGE_SIZE,
			      (to - from) * BASE_PAGE_SIZE);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : 0;
}

/* ---- whether it is a huge page ---- */

static int64_t read_alloc_count(const struct backing_thp *thp)
{
	char text[24];
	ssize_t len;

	if (thp->alloc_fd < 0)
		return -1;
	len = pread(thp->alloc_fd, text, sizeof(text) - 1, 0);
	if (len <= 0)
		return -1;
	text[len] = '\0';
	return strtoll(text, NULL, 10);
}

/* An address that is a multiple of the huge page size, with the huge page around @idx; NULL. */
static char *map_chunk(struct backing_file *file, int64_t idx)
{
	off_t offset = idx * BASE_PAGE_SIZE / (off_t)HUGE_PAGE_SIZE * (off_t)HUGE_PAGE_SIZE;
	char *area, *addr;

	area = mmap(NULL, 2 * HUGE_PAGE_SIZE, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (area == MAP_FAILED)
		return NULL;
	addr = area + (HUGE_PAGE_SIZE - (uintptr_t)area % HUGE_PAGE_SIZE) % HUGE_PAGE_SIZE;
	if (mmap(addr, HUGE_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		 to_file(file)->fd, offset) == MAP_FAILED) {
		munmap(area, 2 * HUGE_PAGE_SIZE);
		return NULL;
	}
	munmap(area, addr - area);
	munmap(addr + HUGE_PAGE_SIZE, area + HUGE_PAGE_SIZE - addr);
	return addr;
}

static bool is_mapped_huge(const char *addr)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC), r;

	if (fd < 0)
		return true; /* nothing can be said */
	r = pagemap_is_huge(fd, (uintptr_t)addr);
	close(fd);
	return r != 0;
}

/* Look at the page itself, which clears it if it was not touched yet. */
static bool is_huge(struct backing_file *file, int64_t idx)
{
	char *addr = map_chunk(file, idx);
	bool huge = true;

	if (!addr)
		return true;
	if (madvise(addr, BASE_PAGE_SIZE, MADV_POPULATE_READ) == 0)
		huge = is_mapped_huge(addr);
	munmap(addr, HUGE_PAGE_SIZE);
	return huge;
}

static int thp_huge_node(struct backing_file *file, int64_t idx)
{
	char *addr = map_chunk(file, idx);
	int node = -ENOENT;

	if (!addr)
		return -ENOENT;
	if (madvise(addr, BASE_PAGE_SIZE, MADV_POPULATE_READ) == 0 && is_mapped_huge(addr)) {
		node = numa_policy_node_of(addr);
		if (node < 0)
			node = 0; /* a kernel without NUMA */
	}
	munmap(addr, HUGE_PAGE_SIZE);
	return node;
}

/* ---- where pages are ---- */

static int mempolicy_of(const struct numa_rule *rule)
{
	switch (rule->kind) {
	case NUMA_PREFERRED:
		return MPOL_PREFERRED;
	case NUMA_BIND:
		return MPOL_BIND;
	case NUMA_INTERLEAVE:
		return MPOL_INTERLEAVE;
	case NUMA_NONE:
	case NUMA_LOCAL:
		break;
	}
	return MPOL_DEFAULT;
}

int backing_thp_set_rule(struct backing_file *file, const struct numa_rule *rule)
{
	unsigned long nodes = rule->nodes ? rule->nodes : numa_policy_memory_nodes();
	int mode = mempolicy_of(rule), r = 0;
	void *addr;

	addr = mmap(NULL, POLICY_BYTES, PROT_NONE, MAP_SHARED | MAP_NORESERVE,
		    to_file(file)->fd, 0);
	if (addr == MAP_FAILED)
		return -errno;
	if (mbind(addr, POLICY_BYTES, mode, mode == MPOL_DEFAULT ? NULL : &nodes,
		  mode == MPOL_DEFAULT ? 0 : sizeof(nodes) * CHAR_BIT + 1, 0) < 0)
		r = -errno;
	munmap(addr, POLICY_BYTES);
	return r;
}

static void note_fallback(struct backing_thp *thp, int fd, int64_t from, int64_t to)
{
	trace_fallback(fd, from, to);
	thp->nr_fallbacks++;
	if (!atomic_exchange(&thp->fallback_logged, true))
		log_warning("no huge page was to be had for a file: base pages were taken "
			    "(said once; .hugefuse/fault_stat counts on)");
}

static int thp_populate_run(struct backing_file *file, int64_t from, int64_t to)
{
	struct backing_thp *thp = to_thp(file->backing);
	bool whole = to - from == backing_chunk(file->backing);
	int64_t before = whole ? read_alloc_count(thp) : 0;
	int r;

	r = allocate(to_file(file)->fd, from, to);
	if (r < 0 || !whole)
		return r;
	if ((before < 0 || read_alloc_count(thp) != before + 1) && !is_huge(file, from))
		note_fallback(thp, to_file(file)->fd, from, to);
	return 0;
}

void backing_thp_collapse(struct backing_file *file, int64_t idx)
{
	char *addr = map_chunk(file, idx);

	if (!addr)
		return;
	madvise(addr, HUGE_PAGE_SIZE, MADV_COLLAPSE);
	munmap(addr, HUGE_PAGE_SIZE);
}

static int thp_punch(struct backing_file *file, int64_t from, int64_t to)
{
	if (fallocate(to_file(file)->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		      from * BASE_PAGE_SIZE, (to - from) * BASE_PAGE_SIZE) < 0)
		return -errno;
	return 0;
}

static ssize_t thp_read(struct backing_file *file, void *buf, size_t len, uint64_t offset)
{
	ssize_t n = pread(to_file(file)->fd, buf, len, (off_t)offset);

	return n < 0 ? -errno : n;
}

static ssize_t thp_write(struct backing_file *file, const void *buf, size_t len,
			 uint64_t offset)
{
	ssize_t n = pwrite(to_file(file)->fd, buf, len, (off_t)offset);

	return n < 0 ? -errno : n;
}

static const struct backing_ops thp_ops = {
	.name = "thp",
	.file_open = thp_file_open,
	.file_close = thp_file_close,
	.file_descriptor = thp_descriptor,
	.resize = thp_resize,
	.populate_run = thp_populate_run,
	.punch = thp_punch,
	.present = thp_present,
	.huge_node = thp_huge_node,
	.count = thp_count,
	.read = thp_read,
	.write = thp_write,
};

/* ---- the reserve ---- */

static int shrink_locked(struct backing_thp *thp, int64_t nr)
{
	mutex_assert_held(&thp->lock);
	if (ftruncate(thp->reserve_fd, nr * BASE_PAGE_SIZE) < 0)
		return -errno;
	thp->nr_reserve = nr;
	return 0;
}

/* A huge page at a time: what was had stays, and is known. */
static int grow_locked(struct backing_thp *thp, int64_t nr)
{
	int64_t chunk = backing_chunk(&thp->backing), end;
	int r;

	mutex_assert_held(&thp->lock);
	if (ftruncate(thp->reserve_fd, nr * BASE_PAGE_SIZE) < 0)
		return -errno;
	for (; thp->nr_reserve < nr; thp->nr_reserve = end) {
		end = (thp->nr_reserve / chunk + 1) * chunk;
		if (end > nr)
			end = nr;
		r = allocate(thp->reserve_fd, thp->nr_reserve, end);
		if (r < 0) {
			shrink_locked(thp, thp->nr_reserve);
			return r;
		}
	}
	return 0;
}

int backing_thp_set_reserve(struct backing *backing, int64_t (*target)(void *data), void *data)
{
	struct backing_thp *thp = to_thp(backing);
	int64_t nr;
	int r = 0;

	mutex_lock(&thp->lock);
	nr = target(data);
	if (nr < thp->nr_reserve)
		r = shrink_locked(thp, nr);
	else if (nr > thp->nr_reserve)
		r = grow_locked(thp, nr);
	mutex_unlock(&thp->lock);
	return r;
}

int64_t backing_thp_reserved(struct backing *backing)
{
	struct backing_thp *thp = to_thp(backing);
	int64_t nr;

	mutex_lock(&thp->lock);
	nr = thp->nr_reserve;
	mutex_unlock(&thp->lock);
	return nr;
}

int64_t backing_thp_nr_fallbacks(struct backing *backing)
{
	return to_thp(backing)->nr_fallbacks;
}

void backing_thp_clear_fallbacks(struct backing *backing)
{
	to_thp(backing)->nr_fallbacks = 0;
}

bool backing_thp_is_alone(struct backing_file *file)
{
	int fd = to_file(file)->fd;

	if (fcntl(fd, F_SETLEASE, F_WRLCK) < 0)
		return false;
	fcntl(fd, F_SETLEASE, F_UNLCK);
	return true;
}

int backing_thp_fd(struct backing_file *file)
{
	return to_file(file)->fd;
}

/* What there is of the reserve: it is allocated from its beginning on. */
static int read_reserve(struct backing_thp *thp)
{
	struct stat st;

	if (fstat(thp->reserve_fd, &st) < 0)
		return -errno;
	thp->nr_reserve = st.st_blocks / (BASE_PAGE_SIZE / 512);
	return ftruncate(thp->reserve_fd, thp->nr_reserve * BASE_PAGE_SIZE) < 0 ? -errno : 0;
}

int backing_thp_new(int reserve_fd, struct backing **ret_backing)
{
	struct backing_thp *thp = aligned_alloc(_Alignof(struct backing_thp), sizeof(*thp));
	int r;

	if (!thp)
		return -ENOMEM;
	memset(thp, 0, sizeof(*thp));
	thp->backing = (struct backing){
		.ops = &thp_ops,
		.page_size = BASE_PAGE_SIZE,
		.nr_nodes = 1,
		.huge_page_size = HUGE_PAGE_SIZE,
		.reserves_size = true,
	};
	thp->reserve_fd = reserve_fd;
	r = read_reserve(thp);
	if (r < 0) {
		free(thp);
		return r;
	}
	thp->alloc_fd = open(THP_STATS "shmem_alloc", O_RDONLY | O_CLOEXEC);
	mutex_init(&thp->lock, LOCK_RANK_RESERVE);
	*ret_backing = &thp->backing;
	return 0;
}

void backing_thp_free(struct backing *backing)
{
	struct backing_thp *thp;

	if (!backing)
		return;
	thp = to_thp(backing);
	close(thp->reserve_fd);
	if (thp->alloc_fd >= 0)
		close(thp->alloc_fd);
	mutex_deinit(&thp->lock);
	free(thp);
}
