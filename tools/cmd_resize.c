/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hugefuse resize: another size for a mount's pool. The number is written to nr_hugepages and
 * has the kernel's meaning: as many pages as there is memory for, and pages that are in use
 * stay, as surplus, until they are freed. So the answer is read back.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/memparse.h"
#include "tools/cmd.h"
#include "tools/output.h"
#include "tools/resize.h"
#include "tools/snapshot.h"

static int parse_amount(const char *text, uint64_t bytes, uint64_t *ret_bytes)
{
	size_t length = strlen(text);
	uint64_t percent;
	char number[16];

	if (length < 2 || text[length - 1] != '%')
		return memparse_bytes(text, ret_bytes);
	if (length > sizeof(number))
		return -EINVAL;
	snprintf(number, sizeof(number), "%.*s", (int)length - 1, text);
	if (memparse_number(number, 10, 0, 1000000, &percent) < 0)
		return -EINVAL;
	*ret_bytes = (uint64_t)((double)bytes / 100 * (double)percent);
	return *ret_bytes > MEMPARSE_MAX_BYTES ? -ERANGE : 0;
}

int resize_parse(const char *text, uint64_t bytes, uint64_t *ret_bytes)
{
	char sign = *text == '+' || *text == '-' ? *text : '\0';
	uint64_t amount;
	int r;

	r = parse_amount(text + (sign ? 1 : 0), bytes, &amount);
	if (r < 0)
		return r;
	if (sign == '-' && amount > bytes)
		return -ERANGE;
	if (sign == '+' && amount > MEMPARSE_MAX_BYTES - bytes)
		return -ERANGE;
	*ret_bytes = sign == '+' ? bytes + amount : (sign == '-' ? bytes - amount : amount);
	return 0;
}

struct resize {
	const struct verb *verb;
	const char *mountpoint;
	int dir_fd;
	struct snapshot_pool before, after;
	uint64_t wanted; /* pages */
};

static int read_pool(const struct resize *resize, struct snapshot_pool *ret_pool)
{
	struct snapshot_error error;
	struct snapshot_pool *pools;

	if (snapshot_read_pools(resize->dir_fd, &pools, &error) < 0)
		return cmd_fail_at(resize->verb, resize->mountpoint, error.text);
	*ret_pool = pools[0];
	free(pools);
	return EXIT_OK;
}

/* 0 or -errno. */
static int write_number(int dir_fd, const char *name, uint64_t number)
{
	int fd = openat(dir_fd, name, O_WRONLY | O_CLOEXEC), r = 0;
	char text[32];

	if (fd < 0)
		return -errno;
	snprintf(text, sizeof(text), "%" PRIu64 "\n", number);
	if (write(fd, text, strlen(text)) < 0)
		r = -errno;
	close(fd);
	return r;
}

static int write_size(const struct resize *resize)
{
	uint64_t kb = resize->before.page_size >> 10;
	char name[80];
	int r;

	snprintf(name, sizeof(name), "hugepages-%" PRIu64 "kB/nr_hugepages", kb);
	r = write_number(resize->dir_fd, name, resize->wanted);
	if (r == 0)
		return EXIT_OK;
	if (r == -EOPNOTSUPP)
		return cmd_fail(
			resize->verb, EXIT_FAILED,
			"%s: this mount's pool cannot be resized; unmount it and mount it "
			"with another size=",
			resize->mountpoint);
	return cmd_fail(resize->verb, EXIT_FAILED, "%s/.hugefuse/%s: cannot be written: %s%s",
			resize->mountpoint, name, strerror(-r),
			r == -EACCES || r == -EPERM ? "; try it as root" : "");
}

static void print_json(const struct resize *resize)
{
	const struct snapshot_pool *after = &resize->after;
	json_object *root = output_json_new();

	json_object_object_add(root, "mountpoint", output_json_string(resize->mountpoint));
	json_object_object_add(root, "page_size", json_object_new_uint64(after->page_size));
	json_object_object_add(root, "before_bytes",
			       json_object_new_uint64(resize->before.nr * after->page_size));
	json_object_object_add(root, "wanted_bytes",
			       json_object_new_uint64(resize->wanted * after->page_size));
	json_object_object_add(root, "total_bytes",
			       json_object_new_uint64(after->nr * after->page_size));
	json_object_object_add(root, "surplus_bytes",
			       json_object_new_uint64(after->surplus * after->page_size));
	output_json_print(root);
}

static void print_text(const struct resize *resize)
{
	uint64_t page_size = resize->after.page_size;

	printf("%s: %s in %" PRIu64 " pages of %s, was %s\n", resize->mountpoint,
	       quantity_bytes(resize->after.nr * page_size).text, resize->after.nr,
	       quantity_bytes(page_size).text,
	       quantity_bytes(resize->before.nr * page_size).text);
}

/* What is to be said where it is not what was asked for. */
static int judge(const struct resize *resize)
{
	const struct snapshot_pool *after = &resize->after;
	uint64_t page_size = after->page_size;

	if (after->nr == resize->wanted)
		return EXIT_OK;
	if (after->nr < resize->wanted)
		return cmd_fail(
			resize->verb, EXIT_PARTIAL,
			"%s: got %s of %s: no more memory is free, or max_size= allows no "
			"more; free some, or mount it with a larger max_size=",
			resize->mountpoint, quantity_bytes(after->nr * page_size).text,
			quantity_bytes(resize->wanted * page_size).text);
	return cmd_fail(resize->verb, EXIT_PARTIAL,
			"%s: still %s instead of %s: pages that are in use or promised go when "
			"their users free them; 'hugefuse why %s' tells who they are",
			resize->mountpoint, quantity_bytes(after->nr * page_size).text,
			quantity_bytes(resize->wanted * page_size).text, resize->mountpoint);
}

static int resize_mount(struct resize *resize, const char *text, bool json)
{
	uint64_t page_size, bytes;
	int r;

	if (read_pool(resize, &resize->before) != EXIT_OK)
		return EXIT_FAILED;
	page_size = resize->before.page_size;
	if (page_size == 0)
		return cmd_fail(resize->verb, EXIT_FAILED, "%s: it has no pool",
				resize->mountpoint);
	r = resize_parse(text, (resize->before.nr - resize->before.surplus) * page_size,
			 &bytes);
	if (r == -ERANGE)
		return cmd_fail(resize->verb, EXIT_USAGE,
				"'%.100s' is out of range: the pool has %s", text,
				quantity_bytes(resize->before.nr * page_size).text);
	if (r < 0)
		return cmd_fail(
			resize->verb, EXIT_USAGE,
			"'%.100s' is no size; accepted are bytes with K, M, G, T, P or E, "
			"a percentage of the pool, and either after + or -",
			text);
	resize->wanted = bytes / page_size;
	r = write_size(resize);
	if (r != EXIT_OK || read_pool(resize, &resize->after) != EXIT_OK)
		return EXIT_FAILED;
	if (json)
		print_json(resize);
	else
		print_text(resize);
	return judge(resize);
}

/* Where "-64M" is, which getopt would take for options; @argc: nowhere. */
static int first_difference(int argc, char **argv)
{
	int i;

	for (i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--") == 0)
			return argc;
		if (argv[i][0] == '-' && argv[i][1] >= '0' && argv[i][1] <= '9')
			return i;
	}
	return argc;
}

int cmd_resize(const struct verb *verb, int argc, char **argv)
{
	static const struct option long_options[] = {
		{"json", no_argument, NULL, CMD_OPT_JSON},
		CMD_COMMON_OPTIONS,
	};
	struct resize resize = {.verb = verb};
	int c, exit_code, difference = first_difference(argc, argv);
	char *operand = difference < argc ? argv[difference] : NULL;
	struct snapshot_error error;
	bool json = false;

	/* out of getopt's sight, to the end */
	if (operand) {
		memmove(&argv[difference], &argv[difference + 1],
			sizeof(*argv) * (size_t)(argc - difference - 1));
		argv[--argc] = NULL;
	}
	while ((c = cmd_getopt(verb, argc, argv, ":h", long_options, &exit_code)) != -1) {
		if (c == CMD_EXIT)
			return exit_code;
		json = true;
	}
	if (argc - optind != (operand ? 1 : 2))
		return cmd_fail(verb, EXIT_USAGE, "a MOUNTPOINT and a SIZE are to be given");
	resize.mountpoint = argv[optind];
	resize.dir_fd = snapshot_open(resize.mountpoint, &error);
	if (resize.dir_fd < 0)
		return cmd_fail_at(verb, resize.mountpoint, error.text);
	exit_code = resize_mount(&resize, operand ? operand : argv[optind + 1], json);
	close(resize.dir_fd);
	return exit_code;
}
