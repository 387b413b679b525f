/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Texts of the files in .hugefuse. Each writes whole lines to @out; 0 or -errno.
 */
#pragma once

#include <stdio.h>

#include "fs/mount.h"

/* The columns of /proc/lock_stat, version 0.4 (kernel/locking/lockdep_proc.c), for all ranks.
 */
int stats_text_lock_stat(struct mount *mount, FILE *out);
/* What stands for the path of a file that only mappings hold: its name is not known any more.
 */
#define STATS_ORPHAN_PATH "? (deleted)"

/* Print a string with the octal escapes of /proc/mounts. */
void stats_text_escape(FILE *out, const char *string);
/* The pool's counters and those of its nodes, of one instant. */
int stats_text_pool(struct mount *mount, FILE *out);
/* One line: the options in force. */
int stats_text_options(struct mount *mount, FILE *out);
/*
 * A line for every regular file: those with a name, found by walking the tree, and those that
 * are unlinked and still used. Strings with octal escapes as in /proc/mounts.
 */
int stats_text_files(struct mount *mount, FILE *out);
/* A line for each range of pages that is reserved or instantiated, in files and private
 * mappings. */
int stats_text_regions(struct mount *mount, FILE *out);
/* A line for the mount and for each directory with a quota. */
int stats_text_tenants(struct mount *mount, FILE *out);
/* A line for each queue of huge pages that may be split. */
int stats_text_split(struct mount *mount, FILE *out);
/* A line for each file, and each private mapping, that has reserved pages. */
int stats_text_reserved(struct mount *mount, FILE *out);
/* The files of .hugefuse/kernel. */
int stats_text_meminfo(struct mount *mount, FILE *out);
int stats_text_persistent(struct mount *mount, FILE *out);
int stats_text_nr(struct mount *mount, FILE *out);
int stats_text_overcommit(struct mount *mount, FILE *out);
int stats_text_free(struct mount *mount, FILE *out);
int stats_text_resv(struct mount *mount, FILE *out);
int stats_text_surplus(struct mount *mount, FILE *out);
