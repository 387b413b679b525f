/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A client that may be killed at any time, of a daemon that may be, too. Whatever needs the
 * daemon may fail while there is none, and is then tried again; what is mapped goes on, and no
 * page that is reserved is ever a SIGBUS, which would end this process.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "hugefuse.h"
#include "kills.h"

#define RETRY_US  500
#define LAST_WORD (PAGE_2M / sizeof(unsigned long) - 1)

struct self {
	struct kills *kills;
	struct client *client;
	int number;
	int fd;
	char *shared, *own;          /* mapped, or NULL */
	unsigned long refused_since; /* us, or 0 */
};

static unsigned long now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (unsigned long)now.tv_sec * 1000000 + (unsigned long)now.tv_nsec / 1000;
}

static void raise_to(atomic_ulong *longest, unsigned long value)
{
	if (value > atomic_load(longest))
		atomic_store(longest, value);
}

const char *kills_client_name(int number)
{
	static char name[16];

	snprintf(name, sizeof(name), "client-%d", number);
	return name;
}

/* ---- what needs the daemon ---- */

/* While there is none. ENOENT is the mount point without a mount. */
static bool is_excused(int error)
{
	return error == ENOTCONN || error == ECONNABORTED || error == ENOENT ||
	       error == ENOMEM || error == EINTR || error == ENOTTY || error == ECONNREFUSED;
}

/* A call has failed: it is tried again later, by a new descriptor. */
static void refused(struct self *self, const char *what)
{
	int error = errno;

	if (!is_excused(error)) {
		fprintf(stderr, "client %d: %s: %s\n", self->number, what, strerror(error));
		_exit(1);
	}
	if (self->refused_since == 0)
		self->refused_since = now_us();
	if (self->fd >= 0)
		close(self->fd);
	self->fd = -1;
	usleep(RETRY_US);
}

static void granted(struct self *self)
{
	if (self->refused_since > 0)
		raise_to(&self->client->longest_refused_us, now_us() - self->refused_since);
	self->refused_since = 0;
}

static bool open_file(struct self *self)
{
	const char *path = fixture_path(self->kills->fixture, kills_client_name(self->number));

	if (self->fd < 0)
		self->fd = open(path, O_RDWR | O_CLOEXEC);
	if (self->fd < 0)
		refused(self, "open");
	return self->fd >= 0;
}

static char *map(struct self *self, int flags, int pages)
{
	char *addr;

	if (!open_file(self))
		return NULL;
	addr = hugefuse_mmap(NULL, (size_t)pages * PAGE_2M, PROT_READ | PROT_WRITE, flags,
			     self->fd, 0);
	if (addr == MAP_FAILED) {
		refused(self, "mmap");
		return NULL;
	}
	granted(self);
	return addr;
}

static void unmap(struct self *self, char **addr, int pages)
{
	if (hugefuse_munmap(*addr, (size_t)pages * PAGE_2M) < 0) {
		fprintf(stderr, "client %d: munmap: %s\n", self->number, strerror(errno));
		_exit(1);
	}
	*addr = NULL;
}

/* ---- what pages have ---- */

static volatile unsigned long *word(char *addr, int page, size_t index)
{
	return (volatile unsigned long *)(addr + (size_t)page * PAGE_2M) + index;
}

static void check_word(const struct content *content, unsigned long value, int number, int page)
{
	unsigned long settled = atomic_load(&content->settled);
	unsigned long pending = atomic_load(&content->pending);

	if (value == settled || value == pending)
		return;
	fprintf(stderr, "client %d: page %d has %lu, not %lu or %lu\n", number, page, value,
		settled, pending);
	_exit(1);
}

static void check_page(struct client *client, char *addr, int number, int page)
{
	struct content *content = &client->pages[page];
	unsigned long value, start = now_us();

	value = *word(addr, page, 0);
	raise_to(&client->longest_touch_us, now_us() - start);
	check_word(content, value, number, page);
	check_word(content, *word(addr, page, LAST_WORD), number, page);
}

/* Both words are the same, also where an operation was cut short: both are known then. */
static void settle_page(struct self *self, int page)
{
	struct content *content = &self->client->pages[page];
	unsigned long value, start;

	check_page(self->client, self->shared, self->number, page);
	value = *word(self->shared, page, 0);
	start = now_us();
	*word(self->shared, page, LAST_WORD) = value;
	raise_to(&self->client->longest_touch_us, now_us() - start);
	atomic_store(&content->settled, value);
	atomic_store(&content->pending, value);
}

static void write_page(struct self *self, int page, unsigned long value)
{
	struct content *content = &self->client->pages[page];

	settle_page(self, page);
	atomic_store(&content->pending, value);
	*word(self->shared, page, 0) = value;
	*word(self->shared, page, LAST_WORD) = value;
	atomic_store(&content->settled, value);
}

/* The pages [from, from + nr) are about to be cleared. */
static void will_be_cleared(struct self *self, int from, int nr)
{
	for (int page = from; page < from + nr; page++) {
		settle_page(self, page);
		atomic_store(&self->client->pages[page].pending, 0);
	}
}

static void is_cleared(struct self *self, int from, int nr)
{
	for (int page = from; page < from + nr; page++)
		atomic_store(&self->client->pages[page].settled, 0);
}

/* ---- operations ---- */

static void do_write(struct self *self, unsigned int random)
{
	write_page(self, (int)(random % CLIENT_PAGES), random);
}

static void do_check(struct self *self, unsigned int random)
{
	check_page(self->client, self->shared, self->number, (int)(random % CLIENT_PAGES));
}

static void do_punch(struct self *self, unsigned int random)
{
	int page = (int)(random % CLIENT_PAGES);

	if (!open_file(self))
		return;
	will_be_cleared(self, page, 1);
	if (fallocate(self->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		      (off_t)(page * PAGE_2M), PAGE_2M) < 0) {
		refused(self, "punch");
		return;
	}
	is_cleared(self, page, 1);
	granted(self);
}

/* A page behind the end could be touched by nobody: the mappings go first. */
static void do_truncate(struct self *self, unsigned int random)
{
	int from = (int)(random % CLIENT_PAGES), nr = CLIENT_PAGES - from;

	if (!open_file(self))
		return;
	will_be_cleared(self, from, nr);
	unmap(self, &self->shared, CLIENT_PAGES);
	if (self->own)
		unmap(self, &self->own, PRIVATE_PAGES);
	if (ftruncate(self->fd, (off_t)(from * PAGE_2M)) < 0)
		refused(self, "truncate");
	else
		is_cleared(self, from, nr);
}

static void do_map_again(struct self *self, unsigned int random)
{
	unmap(self, &self->shared, CLIENT_PAGES);
}

/* Private pages: mapped, written, given up, unmapped. */
static void do_private(struct self *self, unsigned int random)
{
	int page = (int)(random % PRIVATE_PAGES);
	unsigned long start;

	if (!self->own) {
		self->own = map(self, MAP_PRIVATE, PRIVATE_PAGES);
		return;
	}
	if (random / PRIVATE_PAGES % 4 == 0) {
		unmap(self, &self->own, PRIVATE_PAGES);
		return;
	}
	start = now_us();
	*word(self->own, page, 0) = random;
	raise_to(&self->client->longest_touch_us, now_us() - start);
	if (*word(self->own, page, 0) != random)
		_exit(3);
	if (random / PRIVATE_PAGES % 4 == 1)
		madvise(self->own + (size_t)page * PAGE_2M, PAGE_2M, MADV_DONTNEED);
}

static void do_write_file(struct self *self, unsigned int random)
{
	unsigned long value;
	int page = (int)(random % CLIENT_PAGES);

	if (!open_file(self))
		return;
	if (pread(self->fd, &value, sizeof(value), (off_t)(page * PAGE_2M)) != sizeof(value)) {
		refused(self, "pread");
		return;
	}
	check_word(&self->client->pages[page], value, self->number, page);
	granted(self);
}

static void do_fork(struct self *self, unsigned int random)
{
	pid_t child = fork();
	int status = -1;

	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		do_check(self, random);
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
		fprintf(stderr, "client %d: a child ended with %#x\n", self->number, status);
		_exit(1);
	}
}

static void (*const operations[])(struct self *self, unsigned int random) = {
	do_write, do_write,     do_check,   do_punch,      do_truncate,
	do_write, do_map_again, do_private, do_write_file, do_private,
};
#define NR_OPERATIONS (sizeof(operations) / sizeof(operations[0]))

static struct self self; /* of this process; for the signal handler, too */

/* Says where, and ends. */
static void on_sigbus(int signal, siginfo_t *info, void *context)
{
	const char *at = info->si_addr;
	char text[96];
	int len;

	len = snprintf(text, sizeof(text),
		       "client %d: SIGBUS %ld MiB into shared, %ld into private\n", self.number,
		       self.shared ? (at - self.shared) / (long)MB : -1,
		       self.own ? (at - self.own) / (long)MB : -1);
	if (write(STDERR_FILENO, text, (size_t)len) != len)
		_exit(5);
	_exit(4);
}

int kills_client_run(void *data)
{
	const struct client_turn *turn = data;
	struct sigaction action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO};
	unsigned int seed = turn->kills->clients[turn->number].seed, random;

	self = (struct self){
		.kills = turn->kills,
		.client = &turn->kills->clients[turn->number],
		.number = turn->number,
		.fd = -1,
	};
	sigaction(SIGBUS, &action, NULL);
	while (!atomic_load(&self.kills->stop)) {
		random = (unsigned int)rand_r(&seed);
		if (!self.shared)
			self.shared = map(&self, MAP_SHARED, CLIENT_PAGES);
		else if (random % 64 == 0)
			do_fork(&self, random / 64);
		else
			operations[random / 64 % NR_OPERATIONS](&self,
								random / 64 / NR_OPERATIONS);
		atomic_fetch_add(&self.client->nr_done, 1);
	}
	return 0;
}

void kills_client_check(struct kills *kills, int number)
{
	int fd = fixture_file(kills->fixture, kills_client_name(number), O_RDWR, 0);
	char *addr;

	addr = hugefuse_mmap(NULL, CLIENT_PAGES * PAGE_2M, PROT_READ | PROT_WRITE, MAP_SHARED,
			     fd, 0);
	if (addr == MAP_FAILED)
		fail_msg("client %d: its file cannot be mapped: %s", number, strerror(errno));
	for (int page = 0; page < CLIENT_PAGES; page++)
		check_page(&kills->clients[number], addr, number, page);
	assert_int_equal(hugefuse_munmap(addr, CLIENT_PAGES * PAGE_2M), 0);
	close(fd);
}
