/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * shmget(2) with SHM_HUGETLB, and what follows it. The kernel's own segment stays, without a
 * page of memory: it gives the id, the key, the permissions, the number of attachments and the
 * end of everything, also for processes that die, and ipcs(1) shows it. The memory is that of a
 * file .sysv-shm/NAMESPACE-ID on the mount, which everybody who attaches the segment maps,
 * while the segment itself is attached somewhere else and not touched.
 *
 * IPC_RMID removes the file. While the segment is still attached a symbolic link stays in its
 * place: it says EIDRM to whoever wants to attach it still, which the kernel would allow.
 */
#undef _FILE_OFFSET_BITS
#include "preload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client.h"
#include "hugefuse.h"

#define DIRECTORY      ".sysv-shm"
#define MAX_ATTACHED   512
#define HUGE_FLAGS     (SHM_HUGETLB | SHM_HUGE_BITS)
#define SHM_HUGE_SHIFT 26
#define SHM_HUGE_MASK  0x3f
#define SHM_HUGE_BITS  ((int)((unsigned int)SHM_HUGE_MASK << SHM_HUGE_SHIFT))
#define MAKE_TRIES     8

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

/* What this process, or the one that it was forked from, has attached. */
struct attached {
	_Atomic(char *) addr; /* NULL: free; BUSY: of whoever has put that there */
	size_t length;
	void *segment; /* where the kernel's one is attached */
	int id;
};

static struct attached attachments[MAX_ATTACHED];
static char busy_mark;
#define BUSY (&busy_mark)

/* ---- the table ---- */

static struct attached *take_slot(void)
{
	for (int i = 0; i < MAX_ATTACHED; i++) {
		char *expected = NULL;

		if (atomic_compare_exchange_strong(&attachments[i].addr, &expected, BUSY))
			return &attachments[i];
	}
	return NULL;
}

static void free_slot(struct attached *slot)
{
	atomic_store(&slot->addr, NULL);
}

/* The attachment at @addr, taken out of the table. */
static struct attached *take_attached(const char *addr)
{
	for (int i = 0; i < MAX_ATTACHED; i++) {
		char *expected = (char *)addr;

		if (atomic_load(&attachments[i].addr) == addr &&
		    atomic_compare_exchange_strong(&attachments[i].addr, &expected, BUSY))
			return &attachments[i];
	}
	return NULL;
}

/* ---- the files ---- */

static int directory_path(char *path, size_t size, bool make)
{
	const char *why, *mount = preload_mount(&why);

	if (!mount || snprintf(path, size, "%s/" DIRECTORY, mount) >= (int)size)
		return -ENODEV;
	/* Everybody's, as SysV shared memory is. */
	if (make && mkdir(path, 0700) == 0 && chmod(path, 01777) < 0)
		return -errno;
	return 0;
}

static int file_path(int id, char *path, size_t size, bool make)
{
	char directory[PATH_MAX];
	struct stat st;
	int r;

	r = directory_path(directory, sizeof(directory), make);
	if (r < 0)
		return r;
	if (stat("/proc/self/ns/ipc", &st) < 0)
		st.st_ino = 0;
	return snprintf(path, size, "%s/%lu-%d", directory, (unsigned long)st.st_ino, id) <
			       (int)size
		       ? 0
		       : -ENAMETOOLONG;
}

/* The file of a segment that has just been made: one that is there is an earlier one's. */
static int make_file(int id, size_t size, int flags, size_t page_size)
{
	char path[PATH_MAX];
	size_t length = (size + page_size - 1) & ~(page_size - 1);
	int fd = -1, r;

	r = file_path(id, path, sizeof(path), true);
	for (int i = 0; r == 0 && fd < 0 && i < MAKE_TRIES; i++) {
		fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd < 0 && (errno != EEXIST || unlink(path) < 0))
			r = -errno;
	}
	if (fd < 0)
		return r < 0 ? r : -EEXIST;
	if (ftruncate(fd, (off_t)length) < 0 || fchmod(fd, (mode_t)flags & 0777) < 0 ||
	    (!(flags & SHM_NORESERVE) && hugefuse_reserve(fd, 0, length) < 0)) {
		r = -errno;
		unlink(path);
	}
	close(fd);
	return r;
}

/* The segment is to go, or has gone. */
static void remove_file(int id)
{
	int saved_errno = errno;
	struct shmid_ds segment;
	char path[PATH_MAX];
	struct stat st;

	if (file_path(id, path, sizeof(path), false) == 0 && lstat(path, &st) == 0 &&
	    unlink(path) == 0 && syscall(SYS_shmctl, id, IPC_STAT, &segment) == 0 &&
	    symlink("removed", path) < 0)
		preload_say("shared memory segment %d is removed, but still attached", id);
	errno = saved_errno;
}

/* ---- the calls ---- */

static int failed(int r)
{
	errno = -r;
	return -1;
}

static int kernel_shmget(key_t key, size_t size, int flags)
{
	return (int)syscall(SYS_shmget, key, size, flags);
}

/* A new segment: its id; an old one: its id too, and false in @ret_is_new. */
static int get_segment(key_t key, size_t size, int flags, bool *ret_is_new)
{
	int id;

	*ret_is_new = true;
	if (key == IPC_PRIVATE || flags & IPC_EXCL)
		return kernel_shmget(key, size, flags);
	for (;;) {
		*ret_is_new = flags & IPC_CREAT;
		if (flags & IPC_CREAT) {
			id = kernel_shmget(key, size, flags | IPC_EXCL);
			if (id >= 0 || errno != EEXIST)
				return id;
		}
		*ret_is_new = false;
		id = kernel_shmget(key, size, flags & ~IPC_CREAT);
		if (id >= 0 || errno != ENOENT || !(flags & IPC_CREAT))
			return id;
	}
}

/*
 * What is not served. A library behind this one may set SHM_HUGETLB and come back, see
 * preload_dlsym.c: then it is the kernel's turn.
 */
static int pass_on(key_t key, size_t size, int flags)
{
	static _Thread_local bool passing_on;
	int id;

	if (passing_on)
		return kernel_shmget(key, size, flags);
	passing_on = true;
	id = next_shmget(key, size, flags);
	passing_on = false;
	return id;
}

static int get_huge(key_t key, size_t size, int flags)
{
	int saved_errno = errno, id, r;
	size_t page_size;
	bool is_new;

	r = preload_check("shmget(SHM_HUGETLB)",
			  (unsigned int)flags >> SHM_HUGE_SHIFT & SHM_HUGE_MASK, &page_size);
	if (r < 0)
		return pass_on(key, size, flags);
	id = get_segment(key, size, (flags & ~HUGE_FLAGS) | SHM_NORESERVE, &is_new);
	if (id < 0 || !is_new || (key != IPC_PRIVATE && !(flags & IPC_CREAT)))
		return id;
	r = make_file(id, size, flags, page_size);
	if (r < 0)
		syscall(SYS_shmctl, id, IPC_RMID, NULL);
	if (r == -EACCES || r == -EROFS || r == -EPERM) {
		preload_say(
			"shmget(SHM_HUGETLB) goes to the kernel: cannot make a file in " DIRECTORY
			": %s",
			strerror(-r));
		return pass_on(key, size, flags);
	}
	if (r < 0)
		return failed(r == -ENOSPC ? -ENOMEM : r);
	errno = saved_errno;
	return id;
}

EXPORT int shmget(key_t key, size_t size, int flags)
{
	return flags & SHM_HUGETLB ? get_huge(key, size, flags) : pass_on(key, size, flags);
}

/* Whose file it is must be who has made the segment. */
static int check_owner(int fd, int id, size_t *ret_length)
{
	struct shmid_ds segment;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (syscall(SYS_shmctl, id, IPC_STAT, &segment) == 0 &&
	    st.st_uid != segment.shm_perm.cuid && st.st_uid != segment.shm_perm.uid)
		return -EACCES;
	*ret_length = (size_t)st.st_size;
	return 0;
}

static int map_segment(int fd, size_t length, const void *addr, int flags, void **ret_addr)
{
	int prot = PROT_READ | (flags & SHM_RDONLY ? 0 : PROT_WRITE) |
		   (flags & SHM_EXEC ? PROT_EXEC : 0);
	uintptr_t at = (uintptr_t)addr;
	int map_flags = MAP_SHARED, r;

	if (addr && at % (uintptr_t)getpagesize() != 0) {
		if (!(flags & SHM_RND))
			return -EINVAL;
		at -= at % (uintptr_t)getpagesize();
	}
	if (flags & SHM_REMAP && !addr)
		return -EINVAL;
	if (addr)
		map_flags |= flags & SHM_REMAP ? MAP_FIXED : MAP_FIXED_NOREPLACE;
	r = client_mmap((void *)at, length, prot, map_flags, fd, 0, ret_addr);
	return r == -EEXIST ? -EINVAL : r;
}

static int attach(int id, int fd, const void *addr, int flags, void **ret_addr)
{
	struct attached *slot = take_slot();
	size_t length = 0;
	int r;

	if (!slot)
		return -ENOMEM;
	slot->id = id;
	slot->segment = (void *)syscall(SYS_shmat, id, NULL, flags & SHM_RDONLY);
	r = slot->segment == (void *)-1 ? -errno : check_owner(fd, id, &length);
	if (r == 0)
		r = map_segment(fd, length, addr, flags, ret_addr);
	if (r < 0) {
		if (slot->segment != (void *)-1)
			syscall(SYS_shmdt, slot->segment);
		free_slot(slot);
		return r;
	}
	slot->length = length;
	atomic_store(&slot->addr, (char *)*ret_addr);
	return 0;
}

EXPORT void *shmat(int id, const void *addr, int flags)
{
	int saved_errno = errno, fd, r;
	void *mapped = (void *)-1;
	char path[PATH_MAX];

	if (file_path(id, path, sizeof(path), false) < 0)
		return next_shmat(id, addr, flags);
	fd = open(path, (flags & SHM_RDONLY ? O_RDONLY : O_RDWR) | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno != ELOOP && errno != EACCES) {
		errno = saved_errno;
		return next_shmat(id, addr, flags);
	}
	r = fd < 0 ? (errno == ELOOP ? -EIDRM : -errno) : attach(id, fd, addr, flags, &mapped);
	if (fd >= 0)
		close(fd);
	errno = r < 0 ? -r : saved_errno;
	return r < 0 ? (void *)-1 : mapped;
}

/* The segment itself is detached; if that was the last time, what is left of its file goes. */
static void detach(struct attached *slot)
{
	struct shmid_ds segment;
	char path[PATH_MAX];
	int id = slot->id;

	syscall(SYS_shmdt, slot->segment);
	free_slot(slot);
	if (syscall(SYS_shmctl, id, IPC_STAT, &segment) < 0 &&
	    (errno == EINVAL || errno == EIDRM) &&
	    file_path(id, path, sizeof(path), false) == 0)
		unlink(path);
}

EXPORT int shmdt(const void *addr)
{
	struct attached *slot = addr ? take_attached(addr) : NULL;
	int saved_errno = errno, r;

	if (!slot)
		return next_shmdt(addr);
	r = client_munmap((void *)addr, slot->length);
	if (r < 0) {
		atomic_store(&slot->addr, (char *)addr);
		return failed(r);
	}
	detach(slot);
	errno = saved_errno;
	return 0;
}

/* Of a part that is unmapped the kernel's nattch would tell nothing either. */
void preload_shm_unmapped(const char *addr, size_t length)
{
	int saved_errno = errno;

	for (int i = 0; i < MAX_ATTACHED; i++) {
		char *at = atomic_load(&attachments[i].addr);

		if (at && at != BUSY && at >= addr &&
		    at + attachments[i].length <= addr + length && take_attached(at))
			detach(&attachments[i]);
	}
	errno = saved_errno;
}

EXPORT int shmctl(int id, int command, struct shmid_ds *buf)
{
	int saved_errno = errno, r = next_shmctl(id, command, buf);
	char path[PATH_MAX];

	if (r < 0)
		return r;
	if (command == IPC_RMID)
		remove_file(id);
	if (command == IPC_SET && file_path(id, path, sizeof(path), false) == 0 &&
	    access(path, F_OK) == 0 &&
	    (lchown(path, buf->shm_perm.uid, buf->shm_perm.gid) < 0 ||
	     chmod(path, buf->shm_perm.mode & 0777) < 0))
		preload_say("shared memory segment %d: cannot change its file: %m", id);
	errno = saved_errno;
	return r;
}
