/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Ten thousand mappings of one process, each with a userfaultfd of its own; and pages that are
 * given to private mappings while the address space changes, when the userfaultfd answers
 * EAGAIN.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "reports.h"

#define POOL        16
#define NR_MAPPINGS 10000

static void ten_thousand(struct side *side)
{
	static char *mapped[NR_MAPPINGS];
	int fd = side_file(side, "file", POOL);
	long nr_fds = side->kernel ? 0 : fixture_nr_fds(&side->fixture);

	for (int i = 0; i < NR_MAPPINGS; i++)
		mapped[i] = side_map_pages(side, MAP_SHARED | MAP_NORESERVE, fd, i % POOL, 1);
	if (!side->kernel)
		assert_int_equal(fixture_nr_mapped(&side->fixture), NR_MAPPINGS);
	for (int i = 0; i < POOL; i++) {
		*mapped[NR_MAPPINGS - 1 - i] = (char)i;
		assert_int_equal(*mapped[NR_MAPPINGS / 2 - NR_MAPPINGS / 2 % POOL +
					 (NR_MAPPINGS - 1 - i) % POOL],
				 (char)i);
	}
	side_expect(side, POOL, 0);
	/* Every one of them is watched: a hole, and each resolves the fault. */
	for (int i = 0; i < NR_MAPPINGS; i += 97) {
		punch(fd, i % POOL, 1);
		assert_int_equal(*mapped[i], 0);
	}
	for (int i = 0; i < NR_MAPPINGS; i++)
		assert_int_equal(side_unmap(side, mapped[i], PAGE_2M), 0);
	side_expect(side, POOL, 0);
	if (!side->kernel) {
		assert_int_equal(fixture_nr_mapped(&side->fixture), 0);
		assert_true(fixture_nr_fds(&side->fixture) < nr_fds + 8);
	}
	assert_int_equal(ftruncate(fd, 0), 0);
	side_expect(side, 0, 0);
}

#define NR_FAULTERS 2
#define EACH        4

struct changing {
	char *own;
	_Atomic int next;
	_Atomic bool stop;
	_Atomic long nr_faults;
};

static void *fault(void *data)
{
	struct changing *changing = data;
	int first = EACH * changing->next++;

	while (!changing->stop) {
		for (int i = first; i < first + EACH; i++) {
			char *at = page(changing->own, i);

			if (*at != 0)
				fail_msg("page %d was not given back", i);
			*at = 1;
			changing->nr_faults++;
		}
		if (madvise(page(changing->own, first), EACH * PAGE_2M, MADV_DONTNEED) < 0)
			fail_msg("madvise");
	}
	return NULL;
}

/*
 * Interleaving: two threads fault on private pages, which are copied in, and give them back;
 * a third maps and unmaps. While the kernel tells of a change UFFDIO_COPY fails with EAGAIN,
 * and has to be tried again: a thread that was forgotten would never come back.
 */
static void copied_while_it_changes(struct side *side)
{
	struct changing changing = {0};
	pthread_t thread[NR_FAULTERS];
	int fd = side_file(side, "file", POOL);
	char *p;

	changing.own = side_map_pages(side, MAP_PRIVATE, fd, 0, NR_FAULTERS * EACH);
	for (int i = 0; i < NR_FAULTERS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, fault, &changing), 0);
	for (int i = 0; i < 500 * test_scale(); i++) {
		p = side_map_pages(side, MAP_PRIVATE, fd, 8, 2);
		*p = 1;
		assert_int_equal(side_unmap(side, p, 2 * PAGE_2M), 0);
	}
	changing.stop = true;
	for (int i = 0; i < NR_FAULTERS; i++)
		pthread_join(thread[i], NULL);
	assert_true(changing.nr_faults > 100);
	side_expect(side, 0, NR_FAULTERS * EACH);
	assert_int_equal(side_unmap(side, changing.own, NR_FAULTERS * EACH * PAGE_2M), 0);
	side_expect(side, 0, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(ten_thousand, POOL),
		ON_BOTH(copied_while_it_changes, POOL),
	};

	require_root();
	require_pages(PAGE_2M, POOL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
