/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Journal: records in a file that is only appended to, each with its length and a CRC-32, so
 * that whoever reads it after a crash knows where it ends.
 *
 *	record: magic, length of the payload, type, CRC-32 of the two and the payload; payload;
 *		zeroes up to a multiple of 8
 *
 * What follows the last whole record is the tail of a write that was cut short, and is cut off.
 * A damaged record with a whole one behind it is no tail, and is refused.
 *
 * A written record survives the process, not the machine: the file is in /run, which the
 * machine's end takes too. Not thread-safe.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define JOURNAL_PAYLOAD_MAX 65536

struct journal {
	int fd;
	uint64_t size; /* bytes; of whole records */
};

/* Called for each record, in order. Non-zero ends the reading, and is what it returns. */
typedef int (*journal_visit)(void *data, uint32_t type, const void *payload, size_t length);

/* What was found besides records. */
struct journal_damage {
	uint64_t torn_bytes; /* cut off at the end */
	uint64_t offset;     /* of the first damaged record, with -EUCLEAN */
	uint64_t lost_bytes; /* journal_salvage(): in damaged places */
	uint64_t nr_records; /* that were whole */
};

uint32_t journal_crc32(const void *data, size_t length);

/*
 * Open, or make, the journal @name in @dir_fd, and read it. A torn tail is cut off. 0,
 * -EUCLEAN where a record in the middle is damaged, -errno, or what @visit returned.
 */
int journal_open(int dir_fd, const char *name, journal_visit visit, void *data,
		 struct journal_damage *ret_damage, struct journal *ret_journal);
/* Read what whole records there are, on both sides of damaged ones, and change nothing. */
int journal_salvage(int dir_fd, const char *name, journal_visit visit, void *data,
		    struct journal_damage *ret_damage);
/* Append a record: 0, or -errno with nothing changed. */
int journal_append(struct journal *journal, uint32_t type, const void *payload, size_t length);
/* Begin a journal that is to take the place of @name, empty; and let it. 0 or -errno. */
int journal_new(int dir_fd, const char *name, struct journal *ret_journal);
int journal_replace(int dir_fd, const char *name, const struct journal *journal);
void journal_close(struct journal *journal);
