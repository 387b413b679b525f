/* SPDX-License-Identifier: GPL-2.0-or-later */
/* hugefuse fsck and hugefuse reap: what daemons have left that died. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cmd.h"
#include "tools/mountpoint.h"

int cmd_fsck(const struct verb *verb, int argc, char **argv)
{
	static const struct option long_options[] = {
		{"repair", no_argument, NULL, 'r'},
		CMD_COMMON_OPTIONS,
	};
	bool repair = false;
	int c, exit_code;
	char *path;

	while ((c = cmd_getopt(verb, argc, argv, ":rh", long_options, &exit_code)) != -1) {
		if (c == CMD_EXIT)
			return exit_code;
		repair = true;
	}
	if (argc - optind != 1)
		return cmd_fail(verb, EXIT_USAGE, "one MOUNTPOINT is to be given, not %d",
				argc - optind);
	path = mountpoint_resolve(argv[optind]);
	if (!path)
		return cmd_fail(verb, EXIT_FAILED, "%s: %s", argv[optind], strerror(errno));
	exit_code = daemon_fsck(path, repair);
	free(path);
	return exit_code;
}

int cmd_reap(const struct verb *verb, int argc, char **argv)
{
	static const struct option long_options[] = {
		{"dry-run", no_argument, NULL, 'n'},
		{"force", no_argument, NULL, 'f'},
		CMD_COMMON_OPTIONS,
	};
	bool dry_run = false, force = false;
	int c, exit_code;
	char *path;

	while ((c = cmd_getopt(verb, argc, argv, ":nfh", long_options, &exit_code)) != -1) {
		if (c == CMD_EXIT)
			return exit_code;
		dry_run = dry_run || c == 'n';
		force = force || c == 'f';
	}
	if (argc - optind > 1)
		return cmd_fail(verb, EXIT_USAGE, "one MOUNTPOINT may be given, not %d",
				argc - optind);
	if (argc == optind)
		return daemon_reap(NULL, dry_run, force);
	path = mountpoint_resolve(argv[optind]);
	if (!path)
		return cmd_fail(verb, EXIT_FAILED, "%s: %s", argv[optind], strerror(errno));
	exit_code = daemon_reap(path, dry_run, force);
	free(path);
	return exit_code;
}
