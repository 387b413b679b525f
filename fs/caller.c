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
#include <linux/securebits.h>
#include <stdbool.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

static _Thread_local bool thread_prepared;

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
	if (geteuid() != 0)
		return;
	setfsuid(geteuid());
	setfsgid(getegid());
	assert((uid_t)setfsuid(-1) == geteuid());
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
