/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kill -9 at any moment, over and over, of the daemon and of clients that do operations at
 * random: while they are at work, while there is no daemon, while one is being set up or takes
 * over. No client ends by itself or waits for ever, no page loses what was written; and when
 * all have ended, the mount's counters are the kernel's, and all pages can be had again.
 *
 * $KILLS says how many; what $TEST_SEED is printed makes the same choices again, but not the
 * same moments.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kills.h"
#include "restart.h"
#include "side.h"

#define DEFAULT_KILLS 150
#define CHECK_EVERY   50 /* kills */
#define PROGRESS_MS   20000

static const char *const options = "size=48M";
static struct fixture fixture;
static struct kills *kills;
static pid_t pids[NR_CLIENTS];
static unsigned int seed;
static long nr_of_daemon, nr_of_starts, nr_of_clients;

static unsigned int random_below(unsigned int end)
{
	return (unsigned int)rand_r(&seed) % end;
}

/* The moment is what is random here. */
static void wait_a_moment(unsigned int at_most_us)
{
	struct timespec delay = {.tv_nsec = (long)random_below(at_most_us) * 1000};

	nanosleep(&delay, NULL);
}

/* ---- clients ---- */

static void start_client(int number)
{
	static struct client_turn turns[NR_CLIENTS];

	turns[number] = (struct client_turn){kills, number};
	kills->clients[number].seed = (unsigned int)rand_r(&seed);
	pids[number] = start_child(kills_client_run, &turns[number], 0);
}

static void start_clients(void)
{
	atomic_store(&kills->stop, false);
	for (int i = 0; i < NR_CLIENTS; i++)
		start_client(i);
}

static void kill_client(void)
{
	int number = (int)random_below(NR_CLIENTS), status;

	assert_int_equal(kill(pids[number], SIGKILL), 0);
	assert_int_equal(waitpid(pids[number], &status, 0), pids[number]);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
		fail_msg("client %d ended by itself with %#x", number, (unsigned int)status);
	nr_of_clients++;
	start_client(number);
}

static bool all_have_gone_on(void *data)
{
	const unsigned long *before = data;

	for (int i = 0; i < NR_CLIENTS; i++) {
		if (child_has_ended(pids[i]))
			fail_msg("client %d ended by itself with %d", i,
				 reap_child(pids[i], 0));
		if (atomic_load(&kills->clients[i].nr_done) < before[i])
			return false;
	}
	return true;
}

/* Each client has done some more operations. */
static void wait_for_progress(unsigned int nr)
{
	unsigned long before[NR_CLIENTS];

	for (int i = 0; i < NR_CLIENTS; i++)
		before[i] = atomic_load(&kills->clients[i].nr_done) + nr;
	if (!wait_until(all_have_gone_on, before, PROGRESS_MS))
		fail_msg("a client waits for ever");
}

/* ---- the daemon ---- */

static void kill_daemon(void)
{
	fixture_kill(kills->fixture);
	nr_of_daemon++;
	if (random_below(2) == 0)
		wait_for_progress(random_below(20));
	while (random_below(5) == 0)
		kill_client();
	while (random_below(4) == 0) {
		fixture_start(kills->fixture, options);
		wait_a_moment(60000);
		fixture_kill(kills->fixture);
		nr_of_starts++;
	}
	fixture_restart(kills->fixture, options);
}

/* All clients end, what they have written is there, and then the pages are free again. */
static void check_all(void)
{
	atomic_store(&kills->stop, true);
	for (int i = 0; i < NR_CLIENTS; i++)
		assert_int_equal(wait_child(pids[i], PROGRESS_MS), 0);
	for (int i = 0; i < NR_CLIENTS; i++)
		kills_client_check(kills, i);
	expect(kills->fixture, NR_CLIENTS * CLIENT_PAGES);
	for (int i = 0; i < NR_CLIENTS; i++)
		assert_int_equal(unlink(fixture_path(kills->fixture, kills_client_name(i))), 0);
	expect(kills->fixture, 0);
	assert_int_equal(can_reserve(kills->fixture), POOL);
}

static void make_files(void)
{
	for (int i = 0; i < NR_CLIENTS; i++) {
		memset(kills->clients[i].pages, 0, sizeof(kills->clients[i].pages));
		close(fixture_file(kills->fixture, kills_client_name(i), O_RDWR | O_CREAT,
				   CLIENT_PAGES * PAGE_2M));
	}
}

/* ---- the test ---- */

static long nr_kills(void)
{
	return nr_of_daemon + nr_of_starts + nr_of_clients;
}

static void print_figures(void)
{
	unsigned long touch = 0, refused = 0, done = 0;

	for (int i = 0; i < NR_CLIENTS; i++) {
		const struct client *client = &kills->clients[i];
		unsigned long value = atomic_load(&client->longest_touch_us);

		touch = value > touch ? value : touch;
		value = atomic_load(&client->longest_refused_us);
		refused = value > refused ? value : refused;
		done += atomic_load(&client->nr_done);
	}
	printf("figure: sum: kills of a daemon at work: %ld\n"
	       "figure: sum: kills of a daemon that was starting or taking over: %ld\n"
	       "figure: sum: kills of a client: %ld\n"
	       "figure: sum: operations of clients beside kills: %lu\n"
	       "figure: max: longest that a client has waited for a page, beside kills: %.1f ms\n"
	       "figure: max: longest until what needs a daemon was granted again, with the "
	       "daemon's restart: %.1f ms\n",
	       nr_of_daemon, nr_of_starts, nr_of_clients, done, (double)touch / 1000,
	       (double)refused / 1000);
}

static void test_kills(void **state)
{
	const char *text = getenv("KILLS");
	long wanted = text ? strtol(text, NULL, 10) : DEFAULT_KILLS, check_at = CHECK_EVERY;

	kills->fixture->excused = true;
	fixture_mount(kills->fixture, options);
	make_files();
	start_clients();
	while (nr_kills() < wanted) {
		wait_for_progress(random_below(100));
		wait_a_moment(3000);
		if (random_below(4) == 0)
			kill_client();
		else
			kill_daemon();
		if (nr_kills() < check_at)
			continue;
		check_at += CHECK_EVERY;
		wait_for_progress(1);
		check_all();
		make_files();
		start_clients();
	}
	check_all();
	fixture_umount(kills->fixture);
	print_figures();
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_kills)};
	const char *text = getenv("TEST_SEED");

	require_root();
	require_pages(PAGE_2M, POOL);
	kills = shared_memory(sizeof(*kills));
	kills->fixture = &fixture;
	seed = text && *text ? (unsigned int)strtoul(text, NULL, 0) : (unsigned int)clock_ms();
	printf("seed %u\n", seed);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
