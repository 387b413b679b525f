/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * exec. A program that gives its child an LD_PRELOAD of its own, in an environment that has
 * HUGEFUSE_MOUNT still, has replaced this library without meaning to: it is put in front again.
 * Who removes HUGEFUSE_MOUNT gets rid of it. Called between vfork(2) and exec too: the new
 * environment is on the stack.
 */
#include "preload.h"

#include <alloca.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PRELOAD "LD_PRELOAD="
#define LIBRARY "HUGEFUSE_PRELOAD="
#define MOUNT   "HUGEFUSE_MOUNT="

/* What the environment should have instead of its LD_PRELOAD. */
struct change {
	size_t nr;           /* entries */
	size_t at;           /* of LD_PRELOAD; nr: none */
	const char *library; /* NULL: nothing to change */
	const char *others;  /* what it preloads so far */
};

static struct change find_change(char *const *env)
{
	const char *mount = NULL;
	struct change change = {.others = ""};
	bool found = false;

	for (; env && env[change.nr]; change.nr++) {
		const char *entry = env[change.nr];

		if (strncmp(entry, PRELOAD, strlen(PRELOAD)) == 0 && !found) {
			found = true;
			change.at = change.nr;
			change.others = entry + strlen(PRELOAD);
		} else if (strncmp(entry, LIBRARY, strlen(LIBRARY)) == 0) {
			change.library = entry + strlen(LIBRARY);
		} else if (strncmp(entry, MOUNT, strlen(MOUNT)) == 0) {
			mount = entry;
		}
	}
	if (!found)
		change.at = change.nr;
	if (!mount || (change.library && strstr(change.others, change.library)))
		change.library = NULL;
	return change;
}

static size_t value_size(const struct change *change)
{
	return strlen(PRELOAD) + strlen(change->library) + 1 + strlen(change->others) + 1;
}

static void apply(const struct change *change, char *const *env, char **ret_env, char *value)
{
	snprintf(value, value_size(change), PRELOAD "%s%s%s", change->library,
		 *change->others ? ":" : "", change->others);
	memcpy(ret_env, env, change->nr * sizeof(*env));
	ret_env[change->nr] = NULL;
	if (change->at == change->nr)
		ret_env[change->nr + 1] = NULL;
	ret_env[change->at] = value;
}

/* An environment on the caller's stack. */
#define KEEP_PRELOADED(env)                                                       \
	do {                                                                      \
		struct change change_ = find_change(env);                         \
		if (change_.library) {                                            \
			char **new_ = alloca((change_.nr + 2) * sizeof(*new_));   \
			apply(&change_, env, new_, alloca(value_size(&change_))); \
			env = new_;                                               \
		}                                                                 \
	} while (0)

EXPORT int execve(const char *path, char *const argv[], char *const env[])
{
	KEEP_PRELOADED(env);
	return (int)syscall(SYS_execve, path, argv, env);
}

EXPORT int execv(const char *path, char *const argv[])
{
	return execve(path, argv, environ);
}

EXPORT int execvpe(const char *file, char *const argv[], char *const env[])
{
	KEEP_PRELOADED(env);
	return next_execvpe(file, argv, env);
}

EXPORT int execvp(const char *file, char *const argv[])
{
	return execvpe(file, argv, environ);
}

EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
		       const posix_spawnattr_t *attributes, char *const argv[],
		       char *const env[])
{
	KEEP_PRELOADED(env);
	return next_posix_spawn(false, pid, path, actions, attributes, argv, env);
}

EXPORT int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
			const posix_spawnattr_t *attributes, char *const argv[],
			char *const env[])
{
	KEEP_PRELOADED(env);
	return next_posix_spawn(true, pid, file, actions, attributes, argv, env);
}
