/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Programs on disk: which file a name stands for, and whether ld.so preloads a library into it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The file that execvp(3) would run: 0, -ENOENT, -ENAMETOOLONG. */
int program_find(const char *name, char *ret_path, size_t size);

enum program_kind {
	PROGRAM_DYNAMIC, /* or a script, or anything that the kernel knows */
	PROGRAM_STATIC,  /* an ELF file without PT_INTERP */
	PROGRAM_SECURE,  /* set-user-id, set-group-id, or with file capabilities */
};

/* What the file is, of a script its interpreter; -errno where it cannot be read. */
int program_kind(const char *path);

/* One line on stderr where nothing is preloaded into it. */
void program_warn(const char *path, bool counters);
