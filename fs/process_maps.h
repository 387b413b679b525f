/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Process maps: which processes have files of one filesystem mapped, and where, as
 * /proc/PID/maps tells. What a process maps later is not in it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct vma {
	pid_t pid;
	uint64_t start, end; /* addresses */
	uint64_t offset;     /* in the file, bytes */
	uint64_t ino;
	bool shared;
};

struct vma_list {
	struct vma *vma; /* by process, in order of addresses */
	size_t nr;
};

/* All of the files on the device @device; 0 or -ENOMEM, -errno. */
int vma_list_read(dev_t device, struct vma_list *ret_list);
/* Those of the process @pid alone. */
int vma_list_read_process(pid_t pid, dev_t device, struct vma_list *ret_list);
/* Add one at the end. 0 or -ENOMEM. */
int vma_list_add(struct vma_list *list, const struct vma *vma);
void vma_list_free(struct vma_list *list);

/* When the process began, in the kernel's own unit; 0: there is none. */
uint64_t process_start_time(pid_t pid);
/* The same. -ESRCH: it has ended; or another -errno: that cannot be told. */
int process_read_start_time(pid_t pid, uint64_t *ret_start);
