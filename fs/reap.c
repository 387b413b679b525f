/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reaping: what crashed mounts have left is given back, but for what a process still has
 * mapped. A daemon that starts holds the lock on its state/ before there is anything to be
 * found.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fs/adopt.h"
#include "fs/daemon.h"
#include "fs/leftovers.h"
#include "fs/run_dir.h"

/* "in use by 123 (name), 456 (name)". */
static void print_users(const struct vma_list *vmas)
{
	char path[40], comm[32];
	pid_t last = 0;
	FILE *file;

	for (size_t i = 0; i < vmas->nr; i++) {
		if (vmas->vma[i].pid == last)
			continue;
		printf("%s %d", last ? "," : ", in use by process", vmas->vma[i].pid);
		last = vmas->vma[i].pid;
		snprintf(path, sizeof(path), "/proc/%d/comm", last);
		file = fopen(path, "re");
		if (file && fgets(comm, sizeof(comm), file))
			printf(" (%.*s)", (int)strcspn(comm, "\n"), comm);
		if (file)
			fclose(file);
	}
}

static void print_leftovers(const struct leftovers *leftovers, const char *what)
{
	printf("%s: %s: %" PRId64 " pages of %" PRIu64 " kB", leftovers->mountpoint, what,
	       leftovers->nr_pages, leftovers->page_size >> 10);
	if (!leftovers->is_thp)
		printf(" in %" PRId64 " files, %" PRId64 " added to the kernel's pool",
		       leftovers->nr_files, leftovers->nr_lent);
	print_users(&leftovers->vmas);
	putchar('\n');
}

static void reap_mount(const char *name, bool dry_run, bool force)
{
	char run_dir[PATH_MAX];
	struct leftovers leftovers;
	bool busy;
	int state_fd;
	pid_t pid;

	snprintf(run_dir, sizeof(run_dir), RUN_DIR "/%s", name);
	state_fd = run_dir_open(run_dir, &pid);
	if (state_fd < 0)
		return;
	if (pid || leftovers_read(run_dir, name, state_fd, &leftovers) < 0) {
		close(state_fd);
		return;
	}
	busy = leftovers.vmas.nr > 0 && !force;
	print_leftovers(&leftovers, busy      ? "kept"
				    : dry_run ? "to be given back"
					      : "given back");
	if (busy || dry_run) {
		close(state_fd);
	} else {
		adopt_detach_dead(leftovers.mountpoint);
		adopt_clean_up(run_dir, state_fd);
	}
	leftovers_free(&leftovers);
}

/* Whether it is one of the sockets that daemons make, and nobody listens on it. */
static bool is_stale_socket(const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t length = strlen(name);
	bool stale;
	int fd;

	if (length < 6 || name[0] != '.' || strcmp(name + length - 5, ".sock") != 0)
		return false;
	if (snprintf(address.sun_path, sizeof(address.sun_path), RUN_DIR "/%s", name) >=
	    (int)sizeof(address.sun_path))
		return false;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return false;
	stale = connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 &&
		errno == ECONNREFUSED;
	close(fd);
	return stale;
}

/* Clients of a dead mount that is kept come back to its socket. */
static bool is_named(const char *socket_name)
{
	char path[PATH_MAX], target[PATH_MAX], wanted[PATH_MAX];
	DIR *dir = opendir(RUN_DIR);
	const struct dirent *entry;
	bool named = false;
	ssize_t length;

	snprintf(wanted, sizeof(wanted), RUN_DIR "/%.255s", socket_name);
	while (dir && !named && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), RUN_DIR "/%s/state/socket", entry->d_name);
		length = readlink(path, target, sizeof(target) - 1);
		if (length < 0)
			continue;
		target[length] = '\0';
		named = strcmp(target, wanted) == 0;
	}
	if (dir)
		closedir(dir);
	return named;
}

static void reap_socket(const char *name, bool dry_run)
{
	char path[PATH_MAX];

	if (!is_stale_socket(name) || is_named(name))
		return;
	snprintf(path, sizeof(path), RUN_DIR "/%s", name);
	printf("%s: a socket that nobody listens on: %s\n", path,
	       dry_run ? "to be removed" : "removed");
	if (!dry_run)
		unlink(path);
}

static int reap_one(const char *mountpoint, bool dry_run, bool force)
{
	char run_dir[PATH_MAX];
	int r = run_dir_path(RUN_DIR, mountpoint, run_dir);

	if (r < 0) {
		fprintf(stderr, "hugefuse: reap: %s: %s\n", mountpoint, strerror(-r));
		return EXIT_FAILED;
	}
	reap_mount(strrchr(run_dir, '/') + 1, dry_run, force);
	return EXIT_OK;
}

int daemon_reap(const char *mountpoint, bool dry_run, bool force)
{
	struct dirent **entries;
	int nr;

	if (mountpoint)
		return reap_one(mountpoint, dry_run, force);
	nr = scandir(RUN_DIR, &entries, NULL, alphasort);
	if (nr < 0 && errno == ENOENT)
		return EXIT_OK;
	if (nr < 0) {
		fprintf(stderr, "hugefuse: reap: " RUN_DIR ": %s\n", strerror(errno));
		return EXIT_FAILED;
	}
	for (int i = 0; i < nr; i++) {
		if (entries[i]->d_name[0] != '.')
			reap_mount(entries[i]->d_name, dry_run, force);
	}
	for (int i = 0; i < nr; i++) {
		reap_socket(entries[i]->d_name, dry_run);
		free(entries[i]);
	}
	free(entries);
	return EXIT_OK;
}
