/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Raw client: the protocol of include/hugefuse_protocol.h step by step, without libhugefuse, so
 * that a test can do each step wrong. Nothing here fails a test: for use in forked children,
 * too.
 */
#pragma once

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "hugefuse_protocol.h"

/* In a child, where cmocka's asserts are of no use: say what is not so, and end with 1. */
#define child_check(condition)                                                                 \
	do {                                                                                   \
		if (!(condition)) {                                                            \
			fprintf(stderr, "%s:%d: not so in a child: %s (errno %d)\n", __FILE__, \
				__LINE__, #condition, errno);                                  \
			return 1;                                                              \
		}                                                                              \
	} while (0)

/* HUGEFUSE_IOC_MAP. 0 or -errno. */
int raw_request(int fd, uint32_t flags, uint64_t offset, uint64_t length,
		struct hugefuse_ioc_map *ret_map);
/* A connection whose sends and receives wait @timeout_ms at most, or -errno. */
int raw_connect(const char *path, int timeout_ms);
/* A packet of any length with any descriptors; 0 or -errno. */
int raw_send(int sock, const void *packet, size_t len, const int *fds, unsigned int nr_fds);
/* A reply; 0, or -errno where there is none (-EPIPE: the daemon has closed the connection).
 * @ret_fd: -1 where none came; may be NULL. */
int raw_receive(int sock, struct hugefuse_reply *ret_reply, int *ret_fd);
/* Send and receive; the error of the reply, or of the connection. */
int raw_call(int sock, const struct hugefuse_msg *msg, const int *fds, unsigned int nr_fds,
	     struct hugefuse_reply *ret_reply, int *ret_fd);
/* HUGEFUSE_MSG_ATTACH with a token; the error of the reply. */
int raw_attach(int sock, const uint64_t token[2], struct hugefuse_reply *ret_reply,
	       int *ret_fd);

/* A mapping that was made step by step. */
struct raw_mapping {
	int sock, backing, uffd; /* -1: not there */
	struct hugefuse_ioc_map map;
	struct hugefuse_reply attached;
	char *addr;
	uint64_t length;
};

/* Request, connect and attach. 0 or -errno. */
int raw_mapping_attach(struct raw_mapping *mapping, int fd, uint32_t flags, uint64_t offset,
		       uint64_t length);
/* After that, map it (shared, or private with HUGEFUSE_MAP_PRIVATE), and hand @uffd over, on
 * which the memory is registered. 0 or -errno. */
int raw_mapping_register(struct raw_mapping *mapping, uint32_t flags, int uffd);
/* Close what is open of it. The memory stays. */
void raw_mapping_close(struct raw_mapping *mapping);

/* A userfaultfd with @features, initialised, or -errno. */
int raw_uffd(uint64_t features);
/* Register memory for missing pages. 0 or -errno. */
int raw_uffd_register(int uffd, void *addr, size_t length);
