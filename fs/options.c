/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Mount options. What hugetlbfs has too is read as fs/hugetlbfs/inode.c and memparse() read it,
 * but strictly: text after the number, a second %, an overflow or a value out of range is an
 * error here, where the kernel would take what it understood of it.
 *
 * A list is applied to a copy, which takes the place of the caller's options only when all of
 * it was understood. No locks: options are read before there is a second thread and constant
 * then.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/memparse.h"
#include "fs/options.h"
#include "fs/options_numa.h"
#include "fs/options_policy.h"

#define PAGESIZE_2M       (UINT64_C(2) << 20)
#define PAGESIZE_1G       (UINT64_C(1) << 30)
#define AHEAD_ON_BYTES    (UINT64_C(32) << 20)
#define MAX_MODE          01777
#define MAX_FAULT_MUTEXES (1u << 20)
#define MAX_FAULT_THREADS 256
#define WAIT_FOR_EVER     UINT64_MAX

/* ---- one setter per option with a value: 0, -EINVAL (malformed) or -ERANGE ---- */

int options_parse_size(const char *value, struct option_size *ret_size)
{
	const char *rest;
	uint64_t number;
	int r;

	r = memparse_size(value, &rest, &number);
	if (r < 0)
		return r;
	if (strcmp(rest, "%") == 0) {
		if (number > 100)
			return -ERANGE;
		*ret_size = (struct option_size){
			.bytes = OPTIONS_SIZE_UNSET,
			.percent = (uint32_t)number,
			.is_percent = true,
		};
		return 0;
	}
	r = memparse_bytes(value, &number);
	if (r < 0)
		return r;
	*ret_size = (struct option_size){.bytes = number};
	return 0;
}

static int set_backing(struct mount_options *options, const char *value)
{
	if (strcmp(value, "auto") == 0)
		options->backing = BACKING_AUTO;
	else if (strcmp(value, "hugetlb") == 0)
		options->backing = BACKING_HUGETLB;
	else if (strcmp(value, "thp") == 0)
		options->backing = BACKING_THP;
	else
		return -EINVAL;
	return 0;
}

static int set_pagesize(struct mount_options *options, const char *value)
{
	uint64_t bytes;
	int r;

	r = memparse_bytes(value, &bytes);
	if (r < 0)
		return r;
	if (bytes != PAGESIZE_2M && bytes != PAGESIZE_1G)
		return -ERANGE;
	options->pagesize = bytes;
	return 0;
}

static int set_size(struct mount_options *options, const char *value)
{
	if (strchr(value, ':'))
		return options_set_node_sizes(options, value);
	return options_parse_size(value, &options->size);
}

static int set_min_size(struct mount_options *options, const char *value)
{
	return options_parse_size(value, &options->min_size);
}

static int set_max_size(struct mount_options *options, const char *value)
{
	return options_parse_size(value, &options->max_size);
}

static int set_nr_inodes(struct mount_options *options, const char *value)
{
	return memparse_bytes(value, &options->nr_inodes);
}

static int set_uid(struct mount_options *options, const char *value)
{
	uint64_t id;
	int r;

	r = memparse_number(value, 0, 0, UINT32_MAX - 1, &id);
	if (r < 0)
		return r;
	options->uid = (uid_t)id;
	return 0;
}

static int set_gid(struct mount_options *options, const char *value)
{
	uint64_t id;
	int r;

	r = memparse_number(value, 0, 0, UINT32_MAX - 1, &id);
	if (r < 0)
		return r;
	options->gid = (gid_t)id;
	return 0;
}

static int set_mode(struct mount_options *options, const char *value)
{
	uint64_t mode;
	int r;

	r = memparse_number(value, 8, 0, MAX_MODE, &mode);
	if (r < 0)
		return r;
	options->mode = (mode_t)mode;
	return 0;
}

static int set_fault_mutexes(struct mount_options *options, const char *value)
{
	uint64_t number, rounded = 1;
	int r;

	r = memparse_number(value, 0, 1, MAX_FAULT_MUTEXES, &number);
	if (r < 0)
		return r;
	while (rounded < number)
		rounded <<= 1;
	options->fault_mutexes = (uint32_t)rounded;
	return 0;
}

static int set_region_lock(struct mount_options *options, const char *value)
{
	if (strcmp(value, "inode") == 0)
		options->region_lock_global = false;
	else if (strcmp(value, "global") == 0)
		options->region_lock_global = true;
	else
		return -EINVAL;
	return 0;
}

static int set_fault_threads(struct mount_options *options, const char *value)
{
	uint64_t number;
	int r;

	r = memparse_number(value, 0, 1, MAX_FAULT_THREADS, &number);
	if (r < 0)
		return r;
	options->fault_threads = (uint32_t)number;
	return 0;
}

static int set_ahead(struct mount_options *options, const char *value)
{
	if (strcmp(value, "off") == 0)
		options->ahead_bytes = 0;
	else if (strcmp(value, "on") == 0)
		options->ahead_bytes = AHEAD_ON_BYTES;
	else
		return memparse_bytes(value, &options->ahead_bytes);
	return 0;
}

static int set_plain(struct mount_options *options, const char *value)
{
	if (strcmp(value, "auto") == 0)
		options->plain = PLAIN_AUTO;
	else if (strcmp(value, "deny") == 0)
		options->plain = PLAIN_DENY;
	else if (strcmp(value, "cached") == 0)
		options->plain = PLAIN_CACHED;
	else
		return -EINVAL;
	return 0;
}

static int set_on_exhausted(struct mount_options *options, const char *value)
{
	uint64_t seconds = WAIT_FOR_EVER;
	int r;

	if (strcmp(value, "sigbus") == 0) {
		options->on_exhausted = ON_EXHAUSTED_SIGBUS;
		options->wait_seconds = WAIT_FOR_EVER;
		return 0;
	}
	if (strncmp(value, "wait", 4) != 0 || (value[4] != '\0' && value[4] != '='))
		return -EINVAL;
	if (value[4] == '=') {
		r = memparse_number(value + 5, 0, 1, UINT32_MAX, &seconds);
		if (r < 0)
			return r;
	}
	options->on_exhausted = ON_EXHAUSTED_WAIT;
	options->wait_seconds = seconds;
	return 0;
}

static int set_text(char **text, const char *value)
{
	char *copy;

	if (*value == '\0')
		return -EINVAL;
	copy = strdup(value);
	if (!copy)
		return -ENOMEM;
	free(*text);
	*text = copy;
	return 0;
}

static int set_fsname(struct mount_options *options, const char *value)
{
	return set_text(&options->fsname, value);
}

static int set_source(struct mount_options *options, const char *value)
{
	return set_text(&options->source, value);
}

/* ---- the table ---- */

/*
 * Options of one group exclude each other and themselves. The generic flags have a group each:
 * mount(8) appends what it derives ("user" gives noexec), and there the last one of two
 * opposites wins. GROUP_NONE may be repeated.
 */
enum option_group {
	GROUP_NONE,
	GROUP_BACKING,
	GROUP_PAGESIZE,
	GROUP_SIZE,
	GROUP_MIN_SIZE,
	GROUP_MAX_SIZE,
	GROUP_NR_INODES,
	GROUP_UID,
	GROUP_GID,
	GROUP_MODE,
	GROUP_FAULT_MUTEXES,
	GROUP_REGION_LOCK,
	GROUP_FAULT_THREADS,
	GROUP_AHEAD,
	GROUP_ON_EXHAUSTED,
	GROUP_PLAIN,
	GROUP_SPLIT_QUEUE,
	GROUP_SPLIT_MARKS,
	GROUP_LOCKSTAT,
	GROUP_CONFINE,
	GROUP_NUMA,
	GROUP_FALLBACK,
	GROUP_AVAIL_MASK,
	GROUP_ALLOC_SLEEP_MS,
	GROUP_FSNAME,
	GROUP_SOURCE,
	GROUP_ALLOW_OTHER,
	GROUP_RO,
	GROUP_RW,
	GROUP_NOSUID,
	GROUP_SUID,
	GROUP_NODEV,
	GROUP_DEV,
	GROUP_NOEXEC,
	GROUP_EXEC,
	GROUP_NOATIME,
	GROUP_ATIME,
	GROUP_RELATIME,
	NR_OPTION_GROUPS,
};

_Static_assert(NR_OPTION_GROUPS <= 64, "mount_options.given has a bit per group");

enum option_kind {
	OPTION_VALUE,  /* name=value, through set() */
	OPTION_FLAG,   /* name, sets the bool at flag_offset */
	OPTION_IGNORE, /* for mount(8) and systemd; with or without a value */
};

struct option_spec {
	const char *name;
	enum option_group group;
	enum option_kind kind;
	int (*set)(struct mount_options *options, const char *value);
	const char *accepted;
	size_t flag_offset;
	bool flag_value;
};

#define SIZE_SYNTAX "a number of bytes, with K, M, G, T, P or E for powers of 1024"
#define VALUE(option_name, option_group, setter, text)                            \
	{                                                                         \
		.name = option_name, .group = option_group, .kind = OPTION_VALUE, \
		.set = setter, .accepted = text                                   \
	}
#define FLAG(option_name, option_group, field, value)                                     \
	{                                                                                 \
		.name = option_name, .group = option_group, .kind = OPTION_FLAG,          \
		.flag_offset = offsetof(struct mount_options, field), .flag_value = value \
	}
#define IGNORE(option_name)                                                     \
	{                                                                       \
		.name = option_name, .group = GROUP_NONE, .kind = OPTION_IGNORE \
	}

static const struct option_spec option_table[] = {
	VALUE("backing", GROUP_BACKING, set_backing, "auto, hugetlb or thp"),
	VALUE("pagesize", GROUP_PAGESIZE, set_pagesize, "2M or 1G"),
	VALUE("size", GROUP_SIZE, set_size,
	      SIZE_SYNTAX ", or 0% to 100% of the pool, or NODE:SIZE,NODE:SIZE..."),
	VALUE("min_size", GROUP_MIN_SIZE, set_min_size,
	      SIZE_SYNTAX ", or 0% to 100% of the pool"),
	VALUE("max_size", GROUP_MAX_SIZE, set_max_size,
	      SIZE_SYNTAX ", or 0% to 100% of the pool"),
	VALUE("nr_inodes", GROUP_NR_INODES, set_nr_inodes,
	      "a number, K, M or G as for size; 0: no limit"),
	VALUE("uid", GROUP_UID, set_uid, "a number from 0 to 4294967294"),
	VALUE("gid", GROUP_GID, set_gid, "a number from 0 to 4294967294"),
	VALUE("mode", GROUP_MODE, set_mode, "an octal number from 0 to 1777"),
	VALUE("fault_mutexes", GROUP_FAULT_MUTEXES, set_fault_mutexes,
	      "a number from 1 to 1048576 (it is rounded up to a power of two)"),
	VALUE("region_lock", GROUP_REGION_LOCK, set_region_lock, "inode or global"),
	VALUE("fault_threads", GROUP_FAULT_THREADS, set_fault_threads,
	      "a number from 1 to 256"),
	VALUE("ahead", GROUP_AHEAD, set_ahead, "off, on (32M), or " SIZE_SYNTAX),
	VALUE("on_exhausted", GROUP_ON_EXHAUSTED, set_on_exhausted,
	      "sigbus, wait, or wait=SECONDS with 1 to 4294967295 seconds"),
	VALUE("plain", GROUP_PLAIN, set_plain, "auto, deny or cached"),
	VALUE("split_queue", GROUP_SPLIT_QUEUE, options_set_split_queue,
	      "off, global, tenant or tenant-node"),
	VALUE("split_marks", GROUP_SPLIT_MARKS, options_set_split_marks,
	      "two numbers from 0 to 100, LOW:HIGH, of which the first is not more"),
	VALUE("numa", GROUP_NUMA, options_set_numa,
	      "local, preferred:N, bind:LIST or interleave[:LIST]"),
	VALUE("fallback", GROUP_FALLBACK, options_set_fallback, "remote, small, wait or fail"),
	VALUE("avail_mask", GROUP_AVAIL_MASK, options_set_avail_mask, "on or off"),
	VALUE("alloc_sleep_ms", GROUP_ALLOC_SLEEP_MS, options_set_alloc_sleep_ms,
	      "a number from 1 to 3600000"),
	VALUE("fsname", GROUP_FSNAME, set_fsname, "a name"),
	VALUE("source", GROUP_SOURCE, set_source, "a directory on hugetlbfs or tmpfs"),
	FLAG("lockstat", GROUP_LOCKSTAT, lockstat, true),
	FLAG("nolockstat", GROUP_LOCKSTAT, lockstat, false),
	FLAG("confine", GROUP_CONFINE, confine, true),
	FLAG("noconfine", GROUP_CONFINE, confine, false),
	FLAG("allow_other", GROUP_ALLOW_OTHER, allow_other, true),
	FLAG("ro", GROUP_RO, ro, true),
	FLAG("rw", GROUP_RW, ro, false),
	FLAG("nosuid", GROUP_NOSUID, nosuid, true),
	FLAG("suid", GROUP_SUID, nosuid, false),
	FLAG("nodev", GROUP_NODEV, nodev, true),
	FLAG("dev", GROUP_DEV, nodev, false),
	FLAG("noexec", GROUP_NOEXEC, noexec, true),
	FLAG("exec", GROUP_EXEC, noexec, false),
	FLAG("noatime", GROUP_NOATIME, noatime, true),
	FLAG("atime", GROUP_ATIME, noatime, false),
	FLAG("relatime", GROUP_RELATIME, noatime, false),
	IGNORE("defaults"),
	IGNORE("async"),
	IGNORE("auto"),
	IGNORE("noauto"),
	IGNORE("nofail"),
	IGNORE("_netdev"),
	IGNORE("user"),
	IGNORE("nouser"),
	IGNORE("users"),
	IGNORE("nousers"),
	IGNORE("owner"),
	IGNORE("noowner"),
	IGNORE("group"),
	IGNORE("nogroup"),
	IGNORE("comment"),
	/* What the kernel adds to the mount's line in /proc/mounts. */
	IGNORE("user_id"),
	IGNORE("group_id"),
	IGNORE("default_permissions"),
	IGNORE("max_read"),
	IGNORE("blksize"),
};

static const struct option_spec *find_option(const char *name)
{
	static const struct option_spec comment = IGNORE("x-*");
	size_t i;

	if ((name[0] == 'x' || name[0] == 'X') && name[1] == '-')
		return &comment;
	for (i = 0; i < sizeof(option_table) / sizeof(option_table[0]); i++) {
		if (strcmp(option_table[i].name, name) == 0)
			return &option_table[i];
	}
	return NULL;
}

bool options_is_given(const struct mount_options *options, const char *name)
{
	const struct option_spec *spec = find_option(name);

	return spec && options->given & (UINT64_C(1) << spec->group);
}

/* ---- parsing ---- */

/* What the user wrote, fit for one line of an error message. */
struct excerpt {
	char text[64];
};

static struct excerpt make_excerpt(const char *text)
{
	struct excerpt excerpt;
	const size_t max = sizeof(excerpt.text) - sizeof("...");
	size_t i;

	for (i = 0; i < max && text[i] != '\0'; i++) {
		unsigned char c = (unsigned char)text[i];

		excerpt.text[i] = c < 0x20 || c == 0x7f ? '?' : (char)c;
	}
	strcpy(excerpt.text + i, text[i] != '\0' ? "..." : "");
	return excerpt;
}

static void __attribute__((format(printf, 3, 4)))
put_error(char *error, size_t error_size, const char *format, ...)
{
	va_list args;

	if (error_size == 0)
		return;
	va_start(args, format);
	vsnprintf(error, error_size, format, args);
	va_end(args);
}

static void put_unknown(const char *name, char *error, size_t error_size)
{
	char known[512] = "";
	size_t i, length = 0;

	for (i = 0; i < sizeof(option_table) / sizeof(option_table[0]); i++) {
		if (option_table[i].kind == OPTION_IGNORE || length >= sizeof(known))
			continue;
		length += (size_t)snprintf(known + length, sizeof(known) - length, "%s%s%s",
					   length ? ", " : "", option_table[i].name,
					   option_table[i].kind == OPTION_VALUE ? "=" : "");
	}
	put_error(error, error_size, "unknown option '%s'; accepted are %s",
		  make_excerpt(name).text, known);
}

static int apply_value(struct mount_options *options, const struct option_spec *spec,
		       const char *value, char *error, size_t error_size)
{
	int r;

	if (!value) {
		put_error(error, error_size, "option '%s' lacks a value; accepted is %s=: %s",
			  spec->name, spec->name, spec->accepted);
		return -EINVAL;
	}
	r = spec->set(options, value);
	if (r == -ENOMEM)
		put_error(error, error_size, "option '%s': out of memory", spec->name);
	else if (r < 0)
		put_error(error, error_size, "option '%s=%s': the value is %s; accepted is %s",
			  spec->name, make_excerpt(value).text,
			  r == -ERANGE ? "out of range" : "malformed", spec->accepted);
	return r < 0 ? -EINVAL : 0;
}

/* Apply one option; @item is "name" or "name=value" and is taken apart. */
static int apply_option(struct mount_options *options, char *item, char *error,
			size_t error_size)
{
	const struct option_spec *spec;
	char *value = strchr(item, '=');

	if (value)
		*value++ = '\0';
	spec = find_option(item);
	if (!spec) {
		put_unknown(item, error, error_size);
		return -EINVAL;
	}
	if (spec->group != GROUP_NONE && options->given & (UINT64_C(1) << spec->group)) {
		put_error(
			error, error_size,
			"option '%s%s%s': it or its opposite was given before; accepted is one",
			item, value ? "=" : "", value ? make_excerpt(value).text : "");
		return -EINVAL;
	}
	if (spec->group != GROUP_NONE)
		options->given |= UINT64_C(1) << spec->group;
	if (spec->kind == OPTION_IGNORE)
		return 0;
	if (spec->kind == OPTION_VALUE)
		return apply_value(options, spec, value, error, error_size);
	if (value) {
		put_error(error, error_size, "option '%s=%s' takes no value; accepted is %s",
			  spec->name, make_excerpt(value).text, spec->name);
		return -EINVAL;
	}
	*(bool *)((char *)options + spec->flag_offset) = spec->flag_value;
	return 0;
}

/*
 * Whether a comma is part of the item: lists of nodes have them, and no option begins with a
 * digit.
 */
static bool goes_on(const char *item, const char *comma)
{
	return comma[1] >= '0' && comma[1] <= '9' &&
	       (strncmp(item, "size=", 5) == 0 || strncmp(item, "numa=", 5) == 0);
}

/* Cut the next item off *@cursor, with "\," and "\\" replaced by what they stand for; or NULL.
 */
static char *next_item(char **cursor)
{
	char *item = *cursor, *from = item, *to = item;

	if (*from == '\0')
		return NULL;
	while (*from != '\0' && (*from != ',' || goes_on(item, from))) {
		if (from[0] == '\\' && (from[1] == ',' || from[1] == '\\'))
			from++;
		*to++ = *from++;
	}
	*cursor = *from == ',' ? from + 1 : from;
	*to = '\0';
	return item;
}

/* The texts of @options are the copy's own. */
static bool copy_texts(struct mount_options *copy, const struct mount_options *options)
{
	copy->fsname = options->fsname ? strdup(options->fsname) : NULL;
	copy->source = options->source ? strdup(options->source) : NULL;
	return !options->fsname == !copy->fsname && !options->source == !copy->source;
}

int options_parse(struct mount_options *options, const char *list, char *error,
		  size_t error_size)
{
	struct mount_options copy = *options;
	char *text, *cursor, *item;
	int r = 0;

	text = strdup(list);
	if (!copy_texts(&copy, options) || !text) {
		put_error(error, error_size, "options: out of memory");
		r = -EINVAL;
		goto out_free;
	}
	cursor = text;
	while (r == 0 && (item = next_item(&cursor)) != NULL) {
		if (*item != '\0') /* as in the kernel, ",," is no error */
			r = apply_option(&copy, item, error, error_size);
	}
	if (r == 0) {
		struct mount_options old = *options;

		*options = copy;
		copy = old;
	}
out_free:
	options_deinit(&copy);
	free(text);
	return r;
}
