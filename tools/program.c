/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tools/program.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

static bool is_program(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

int program_find(const char *name, char *ret_path, size_t size)
{
	const char *at = getenv("PATH"), *end;

	if (strchr(name, '/'))
		return snprintf(ret_path, size, "%s", name) < (int)size ? 0 : -ENAMETOOLONG;
	for (at = at ? at : "/bin:/usr/bin"; at; at = *end ? end + 1 : NULL) {
		end = strchrnul(at, ':');
		if (snprintf(ret_path, size, "%.*s%s%s", (int)(end - at), at,
			     end > at ? "/" : "", name) < (int)size &&
		    is_program(ret_path))
			return 0;
	}
	return -ENOENT;
}

static bool has_interpreter(int fd, const Elf64_Ehdr *header)
{
	Elf64_Phdr segment;

	for (int i = 0; i < header->e_phnum; i++) {
		off_t at = (off_t)header->e_phoff + (off_t)i * header->e_phentsize;

		if (pread(fd, &segment, sizeof(segment), at) != sizeof(segment))
			return true; /* not for us to judge */
		if (segment.p_type == PT_INTERP)
			return true;
	}
	return false;
}

/* "#!INTERPRETER [ARGUMENT]": the interpreter decides. */
static int kind_of_script(const char *text)
{
	char path[256];

	if (sscanf(text, "#! %255s", path) != 1)
		return PROGRAM_DYNAMIC;
	/* a script's script is not looked at */
	return strncmp(text, "#!", 2) == 0 ? program_kind(path) : PROGRAM_DYNAMIC;
}

int program_kind(const char *path)
{
	union {
		Elf64_Ehdr elf;
		char text[257];
	} head = {0};
	int fd, kind = PROGRAM_DYNAMIC;
	struct stat st;
	ssize_t len;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	len = pread(fd, &head, sizeof(head) - 1, 0);
	if ((fstat(fd, &st) == 0 && (st.st_mode & (S_ISUID | S_ISGID)) &&
	     geteuid() != st.st_uid) ||
	    (fgetxattr(fd, "security.capability", NULL, 0) > 0 && geteuid() != 0))
		kind = PROGRAM_SECURE;
	else if (len >= 2 && strncmp(head.text, "#!", 2) == 0)
		kind = kind_of_script(head.text);
	else if (len >= (ssize_t)sizeof(head.elf) &&
		 memcmp(head.elf.e_ident, ELFMAG, SELFMAG) == 0 &&
		 head.elf.e_ident[EI_CLASS] == ELFCLASS64 && !has_interpreter(fd, &head.elf))
		kind = PROGRAM_STATIC;
	close(fd);
	return kind;
}

void program_warn(const char *path, bool counters)
{
	int kind = program_kind(path);
	const char *what = NULL;

	if (kind == PROGRAM_STATIC)
		what = "is statically linked";
	else if (kind == PROGRAM_SECURE)
		what = "is set-user-id or has capabilities";
	if (what)
		fprintf(stderr,
			"hugefuse run: %s %s: nothing is preloaded into it, and its huge pages "
			"are the kernel's%s\n",
			path, what,
			counters ? ", though the counters that it sees are not" : "");
}
