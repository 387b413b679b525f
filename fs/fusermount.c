/* SPDX-License-Identifier: GPL-2.0-or-later */
/* fusermount3 as a child process, and /proc/self/mountinfo (proc(5) has its format). */
#include "fs/fusermount.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define PROGRAM     "fusermount3"
#define CONF        "/etc/fuse.conf"
#define TEXT_MAX    4096
#define REST_OF_ALL ":/usr/bin:/bin:/usr/local/bin"

extern char **environ;

/* As execvp(3) looks for it, and where it is without a PATH. */
static bool find_program(struct stat *ret_st, char *ret_path, size_t size)
{
	const char *env = getenv("PATH");
	char *all, *dir, *save = NULL;
	bool found = false;

	if (asprintf(&all, "%s" REST_OF_ALL, env ? env : "") < 0)
		return false;
	for (dir = strtok_r(all, ":", &save); dir && !found; dir = strtok_r(NULL, ":", &save)) {
		snprintf(ret_path, size, "%s/" PROGRAM, dir);
		found = access(ret_path, X_OK) == 0 && stat(ret_path, ret_st) == 0 &&
			S_ISREG(ret_st->st_mode);
	}
	free(all);
	return found;
}

static bool others_are_allowed(void)
{
	FILE *file = fopen(CONF, "re");
	char line[256], word[64];
	bool allowed = false;

	while (file && !allowed && fgets(line, sizeof(line), file))
		allowed = sscanf(line, " %63s", word) == 1 &&
			  strcmp(word, "user_allow_other") == 0;
	if (file)
		fclose(file);
	return allowed;
}

static int check_program(char *error, size_t error_size)
{
	char path[PATH_MAX];
	struct stat st;

	if (!find_program(&st, path, sizeof(path))) {
		snprintf(error, error_size,
			 PROGRAM " is missing, which mounts for users who are not root; "
				 "root installs it: apt-get install fuse3");
		return -ENOENT;
	}
	if ((!(st.st_mode & S_ISUID) || st.st_uid != 0) &&
	    getxattr(path, "security.capability", NULL, 0) <= 0) {
		snprintf(error, error_size,
			 "%s cannot mount: it is not set-user-id root; root makes it so: chmod "
			 "u+s %s",
			 path, path);
		return -EPERM;
	}
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) > 0) {
		snprintf(error, error_size,
			 PROGRAM " cannot mount: what started this process has forbidden new "
				 "privileges (no_new_privs)");
		return -EPERM;
	}
	return 0;
}

int fusermount_check(bool allow_other, char *error, size_t error_size)
{
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC), r = fd < 0 ? -errno : 0;

	if (r == 0) {
		close(fd);
	} else if (r == -ENOENT || r == -ENODEV || r == -ENXIO) {
		snprintf(error, error_size,
			 "there is no /dev/fuse; root loads it: modprobe fuse");
		return r;
	} else {
		snprintf(
			error, error_size,
			"/dev/fuse cannot be opened: %s; root lets users: chmod 0666 /dev/fuse",
			strerror(-r));
		return r;
	}
	r = check_program(error, error_size);
	if (r == 0 && allow_other && !others_are_allowed()) {
		snprintf(error, error_size,
			 "option 'allow_other' is root's, unless " CONF
			 " has a line 'user_allow_other'");
		r = -EPERM;
	}
	return r;
}

/* ---- what is said on standard error ---- */

void stderr_catch_begin(struct stderr_catch *catch)
{
	catch->saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	catch->file = memfd_create("stderr", MFD_CLOEXEC);
	if (catch->saved >= 0 && catch->file >= 0)
		dup2(catch->file, STDERR_FILENO);
}

static size_t read_all(int fd, char *ret_text)
{
	ssize_t len = pread(fd, ret_text, TEXT_MAX - 1, 0);

	ret_text[len > 0 ? len : 0] = '\0';
	return len > 0 ? (size_t)len : 0;
}

static void find_line(char *text, char *ret_line, size_t size)
{
	char *line, *save = NULL;
	bool own = false, is_own;

	ret_line[0] = '\0';
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		is_own = strncmp(line, PROGRAM, strlen(PROGRAM)) == 0;
		if (is_own || !own)
			snprintf(ret_line, size, "%s", line);
		own |= is_own;
	}
}

void stderr_catch_end(struct stderr_catch *catch, char *ret_line, size_t size)
{
	char text[TEXT_MAX] = "";

	if (catch->saved >= 0)
		dup2(catch->saved, STDERR_FILENO);
	if (catch->file >= 0)
		read_all(catch->file, text);
	find_line(text, ret_line, size);
	if (catch->saved >= 0)
		close(catch->saved);
	if (catch->file >= 0)
		close(catch->file);
}

/* ---- unmounting ---- */

static int run(const char *const *argv, int stderr_fd)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none;
	int r, status = -1;
	pid_t child;

	sigemptyset(&none);
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attr);
	posix_spawn_file_actions_adddup2(&actions, stderr_fd, STDERR_FILENO);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	r = -posix_spawnp(&child, PROGRAM, &actions, &attr, (char *const *)argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	if (r < 0)
		return r;
	while ((r = waitpid(child, &status, 0)) < 0 && errno == EINTR)
		;
	return r == child && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EPERM;
}

int fusermount_unmount(const char *mountpoint, bool lazy, char *error, size_t error_size)
{
	const char *argv[] = {PROGRAM, "-u", lazy ? "-uz" : "-u", "--", mountpoint, NULL};
	int fd = memfd_create("stderr", MFD_CLOEXEC), r;
	char text[TEXT_MAX] = "";

	if (fd < 0)
		return -errno;
	r = run(argv, fd);
	read_all(fd, text);
	close(fd);
	if (r < 0 && strstr(text, strerror(EBUSY)))
		r = -EBUSY;
	find_line(text, error, error_size);
	if (r < 0 && !error[0])
		snprintf(error, error_size, "cannot run " PROGRAM ": %s", strerror(-r));
	return r;
}

/* ---- what is mounted ---- */

/* "\040" and the like, in place. */
static void unescape(char *text)
{
	char *to = text;
	unsigned int code;

	for (; *text; text++) {
		if (*text == '\\' && sscanf(text, "\\%3o", &code) == 1 && strlen(text) >= 4) {
			*to++ = (char)code;
			text += 3;
		} else {
			*to++ = *text;
		}
	}
	*to = '\0';
}

static bool parse_line(char *line, const char *mountpoint, uid_t *ret_uid, gid_t *ret_gid)
{
	char *rest = strstr(line, " - "), *path = line, *uid, *gid;

	if (!rest)
		return false;
	*rest = '\0';
	rest += 3;
	for (int i = 0; i < 4 && path; i++)
		path = strchr(path + (i > 0), ' ');
	if (!path)
		return false;
	path[1 + strcspn(path + 1, " ")] = '\0';
	unescape(path + 1);
	if (strcmp(path + 1, mountpoint) != 0 ||
	    (strncmp(rest, "fuse.hugefuse ", 14) != 0 && strncmp(rest, "hugefuse ", 9) != 0))
		return false;
	uid = strstr(rest, "user_id=");
	gid = strstr(rest, "group_id=");
	*ret_uid = uid ? (uid_t)strtoul(uid + 8, NULL, 10) : 0;
	*ret_gid = gid ? (gid_t)strtoul(gid + 9, NULL, 10) : 0;
	return true;
}

bool fusermount_find(const char *mountpoint, uid_t *ret_uid, gid_t *ret_gid)
{
	FILE *file = fopen("/proc/self/mountinfo", "re");
	bool found = false;
	char *line = NULL;
	size_t size = 0;

	/* The last one is on top. */
	while (file && getline(&line, &size, file) >= 0)
		found |= parse_line(line, mountpoint, ret_uid, ret_gid);
	free(line);
	if (file)
		fclose(file);
	return found;
}
