/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Mountpoints, from paths and from /proc/self/mountinfo (proc(5) has its format).
 */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/escape.h"
#include "tools/mountpoint.h"

char *mountpoint_resolve(const char *path)
{
	char *copy, *slash, *parent, *result = NULL;
	size_t length;

	result = realpath(path, NULL);
	if (result || errno != ENOTCONN)
		return result;
	copy = strdup(path);
	if (!copy)
		return NULL;
	for (length = strlen(copy); length > 1 && copy[length - 1] == '/'; length--)
		copy[length - 1] = '\0';
	slash = strrchr(copy, '/');
	if (slash)
		*slash = '\0';
	parent = realpath(slash ? (slash == copy ? "/" : copy) : ".", NULL);
	if (parent && asprintf(&result, "%s/%s", strcmp(parent, "/") == 0 ? "" : parent,
			       slash ? slash + 1 : copy) < 0)
		result = NULL;
	free(parent);
	free(copy);
	return result;
}

char *mountpoint_absolute(const char *path)
{
	char *copy = strdup(path), *slash, *parent = NULL, *result = realpath(path, NULL);
	const char *rest;

	if (!copy || result) {
		free(copy);
		return result;
	}
	/* the longest part that is there, and the rest as it was given */
	while ((slash = strrchr(copy, '/')) != NULL && !parent) {
		*slash = '\0';
		parent = realpath(slash == copy ? "/" : copy, NULL);
	}
	if (!parent)
		parent = realpath(".", NULL);
	rest = path + strlen(copy);
	rest += strspn(rest, "/");
	if (!strchr(path, '/'))
		rest = path;
	if (parent &&
	    asprintf(&result, "%s/%s", strcmp(parent, "/") == 0 ? "" : parent, rest) < 0)
		result = NULL;
	free(parent);
	free(copy);
	return result;
}

/* Whether only another user gets in, not even root: FUSE without allow_other. */
static bool is_foreign(const char *super_options)
{
	const char *user = super_options ? strstr(super_options, "user_id=") : NULL;

	return user && strtoul(user + strlen("user_id="), NULL, 10) != geteuid() &&
	       !strstr(super_options, "allow_other");
}

/* "ID PARENT MAJ:MIN ROOT MOUNTPOINT OPTIONS TAG... - TYPE SOURCE SUPEROPTIONS" */
static int parse_line(char *line, struct mountpoint *ret_mount)
{
	char *save = NULL, *path = NULL, *type, *source, *word, *end;
	int i;

	end = strstr(line, " - ");
	if (!end)
		return 0;
	*end = '\0';
	word = strtok_r(line, " ", &save);
	for (i = 0; word; i++, word = strtok_r(NULL, " ", &save)) {
		if (i == 4)
			path = word;
	}
	save = NULL;
	type = strtok_r(end + 3, " \n", &save);
	source = strtok_r(NULL, " \n", &save);
	if (!path || !type || !source)
		return 0;
	if (strcmp(type, "fuse.hugefuse") != 0 && strcmp(type, "hugefuse") != 0)
		return 0;
	if (is_foreign(strtok_r(NULL, " \n", &save)))
		return 0;
	unescape(path);
	unescape(source);
	ret_mount->path = strdup(path);
	ret_mount->source = strdup(source);
	if (ret_mount->path && ret_mount->source)
		return 1;
	free(ret_mount->path);
	free(ret_mount->source);
	return -ENOMEM;
}

int mountpoint_list(const char *mountinfo, struct mountpoint **ret_list)
{
	struct mountpoint *list = NULL, *bigger, mount;
	FILE *file = fopen(mountinfo, "re");
	char *line = NULL;
	size_t size = 0;
	int count = 0, r = 0;

	if (!file)
		return -errno;
	while (getline(&line, &size, file) >= 0) {
		r = parse_line(line, &mount);
		if (r < 0)
			break;
		if (r == 0)
			continue;
		bigger = reallocarray(list, (size_t)count + 1, sizeof(*list));
		if (!bigger) {
			free(mount.path);
			free(mount.source);
			r = -ENOMEM;
			break;
		}
		list = bigger;
		list[count++] = mount;
	}
	if (r >= 0 && ferror(file))
		r = -EIO;
	free(line);
	fclose(file);
	if (r < 0) {
		mountpoint_list_free(list, count);
		return r;
	}
	*ret_list = list;
	return count;
}

void mountpoint_list_free(struct mountpoint *list, int count)
{
	int i;

	for (i = 0; i < count; i++) {
		free(list[i].path);
		free(list[i].source);
	}
	free(list);
}
