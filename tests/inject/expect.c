/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "expect.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>

#include "schedule.h"

#define TIMEOUT_MS 10000

static struct mount_counts read_counts(const struct fixture *fixture)
{
	return (struct mount_counts){
		.nr = fixture_counter(fixture, "nr_hugepages"),
		.free = fixture_counter(fixture, "free_hugepages"),
		.resv = fixture_counter(fixture, "resv_hugepages"),
		.surplus = fixture_counter(fixture, "surplus_hugepages"),
		.nr_fds = fixture_nr_fds(fixture),
	};
}

struct look {
	const struct fixture *fixture;
	struct expectation *before;
};

static bool is_as_before(void *data)
{
	const struct look *look = data;
	struct expectation *before = look->before;
	struct kernel_counts kernel = kernel_counts_read(PAGE_2M);
	struct mount_counts now;

	if (fixture_nr_mapped(look->fixture) > 0)
		return false;
	now = read_counts(look->fixture);
	/* a descriptor may have been about to be closed */
	if (now.nr_fds < before->counts.nr_fds)
		before->counts.nr_fds = now.nr_fds;
	return memcmp(&now, &before->counts, sizeof(now)) == 0 &&
	       memcmp(&kernel, &before->kernel, sizeof(kernel)) == 0;
}

void expect_as_before(const struct fixture *fixture, struct expectation *before,
		      const char *name)
{
	struct look look = {fixture, before};
	struct kernel_counts kernel;
	struct mount_counts now;

	if (wait_until(is_as_before, &look, 2000))
		return;
	now = read_counts(fixture);
	kernel = kernel_counts_read(PAGE_2M);
	fail_msg("%s, %s: pages %ld free %ld resv %ld surplus %ld, descriptors %ld, kernel's "
		 "free %ld resv %ld; expected %ld %ld %ld %ld, %ld, %ld %ld; mappings %ld",
		 name, schedule_what(), now.nr, now.free, now.resv, now.surplus, now.nr_fds,
		 kernel.free, kernel.resv, before->counts.nr, before->counts.free,
		 before->counts.resv, before->counts.surplus, before->counts.nr_fds,
		 before->kernel.free, before->kernel.resv, fixture_nr_mapped(fixture));
}

struct expectation expectation_now(const struct fixture *fixture)
{
	return (struct expectation){read_counts(fixture), kernel_counts_read(PAGE_2M)};
}

int expect_end(pid_t child, const char *name)
{
	int r = reap_child(child, TIMEOUT_MS);

	if (r == CHILD_TIMED_OUT || r >= 1000 || r == EFAULT)
		fail_msg("%s, %s: %s", name, schedule_what(),
			 r == CHILD_TIMED_OUT ? "it never ends"
			 : r == EFAULT        ? "SIGBUS where pages are reserved"
					      : "killed by a signal");
	return r;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	if (ftw->level > 0 && remove(path) < 0)
		fail_msg("%s cannot be removed: %s", path, strerror(errno));
	return 0;
}

void remove_files(const struct fixture *fixture)
{
	nftw(fixture->dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}
