/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Verbs of hugefuse(8): each has a file cmd_*.c, a struct verb and a function that gets its own
 * argv and returns an exit code of fs/daemon.h. Errors are one line on stderr.
 */
#pragma once

#include <getopt.h>
#include <stdbool.h>

#include "fs/daemon.h"
#include "fs/options.h"

struct verb {
	const char *name;
	const char *arguments; /* for the usage line */
	const char *summary;
	const char *help; /* the options, a line each */
	int (*run)(const struct verb *verb, int argc, char **argv);
};

int cmd_mount(const struct verb *verb, int argc, char **argv);
int cmd_umount(const struct verb *verb, int argc, char **argv);
int cmd_fsck(const struct verb *verb, int argc, char **argv);
int cmd_reap(const struct verb *verb, int argc, char **argv);
int cmd_stat(const struct verb *verb, int argc, char **argv);
int cmd_ls(const struct verb *verb, int argc, char **argv);
int cmd_maps(const struct verb *verb, int argc, char **argv);
int cmd_run(const struct verb *verb, int argc, char **argv);
int cmd_numa(const struct verb *verb, int argc, char **argv);
int cmd_quota(const struct verb *verb, int argc, char **argv);
int cmd_probe(const struct verb *verb, int argc, char **argv);
int cmd_why(const struct verb *verb, int argc, char **argv);
int cmd_resize(const struct verb *verb, int argc, char **argv);
int cmd_top(const struct verb *verb, int argc, char **argv);
int cmd_lockstat(const struct verb *verb, int argc, char **argv);
/* mount(8)'s helper syntax, when called as mount.hugefuse. */
int cmd_mount_helper(const struct verb *verb, int argc, char **argv);

/* One line on stderr: "hugefuse stat: ...". Returns @exit_code. */
int cmd_fail(const struct verb *verb, int exit_code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The same for the text of a snapshot_error, which may be relative to @mountpoint. EXIT_FAILED.
 */
int cmd_fail_at(const struct verb *verb, const char *mountpoint, const char *text);

/* What every verb takes. */
#define CMD_OPT_VERSION 0x100
#define CMD_OPT_JSON    0x101
#define CMD_COMMON_OPTIONS                                                                 \
	{"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, CMD_OPT_VERSION}, \
	{                                                                                  \
	}

/* The command is over: return *@ret_exit_code. */
#define CMD_EXIT (-2)
/*
 * getopt_long() that answers --help and --version and says what is wrong, both with CMD_EXIT.
 * -1 at the end of the options, as there. @short_options begins with ':'.
 */
int cmd_getopt(const struct verb *verb, int argc, char **argv, const char *short_options,
	       const struct option *long_options, int *ret_exit_code);
