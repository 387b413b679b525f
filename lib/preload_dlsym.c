/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * dlsym(RTLD_NEXT, "shmget"). A library behind this one that interposes shmget(2) itself, such
 * as libhugetlbfs with HUGETLB_SHM, sets SHM_HUGETLB and calls what it takes for the C
 * library's function: it gets the one here. Every other question goes on as it came, and with
 * the caller's return address, by which dlsym(3) knows who asks: hence the assembly.
 */
#include "preload.h"

#if defined(__x86_64__) && defined(__GLIBC__)

#include <dlfcn.h>
#include <string.h>

typedef void *(*dlsym_function)(void *handle, const char *name);

dlsym_function preload_dlsym_target(void *handle, const char *name)
	__attribute__((visibility("hidden"), used));

static void *answer_shmget(void *handle, const char *name)
{
	return (void *)shmget;
}

static dlsym_function find_dlsym(void)
{
	static dlsym_function found;

	if (!found)
		found = (dlsym_function)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
	if (!found)
		found = (dlsym_function)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
	return found;
}

/* The function that is to answer. */
dlsym_function preload_dlsym_target(void *handle, const char *name)
{
	if (handle == RTLD_NEXT && name && strcmp(name, "shmget") == 0 &&
	    !preload_is_looking_up())
		return answer_shmget;
	return find_dlsym();
}

__asm__(".text\n"
	".globl dlsym\n"
	".type dlsym, @function\n"
	"dlsym:\n"
	"	endbr64\n"
	"	pushq %rdi\n"
	"	pushq %rsi\n"
	"	subq $8, %rsp\n"
	"	call preload_dlsym_target\n"
	"	addq $8, %rsp\n"
	"	popq %rsi\n"
	"	popq %rdi\n"
	"	jmp *%rax\n"
	".size dlsym, .-dlsym\n");

#endif
