/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Journal: reading and appending. The file is read as a whole: it is compacted before it is
 * long. */
#include "fs/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define MAGIC UINT32_C(0x4a534648) /* "HFSJ" */
#define ALIGN UINT64_C(8)

struct header {
	uint32_t magic;
	uint32_t length;
	uint32_t type;
	uint32_t crc;
};
_Static_assert(sizeof(struct header) == 16, "format");

static uint32_t crc32_add(uint32_t crc, const void *data, size_t length)
{
	const unsigned char *byte = data;

	for (size_t i = 0; i < length; i++) {
		crc ^= byte[i];
		for (int bit = 0; bit < 8; bit++)
			crc = (crc >> 1) ^ (UINT32_C(0xedb88320) & -(crc & 1));
	}
	return crc;
}

uint32_t journal_crc32(const void *data, size_t length)
{
	return ~crc32_add(~UINT32_C(0), data, length);
}

static uint32_t record_crc(const struct header *header, const void *payload)
{
	uint32_t crc = crc32_add(~UINT32_C(0), &header->length, 2 * sizeof(uint32_t));

	return ~crc32_add(crc, payload, header->length);
}

static uint64_t record_size(uint64_t payload)
{
	return (sizeof(struct header) + payload + ALIGN - 1) / ALIGN * ALIGN;
}

/* The size of the whole record at @offset, or 0 where there is none. */
static uint64_t whole_record(const char *text, uint64_t size, uint64_t offset)
{
	struct header header;

	if (!text || size - offset < sizeof(header))
		return 0;
	memcpy(&header, text + offset, sizeof(header));
	if (header.magic != MAGIC || header.length > JOURNAL_PAYLOAD_MAX ||
	    record_size(header.length) > size - offset ||
	    header.crc != record_crc(&header, text + offset + sizeof(header)))
		return 0;
	return record_size(header.length);
}

static uint64_t next_record(const char *text, uint64_t size, uint64_t offset)
{
	for (offset += ALIGN; offset < size; offset += ALIGN) {
		if (whole_record(text, size, offset))
			return offset;
	}
	return size;
}

static int visit_at(const char *text, uint64_t offset, journal_visit visit, void *data)
{
	struct header header;

	memcpy(&header, text + offset, sizeof(header));
	return visit(data, header.type, text + offset + sizeof(header), header.length);
}

/* Visit the records up to the end or, without @salvage, the first damage in the middle. */
static int visit_all(const char *text, uint64_t size, bool salvage, journal_visit visit,
		     void *data, struct journal_damage *damage)
{
	uint64_t offset = 0, length, next;
	int r = 0;

	for (; offset < size && r == 0; offset += length) {
		length = whole_record(text, size, offset);
		if (length > 0) {
			damage->nr_records++;
			r = visit_at(text, offset, visit, data);
			continue;
		}
		next = next_record(text, size, offset);
		length = next - offset;
		if (next == size) {
			damage->torn_bytes = length;
			break;
		}
		if (damage->lost_bytes == 0)
			damage->offset = offset;
		damage->lost_bytes += length;
		if (!salvage)
			r = -EUCLEAN;
	}
	return r;
}

/* All of the file, malloc()ed; the length or -errno. */
static int64_t read_all(int fd, char **ret_text)
{
	struct stat st;
	size_t done = 0;
	char *text;
	ssize_t n;

	if (fstat(fd, &st) < 0)
		return -errno;
	text = malloc((size_t)st.st_size + 1);
	if (!text)
		return -ENOMEM;
	while (done < (size_t)st.st_size) {
		n = pread(fd, text + done, (size_t)st.st_size - done, (off_t)done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			n = -errno;
			free(text);
			return n;
		}
		if (n == 0)
			break;
		done += (size_t)n;
	}
	*ret_text = text;
	return (int64_t)done;
}

static int read_journal(int fd, bool salvage, journal_visit visit, void *data,
			struct journal_damage *ret_damage, uint64_t *ret_size)
{
	char *text = NULL;
	int64_t size = read_all(fd, &text);
	int r;

	*ret_damage = (struct journal_damage){0};
	if (size < 0)
		return (int)size;
	r = visit_all(text, (uint64_t)size, salvage, visit, data, ret_damage);
	*ret_size = (uint64_t)size - ret_damage->torn_bytes;
	free(text);
	return r;
}

int journal_open(int dir_fd, const char *name, journal_visit visit, void *data,
		 struct journal_damage *ret_damage, struct journal *ret_journal)
{
	struct journal journal;
	int r;

	journal.fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (journal.fd < 0)
		return -errno;
	r = read_journal(journal.fd, false, visit, data, ret_damage, &journal.size);
	if (r == 0 && ret_damage->torn_bytes > 0 &&
	    ftruncate(journal.fd, (off_t)journal.size) < 0)
		r = -errno;
	if (r == 0)
		*ret_journal = journal;
	else
		close(journal.fd);
	return r;
}

int journal_salvage(int dir_fd, const char *name, journal_visit visit, void *data,
		    struct journal_damage *ret_damage)
{
	uint64_t size;
	int fd, r;

	fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = read_journal(fd, true, visit, data, ret_damage, &size);
	close(fd);
	return r;
}

int journal_append(struct journal *journal, uint32_t type, const void *payload, size_t length)
{
	struct header header = {.magic = MAGIC, .length = (uint32_t)length, .type = type};
	static const char zeroes[ALIGN];
	size_t size = record_size(length);
	struct iovec iov[] = {
		{&header, sizeof(header)},
		{(void *)payload, length},
		{(void *)zeroes, size - sizeof(header) - length},
	};
	ssize_t n;
	int r;

	if (length > JOURNAL_PAYLOAD_MAX)
		return -EMSGSIZE;
	header.crc = record_crc(&header, payload);
	do
		n = pwritev(journal->fd, iov, 3, (off_t)journal->size);
	while (n < 0 && errno == EINTR);
	if (n == (ssize_t)size) {
		journal->size += size;
		return 0;
	}
	r = n < 0 ? -errno : -ENOSPC;
	if (n > 0 && ftruncate(journal->fd, (off_t)journal->size) < 0)
		return -EIO; /* the next record is written over it */
	return r;
}

static void new_name(char *buf, const char *name)
{
	snprintf(buf, NAME_MAX, "%s.new", name);
}

int journal_new(int dir_fd, const char *name, struct journal *ret_journal)
{
	char path[NAME_MAX];
	int fd;

	new_name(path, name);
	fd = openat(dir_fd, path, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	*ret_journal = (struct journal){.fd = fd};
	return 0;
}

int journal_replace(int dir_fd, const char *name, const struct journal *journal)
{
	char path[NAME_MAX];

	new_name(path, name);
	return renameat(dir_fd, path, dir_fd, name) < 0 ? -errno : 0;
}

void journal_close(struct journal *journal)
{
	if (journal->fd >= 0)
		close(journal->fd);
	journal->fd = -1;
}
