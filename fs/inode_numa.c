/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Rules of files and directories. Where nobody has ever set one, nothing is asked. */
#include "fs/inode_numa.h"

#include <errno.h>
#include <string.h>
#include <sys/xattr.h>

#include "fs/backing_thp.h"
#include "fs/mount.h"
#include "fs/mount_numa.h"
#include "fs/numa_policy.h"

static const struct numa_rule no_rule = {NUMA_NONE, NUMA_FALLBACK_NONE, 0};

/* The text of an attribute is not terminated. */
static int parse(const char *value, size_t size, struct numa_rule *ret_rule)
{
	char text[NUMA_RULE_TEXT_MAX];

	if (size >= sizeof(text) || memchr(value, '\0', size))
		return -EINVAL;
	memcpy(text, value, size);
	text[size] = '\0';
	return numa_rule_parse(text, ret_rule) < 0 ? -EINVAL : 0;
}

static ssize_t read_value(struct inode *inode, char value[NUMA_RULE_TEXT_MAX])
{
	char path[INODE_FD_PATH_SIZE];
	ssize_t len;

	inode_fd_path(inode, path);
	len = getxattr(path, INODE_NUMA_XATTR, value, NUMA_RULE_TEXT_MAX);
	return len < 0 ? -errno : len;
}

static int write_value(struct inode *inode, const char *value, size_t size, int flags)
{
	char path[INODE_FD_PATH_SIZE];

	inode_fd_path(inode, path);
	return setxattr(path, INODE_NUMA_XATTR, value, size, flags) < 0 ? -errno : 0;
}

/* With thp the kernel places pages, by a policy of the file in the tmpfs. */
static int use_rule(struct mount *mount, struct page_space *pages, const struct numa_rule *rule)
{
	struct numa_rule whole = numa_rule_inside(rule, &mount->options->numa);

	if (mount->is_thp)
		return backing_thp_set_rule(pages->file, &whole);
	page_space_set_rule(pages, rule);
	return 0;
}

/* Who makes the pages at this moment has read the attribute, or does so now. */
static int change_rule(struct mount *mount, struct inode *inode, const struct numa_rule *rule)
{
	struct page_space *pages;
	int r = 0;

	rwsem_write_lock(&inode->lock);
	pages = atomic_load(&inode->pages);
	if (pages)
		r = use_rule(mount, pages, rule);
	rwsem_write_unlock(&inode->lock);
	return r;
}

int inode_numa_use(struct mount *mount, struct inode *inode, struct page_space *pages)
{
	struct numa_rule rule;

	if (!mount->has_numa_rules && !(mount->is_thp && mount->options->numa.kind))
		return 0;
	rule = inode_numa_read(mount, inode);
	return use_rule(mount, pages, &rule);
}

int inode_numa_set(struct mount *mount, struct inode *inode, const char *value, size_t size,
		   int flags)
{
	struct numa_rule rule;
	int r;

	r = parse(value, size, &rule);
	if (r < 0)
		return r;
	if (rule.nodes & ~numa_policy_memory_nodes())
		return -EINVAL;
	if (mount_numa_lacks(&rule, mount->is_thp))
		return -EOPNOTSUPP;
	r = write_value(inode, value, size, flags);
	if (r < 0)
		return r;
	mount->has_numa_rules = true;
	return change_rule(mount, inode, &rule);
}

int inode_numa_remove(struct mount *mount, struct inode *inode)
{
	char path[INODE_FD_PATH_SIZE];

	inode_fd_path(inode, path);
	if (removexattr(path, INODE_NUMA_XATTR) < 0)
		return -errno;
	return change_rule(mount, inode, &no_rule);
}

int inode_numa_inherit(struct mount *mount, struct inode *parent, struct inode *inode)
{
	char value[NUMA_RULE_TEXT_MAX];
	ssize_t len;

	if (!mount->has_numa_rules || (!S_ISREG(inode->type) && !S_ISDIR(inode->type)))
		return 0;
	len = read_value(parent, value);
	if (len < 0)
		return 0;
	return write_value(inode, value, (size_t)len, 0);
}

struct numa_rule inode_numa_read(struct mount *mount, struct inode *inode)
{
	char value[NUMA_RULE_TEXT_MAX];
	struct numa_rule rule;
	ssize_t len;

	if (!mount->has_numa_rules)
		return no_rule;
	len = read_value(inode, value);
	if (len < 0 || parse(value, (size_t)len, &rule) < 0)
		return no_rule;
	return rule;
}
