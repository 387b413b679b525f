/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hugefuse quota: what a directory, and all below it, may use of a mount. Underneath is an
 * extended attribute of the directory.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "hugefuse_protocol.h"
#include "tools/cmd.h"
#include "tools/escape.h"
#include "tools/output.h"
#include "tools/quota.h"

#define XATTR      "user.hugefuse.quota"
#define FUSE_MAGIC 0x65735546
#define VALUE_SIZE 512

/* What an error of setxattr(2) means here, and what to do. */
static const char *set_error(int error)
{
	switch (error) {
	case EINVAL:
		return "it takes size=SIZE and min_size=SIZE, of at least a page, with size not "
		       "less than min_size; SIZE is as in the mount options, or none";
	case ENOTEMPTY:
		return "it is not empty; a quota begins with an empty directory: make one, set "
		       "its quota, and move the files there";
	case ENOSPC:
		return "min_size cannot be set aside: the mount, or the directory with a quota "
		       "that this one is in, has not so much left; 'hugefuse stat' shows what "
		       "is free";
	case EPERM:
	case EACCES:
		return "only root, the mount's owner (uid=) or who has CAP_SYS_RESOURCE may set "
		       "a quota";
	case ENOTDIR:
		return "it is no directory";
	case EOPNOTSUPP:
		return "the mount itself has the size= and min_size= that it was mounted with";
	default:
		return strerror(error);
	}
}

static const char *get_error(int error)
{
	switch (error) {
	case ENODATA:
		return "it has no quota of its own; 'hugefuse quota PATH size=SIZE' sets one, of "
		       "an empty directory";
	case EACCES:
		return "who may not read the directory may not read its quota";
	default:
		return strerror(error);
	}
}

/* A descriptor of the directory; elsewhere than on a mount the attribute would just be stored.
 */
static int open_dir(const struct verb *verb, const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct hugefuse_ioc_mount mount;

	if (fd < 0) {
		cmd_fail(verb, EXIT_FAILED, "%s: %s", path,
			 errno == ENOTDIR ? set_error(errno) : get_error(errno));
	} else if (ioctl(fd, HUGEFUSE_IOC_MOUNT, &mount) < 0) {
		close(fd);
		fd = -1;
		cmd_fail(verb, EXIT_FAILED,
			 "%s: it is not on a hugefuse mount; 'hugefuse stat' lists the mounts",
			 path);
	}
	return fd;
}

static int read_quota(const struct verb *verb, const char *path, int fd,
		      struct quota *ret_quota)
{
	char value[VALUE_SIZE];
	ssize_t len = fgetxattr(fd, XATTR, value, sizeof(value) - 1);

	if (len < 0)
		return cmd_fail(verb, EXIT_FAILED, "%s: %s", path, get_error(errno));
	value[len] = '\0';
	if (quota_parse(value, ret_quota) < 0)
		return cmd_fail(verb, EXIT_FAILED, "%s: its quota is not understood", path);
	return EXIT_OK;
}

static void print_quota(const struct quota *quota)
{
	printf("size      %s\n", quota->has_size ? quantity_bytes(quota->size).text : "none");
	printf("min_size  %s\n", quantity_bytes(quota->min_size).text);
	printf("used      %s\n", quantity_bytes(quota->used).text);
	printf("reserved  %s\n", quantity_bytes(quota->reserved).text);
	printf("files     %s\n", quantity_count(quota->files).text);
	printf("refused   %s\n", quantity_count(quota->refused).text);
}

static int show(const struct verb *verb, const char *path, int fd, bool json)
{
	struct quota quota = {0};
	json_object *object;
	int exit_code = read_quota(verb, path, fd, &quota);

	if (exit_code != EXIT_OK)
		return exit_code;
	if (!json) {
		print_quota(&quota);
		return EXIT_OK;
	}
	object = output_json_new();
	json_object_object_add(object, "path", output_json_string(path));
	quota_add_json(object, &quota);
	output_json_print(object);
	return EXIT_OK;
}

static int set(const struct verb *verb, const char *path, int fd, const char *list)
{
	if (fsetxattr(fd, XATTR, list, strlen(list), 0) < 0)
		return cmd_fail(verb, EXIT_FAILED, "%s: %s: %s", path, list, set_error(errno));
	return EXIT_OK;
}

int cmd_quota(const struct verb *verb, int argc, char **argv)
{
	static const struct option long_options[] = {
		{"json", no_argument, NULL, CMD_OPT_JSON},
		CMD_COMMON_OPTIONS,
	};
	int c, fd, exit_code = EXIT_OK;
	const char *path;
	bool json = false;

	while ((c = cmd_getopt(verb, argc, argv, ":h", long_options, &exit_code)) != -1) {
		if (c == CMD_EXIT)
			return exit_code;
		json = true;
	}
	if (argc - optind < 1 || argc - optind > 2)
		return cmd_fail(verb, EXIT_USAGE,
				"a directory is missing, or something is behind "
				"size=SIZE,min_size=SIZE; try 'hugefuse quota --help'");
	path = argv[optind];
	fd = open_dir(verb, path);
	if (fd < 0)
		return EXIT_FAILED;
	if (argc - optind == 2)
		exit_code = set(verb, path, fd, argv[optind + 1]);
	if (exit_code == EXIT_OK && (json || argc - optind == 1))
		exit_code = show(verb, path, fd, json);
	close(fd);
	return exit_code;
}
