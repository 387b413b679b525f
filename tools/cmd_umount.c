/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hugefuse umount: unmount and wait until the daemon has given everything back.
 */
#include <stdlib.h>
#include <string.h>

#include <errno.h>

#include "tools/cmd.h"
#include "tools/mountpoint.h"

int cmd_umount(const struct verb *verb, int argc, char **argv)
{
	static const struct option long_options[] = {
		{"force", no_argument, NULL, 'f'},
		CMD_COMMON_OPTIONS,
	};
	bool force = false;
	int c, exit_code;
	char *path;

	while ((c = cmd_getopt(verb, argc, argv, ":fh", long_options, &exit_code)) != -1) {
		if (c == CMD_EXIT)
			return exit_code;
		force = true;
	}
	if (argc - optind != 1)
		return cmd_fail(verb, EXIT_USAGE, "one MOUNTPOINT is to be given, not %d",
				argc - optind);
	path = mountpoint_resolve(argv[optind]);
	if (!path)
		return cmd_fail(verb, EXIT_FAILED, "%s: %s; 'hugefuse stat' lists the mounts",
				argv[optind], strerror(errno));
	exit_code = daemon_umount(path, force);
	free(path);
	return exit_code;
}
