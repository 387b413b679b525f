/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Quota: the value of the extended attribute of a directory that has one.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <json-c/json.h>

/* Bytes. */
struct quota {
	bool has_size;
	uint64_t size, min_size, used, reserved;
	uint64_t files, refused; /* numbers */
};

/*
 * Parse the value of the extended attribute user.hugefuse.quota, "size=none,min_size=0,...",
 * which is changed. 0, or -EBADMSG where something is missing.
 */
int quota_parse(char *text, struct quota *ret_quota);
/* Add the members to a JSON object. */
void quota_add_json(json_object *object, const struct quota *quota);
