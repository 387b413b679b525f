/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What libhugefuse and the daemon say to each other: ioctls on a file of the mount, and
 * messages on the control socket (SOCK_SEQPACKET, one message a packet). All numbers in host
 * byte order: both are on one machine. Reserved fields are zero. Sizes are asserted.
 *
 * To map, a client
 *
 *	1. asks by HUGEFUSE_IOC_MAP on the open file. The daemon checks access and length,
 *	   reserves, and answers a token that is good once, for this process, for a few
 *	   seconds;
 *	2. sends the token with HUGEFUSE_MSG_ATTACH. The answer carries a descriptor of the
 *	   pages, open in the access mode of the file;
 *	3. maps the descriptor, registers its userfaultfds over the mapping, if any are
 *	   needed, and hands them over with HUGEFUSE_MSG_REGISTER.
 *
 * When the daemon has died, the kernel serves the client's faults. The one that takes the mount
 * over listens on the same socket. A client that has connected again shows what it has mapped,
 * each range by HUGEFUSE_MSG_REATTACH, and goes on with 3.
 */
#pragma once

#include <linux/ioctl.h>
#include <stdint.h>

#define HUGEFUSE_PROTOCOL_VERSION 1

#define HUGEFUSE_MAX_SHARDS      16 /* userfaultfds of one mapping */
#define HUGEFUSE_SOCKET_PATH_MAX 96

/* How a range is mapped. */
#define HUGEFUSE_MAP_WRITE     0x1 /* PROT_WRITE is or may be asked for */
#define HUGEFUSE_MAP_PRIVATE   0x2 /* MAP_PRIVATE */
#define HUGEFUSE_MAP_NORESERVE 0x4 /* MAP_NORESERVE */

struct hugefuse_ioc_map {
	/* in */
	uint32_t version;
	uint32_t flags;  /* HUGEFUSE_MAP_* */
	uint64_t offset; /* bytes, a multiple of the page size */
	uint64_t length; /* bytes; rounded up to pages */
	/* out */
	uint64_t token[2];
	uint64_t page_size;
	uint32_t shards; /* into how many userfaultfds to divide it; 0: none is needed */
	uint32_t reserved;
	char socket[HUGEFUSE_SOCKET_PATH_MAX]; /* "": map the file itself */
	/* in: the memory policy of the thread, for a file that has none */
	uint64_t policy_nodes; /* nodes 0 to 63, a bit each */
	uint32_t policy;       /* MPOL_* without flags; 0: it has none */
	uint32_t reserved2;
};
_Static_assert(sizeof(struct hugefuse_ioc_map) == 168, "ABI");

struct hugefuse_ioc_reserve {
	uint64_t offset, length; /* in, bytes */
	uint64_t nr_reserved;    /* out: pages newly reserved */
};
_Static_assert(sizeof(struct hugefuse_ioc_reserve) == 24, "ABI");

struct hugefuse_ioc_query {
	uint64_t page_size;
	uint64_t size;                                               /* of the file, bytes */
	uint64_t file_reserved, file_instantiated;                   /* pages */
	uint64_t pool_total, pool_free, pool_reserved, pool_surplus; /* pages */
	uint64_t mappings; /* of the file, by all processes */
	uint64_t reserved[3];
};
_Static_assert(sizeof(struct hugefuse_ioc_query) == 96, "ABI");

/* What a mount's pages are. */
#define HUGEFUSE_BACKING_HUGETLB 0
#define HUGEFUSE_BACKING_THP     1 /* mmap(2) goes to the pages by itself */

/* Of the mount, also on a directory. Costs no more than the call: nothing is counted. */
struct hugefuse_ioc_mount {
	uint64_t page_size; /* bytes */
	uint32_t backing;   /* HUGEFUSE_BACKING_* */
	uint32_t reserved;
};
_Static_assert(sizeof(struct hugefuse_ioc_mount) == 16, "ABI");

/* A token that will not be used: what it reserves goes back at once. */
struct hugefuse_ioc_cancel {
	uint64_t token[2]; /* in */
};
_Static_assert(sizeof(struct hugefuse_ioc_cancel) == 16, "ABI");

#define HUGEFUSE_IOC_MAP     _IOWR('H', 0x70, struct hugefuse_ioc_map)
#define HUGEFUSE_IOC_RESERVE _IOWR('H', 0x71, struct hugefuse_ioc_reserve)
#define HUGEFUSE_IOC_QUERY   _IOR('H', 0x72, struct hugefuse_ioc_query)
#define HUGEFUSE_IOC_MOUNT   _IOR('H', 0x73, struct hugefuse_ioc_mount)
#define HUGEFUSE_IOC_CANCEL  _IOW('H', 0x74, struct hugefuse_ioc_cancel)

enum hugefuse_msg_type {
	HUGEFUSE_MSG_ATTACH = 1, /* token -> mapping id, descriptor */
	HUGEFUSE_MSG_REGISTER,   /* mapping id, address, userfaultfds -> */
	HUGEFUSE_MSG_UNMAP,      /* mapping id, range: it has been unmapped */
	HUGEFUSE_MSG_POPULATE,   /* mapping id, range: instantiate it now */
	HUGEFUSE_MSG_FORK, /* the parent's mapping id and key -> a mapping id of one's own; with
			    * an address it is registered too */
	HUGEFUSE_MSG_REATTACH, /* the same of one's own, which a daemon had that died */
};

struct hugefuse_msg {
	uint32_t type;
	uint32_t nr_shards;    /* REGISTER, FORK: descriptors that come with it */
	uint64_t mapping;      /* id; FORK: the parent's */
	uint64_t key[2];       /* ATTACH: the token; FORK, REATTACH: the mapping's key */
	uint64_t address;      /* bytes */
	uint64_t length;       /* bytes */
	uint64_t shard_length; /* of nr_shards: bytes that each but the last covers */
	uint64_t offset;       /* FORK, REATTACH: in the file, bytes */
};
_Static_assert(sizeof(struct hugefuse_msg) == 64, "ABI");

struct hugefuse_reply {
	int32_t error; /* 0 or a negative errno */
	uint32_t shards;
	uint64_t mapping;
	uint64_t key[2]; /* ATTACH, FORK: what a forked child shows to attach for itself */
	uint64_t reserved[4];
};
_Static_assert(sizeof(struct hugefuse_reply) == 64, "ABI");
