/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The value of a quota for people and for programs. */
#include "tools/quota.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/output.h"

int quota_parse(char *text, struct quota *ret_quota)
{
	struct quota quota = {0};
	const struct {
		const char *name;
		uint64_t *value;
	} members[] = {
		{"size", &quota.size},   {"min_size", &quota.min_size},
		{"used", &quota.used},   {"reserved", &quota.reserved},
		{"files", &quota.files}, {"refused", &quota.refused},
	};
	size_t i, nr_found = 0;
	char *item, *save = NULL, *value, *end;

	for (item = strtok_r(text, ",", &save); item; item = strtok_r(NULL, ",", &save)) {
		value = strchr(item, '=');
		if (!value)
			return -EBADMSG;
		*value++ = '\0';
		for (i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
			if (strcmp(members[i].name, item) != 0)
				continue;
			nr_found++;
			if (i == 0 && strcmp(value, "none") == 0)
				continue;
			quota.has_size = quota.has_size || i == 0;
			*members[i].value = strtoull(value, &end, 10);
			if (end == value || *end)
				return -EBADMSG;
		}
	}
	if (nr_found != sizeof(members) / sizeof(members[0]))
		return -EBADMSG;
	*ret_quota = quota;
	return 0;
}

void quota_add_json(json_object *object, const struct quota *quota)
{
	json_object_object_add(object, "size",
			       quota->has_size ? json_object_new_uint64(quota->size) : NULL);
	json_object_object_add(object, "min_size", json_object_new_uint64(quota->min_size));
	json_object_object_add(object, "used", json_object_new_uint64(quota->used));
	json_object_object_add(object, "reserved", json_object_new_uint64(quota->reserved));
	json_object_object_add(object, "files", json_object_new_uint64(quota->files));
	json_object_object_add(object, "refused", json_object_new_uint64(quota->refused));
}
