/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * curses, begun and ended. A crash cannot call curses; it writes what was prepared: the strings
 * that leave the alternate screen and show the cursor, and the settings of the terminal as they
 * were.
 */
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <curses.h>
#include <term.h>

#include "tools/top_screen.h"

static SCREEN *screen;
static struct termios saved;
static char restore[128];

bool top_screen_is_usable(const char **ret_name)
{
	const char *name = getenv("TERM");
	const char *move;
	int err;

	*ret_name = name ? name : "";
	if (setupterm(NULL, STDOUT_FILENO, &err) != OK)
		return false;
	move = tigetstr("cup");
	return move && move != (const char *)-1;
}

static void add_capability(const char *name)
{
	const char *text = tigetstr(name);

	/* without padding, which tputs() would make */
	if (text && text != (const char *)-1 && !strstr(text, "$<") &&
	    strlen(restore) + strlen(text) < sizeof(restore))
		strcat(restore, text);
}

static void crash(int number)
{
	ssize_t n = write(STDOUT_FILENO, restore, strlen(restore));

	(void)n;
	tcsetattr(STDIN_FILENO, TCSANOW, &saved);
	raise(number); /* SA_RESETHAND */
}

static void catch_crashes(void)
{
	static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
	struct sigaction action = {.sa_handler = crash, .sa_flags = SA_RESETHAND | SA_NODEFER};

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaction(signals[i], &action, NULL);
}

int top_screen_begin(void)
{
	if (tcgetattr(STDIN_FILENO, &saved) < 0)
		return -errno;
	setlocale(LC_CTYPE, "");
	screen = newterm(NULL, stdout, stdin);
	if (!screen)
		return -ENOTTY;
	restore[0] = '\0';
	add_capability("sgr0");
	add_capability("rmkx");
	add_capability("rmcup");
	add_capability("cnorm");
	catch_crashes();
	atexit(top_screen_end);
	cbreak();
	noecho();
	nonl();
	intrflush(stdscr, FALSE);
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(25);
	curs_set(0);
	return 0;
}

void top_screen_end(void)
{
	if (!screen)
		return;
	curs_set(1);
	endwin();
	delscreen(screen);
	screen = NULL;
}

void top_screen_resize(void)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0)
		resizeterm(size.ws_row, size.ws_col);
	clearok(stdscr, TRUE);
}
