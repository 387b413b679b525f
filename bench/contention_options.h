/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The command line of bench/contention. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "bench/contention_run.h"

/*
 * Read the arguments over the defaults. 0; 1 where --help was asked; or -EINVAL with one line
 * that says what is wrong, without the program's name, in @ret_error.
 */
int contention_parse(int argc, char **argv, struct contention_config *ret_config,
		     bool *ret_json, char *ret_error, size_t error_bytes);
/* The name of a hash, as in --hash. */
const char *contention_hash_name(enum fault_hash hash);
