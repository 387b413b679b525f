/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Quotas as extended attributes. Nothing of it is in names/: the tenant knows. The kernel has
 * checked that the caller may write the directory's attributes, and keeps the directory from
 * changing until the reply; what more is asked of who sets a quota is checked here.
 */
#include "fs/fuse_quota.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>

#include "fs/caller.h"
#include "fs/fuse_request.h"
#include "fs/options.h"
#include "fs/tenant.h"

#define PREFIX        "user.hugefuse."
#define NAME_SIZE     PREFIX "size"
#define NAME_MIN_SIZE PREFIX "min_size"
#define NAME_QUOTA    PREFIX "quota"

/* Limits in pages, or TENANT_KEEP. */
struct quota {
	int64_t max, min;
};

static const struct quota keep_all = {TENANT_KEEP, TENANT_KEEP};

bool quota_is_xattr(const char *name)
{
	return strncmp(name, PREFIX, strlen(PREFIX)) == 0;
}

static bool may_set(fuse_req_t req)
{
	const struct fuse_ctx *caller = fuse_req_ctx(req);

	return caller->uid == 0 || caller->uid == request_mount(req)->options->uid ||
	       caller_has_capability(caller->pid, CAP_SYS_RESOURCE);
}

/* A size as in the mount options, in pages and rounded down to them. -EINVAL, -ERANGE. */
static int parse_pages(struct mount *mount, struct inode *dir, const char *text,
		       int64_t *ret_pages)
{
	struct option_size size;
	int r = options_parse_size(text, &size);

	if (r < 0)
		return r;
	if (size.is_percent)
		*ret_pages = tenant_size_around(mount, dir) * size.percent / 100;
	else
		*ret_pages = (int64_t)(size.bytes / mount->backing->page_size);
	/* Less than a page is nothing, which is not what was asked for. */
	return *ret_pages == 0 && strcmp(text, "0") != 0 ? -EINVAL : 0;
}

static int parse_max(struct mount *mount, struct inode *dir, const char *text, int64_t *ret_max)
{
	int r;

	if (strcmp(text, "none") == 0) {
		*ret_max = SUBPOOL_NO_LIMIT;
		return 0;
	}
	r = parse_pages(mount, dir, text, ret_max);
	return r == 0 && *ret_max == 0 ? -EINVAL : r;
}

static int parse_min(struct mount *mount, struct inode *dir, const char *text, int64_t *ret_min)
{
	if (strcmp(text, "none") == 0)
		text = "0";
	return parse_pages(mount, dir, text, ret_min);
}

/* "size=4G,min_size=1G", in any order, each once at most and one at least. */
static int parse_list(struct mount *mount, struct inode *dir, char *list,
		      struct quota *ret_quota)
{
	struct quota quota = keep_all;
	char *item, *save = NULL;
	int r = *list ? 0 : -EINVAL;

	for (item = strtok_r(list, ",", &save); item && r == 0;
	     item = strtok_r(NULL, ",", &save)) {
		if (strncmp(item, "size=", 5) == 0 && quota.max == TENANT_KEEP)
			r = parse_max(mount, dir, item + 5, &quota.max);
		else if (strncmp(item, "min_size=", 9) == 0 && quota.min == TENANT_KEEP)
			r = parse_min(mount, dir, item + 9, &quota.min);
		else
			r = -EINVAL;
	}
	*ret_quota = quota;
	return r;
}

static int parse(struct mount *mount, struct inode *dir, const char *name, const char *value,
		 size_t size, struct quota *ret_quota)
{
	char text[QUOTA_VALUE_MAX];

	*ret_quota = keep_all;
	if (size >= sizeof(text) || memchr(value, '\0', size))
		return -EINVAL;
	memcpy(text, value, size);
	text[size] = '\0';
	if (strcmp(name, NAME_QUOTA) == 0)
		return parse_list(mount, dir, text, ret_quota);
	if (strcmp(name, NAME_SIZE) == 0)
		return parse_max(mount, dir, text, &ret_quota->max);
	return parse_min(mount, dir, text, &ret_quota->min);
}

static bool is_known(const char *name)
{
	return strcmp(name, NAME_QUOTA) == 0 || strcmp(name, NAME_SIZE) == 0 ||
	       strcmp(name, NAME_MIN_SIZE) == 0;
}

int quota_set(fuse_req_t req, struct inode *inode, const char *name, const char *value,
	      size_t size, int flags)
{
	struct mount *mount = request_mount(req);
	char old[QUOTA_VALUE_MAX];
	struct quota quota;
	int r;

	if (!is_known(name))
		return -EOPNOTSUPP;
	if (!may_set(req))
		return -EPERM;
	if (flags) {
		bool exists = quota_get(mount, inode, name, old) >= 0;

		if (exists && flags & XATTR_CREATE)
			return -EEXIST;
		if (!exists && flags & XATTR_REPLACE)
			return -ENODATA;
	}
	if (!S_ISDIR(inode->type))
		return -ENOTDIR;
	r = parse(mount, inode, name, value, size, &quota);
	return r < 0 ? -EINVAL : tenant_set(mount, inode, quota.max, quota.min);
}

int quota_remove(fuse_req_t req, struct inode *inode, const char *name)
{
	struct mount *mount = request_mount(req);
	char old[QUOTA_VALUE_MAX];
	ssize_t len = quota_get(mount, inode, name, old);

	if (len < 0)
		return (int)len;
	if (!may_set(req))
		return -EPERM;
	return tenant_set(mount, inode,
			  strcmp(name, NAME_MIN_SIZE) ? SUBPOOL_NO_LIMIT : TENANT_KEEP,
			  strcmp(name, NAME_SIZE) ? 0 : TENANT_KEEP);
}

/* In the largest unit that it is a whole number of. */
static int print_size(char value[QUOTA_VALUE_MAX], uint64_t bytes)
{
	static const char units[] = "KMGTPE";
	size_t unit = 0;

	if (bytes == 0 || bytes % 1024)
		return snprintf(value, QUOTA_VALUE_MAX, "%" PRIu64, bytes);
	bytes /= 1024;
	while (bytes % 1024 == 0 && units[unit + 1]) {
		bytes /= 1024;
		unit++;
	}
	return snprintf(value, QUOTA_VALUE_MAX, "%" PRIu64 "%c", bytes, units[unit]);
}

/* Pages as bytes, or "none". */
static const char *print_bytes(const struct mount *mount, int64_t pages, char buf[24])
{
	if (pages == SUBPOOL_NO_LIMIT)
		return "none";
	snprintf(buf, 24, "%" PRIu64, (uint64_t)pages * mount->backing->page_size);
	return buf;
}

static int print_quota(const struct mount *mount, const struct subpool_reading *reading,
		       char value[QUOTA_VALUE_MAX])
{
	const struct subpool_counts *counts = &reading->counts;
	char max[24], min[24], used[24], resv[24];

	return snprintf(
		value, QUOTA_VALUE_MAX,
		"size=%s,min_size=%s,used=%s,reserved=%s,files=%" PRId64 ",refused=%" PRIu64,
		print_bytes(mount, counts->max, max), print_bytes(mount, counts->min, min),
		print_bytes(mount, counts->used, used), print_bytes(mount, counts->resv, resv),
		reading->nr_files, reading->nr_refused);
}

ssize_t quota_get(struct mount *mount, struct inode *inode, const char *name,
		  char value[QUOTA_VALUE_MAX])
{
	const struct subpool_counts *counts;
	uint64_t page_size = mount->backing->page_size;
	struct tenant_info info;
	int r;

	if (!is_known(name) || !S_ISDIR(inode->type))
		return -ENODATA;
	r = tenant_read(mount, inode, &info);
	if (r < 0)
		return r;
	counts = &info.reading.counts;
	if (strcmp(name, NAME_QUOTA) == 0)
		return print_quota(mount, &info.reading, value);
	if (strcmp(name, NAME_SIZE) == 0 && counts->max != SUBPOOL_NO_LIMIT)
		return print_size(value, (uint64_t)counts->max * page_size);
	if (strcmp(name, NAME_MIN_SIZE) == 0 && counts->min > 0)
		return print_size(value, (uint64_t)counts->min * page_size);
	return -ENODATA;
}

size_t quota_list(struct mount *mount, struct inode *inode, char *list, size_t len, size_t size)
{
	static const char *const names[] = {NAME_SIZE, NAME_MIN_SIZE};
	char value[QUOTA_VALUE_MAX];

	/* The mount's own are its options. */
	if (inode->ino == mount->inodes.root_ino)
		return len;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t name_len = strlen(names[i]) + 1;

		if (len + name_len > size || quota_get(mount, inode, names[i], value) < 0)
			continue;
		memcpy(list + len, names[i], name_len);
		len += name_len;
	}
	return len;
}
