/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * libhugefuse-preload.so: the C library's calls on huge pages, served from a hugefuse mount.
 *
 * Each interposed function serves what it can by the functions of lib/client.h, and hands
 * everything else to the next definition of its name, unchanged, with errno as that leaves it.
 * It may be called before any constructor has run, from a signal handler, or between vfork(2)
 * and exec: until preload_init() has looked the next definitions up, and wherever there is
 * none, the system call itself is made. Nothing here takes memory from malloc(3).
 *
 * The environment says which mount it is: HUGEFUSE_MOUNT, as `hugefuse run` sets it. With
 * HUGEFUSE_VERBOSE=1 each request for huge pages that goes to the kernel is a line on stderr.
 */
#pragma once

#include <limits.h>
#include <spawn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/shm.h>
#include <sys/types.h>
#include <sys/vfs.h>

#define EXPORT __attribute__((visibility("default")))

/* The next definitions; system calls of the same meaning where that is not known. */
void *next_mmap(void *addr, size_t length, int prot, int flags, int fd, off_t offset);
int next_munmap(void *addr, size_t length);
void *next_mremap(void *addr, size_t old_length, size_t new_length, int flags, void *to);
int next_memfd_create(const char *name, unsigned int flags);
int next_statfs(const char *path, struct statfs *buf);
int next_fstatfs(int fd, struct statfs *buf);
int next_shmget(key_t key, size_t size, int flags);
void *next_shmat(int id, const void *addr, int flags);
int next_shmdt(const void *addr);
int next_shmctl(int id, int command, struct shmid_ds *buf);

int next_execvpe(const char *file, char *const argv[], char *const env[]);
int next_posix_spawn(bool search, pid_t *pid, const char *path,
		     const posix_spawn_file_actions_t *actions,
		     const posix_spawnattr_t *attributes, char *const argv[],
		     char *const env[]);
/* Whether the next definitions are just being looked up. */
bool preload_is_looking_up(void);

/* One line on stderr where HUGEFUSE_VERBOSE asks for it. Keeps errno. */
void preload_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The mount: $HUGEFUSE_MOUNT. NULL, with @ret_why, where there is none to be used. */
const char *preload_mount(const char **ret_why);
/*
 * Whether @fd is a file or directory on a hugefuse mount whose pages only the direct way
 * reaches, and the mount's page size. Keeps errno.
 */
bool preload_is_direct(int fd, size_t *ret_page_size);
/*
 * Whether the mount serves pages of the size that @page_shift asks for (log2; 0: the default
 * huge page size), and that size. -ENODEV, after a word about it, where it is the kernel that
 * has to serve the request, called @what.
 */
int preload_check(const char *what, unsigned int page_shift, size_t *ret_page_size);
/*
 * A new file of the mount without a name, open for reading and writing, of @size bytes, whose
 * pages have the size that @page_shift asks for. -errno; -ENODEV as preload_check().
 */
int preload_unlinked_file(const char *what, unsigned int page_shift, size_t size,
			  size_t *ret_page_size);
/* Huge page size, log2, that MAP_HUGETLB without a size means. 0: none. */
unsigned int preload_default_shift(void);

/* munmap(2) has removed [addr, addr + length). */
void preload_shm_unmapped(const char *addr, size_t length);
