/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Probe: userfaultfd, and mounts that only a child sees. */
#include "fs/probe_kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* include/uapi/linux/fuse.h and userfaultfd.h, which are older here and there. */
#define INIT_EXT           (1U << 30)
#define INIT_PASSTHROUGH   (1U << 5) /* in flags2 */
#define INIT_OVER_IO_URING (1U << 9) /* in flags2 */
#define INIT_FLAGS_OFFSET  12        /* in struct fuse_init_in */
#define UFFD_NEW           _IO(0xAA, 0x00)
#define UFFD_USER_ONLY     1
#define SCRATCH_DIR        "/proc" /* any that is there: in the child's namespace only */
#define INIT_TIMEOUT_MS    2000

static int open_userfaultfd(enum probe_uffd *ret_kind)
{
	int device = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC), fd = -1;

	*ret_kind = PROBE_UFFD_FULL;
	if (device >= 0) {
		fd = ioctl(device, UFFD_NEW, O_CLOEXEC);
		close(device);
	}
	if (fd < 0)
		fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (fd < 0) {
		*ret_kind = PROBE_UFFD_USER_MODE;
		fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_ONLY);
	}
	return fd;
}

void probe_userfaultfd(struct probe *probe)
{
	struct uffdio_api api = {.api = UFFD_API};
	enum probe_uffd kind;
	int fd = open_userfaultfd(&kind);

	if (fd < 0)
		return;
	if (ioctl(fd, UFFDIO_API, &api) == 0) {
		probe->uffd = kind;
		probe->uffd_features = api.features;
	}
	close(fd);
}

void probe_parse_init(struct probe *probe, const void *request, size_t len)
{
	struct fuse_in_header header;
	uint32_t flags[2] = {0, 0};
	size_t at = sizeof(header) + INIT_FLAGS_OFFSET;

	if (len < at + sizeof(flags[0]))
		return;
	memcpy(&header, request, sizeof(header));
	if (header.opcode != FUSE_INIT)
		return;
	memcpy(flags, (const char *)request + at,
	       len >= at + sizeof(flags) ? sizeof(flags) : sizeof(flags[0]));
	if (!(flags[0] & INIT_EXT))
		flags[1] = 0;
	probe->passthrough = flags[1] & INIT_PASSTHROUGH ? PROBE_YES : PROBE_NO;
	probe->fuse_uring = flags[1] & INIT_OVER_IO_URING ? PROBE_YES : PROBE_NO;
}

/* What the child finds out. */
struct findings {
	enum probe_answer huge_tmpfs;
	int fuse_error;
	const char *fuse_step; /* the same address in the parent: it is forked */
	ssize_t init_len;
	char init[512];
};

static bool write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return written;
}

/* Root of a user namespace, if it is not root. */
static bool enter_namespaces(void)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();
	char map[64];

	if (unshare(uid == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return false;
	if (uid != 0) {
		write_file("/proc/self/setgroups", "deny");
		snprintf(map, sizeof(map), "0 %u 1", uid);
		if (!write_file("/proc/self/uid_map", map))
			return false;
		snprintf(map, sizeof(map), "0 %u 1", gid);
		if (!write_file("/proc/self/gid_map", map))
			return false;
	}
	return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

static bool mount_fuse(struct findings *findings)
{
	/* more than FUSE_MIN_READ_BUFFER, which the kernel insists on */
	static char buf[65536];
	struct pollfd poll_fd = {.events = POLLIN};
	char options[96];

	findings->fuse_step = "cannot open /dev/fuse";
	poll_fd.fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (poll_fd.fd < 0)
		return false;
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0",
		 poll_fd.fd);
	findings->fuse_step = "cannot mount FUSE";
	if (mount("hugefuse-probe", SCRATCH_DIR, "fuse", MS_NOSUID | MS_NODEV, options) < 0)
		return false;
	findings->fuse_step = "no FUSE_INIT came";
	errno = ETIMEDOUT;
	if (poll(&poll_fd, 1, INIT_TIMEOUT_MS) != 1)
		return false;
	findings->init_len = read(poll_fd.fd, buf, sizeof(buf));
	if (findings->init_len <= 0)
		return false;
	if (findings->init_len > (ssize_t)sizeof(findings->init))
		findings->init_len = sizeof(findings->init);
	memcpy(findings->init, buf, (size_t)findings->init_len);
	return true;
}

static void find_out(struct findings *findings)
{
	findings->fuse_step = "no mount namespace to be had";
	if (!enter_namespaces()) {
		findings->fuse_error = errno;
		return;
	}
	if (mount("hugefuse-probe", SCRATCH_DIR, "tmpfs", 0, "size=4m,huge=within_size") == 0)
		findings->huge_tmpfs = PROBE_YES;
	else if (errno == EINVAL)
		findings->huge_tmpfs = PROBE_NO;
	if (!mount_fuse(findings))
		findings->fuse_error = errno;
}

static void run_child(int fd)
{
	struct findings findings = {.huge_tmpfs = PROBE_UNKNOWN, .init_len = -1};

	find_out(&findings);
	if (write(fd, &findings, sizeof(findings)) != sizeof(findings))
		_exit(1);
	_exit(0);
}

void probe_mounts(struct probe *probe)
{
	struct findings findings = {.fuse_step = "the probing process failed"};
	int fds[2];
	pid_t child;

	probe->passthrough = probe->fuse_uring = probe->huge_tmpfs = PROBE_UNKNOWN;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return;
	child = fork();
	if (child == 0)
		run_child(fds[1]);
	close(fds[1]);
	if (child > 0 && read(fds[0], &findings, sizeof(findings)) == sizeof(findings))
		probe->huge_tmpfs = findings.huge_tmpfs;
	close(fds[0]);
	if (child > 0)
		waitpid(child, NULL, 0);
	if (findings.init_len > 0)
		probe_parse_init(probe, findings.init, (size_t)findings.init_len);
	if (probe->passthrough == PROBE_UNKNOWN)
		snprintf(probe->fuse_why, sizeof(probe->fuse_why), "%s: %s", findings.fuse_step,
			 strerror(findings.fuse_error));
}
