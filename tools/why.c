/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The words of hugefuse why. What is shared belongs to its file and stays as long as the file
 * is there: named, mapped or open. What is private belongs to the mapping, and the process.
 */
#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/escape.h"
#include "tools/output.h"
#include "tools/why.h"

#define MAX_LISTED 8 /* holders of a directory that are named */

static void add_line(struct why_report *report, struct why_lines *lines, const char *format,
		     ...) __attribute__((format(printf, 3, 4)));

static void add_line(struct why_report *report, struct why_lines *lines, const char *format,
		     ...)
{
	char *text, *escaped, **bigger;
	va_list args;
	int r;

	if (report->failed)
		return;
	report->failed = true;
	va_start(args, format);
	r = vasprintf(&text, format, args);
	va_end(args);
	if (r < 0)
		return;
	escaped = escape_for_terminal(text);
	free(text);
	bigger = reallocarray(lines->lines, lines->count + 1, sizeof(*bigger));
	if (bigger)
		lines->lines = bigger;
	if (!escaped || !bigger) {
		free(escaped);
		return;
	}
	lines->lines[lines->count++] = escaped;
	report->failed = false;
}

static void set_subject(struct why_report *report, const char *mountpoint, const char *path)
{
	char *text;

	report->failed = asprintf(&text, "%s%s", mountpoint, path) < 0;
	if (report->failed)
		return;
	report->subject = escape_for_terminal(text);
	report->failed = !report->subject;
	free(text);
}

static void free_lines(struct why_lines *lines)
{
	for (size_t i = 0; i < lines->count; i++)
		free(lines->lines[i]);
	free(lines->lines);
}

void why_report_deinit(struct why_report *report)
{
	if (!report)
		return;
	free(report->subject);
	free_lines(&report->reasons);
	free_lines(&report->remedies);
	*report = (struct why_report){0};
}

static int finish(struct why_report *report, struct why_report *ret_report)
{
	if (report->failed) {
		why_report_deinit(report);
		return -ENOMEM;
	}
	*ret_report = *report;
	return 0;
}

static const char *user_name(uint64_t uid, char buf[40])
{
	const struct passwd *user = getpwuid((uid_t)uid);

	if (user)
		snprintf(buf, 40, "%s", user->pw_name);
	else
		snprintf(buf, 40, "%" PRIu64, uid);
	return buf;
}

/* ", for 5 min" where that is known. */
static struct quantity since(uint64_t seconds)
{
	struct quantity text = {""};

	if (seconds != SNAPSHOT_UNKNOWN)
		snprintf(text.text, sizeof(text.text), ", for %.24s",
			 quantity_seconds((double)seconds).text);
	return text;
}

/* ---- a file ---- */

/* Processes, at the end of which pages go. */
struct users {
	char text[200];
	unsigned int count;
};

static void add_user(struct users *users, const char *comm, uint64_t pid)
{
	char word[64], *text = users->text;
	size_t length = strlen(text);

	snprintf(word, sizeof(word), "%.32s (%" PRIu64 ")", comm, pid);
	if (strstr(text, word))
		return;
	users->count++;
	if (users->count > 4)
		return;
	snprintf(text + length, sizeof(users->text) - length, "%s%s",
		 users->count == 1 ? "" : ", ", word);
}

static struct quantity others(const struct users *users)
{
	struct quantity text = {""};

	if (users->count > 4)
		snprintf(text.text, sizeof(text.text), " and %u more", users->count - 4);
	return text;
}

static void add_mapping(struct why_report *report, const struct mount_snapshot *mount,
			const struct snapshot_mapping *mapping)
{
	const char *noreserve = strstr(mapping->kind, "noreserve");
	char user[40];

	if (mapping_is_private(mapping))
		add_line(report, &report->reasons,
			 "%s (%" PRIu64
			 ") of %s has a private copy of %s: %s of its own pages, "
			 "%s reserved for it",
			 mapping->comm, mapping->pid, user_name(mapping->uid, user),
			 quantity_bytes(mapping->end - mapping->start).text,
			 quantity_bytes(mapping_resident(mount, mapping)).text,
			 quantity_bytes(mapping_reserved(mount, mapping)).text);
	else
		add_line(report, &report->reasons,
			 "%s (%" PRIu64 ") of %s has mapped %s of it%s", mapping->comm,
			 mapping->pid, user_name(mapping->uid, user),
			 quantity_bytes(mapping->end - mapping->start).text,
			 noreserve ? ", without a reservation" : "");
}

static void add_use(struct why_report *report, const struct proc_use *use)
{
	char user[40];

	if (use->shared || use->private)
		add_line(report, &report->reasons,
			 "%s (%d) of %s has mapped %s of it through the kernel%s", use->comm,
			 use->pid, user_name(use->uid, user),
			 quantity_bytes(use->shared + use->private).text,
			 use->open ? ", and has it open" : "");
	else
		add_line(report, &report->reasons, "%s (%d) of %s has it open", use->comm,
			 use->pid, user_name(use->uid, user));
}

/* Who has it mapped or open, into the reasons and into @users. */
static void add_users(struct why_report *report, const struct mount_snapshot *mount,
		      const struct snapshot_file *file, const struct proc_uses *uses,
		      struct users *users)
{
	size_t i;

	for (i = 0; i < mount->maps.count; i++) {
		const struct snapshot_mapping *mapping = &mount->maps.mappings[i];

		if (mapping->inode != file->inode)
			continue;
		add_mapping(report, mount, mapping);
		add_user(users, mapping->comm, mapping->pid);
	}
	for (i = 0; i < uses->count; i++) {
		add_use(report, &uses->list[i]);
		add_user(users, uses->list[i].comm, (uint64_t)uses->list[i].pid);
	}
}

static bool file_is_mapped(const struct mount_snapshot *mount, const struct snapshot_file *file)
{
	for (size_t i = 0; i < mount->maps.count; i++) {
		if (mount->maps.mappings[i].inode == file->inode &&
		    !mapping_is_private(&mount->maps.mappings[i]))
			return true;
	}
	return false;
}

static void add_pages(struct why_report *report, const struct mount_snapshot *mount,
		      const struct snapshot_file *file)
{
	uint64_t reserved = file->reserved_kb * 1024;

	report->resident = file->instantiated_kb * 1024;
	report->reserved = reserved;
	if (report->resident)
		add_line(report, &report->reasons,
			 "%s are instantiated: somebody has touched, written or allocated them",
			 quantity_bytes(report->resident).text);
	if (reserved)
		add_line(report, &report->reasons, "%s are reserved but were never touched%s%s",
			 quantity_bytes(reserved).text,
			 since(mount_snapshot_age(mount, file->changed_ms)).text,
			 file_is_mapped(mount, file)
				 ? ""
				 : "; nobody has them mapped: a shared reservation stays with "
				   "its file");
	if (!report->resident && !reserved)
		add_line(report, &report->reasons, "it holds no pages and has none reserved");
}

static void add_file_remedies(struct why_report *report, const struct snapshot_file *file,
			      const struct users *users)
{
	struct why_lines *remedies = &report->remedies;

	if (file->links == 0 && users->count == 0)
		add_line(report, remedies,
			 "the end of the process that has it, which cannot be seen from here: "
			 "it may be in another pid namespace, or have ended this moment");
	else if (file->links == 0)
		add_line(report, remedies,
			 "that the last of these unmaps and closes it, or ends: %s%s",
			 users->text, others(users).text);
	else if (users->count == 0)
		add_line(report, remedies, "removing it: rm '%s'", report->subject);
	else
		add_line(report, remedies,
			 "removing it (rm '%s'), and then that the last of these unmaps and "
			 "closes it, or ends: %s%s",
			 report->subject, users->text, others(users).text);
	if (file->links == 0)
		return;
	add_line(report, remedies,
		 "making it shorter frees what is behind the end at once: truncate -s SIZE "
		 "'%s'%s",
		 report->subject,
		 users->count ? "; who touches it there gets SIGBUS then" : "");
}

int why_file(const struct mount_snapshot *mount, const struct snapshot_file *file,
	     const struct proc_uses *uses, struct why_report *ret_report)
{
	struct why_report report = {0};
	struct users users = {.count = 0};

	set_subject(&report, mount->mountpoint, file->path);
	add_pages(&report, mount, file);
	if (file->links == 0)
		add_line(&report, &report.reasons,
			 "it has no name any more, but is still mapped or open");
	else if (report.resident || report.reserved)
		add_line(&report, &report.reasons,
			 "it has a name, and so keeps its pages whether it is mapped or not");
	add_users(&report, mount, file, uses, &users);
	if (report.resident || report.reserved)
		add_file_remedies(&report, file, &users);
	return finish(&report, ret_report);
}

/* ---- a directory, or the mount ---- */

static bool is_below(const char *path, const char *directory)
{
	size_t length = strlen(directory);

	return strncmp(path, directory, length) == 0 && path[length] == '/';
}

static void add_holder(struct why_report *report, const struct mount_snapshot *mount,
		       const struct holder *holder)
{
	char *name = holder_name(holder), *mappers = holder_mappers(mount, holder);
	const char *state = "";

	if (holder->unlinked)
		state = ", without a name";
	if (!name || !mappers)
		report->failed = true;
	else
		add_line(report, &report->reasons, "%s: %s instantiated, %s reserved%s%s%s%s",
			 name, quantity_bytes(holder->resident).text,
			 quantity_bytes(holder->reserved).text, state,
			 *mappers ? ", mapped by " : "", mappers,
			 since(holder->reserved_seconds).text);
	free(name);
	free(mappers);
}

/* What the options have set aside. */
static void add_set_aside(struct why_report *report, const struct mount_snapshot *mount,
			  const struct holder *holder)
{
	char size[40] = "", min_size[40] = "";

	mount_snapshot_option(mount, "size", size, sizeof(size));
	mount_snapshot_option(mount, "min_size", min_size, sizeof(min_size));
	add_line(report, &report->reasons,
		 "%s are set aside for the mount and promised to nobody (size=%s%s%s)",
		 quantity_bytes(holder->reserved).text, *size ? size : "not given",
		 *min_size ? ", min_size=" : "", min_size);
	add_line(report, &report->remedies,
		 "a smaller pool: hugefuse resize '%s' SIZE; or its end: hugefuse umount '%s'",
		 report->subject, report->subject);
}

static void add_holders(struct why_report *report, const struct mount_snapshot *mount,
			const char *path, const struct holders *holders)
{
	size_t i, listed = 0, nr = 0;

	for (i = 0; i < holders->count; i++) {
		const struct holder *holder = &holders->list[i];

		if (holder->kind == HOLDER_MOUNT || !is_below(holder->path, path))
			continue;
		nr++;
		report->resident += holder->resident;
		report->reserved += holder->reserved;
		if (listed++ < MAX_LISTED)
			add_holder(report, mount, holder);
	}
	if (nr > MAX_LISTED)
		add_line(report, &report->reasons,
			 "%zu more hold less; hugefuse ls --sort resident '%s' lists them",
			 nr - MAX_LISTED, mount->mountpoint);
	if (nr != 0)
		add_line(report, &report->remedies,
			 "what frees a file's pages, hugefuse why tells of that file");
}

static void add_tenant(struct why_report *report, const struct mount_snapshot *mount,
		       const char *path)
{
	for (size_t i = 0; i < mount->tenants.count; i++) {
		const struct snapshot_tenant *tenant = &mount->tenants.tenants[i];

		if (strcmp(tenant->path, *path ? path : "/") != 0)
			continue;
		if (i > 0 && tenant->min_size_kb != 0)
			add_line(
				report, &report->reasons,
				"it is a tenant with min_size=%s: that much is set aside for it, "
				"used or not",
				quantity_bytes(tenant->min_size_kb * 1024).text);
	}
}

/* What numa=bind could not have, by node. */
static void add_refused_binds(struct why_report *report, const struct mount_snapshot *mount)
{
	static const char prefix[] = "bind_refused_node";

	for (size_t i = 0; i < mount->faults.count; i++) {
		const struct snapshot_value *value = &mount->faults.values[i];

		if (strncmp(value->name, prefix, strlen(prefix)) != 0)
			continue;
		add_line(report, &report->reasons,
			 "%s requests for pages that are to be on node %s were refused: all it "
			 "had were taken or reserved",
			 value->value, value->name + strlen(prefix));
		add_line(report, &report->remedies,
			 "more pages on node %s: .hugefuse/node/node%s/hugepages-%" PRIu64
			 "kB/nr_hugepages; or another policy: hugefuse numa PATH POLICY",
			 value->name + strlen(prefix), value->name + strlen(prefix),
			 mount->page_size / 1024);
	}
}

int why_directory(const struct mount_snapshot *mount, const char *path,
		  struct why_report *ret_report)
{
	struct why_report report = {0};
	struct holders holders;

	if (holders_find(mount, &holders) < 0)
		return -ENOMEM;
	set_subject(&report, mount->mountpoint, path);
	add_tenant(&report, mount, path);
	add_holders(&report, mount, path, &holders);
	for (size_t i = 0; i < holders.count && *path == '\0'; i++) {
		if (holders.list[i].kind != HOLDER_MOUNT)
			continue;
		report.reserved += holders.list[i].reserved;
		add_set_aside(&report, mount, &holders.list[i]);
	}
	if (*path == '\0')
		add_refused_binds(&report, mount);
	if (report.reasons.count == 0)
		add_line(&report, &report.reasons, "nothing in it holds or reserves pages");
	holders_free(&holders);
	return finish(&report, ret_report);
}

/* ---- a process ---- */

static void add_process_mapping(struct why_report *report, const struct mount_snapshot *mount,
				const struct snapshot_mapping *mapping)
{
	bool private = mapping_is_private(mapping);

	report->resident += mapping_resident(mount, mapping);
	report->reserved += mapping_reserved(mount, mapping);
	add_line(report, &report->reasons,
		 "%s%s has mapped %s of %s%s: %s instantiated, %s reserved%s", mapping->comm,
		 private ? " (private)" : "",
		 quantity_bytes(mapping->end - mapping->start).text, mount->mountpoint,
		 mapping->path, quantity_bytes(mapping_resident(mount, mapping)).text,
		 quantity_bytes(mapping_reserved(mount, mapping)).text,
		 private ? ", all its own" : ", which belong to the file");
}

static const struct snapshot_file *find_file(const struct mount_snapshot *mount, uint64_t inode)
{
	for (size_t i = 0; i < mount->files.count; i++) {
		if (mount->files.files[i].inode == inode)
			return &mount->files.files[i];
	}
	return NULL;
}

static void add_process_use(struct why_report *report, const struct mount_snapshot *mount,
			    const struct proc_use *use)
{
	const struct snapshot_file *file = find_file(mount, use->inode);

	if (!file)
		return;
	if (use->shared || use->private)
		add_line(report, &report->reasons,
			 "%s has mapped %s of %s%s through the kernel; the file has %s "
			 "instantiated",
			 use->comm, quantity_bytes(use->shared + use->private).text,
			 mount->mountpoint, file->path,
			 quantity_bytes(file->instantiated_kb * 1024).text);
	else if (file->links == 0)
		add_line(report, &report->reasons,
			 "%s has %s%s open, which has no name any more but %s instantiated",
			 use->comm, mount->mountpoint, file->path,
			 quantity_bytes(file->instantiated_kb * 1024).text);
}

int why_process(const struct mount_snapshot *mount, uint64_t pid, const struct proc_uses *uses,
		struct why_report *ret_report)
{
	struct why_report report = {0};
	char name[40];
	size_t i;

	snprintf(name, sizeof(name), "process %" PRIu64 " on ", pid);
	set_subject(&report, name, mount->mountpoint);
	for (i = 0; i < mount->maps.count; i++) {
		if (mount->maps.mappings[i].pid == pid)
			add_process_mapping(&report, mount, &mount->maps.mappings[i]);
	}
	for (i = 0; i < uses->count; i++)
		add_process_use(&report, mount, &uses->list[i]);
	if (report.reasons.count != 0)
		add_line(&report, &report.remedies,
			 "that it unmaps them, or ends: at once for what is private and for "
			 "files without a name; what belongs to a file stays with it, as "
			 "hugefuse why tells of the file");
	return finish(&report, ret_report);
}
