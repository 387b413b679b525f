/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Quota: what the tools say of tenants, for hugefuse quota and hugefuse stat.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <json-c/json.h>

#include "tools/snapshot.h"

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

/* Print the table of the tenants of a mount, if there are any. 0 or -ENOMEM. */
int quota_print_tenants(const struct snapshot_rows *tenants);
/* An array of them. */
json_object *quota_json_tenants(const struct snapshot_rows *tenants);
