// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * File system ids of the calling thread. They are per thread (glibc does not spread them to the
 * others), and so are the securebits that keep the kernel from taking the capabilities away
 * with them: they are set on a thread's first use.
 */
#include "fs/caller.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/securebits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

static _Thread_local bool thread_prepared;
static _Thread_local bool assumed; /* ids that are not the process's own */

static int prepare_thread(void)
{
	int bits;

	if (thread_prepared)
		return 0;
	bits = prctl(PR_GET_SECUREBITS);
	if (bits < 0)
		return -errno;
	if (!(bits & SECBIT_NO_SETUID_FIXUP) &&
	    prctl(PR_SET_SECUREBITS, bits | SECBIT_NO_SETUID_FIXUP) < 0)
		return -errno;
	thread_prepared = true;
	return 0;
}

int caller_assume(uid_t uid, gid_t gid)
{
	int err;

	/* setfsuid(-1) only asks. */
	if (uid == (uid_t)-1 || gid == (gid_t)-1)
		return -EOVERFLOW;
	if (geteuid() != 0)
		return uid == geteuid() ? 0 : -EPERM;
	err = prepare_thread();
	if (err)
		return err;
	assumed = uid != geteuid() || gid != getegid();
	if (!assumed)
		return 0;
	setfsgid(gid);
	setfsuid(uid);
	/* They return what was before, whether they worked or not. */
	if ((gid_t)setfsgid(-1) != gid || (uid_t)setfsuid(-1) != uid) {
		caller_restore();
		return -EPERM;
	}
	return 0;
}

void caller_restore(void)
{
	if (!assumed)
		return;
	assumed = false;
	setfsuid(geteuid());
	setfsgid(getegid());
	assert((uid_t)setfsuid(-1) == geteuid());
}

static bool is_in_our_user_namespace(pid_t pid)
{
	struct stat ours, theirs;
	char path[40];

	snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	return stat("/proc/self/ns/user", &ours) == 0 && stat(path, &theirs) == 0 &&
	       ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
}

bool caller_has_capability(pid_t pid, int capability)
{
	uint64_t effective = 0;
	char path[40], line[128];
	FILE *status;

	/* 0: it is in a pid namespace that we do not see into. */
	if (pid <= 0 || !is_in_our_user_namespace(pid))
		return false;
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	status = fopen(path, "re");
	if (!status)
		return false;
	while (fgets(line, sizeof(line), status)) {
		if (sscanf(line, "CapEff: %" SCNx64, &effective) == 1)
			break;
	}
	fclose(status);
	return effective >> capability & 1;
}

int caller_give(int dir_fd, const char *name, gid_t gid)
{
	struct stat dir;

	if (geteuid() == 0 || gid == getegid())
		return 0;
	if (fstat(dir_fd, &dir) < 0)
		return -errno;
	if (dir.st_mode & S_ISGID)
		return 0; /* it has the directory's */
	return fchownat(dir_fd, name, (uid_t)-1, gid, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}
