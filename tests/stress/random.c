/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The oracle: one random script on the model, on the kernel's hugetlbfs and on hugefuse. After
 * every operation, when nothing is in flight, these have to agree:
 *
 *	results			model, hugetlbfs, hugefuse
 *	the kernel's counters	model, under hugetlbfs, under hugefuse (less what was before)
 *	hugefuse's counters	model
 *	statfs(2)'s use		model, hugetlbfs, private hugetlbfs, hugefuse
 *
 * and now and then the texts in .hugefuse, with the sum of what its files and maps have. What
 *the model knows of the kernel's ways, and what is left out, is in model.h.
 *
 * With ahead= pages are there sooner than the model thinks, so that what follows may differ:
 * then hugefuse is compared with the kernel only.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "reader.h"
#include "script.h"
#include "target.h"
#include "worker.h"

#define DEFAULT_OPERATIONS 100000
#define TEXTS_EVERY        100 /* operations */
#define SETTLE_MS          3000
#define HISTORY            150 /* operations that a failure prints */

struct config {
	const char *name;
	long max, min;       /* pages */
	const char *options; /* of hugefuse */
	int share;           /* of all operations, per cent */
	bool ahead;
};

static const struct config configs[] = {
	{"size", 32, 32, "", 40, false},
	{"min_size", 32, 12, "", 30, false},
	{"one lock", 32, 20, "region_lock=global,fault_mutexes=1", 20, false},
	{"ahead", 32, 32, "ahead=on", 10, true},
};

/* With a reader of .hugefuse: operations in turn with and without it. */
#define SLICE       200
#define LEAST_PAIRS 20 /* for a middle one that means something */
#define LEAST_RATIO 0.95
#define MANY_CPUS   6 /* of which a reader, and who answers it, take none away */

static uint64_t seed;
static bool with_reader;
static size_t nr_operations = DEFAULT_OPERATIONS;

struct run {
	const struct config *config;
	struct script script;
	struct target target;
	struct worker_set workers;
	struct reader reader, elsewhere;
	struct fixture idle; /* for the other reader */
	size_t index;        /* of the step that is executed */
	struct step *trace;  /* what hugetlbfs did, for comparison with hugefuse */
};

static struct run run;
static size_t nr_compared; /* operations, in all configurations */

static void print_history(size_t index)
{
	print_error("%s, on %s:\n", run.config->name,
		    run.target.is_kernel ? "hugetlbfs" : "hugefuse");
	for (size_t i = index < HISTORY ? 0 : index - HISTORY; i <= index; i++)
		script_print(stderr, &run.script, i);
	print_error("again with: -s %" PRIu64 " -n %zu\n", seed, nr_operations);
}

static void explain(void)
{
	print_history(run.index);
}

static bool counts_equal(const struct counts *a, const struct counts *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

static void fail_counts(size_t index, const char *what, const struct counts *is,
			const struct counts *expected)
{
	print_history(index);
	fail_msg("%s: nr %ld free %ld resv %ld surplus %ld used %ld, expected %ld %ld %ld %ld "
		 "%ld",
		 what, is->nr, is->free, is->resv, is->surplus, is->used, expected->nr,
		 expected->free, expected->resv, expected->surplus, expected->used);
}

static void check_result(size_t index, const struct result *is)
{
	const struct result *expected = &run.script.steps[index].result;

	if (is->error == expected->error && is->value == expected->value)
		return;
	print_history(index);
	fail_msg("result %d value %" PRIu64 ", expected %d %" PRIu64, is->error, is->value,
		 expected->error, expected->value);
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/*
 * Whether what @read says is settled: equal to @expected, which is right at once or when an end
 * of a process or the release of a file has come through. Else the last value is in @ret_is.
 */
static bool settles(struct counts (*read)(const struct target *target),
		    const struct counts *expected, struct counts *ret_is)
{
	const struct timespec tick = {.tv_nsec = 200000};
	uint64_t until = 0;

	for (;;) {
		*ret_is = read(&run.target);
		if (counts_equal(ret_is, expected))
			return true;
		if (until == 0)
			until = now_ms() + SETTLE_MS;
		else if (now_ms() > until)
			return false;
		nanosleep(&tick, NULL);
	}
}

/* hugefuse against the kernel, both of which go on changing while pages are populated ahead. */
static void check_ahead(size_t index)
{
	const struct timespec tick = {.tv_nsec = 200000};
	uint64_t until = now_ms() + SETTLE_MS;
	struct counts hugefuse, kernel;

	for (;;) {
		kernel = target_kernel_counts(&run.target);
		hugefuse = target_hugefuse_counts(&run.target);
		if (counts_equal(&hugefuse, &kernel))
			return;
		if (now_ms() > until)
			fail_counts(index, "hugefuse against the kernel", &hugefuse, &kernel);
		nanosleep(&tick, NULL);
	}
}

static void check_counts(size_t index)
{
	const struct counts *expected = &run.script.steps[index].counts;
	bool last = index + 1 == run.script.nr;
	struct counts is;

	if (!settles(target_kernel_counts, expected, &is))
		fail_counts(index, "the kernel", &is, expected);
	if (run.target.is_kernel)
		return;
	if (!settles(target_hugefuse_counts, expected, &is))
		fail_counts(index, "hugefuse", &is, expected);
	if ((index % TEXTS_EVERY == 0 || last) && !settles(target_text_counts, expected, &is))
		fail_counts(index, ".hugefuse", &is, expected);
}

/* The trace on hugetlbfs against that on hugefuse. */
static void check_trace(size_t index, const struct result *result)
{
	struct step *step = &run.trace[index];
	struct counts counts = target_kernel_counts(&run.target);

	if (run.target.is_kernel) {
		step->result = *result;
		step->counts = counts;
		return;
	}
	if (!counts_equal(&counts, &step->counts))
		fail_counts(index, "the kernel under hugefuse against hugetlbfs", &counts,
			    &step->counts);
	if (result->error != step->result.error || result->value != step->result.value) {
		print_history(index);
		fail_msg("hugefuse %d %" PRIu64 ", hugetlbfs %d %" PRIu64, result->error,
			 result->value, step->result.error, step->result.value);
	}
}

static void execute_step(size_t index)
{
	const struct step *step = &run.script.steps[index];
	bool last = index + 1 == run.script.nr;
	struct result result;

	run.index = index;
	result = workers_execute(&run.workers, &step->op, &step->result);
	if (run.config->ahead && !last) {
		check_ahead(index);
		return;
	}
	if (!run.config->ahead)
		check_result(index, &result);
	check_counts(index);
	if (!run.config->ahead)
		check_trace(index, &result);
}

/* ---- with a reader ---- */

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Who reads meanwhile. */
enum slice {
	SLICE_ALONE,
	SLICE_ELSEWHERE, /* all of .hugefuse of another mount, which nobody uses */
	SLICE_HERE,
	NR_SLICES,
};

static uint64_t execute_slice(struct reader *reader, size_t first)
{
	uint64_t start;

	if (reader)
		reader_run(reader);
	start = now_ns();
	for (size_t i = 0; i < SLICE; i++)
		execute_step(first + i);
	start = now_ns() - start;
	if (reader)
		reader_pause(reader);
	return start;
}

static double middle(double *ratios, size_t nr)
{
	qsort(ratios, nr, sizeof(*ratios), compare_doubles);
	return ratios[nr / 2];
}

/*
 * As many operations alone as with readers, in turns. A reader without pause, and who answers
 * it, take the processors of a small machine away, which is not to be told from waiting there:
 * how much is lost is judged where there are enough. The reader of another mount tells of the
 * rest.
 */
static void execute_pairs(void)
{
	struct reader *readers[NR_SLICES] = {NULL, &run.elsewhere, &run.reader};
	size_t nr_pairs = run.script.nr / (NR_SLICES * SLICE), nr_steps = 0;
	double *alone = calloc(nr_pairs + 1, sizeof(*alone)), against_alone;
	double *elsewhere = calloc(nr_pairs + 1, sizeof(*elsewhere)), against_elsewhere;
	uint64_t took[NR_SLICES], reads;

	assert_true(alone && elsewhere);
	reader_start(&run.elsewhere, run.idle.dir);
	reader_start(&run.reader, run.target.fixture.dir);
	for (size_t pair = 0; pair < nr_pairs; pair++) {
		for (size_t i = 0; i < NR_SLICES; i++, nr_steps += SLICE) {
			size_t slice = (i + pair) % NR_SLICES;

			took[slice] = execute_slice(readers[slice], nr_steps);
		}
		alone[pair] = (double)took[SLICE_ALONE] / (double)took[SLICE_HERE];
		elsewhere[pair] = (double)took[SLICE_ELSEWHERE] / (double)took[SLICE_HERE];
	}
	while (nr_steps < run.script.nr)
		execute_step(nr_steps++);
	reads = reader_stop(&run.reader);
	reader_stop(&run.elsewhere);
	against_alone = middle(alone, nr_pairs);
	against_elsewhere = middle(elsewhere, nr_pairs);
	printf("%s: %zu times %d operations while %" PRIu64 " texts were read: %.3f of the "
	       "throughput alone, %.3f of that beside a reader of another mount\n",
	       run.config->name, nr_pairs, SLICE, reads, against_alone, against_elsewhere);
	free(alone);
	free(elsewhere);
	if (nr_pairs < LEAST_PAIRS || sysconf(_SC_NPROCESSORS_ONLN) < MANY_CPUS)
		return;
	if (against_alone < LEAST_RATIO)
		fail_msg("reading slows it down");
}

static void execute_script(bool is_kernel)
{
	uint64_t start;

	if (with_reader && !is_kernel)
		fixture_mount(&run.idle, "size=8M,backing=hugetlb");
	target_mount(&run.target, is_kernel, run.config->max, run.config->min,
		     run.config->options);
	workers_start(&run.workers, &run.target, explain);
	start = now_ms();
	if (with_reader && !is_kernel)
		execute_pairs();
	else
		for (size_t i = 0; i < run.script.nr; i++)
			execute_step(i);
	printf("%s: %zu operations on %s in %.1f s, %.0f a second\n", run.config->name,
	       run.script.nr, is_kernel ? "hugetlbfs" : "hugefuse",
	       (double)(now_ms() - start) / 1000,
	       (double)run.script.nr * 1000 / (double)(now_ms() - start + 1));
	workers_stop(&run.workers);
	target_umount(&run.target);
	if (with_reader && !is_kernel)
		fixture_umount(&run.idle);
	if (!is_kernel)
		nr_compared += run.script.nr;
}

static void test_config(void **state)
{
	const struct config *config = *state;

	run.config = config;
	script_make(&run.script, seed, nr_operations * (size_t)config->share / 100, config->max,
		    config->min);
	run.trace = calloc(run.script.nr, sizeof(*run.trace));
	assert_non_null(run.trace);
	if (!config->ahead)
		execute_script(true);
	execute_script(false);
}

/* After a failure, too. */
static int clean_up(void **state)
{
	reader_stop(&run.reader);
	reader_stop(&run.elsewhere);
	workers_stop(&run.workers);
	target_umount(&run.target);
	if (run.idle.daemon)
		fixture_umount(&run.idle);
	script_free(&run.script);
	free(run.trace);
	memset(&run, 0, sizeof(run));
	return 0;
}

static void print_script(const struct config *config)
{
	struct script script;

	script_make(&script, seed, nr_operations * (size_t)config->share / 100, config->max,
		    config->min);
	for (size_t i = 0; i < script.nr; i++)
		script_print(stdout, &script, i);
	script_free(&script);
}

static void usage(const char *program)
{
	fprintf(stderr,
		"usage: %s [-n OPERATIONS] [-s SEED] [-c CONFIGURATION [-p]] [-r]\n"
		"-c: 0 to %zu; -p: print its script, and do not execute it\n"
		"-r: beside a process that reads all of .hugefuse\n",
		program, sizeof(configs) / sizeof(configs[0]) - 1);
	exit(2);
}

static void parse(int argc, char **argv, size_t *ret_only, bool *ret_print)
{
	const char *from_environment = getenv("TEST_SEED");
	int option;

	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		seed = (uint64_t)time(NULL);
	seed %= 1000000000;
	if (from_environment && *from_environment)
		seed = strtoull(from_environment, NULL, 0);
	while ((option = getopt(argc, argv, "n:s:c:pr")) != -1) {
		if (option == 'n')
			nr_operations = strtoull(optarg, NULL, 0);
		else if (option == 's')
			seed = strtoull(optarg, NULL, 0);
		else if (option == 'c')
			*ret_only = strtoull(optarg, NULL, 0);
		else if (option == 'r')
			with_reader = true;
		else if (option == 'p')
			*ret_print = true;
		else
			usage(argv[0]);
	}
}

int main(int argc, char **argv)
{
	struct CMUnitTest tests[sizeof(configs) / sizeof(configs[0])];
	size_t nr_configs = sizeof(configs) / sizeof(configs[0]);
	size_t nr = 0, only = SIZE_MAX;
	bool print = false;
	int failed;

	parse(argc, argv, &only, &print);
	if (print && only < nr_configs) {
		print_script(&configs[only]);
		return 0;
	}
	printf("seed %" PRIu64 ", %zu operations\n", seed, nr_operations);
	require_root();
	require_pages(PAGE_2M, 40);
	for (size_t i = 0; i < nr_configs; i++) {
		if (only < nr_configs && only != i)
			continue;
		tests[nr++] = (struct CMUnitTest){configs[i].name, test_config, NULL, clean_up,
						  (void *)&configs[i]};
	}
	failed = _cmocka_run_group_tests("random", tests, nr, NULL, NULL);
	printf("figure: sum: operations at random compared with the kernel's: %zu\n",
	       nr_compared);
	return failed;
}
