/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which processes have which files mapped. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "fs/mount.h"

struct holder {
	uint64_t ino;
	pid_t pid;
};

struct holders {
	struct holder *list; /* sorted, each pair once */
	size_t nr;
};

/* Direct mappings, and where files are mapped through FUSE the plain ones. 0 or -ENOMEM. */
int holders_init(struct mount *mount, struct holders *ret_holders);
void holders_deinit(struct holders *holders);
/* Print the processes of file @ino: "1,22,333" or "-"; ",..." for those beyond the first 32. */
void holders_print(const struct holders *holders, uint64_t ino, FILE *out);
