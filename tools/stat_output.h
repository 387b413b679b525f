/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What hugefuse stat prints of a mount: text, JSON (docs/json.md), and Prometheus's text
 * format.
 */
#pragma once

#include <stdio.h>

#include <json-c/json.h>

#include "tools/mount_snapshot.h"

/* How many of those who have pages reserved are listed for people. */
#define STAT_MAX_STRANDED 5

/* 0 or -ENOMEM. */
int stat_print_text(const struct mount_snapshot *mount);

/* NULL where there is no memory. */
json_object *stat_json(const struct mount_snapshot *mount);

/*
 * The exposition format of version 0.0.4 for all mounts at once: a metric's lines have to stand
 * together. Units are bytes and seconds.
 */
void stat_print_prometheus(const struct mount_snapshot *mounts, size_t nr_mounts, FILE *out);
