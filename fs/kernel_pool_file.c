/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The loan from the kernel's pool as a file. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/kernel_pool.h"

int kernel_pool_save(const struct kernel_pool_loan *loan, int dir_fd, const char *name)
{
	FILE *file;
	int fd;

	fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	file = fdopen(fd, "w");
	if (!file) {
		close(fd);
		return -ENOMEM;
	}
	fprintf(file, "hugefuse-kernel-pool 1 %" PRIu64 " %d %" PRId64 "\n", loan->page_size,
		loan->nr_nodes, loan->overcommit);
	for (int node = 0; node < loan->nr_nodes; node++)
		fprintf(file, "%" PRId64 "\n", loan->node_pages[node]);
	return fclose(file) == 0 ? 0 : -errno;
}

/* The number at *@text, with @end behind it; *@text goes behind that. */
static int parse_number(const char **text, char end, int64_t *ret_value)
{
	long long value;
	char *rest;

	if (!isdigit((unsigned char)**text))
		return -EINVAL;
	errno = 0;
	value = strtoll(*text, &rest, 10);
	if (errno || *rest != end)
		return -EINVAL;
	*text = rest + 1;
	*ret_value = value;
	return 0;
}

/* Just what kernel_pool_save() writes: a number that was cut off is not taken for another. */
static int parse_loan(const char *text, struct kernel_pool_loan *loan)
{
	static const char magic[] = "hugefuse-kernel-pool 1 ";
	int64_t page_size, nr_nodes;

	if (strncmp(text, magic, strlen(magic)) != 0)
		return -EINVAL;
	text += strlen(magic);
	if (parse_number(&text, ' ', &page_size) < 0 ||
	    parse_number(&text, ' ', &nr_nodes) < 0 ||
	    parse_number(&text, '\n', &loan->overcommit) < 0)
		return -EINVAL;
	if (page_size == 0 || (page_size & (page_size - 1)) || nr_nodes < 1 ||
	    nr_nodes > POOL_MAX_NODES)
		return -EINVAL;
	loan->page_size = (uint64_t)page_size;
	loan->nr_nodes = (int)nr_nodes;
	for (int node = 0; node < loan->nr_nodes; node++) {
		if (parse_number(&text, '\n', &loan->node_pages[node]) < 0)
			return -EINVAL;
	}
	return *text ? -EINVAL : 0;
}

int kernel_pool_load(struct kernel_pool_loan *ret_loan, int dir_fd, const char *name)
{
	struct kernel_pool_loan loan = {0};
	char text[4096]; /* more than the longest loan */
	ssize_t len;
	int fd, r;

	fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	memset(text, 0, sizeof(text));
	len = read(fd, text, sizeof(text) - 1);
	if (len < 0)
		r = -errno;
	else if (strlen(text) != (size_t)len)
		r = -EINVAL;
	else
		r = parse_loan(text, &loan);
	close(fd);
	if (r == 0)
		*ret_loan = loan;
	return r;
}
