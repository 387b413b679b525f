/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Userfaultfds: making them, as far as this process may, and covering a mapping with them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * Make userfaultfds over [addr, addr + length), each for @shard_length bytes but the last.
 * Returns how many, with the descriptors in @ret_fds (at least as many as that takes), or 0
 * where this process may not have them for this mapping: then the kernel serves the faults.
 * Async-signal-safe.
 */
unsigned int fault_fd_cover(void *addr, size_t length, size_t shard_length, int *ret_fds);
void fault_fd_close(const int *fds, unsigned int nr);
