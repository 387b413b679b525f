/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reading /proc/PID. A process may go at any moment: what cannot be read is left as it was. */
#include "fs/process.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void read_comm(pid_t pid, char comm[16])
{
	char path[40];
	ssize_t len = 0;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		len = read(fd, comm, 15);
		close(fd);
	}
	if (len <= 0) {
		strcpy(comm, "?");
		return;
	}
	comm[len] = '\0';
	comm[strcspn(comm, "\n")] = '\0';
}

/* "Uid:" and "NSpid:", whose last number is the innermost namespace's. */
static void read_line(const char *line, struct process *process)
{
	const char *last;

	if (strncmp(line, "Uid:\t", 5) == 0)
		process->uid = (uid_t)strtoul(line + 5, NULL, 10);
	else if (strncmp(line, "NSpid:\t", 7) == 0 && (last = strrchr(line, '\t')))
		process->ns_pid = (pid_t)strtol(last + 1, NULL, 10);
}

static void read_status(pid_t pid, struct process *process)
{
	char path[40], line[256];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	if (!file)
		return;
	while (fgets(line, sizeof(line), file)) {
		read_line(line, process);
		if (strncmp(line, "NSpid:", 6) == 0)
			break;
	}
	fclose(file);
}

/* Whether the process is in another namespace of that kind than this one. */
static bool is_other(pid_t pid, const char *kind)
{
	char path[48], own[64], its[64];
	ssize_t own_len, its_len;

	snprintf(path, sizeof(path), "/proc/self/ns/%s", kind);
	own_len = readlink(path, own, sizeof(own));
	snprintf(path, sizeof(path), "/proc/%d/ns/%s", pid, kind);
	its_len = readlink(path, its, sizeof(its));
	return own_len > 0 && its_len > 0 &&
	       (own_len != its_len || memcmp(own, its, (size_t)own_len) != 0);
}

void process_read(pid_t pid, struct process *ret_process)
{
	*ret_process = (struct process){.pid = pid, .ns_pid = pid};
	read_comm(pid, ret_process->comm);
	read_status(pid, ret_process);
	ret_process->other_pid_ns = is_other(pid, "pid");
	ret_process->other_mnt_ns = is_other(pid, "mnt");
}

const char *process_namespaces(const struct process *process)
{
	if (process->other_pid_ns)
		return process->other_mnt_ns ? "pid,mnt" : "pid";
	return process->other_mnt_ns ? "mnt" : "-";
}
