/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hugefuse run: a command with libhugefuse-preload.so, which serves its huge pages from a
 * mount.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/cmd.h"
#include "tools/mountpoint.h"
#include "tools/program.h"
#include "tools/run_counters.h"
#include "tools/snapshot.h"

#define OPT_COUNTERS 0x200

#define EXIT_CANNOT_RUN 126
#define EXIT_NOT_FOUND  127

struct run_request {
	char *mountpoint; /* absolute */
	bool counters;
	char **command;
};

/* The mount that was named, or else the only one that there is. */
static int find_mount(const struct verb *verb, const char *path, char **ret_mountpoint)
{
	struct mountpoint *list;
	int count;

	if (path) {
		*ret_mountpoint = mountpoint_resolve(path);
		if (!*ret_mountpoint)
			return cmd_fail(verb, EXIT_FAILED, "%s: %s", path, strerror(errno));
		return EXIT_OK;
	}
	count = mountpoint_list("/proc/self/mountinfo", &list);
	if (count < 0)
		return cmd_fail(verb, EXIT_FAILED, "/proc/self/mountinfo: %s",
				strerror(-count));
	if (count == 1)
		*ret_mountpoint = strdup(list[0].path);
	mountpoint_list_free(list, count);
	if (count == 0)
		return cmd_fail(verb, EXIT_FAILED,
				"nothing is mounted; see 'hugefuse mount --help'");
	if (count > 1)
		return cmd_fail(verb, EXIT_USAGE,
				"there are %d mounts; say which one, by -m MOUNTPOINT", count);
	return *ret_mountpoint ? EXIT_OK : cmd_fail(verb, EXIT_FAILED, "out of memory");
}

static int check_mount(const struct verb *verb, const char *mountpoint)
{
	struct snapshot_error error;
	int fd = snapshot_open(mountpoint, &error);

	if (fd < 0)
		return cmd_fail_at(verb, mountpoint, error.text);
	close(fd);
	return EXIT_OK;
}

/* The library next to this program where it was built, or where it has been installed. */
static int find_library(char *ret_path, size_t size)
{
	static const char *const places[] = {"../lib", "../lib/hugefuse"};
	char program[PATH_MAX], *slash;
	ssize_t len;

	len = readlink("/proc/self/exe", program, sizeof(program) - 1);
	if (len > 0) {
		program[len] = '\0';
		slash = strrchr(program, '/');
		*slash = '\0';
		for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
			if (snprintf(ret_path, size, "%s/%s/libhugefuse-preload.so", program,
				     places[i]) < (int)size &&
			    access(ret_path, R_OK) == 0)
				return 0;
		}
	}
	if (snprintf(ret_path, size, "%s/libhugefuse-preload.so", HUGEFUSE_LIBDIR) <
		    (int)size &&
	    access(ret_path, R_OK) == 0)
		return 0;
	return -ENOENT;
}

static int set_environment(const struct verb *verb, const char *mountpoint)
{
	const char *before = getenv("LD_PRELOAD");
	char library[PATH_MAX], real[PATH_MAX], *value;

	if (find_library(library, sizeof(library)) < 0 || !realpath(library, real))
		return cmd_fail(verb, EXIT_FAILED, "libhugefuse-preload.so is not installed");
	if (strpbrk(real, " :"))
		return cmd_fail(verb, EXIT_FAILED,
				"%s: ld.so takes no path with blanks or colons to preload",
				real);
	if (asprintf(&value, "%s%s%s", real, before && *before ? ":" : "",
		     before ? before : "") < 0)
		value = NULL;
	if (!value || !mountpoint || setenv("LD_PRELOAD", value, 1) < 0 ||
	    setenv("HUGEFUSE_MOUNT", mountpoint, 1) < 0 ||
	    setenv("HUGEFUSE_PRELOAD", real, 1) < 0)
		return cmd_fail(verb, EXIT_FAILED, "out of memory");
	free(value);
	return EXIT_OK;
}

static int run(const struct verb *verb, const struct run_request *request)
{
	const char *name = request->command[0];
	char path[PATH_MAX];
	int r;

	if (program_find(name, path, sizeof(path)) == 0)
		program_warn(path, request->counters);
	r = check_mount(verb, request->mountpoint);
	/* First: in another mount namespace /proc/self/exe may lead nowhere. */
	if (r == EXIT_OK)
		r = set_environment(verb, request->mountpoint);
	if (r == EXIT_OK && request->counters)
		r = run_counters(verb, request->mountpoint);
	if (r != EXIT_OK)
		return r;
	execvp(name, request->command);
	return cmd_fail(verb, errno == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN, "%s: %s",
			name, strerror(errno));
}

int cmd_run(const struct verb *verb, int argc, char **argv)
{
	static const struct option long_options[] = {
		{"mountpoint", required_argument, NULL, 'm'},
		{"counters", no_argument, NULL, OPT_COUNTERS},
		CMD_COMMON_OPTIONS,
	};
	struct run_request request = {0};
	const char *path = NULL;
	int c, exit_code;

	while ((c = cmd_getopt(verb, argc, argv, "+:m:h", long_options, &exit_code)) != -1) {
		if (c == CMD_EXIT)
			return exit_code;
		if (c == 'm')
			path = optarg;
		request.counters |= c == OPT_COUNTERS;
	}
	if (optind == argc)
		return cmd_fail(verb, EXIT_USAGE, "a COMMAND is to be given");
	request.command = argv + optind;
	exit_code = find_mount(verb, path, &request.mountpoint);
	if (exit_code == EXIT_OK)
		exit_code = run(verb, &request);
	free(request.mountpoint);
	return exit_code;
}
