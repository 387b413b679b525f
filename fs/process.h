/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What /proc says of a process. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct process {
	pid_t pid;    /* as the daemon sees it */
	pid_t ns_pid; /* as the process sees itself */
	uid_t uid;
	char comm[16];
	bool other_pid_ns, other_mnt_ns; /* than the daemon's */
};

/* Fill in what can be found of @pid; what cannot is as of one in the daemon's namespaces. */
void process_read(pid_t pid, struct process *ret_process);
/* The same, in fewer steps, of one that is known to be @uid's: a client waits for this. */
void process_read_of_user(pid_t pid, uid_t uid, struct process *ret_process);
/* "-", "pid", "mnt" or "pid,mnt": which namespaces are others. */
const char *process_namespaces(const struct process *process);
