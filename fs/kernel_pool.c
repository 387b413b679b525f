/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel's hugetlb pool through sysfs. Growing writes each node's nr_hugepages and reads
 * back what the kernel got: it takes less where memory is short or fragmented, without an
 * error.
 */
#include "fs/kernel_pool.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define KERNEL_POOL_LOCK "/run/hugefuse/.kernel-pool.lock"

static int read_number(const char *path, int64_t *ret_value)
{
	char text[32];
	ssize_t len;
	int fd;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	len = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (len <= 0)
		return -EIO;
	text[len] = '\0';
	*ret_value = strtoll(text, NULL, 10);
	return 0;
}

static int write_number(const char *path, int64_t value)
{
	char text[32];
	int fd, len, r = 0;

	len = snprintf(text, sizeof(text), "%" PRId64, value);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (write(fd, text, len) != len)
		r = -errno;
	close(fd);
	return r;
}

static void pool_path(char *path, size_t size, uint64_t page_size, int node, const char *name)
{
	char dir[64] = "/sys/kernel/mm";

	if (node >= 0)
		snprintf(dir, sizeof(dir), "/sys/devices/system/node/node%d", node);
	snprintf(path, size, "%s/hugepages/hugepages-%" PRIu64 "kB/%s", dir, page_size >> 10,
		 name);
}

static int read_counter(uint64_t page_size, int node, const char *name, int64_t *ret_value)
{
	char path[160];

	pool_path(path, sizeof(path), page_size, node, name);
	return read_number(path, ret_value);
}

static int write_counter(uint64_t page_size, int node, const char *name, int64_t value)
{
	char path[160];

	pool_path(path, sizeof(path), page_size, node, name);
	return write_number(path, value);
}

/* A node's counters; without node directories in sysfs node 0 has what the whole machine has.
 */
static int read_node(uint64_t page_size, int node, struct pool_node *ret_node)
{
	int64_t probe;
	int r;

	if (read_counter(page_size, node, "nr_hugepages", &probe) == -ENOENT) {
		*ret_node = (struct pool_node){0};
		if (node > 0)
			return 0; /* a node number that is not in use */
		node = -1;
	}
	r = read_counter(page_size, node, "nr_hugepages", &ret_node->nr);
	if (r == 0)
		r = read_counter(page_size, node, "free_hugepages", &ret_node->free);
	if (r == 0)
		r = read_counter(page_size, node, "surplus_hugepages", &ret_node->surplus);
	return r;
}

int kernel_pool_read(uint64_t page_size, int nr_nodes, struct pool_counts *ret_counts)
{
	struct pool_counts counts = {.nr_nodes = nr_nodes};
	int r;

	r = read_counter(page_size, -1, "nr_hugepages", &counts.nr);
	if (r == 0)
		r = read_counter(page_size, -1, "free_hugepages", &counts.free);
	if (r == 0)
		r = read_counter(page_size, -1, "resv_hugepages", &counts.resv);
	if (r == 0)
		r = read_counter(page_size, -1, "surplus_hugepages", &counts.surplus);
	if (r == 0)
		r = read_counter(page_size, -1, "nr_overcommit_hugepages", &counts.overcommit);
	for (int node = 0; r == 0 && node < nr_nodes; node++)
		r = read_node(page_size, node, &counts.node[node]);
	if (r == 0)
		*ret_counts = counts;
	return r;
}

/* Add @pages (may be negative) to a node's nr_hugepages; returns how many that really were. */
static int64_t add_to_node(uint64_t page_size, int nr_nodes, int node, int64_t pages)
{
	int at = nr_nodes == 1 ? -1 : node;
	int64_t before = 0, after = 0, target;
	int r;

	r = read_counter(page_size, at, "nr_hugepages", &before);
	if (r < 0)
		return r;
	target = before + pages;
	r = write_counter(page_size, at, "nr_hugepages", target > 0 ? target : 0);
	if (r < 0)
		return r;
	r = read_counter(page_size, at, "nr_hugepages", &after);
	return r < 0 ? r : after - before;
}

static int lock_kernel_pool(void)
{
	int fd = open(KERNEL_POOL_LOCK, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX) < 0) {
		close(fd);
		return -errno;
	}
	return fd;
}

static int add_overcommit(uint64_t page_size, int64_t pages)
{
	int64_t value = 0;
	int r;

	if (pages == 0)
		return 0;
	r = read_counter(page_size, -1, "nr_overcommit_hugepages", &value);
	if (r < 0)
		return r;
	value += pages;
	return write_counter(page_size, -1, "nr_overcommit_hugepages", value > 0 ? value : 0);
}

static int return_locked(const struct kernel_pool_loan *loan)
{
	int64_t r;
	int first = 0;

	for (int node = 0; node < loan->nr_nodes; node++) {
		if (loan->node_pages[node] == 0)
			continue;
		r = add_to_node(loan->page_size, loan->nr_nodes, node, -loan->node_pages[node]);
		if (r < 0 && first == 0)
			first = (int)r;
	}
	r = add_overcommit(loan->page_size, -loan->overcommit);
	return first ? first : (int)r;
}

int kernel_pool_return(const struct kernel_pool_loan *loan)
{
	int lock = lock_kernel_pool();
	int r;

	if (lock < 0)
		return lock;
	r = return_locked(loan);
	close(lock);
	return r;
}

static void explain_shortage(const struct kernel_pool_loan *got, int64_t existing,
			     int64_t pages, char *error, size_t error_size)
{
	int64_t total = existing;
	char nodes[256] = "";
	size_t len = 0;

	for (int node = 0; node < got->nr_nodes; node++) {
		total += got->node_pages[node];
		if (len < sizeof(nodes))
			len += snprintf(nodes + len, sizeof(nodes) - len, "%snode %d: %" PRId64,
					node ? ", " : "", node, got->node_pages[node]);
	}
	snprintf(error, error_size,
		 "%" PRId64 " huge pages of %" PRIu64 " kB are needed, only %" PRId64
		 " could be had (%" PRId64
		 " free in the kernel's pool, newly allocated on %s); "
		 "ask for a smaller min_size, or free memory and try again",
		 pages, got->page_size >> 10, total, existing, nodes);
}

/* What memory would be there for, in pages; an estimate of the kernel's. */
static int64_t available_pages(uint64_t page_size)
{
	char line[128];
	uint64_t kb = UINT64_MAX;
	FILE *file = fopen("/proc/meminfo", "re");

	while (file && fgets(line, sizeof(line), file) &&
	       sscanf(line, "MemAvailable: %" SCNu64, &kb) != 1)
		;
	if (file)
		fclose(file);
	return (int64_t)(kb / (page_size >> 10));
}

/*
 * Do not even try what there is no memory for: while the kernel gathers the pages, nobody else
 * would get any.
 */
static int check_available(uint64_t page_size, int64_t missing, int64_t existing, char *error,
			   size_t error_size)
{
	int64_t available = available_pages(page_size);

	if (missing <= available)
		return 0;
	snprintf(error, error_size,
		 "%" PRId64 " huge pages of %" PRIu64 " kB are needed, %" PRId64
		 " are free in the kernel's pool, and there is memory for %" PRId64
		 " more; ask for a smaller size, or free memory and try again",
		 missing + existing, page_size >> 10, existing, available);
	return -ENOMEM;
}

/* On which nodes @pages of those that are free now are. */
static void place_pages(const struct pool_counts *counts, int64_t pages,
			int64_t *ret_node_pages)
{
	for (int node = 0; node < counts->nr_nodes; node++) {
		int64_t take = counts->node[node].free < pages ? counts->node[node].free
							       : pages;

		ret_node_pages[node] = take;
		pages -= take;
	}
}

static int borrow_locked(struct kernel_pool_loan *loan, int64_t pages, int64_t overcommit,
			 int64_t *ret_node_pages, char *error, size_t error_size)
{
	struct pool_counts counts;
	int64_t existing, missing, got;
	int r;

	r = kernel_pool_read(loan->page_size, loan->nr_nodes, &counts);
	if (r < 0)
		return r;
	existing = counts.free - counts.resv;
	missing = pages > existing ? pages - existing : 0;
	r = check_available(loan->page_size, missing, existing, error, error_size);
	if (r < 0)
		return r;
	for (int node = 0; node < loan->nr_nodes && missing > 0; node++) {
		got = add_to_node(loan->page_size, loan->nr_nodes, node,
				  missing / (loan->nr_nodes - node));
		if (got < 0)
			continue; /* a node without memory */
		loan->node_pages[node] = got;
		missing -= got;
	}
	if (missing > 0) {
		explain_shortage(loan, existing, pages, error, error_size);
		return -ENOMEM;
	}
	r = add_overcommit(loan->page_size, overcommit);
	if (r < 0)
		return r;
	loan->overcommit = overcommit;
	r = kernel_pool_read(loan->page_size, loan->nr_nodes, &counts);
	if (r == 0)
		place_pages(&counts, pages, ret_node_pages);
	return r;
}

int kernel_pool_borrow(uint64_t page_size, int nr_nodes, int64_t pages, int64_t overcommit,
		       struct kernel_pool_loan *ret_loan, int64_t *ret_node_pages, char *error,
		       size_t error_size)
{
	struct kernel_pool_loan loan = {.page_size = page_size, .nr_nodes = nr_nodes};
	int lock, r;

	lock = lock_kernel_pool();
	if (lock < 0)
		return lock;
	r = borrow_locked(&loan, pages, overcommit, ret_node_pages, error, error_size);
	if (r < 0)
		return_locked(&loan);
	else
		*ret_loan = loan;
	close(lock);
	return r;
}

/* @pages that are to come or to go on @node; what is lent can go. */
static int64_t change_node(struct kernel_pool_loan *loan, int node, int64_t pages)
{
	int64_t got;

	if (pages < -loan->node_pages[node])
		pages = -loan->node_pages[node];
	got = pages ? add_to_node(loan->page_size, loan->nr_nodes, node, pages) : 0;
	if (pages > 0 && got <= 0)
		return 0; /* a node without memory */
	/* Pages that are in use go when they are free: they are surplus ones now. */
	got = pages < 0 ? pages : got;
	loan->node_pages[node] += got;
	return got;
}

/* Each node's share. */
static int64_t change_nodes(struct kernel_pool_loan *loan, int64_t pages)
{
	int64_t done = 0;

	for (int node = 0; node < loan->nr_nodes; node++)
		done += change_node(loan, node, (pages - done) / (loan->nr_nodes - node));
	return done;
}

int64_t kernel_pool_change(struct kernel_pool_loan *loan, int node, int64_t pages,
			   int64_t overcommit)
{
	int lock = lock_kernel_pool();
	int64_t r;

	if (lock < 0)
		return lock;
	if (overcommit < -loan->overcommit)
		overcommit = -loan->overcommit;
	r = add_overcommit(loan->page_size, overcommit);
	if (r == 0) {
		loan->overcommit += overcommit;
		r = node == POOL_ANY_NODE ? change_nodes(loan, pages)
					  : change_node(loan, node, pages);
	}
	close(lock);
	return r;
}

int kernel_pool_save(const struct kernel_pool_loan *loan, int dir_fd, const char *name)
{
	FILE *file;
	int fd;

	fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	file = fdopen(fd, "w");
	if (!file) {
		close(fd);
		return -ENOMEM;
	}
	fprintf(file, "hugefuse-kernel-pool 1 %" PRIu64 " %d %" PRId64 "\n", loan->page_size,
		loan->nr_nodes, loan->overcommit);
	for (int node = 0; node < loan->nr_nodes; node++)
		fprintf(file, "%" PRId64 "\n", loan->node_pages[node]);
	return fclose(file) == 0 ? 0 : -errno;
}

/* The number at *@text, with @end behind it; *@text goes behind that. */
static int parse_number(const char **text, char end, int64_t *ret_value)
{
	long long value;
	char *rest;

	if (!isdigit((unsigned char)**text))
		return -EINVAL;
	errno = 0;
	value = strtoll(*text, &rest, 10);
	if (errno || *rest != end)
		return -EINVAL;
	*text = rest + 1;
	*ret_value = value;
	return 0;
}

/* Just what kernel_pool_save() writes: a number that was cut off is not taken for another. */
static int parse_loan(const char *text, struct kernel_pool_loan *loan)
{
	static const char magic[] = "hugefuse-kernel-pool 1 ";
	int64_t page_size, nr_nodes;

	if (strncmp(text, magic, strlen(magic)) != 0)
		return -EINVAL;
	text += strlen(magic);
	if (parse_number(&text, ' ', &page_size) < 0 ||
	    parse_number(&text, ' ', &nr_nodes) < 0 ||
	    parse_number(&text, '\n', &loan->overcommit) < 0)
		return -EINVAL;
	if (page_size == 0 || (page_size & (page_size - 1)) || nr_nodes < 1 ||
	    nr_nodes > POOL_MAX_NODES)
		return -EINVAL;
	loan->page_size = (uint64_t)page_size;
	loan->nr_nodes = (int)nr_nodes;
	for (int node = 0; node < loan->nr_nodes; node++) {
		if (parse_number(&text, '\n', &loan->node_pages[node]) < 0)
			return -EINVAL;
	}
	return *text ? -EINVAL : 0;
}

int kernel_pool_load(struct kernel_pool_loan *ret_loan, int dir_fd, const char *name)
{
	struct kernel_pool_loan loan = {0};
	char text[4096]; /* more than the longest loan */
	ssize_t len;
	int fd, r;

	fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	memset(text, 0, sizeof(text));
	len = read(fd, text, sizeof(text) - 1);
	if (len < 0)
		r = -errno;
	else if (strlen(text) != (size_t)len)
		r = -EINVAL;
	else
		r = parse_loan(text, &loan);
	close(fd);
	if (r == 0)
		*ret_loan = loan;
	return r;
}
