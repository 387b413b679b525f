/* SPDX-License-Identifier: GPL-2.0-or-later */
/* /proc/self/mountinfo, in which any user who may mount can have paths of any bytes. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/escape.h"
#include "tools/mountpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("mountinfo", MFD_CLOEXEC), nr;
	struct mountpoint *list = NULL;
	char path[40];

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	nr = mountpoint_list(path, &list);
	if (nr < 0)
		abort();
	for (int i = 0; i < nr; i++)
		free(escape_for_terminal(list[i].path));
	mountpoint_list_free(list, nr);
	close(fd);
	return 0;
}
