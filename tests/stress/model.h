/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Model: what hugetlbfs does, page by page, as far as a program and the pool's counters can see
 * it. It follows the kernel's mm/hugetlb.c and fs/hugetlbfs/inode.c (6.18), with the names of
 * the functions at each step, and predicts the result of every operation, the content of every
 * page, and the counters behind it exactly. It needs no locks: one operation after the other.
 *
 * Peculiarities of the kernel that it has to know, since hugefuse has (or shares) them:
 *
 *  - An owner's anonymous page that is unmapped becomes a reservation again only while the
 * whole machine has no surplus page (__unmap_hugepage_range(); hugetlb_lock is taken for that
 *    look); all pages of one munmap are looked at before the first is freed (mmu_gather).
 *  - Punching and truncating also drop the private copies in that range, which other
 * filesystems keep when a hole is punched (hugetlb_vmdelete_list()).
 *  - An owner that writes to a page that it shares with a forked child, when no page is left,
 *    takes it away from the child, which gets SIGBUS at its next missing page
 *    (unmap_ref_private(), HPAGE_RESV_UNMAPPED).
 *
 * What depends on the order of mappings in an address space, or what hugefuse does otherwise,
 * so that the operations avoid it or are made in another way:
 *
 *  - Pages that come back refill min_size as soon as the use is below it, and all of them that
 *    come back at once, not just what is missing (hugepage_subpool_put_pages()). So when the
 * use falls from above min_size to below it, what is left reserved depends on how the pages
 * were grouped (into VMAs, files). In the script it falls to min_size exactly, and then below.
 *  - After such an excess a page whose reservation is restored may be a surplus one and leave
 *    (free_huge_folio()): more is reserved than is free. hugefuse keeps that page. Not reached.
 *  - An owner's private page that is given up by MADV_DONTNEED, or taken by punching or
 *    truncating, is reserved again in hugefuse always; on hugetlbfs not while there are surplus
 *    pages, see above. The script has none of that then.
 *  - ftruncate(2) to the same or a larger size drops the reservations behind the new end on
 *    hugetlbfs (hugetlbfs_setattr() calls hugetlb_vmtruncate() always). hugefuse keeps them:
 *    who has a reservation never fails. On hugetlbfs a worker lets a file grow by a mapping.
 *  - fallocate(2) that fails half-way keeps what it had allocated on hugetlbfs
 *    (hugetlbfs_fallocate()), and gives it back in hugefuse. The script has none.
 *  - MAP_POPULATE takes one page after the other, and ends at the first that cannot be had
 *    (populate_vma_page_range()). hugefuse populates by several threads: where there are too
 * few pages, it is not known which of them are there in the end, and those behind that are
 *    reserved are. The script does not populate then.
 *  - Punching a page that the file does not have drops private copies of it on hugetlbfs, but
 *    not in hugefuse, which punches what is there. The script avoids it.
 *  - unmap_ref_private() looks for the child's page at the owner's address, for each mapping of
 *    that page of the file, also another one in the owner's own address space: then it takes
 * the page, with its data, from the owner, and spoils the other mapping, which gets SIGBUS from
 *    there on. The script has no such write where a process maps that page twice.
 *  - Where a parent unmaps private pages that a child still shares, hugetlbfs restores the
 *    reservation twice (once in the parent's vm_ops->close, once when the child lets the page
 *    go) and never gives one of the two back. The script unmaps nothing while a child lives.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define NR_NAMES      4
#define NR_WORKERS    4
#define NR_PROCS      (2 * NR_WORKERS) /* each worker may have a forked child */
#define NR_SLOTS      4                /* mappings of a process */
#define FILE_PAGES    12
#define NR_FILES      (NR_NAMES + NR_PROCS * NR_SLOTS)
#define NR_ANON       128
#define NO_PAGE       (-1)
#define CHILD_OF(w)   ((w) + NR_WORKERS)
#define RESULT_SIGBUS 1000 /* besides errno values in result.error */
#define RESULT_EOF    1001

/* Pages; the same fields as the kernel's counters, and what statfs(2) says is used. */
struct counts {
	long nr, free, resv, surplus, used;
};

struct result {
	int error;      /* 0, errno, RESULT_SIGBUS or RESULT_EOF */
	uint64_t value; /* what was read */
};

enum op_type {
	OP_MAP,
	OP_READ,
	OP_WRITE,
	OP_UNMAP,       /* hugefuse_munmap() */
	OP_PLAIN_UNMAP, /* munmap(2) */
	OP_DONTNEED,
	OP_REMOVE,
	OP_PUNCH,
	OP_FALLOCATE,
	OP_TRUNCATE,
	OP_PREAD,
	OP_PWRITE,
	OP_UNLINK,
	OP_FORK,
	OP_CHILD_EXIT,
	OP_CHILD_KILL,
	OP_KILL,
	OP_BURST, /* all workers at once touch everything that cannot fail */
	NR_OP_TYPES,
};

#define OP_PRIVATE   0x01
#define OP_NORESERVE 0x02
#define OP_READONLY  0x04
#define OP_POPULATE  0x08
#define OP_UNALIGNED 0x10 /* a size in bytes that is no multiple of the page */

struct op {
	enum op_type type;
	int proc;     /* who does it */
	int name;     /* file, for those on a file */
	int slot;     /* mapping, for those on memory */
	int from, nr; /* pages: of the file for MAP and those on a file, of the mapping else */
	unsigned int flags;
	uint64_t value;                      /* to write */
	uint16_t safe[NR_WORKERS][NR_SLOTS]; /* OP_BURST: a bit for each page */
};

struct model_file {
	bool exists;
	int name;                                  /* or -1: unlinked */
	int nr_maps;                               /* with its pages in some address space */
	int size;                                  /* pages */
	bool cached[FILE_PAGES], resv[FILE_PAGES]; /* page cache and resv_map */
	uint64_t value[FILE_PAGES];
};

struct model_anon {
	int nr_refs;
	bool restore; /* HPG_restore_reserve */
	uint64_t value;
};

struct model_map {
	bool exists;
	int file, from, nr;
	unsigned int flags; /* of OP_MAP */
	bool owner;         /* HPAGE_RESV_OWNER */
	bool poisoned;      /* HPAGE_RESV_UNMAPPED */
	bool mapped[FILE_PAGES];
	bool consumed[FILE_PAGES]; /* an owner's reservation is used */
	int anon[FILE_PAGES];      /* or NO_PAGE */
};

struct model_proc {
	bool alive;
	struct model_map map[NR_SLOTS];
};

struct model {
	struct counts counts;
	long max, min, spool_resv, overcommit;
	struct model_file file[NR_FILES];
	struct model_anon anon[NR_ANON];
	struct model_proc proc[NR_PROCS];
};

/* The counters: model_pool.c. */
void model_pool_init(struct model *model, long max, long min);
/* Reserve @nr pages, hugetlb_reserve_pages(): whether that worked. Give @nr back. */
bool model_reserve(struct model *model, long nr);
void model_unreserve(struct model *model, long nr);
/* Take a page, alloc_hugetlb_folio(), @charged: there is a reservation for it. And free one. */
bool model_take_page(struct model *model, bool charged);
void model_free_page(struct model *model, bool restore);

/* Whole operations: model.c. */
void model_init(struct model *model, long max, long min);
struct result model_apply(struct model *model, const struct op *op);
/* The file of a name, made if there is none. */
struct model_file *model_open(struct model *model, int name);
struct model_file *model_find(struct model *model, int name);
struct model_map *model_map_of(struct model *model, const struct op *op);
bool model_has_child(const struct model *model);
/* Fill in op->safe: what can be touched in any order with one outcome, and cannot fail. */
void model_find_safe(const struct model *model, struct op *op);

/* Faults and what takes pages away: model_pages.c. */
struct result model_touch(struct model *model, struct model_map *map, int page, bool write,
			  uint64_t value);
int model_instantiate(struct model *model, struct model_file *file, int idx);
/* Drop the private copies of pages [from, to) of the mapping; then free what nobody has. */
void model_zap(struct model *model, struct model_map *map, int from, int to);
void model_flush(struct model *model);
void model_punch(struct model *model, struct model_file *file, int from, int to);
void model_truncate(struct model *model, struct model_file *file, int size);
void model_unmap(struct model *model, struct model_map *map, int from, int to);
void model_exit(struct model *model, struct model_proc *proc);
void model_put_file(struct model *model, struct model_file *file);
