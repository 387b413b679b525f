/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hugefuse top: the loop. It waits for a key, the timer, or a signal; samples, and draws.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "tools/cmd.h"
#include "tools/mountpoint.h"
#include "tools/output.h"
#include "tools/top_screen.h"
#include "tools/top_view.h"

#define OPT_SORT      0x200
#define DEFAULT_DELAY 2.0
#define MIN_DELAY     0.1
#define MAX_DELAY     86400.0

struct top {
	const struct verb *verb;
	char **mountpoints; /* of the command line; none: all */
	int nr_mountpoints;
	bool batch;
	long nr_left; /* screens to come; 0: no end */
	struct top_state state;
	struct top_sample before, now;
	struct top_model model;
	int timer_fd, signal_fd;
	int end_signal; /* that asked us to end, or 0 */
};

/* ---- sampling ---- */

static void add_mount(const char *mountpoint, struct top_sample *sample)
{
	struct top_mount *mount = &sample->mounts[sample->nr_mounts];
	struct snapshot_error error;

	*mount = (struct top_mount){.mountpoint = strdup(mountpoint)};
	if (!mount->mountpoint)
		return;
	if (mount_snapshot_read(mountpoint, PART_ALL & ~PART_RESERVED, &mount->snapshot,
				&error) < 0) {
		mount->snapshot = (struct mount_snapshot){0};
		mount->error = strdup(error.text);
		if (!mount->error) {
			free(mount->mountpoint);
			return;
		}
	}
	sample->nr_mounts++;
}

static int take_sample(const struct top *top, struct top_sample *ret_sample)
{
	struct mountpoint *list = NULL;
	struct top_sample sample = {0};
	int i, count = top->nr_mountpoints;

	if (count == 0)
		count = mountpoint_list("/proc/self/mountinfo", &list);
	if (count < 0)
		return count;
	sample.mounts = calloc((size_t)count + 1, sizeof(*sample.mounts));
	for (i = 0; sample.mounts && i < count; i++)
		add_mount(list ? list[i].path : top->mountpoints[i], &sample);
	if (top->nr_mountpoints == 0)
		mountpoint_list_free(list, count);
	if (!sample.mounts)
		return -ENOMEM;
	*ret_sample = sample;
	return 0;
}

static int build(struct top *top)
{
	struct top_state *state = &top->state;
	time_t now = time(NULL);
	struct tm local;
	int r;

	top_model_deinit(&top->model);
	r = top_model_build(top->before.mounts ? &top->before : NULL, &top->now,
			    &state->settings, &top->model);
	strftime(state->clock, sizeof(state->clock), "%H:%M:%S", localtime_r(&now, &local));
	return r;
}

/* A new sample, and rates since the last one. */
static int advance(struct top *top)
{
	struct top_sample sample;
	int r = take_sample(top, &sample);

	if (r < 0)
		return r;
	top_model_deinit(&top->model);
	top_sample_deinit(&top->before);
	top->before = top->now;
	top->now = sample;
	return build(top);
}

/* ---- drawing ---- */

static int draw_batch(struct top *top)
{
	struct top_canvas canvas = {.file = stdout, .columns = (int)output_width()};
	int r = top_view_draw(&top->model, &top->state, &canvas);

	putchar('\n');
	fflush(stdout);
	return r;
}

static int draw(struct top *top)
{
	struct top_canvas canvas = {.window = stdscr, .rows = LINES, .columns = COLS};
	size_t last = top->model.nr_holders ? top->model.nr_holders - 1 : 0;
	int r;

	if (top->batch)
		return draw_batch(top);
	if (top->state.scroll > last)
		top->state.scroll = last;
	r = top_view_draw(&top->model, &top->state, &canvas);
	refresh();
	return r;
}

/* ---- events ---- */

static int open_timer(double delay)
{
	struct itimerspec times = {
		.it_interval.tv_sec = (time_t)delay,
		.it_interval.tv_nsec = (long)((delay - (double)(time_t)delay) * 1e9),
	};
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), r;

	if (fd < 0)
		return -errno;
	times.it_value = times.it_interval;
	if (timerfd_settime(fd, 0, &times, NULL) < 0) {
		r = -errno;
		close(fd);
		return r;
	}
	return fd;
}

static int open_signals(void)
{
	static const int signals[] = {SIGWINCH, SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	sigset_t set;
	int fd;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaddset(&set, signals[i]);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

/* 1: go on and draw; 0: end; or -errno. */
static int handle_signals(struct top *top)
{
	struct signalfd_siginfo info;

	while (read(top->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo != SIGWINCH) {
			top->end_signal = (int)info.ssi_signo;
			return 0;
		}
		if (!top->batch)
			top_screen_resize();
	}
	return 1;
}

static int handle_timer(struct top *top)
{
	uint64_t nr_expired;
	int r;

	if (read(top->timer_fd, &nr_expired, sizeof(nr_expired)) != sizeof(nr_expired))
		return 1;
	r = advance(top);
	if (r < 0)
		return r;
	return top->nr_left == 0 || --top->nr_left > 0;
}

static int handle_keys(struct top *top)
{
	int key, r = 0;

	while ((key = getch()) != ERR) {
		switch (top_state_key(&top->state, key)) {
		case TOP_QUIT:
			return 0;
		case TOP_BUILD:
			r = build(top);
			break;
		case TOP_SAMPLE:
			r = advance(top);
			break;
		case TOP_REDRAW:
			clearok(stdscr, TRUE);
			break;
		default:
			break;
		}
		if (r < 0)
			return r;
	}
	return 1;
}

/* Wait for something and handle it. As handle_signals(). */
static int handle_events(struct top *top)
{
	struct pollfd fds[] = {
		{.fd = top->signal_fd, .events = POLLIN},
		{.fd = top->timer_fd, .events = POLLIN},
		{.fd = top->batch ? -1 : STDIN_FILENO, .events = POLLIN},
	};
	int r = 1;

	if (poll(fds, 3, -1) < 0) {
		if (errno != EINTR)
			return -errno;
		clearok(stdscr, TRUE); /* continued after a stop */
		return 1;
	}
	if (fds[0].revents)
		r = handle_signals(top);
	if (r > 0 && (fds[2].revents & POLLIN))
		r = handle_keys(top);
	if (r > 0 && (fds[2].revents & (POLLHUP | POLLERR)))
		return 0; /* the terminal has gone */
	if (r > 0 && fds[1].revents) {
		r = handle_timer(top);
		if (r > 0 || !top->batch)
			return r;
		/* the last one is printed */
		return draw(top) < 0 ? -ENOMEM : 0;
	}
	return top->batch && r > 0 ? handle_events(top) : r;
}

static int run(struct top *top)
{
	int r;

	r = advance(top);
	if (r == 0)
		r = draw(top);
	if (r == 0 && top->nr_left == 1)
		return 0;
	top->nr_left -= top->nr_left > 0;
	while (r == 0) {
		r = handle_events(top);
		if (r <= 0)
			return r;
		r = draw(top);
		if (r == 0 && ferror(stdout))
			return 0; /* main() says so */
	}
	return r;
}

/* ---- the verb ---- */

/* With what is open; closes and frees everything. */
static int finish(struct top *top, int r)
{
	top_screen_end();
	top_model_deinit(&top->model);
	top_sample_deinit(&top->before);
	top_sample_deinit(&top->now);
	if (top->timer_fd >= 0)
		close(top->timer_fd);
	if (top->signal_fd >= 0)
		close(top->signal_fd);
	if (r < 0)
		return cmd_fail(top->verb, EXIT_FAILED, "%s", strerror(-r));
	if (top->end_signal != 0 && top->end_signal != SIGINT) {
		sigset_t set;

		/* end by it, so that who has sent it sees that; curses has a handler of its own
		 */
		fflush(stdout);
		signal(top->end_signal, SIG_DFL);
		sigemptyset(&set);
		sigaddset(&set, top->end_signal);
		raise(top->end_signal);
		sigprocmask(SIG_UNBLOCK, &set, NULL);
	}
	return EXIT_OK;
}

static int start(struct top *top)
{
	const char *terminal;
	int r = 0;

	if (!top->batch && (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)))
		return cmd_fail(top->verb, EXIT_FAILED,
				"standard input or output is no terminal; use -b to print the "
				"screens one after the other");
	if (!top->batch && !top_screen_is_usable(&terminal)) {
		fprintf(stderr,
			"hugefuse top: the terminal '%.40s' cannot be drawn on; printing as with "
			"-b\n",
			terminal);
		top->batch = true;
	}
	top->signal_fd = open_signals();
	top->timer_fd = open_timer(top->state.delay);
	if (top->signal_fd < 0 || top->timer_fd < 0)
		r = top->signal_fd < 0 ? top->signal_fd : top->timer_fd;
	if (r == 0 && !top->batch)
		r = top_screen_begin();
	if (r == 0)
		r = run(top);
	return finish(top, r);
}

/* A mount that is named has to be one when we begin. */
static int check_operands(const struct top *top)
{
	struct snapshot_error error;

	for (int i = 0; i < top->nr_mountpoints; i++) {
		int fd = snapshot_open(top->mountpoints[i], &error);

		if (fd < 0)
			return cmd_fail_at(top->verb, top->mountpoints[i], error.text);
		close(fd);
	}
	return EXIT_OK;
}

static int parse_option(struct top *top, int c)
{
	const struct verb *verb = top->verb;
	char *end;
	int sort;

	switch (c) {
	case 'b':
		top->batch = true;
		return EXIT_OK;
	case 'd':
		top->state.delay = strtod(optarg, &end);
		if (end == optarg || *end != '\0' || !(top->state.delay >= MIN_DELAY) ||
		    top->state.delay > MAX_DELAY)
			return cmd_fail(
				verb, EXIT_USAGE,
				"'-d %.40s' is no delay; accepted are seconds from 0.1 to "
				"86400",
				optarg);
		return EXIT_OK;
	case 'n':
		top->nr_left = strtol(optarg, &end, 10);
		if (end == optarg || *end != '\0' || top->nr_left < 1)
			return cmd_fail(verb, EXIT_USAGE,
					"'-n %.40s' is no count; accepted is a number from 1",
					optarg);
		return EXIT_OK;
	default:
		sort = top_sort_find(optarg);
		if (sort < 0)
			return cmd_fail(verb, EXIT_USAGE,
					"unknown key '--sort %.40s'; accepted are total, "
					"resident, reserved and name",
					optarg);
		top->state.settings.sort = (enum top_sort)sort;
		return EXIT_OK;
	}
}

int cmd_top(const struct verb *verb, int argc, char **argv)
{
	static const struct option long_options[] = {
		{"batch", no_argument, NULL, 'b'},
		{"count", required_argument, NULL, 'n'},
		{"delay", required_argument, NULL, 'd'},
		{"sort", required_argument, NULL, OPT_SORT},
		CMD_COMMON_OPTIONS,
	};
	struct top top = {
		.verb = verb, .timer_fd = -1, .signal_fd = -1, .state.delay = DEFAULT_DELAY};
	int c, exit_code;

	while ((c = cmd_getopt(verb, argc, argv, ":hbd:n:", long_options, &exit_code)) != -1) {
		if (c == CMD_EXIT)
			return exit_code;
		exit_code = parse_option(&top, c);
		if (exit_code != EXIT_OK)
			return exit_code;
	}
	top.mountpoints = argv + optind;
	top.nr_mountpoints = argc - optind;
	exit_code = check_operands(&top);
	return exit_code == EXIT_OK ? start(&top) : exit_code;
}
