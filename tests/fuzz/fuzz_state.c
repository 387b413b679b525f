/* SPDX-License-Identifier: GPL-2.0-or-later */
/* state/kernel-pool: what is read is what would be written. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/kernel_pool.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char dir[] = "/tmp/hugefuse-fuzz-XXXXXX";
static int dir_fd = -1;

static void remove_dir(void)
{
	unlinkat(dir_fd, "loan", 0);
	unlinkat(dir_fd, "again", 0);
	rmdir(dir);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kernel_pool_loan loan, again;
	int fd;

	if (dir_fd < 0) {
		if (!mkdtemp(dir))
			abort();
		dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		atexit(remove_dir);
	}
	fd = openat(dir_fd, "loan", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	close(fd);
	if (kernel_pool_load(&loan, dir_fd, "loan") < 0)
		return 0;
	if (kernel_pool_save(&loan, dir_fd, "again") < 0 ||
	    kernel_pool_load(&again, dir_fd, "again") < 0)
		abort();
	if (loan.page_size != again.page_size || loan.nr_nodes != again.nr_nodes ||
	    loan.overcommit != again.overcommit)
		abort();
	for (int i = 0; i < loan.nr_nodes; i++) {
		if (loan.node_pages[i] != again.node_pages[i])
			abort();
	}
	return 0;
}
