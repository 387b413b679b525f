/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Tokens: a short list, since a token lives for the time of one system call and one message. */
#include "fs/token.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fs/clock.h"

struct token {
	uint64_t key[2];
	struct mapping *mapping;
	pid_t pid;
	uid_t uid;
	int pidfd;
	uint64_t expires_ns;
	struct token *next;
};

void token_table_init(struct token_table *table)
{
	mutex_init(&table->lock, LOCK_RANK_CONTROL);
	table->tokens = NULL;
	table->nr_tokens = 0;
}

static void token_free(struct token *token)
{
	if (token->mapping)
		mapping_abort(token->mapping);
	close(token->pidfd);
	free(token);
}

void token_table_deinit(struct token_table *table)
{
	struct token *token;

	while ((token = table->tokens)) {
		table->tokens = token->next;
		token_free(token);
	}
	mutex_deinit(&table->lock);
}

static bool may_have_another_locked(const struct token_table *table, pid_t pid, uid_t uid)
{
	size_t of_process = 0, of_user = 0;

	for (const struct token *token = table->tokens; token; token = token->next) {
		of_process += token->pid == pid;
		of_user += token->uid == uid;
	}
	return of_process < TOKENS_PER_PROCESS && table->nr_tokens < TOKENS_MAX &&
	       (uid == 0 || of_user < TOKENS_PER_USER);
}

int token_new(struct token_table *table, struct mapping *mapping, pid_t pid, uid_t uid,
	      uint64_t ret_key[2])
{
	struct token *token = calloc(1, sizeof(*token));
	int r = 0;

	if (!token)
		return -ENOMEM;
	token->pid = pid;
	token->uid = uid;
	token->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (token->pidfd < 0)
		r = -errno;
	else if (getrandom(token->key, sizeof(token->key), 0) != sizeof(token->key))
		r = -EAGAIN;
	if (r < 0)
		goto out_free;
	token->expires_ns = clock_now_ns() + TOKEN_SECONDS * 1000000000ULL;
	mutex_lock(&table->lock);
	if (may_have_another_locked(table, pid, uid)) {
		token->mapping = mapping;
		token->next = table->tokens;
		table->tokens = token;
		table->nr_tokens++;
		ret_key[0] = token->key[0];
		ret_key[1] = token->key[1];
	} else {
		r = -EMFILE;
	}
	mutex_unlock(&table->lock);
	if (r == 0)
		return 0;
out_free:
	if (token->pidfd >= 0)
		close(token->pidfd);
	free(token);
	return r;
}

struct mapping *token_redeem(struct token_table *table, const uint64_t key[2], pid_t pid)
{
	struct mapping *mapping = NULL;
	struct token **link, *token;

	mutex_lock(&table->lock);
	for (link = &table->tokens; (token = *link); link = &token->next) {
		if (token->key[0] == key[0] && token->key[1] == key[1] && token->pid == pid)
			break;
	}
	if (token) {
		*link = token->next;
		table->nr_tokens--;
	}
	mutex_unlock(&table->lock);
	if (token) {
		mapping = token->mapping;
		token->mapping = NULL;
		token_free(token);
	}
	return mapping;
}

int token_cancel(struct token_table *table, const uint64_t key[2], pid_t pid)
{
	struct mapping *mapping = token_redeem(table, key, pid);

	if (!mapping)
		return -ENOENT;
	mapping_abort(mapping);
	return 0;
}

static bool is_over(const struct token *token, uint64_t now)
{
	struct pollfd poll_fd = {.fd = token->pidfd, .events = POLLIN};

	return now >= token->expires_ns || poll(&poll_fd, 1, 0) > 0;
}

void token_expire(struct token_table *table)
{
	struct token **link, *token, *expired = NULL;
	uint64_t now = clock_now_ns();

	mutex_lock(&table->lock);
	link = &table->tokens;
	while ((token = *link)) {
		if (!is_over(token, now)) {
			link = &token->next;
			continue;
		}
		*link = token->next;
		table->nr_tokens--;
		token->next = expired;
		expired = token;
	}
	mutex_unlock(&table->lock);
	while ((token = expired)) {
		expired = token->next;
		token_free(token);
	}
}
