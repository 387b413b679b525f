/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the tools read from .hugefuse, which may be that of a newer daemon, or of an evil one.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/escape.h"
#include "tools/snapshot.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char dir[] = "/tmp/hugefuse-fuzz-XXXXXX";
static int dir_fd = -1;

static void remove_dir(void)
{
	unlinkat(dir_fd, "files", 0);
	unlinkat(dir_fd, "maps", 0);
	unlinkat(dir_fd, "fault_stat", 0);
	rmdir(dir);
}

static void put(const char *name, const uint8_t *data, size_t size)
{
	int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	close(fd);
}

static void check_error(int r, const struct snapshot_error *error)
{
	if (r < 0 && (error->text[0] == '\0' || strchr(error->text, '\n')))
		abort();
}

static void escape(const char *text)
{
	char *escaped = escape_for_terminal(text);

	for (const char *c = escaped; c && *c; c++) {
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			abort();
	}
	free(escaped);
}

static void read_locks(const uint8_t *data, size_t size)
{
	struct snapshot_locks locks = {0};
	struct snapshot_error error = {0};
	char *text = malloc(size + 1);
	int r;

	memcpy(text, data, size);
	text[size] = '\0';
	r = snapshot_parse_locks(text, &locks, &error);
	check_error(r, &error);
	if (r < 0)
		free(text);
	else
		snapshot_locks_free(&locks);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct snapshot_error error = {0};
	struct snapshot_rows rows = {0};
	int r;

	if (dir_fd < 0) {
		if (!mkdtemp(dir))
			abort();
		dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		atexit(remove_dir);
	}
	if (size == 0)
		return 0;
	data++;
	size--;
	switch (data[-1] % 4) {
	case 0:
		put("files", data, size);
		r = snapshot_read_files(dir_fd, &rows, &error);
		for (size_t i = 0; r >= 0 && i < rows.count; i++)
			escape(rows.files[i].path);
		break;
	case 1:
		put("maps", data, size);
		r = snapshot_read_maps(dir_fd, &rows, &error);
		for (size_t i = 0; r >= 0 && i < rows.count; i++)
			escape(rows.mappings[i].comm);
		break;
	case 2:
		put("fault_stat", data, size);
		r = snapshot_read_values(dir_fd, "fault_stat", &rows, &error);
		for (size_t i = 0; r >= 0 && i < rows.count; i++)
			escape(rows.values[i].value);
		break;
	default:
		read_locks(data, size);
		return 0;
	}
	check_error(r, &error);
	if (r >= 0)
		snapshot_rows_free(&rows);
	return 0;
}
