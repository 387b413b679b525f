/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hugetlb backing. The pages of inode number N are the file N of a private hugetlbfs that only
 * root can reach.
 *
 * Pages are populated by MADV_POPULATE_WRITE through the daemon's own mapping of the file (its
 * window), not by fallocate(2): hugetlbfs_fallocate() holds the inode's lock while it clears,
 * so that two threads clearing different pages of one file would take turns. A fault through
 * the window only takes the kernel's own fault mutex of that page. The window is replaced when
 * the file grows; whoever uses it is in an RCU read-side section.
 *
 * The window is mapped read-only first, because mapping a hugetlbfs file for writing beyond its
 * end makes it longer, and a truncation may run at the same time.
 */
#include "fs/backing_hugetlb.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/falloc.h>
#include <linux/mman.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <urcu-bp.h>

#include "fs/hugetlb_probe.h"
#include "fs/lock.h"
#include "fs/numa_policy.h"
#include "fs/pool.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/*
 * All windows together may take this much of the address space. Files are sparse, and as long
 * as their users like; where it is used up, or a file is longer, a window is a few pages.
 */
#define WINDOWS_MAX_BYTES  (32ULL << 40)
#define SMALL_WINDOW_PAGES 64

struct window {
	char *base;
	int64_t from, nr_pages;
	uint64_t page_size;
	struct hugetlb_file *file;
	struct rcu_head rcu;
};

struct backing_hugetlb {
	struct backing backing;
	int dir_fd;
	int64_t min_pages; /* set at init */
	_Atomic uint64_t window_bytes;
	int probe_uffd; /* answers faults with SIGBUS; -1 where no descriptor was to be had */
};

struct hugetlb_file {
	struct backing_file file;
	uint64_t ino;
	int fd;
	struct mutex lock;               /* LOCK_RANK_LEAF; replacing the window */
	struct window *window;           /* rcu; NULL until used */
	_Atomic uint32_t nr_old_windows; /* replaced, and not unmapped yet */
	_Atomic int64_t nr_pages;
};

static struct backing_hugetlb *to_hugetlb(struct backing *backing)
{
	return (struct backing_hugetlb *)backing;
}

static struct hugetlb_file *to_file(struct backing_file *file)
{
	return (struct hugetlb_file *)file;
}

static void window_free(struct window *window)
{
	if (!window)
		return;
	munmap(window->base, window->nr_pages * window->page_size);
	to_hugetlb(window->file->file.backing)->window_bytes -=
		window->nr_pages * window->page_size;
	free(window);
}

static void window_free_rcu(struct rcu_head *head)
{
	struct window *window = caa_container_of(head, struct window, rcu);
	struct hugetlb_file *file = window->file;

	window_free(window);
	file->nr_old_windows--;
}

/* A window of @nr_pages from page @from on, which is counted already. */
static struct window *window_map(struct hugetlb_file *file, int64_t from, int64_t nr_pages)
{
	struct window *window = malloc(sizeof(*window));
	uint64_t page_size = file->file.backing->page_size;
	size_t length = nr_pages * page_size;

	if (!window)
		return NULL;
	*window = (struct window){
		.from = from, .nr_pages = nr_pages, .page_size = page_size, .file = file};
	window->base = mmap(NULL, length, PROT_READ, MAP_SHARED | MAP_NORESERVE, file->fd,
			    (off_t)(from * page_size));
	if (window->base == MAP_FAILED)
		goto out_free;
	if (mprotect(window->base, length, PROT_READ | PROT_WRITE) < 0)
		goto out_unmap;
	/* A forked helper has no business here, and would keep the pages from being freed. */
	madvise(window->base, length, MADV_DONTFORK);
	return window;

out_unmap:
	munmap(window->base, length);
out_free:
	free(window);
	return NULL;
}

/* A window in which page @idx is: the whole file, if there is room. */
static struct window *window_new(struct hugetlb_file *file, int64_t idx)
{
	_Atomic uint64_t *used = &to_hugetlb(file->file.backing)->window_bytes;
	int64_t from = 0, nr_pages = file->nr_pages, whole = nr_pages;
	uint64_t page_size = file->file.backing->page_size;
	struct window *window;

	if ((uint64_t)nr_pages > WINDOWS_MAX_BYTES / page_size ||
	    *used + nr_pages * page_size > WINDOWS_MAX_BYTES) {
		from = idx / SMALL_WINDOW_PAGES * SMALL_WINDOW_PAGES;
		nr_pages = whole - from < SMALL_WINDOW_PAGES ? whole - from
							     : SMALL_WINDOW_PAGES;
	}
	*used += nr_pages * page_size;
	window = window_map(file, from, nr_pages);
	if (!window)
		*used -= nr_pages * page_size;
	return window;
}

static bool window_has(const struct window *window, int64_t idx)
{
	return window && idx >= window->from && idx - window->from < window->nr_pages;
}

/* Make the window reach page @idx. */
static int window_grow(struct hugetlb_file *file, int64_t idx)
{
	struct window *window, *old;
	int r = 0;

	mutex_lock(&file->lock);
	old = file->window;
	if (!window_has(old, idx)) {
		if (idx >= file->nr_pages) {
			r = -ERANGE;
			goto out_unlock;
		}
		window = window_new(file, idx);
		if (!window) {
			r = -ENOMEM;
			goto out_unlock;
		}
		rcu_assign_pointer(file->window, window);
		if (old) {
			file->nr_old_windows++;
			call_rcu(&old->rcu, window_free_rcu);
		}
	}
out_unlock:
	mutex_unlock(&file->lock);
	return r;
}

/* The address of page @idx; the caller is in an RCU read-side section. NULL: grow the window.
 */
static char *window_page_rcu(struct hugetlb_file *file, int64_t idx)
{
	struct window *window = rcu_dereference(file->window);

	if (!window_has(window, idx))
		return NULL;
	return window->base + (idx - window->from) * window->page_size;
}

/* Enter an RCU read-side section in which page @idx has an address. */
static int window_lock(struct hugetlb_file *file, int64_t idx, char **ret_page)
{
	int r;

	for (;;) {
		rcu_read_lock();
		*ret_page = window_page_rcu(file, idx);
		if (*ret_page)
			return 0;
		rcu_read_unlock();
		r = window_grow(file, idx);
		if (r < 0)
			return r;
	}
}

static void window_unlock(void)
{
	rcu_read_unlock();
}

static int hugetlb_file_open(struct backing *backing, uint64_t ino, int names_fd,
			     struct backing_file **ret_file)
{
	struct hugetlb_file *file;
	struct stat st;
	char name[24];
	int r;

	file = calloc(1, sizeof(*file));
	if (!file)
		return -ENOMEM;
	snprintf(name, sizeof(name), "%" PRIu64, ino);
	file->fd = openat(to_hugetlb(backing)->dir_fd, name,
			  O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (file->fd < 0 || fstat(file->fd, &st) < 0) {
		r = -errno;
		goto out_free;
	}
	file->file.backing = backing;
	file->ino = ino;
	file->nr_pages = st.st_size / backing->page_size;
	mutex_init(&file->lock, LOCK_RANK_LEAF);
	*ret_file = &file->file;
	return 0;

out_free:
	if (file->fd >= 0)
		close(file->fd);
	free(file);
	return r;
}

static void hugetlb_file_close(struct backing_file *backing_file, bool remove)
{
	struct hugetlb_file *file = to_file(backing_file);
	char name[24];

	if (!backing_file)
		return;
	if (remove) {
		snprintf(name, sizeof(name), "%" PRIu64, file->ino);
		unlinkat(to_hugetlb(backing_file->backing)->dir_fd, name, 0);
		/* Clients that still map the pages keep the file; its unused reservations go
		 * now. */
	}
	close(file->fd);
	/* The pages must be gone when this returns, so the window cannot wait for a grace
	 * period. */
	synchronize_rcu();
	if (file->nr_old_windows)
		rcu_barrier();
	window_free(file->window);
	mutex_deinit(&file->lock);
	free(file);
}

static int hugetlb_descriptor(struct backing_file *backing_file, int access_mode)
{
	struct hugetlb_file *file = to_file(backing_file);
	char path[40];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", file->fd);
	fd = open(path, access_mode | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/*
 * ftruncate(2) would also drop all reservations behind the new end, of mappings that reach
 * further: hugetlbfs_setattr() truncates on every change. Mapping for writing only moves the
 * end.
 */
static int hugetlb_grow(struct hugetlb_file *file, int64_t nr_pages)
{
	uint64_t page_size = file->file.backing->page_size;
	void *addr;

	addr = mmap(NULL, page_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
		    file->fd, (nr_pages - 1) * page_size);
	if (addr == MAP_FAILED)
		return -errno;
	munmap(addr, page_size);
	return 0;
}

static int hugetlb_resize(struct backing_file *backing_file, int64_t nr_pages)
{
	struct hugetlb_file *file = to_file(backing_file);
	int r;

	mutex_lock(&file->lock);
	/* Cutting off nothing would drop the reservations behind the end. */
	if (nr_pages == file->nr_pages)
		r = 0;
	else if (nr_pages > file->nr_pages)
		r = hugetlb_grow(file, nr_pages);
	else
		r = ftruncate(file->fd, nr_pages * backing_file->backing->page_size) < 0
			    ? -errno
			    : 0;
	if (r == 0)
		file->nr_pages = nr_pages;
	mutex_unlock(&file->lock);
	return r;
}

/*
 * A client that maps the descriptor for writing by itself, even a private mapping of one that
 * is for reading only, makes the kernel's file longer than ours. Then a fault behind the end
 * comes to us instead of raising SIGBUS, again and again: cut off what is too much.
 */
static int hugetlb_cut(struct backing_file *backing_file)
{
	struct hugetlb_file *file = to_file(backing_file);
	struct stat st;
	off_t size;
	int r;

	mutex_lock(&file->lock);
	size = file->nr_pages * (off_t)backing_file->backing->page_size;
	r = fstat(file->fd, &st);
	if (r == 0 && st.st_size > size)
		r = ftruncate(file->fd, size);
	mutex_unlock(&file->lock);
	return r < 0 ? -EIO : 0;
}

/*
 * Linux (6.18) loses what it took from min_size= for a reservation that it then cannot make
 * surplus pages for: hugetlb_reserve_pages() puts it back while it still counts all of it as
 * used. So it must not fail there. Whether the surplus pages are to be had is found out by a
 * mapping that is of no file, and so of no min_size=.
 */
static int hugetlb_can_reserve(struct backing *backing, int64_t nr_pages)
{
	struct backing_hugetlb *hugetlb = to_hugetlb(backing);
	int size_bits = __builtin_ctzll(backing->page_size) << MAP_HUGE_SHIFT;
	struct statfs st;
	int64_t left;
	void *addr;

	if (hugetlb->min_pages == 0)
		return 0;
	if (fstatfs(hugetlb->dir_fd, &st) < 0)
		return -errno;
	left = hugetlb->min_pages - (int64_t)(st.f_blocks - st.f_bfree);
	if (left > 0)
		nr_pages -= left;
	if (nr_pages <= 0)
		return 0;
	addr = mmap(NULL, nr_pages * backing->page_size, PROT_READ,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | size_bits, -1, 0);
	if (addr == MAP_FAILED)
		return -ENOMEM;
	munmap(addr, nr_pages * backing->page_size);
	return 0;
}

static int hugetlb_reserve(struct backing_file *backing_file, int64_t from, int64_t to)
{
	uint64_t page_size = backing_file->backing->page_size;
	size_t length = (to - from) * page_size;
	void *addr;

	/* A shared mapping's reservation stays with the file when the mapping goes. */
	addr = mmap(NULL, length, PROT_READ, MAP_SHARED, to_file(backing_file)->fd,
		    from * page_size);
	if (addr == MAP_FAILED)
		return -errno;
	munmap(addr, length);
	return 0;
}

/* What a failed populate means: the kernel says EFAULT for all that would be SIGBUS. */
static int populate_error(struct hugetlb_file *file, int64_t idx, int error)
{
	struct stat st;

	if (error != EFAULT)
		return -error;
	if (fstat(file->fd, &st) == 0 &&
	    idx >= (int64_t)(st.st_size / file->file.backing->page_size))
		return -ERANGE;
	return -ENOSPC;
}

static int hugetlb_populate(struct backing_file *backing_file, int64_t idx, int node)
{
	struct hugetlb_file *file = to_file(backing_file);
	uint64_t page_size = backing_file->backing->page_size;
	bool one_node = backing_file->backing->nr_nodes == 1;
	char *page;
	int r;

	r = window_lock(file, idx, &page);
	if (r < 0)
		return r;
	r = one_node || node == POOL_ANY_NODE ? 0 : numa_policy_bind(node);
	if (r < 0) {
		window_unlock();
		return -ENOSPC; /* a node that this process may not use */
	}
	do
		r = madvise(page, page_size, MADV_POPULATE_WRITE) < 0 ? -errno : 0;
	while (r == -EINTR);
	if (!one_node && node != POOL_ANY_NODE)
		numa_policy_unbind();
	if (r == 0 && !one_node) {
		r = numa_policy_node_of(page);
		if (r >= 0)
			node = r;
	}
	window_unlock();
	return r < 0 ? populate_error(file, idx, -r) : node;
}

static int hugetlb_punch(struct backing_file *backing_file, int64_t from, int64_t to)
{
	uint64_t page_size = backing_file->backing->page_size;

	if (fallocate(to_file(backing_file)->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		      from * page_size, (to - from) * page_size) < 0)
		return -errno;
	return 0;
}

/* Whether page @idx is in the window's page table, as it mostly is if it is there. */
static bool is_in_window(struct hugetlb_file *file, int64_t idx)
{
	unsigned char residency = 0;
	char *page;

	rcu_read_lock();
	page = window_page_rcu(file, idx);
	if (page && mincore(page, 1, &residency) < 0)
		residency = 0;
	rcu_read_unlock();
	return residency & 1;
}

static int hugetlb_present(struct backing_file *backing_file, int64_t idx)
{
	int probe = to_hugetlb(backing_file->backing)->probe_uffd;

	if (is_in_window(to_file(backing_file), idx))
		return 1;
	return hugetlb_probe_page(probe, to_file(backing_file)->fd,
				  backing_file->backing->page_size, idx);
}

static int hugetlb_node(struct backing_file *backing_file, int64_t idx)
{
	char *page;
	int r;

	if (backing_file->backing->nr_nodes == 1)
		return 0;
	r = window_lock(to_file(backing_file), idx, &page);
	if (r < 0)
		return r;
	r = numa_policy_node_of(page); /* maps it, if need be */
	window_unlock();
	return r;
}

int backing_hugetlb_find(struct backing_file *backing_file, int64_t from, int64_t to,
			 int (*found)(void *data, int64_t idx), void *data)
{
	int probe = to_hugetlb(backing_file->backing)->probe_uffd;

	return hugetlb_probe_range(probe, to_file(backing_file)->fd,
				   backing_file->backing->page_size, from, to, found, data);
}

int backing_hugetlb_dir_fd(struct backing *backing)
{
	return to_hugetlb(backing)->dir_fd;
}

static int64_t hugetlb_count(struct backing_file *backing_file)
{
	struct stat st;

	if (fstat(to_file(backing_file)->fd, &st) < 0)
		return -errno;
	return st.st_blocks / (int64_t)(backing_file->backing->page_size / 512);
}

static ssize_t hugetlb_read(struct backing_file *backing_file, void *buf, size_t len,
			    uint64_t offset)
{
	size_t done = 0;
	ssize_t n;

	while (done < len) {
		n = pread(to_file(backing_file)->fd, (char *)buf + done, len - done,
			  offset + done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break; /* behind the end */
		done += n;
	}
	memset((char *)buf + done, 0, len - done);
	return len;
}

/* hugetlbfs has no write(2). A copy by the kernel, unlike memcpy(), fails without a signal. */
static ssize_t hugetlb_write(struct backing_file *backing_file, const void *buf, size_t len,
			     uint64_t offset)
{
	struct hugetlb_file *file = to_file(backing_file);
	uint64_t page_size = backing_file->backing->page_size;
	struct iovec from = {(void *)buf, len}, to = {NULL, len};
	char *page;
	ssize_t n;
	int r;

	r = window_lock(file, (offset + len - 1) / page_size, &page);
	if (r < 0)
		return r;
	to.iov_base = page - ((offset + len - 1) / page_size) * page_size + offset;
	n = process_vm_writev(getpid(), &from, 1, &to, 1, 0);
	if (n < 0)
		n = -errno;
	window_unlock();
	if (n >= 0 && (size_t)n < len)
		return -EIO;
	return n;
}

static const struct backing_ops hugetlb_ops = {
	.name = "hugetlb",
	.file_open = hugetlb_file_open,
	.file_close = hugetlb_file_close,
	.file_descriptor = hugetlb_descriptor,
	.resize = hugetlb_resize,
	.cut = hugetlb_cut,
	.can_reserve = hugetlb_can_reserve,
	.reserve = hugetlb_reserve,
	.populate = hugetlb_populate,
	.punch = hugetlb_punch,
	.present = hugetlb_present,
	.node = hugetlb_node,
	.count = hugetlb_count,
	.read = hugetlb_read,
	.write = hugetlb_write,
};

int backing_hugetlb_new(int dir_fd, uint64_t page_size, int nr_nodes, int64_t min_pages,
			struct backing **ret_backing)
{
	struct backing_hugetlb *hugetlb = calloc(1, sizeof(*hugetlb));

	if (!hugetlb)
		return -ENOMEM;
	hugetlb->backing = (struct backing){&hugetlb_ops, page_size, nr_nodes, page_size};
	hugetlb->dir_fd = dir_fd;
	hugetlb->min_pages = min_pages;
	hugetlb->probe_uffd = hugetlb_open_probe();
	*ret_backing = &hugetlb->backing;
	return 0;
}

void backing_hugetlb_free(struct backing *backing)
{
	struct backing_hugetlb *hugetlb;

	if (!backing)
		return;
	hugetlb = to_hugetlb(backing);
	rcu_barrier();
	if (hugetlb->probe_uffd >= 0)
		close(hugetlb->probe_uffd);
	close(hugetlb->dir_fd);
	free(hugetlb);
}
