/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the verbs have in common: their name in messages, --help, --version and usage errors.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tools/cmd.h"

static const char *cmd_prefix(const struct verb *verb)
{
	return verb->run == cmd_mount_helper ? "" : "hugefuse ";
}

int cmd_fail(const struct verb *verb, int exit_code, const char *format, ...)
{
	char text[4096];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fflush(stdout);
	fprintf(stderr, "%s%s: %s\n", cmd_prefix(verb), verb->name, text);
	return exit_code;
}

int cmd_fail_at(const struct verb *verb, const char *mountpoint, const char *text)
{
	if (strncmp(text, ".hugefuse", 9) == 0)
		return cmd_fail(verb, EXIT_FAILED, "%s/%s", mountpoint, text);
	return cmd_fail(verb, EXIT_FAILED, "%s", text);
}

static void print_help(const struct verb *verb)
{
	printf("Usage: %s%s %s\n%s\n\n%s      --help           print this help\n"
	       "      --version        print the version\n",
	       cmd_prefix(verb), verb->name, verb->arguments, verb->summary, verb->help);
}

/* What getopt_long() stumbled over: the letter, or the word when it was a long option. */
static const char *offending_option(char **argv, char buf[3])
{
	const char *word = argv[optind - 1];

	if (strncmp(word, "--", 2) == 0 || optopt == 0 || optopt >= CMD_OPT_VERSION)
		return word;
	snprintf(buf, 3, "-%c", optopt);
	return buf;
}

int cmd_getopt(const struct verb *verb, int argc, char **argv, const char *short_options,
	       const struct option *long_options, int *ret_exit_code)
{
	char letter[3];
	int c;

	opterr = 0;
	c = getopt_long(argc, argv, short_options, long_options, NULL);
	switch (c) {
	case 'h':
		print_help(verb);
		*ret_exit_code = EXIT_OK;
		return CMD_EXIT;
	case CMD_OPT_VERSION:
		printf("hugefuse %s\n", HUGEFUSE_VERSION);
		*ret_exit_code = EXIT_OK;
		return CMD_EXIT;
	case ':':
	case '?':
		*ret_exit_code = cmd_fail(verb, EXIT_USAGE, "%s '%s'; try '%s%s --help'",
					  c == ':' ? "an argument is missing for option"
						   : "unknown or ambiguous option",
					  offending_option(argv, letter), cmd_prefix(verb),
					  verb->name);
		return CMD_EXIT;
	default:
		return c;
	}
}
