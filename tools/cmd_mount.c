/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hugefuse mount, and mount.hugefuse in the syntax that mount(8) calls its helpers with.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/log.h"
#include "fs/mount_source.h"
#include "tools/cmd.h"
#include "tools/mountpoint.h"

struct mount_request {
	struct mount_options options;
	char *mountpoint; /* absolute */
	bool foreground, quiet;
};

static void mount_request_deinit(struct mount_request *request)
{
	options_deinit(&request->options);
	free(request->mountpoint);
}

static int add_options(const struct verb *verb, struct mount_request *request, const char *list)
{
	char error[1024];

	if (options_parse(&request->options, list, error, sizeof(error)) < 0)
		return cmd_fail(verb, EXIT_FAILED, "%s", error);
	return EXIT_OK;
}

static int set_mountpoint(const struct verb *verb, struct mount_request *request,
			  const char *path)
{
	struct stat st;

	request->mountpoint = mountpoint_resolve(path);
	if (!request->mountpoint && errno == ENOENT)
		return cmd_fail(verb, EXIT_FAILED,
				"%s: there is no such directory; make it first (mkdir -p %s)",
				path, path);
	if (!request->mountpoint)
		return cmd_fail(verb, EXIT_FAILED, "%s: %s", path, strerror(errno));
	/* where a dead daemon's mount is, stat() fails with ENOTCONN: the daemon says what to
	 * do */
	if (stat(request->mountpoint, &st) == 0 && !S_ISDIR(st.st_mode))
		return cmd_fail(verb, EXIT_FAILED,
				"%s: not a directory; a mountpoint has to be one", path);
	return EXIT_OK;
}

/* What remains on the command line: [SOURCE] MOUNTPOINT. SOURCE yields to an explicit fsname=.
 */
static int set_operands(const struct verb *verb, struct mount_request *request,
			const char *source, const char *path)
{
	char error[1024];

	if (source && !request->options.fsname && *source != '\0') {
		request->options.fsname = strdup(source);
		if (!request->options.fsname)
			return cmd_fail(verb, EXIT_FAILED, "out of memory");
	}
	if (mount_source_adapt(&request->options, error, sizeof(error)) < 0)
		return cmd_fail(verb, EXIT_FAILED, "%s", error);
	if (options_check(&request->options, error, sizeof(error)) < 0)
		return cmd_fail(verb, EXIT_FAILED, "%s", error);
	return set_mountpoint(verb, request, path);
}

static int do_mount(struct mount_request *request)
{
	struct daemon_config config = {
		.options = &request->options,
		.mountpoint = request->mountpoint,
		.foreground = request->foreground,
		.quiet = request->quiet,
	};

	return daemon_mount(&config);
}

static int read_mount_options(const struct verb *verb, struct mount_request *request, int argc,
			      char **argv)
{
	static const struct option long_options[] = {
		{"options", required_argument, NULL, 'o'},
		{"foreground", no_argument, NULL, 'f'},
		{"debug", required_argument, NULL, 'd'},
		CMD_COMMON_OPTIONS,
	};
	int c, exit_code = EXIT_OK;

	while (exit_code == EXIT_OK &&
	       (c = cmd_getopt(verb, argc, argv, ":o:fd:h", long_options, &exit_code)) != -1) {
		switch (c) {
		case 'o':
			exit_code = add_options(verb, request, optarg);
			break;
		case 'f':
			request->foreground = true;
			break;
		case 'd':
			if (log_set_debug(optarg) < 0)
				exit_code = cmd_fail(
					verb, EXIT_USAGE,
					"unknown area in '-d %.100s'; accepted are mount, "
					"fuse, control, fault separated by commas, or all",
					optarg);
			break;
		default: /* --help or --version was answered */
			if (exit_code == EXIT_OK)
				return CMD_EXIT;
		}
	}
	return exit_code;
}

int cmd_mount(const struct verb *verb, int argc, char **argv)
{
	struct mount_request request = {0};
	int exit_code, nr_operands;

	options_init(&request.options);
	exit_code = read_mount_options(verb, &request, argc, argv);
	if (exit_code != EXIT_OK)
		goto out_deinit;
	nr_operands = argc - optind;
	if (nr_operands < 1 || nr_operands > 2) {
		exit_code = cmd_fail(verb, EXIT_USAGE,
				     "[SOURCE] MOUNTPOINT is to be given, not %d words",
				     nr_operands);
		goto out_deinit;
	}
	exit_code = set_operands(verb, &request, nr_operands == 2 ? argv[optind] : NULL,
				 argv[argc - 1]);
	if (exit_code == EXIT_OK)
		exit_code = do_mount(&request);
out_deinit:
	mount_request_deinit(&request);
	return exit_code == CMD_EXIT ? EXIT_OK : exit_code;
}

/* ---- mount.hugefuse ---- */

struct helper_flags {
	bool fake, verbose;
};

/* Go to the mount namespace @name: a process id, or a file as /proc/PID/ns/mnt. */
static int enter_namespace(const struct verb *verb, const char *name)
{
	char path[64];
	int fd, r;

	if (name[strspn(name, "0123456789")] == '\0' && strlen(name) < 16) {
		snprintf(path, sizeof(path), "/proc/%s/ns/mnt", name);
		name = path;
	}
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return cmd_fail(verb, EXIT_FAILED, "-N %s: %s", name, strerror(errno));
	r = setns(fd, CLONE_NEWNS);
	close(fd);
	if (r < 0)
		return cmd_fail(verb, EXIT_FAILED, "-N %s: cannot enter the namespace: %m",
				name);
	return EXIT_OK;
}

static int check_type(const struct verb *verb, const char *type)
{
	if (strcmp(type, "hugefuse") == 0 || strcmp(type, "fuse.hugefuse") == 0)
		return EXIT_OK;
	return cmd_fail(verb, EXIT_USAGE,
			"unknown type '-t %.100s'; accepted are hugefuse and fuse.hugefuse",
			type);
}

static int read_helper_options(const struct verb *verb, struct mount_request *request,
			       struct helper_flags *flags, int argc, char **argv)
{
	static const struct option long_options[] = {CMD_COMMON_OPTIONS};
	int c, exit_code = EXIT_OK;

	while (exit_code == EXIT_OK && (c = cmd_getopt(verb, argc, argv, ":o:sfnvN:t:h",
						       long_options, &exit_code)) != -1) {
		switch (c) {
		case 'o':
			exit_code = add_options(verb, request, optarg);
			break;
		case 'N':
			exit_code = enter_namespace(verb, optarg);
			break;
		case 't':
			exit_code = check_type(verb, optarg);
			break;
		case 'f':
			flags->fake = true;
			break;
		case 'v':
			flags->verbose = true;
			break;
		case 's':
		case 'n':
			break;
		default:
			if (exit_code == EXIT_OK)
				return CMD_EXIT;
		}
	}
	return exit_code;
}

int cmd_mount_helper(const struct verb *verb, int argc, char **argv)
{
	struct mount_request request = {0};
	struct helper_flags flags = {0};
	int exit_code;

	options_init(&request.options);
	exit_code = read_helper_options(verb, &request, &flags, argc, argv);
	if (exit_code != EXIT_OK)
		goto out_deinit;
	if (argc - optind != 2) {
		exit_code = cmd_fail(verb, EXIT_USAGE,
				     "SOURCE and MOUNTPOINT are to be given, not %d words",
				     argc - optind);
		goto out_deinit;
	}
	exit_code = set_operands(verb, &request, argv[optind], argv[optind + 1]);
	request.quiet = !flags.verbose;
	if (exit_code == EXIT_OK && !flags.fake)
		exit_code = do_mount(&request);
	if (exit_code == EXIT_OK && flags.verbose)
		printf("%s: %s %s on %s\n", verb->name, argv[optind],
		       flags.fake ? "could be mounted" : "mounted", request.mountpoint);
out_deinit:
	mount_request_deinit(&request);
	return exit_code == CMD_EXIT ? EXIT_OK : exit_code;
}
