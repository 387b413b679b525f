/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Daemon: from options to a mount that answers, and back to a machine as it was.
 */
#pragma once

#include <stdbool.h>

#include "fs/options.h"

struct daemon_config {
	const struct mount_options *options;
	const char *mountpoint; /* absolute */
	bool foreground;        /* -f: stay, log to stderr */
	bool quiet;             /* do not say on stdout what was mounted */
};

/* Exit codes of hugefuse(8). */
enum exit_code {
	EXIT_OK = 0,
	EXIT_FAILED = 1, /* one line on stderr says what, where, and what to do */
	EXIT_USAGE = 2,
	EXIT_PARTIAL = 3, /* resize: done in part; the line says what it got */
};

/*
 * Mount and serve. In the background returns in the caller as soon as the mount answers, or
 * with EXIT_FAILED after one line on stderr and with nothing changed; in the foreground when it
 * is unmounted or a SIGINT, SIGTERM or SIGHUP has come.
 */
int daemon_mount(const struct daemon_config *config);

/*
 * Unmount @mountpoint, wait (bounded) until its daemon has given everything back, and do that
 * in its place if it is dead. @force: also while processes have pages mapped. Returns an exit
 * code.
 */
int daemon_umount(const char *mountpoint, bool force);

/*
 * Check what a daemon that died has left at @mountpoint, and say on stdout what is wrong; with
 * @repair write the journal anew where it is damaged. EXIT_OK: it can be mounted again.
 */
int daemon_fsck(const char *mountpoint, bool repair);
/*
 * Give back what daemons have left that died, and say on stdout what; with @dry_run only say
 * it. What processes have mapped is kept, unless @force. At @mountpoint alone, or, if that is
 * NULL, everywhere. Returns an exit code.
 */
int daemon_reap(const char *mountpoint, bool dry_run, bool force);
