/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tokens: a pending mapping, between the ioctl that asked for it, where the kernel and FUSE
 * have checked who may, and the message that attaches it. A token is 128 random bits, is good
 * once, for the process that asked, and for TOKEN_SECONDS; its reservation goes back when it is
 * not used, at the latest a moment after its process has exited.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "fs/lock.h"
#include "fs/mapping.h"

#define TOKEN_SECONDS      10
#define TOKENS_PER_PROCESS 64
#define TOKENS_MAX         4096
#define TOKENS_PER_USER    (TOKENS_MAX / 2) /* but root */

struct token;

struct token_table {
	struct mutex lock;    /* LOCK_RANK_CONTROL */
	struct token *tokens; /* lock */
	size_t nr_tokens;     /* lock */
};

void token_table_init(struct token_table *table);
/* Abort what is pending. */
void token_table_deinit(struct token_table *table);

/*
 * A token for @mapping, which it takes over on success. -EMFILE: the process, its user, or all
 * together, have too many; -ESRCH: it has exited.
 */
int token_new(struct token_table *table, struct mapping *mapping, pid_t pid, uid_t uid,
	      uint64_t ret_key[2]);
/* The mapping of the token @key of process @pid, whose token is used up; NULL where there is
 * none. */
struct mapping *token_redeem(struct token_table *table, const uint64_t key[2], pid_t pid);
/* Abort the pending mapping of a token of process @pid's. 0, -ENOENT. */
int token_cancel(struct token_table *table, const uint64_t key[2], pid_t pid);
/* Abort the pending mappings whose time is over or whose process has exited. */
void token_expire(struct token_table *table);
