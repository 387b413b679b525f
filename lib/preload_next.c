/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The next definitions of the interposed functions, looked up by the constructor. dlsym(3) is
 * not called before: it may need what is not there yet.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client.h"
#include "preload.h"
#include "system.h"

static struct {
	void *(*mmap)(void *, size_t, int, int, int, off_t);
	int (*munmap)(void *, size_t);
	void *(*mremap)(void *, size_t, size_t, int, ...);
	int (*memfd_create)(const char *, unsigned int);
	int (*statfs)(const char *, struct statfs *);
	int (*fstatfs)(int, struct statfs *);
	int (*shmget)(key_t, size_t, int);
	void *(*shmat)(int, const void *, int);
	int (*shmdt)(const void *);
	int (*shmctl)(int, int, struct shmid_ds *);
	int (*execvpe)(const char *, char *const[], char *const[]);
	__typeof__(posix_spawn) *posix_spawn, *posix_spawnp;
} next; /* set by the constructor */

static volatile bool looking_up; /* dlsym(3) is declared as a leaf, and is not one here */

bool preload_is_looking_up(void)
{
	return looking_up;
}

#define FIND(name) (next.name = (__typeof__(next.name))dlsym(RTLD_NEXT, #name))

static __attribute__((constructor)) void preload_init(void)
{
	looking_up = true;
	FIND(mmap);
	FIND(munmap);
	FIND(mremap);
	FIND(memfd_create);
	FIND(statfs);
	FIND(fstatfs);
	FIND(shmget);
	FIND(shmat);
	FIND(shmdt);
	FIND(shmctl);
	FIND(execvpe);
	FIND(posix_spawn);
	FIND(posix_spawnp);
	looking_up = false;
	client_install();
}

void *next_mmap(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
{
	if (next.mmap)
		return next.mmap(addr, length, prot, flags, fd, offset);
	return system_mmap(addr, length, prot, flags, fd, offset);
}

int next_munmap(void *addr, size_t length)
{
	return next.munmap ? next.munmap(addr, length) : system_munmap(addr, length);
}

void *next_mremap(void *addr, size_t old_length, size_t new_length, int flags, void *to)
{
	if (next.mremap)
		return next.mremap(addr, old_length, new_length, flags, to);
	return system_mremap(addr, old_length, new_length, flags, to);
}

int next_memfd_create(const char *name, unsigned int flags)
{
	if (next.memfd_create)
		return next.memfd_create(name, flags);
	return (int)syscall(SYS_memfd_create, name, flags);
}

int next_statfs(const char *path, struct statfs *buf)
{
	return next.statfs ? next.statfs(path, buf) : (int)syscall(SYS_statfs, path, buf);
}

int next_fstatfs(int fd, struct statfs *buf)
{
	return next.fstatfs ? next.fstatfs(fd, buf) : (int)syscall(SYS_fstatfs, fd, buf);
}

int next_shmget(key_t key, size_t size, int flags)
{
	if (next.shmget)
		return next.shmget(key, size, flags);
	return (int)syscall(SYS_shmget, key, size, flags);
}

void *next_shmat(int id, const void *addr, int flags)
{
	if (next.shmat)
		return next.shmat(id, addr, flags);
	return (void *)syscall(SYS_shmat, id, addr, flags);
}

int next_shmdt(const void *addr)
{
	return next.shmdt ? next.shmdt(addr) : (int)syscall(SYS_shmdt, addr);
}

int next_shmctl(int id, int command, struct shmid_ds *buf)
{
	if (next.shmctl)
		return next.shmctl(id, command, buf);
	return (int)syscall(SYS_shmctl, id, command, buf);
}

int next_execvpe(const char *file, char *const argv[], char *const env[])
{
	if (next.execvpe)
		return next.execvpe(file, argv, env);
	errno = ENOSYS;
	return -1;
}

int next_posix_spawn(bool search, pid_t *pid, const char *path,
		     const posix_spawn_file_actions_t *actions,
		     const posix_spawnattr_t *attributes, char *const argv[], char *const env[])
{
	__typeof__(posix_spawn) *spawn = search ? next.posix_spawnp : next.posix_spawn;

	return spawn ? spawn(pid, path, actions, attributes, argv, env) : ENOSYS;
}

static bool is_verbose(void)
{
	const char *value = getenv("HUGEFUSE_VERBOSE");

	return value && *value && strcmp(value, "0") != 0;
}

void preload_say(const char *format, ...)
{
	int saved_errno = errno;
	char line[512];
	va_list args;
	int len;

	if (!is_verbose())
		return;
	len = snprintf(line, sizeof(line), "hugefuse: ");
	va_start(args, format);
	len += vsnprintf(line + len, sizeof(line) - (size_t)len, format, args);
	va_end(args);
	if (len > (int)sizeof(line) - 2)
		len = (int)sizeof(line) - 2;
	line[len++] = '\n';
	if (write(STDERR_FILENO, line, (size_t)len) < 0) {
		/* nobody to tell */
	}
	errno = saved_errno;
}
