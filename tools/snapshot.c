/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reading .hugefuse: plain files, pools, and tables whose first line names the columns. A
 * column that is not known here is skipped, and one that is missing is an error, so that a
 * newer daemon's tables can be read.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/escape.h"
#include "tools/snapshot.h"

#define DIRECTORY   ".hugefuse"
#define MAX_COLUMNS 64

int snapshot_fail(struct snapshot_error *error, int code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(error->text, sizeof(error->text), format, args);
	va_end(args);
	return code;
}

int snapshot_open(const char *mountpoint, struct snapshot_error *error)
{
	char *path;
	int fd, saved;

	if (asprintf(&path, "%s/" DIRECTORY, mountpoint) < 0)
		return snapshot_fail(error, -ENOMEM, "out of memory");
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	saved = errno;
	free(path);
	if (fd >= 0)
		return fd;
	if (saved == ENOTCONN || saved == ECONNABORTED)
		return snapshot_fail(error, -saved,
				     "%s: its daemon has gone; 'hugefuse umount %s' gives back "
				     "what it had, and ends the mount with its files",
				     mountpoint, mountpoint);
	if ((saved == ENOENT || saved == ENOTDIR) && access(mountpoint, F_OK) == 0)
		return snapshot_fail(
			error, -saved,
			"%s: not the root of a hugefuse mount; 'hugefuse stat' lists "
			"the mounts, 'hugefuse mount %s' makes one",
			mountpoint, mountpoint);
	return snapshot_fail(error, -saved, "%s: cannot be opened: %s", mountpoint,
			     strerror(saved));
}

long snapshot_read_text(int dir_fd, const char *name, char **ret_text,
			struct snapshot_error *error)
{
	size_t size = 16384, length = 0;
	char *text = NULL, *bigger;
	ssize_t n = 0;
	int fd, r;

	fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return snapshot_fail(error, -errno, DIRECTORY "/%s: cannot be opened: %s", name,
				     strerror(errno));
	do {
		length += (size_t)n;
		if (!text || size - length < 2) {
			size *= 2;
			bigger = realloc(text, size);
			if (!bigger) {
				r = snapshot_fail(error, -ENOMEM, "out of memory");
				goto out_close;
			}
			text = bigger;
		}
		n = read(fd, text + length, size - length - 1);
	} while (n > 0 || (n < 0 && errno == EINTR && (n = 0) == 0));
	if (n < 0) {
		r = snapshot_fail(error, -errno, DIRECTORY "/%s: cannot be read: %s", name,
				  strerror(errno));
		goto out_close;
	}
	close(fd);
	text[length] = '\0';
	*ret_text = text;
	return (long)length;
out_close:
	free(text);
	close(fd);
	return r;
}

static int parse_u64(const char *text, int base, uint64_t *ret_value)
{
	char *end;

	if (!strchr("0123456789abcdef", *text) || *text == '\0')
		return -EBADMSG;
	errno = 0;
	*ret_value = strtoull(text, &end, base);
	return errno != 0 || *end != '\0' ? -EBADMSG : 0;
}

/* ---- pools ---- */

static int read_number(int dir_fd, const char *dir, const char *name, uint64_t *ret_value,
		       struct snapshot_error *error)
{
	char path[128], *text;
	long length;
	int r;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	length = snapshot_read_text(dir_fd, path, &text, error);
	if (length < 0)
		return (int)length;
	text[strcspn(text, "\n")] = '\0';
	r = parse_u64(text, 10, ret_value);
	if (r < 0)
		snapshot_fail(error, r, DIRECTORY "/%s: '%.40s' is no number", path, text);
	free(text);
	return r;
}

/* @dir, a directory hugepages-*, as another pool of the list. */
static int add_pool(int dir_fd, const char *dir, struct snapshot_pool pool,
		    struct snapshot_pool **pools, int *count, struct snapshot_error *error)
{
	struct snapshot_pool *bigger;
	int r;

	r = read_number(dir_fd, dir, "nr_hugepages", &pool.nr, error);
	if (r == 0)
		r = read_number(dir_fd, dir, "free_hugepages", &pool.free, error);
	if (r == 0)
		r = read_number(dir_fd, dir, "surplus_hugepages", &pool.surplus, error);
	if (r == 0 && pool.node < 0)
		r = read_number(dir_fd, dir, "resv_hugepages", &pool.resv, error);
	if (r == 0 && pool.node < 0)
		r = read_number(dir_fd, dir, "nr_overcommit_hugepages", &pool.overcommit,
				error);
	if (r < 0)
		return r;
	bigger = reallocarray(*pools, (size_t)*count + 1, sizeof(**pools));
	if (!bigger)
		return snapshot_fail(error, -ENOMEM, "out of memory");
	bigger[(*count)++] = pool;
	*pools = bigger;
	return 0;
}

/* Add the pools in @dir ("." or "node/node3"), which are those of @node or of all (-1). */
static int add_pools(int dir_fd, const char *dir, int node, struct snapshot_pool **pools,
		     int *count, struct snapshot_error *error)
{
	int fd = openat(dir_fd, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *entry;

	if (!stream)
		return snapshot_fail(error, -errno, DIRECTORY "/%s: cannot be opened: %s", dir,
				     strerror(errno));
	while (r == 0 && (entry = readdir(stream)) != NULL) {
		struct snapshot_pool pool = {.node = node};
		char path[64], tail[3] = "";
		uint64_t kb;

		if (sscanf(entry->d_name, "hugepages-%" SCNu64 "%2s", &kb, tail) != 2 ||
		    strcmp(tail, "kB") != 0)
			continue;
		pool.page_size = kb << 10;
		snprintf(path, sizeof(path), "%s/hugepages-%" PRIu64 "kB", dir, kb);
		r = add_pool(dir_fd, path, pool, pools, count, error);
	}
	closedir(stream);
	return r;
}

static int compare_pools(const void *a, const void *b)
{
	const struct snapshot_pool *left = a, *right = b;

	if (left->page_size != right->page_size)
		return left->page_size < right->page_size ? -1 : 1;
	return left->node < right->node ? -1 : left->node > right->node;
}

int snapshot_read_pools(int dir_fd, struct snapshot_pool **ret_pools,
			struct snapshot_error *error)
{
	struct snapshot_pool *pools = NULL;
	const struct dirent *entry;
	int fd, r, node, count = 0;
	DIR *stream = NULL;

	r = add_pools(dir_fd, ".", -1, &pools, &count, error);
	fd = openat(dir_fd, "node", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		stream = fdopendir(fd);
	while (r == 0 && stream && (entry = readdir(stream)) != NULL) {
		char path[64];

		if (sscanf(entry->d_name, "node%d", &node) != 1 || node < 0)
			continue;
		snprintf(path, sizeof(path), "node/node%d", node);
		r = add_pools(dir_fd, path, node, &pools, &count, error);
	}
	if (stream)
		closedir(stream);
	if (r == 0 && count == 0)
		r = snapshot_fail(error, -ENOENT, DIRECTORY ": it has no hugepages-*kB in it");
	if (r < 0) {
		free(pools);
		return r;
	}
	qsort(pools, (size_t)count, sizeof(*pools), compare_pools);
	*ret_pools = pools;
	return count;
}

/* ---- tables ---- */

enum field_kind {
	FIELD_DECIMAL,
	FIELD_HEX,
	FIELD_TEXT,
};

struct field {
	const char *name;
	enum field_kind kind;
	size_t offset;
};

struct table_layout {
	const char *file;
	const struct field *fields;
	int nr_fields;
	size_t row_size;
};

/* Cut a line into its words, in place. Returns their number, at most MAX_COLUMNS. */
static int split_words(char *line, char *words[MAX_COLUMNS])
{
	char *save = NULL, *word;
	int count = 0;

	for (word = strtok_r(line, " ", &save); word && count < MAX_COLUMNS;
	     word = strtok_r(NULL, " ", &save))
		words[count++] = word;
	return count;
}

static char *next_line(char **cursor)
{
	char *line = *cursor, *end;

	if (*line == '\0')
		return NULL;
	end = strchr(line, '\n');
	*cursor = end ? end + 1 : line + strlen(line);
	if (end)
		*end = '\0';
	return line;
}

/* Find which column each field is in. */
static int read_heading(const struct table_layout *layout, char *line, int *columns,
			int *ret_nr_columns, struct snapshot_error *error)
{
	char *words[MAX_COLUMNS];
	int i, j, count = line ? split_words(line, words) : 0;

	for (i = 0; i < layout->nr_fields; i++) {
		for (j = 0; j < count && strcmp(words[j], layout->fields[i].name) != 0;)
			j++;
		if (j == count)
			return snapshot_fail(error, -EBADMSG,
					     DIRECTORY
					     "/%s: line 1 names no column '%s'; are the "
					     "daemon and this program of one version?",
					     layout->file, layout->fields[i].name);
		columns[i] = j;
	}
	*ret_nr_columns = count;
	return 0;
}

static int read_row(const struct table_layout *layout, char **words, const int *columns,
		    char *row)
{
	int i, r = 0;

	for (i = 0; i < layout->nr_fields && r == 0; i++) {
		const struct field *field = &layout->fields[i];
		char *word = words[columns[i]];

		if (field->kind == FIELD_TEXT) {
			unescape(word);
			*(const char **)(row + field->offset) = word;
		} else {
			r = parse_u64(word, field->kind == FIELD_HEX ? 16 : 10,
				      (uint64_t *)(row + field->offset));
		}
		if (r < 0)
			return -(i + 1);
	}
	return 0;
}

static int parse_table(const struct table_layout *layout, struct snapshot_rows *table,
		       struct snapshot_error *error)
{
	int columns[MAX_COLUMNS], nr_columns = 0, line_number = 1, nr_words, r;
	char *cursor = table->text, *line, *words[MAX_COLUMNS];
	size_t size = 0;

	line = next_line(&cursor);
	r = read_heading(layout, line, columns, &nr_columns, error);
	if (r < 0)
		return r;
	while ((line = next_line(&cursor)) != NULL) {
		line_number++;
		nr_words = split_words(line, words);
		if (nr_words == 0)
			continue;
		if (nr_words == nr_columns - 1) /* an empty path is the last field */
			words[nr_words++] = line + strlen(line);
		if (nr_words != nr_columns)
			return snapshot_fail(error, -EBADMSG,
					     DIRECTORY
					     "/%s: line %d has %d fields instead of %d",
					     layout->file, line_number, nr_words, nr_columns);
		if (table->count == size) {
			void *bigger;

			size = size ? 2 * size : 64;
			bigger = reallocarray(table->rows, size, layout->row_size);
			if (!bigger)
				return snapshot_fail(error, -ENOMEM, "out of memory");
			table->rows = bigger;
		}
		r = read_row(layout, words, columns,
			     (char *)table->rows + table->count * layout->row_size);
		if (r < 0)
			return snapshot_fail(error, -EBADMSG,
					     DIRECTORY "/%s: line %d: '%.40s' is no %s",
					     layout->file, line_number, words[columns[-r - 1]],
					     layout->fields[-r - 1].name);
		table->count++;
	}
	return 0;
}

static int read_table(int dir_fd, const struct table_layout *layout,
		      struct snapshot_rows *ret_rows, struct snapshot_error *error)
{
	struct snapshot_rows table = {0};
	long length;
	int r;

	length = snapshot_read_text(dir_fd, layout->file, &table.text, error);
	if (length < 0)
		return (int)length;
	if (strlen(table.text) != (size_t)length)
		r = snapshot_fail(error, -EBADMSG, DIRECTORY "/%s: a NUL byte is in it",
				  layout->file);
	else
		r = parse_table(layout, &table, error);
	if (r < 0) {
		snapshot_rows_free(&table);
		return r;
	}
	*ret_rows = table;
	return 0;
}

#define FIELD(type, member, field_kind)                            \
	{                                                          \
#member, field_kind, offsetof(struct type, member) \
	}

int snapshot_read_files(int dir_fd, struct snapshot_rows *ret_rows,
			struct snapshot_error *error)
{
	static const struct field fields[] = {
		FIELD(snapshot_file, inode, FIELD_DECIMAL),
		FIELD(snapshot_file, size, FIELD_DECIMAL),
		FIELD(snapshot_file, reserved_kb, FIELD_DECIMAL),
		FIELD(snapshot_file, instantiated_kb, FIELD_DECIMAL),
		FIELD(snapshot_file, mappings, FIELD_DECIMAL),
		FIELD(snapshot_file, way, FIELD_TEXT),
		FIELD(snapshot_file, links, FIELD_DECIMAL),
		FIELD(snapshot_file, uid, FIELD_DECIMAL),
		FIELD(snapshot_file, path, FIELD_TEXT),
	};
	static const struct table_layout layout = {"files", fields,
						   sizeof(fields) / sizeof(fields[0]),
						   sizeof(struct snapshot_file)};

	return read_table(dir_fd, &layout, ret_rows, error);
}

int snapshot_read_maps(int dir_fd, struct snapshot_rows *ret_rows, struct snapshot_error *error)
{
	static const struct field fields[] = {
		FIELD(snapshot_mapping, mapping, FIELD_DECIMAL),
		FIELD(snapshot_mapping, pid, FIELD_DECIMAL),
		FIELD(snapshot_mapping, comm, FIELD_TEXT),
		FIELD(snapshot_mapping, uid, FIELD_DECIMAL),
		FIELD(snapshot_mapping, start, FIELD_HEX),
		FIELD(snapshot_mapping, end, FIELD_HEX),
		FIELD(snapshot_mapping, offset, FIELD_HEX),
		FIELD(snapshot_mapping, inode, FIELD_DECIMAL),
		FIELD(snapshot_mapping, kind, FIELD_TEXT),
		FIELD(snapshot_mapping, way, FIELD_TEXT),
		FIELD(snapshot_mapping, reserved, FIELD_DECIMAL),
		FIELD(snapshot_mapping, instantiated, FIELD_DECIMAL),
		FIELD(snapshot_mapping, path, FIELD_TEXT),
	};
	static const struct table_layout layout = {"maps", fields,
						   sizeof(fields) / sizeof(fields[0]),
						   sizeof(struct snapshot_mapping)};

	return read_table(dir_fd, &layout, ret_rows, error);
}

int snapshot_read_tenants(int dir_fd, struct snapshot_rows *ret_rows,
			  struct snapshot_error *error)
{
	static const struct field fields[] = {
		FIELD(snapshot_tenant, size_kb, FIELD_TEXT),
		FIELD(snapshot_tenant, min_size_kb, FIELD_DECIMAL),
		FIELD(snapshot_tenant, used_kb, FIELD_DECIMAL),
		FIELD(snapshot_tenant, reserved_kb, FIELD_DECIMAL),
		FIELD(snapshot_tenant, files, FIELD_DECIMAL),
		FIELD(snapshot_tenant, refused, FIELD_DECIMAL),
		FIELD(snapshot_tenant, path, FIELD_TEXT),
	};
	static const struct table_layout layout = {"tenants", fields,
						   sizeof(fields) / sizeof(fields[0]),
						   sizeof(struct snapshot_tenant)};

	return read_table(dir_fd, &layout, ret_rows, error);
}

int snapshot_read_values(int dir_fd, const char *name, struct snapshot_rows *ret_rows,
			 struct snapshot_error *error)
{
	struct snapshot_rows rows = {0};
	char *cursor, *line, *words[MAX_COLUMNS];
	long length;
	int nr_words, r = 0;

	length = snapshot_read_text(dir_fd, name, &rows.text, error);
	if (length < 0)
		return (int)length;
	/* a row takes at least four bytes: "a 1\n" */
	rows.values = calloc((size_t)length / 4 + 1, sizeof(*rows.values));
	if (!rows.values)
		r = snapshot_fail(error, -ENOMEM, "out of memory");
	for (cursor = rows.text; r == 0 && (line = next_line(&cursor)) != NULL;) {
		nr_words = split_words(line, words);
		if (nr_words == 2 && rows.count == 0 && strcmp(words[0], "name") == 0)
			continue; /* a heading */
		if (nr_words == 2)
			rows.values[rows.count++] = (struct snapshot_value){words[0], words[1]};
		else if (nr_words != 0)
			r = snapshot_fail(error, -EBADMSG,
					  DIRECTORY "/%s: '%.40s' has no one value", name,
					  words[0]);
	}
	if (r < 0) {
		snapshot_rows_free(&rows);
		return r;
	}
	*ret_rows = rows;
	return 0;
}

void snapshot_rows_free(struct snapshot_rows *rows)
{
	if (!rows)
		return;
	free(rows->rows);
	free(rows->text);
	*rows = (struct snapshot_rows){0};
}
