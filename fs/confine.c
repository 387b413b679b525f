/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Capabilities by libcap-ng, system calls by libseccomp. A system call that is refused raises
 * SIGSYS, whose handler lets it fail with EPERM and notes its number; which it was is logged
 * later, since a handler cannot. So what is missing in the list has a name, and files are never
 * left half-way as a killed daemon would.
 */
#include "fs/confine.h"

#include <errno.h>
#include <linux/securebits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <ucontext.h>
#include <unistd.h>

#include "fs/log.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#undef HF_SECCOMP
#define HF_SECCOMP 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#undef HF_SECCOMP
#define HF_SECCOMP 0
#endif
#endif

/* The handler has to know where a system call's result is. */
#if !defined(__x86_64__) && !defined(__aarch64__)
#undef HF_SECCOMP
#define HF_SECCOMP 0
#endif

bool confine_has_capabilities(void)
{
	return HF_CAP_NG;
}

bool confine_has_filter(void)
{
	return HF_SECCOMP;
}

/* ---- capabilities ---- */

#if HF_CAP_NG

#include <cap-ng.h>

static const int needed[] = {
	/* to be whoever makes a request, and to look at files for others */
	CAP_SETUID,
	CAP_SETGID,
	CAP_CHOWN,
	CAP_DAC_OVERRIDE,
	CAP_DAC_READ_SEARCH,
	CAP_FOWNER,
	CAP_FSETID,
	CAP_MKNOD,
	CAP_SETFCAP,
	CAP_LEASE,
	/* FUSE passthrough, unmounting, the size of a tmpfs */
	CAP_SYS_ADMIN,
	/* what is mapped in a client, and on which node its pages are */
	CAP_SYS_PTRACE,
	CAP_SYS_NICE,
	/* limits, and huge pages beyond them */
	CAP_SYS_RESOURCE,
	CAP_IPC_LOCK,
};

static bool is_needed(int capability)
{
	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
		if (needed[i] == capability)
			return true;
	}
	return false;
}

int confine_capabilities(void)
{
	const capng_type_t all = CAPNG_EFFECTIVE | CAPNG_PERMITTED | CAPNG_INHERITABLE;
	capng_select_t select = CAPNG_SELECT_CAPS;

	if (geteuid() != 0)
		return 0;
	if (capng_get_caps_process() < 0)
		return -EINVAL;
	if (capng_have_capability(CAPNG_EFFECTIVE, CAP_SETPCAP)) {
		/* What threads set when they take on another user's ids (fs/caller.c). */
		if (prctl(PR_SET_SECUREBITS,
			  prctl(PR_GET_SECUREBITS) | SECBIT_NO_SETUID_FIXUP) < 0)
			return -errno;
		select = CAPNG_SELECT_BOTH;
	}
	for (int i = 0; i <= (int)CAP_LAST_CAP; i++) {
		if (!is_needed(i))
			capng_update(CAPNG_DROP, all | CAPNG_BOUNDING_SET, (unsigned int)i);
	}
	capng_update(CAPNG_DROP, CAPNG_AMBIENT, CAP_CHOWN); /* none of them, then */
	return capng_apply(select) < 0 ? -EPERM : 0;
}

#else

int confine_capabilities(void)
{
	return 0;
}

#endif

/* ---- system calls ---- */

#if HF_SECCOMP

#include <sched.h>
#include <seccomp.h>
#include <sys/socket.h>

#define NR_MAX 1024

static _Atomic uint64_t refused[NR_MAX / 64]; /* a bit each; logged ones stay */
static _Atomic uint64_t logged[NR_MAX / 64];
static _Atomic bool any_refused;

static const char *const allowed[] = {
	/* memory */
	"brk",
	"madvise",
	"mincore",
	"mmap",
	"mprotect",
	"mremap",
	"munmap",
	"userfaultfd",
	"get_mempolicy",
	"mbind",
	"move_pages",
	"set_mempolicy",
	"memfd_create",
	"membarrier",
	/* descriptors */
	"close",
	"close_range",
	"dup",
	"dup2",
	"dup3",
	"fcntl",
	"flock",
	"ioctl",
	"lseek",
	"pipe2",
	"pread64",
	"preadv",
	"preadv2",
	"pwrite64",
	"pwritev",
	"pwritev2",
	"read",
	"readv",
	"splice",
	"vmsplice",
	"write",
	"writev",
	"copy_file_range",
	"sendfile",
	"cachestat",
	/* files and directories */
	"access",
	"chdir",
	"chmod",
	"chown",
	"faccessat",
	"faccessat2",
	"fallocate",
	"fchdir",
	"fchmod",
	"fchmodat",
	"fchown",
	"fchownat",
	"fdatasync",
	"fstat",
	"fstatfs",
	"fsync",
	"ftruncate",
	"getcwd",
	"getdents64",
	"lchown",
	"link",
	"linkat",
	"lstat",
	"mkdir",
	"mkdirat",
	"mknodat",
	"name_to_handle_at",
	"newfstatat",
	"open",
	"open_by_handle_at",
	"openat",
	"openat2",
	"readlink",
	"readlinkat",
	"rename",
	"renameat",
	"renameat2",
	"rmdir",
	"stat",
	"statfs",
	"statx",
	"symlinkat",
	"syncfs",
	"truncate",
	"umask",
	"unlink",
	"unlinkat",
	"utimensat",
	"inotify_add_watch",
	"inotify_rm_watch",
	"umount2",
	"fspick",
	"fsconfig",
	"fgetxattr",
	"flistxattr",
	"fremovexattr",
	"fsetxattr",
	"getxattr",
	"lgetxattr",
	"listxattr",
	"llistxattr",
	"lremovexattr",
	"lsetxattr",
	"removexattr",
	"setxattr",
	/* threads, signals and waiting */
	"exit",
	"exit_group",
	"futex",
	"get_robust_list",
	"getpid",
	"getppid",
	"gettid",
	"rseq",
	"restart_syscall",
	"rt_sigaction",
	"rt_sigpending",
	"rt_sigprocmask",
	"rt_sigreturn",
	"rt_sigtimedwait",
	"sched_getaffinity",
	"sched_setaffinity",
	"sched_yield",
	"set_robust_list",
	"set_tid_address",
	"sigaltstack",
	"tgkill",
	"wait4",
	"waitid",
	"epoll_create1",
	"epoll_ctl",
	"epoll_pwait",
	"epoll_pwait2",
	"epoll_wait",
	"eventfd2",
	"poll",
	"ppoll",
	"pselect6",
	"select",
	"clock_getres",
	"clock_gettime",
	"clock_nanosleep",
	"gettimeofday",
	"nanosleep",
	"time",
	"getcpu",
	/* who is who, and what there is */
	"capget",
	"getegid",
	"geteuid",
	"getgid",
	"getgroups",
	"getresgid",
	"getresuid",
	"getrlimit",
	"getrusage",
	"getuid",
	"pidfd_open",
	"prctl",
	"prlimit64",
	"getrandom",
	"setfsgid",
	"setfsuid",
	"sysinfo",
	"uname",
	/* the control socket */
	"accept4",
	"bind",
	"connect",
	"getpeername",
	"getsockname",
	"getsockopt",
	"listen",
	"recvfrom",
	"recvmsg",
	"sendmsg",
	"sendto",
	"setsockopt",
	"shutdown",
};

static void set_result(ucontext_t *context, long result)
{
#ifdef __x86_64__
	context->uc_mcontext.gregs[REG_RAX] = result;
#else
	context->uc_mcontext.regs[0] = (uint64_t)result;
#endif
}

static void refuse(int signal, siginfo_t *info, void *context)
{
	unsigned int nr = (unsigned int)info->si_syscall;

	if (nr < NR_MAX)
		atomic_fetch_or(&refused[nr / 64], UINT64_C(1) << nr % 64);
	atomic_store(&any_refused, true);
	set_result(context, -EPERM);
}

/* Memory of this process alone, where a fault is to be an error instead of a signal. */
static int add_own_memory(scmp_filter_ctx filter, int nr)
{
	return seccomp_rule_add(filter, SCMP_ACT_ALLOW, nr, 1,
				SCMP_A0_32(SCMP_CMP_EQ, (uint32_t)getpid()));
}

static int add_rules(scmp_filter_ctx filter)
{
	int r = 0, nr;

	for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]) && r == 0; i++) {
		nr = seccomp_syscall_resolve_name(allowed[i]);
		/* Newer than this libseccomp, or not there on this machine. */
		if (nr >= 0)
			r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, nr, 0);
	}
	/*
	 * Threads, but no processes: there libc may have blocked all signals, so that no
	 * handler can be called. clone3(2) cannot be looked at, and libc does without.
	 */
	if (r == 0)
		r = seccomp_rule_add(
			filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
			SCMP_A0_64(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
				     SCMP_A0_64(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
	if (r == 0)
		r = add_own_memory(filter, SCMP_SYS(process_vm_writev));
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
				     SCMP_A0_64(SCMP_CMP_EQ, AF_UNIX));
	return r;
}

int confine_system_calls(void)
{
	struct sigaction action = {.sa_sigaction = refuse, .sa_flags = SA_SIGINFO};
	scmp_filter_ctx filter;
	int r;

	if (geteuid() != 0)
		return 0;
	filter = seccomp_init(SCMP_ACT_TRAP);
	if (!filter)
		return -ENOMEM;
	if (sigaction(SIGSYS, &action, NULL) < 0)
		r = -errno;
	else
		r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
	if (r == 0)
		r = add_rules(filter);
	if (r == 0)
		r = seccomp_load(filter);
	seccomp_release(filter);
	return r;
}

static void report_one(int nr)
{
	char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, nr);

	log_warning("system call %d (%s) was refused: the daemon is not to make it; "
		    "-o noconfine lets it",
		    nr, name ? name : "unknown");
	free(name);
}

void confine_report(void)
{
	uint64_t new;

	if (!atomic_exchange(&any_refused, false))
		return;
	for (int i = 0; i < NR_MAX / 64; i++) {
		new = atomic_load(&refused[i]);
		new &= ~atomic_fetch_or(&logged[i], new);
		for (int bit = 0; new != 0; bit++, new >>= 1) {
			if (new & 1)
				report_one(i * 64 + bit);
		}
	}
}

#else

int confine_system_calls(void)
{
	return 0;
}

void confine_report(void)
{
}

#endif
