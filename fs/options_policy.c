/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Mount options of the policies. No locks, as fs/options.c. */
#include "fs/options_policy.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "fs/memparse.h"

int options_set_split_queue(struct mount_options *options, const char *value)
{
	for (int mode = 0; mode < NR_SPLIT_MODES; mode++) {
		if (strcmp(value, split_mode_names[mode]) == 0) {
			options->split_queue = (enum split_mode)mode;
			return 0;
		}
	}
	return -EINVAL;
}

/* LOW:HIGH */
int options_set_split_marks(struct mount_options *options, const char *value)
{
	const char *colon = strchr(value, ':');
	uint64_t low = 0, high = 0;
	char text[8];
	int r;

	if (!colon || colon - value >= (ptrdiff_t)sizeof(text))
		return -EINVAL;
	memcpy(text, value, (size_t)(colon - value));
	text[colon - value] = '\0';
	r = memparse_number(text, 10, 0, 100, &low);
	if (r == 0)
		r = memparse_number(colon + 1, 10, 0, 100, &high);
	if (r < 0)
		return r;
	if (low > high)
		return -ERANGE;
	options->split_low = (uint32_t)low;
	options->split_high = (uint32_t)high;
	return 0;
}
