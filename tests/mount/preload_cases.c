/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A program that knows nothing of hugefuse and uses huge pages in the ways that there are. It
 * prints what every call came to, and is run twice by test_preload.c: on the kernel's huge
 * pages, and under hugefuse run. Both must print the same.
 *
 * usage: preload-cases CASE DIRECTORY, a hugetlbfs of 16 pages, or a hugefuse mount
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MAP_HUGE_SHIFT
#define MAP_HUGE_SHIFT 26
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#define HUGE_SIZE(shift) ((shift) << MAP_HUGE_SHIFT)

#define PAGE     (2UL << 20)
#define RW       (PROT_READ | PROT_WRITE)
#define ANON     (MAP_ANONYMOUS | MAP_HUGETLB)
#define SHM_KEY  0x68667374
#define SHM_MODE 0600

static const char *directory;
static sigjmp_buf jump;

static const char *outcome(long r)
{
	return r == -1 ? strerrorname_np(errno) : "ok";
}

static void say(const char *what, long r)
{
	printf("%s: %s\n", what, outcome(r));
}

static char *map_at(const char *what, void *addr, size_t length, int flags, int fd,
		    off_t offset)
{
	char *p = mmap(addr, length, RW, flags, fd, offset);

	say(what, (long)p);
	return p;
}

static char *map(const char *what, size_t length, int flags)
{
	return map_at(what, NULL, length, flags, -1, 0);
}

static void on_signal(int number)
{
	siglongjmp(jump, number);
}

/* What touching the byte comes to. */
static void touch(const char *what, volatile char *addr, int value)
{
	int number = sigsetjmp(jump, 1);

	if (number == 0) {
		if (value)
			*addr = (char)value;
		printf("%s: %d\n", what, *addr);
	} else {
		printf("%s: %s\n", what, sigabbrev_np(number));
	}
}

static void in_child(void (*function)(char *), char *data)
{
	pid_t child;
	int status;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		function(data);
		fflush(stdout);
		_exit(0);
	}
	waitpid(child, &status, 0);
	printf("child: %x\n", status);
}

static void touch_in_child(char *p)
{
	touch("child sees", p, 0);
	touch("child writes", p + 1, 5);
}

/* ---- cases ---- */

static void case_anonymous(void)
{
	char *p = map("shared", 4 * PAGE, MAP_SHARED | ANON), *q;

	touch("zero", p, 0);
	touch("write", p + 4 * PAGE - 1, 3);
	in_child(touch_in_child, p);
	touch("the child's", p + 1, 0);
	say("unmap a part, unaligned", munmap(p, PAGE / 2));
	say("unmap a part", munmap(p + PAGE, PAGE));
	touch("hole", p + PAGE, 0);
	touch("rest", p + 4 * PAGE - 1, 0);
	say("unmap the rest", munmap(p, 4 * PAGE));
	say("unmap again", munmap(p, 4 * PAGE));
	q = map("private", PAGE + 4096, MAP_PRIVATE | ANON);
	touch("second page", q + 2 * PAGE - 1, 9);
	in_child(touch_in_child, q);
	touch("not the child's", q + 1, 0);
	say("unmap unaligned", munmap(q, PAGE + 4096));
	say("unmap aligned", munmap(q, 2 * PAGE));
}

static void case_limits(void)
{
	char *p = map("all", 16 * PAGE, MAP_SHARED | ANON);

	map("one more", PAGE, MAP_SHARED | ANON);
	map("one more, private", PAGE, MAP_PRIVATE | ANON);
	p[0] = 1;
	say("unmap", munmap(p, 16 * PAGE));
	p = map("all again", 16 * PAGE, MAP_PRIVATE | ANON);
	memset(p, 1, 16 * PAGE);
	say("unmap", munmap(p, 16 * PAGE));
	map("too many", 17 * PAGE, MAP_SHARED | ANON);
	p = map("noreserve", 17 * PAGE, MAP_SHARED | MAP_NORESERVE | ANON);
	for (int i = 0; i < 16; i++)
		p[i * PAGE] = 1;
	touch("none left", p + 16 * PAGE, 1);
	say("unmap", munmap(p, 17 * PAGE));
}

static void case_arguments(void)
{
	char *p, *normal;

	map("no length", 0, MAP_SHARED | ANON);
	map("no type", PAGE, ANON);
	map("both types", PAGE, 0xc | ANON);
	map("2 MB", PAGE, MAP_SHARED | ANON | HUGE_SIZE(21));
	map("1 MB", PAGE, MAP_SHARED | ANON | HUGE_SIZE(20));
	map("much too long", SIZE_MAX / 2, MAP_SHARED | ANON);
	p = mmap(NULL, 8 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	p += PAGE - (size_t)p % PAGE;
	map_at("fixed", p, PAGE, MAP_FIXED | MAP_SHARED | ANON, -1, 0);
	touch("fixed", p, 1);
	map_at("fixed, unaligned", p + 4096, PAGE, MAP_FIXED | MAP_SHARED | ANON, -1, 0);
	map_at("not replaced", p, PAGE, MAP_FIXED_NOREPLACE | MAP_SHARED | ANON, -1, 0);
	map_at("replaced", p, PAGE, MAP_FIXED | MAP_PRIVATE | ANON, -1, 0);
	touch("replaced", p, 0);
	normal = mmap(p, PAGE, RW, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	say("small pages over it", normal == p ? 0 : -1);
	map("all, as nothing is left of it", 15 * PAGE, MAP_SHARED | ANON);
}

static void case_protection(void)
{
	char *p = mmap(NULL, 2 * PAGE, PROT_NONE, MAP_PRIVATE | ANON, -1, 0);

	say("map", (long)p);
	touch("no access", p, 0);
	say("mprotect, unaligned", mprotect(p, 4096, RW));
	say("mprotect", mprotect(p, 2 * PAGE, RW));
	touch("access", p, 7);
	say("madvise", madvise(p, PAGE, MADV_DONTNEED));
	touch("zero again", p, 0);
	say("mprotect", mprotect(p + PAGE, PAGE, PROT_READ));
	touch("read only", p + PAGE, 1);
	say("mlock", mlock(p, PAGE));
	say("msync", msync(p, 2 * PAGE, MS_SYNC));
	p = mmap(NULL, PAGE, RW | PROT_EXEC, MAP_SHARED | ANON, -1, 0);
	say("executable", (long)p);
}

static void case_memfd(void)
{
	int fd = memfd_create("x", MFD_HUGETLB | MFD_CLOEXEC), plain;
	char *p, *q, name[300];
	struct statfs fs;
	struct stat st;

	say("memfd", fd);
	printf("cloexec %d\n", fcntl(fd, F_GETFD));
	say("fstat", fstat(fd, &st));
	printf("size %ld links %ld\n", (long)st.st_size, (long)st.st_nlink);
	say("fstatfs", fstatfs(fd, &fs));
	printf("type %lx, pages of %ld\n", (long)fs.f_type, (long)fs.f_bsize);
	say("ftruncate", ftruncate(fd, 4 * PAGE));
	p = map_at("map", NULL, 4 * PAGE, MAP_SHARED, fd, 0);
	q = map_at("map again", NULL, 2 * PAGE, MAP_SHARED, fd, 2 * PAGE);
	touch("write", p + 3 * PAGE, 8);
	touch("read", q + PAGE, 0);
	map_at("unaligned offset", NULL, PAGE, MAP_SHARED, fd, 4096);
	close(fd);
	touch("closed", p, 4);
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	say("long name", memfd_create(name, MFD_HUGETLB));
	say("unknown flag", memfd_create("x", MFD_HUGETLB | 0x4000));
	say("pages of 2 MB", memfd_create("x", MFD_HUGETLB | (21U << 26)));
	plain = memfd_create("x", 0);
	say("plain", plain);
	say("plain statfs", fstatfs(plain, &fs));
	printf("type %lx\n", (long)fs.f_type);
}

static void case_files(void)
{
	char path[4096], *p, *q;
	struct statfs fs;
	struct stat st;
	int fd;

	say("statfs", statfs(directory, &fs));
	printf("type %lx, pages of %ld, %ld of %ld free\n", (long)fs.f_type, (long)fs.f_bsize,
	       (long)fs.f_bfree, (long)fs.f_blocks);
	snprintf(path, sizeof(path), "%s/file", directory);
	fd = open(path, O_RDWR | O_CREAT, 0600);
	say("open", fd);
	p = map_at("map", NULL, 2 * PAGE, MAP_SHARED, fd, 0);
	fstat(fd, &st);
	printf("size %ld\n", (long)st.st_size);
	touch("write", p + PAGE, 6);
	q = map_at("private", NULL, 2 * PAGE, MAP_PRIVATE, fd, 0);
	touch("private sees", q + PAGE, 0);
	touch("private writes", q + PAGE, 2);
	touch("shared has", p + PAGE, 0);
	say("truncate", ftruncate(fd, PAGE));
	touch("behind the end", p + PAGE, 0);
	map_at("with MAP_HUGETLB", NULL, PAGE, MAP_SHARED | MAP_HUGETLB, fd, 0);
	say("punch", madvise(p, PAGE, MADV_REMOVE));
	touch("punched", p, 0);
	close(fd);
	say("unlink", unlink(path));
	fd = open(path, O_RDONLY);
	say("gone", fd);
}

static void case_remap(void)
{
	char *p = map("map", 4 * PAGE, MAP_SHARED | ANON), *q, *to;

	touch("write", p + PAGE, 4);
	q = mremap(p, 4 * PAGE, 2 * PAGE, 0);
	say("shrink", (long)q);
	touch("cut off", p + 2 * PAGE, 0);
	say("grow", (long)mremap(p, 2 * PAGE, 4 * PAGE, MREMAP_MAYMOVE));
	say("unaligned", (long)mremap(p + 4096, PAGE, PAGE, MREMAP_MAYMOVE));
	to = mmap(NULL, 4 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	to += PAGE - (size_t)to % PAGE;
	q = mremap(p, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to);
	say("move", (long)q);
	touch("moved", to + PAGE, 0);
	touch("left", p, 0);
	say("fixed alone", (long)mremap(to, PAGE, PAGE, MREMAP_FIXED, p));
	say("not mapped", (long)mremap(p, PAGE, PAGE, MREMAP_MAYMOVE));
	say("unmap", munmap(to, 2 * PAGE));
	p = mmap(NULL, 8192, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	p = mremap(p, 8192, 1 << 20, MREMAP_MAYMOVE);
	say("small pages", (long)p);
	touch("small pages", p + (1 << 20) - 1, 1);
}

static void show_segment(const char *what, int id)
{
	struct shmid_ds segment;

	say(what, shmctl(id, IPC_STAT, &segment));
	printf("size %zu, attached %lu, mode %o, by %s\n", segment.shm_segsz,
	       (unsigned long)segment.shm_nattch, segment.shm_perm.mode & 0777,
	       segment.shm_cpid == getpid() ? "us" : "others");
}

static void attach_by_key(char *p)
{
	int id = shmget(SHM_KEY, 0, 0);
	char *q = shmat(id, NULL, 0);

	say("by key", id);
	say("attach", (long)q);
	touch("the parent's", q, 0);
	touch("for the parent", q + 1, 6);
	show_segment("three times", id);
	say("detach", shmdt(q));
}

static void case_shm(void)
{
	int id = shmget(SHM_KEY, 3 * PAGE - 5, IPC_CREAT | IPC_EXCL | SHM_HUGETLB | SHM_MODE);
	char *p, *q;

	say("get", id);
	show_segment("new", id);
	say("exclusively",
	    shmget(SHM_KEY, PAGE, IPC_CREAT | IPC_EXCL | SHM_HUGETLB | SHM_MODE));
	say("larger", shmget(SHM_KEY, 3 * PAGE, SHM_HUGETLB));
	say("the same",
	    shmget(SHM_KEY, PAGE, IPC_CREAT | SHM_HUGETLB | SHM_MODE) == id ? 0 : -1);
	p = shmat(id, NULL, 0);
	say("attach", (long)p);
	touch("write", p, 4);
	touch("the last page", p + 3 * PAGE - 1, 5);
	in_child(attach_by_key, p);
	touch("the child's", p + 1, 0);
	show_segment("once", id);
	q = shmat(id, NULL, SHM_RDONLY);
	say("read only", (long)q);
	touch("reads", q, 0);
	touch("writes", q, 1);
	say("detach", shmdt(q));
	say("detach again", shmdt(q));
	say("at an odd address", (long)shmat(id, p + 1, 0));
	say("where something is", (long)shmat(id, p, 0));
	say("replacing it", (long)shmat(id, p, SHM_REMAP));
	say("remove", shmctl(id, IPC_RMID, NULL));
	touch("still there", p, 0);
	say("detach", shmdt(p));
	say("by key", shmget(SHM_KEY, 0, 0));
	say("too large", shmget(IPC_PRIVATE, 17 * PAGE, IPC_CREAT | SHM_HUGETLB | SHM_MODE));
	say("of no size", shmget(IPC_PRIVATE, 0, IPC_CREAT | SHM_HUGETLB | SHM_MODE));
	id = shmget(IPC_PRIVATE, 16 * PAGE, IPC_CREAT | SHM_HUGETLB | SHM_MODE);
	say("all pages", id);
	say("remove", shmctl(id, IPC_RMID, NULL));
	say("attach", (long)shmat(id, NULL, 0));
	id = shmget(IPC_PRIVATE, 4096, IPC_CREAT | SHM_MODE);
	p = shmat(id, NULL, 0);
	touch("small pages", p, 3);
	say("detach", shmdt(p));
	say("remove", shmctl(id, IPC_RMID, NULL));
}

/* ---- many at once ---- */

#define STORM_THREADS 4
#define STORM_ROUNDS  40

/* In the middle of whatever the thread is doing. */
static void map_in_handler(int number)
{
	int saved_errno = errno;
	char *p = mmap(NULL, PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *q;

	q = mmap(NULL, PAGE, RW, MAP_SHARED | ANON, -1, 0);
	if (p != MAP_FAILED)
		munmap(p, PAGE);
	if (q != MAP_FAILED)
		munmap(q, PAGE);
	errno = saved_errno;
}

static void *storm_thread(void *data)
{
	long nr_wrong = 0;

	for (int i = 0; i < STORM_ROUNDS; i++) {
		char *p = mmap(NULL, 2 * PAGE, RW, (i % 2 ? MAP_SHARED : MAP_PRIVATE) | ANON,
			       -1, 0);
		pid_t child = -1;
		int status = 0;

		if (p == MAP_FAILED) {
			nr_wrong++;
			continue;
		}
		p[PAGE] = (char)i;
		if (i % 10 == 0)
			child = fork();
		if (child == 0)
			_exit(p[PAGE] != (char)i);
		if (child > 0)
			while (waitpid(child, &status, 0) < 0 && errno == EINTR)
				;
		nr_wrong += status != 0 || p[PAGE] != (char)i || p[0] != 0;
		nr_wrong += munmap(p, PAGE) < 0 || munmap(p + PAGE, PAGE) < 0;
	}
	return (void *)nr_wrong;
}

static void case_storm(void)
{
	struct sigaction action = {.sa_handler = map_in_handler, .sa_flags = SA_RESTART};
	struct itimerval often = {{0, 20000}, {0, 20000}}, never = {{0, 0}, {0, 0}};
	pthread_t threads[STORM_THREADS];
	long nr_wrong = 0;
	void *result;

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0; i < STORM_THREADS; i++)
		pthread_create(&threads[i], NULL, storm_thread, NULL);
	for (int i = 0; i < STORM_THREADS; i++) {
		pthread_join(threads[i], &result);
		nr_wrong += (long)result;
	}
	setitimer(ITIMER_REAL, &never, NULL);
	printf("%ld wrong\n", nr_wrong);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{"anonymous", case_anonymous},   {"limits", case_limits}, {"arguments", case_arguments},
	{"protection", case_protection}, {"memfd", case_memfd},   {"files", case_files},
	{"remap", case_remap},           {"shm", case_shm},       {"storm", case_storm},
};

int main(int argc, char **argv)
{
	const int signals[] = {SIGSEGV, SIGBUS};
	struct sigaction action = {.sa_handler = on_signal};

	if (argc != 3)
		return 2;
	directory = argv[2];
	for (size_t i = 0; i < 2; i++)
		sigaction(signals[i], &action, NULL);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(cases[i].name, argv[1]) == 0) {
			cases[i].run();
			return 0;
		}
	}
	return 2;
}
