/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hugefuse numa: on which nodes a file's pages are to be, or those of what is made in a
 * directory. Underneath is an extended attribute.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "fs/numa_rule.h"
#include "hugefuse_protocol.h"
#include "tools/cmd.h"
#include "tools/output.h"

#define XATTR "user.hugefuse.numa"

static const char *set_error(int error)
{
	switch (error) {
	case EINVAL:
		return "it takes local, preferred:N, bind:LIST or interleave[:LIST], perhaps with "
		       ",fallback=remote, wait or fail behind it, and nodes that have memory; or "
		       "none";
	case EOPNOTSUPP:
		return "this mount cannot do that: with backing=thp it takes local, preferred and "
		       "interleave with fallback=small, with hugetlb anything but "
		       "fallback=small; or its names are on a tmpfs without extended attributes";
	case EPERM:
	case EACCES:
		return "who may not write to it may not say where its pages are to be";
	default:
		return strerror(error);
	}
}

static int open_path(const struct verb *verb, const char *path)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	struct hugefuse_ioc_mount mount;

	if (fd < 0) {
		cmd_fail(verb, EXIT_FAILED, "%s: %s", path, strerror(errno));
	} else if (ioctl(fd, HUGEFUSE_IOC_MOUNT, &mount) < 0) {
		close(fd);
		fd = -1;
		cmd_fail(verb, EXIT_FAILED,
			 "%s: it is not on a hugefuse mount; 'hugefuse stat' lists the mounts",
			 path);
	}
	return fd;
}

static int set(const struct verb *verb, const char *path, int fd, const char *text)
{
	int r;

	if (strcmp(text, "none") == 0) {
		r = fremovexattr(fd, XATTR);
		if (r < 0 && errno == ENODATA)
			r = 0;
	} else {
		r = fsetxattr(fd, XATTR, text, strlen(text), 0);
	}
	if (r < 0)
		return cmd_fail(verb, EXIT_FAILED, "%s: %s: %s", path, text, set_error(errno));
	return EXIT_OK;
}

static int read_rule(const struct verb *verb, const char *path, int fd,
		     struct numa_rule *ret_rule)
{
	char value[NUMA_RULE_TEXT_MAX];
	ssize_t len = fgetxattr(fd, XATTR, value, sizeof(value) - 1);

	*ret_rule = (struct numa_rule){NUMA_NONE, NUMA_FALLBACK_NONE, 0};
	if (len < 0 && (errno == ENODATA || errno == EOPNOTSUPP))
		return EXIT_OK;
	if (len < 0)
		return cmd_fail(verb, EXIT_FAILED, "%s: %s", path, strerror(errno));
	value[len] = '\0';
	if (numa_rule_parse(value, ret_rule) < 0)
		return cmd_fail(verb, EXIT_FAILED, "%s: its policy is not understood", path);
	return EXIT_OK;
}

static json_object *text_or_null(const char *text)
{
	return *text ? output_json_string(text) : NULL;
}

static void print_rule(const char *path, const struct numa_rule *rule, bool json)
{
	const char *fallback = numa_fallback_name(rule->fallback);
	struct numa_rule policy = *rule;
	char text[NUMA_RULE_TEXT_MAX];
	json_object *object;

	policy.fallback = NUMA_FALLBACK_NONE;
	numa_rule_print(&policy, text, sizeof(text));
	if (!json) {
		printf("policy    %s\n", *text ? text : "none");
		printf("fallback  %s\n", *fallback ? fallback : "none");
		return;
	}
	object = output_json_new();
	json_object_object_add(object, "path", output_json_string(path));
	json_object_object_add(object, "policy", text_or_null(text));
	json_object_object_add(object, "fallback", text_or_null(fallback));
	output_json_print(object);
}

int cmd_numa(const struct verb *verb, int argc, char **argv)
{
	static const struct option long_options[] = {
		{"json", no_argument, NULL, CMD_OPT_JSON},
		CMD_COMMON_OPTIONS,
	};
	int c, fd, exit_code = EXIT_OK;
	struct numa_rule rule;
	bool json = false;

	while ((c = cmd_getopt(verb, argc, argv, ":h", long_options, &exit_code)) != -1) {
		if (c == CMD_EXIT)
			return exit_code;
		json = true;
	}
	if (argc - optind < 1 || argc - optind > 2)
		return cmd_fail(verb, EXIT_USAGE,
				"a path is missing, or something is behind the policy; try "
				"'hugefuse numa --help'");
	fd = open_path(verb, argv[optind]);
	if (fd < 0)
		return EXIT_FAILED;
	if (argc - optind == 2)
		exit_code = set(verb, argv[optind], fd, argv[optind + 1]);
	if (exit_code == EXIT_OK && (json || argc - optind == 1)) {
		exit_code = read_rule(verb, argv[optind], fd, &rule);
		if (exit_code == EXIT_OK)
			print_rule(argv[optind], &rule, json);
	}
	close(fd);
	return exit_code;
}
