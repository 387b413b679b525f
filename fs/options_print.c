/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Mount options once they are read: defaults, the checks that need all of them and the kernel's
 * pools, and the list that options_parse() reads back. No locks, as fs/options.c.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/node_share.h"
#include "fs/options.h"
#include "fs/options_numa.h"

#define SYSFS_HUGEPAGES "/sys/kernel/mm/hugepages"

void options_init(struct mount_options *options)
{
	*options = (struct mount_options){
		.pagesize = UINT64_C(2) << 20,
		.size.bytes = OPTIONS_SIZE_UNSET,
		.min_size.bytes = OPTIONS_SIZE_UNSET,
		.max_size.bytes = OPTIONS_SIZE_UNSET,
		.uid = geteuid(),
		.gid = getegid(),
		.mode = 0755,
		.on_exhausted = ON_EXHAUSTED_SIGBUS,
		.wait_seconds = UINT64_MAX,
		.split_queue = SPLIT_OFF,
		.split_low = SPLIT_LOW_PERCENT,
		.split_high = SPLIT_HIGH_PERCENT,
		.lockstat = true,
		.confine = true,
		.avail_mask = true,
		.alloc_sleep_ms = 1000,
		.allow_other = true, /* hugetlbfs knows no other */
	};
}

void options_deinit(struct mount_options *options)
{
	if (!options)
		return;
	free(options->fsname);
	free(options->source);
	options->fsname = options->source = NULL;
}

/* ---- printing ---- */

/* A buffer that counts on when it is full, as snprintf() does. */
struct printer {
	char *buf;
	size_t size;
	size_t length;
};

static void __attribute__((format(printf, 2, 3)))
print(struct printer *printer, const char *format, ...)
{
	size_t left = printer->length < printer->size ? printer->size - printer->length : 0;
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(left ? printer->buf + printer->length : NULL, left, format, args);
	va_end(args);
	if (length > 0)
		printer->length += (size_t)length;
}

/* With the largest suffix that loses nothing. */
static void print_number(struct printer *printer, uint64_t bytes)
{
	static const char suffixes[] = "KMGTPE";
	char suffix[2] = "";
	size_t i;

	for (i = 0; suffixes[i] != '\0' && bytes != 0 && bytes % 1024 == 0; i++) {
		suffix[0] = suffixes[i];
		bytes /= 1024;
	}
	print(printer, "%" PRIu64 "%s", bytes, suffix);
}

static void print_bytes(struct printer *printer, const char *name, uint64_t bytes)
{
	print(printer, ",%s=", name);
	print_number(printer, bytes);
}

static void print_node_sizes(struct printer *printer, const struct option_node_sizes *sizes)
{
	const char *before = ",size=";

	for (int node = 0; node < NUMA_RULE_MAX_NODES; node++) {
		if (!(sizes->nodes & NODE_BIT(node)))
			continue;
		print(printer, "%s%d:", before, node);
		print_number(printer, sizes->bytes[node]);
		before = ",";
	}
}

static void print_numa(struct printer *printer, const struct mount_options *options)
{
	struct numa_rule rule = options->numa;
	char text[NUMA_RULE_TEXT_MAX];

	rule.fallback = NUMA_FALLBACK_NONE;
	numa_rule_print(&rule, text, sizeof(text));
	if (rule.kind != NUMA_NONE)
		print(printer, ",numa=%s", text);
	if (options->numa.fallback != NUMA_FALLBACK_NONE)
		print(printer, ",fallback=%s", numa_fallback_name(options->numa.fallback));
	print(printer, ",avail_mask=%s,alloc_sleep_ms=%" PRIu32,
	      options->avail_mask ? "on" : "off", options->alloc_sleep_ms);
}

static void print_size(struct printer *printer, const char *name,
		       const struct option_size *size)
{
	if (size->is_percent)
		print(printer, ",%s=%" PRIu32 "%%", name, size->percent);
	else if (size->bytes != OPTIONS_SIZE_UNSET)
		print_bytes(printer, name, size->bytes);
}

static void print_text(struct printer *printer, const char *name, const char *text)
{
	const char *c;

	print(printer, ",%s=", name);
	for (c = text; *c != '\0'; c++)
		print(printer, "%s%c", *c == ',' || *c == '\\' ? "\\" : "", *c);
}

static void print_generic(struct printer *printer, const struct mount_options *options)
{
	print(printer, "%s,%s,%s,%s,%s", options->ro ? "ro" : "rw",
	      options->nosuid ? "nosuid" : "suid", options->nodev ? "nodev" : "dev",
	      options->noexec ? "noexec" : "exec", options->noatime ? "noatime" : "relatime");
	if (options->allow_other)
		print(printer, ",allow_other");
}

static void print_faults(struct printer *printer, const struct mount_options *options)
{
	if (options->fault_mutexes)
		print(printer, ",fault_mutexes=%" PRIu32, options->fault_mutexes);
	print(printer, ",region_lock=%s", options->region_lock_global ? "global" : "inode");
	if (options->fault_threads)
		print(printer, ",fault_threads=%" PRIu32, options->fault_threads);
	if (options->ahead_bytes)
		print_bytes(printer, "ahead", options->ahead_bytes);
	else
		print(printer, ",ahead=off");
	if (options->on_exhausted == ON_EXHAUSTED_SIGBUS)
		print(printer, ",on_exhausted=sigbus");
	else if (options->wait_seconds == UINT64_MAX)
		print(printer, ",on_exhausted=wait");
	else
		print(printer, ",on_exhausted=wait=%" PRIu64, options->wait_seconds);
	print(printer, ",plain=%s",
	      options->plain == PLAIN_CACHED ? "cached"
	      : options->plain == PLAIN_DENY ? "deny"
					     : "auto");
	print(printer, ",split_queue=%s,split_marks=%" PRIu32 ":%" PRIu32,
	      split_mode_names[options->split_queue], options->split_low, options->split_high);
	print(printer, ",%s", options->lockstat ? "lockstat" : "nolockstat");
	print(printer, ",%s", options->confine ? "confine" : "noconfine");
}

int options_print(const struct mount_options *options, char *buf, size_t buf_size)
{
	struct printer printer = {.buf = buf, .size = buf_size};

	print_generic(&printer, options);
	print(&printer, ",backing=%s",
	      options->backing == BACKING_THP       ? "thp"
	      : options->backing == BACKING_HUGETLB ? "hugetlb"
						    : "auto");
	print_bytes(&printer, "pagesize", options->pagesize);
	if (options->node_sizes.nodes)
		print_node_sizes(&printer, &options->node_sizes);
	else
		print_size(&printer, "size", &options->size);
	print_size(&printer, "min_size", &options->min_size);
	print_size(&printer, "max_size", &options->max_size);
	print_bytes(&printer, "nr_inodes", options->nr_inodes);
	print(&printer, ",uid=%" PRIu32 ",gid=%" PRIu32 ",mode=%o", options->uid, options->gid,
	      options->mode);
	print_faults(&printer, options);
	print_numa(&printer, options);
	if (options->fsname)
		print_text(&printer, "fsname", options->fsname);
	if (options->source)
		print_text(&printer, "source", options->source);
	return (int)printer.length;
}

/* ---- checking ---- */

static int __attribute__((format(printf, 3, 4)))
refuse(char *error, size_t error_size, const char *format, ...)
{
	va_list args;

	if (error_size > 0) {
		va_start(args, format);
		vsnprintf(error, error_size, format, args);
		va_end(args);
	}
	return -EINVAL;
}

/* The page sizes that this kernel has, as "2M, 1G". */
static void list_pagesizes(char *buf, size_t buf_size)
{
	DIR *dir = opendir(SYSFS_HUGEPAGES);
	const struct dirent *entry;
	size_t length = 0;

	snprintf(buf, buf_size, "none");
	while (dir && (entry = readdir(dir)) != NULL && length < buf_size) {
		uint64_t kb;
		bool giga, mega;

		if (sscanf(entry->d_name, "hugepages-%" SCNu64 "kB", &kb) != 1)
			continue;
		giga = kb >= 1 << 20 && kb % (1 << 20) == 0;
		mega = kb >= 1 << 10 && kb % (1 << 10) == 0;
		length += (size_t)snprintf(buf + length, buf_size - length, "%s%" PRIu64 "%s",
					   length ? ", " : "",
					   giga ? kb >> 20 : (mega ? kb >> 10 : kb),
					   giga ? "G" : (mega ? "M" : "K"));
	}
	if (dir)
		closedir(dir);
}

static int check_size_holds_a_page(const char *name, const struct option_size *size,
				   uint64_t pagesize, char *error, size_t error_size)
{
	if (size->is_percent || size->bytes >= pagesize)
		return 0;
	return refuse(error, error_size,
		      "option '%s=%" PRIu64 "' is less than a page; accepted is %" PRIu64
		      " (pagesize=) or more",
		      name, size->bytes, pagesize);
}

/* The bytes that @size stands for while the kernel's pool has @pool_pages. */
static uint64_t size_in_bytes(const struct option_size *size, uint64_t pagesize,
			      uint64_t pool_pages)
{
	if (!size->is_percent)
		return size->bytes;
	return pool_pages * size->percent / 100 * pagesize;
}

static int check_min_size(const struct mount_options *options, uint64_t pool_pages, char *error,
			  size_t error_size)
{
	const struct option_size *size = &options->size, *min_size = &options->min_size;
	char size_text[64], min_size_text[64];
	bool exceeds;

	if (size->is_percent && min_size->is_percent)
		exceeds = min_size->percent > size->percent;
	else
		exceeds = size_in_bytes(min_size, options->pagesize, pool_pages) >
			  size_in_bytes(size, options->pagesize, pool_pages);
	if (!exceeds)
		return 0;
	print_size(&(struct printer){size_text, sizeof(size_text)}, "size", size);
	print_size(&(struct printer){min_size_text, sizeof(min_size_text)}, "min_size",
		   min_size);
	return refuse(error, error_size,
		      "option '%s' is more than '%s' (the pool has %" PRIu64
		      " pages); accepted is at most size=",
		      min_size_text + 1, size_text + 1, pool_pages);
}

int options_check(const struct mount_options *options, char *error, size_t error_size)
{
	const struct option_size *size = &options->size, *min_size = &options->min_size;
	bool has_size = size->is_percent || size->bytes != OPTIONS_SIZE_UNSET;
	bool has_min_size = min_size->is_percent || min_size->bytes != OPTIONS_SIZE_UNSET;
	char path[128], known[128];
	uint64_t pool_pages = 0;
	FILE *file;
	int r;

	if (options->backing == BACKING_THP && options->pagesize != UINT64_C(2) << 20)
		return refuse(error, error_size,
			      "option 'pagesize=%" PRIu64
			      "M': with backing=thp accepted is 2M; larger pages are hugetlb's",
			      options->pagesize >> 20);
	r = options_check_numa(options, error, error_size);
	if (r < 0)
		return r;
	snprintf(path, sizeof(path), SYSFS_HUGEPAGES "/hugepages-%" PRIu64 "kB/nr_hugepages",
		 options->pagesize >> 10);
	file = fopen(path, "re");
	if (!file) {
		list_pagesizes(known, sizeof(known));
		return refuse(error, error_size,
			      "option 'pagesize=%" PRIu64
			      "M': this kernel has no such huge pages; accepted are %s",
			      options->pagesize >> 20, known);
	}
	if (fscanf(file, "%" SCNu64, &pool_pages) != 1)
		pool_pages = 0;
	fclose(file);

	if (has_size) {
		r = check_size_holds_a_page("size", size, options->pagesize, error, error_size);
		if (r < 0)
			return r;
	}
	if (has_min_size && (min_size->is_percent || min_size->bytes != 0)) {
		r = check_size_holds_a_page("min_size", min_size, options->pagesize, error,
					    error_size);
		if (r < 0)
			return r;
	}
	if (has_size && has_min_size)
		return check_min_size(options, pool_pages, error, error_size);
	return 0;
}
