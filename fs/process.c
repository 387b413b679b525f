/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reading /proc/PID. A process may go at any moment: what cannot be read is left as it was. */
#include "fs/process.h"

#include <fcntl.h>
#include <pthread.h>
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

/* This process's own namespaces, which it never leaves. */
struct own_namespace {
	const char *kind;
	char name[64];
	ssize_t length;
};

static struct own_namespace own_pid_ns = {.kind = "pid"}, own_mnt_ns = {.kind = "mnt"};
static pthread_once_t once = PTHREAD_ONCE_INIT;

static ssize_t read_namespace(const char *process, const char *kind, char name[64])
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/%s/ns/%s", process, kind);
	return readlink(path, name, 64);
}

static void read_own_namespaces(void)
{
	own_pid_ns.length = read_namespace("self", own_pid_ns.kind, own_pid_ns.name);
	own_mnt_ns.length = read_namespace("self", own_mnt_ns.kind, own_mnt_ns.name);
}

static bool is_other(pid_t pid, const struct own_namespace *own)
{
	char process[16], name[64];
	ssize_t length;

	snprintf(process, sizeof(process), "%d", pid);
	length = read_namespace(process, own->kind, name);
	return own->length > 0 && length > 0 &&
	       (own->length != length || memcmp(own->name, name, (size_t)length) != 0);
}

void process_read_of_user(pid_t pid, uid_t uid, struct process *ret_process)
{
	pthread_once(&once, read_own_namespaces);
	*ret_process = (struct process){.pid = pid, .ns_pid = pid, .uid = uid};
	read_comm(pid, ret_process->comm);
	ret_process->other_pid_ns = is_other(pid, &own_pid_ns);
	ret_process->other_mnt_ns = is_other(pid, &own_mnt_ns);
	if (ret_process->other_pid_ns)
		read_status(pid, ret_process);
}

void process_read(pid_t pid, struct process *ret_process)
{
	process_read_of_user(pid, 0, ret_process);
	if (!ret_process->other_pid_ns)
		read_status(pid, ret_process);
}

const char *process_namespaces(const struct process *process)
{
	if (process->other_pid_ns)
		return process->other_mnt_ns ? "pid,mnt" : "pid";
	return process->other_mnt_ns ? "mnt" : "-";
}
