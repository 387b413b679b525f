/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel's hugetlb pool through sysfs. Growing writes each node's nr_hugepages and reads
 * back what the kernel got: it takes less where memory is short or fragmented, without an
 * error.
 */
#include "fs/kernel_pool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/node_share.h"
#include "fs/numa_policy.h"

#define RETURN_TRIES     3
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

static int log_step(const struct kernel_pool_loan *loan, int node, int64_t before, int64_t add)
{
	struct kernel_pool_step step = {.node = node, .before = before, .add = add};

	int r = loan->log ? loan->log->write(loan->log->data, &step) : 0;

	return add < 0 ? 0 : r; /* what is given back is given back in any case */
}

/* How many pages the kernel keeps on a node: surplus ones go by themselves. */
static int read_persistent(const struct kernel_pool_loan *loan, int node, int64_t *ret_pages)
{
	int at = loan->nr_nodes == 1 ? -1 : node;
	int64_t nr = 0, surplus = 0;
	int r;

	r = read_counter(loan->page_size, at, "nr_hugepages", &nr);
	if (r == 0)
		r = read_counter(loan->page_size, at, "surplus_hugepages", &surplus);
	if (r == 0)
		*ret_pages = nr - surplus;
	return r;
}

/* Add @pages (may be negative) to a node's nr_hugepages; returns how many that really were. */
static int64_t add_to_node(const struct kernel_pool_loan *loan, int node, int64_t pages)
{
	int at = loan->nr_nodes == 1 ? -1 : node;
	uint64_t page_size = loan->page_size;
	int64_t before = 0, after = 0, persistent, target;
	int r;

	r = read_counter(page_size, at, "nr_hugepages", &before);
	if (r == 0)
		r = read_persistent(loan, node, &persistent);
	if (r == 0)
		r = log_step(loan, node, persistent, pages);
	if (r < 0)
		return r;
	target = before + pages;
	r = write_counter(page_size, at, "nr_hugepages", target > 0 ? target : 0);
	if (r < 0)
		return r;
	r = read_counter(page_size, at, "nr_hugepages", &after);
	for (int tries = 1; r < 0 && tries < RETURN_TRIES; tries++)
		r = read_counter(page_size, at, "nr_hugepages", &after);
	if (r == 0)
		return after - before;
	/* What has come cannot be told, so that nobody would give it back. */
	write_counter(page_size, at, "nr_hugepages", before);
	return r;
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

static int add_overcommit(const struct kernel_pool_loan *loan, int64_t pages)
{
	int64_t value = 0;
	int r;

	if (pages == 0)
		return 0;
	r = read_counter(loan->page_size, -1, "nr_overcommit_hugepages", &value);
	if (r == 0)
		r = log_step(loan, KERNEL_POOL_OVERCOMMIT, value, pages);
	if (r < 0)
		return r;
	value += pages;
	return write_counter(loan->page_size, -1, "nr_overcommit_hugepages",
			     value > 0 ? value : 0);
}

/* What a step has come to: between nothing and all of it. */
static int64_t step_result(const struct kernel_pool_step *step, int64_t now)
{
	int64_t got = now - step->before;

	if (step->add < 0)
		return got < step->add ? step->add : got > 0 ? 0 : got;
	return got > step->add ? step->add : got < 0 ? 0 : got;
}

/* What was there after @step: what the next one of its node has found, or what is there now. */
static int read_after(const struct kernel_pool_loan *loan, const struct kernel_pool_step *step,
		      const struct kernel_pool_step *end, int64_t *ret_pages)
{
	if (step->node < KERNEL_POOL_OVERCOMMIT || step->node >= loan->nr_nodes)
		return -EINVAL;
	for (const struct kernel_pool_step *next = step + 1; next < end; next++) {
		if (next->node == step->node) {
			*ret_pages = next->before;
			return 0;
		}
	}
	if (step->node == KERNEL_POOL_OVERCOMMIT)
		return read_counter(loan->page_size, -1, "nr_overcommit_hugepages", ret_pages);
	return read_persistent(loan, step->node, ret_pages);
}

int kernel_pool_settle(struct kernel_pool_loan *loan, const struct kernel_pool_step *steps,
		       int nr)
{
	int64_t now = 0;
	int r = 0;

	for (int i = 0; i < nr && r == 0; i++) {
		r = read_after(loan, &steps[i], &steps[nr], &now);
		if (r < 0)
			break;
		if (steps[i].node == KERNEL_POOL_OVERCOMMIT)
			loan->overcommit += step_result(&steps[i], now);
		else
			loan->node_pages[steps[i].node] += step_result(&steps[i], now);
	}
	return r;
}

/* Nothing has changed where it fails. */
static int give_back(const struct kernel_pool_loan *loan, int node)
{
	int64_t pages = loan->node_pages[node], before = 0, persistent = 0;
	int at = loan->nr_nodes == 1 ? -1 : node, r;

	if (pages == 0)
		return 0;
	r = read_counter(loan->page_size, at, "nr_hugepages", &before);
	if (r == 0)
		r = read_persistent(loan, node, &persistent);
	if (r == 0)
		r = log_step(loan, node, persistent, -pages);
	if (r < 0)
		return r;
	return write_counter(loan->page_size, at, "nr_hugepages",
			     before > pages ? before - pages : 0);
}

/* There is nobody who would do it later: what fails, for want of memory or a descriptor, is
 * tried again. */
static int return_locked(const struct kernel_pool_loan *loan)
{
	int first = 0, r;

	for (int node = 0; node < loan->nr_nodes; node++) {
		r = give_back(loan, node);
		for (int tries = 1; r < 0 && tries < RETURN_TRIES; tries++)
			r = give_back(loan, node);
		if (r < 0 && first == 0)
			first = r;
	}
	r = add_overcommit(loan, -loan->overcommit);
	for (int tries = 1; r < 0 && tries < RETURN_TRIES; tries++)
		r = add_overcommit(loan, -loan->overcommit);
	return first ? first : r;
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

/* @pages that are to come or to go on @node; what is lent can go. */
static int64_t change_node(struct kernel_pool_loan *loan, int node, int64_t pages)
{
	int64_t got;

	if (pages < -loan->node_pages[node])
		pages = -loan->node_pages[node];
	got = pages ? add_to_node(loan, node, pages) : 0;
	if (pages > 0 && got <= 0)
		return 0; /* a node without memory */
	/* Pages that are in use go when they are free: they are surplus ones now. */
	got = pages < 0 ? pages : got;
	loan->node_pages[node] += got;
	return got;
}

/* Each node's share, and of those that others have not all of what they have. */
static int64_t change_nodes(struct kernel_pool_loan *loan, int64_t pages)
{
	uint64_t open = numa_policy_memory_nodes();
	int64_t shares[POOL_MAX_NODES], left = pages, got;
	int sign = pages < 0 ? -1 : 1;

	while (left != 0 && open) {
		node_share(sign * left, loan->nr_nodes, open, shares);
		for (int node = 0; node < loan->nr_nodes; node++) {
			got = change_node(loan, node, sign * shares[node]);
			if (got != sign * shares[node] || shares[node] == 0)
				open &= ~NODE_BIT(node);
			left -= got;
		}
	}
	return pages - left;
}

/* Pages of other nodes than @nodes are of no use to us. Returns how many are free. */
static int64_t leave_out(struct pool_counts *counts, uint64_t nodes)
{
	int64_t free = 0;

	for (int node = 0; node < counts->nr_nodes; node++) {
		if (!(nodes & NODE_BIT(node)))
			counts->node[node].free = 0;
		free += counts->node[node].free;
	}
	return free;
}

/*
 * What each node is to get: its share, less what is free there already. Pages that are reserved
 * may be anywhere: where each node has a number of its own, they are none of its.
 */
static int64_t missing_on_nodes(const struct pool_counts *counts, const int64_t *shares,
				bool exact, int64_t most, int64_t *ret_missing)
{
	int64_t total = 0, reserved = exact ? counts->resv : 0, missing;

	for (int node = 0; node < counts->nr_nodes; node++) {
		missing = shares[node] - counts->node[node].free;
		if (reserved > 0)
			missing += reserved < counts->node[node].free ? reserved
								      : counts->node[node].free;
		if (missing < 0)
			missing = 0;
		if (!exact && missing > most - total)
			missing = most - total;
		ret_missing[node] = missing;
		total += missing;
	}
	return total;
}

static void explain_node(const struct kernel_pool_loan *loan, int node, int64_t wanted,
			 int64_t got, char *error, size_t error_size)
{
	snprintf(error, error_size,
		 "node %d: %" PRId64 " huge pages of %" PRIu64 " kB are needed there, %" PRId64
		 " could be had; ask for less on that node, or free memory and try again",
		 node, wanted, loan->page_size >> 10, got);
}

/* A page that is to be on one node is of no use on another. */
static int borrow_exactly(struct kernel_pool_loan *loan, const int64_t *shares,
			  const int64_t *missing, char *error, size_t error_size)
{
	int64_t got;

	for (int node = 0; node < loan->nr_nodes; node++) {
		got = change_node(loan, node, missing[node]);
		if (got == missing[node])
			continue;
		explain_node(loan, node, shares[node], shares[node] - missing[node] + got,
			     error, error_size);
		return -ENOMEM;
	}
	return 0;
}

static int borrow_missing(struct kernel_pool_loan *loan, const int64_t *missing, int64_t pages,
			  int64_t existing, char *error, size_t error_size)
{
	int64_t left = pages - existing;

	for (int node = 0; node < loan->nr_nodes; node++)
		left -= change_node(loan, node, missing[node]);
	if (left > 0)
		left -= change_nodes(loan, left);
	if (left <= 0)
		return 0;
	explain_shortage(loan, existing, pages, error, error_size);
	return -ENOMEM;
}

static int borrow_locked(struct kernel_pool_loan *loan, const struct kernel_pool_wish *wish,
			 int64_t *ret_node_pages, char *error, size_t error_size)
{
	int64_t shares[POOL_MAX_NODES] = {0}, missing[POOL_MAX_NODES] = {0};
	int64_t free[POOL_MAX_NODES];
	int64_t existing, nr_missing;
	struct pool_counts counts = {0};
	int r;

	r = kernel_pool_read(loan->page_size, loan->nr_nodes, &counts);
	if (r < 0)
		return r;
	existing = leave_out(&counts, numa_policy_memory_nodes()) - counts.resv;
	existing = existing < 0 ? 0 : existing;
	nr_missing = wish->pages > existing ? wish->pages - existing : 0;
	if (wish->node_pages)
		memcpy(shares, wish->node_pages, sizeof(shares[0]) * (size_t)loan->nr_nodes);
	else
		node_share(wish->pages, loan->nr_nodes, numa_policy_memory_nodes(), shares);
	nr_missing = missing_on_nodes(&counts, shares, wish->node_pages != NULL, nr_missing,
				      missing);
	r = check_available(loan->page_size, nr_missing, existing, error, error_size);
	if (r == 0 && wish->node_pages)
		r = borrow_exactly(loan, shares, missing, error, error_size);
	else if (r == 0)
		r = borrow_missing(loan, missing, wish->pages, existing, error, error_size);
	if (r == 0)
		r = add_overcommit(loan, wish->overcommit);
	if (r < 0)
		return r;
	loan->overcommit = wish->overcommit;
	r = kernel_pool_read(loan->page_size, loan->nr_nodes, &counts);
	leave_out(&counts, numa_policy_memory_nodes());
	for (int node = 0; node < loan->nr_nodes; node++)
		free[node] = counts.node[node].free;
	if (r == 0)
		node_share_take(wish->pages, loan->nr_nodes, shares, free, ret_node_pages);
	return r;
}

int kernel_pool_borrow(uint64_t page_size, int nr_nodes, const struct kernel_pool_wish *wish,
		       struct kernel_pool_loan *ret_loan, int64_t *ret_node_pages, char *error,
		       size_t error_size)
{
	struct kernel_pool_loan loan = {
		.page_size = page_size, .nr_nodes = nr_nodes, .log = ret_loan->log};
	int lock, r;

	lock = lock_kernel_pool();
	if (lock < 0)
		return lock;
	r = borrow_locked(&loan, wish, ret_node_pages, error, error_size);
	if (r < 0)
		return_locked(&loan);
	else
		*ret_loan = loan;
	close(lock);
	return r;
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
	r = add_overcommit(loan, overcommit);
	if (r == 0) {
		loan->overcommit += overcommit;
		r = node == POOL_ANY_NODE ? change_nodes(loan, pages)
					  : change_node(loan, node, pages);
	}
	close(lock);
	return r;
}
