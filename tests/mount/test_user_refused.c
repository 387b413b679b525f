/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a user who is not root cannot mount, or lacks for it: one line says it, and nothing is
 * left.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixture.h"
#include "user.h"

static const char shm_dir[] = "/dev/shm/hugefuse-65534";

static void test_options_are_refused(void **state)
{
	user_refused("hugefuse mount -o source=/dev/shm,size=64M MOUNTPOINT", NULL);
	user_refused("it is on proc; accepted is a directory on hugetlbfs or tmpfs",
		     "source=/proc,size=8M");
	user_refused("No such file or directory", "source=/nowhere,size=8M");
	user_refused("not a directory", "source=%s/bin/hugefuse,size=8M");
	user_refused("this user cannot make files there: Permission denied", "source=%s/bin");
	user_refused("backing=thp", "source=%s/huge,backing=thp");
	user_refused("pagesize=1024M", "source=%s/huge,pagesize=1G");
	user_refused("nothing can be set aside", "source=%s/huge,min_size=2M");
	user_refused("the pool cannot be raised", "source=%s/huge,max_size=64M");
	user_refused("that nobody has reserved", "source=%s/huge,size=1T");
	user_refused("backing=hugetlb", "source=/dev/shm,size=8M,backing=hugetlb");
	user_refused("size= is needed", "source=/dev/shm");
	user_refused("pages of 2048 kB are to be set aside", "source=/dev/shm,size=1G");
	user_refused("'suid' is root's", "source=/dev/shm,size=8M,suid");
	user_refused("'dev' is root's", "source=/dev/shm,size=8M,dev");
	user_refused("'uid=0'", "source=/dev/shm,size=8M,uid=0");
	user_refused("'gid=0'", "source=/dev/shm,size=8M,gid=0");
	user_refused("'nr_inodes' is root's", "source=/dev/shm,size=8M,nr_inodes=100");
	user_refused("has a line 'user_allow_other'", "source=/dev/shm,size=8M,allow_other");
	user_expect_nothing_left();
}

static void limit(int resource, rlim_t value)
{
	struct rlimit rlimit = {value, value};

	if (setrlimit((__rlimit_resource_t)resource, &rlimit) < 0)
		_exit(125);
}

static void few_bytes(void)
{
	limit(RLIMIT_FSIZE, 1 * MB);
}

/* ASan takes more addresses than the limit by itself. */
#if defined(__SANITIZE_ADDRESS__)
#define TAKES_ADDRESSES true
#else
#define TAKES_ADDRESSES false
#endif

static void few_addresses(void)
{
	limit(RLIMIT_AS, 1024 * MB);
}

static void no_privileges(void)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		_exit(125);
}

static void test_limits_are_refused(void **state)
{
	user_before_exec = few_bytes;
	user_refused("ulimit -f", "source=/dev/shm,size=8M");
	user_refused("ulimit -f", "source=%s/huge");
	user_before_exec = few_addresses;
	if (!TAKES_ADDRESSES)
		user_refused("ulimit -v", "source=/dev/shm,size=8M");
	user_before_exec = no_privileges;
	user_refused("no_new_privs", "source=/dev/shm,size=8M");
	user_before_exec = NULL;
	user_expect_nothing_left();
}

static void test_what_is_missing(void **state)
{
	const char *options = "source=/dev/shm,size=8M";

	user_set_device("/dev/fuse", 0600);
	user_refused("chmod 0666 /dev/fuse", options);
	user_unset("/dev/fuse");
	user_cover("/dev/null", "/dev/fuse");
	user_refused("cannot mount FUSE there", options);
	user_unset("/dev/fuse");
	user_cover("/dev/null", user_fusermount);
	user_refused("apt-get install fuse3", options);
	user_unset(user_fusermount);
	user_cover(user_path("bin/hugefuse"), user_fusermount);
	user_refused("it is not set-user-id root", options);
	user_unset(user_fusermount);
	user_expect_nothing_left();
}

static void test_places_are_refused(void **state)
{
	assert_int_equal(chown(user_path("mnt"), 0, 0), 0);
	user_refused("user has no write access to mountpoint", "source=/dev/shm,size=8M");
	assert_int_equal(chown(user_path("mnt"), USER_ID, USER_ID), 0);
	/* Somebody else was there first. */
	user_runtime_dir = NULL;
	assert_int_equal(mkdir(shm_dir, 0777), 0);
	user_refused("has to be a directory of this user's", "source=/dev/shm,size=8M");
	assert_int_equal(rmdir(shm_dir), 0);
	assert_int_equal(symlink("/dev/shm", shm_dir), 0);
	user_refused("has to be a directory of this user's", "source=/dev/shm,size=8M");
	assert_int_equal(unlink(shm_dir), 0);
	user_expect_nothing_left();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_options_are_refused, user_end_test),
		cmocka_unit_test_teardown(test_limits_are_refused, user_end_test),
		cmocka_unit_test_teardown(test_what_is_missing, user_end_test),
		cmocka_unit_test_teardown(test_places_are_refused, user_end_test),
	};

	require_root();
	require_pages(PAGE_2M, USER_PAGES);
	return cmocka_run_group_tests(tests, user_begin, user_end);
}
