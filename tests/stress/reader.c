/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The reading process. What it finds it prints with the whole text, and exits with 1. */
#include "reader.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"

#define MAX_FILES  64
#define MAX_FIELDS 32
#define MAX_VALUES 512
#define PAGE_KB    2048

struct text {
	const char *name; /* from .hugefuse on */
	char *all;        /* for messages */
	char *rest;       /* cut into lines */
};

static char *buffer, *copy;
static size_t buffer_size = 1 << 20;

static void __attribute__((noreturn, format(printf, 2, 3)))
found(const struct text *text, const char *format, ...)
{
	va_list args;

	fprintf(stderr, ".hugefuse/%s: ", text->name);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, ":\n%s\n", text->all);
	_exit(1);
}

/* A number that is not negative. */
static uint64_t number(const struct text *text, const char *word, int base)
{
	uint64_t value;
	char *end;

	errno = 0;
	value = strtoull(word, &end, base);
	if (errno || end == word || *end || *word == '-' || *word == '+')
		found(text, "'%s' is no number", word);
	if (base == 10 && value > INT64_MAX)
		found(text, "'%s' cannot be", word);
	return value;
}

static char *next_line(struct text *text)
{
	char *line = strsep(&text->rest, "\n");

	return line && (*line || text->rest) ? line : NULL;
}

static int split(char *line, char *fields[MAX_FIELDS])
{
	int nr = 0;
	char *word;

	while (nr < MAX_FIELDS && (word = strsep(&line, " ")))
		fields[nr++] = word;
	return nr;
}

/* A table: the columns of the heading, and one line after the other. */
struct table {
	struct text *text;
	char *columns[MAX_FIELDS], *fields[MAX_FIELDS];
	int nr;
};

static void begin_table(struct table *table, struct text *text)
{
	char *line = next_line(text);

	table->text = text;
	if (!line)
		found(text, "no heading");
	table->nr = split(line, table->columns);
}

static bool next_row(struct table *table)
{
	char *line = next_line(table->text);
	int nr;

	if (!line)
		return false;
	nr = split(line, table->fields);
	if (nr != table->nr)
		found(table->text, "%d fields instead of %d", nr, table->nr);
	for (int i = 0; i < nr; i++) {
		if (!*table->fields[i])
			found(table->text, "an empty %s", table->columns[i]);
	}
	return true;
}

static const char *field(const struct table *table, const char *column)
{
	for (int i = 0; i < table->nr; i++) {
		if (strcmp(table->columns[i], column) == 0)
			return table->fields[i];
	}
	found(table->text, "no column %s", column);
}

static uint64_t value(const struct table *table, const char *column)
{
	return number(table->text, field(table, column), 10);
}

static uint64_t hex(const struct table *table, const char *column)
{
	return number(table->text, field(table, column), 16);
}

/* Whole pages. */
static uint64_t pages(const struct table *table, const char *column)
{
	uint64_t kb = value(table, column);

	if (kb % PAGE_KB != 0)
		found(table->text, "%s: %" PRIu64 " kB are no pages", column, kb);
	return kb / PAGE_KB;
}

/* ---- the files ---- */

static void check_number(struct text *text)
{
	char *line = next_line(text);

	if (!line || next_line(text))
		found(text, "not one line");
	if (number(text, line, 10) > 1000000)
		found(text, "too many");
}

static void check_pool(struct text *text)
{
	uint64_t all[3] = {0}, sum[3] = {0}, here[3], resv = 0;
	struct table table;

	begin_table(&table, text);
	while (next_row(&table)) {
		bool is_all = strcmp(field(&table, "node"), "all") == 0;

		here[0] = pages(&table, "total_kb");
		here[1] = pages(&table, "free_kb");
		here[2] = pages(&table, "surplus_kb");
		if (here[1] > here[0] || here[2] > here[0])
			found(text, "more free or surplus than there are");
		for (int i = 0; i < 3; i++)
			*(is_all ? &all[i] : &sum[i]) += here[i];
		if (is_all)
			resv = pages(&table, "resv_kb");
	}
	if (memcmp(all, sum, sizeof(all)) != 0)
		found(text, "the nodes do not add up");
	if (resv > all[1])
		found(text, "more reserved than free");
}

struct named_value {
	char name[48];
	uint64_t value;
};

static struct named_value values[MAX_VALUES], last_values[MAX_VALUES];
static int nr_values, nr_last_values;

static uint64_t named(const struct text *text, const char *prefix, const char *name)
{
	char full[80];

	snprintf(full, sizeof(full), "%s%s", prefix, name);
	for (int i = 0; i < nr_values; i++) {
		if (strcmp(values[i].name, full) == 0)
			return values[i].value;
	}
	found(text, "no %s", full);
}

static bool begins(const char *name, const char *with)
{
	return strncmp(name, with, strlen(with)) == 0;
}

static void read_values(struct text *text)
{
	char *line, *fields[MAX_FIELDS];

	nr_values = 0;
	while ((line = next_line(text)) && nr_values < MAX_VALUES) {
		if (split(line, fields) != 2)
			found(text, "not a name and a value");
		snprintf(values[nr_values].name, sizeof(values->name), "%s", fields[0]);
		values[nr_values++].value = number(text, fields[1], 10);
	}
}

/* Of the whole, of a node, or of faults without a page. */
static void check_faults(const struct text *text, const char *prefix)
{
	static const char *const rising[] = {"latency_ns_p50", "latency_ns_p90",
					     "latency_ns_p99", "latency_ns_p99.9",
					     "latency_ns_max"};
	uint64_t kinds = 0, outcomes = 0, last = 0, all = named(text, prefix, "faults");
	size_t length = strlen(prefix);

	for (int i = 0; i < nr_values; i++) {
		const char *name = values[i].name + length;

		if (strncmp(values[i].name, prefix, length) != 0)
			continue;
		if (begins(name, "faults_"))
			kinds += values[i].value;
		else if (begins(name, "outcome_"))
			outcomes += values[i].value;
		else if (begins(name, "latency_ns_le_")) {
			if (values[i].value < last || values[i].value > all)
				found(text, "%s", values[i].name);
			last = values[i].value;
		}
	}
	if (kinds != all || outcomes != all)
		found(text, "%s%" PRIu64 " faults, %" PRIu64 " kinds, %" PRIu64 " outcomes",
		      prefix, all, kinds, outcomes);
	last = 0;
	for (size_t i = 0; i < sizeof(rising) / sizeof(rising[0]); i++) {
		if (named(text, prefix, rising[i]) < last)
			found(text, "%s%s", prefix, rising[i]);
		last = named(text, prefix, rising[i]);
	}
}

/* Every number of the whole that a node has, too, is the nodes' sum. */
static void check_nodes(const struct text *text)
{
	for (int i = 0; i < nr_values; i++) {
		const char *name = values[i].name;
		uint64_t sum = 0;

		if (!begins(name, "faults") && !begins(name, "outcome_") &&
		    !begins(name, "latency_ns_le_") && strcmp(name, "latency_ns_sum") != 0)
			continue;
		for (int j = 0; j < nr_values; j++) {
			const char *of_node = strchr(values[j].name, '_');

			if (begins(values[j].name, "no") && of_node &&
			    strcmp(of_node + 1, name) == 0)
				sum += values[j].value;
		}
		if (sum != values[i].value)
			found(text, "%s: the nodes add up to %" PRIu64, name, sum);
	}
}

static void check_fault_stat(struct text *text)
{
	read_values(text);
	check_faults(text, "");
	check_faults(text, "node0_");
	check_faults(text, "nonode_");
	check_nodes(text);
	for (int i = 0; i < nr_last_values && nr_last_values == nr_values; i++) {
		if (values[i].value < last_values[i].value && !begins(values[i].name, "wait") &&
		    strcmp(values[i].name, "nodes_unavailable") != 0 &&
		    !strstr(values[i].name, "_ns_p"))
			found(text, "%s has been %" PRIu64, values[i].name,
			      last_values[i].value);
	}
	memcpy(last_values, values, sizeof(values));
	nr_last_values = nr_values;
}

static void check_files(struct text *text)
{
	struct table table;

	begin_table(&table, text);
	while (next_row(&table)) {
		value(&table, "inode");
		value(&table, "size");
		value(&table, "mappings");
		if (pages(&table, "reserved_kb") + pages(&table, "instantiated_kb") > 1000000)
			found(text, "too many pages");
		if (value(&table, "changed_ms") < value(&table, "made_ms"))
			found(text, "changed before it was made");
		if (*field(&table, "path") != '/' && *field(&table, "path") != '?')
			found(text, "'%s' is no path", field(&table, "path"));
	}
}

static void check_reserved(struct text *text)
{
	struct table table;

	begin_table(&table, text);
	while (next_row(&table)) {
		if (pages(&table, "reserved_kb") == 0)
			found(text, "nothing is reserved");
		pages(&table, "instantiated_kb");
		value(&table, "changed_ms");
	}
}

static void check_maps(struct text *text)
{
	uint64_t length, mapping, last = 0, last_end = 0;
	struct table table;

	begin_table(&table, text);
	while (next_row(&table)) {
		length = hex(&table, "end") - hex(&table, "start");
		if (hex(&table, "start") >= hex(&table, "end") || length % PAGE_2M != 0 ||
		    hex(&table, "offset") % PAGE_2M != 0)
			found(text, "%s is no range", field(&table, "start"));
		length /= PAGE_2M;
		if (value(&table, "reserved") + value(&table, "instantiated") > length ||
		    value(&table, "touched") > length)
			found(text, "more pages than %" PRIu64, length);
		if (pages(&table, "touched_kb") != value(&table, "touched"))
			found(text, "touched and touched_kb");
		mapping = value(&table, "mapping");
		if (mapping == last && hex(&table, "start") < last_end)
			found(text, "ranges of mapping %" PRIu64 " are not in order", mapping);
		last = mapping;
		last_end = hex(&table, "end");
	}
}

static void check_regions(struct text *text)
{
	uint64_t from, to, last_to = 0;
	struct table table;
	char last[64] = "", now[64];

	begin_table(&table, text);
	while (next_row(&table)) {
		from = pages(&table, "from_kb");
		to = pages(&table, "to_kb");
		snprintf(now, sizeof(now), "%.20s %.30s", field(&table, "kind"),
			 field(&table, "number"));
		if (from >= to || (strcmp(now, last) == 0 && from < last_to))
			found(text, "%s: %" PRIu64 " to %" PRIu64, now, from, to);
		if (strcmp(field(&table, "state"), "reserved") == 0
			    ? strcmp(field(&table, "node"), "-") != 0
			    : value(&table, "node") > 1023)
			found(text, "%s: node %s", now, field(&table, "node"));
		strcpy(last, now);
		last_to = to;
	}
}

/* Behind three lines of heading and an empty one. */
static void check_lock_stat(struct text *text)
{
	char *line, *word, *save, *end;
	int nr, row = 0;

	while ((line = next_line(text))) {
		if (++row <= 5 && !strchr(line, ':'))
			continue;
		strtok_r(line, ":", &save);
		for (nr = 0; (word = strtok_r(NULL, " \t", &save)); nr++) {
			if (strtod(word, &end) < 0 || *end)
				found(text, "'%s' is no number", word);
		}
		if (nr != 12)
			found(text, "%d numbers", nr);
	}
}

static void check_meminfo(struct text *text)
{
	uint64_t total = 0, unused = 0, number_of;
	char *line;

	while ((line = next_line(text))) {
		if (sscanf(line, "HugePages_Total: %" SCNu64, &number_of) == 1)
			total = number_of;
		else if (sscanf(line, "HugePages_Free: %" SCNu64, &number_of) == 1)
			unused = number_of;
		else if (begins(line, "HugePages_") && strchr(line, '-'))
			found(text, "'%s'", line);
	}
	if (unused > total)
		found(text, "more free than there are");
}

static void check_line(struct text *text)
{
	if (!next_line(text) || next_line(text))
		found(text, "not one line");
}

static const struct {
	const char *name;
	void (*check)(struct text *text);
} checks[] = {
	{"pool", check_pool},           {"fault_stat", check_fault_stat},
	{"files", check_files},         {"reserved", check_reserved},
	{"maps", check_maps},           {"regions", check_regions},
	{"lock_stat", check_lock_stat}, {"kernel/meminfo", check_meminfo},
	{"options", check_line},
};

/* What is not a file of its own is a number; other tables are at least whole. */
static void check_text(struct text *text, size_t length)
{
	struct table table;

	if (length > 0 && text->all[length - 1] != '\n')
		found(text, "the last line has no end");
	if (strlen(text->all) != length)
		found(text, "a NUL byte");
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		if (strcmp(text->name, checks[i].name) == 0) {
			checks[i].check(text);
			return;
		}
	}
	if (strstr(text->name, "hugepages")) {
		check_number(text);
		return;
	}
	begin_table(&table, text);
	while (next_row(&table))
		;
}

static size_t read_all(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t length = 0;
	ssize_t n;

	if (fd < 0) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		_exit(1);
	}
	while ((n = read(fd, buffer + length, buffer_size - length - 1)) > 0)
		length += (size_t)n;
	if (n < 0 || length == buffer_size - 1) {
		fprintf(stderr, "%s: %s\n", path, n < 0 ? strerror(errno) : "too long");
		_exit(1);
	}
	close(fd);
	buffer[length] = '\0';
	return length;
}

/* All files below @dir, relative to it. */
static int list_files(const char *dir, const char *below, char *files[MAX_FILES], int nr)
{
	char path[512], *name;
	struct dirent *entry;
	DIR *stream;

	snprintf(path, sizeof(path), "%s/%s", dir, below);
	stream = opendir(path);
	while (stream && (entry = readdir(stream)) && nr < MAX_FILES) {
		if (entry->d_name[0] == '.')
			continue;
		if (asprintf(&name, "%s%s%s", below, *below ? "/" : "", entry->d_name) < 0)
			_exit(2);
		if (entry->d_type != DT_DIR) {
			files[nr++] = name;
			continue;
		}
		nr = list_files(dir, name, files, nr);
		free(name);
	}
	if (stream)
		closedir(stream);
	return nr;
}

static void read_for_ever(const char *mount, _Atomic uint64_t *reads)
{
	char dir[256], path[512], *files[MAX_FILES];
	int nr;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(dir, sizeof(dir), "%s/.hugefuse", mount);
	buffer = malloc(buffer_size);
	copy = malloc(buffer_size);
	nr = list_files(dir, "", files, 0);
	if (!buffer || !copy || nr < 15)
		_exit(2);
	raise(SIGSTOP);
	for (;;) {
		for (int i = 0; i < nr; i++) {
			struct text text = {files[i], buffer, copy};
			size_t length;

			snprintf(path, sizeof(path), "%s/%s", dir, files[i]);
			length = read_all(path);
			memcpy(copy, buffer, length + 1);
			check_text(&text, length);
			++*reads;
		}
	}
}

static void expect_stopped(struct reader *reader)
{
	int status;

	assert_int_equal(waitpid(reader->pid, &status, WUNTRACED), reader->pid);
	if (WIFSTOPPED(status))
		return;
	reader->pid = 0;
	fail_msg("the reader has ended, with status %#x", status);
}

void reader_start(struct reader *reader, const char *dir)
{
	reader->reads = mmap(NULL, sizeof(*reader->reads), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(reader->reads, MAP_FAILED);
	reader->pid = fork();
	assert_true(reader->pid >= 0);
	if (reader->pid == 0)
		read_for_ever(dir, reader->reads);
	expect_stopped(reader);
}

void reader_run(struct reader *reader)
{
	kill(reader->pid, SIGCONT);
}

void reader_pause(struct reader *reader)
{
	kill(reader->pid, SIGSTOP);
	expect_stopped(reader);
}

uint64_t reader_stop(struct reader *reader)
{
	uint64_t reads;
	int status;

	if (reader->pid == 0)
		return 0;
	kill(reader->pid, SIGKILL);
	assert_int_equal(waitpid(reader->pid, &status, 0), reader->pid);
	reader->pid = 0;
	if (WIFEXITED(status))
		fail_msg("the reader has found something");
	reads = *reader->reads;
	munmap((void *)reader->reads, sizeof(*reader->reads));
	return reads;
}
